//! For any bytes from a host, in any state of the queue: one answer, no panic, nothing out of range.

use crate::world::{World, config, host};
use nvme::spec::opcode::nvm;
use nvme::spec::{Direction, Sgl, Sqe};
use nvme::subsystem::{
    Action, BlockRange, BlockSize, IoCommand, IoOp, NamespaceInfo, Output, QueueKey, SubsystemConfig,
};
use proptest::prelude::*;
use units::Nanos;
use zerocopy::FromBytes;

/// A command: random bytes, or a known opcode with dwords that are often small.
fn any_sqe() -> impl Strategy<Value = Sqe> {
    let noise = any::<[u8; 32]>().prop_flat_map(|low| {
        any::<[u8; 32]>().prop_map(move |high| {
            let bytes = [low, high].concat();
            Sqe::read_from_bytes(&bytes).expect("64 bytes")
        })
    });
    let opcodes = vec![
        0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x0e, 0x11, 0x15, 0x18, 0x19, 0x19,
        0x7f, 0x80, 0xc1,
    ];
    let dword = prop_oneof![
        4 => 0u32..16,
        2 => prop::sample::select(vec![0x70, 0x80, 0x81, 0x82, 0x83, 0xc0, 0x0b, 0x0e, 0x16, 0x12]),
        2 => any::<u32>(),
        1 => (0u32..32, 0u32..16).prop_map(|(low, high)| high << 16 | low),
        1 => Just(u32::MAX),
        1 => prop::sample::select(vec![0x460060, 0x460061, 0x464061, 0x14, 0x1c]),
    ];
    let length = prop_oneof![
        Just(0u32),
        Just(512),
        Just(4096),
        Just(64),
        Just(16),
        Just(8),
        Just(1024),
        0u32..10_000,
        any::<u32>()
    ];
    let nsid = prop_oneof![6 => 0u32..5, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    let shaped = (prop::sample::select(opcodes), nsid, prop::array::uniform6(dword), length, any::<u16>())
        .prop_map(|(opcode, nsid, dwords, length, cid)| {
            let sgl = Sgl::Transport { length };
            Sqe::new(opcode).with_nsid(nsid).with_cdw10_15(dwords).with_sgl(sgl).with_cid(cid)
        });
    prop_oneof![1 => noise, 6 => shaped]
}

/// Each step: the queue, the command, its bytes of data, and the time that passes before it.
fn steps() -> impl Strategy<Value = Vec<(usize, Sqe, Option<usize>, u64)>> {
    let data = prop::option::of(prop_oneof![Just(16usize), Just(4096), Just(8), 0usize..9000]);
    prop::collection::vec((0usize..6, any_sqe(), data, 0u64..3000), 1..80)
}

fn check_io(world: &World, sqe: &Sqe, command: &IoCommand) {
    let (_, info, _) = world
        .subsystem
        .namespaces()
        .find(|(nsid, ..)| *nsid == command.nsid)
        .expect("an IO names a namespace that exists");
    let inside =
        |lba: u64, blocks: u32| lba.checked_add(u64::from(blocks)).is_some_and(|end| end <= info.blocks);
    match &command.op {
        IoOp::Flush => assert_eq!((command.lba.0, command.blocks), (0, 0)),
        IoOp::Deallocate(ranges) => {
            assert!(!ranges.is_empty());
            for range in ranges {
                assert!(
                    range.blocks > 0 && inside(range.lba.0, range.blocks),
                    "{range:?} of {}",
                    info.blocks
                );
            }
        }
        op => {
            assert!(command.blocks > 0 && inside(command.lba.0, command.blocks), "{command:?}");
            if let IoOp::Copy(ranges) = op {
                let inside = |range: &BlockRange| range.blocks > 0 && inside(range.lba.0, range.blocks);
                assert!(!ranges.is_empty() && ranges.iter().all(inside), "{command:?}");
                assert_eq!(ranges.iter().map(|range| range.blocks).sum::<u32>(), command.blocks);
            }
            let bytes = u64::from(command.blocks) * u64::from(info.block_size.bytes());
            if matches!(op, IoOp::Read | IoOp::Write | IoOp::Compare) {
                assert_eq!(bytes, u64::from(sqe.sgl_length()), "{command:?}");
            }
            if !matches!(op, IoOp::WriteZeroes { .. }) {
                assert!(bytes <= world.subsystem.limits().transfer_max.get(), "{command:?}");
            }
        }
    }
    let writes = !matches!(command.op, IoOp::Read | IoOp::Compare | IoOp::Verify | IoOp::Flush);
    assert!(!(writes && info.read_only), "{command:?} on a read-only namespace");
}

fn run(config: SubsystemConfig, steps: Vec<(usize, Sqe, Option<usize>, u64)>) {
    let mut world = World::new(config);
    let (one, two) = (world.remote(&host(1)), world.remote(&host(2)));
    let disabled = world.admin(&host(3));
    let stranger = QueueKey { slot: 1 << 16, generation: 0 };
    let queues = [one.admin, one.io, two.admin, two.io, disabled, stranger];
    let bytes: Vec<u8> = (0..9000u32).map(|n| (n % 7) as u8).collect();
    let mut pending = 0;
    let mut storing = Vec::new();
    for (queue, sqe, length, millis) in steps {
        world.now += Nanos::millis(millis);
        let data = length.map(|length| &bytes[..length]);
        match world.subsystem.on_command(world.now, queues[queue], &sqe, data) {
            Action::Reply { cqe, data } => {
                // The completion may be that of an earlier event request.
                assert!(cqe.cid() == sqe.cid() || sqe.opcode() == 0x0c, "{sqe:?} answered as {cqe:?}");
                if let Some(data) = data {
                    assert!(cqe.status().is_success() && data.len() <= sqe.sgl_length() as usize);
                    assert_eq!(sqe.direction(), Direction::FromController);
                }
            }
            Action::Credits { cqe, .. } => assert_eq!(cqe.cid(), sqe.cid()),
            Action::Authenticate(_) => assert!(sqe.is_fabrics()),
            Action::GrantQueues { queues: granted, cqe } => {
                assert_eq!(cqe.cid(), sqe.cid());
                assert!(granted > 0);
            }
            Action::Fence { queues: fenced, cqe, .. } => {
                assert_eq!(cqe.cid(), sqe.cid());
                assert!(!fenced.is_empty() && !fenced.contains(&queues[queue]));
            }
            Action::Abort { queue, cqe, .. } => {
                assert_eq!((cqe.cid(), sqe.opcode()), (sqe.cid(), 0x08));
                assert!([one.io, two.io].contains(&queue));
            }
            Action::Pending => {
                assert_eq!(sqe.opcode(), 0x0c);
                pending += 1;
            }
            Action::Storing => storing.push(sqe.cid()),
            Action::Io(command) => {
                assert!(queue == 1 || queue == 3, "queue {queue} gave an IO");
                check_io(&world, &sqe, &command);
                world.subsystem.on_io_completed(
                    queues[queue],
                    sqe.cid(),
                    &command,
                    nvme::spec::Status::SUCCESS,
                );
            }
        }
        let mut outputs = world.outputs();
        assert!(
            outputs.len() <= 5 + pending + storing.len(),
            "more output than there are queues and requests"
        );
        // Storing fails for every other copy.
        while let Some(output) = outputs.pop() {
            match output {
                Output::Store { nsid, ticket, .. } => {
                    world.subsystem.on_stored(nsid, ticket, ticket % 2 == 0);
                    outputs.extend(world.outputs());
                }
                Output::Complete { cqe, .. } | Output::Fence { cqe, .. } => {
                    storing.retain(|cid| *cid != cqe.cid());
                }
                Output::CloseQueue { .. } | Output::Forget { .. } => {}
            }
        }
        assert_eq!(storing, [], "every command is answered");
        for (nsid, ..) in world.subsystem.namespaces() {
            world.subsystem.reservations(nsid).expect("just listed").check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_command_gets_an_answer(steps in steps()) {
        let read_only = NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B4096, 10) };
        let config = config()
            .with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 3))
            .with_namespace(4, read_only);
        run(SubsystemConfig { persistence: true, ..config.clone() }, steps.clone());
        run(config, steps);
    }

    #[test]
    fn any_command_to_discovery_gets_an_answer(steps in steps()) {
        let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
        let admin = world.admin(&host(1));
        world.configure(admin, 0x460061);
        for (_, sqe, length, _) in steps {
            let bytes = vec![1; length.unwrap_or_default()];
            match world.subsystem.on_command(world.now, admin, &sqe, length.map(|_| &bytes[..])) {
                Action::Reply { .. } | Action::Pending => {}
                other => panic!("{other:?} from a discovery controller"),
            }
        }
    }

    /// Valid commands of any length and position, so both outcomes of each check are tested.
    #[test]
    fn an_io_command_is_within_its_namespace(
        opcode in prop::sample::select(vec![nvm::READ, nvm::WRITE, nvm::COMPARE, nvm::VERIFY, nvm::WRITE_ZEROES]),
        lba in prop_oneof![0u64..8, any::<u64>(), (u64::MAX - 4)..=u64::MAX],
        blocks in 1u32..8,
    ) {
        let mut world = World::new(config().with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 5)));
        let io = world.remote(&host(1)).io;
        let moves = matches!(opcode, nvm::READ | nvm::WRITE | nvm::COMPARE);
        let length = if moves { blocks as usize * 4096 } else { 0 };
        let sqe = crate::world::io_command(opcode, lba, blocks).with_nsid(2);
        let accepted = matches!(world.send(io, sqe, length, &vec![0; length]), Action::Io(_));
        let inside = u128::from(lba) + u128::from(blocks) <= 5;
        prop_assert_eq!(accepted, inside);
    }
}
