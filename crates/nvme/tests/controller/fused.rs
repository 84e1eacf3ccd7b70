//! Compare and Write: when two commands become one IO, and their statuses when they do not.

use crate::world::{World, config, host, io_command};
use nvme::spec::identify::cns;
use nvme::spec::log::{self, HealthPage, LogRequest};
use nvme::spec::opcode::nvm;
use nvme::spec::{Sgl, Sqe, Status};
use nvme::subsystem::{BlockSize, FusedAction, IoCommand, IoOp, NamespaceInfo, QueueKey};
use units::Lba;
use zerocopy::FromBytes;

const BLOCK: [u8; 512] = [7; 512];

fn pair(lba: u64, blocks: u32) -> [Sqe; 2] {
    let sgl = Sgl::Transport { length: blocks * 512 };
    let half =
        |opcode, cid, fuse| io_command(opcode, lba, blocks).with_cid(cid).with_flags(fuse).with_sgl(sgl);
    [half(nvm::COMPARE, 1, 0x41), half(nvm::WRITE, 2, 0x42)]
}

fn send(world: &mut World, io: QueueKey, [first, second]: [Sqe; 2]) -> Result<IoCommand, [Status; 2]> {
    let data = vec![7; 4096];
    match world.subsystem.on_fused_commands(io, [&first, &second], [Some(&data), Some(&data)]) {
        FusedAction::Io(command) => Ok(command),
        FusedAction::Reply(cqes) => {
            assert_eq!(cqes.map(|cqe| cqe.cid()), [first.cid(), second.cid()]);
            Err(cqes.map(|cqe| cqe.status()))
        }
    }
}

#[test]
fn a_pair_is_accepted_only_if_each_half_would_be() {
    let read_only = NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B512, 10) };
    let mut world = World::new(config().with_namespace(2, read_only));
    let io = world.remote(&host(1)).io;
    let command = send(&mut world, io, pair(9, 1)).expect("one block");
    assert_eq!(
        (command.op, command.lba, command.blocks, command.fua),
        (IoOp::CompareAndWrite, Lba(9), 1, false)
    );
    let [first, second] = pair(9, 1);
    let forced = second.with_cdw10_15([9, 0, 1 << 30, 0, 0, 0]);
    assert!(send(&mut world, io, [first, forced]).expect("one block").fua);

    let both = |status| Err([status; 2]);
    assert_eq!(send(&mut world, io, pair(9, 2)), both(Status::ATOMIC_WRITE_UNIT_EXCEEDED));
    assert_eq!(send(&mut world, io, [first, pair(8, 1)[1]]), both(Status::INVALID_FIELD), "another block");
    assert_eq!(send(&mut world, io, [first, second.with_nsid(2)]), both(Status::INVALID_FIELD));
    assert_eq!(send(&mut world, io, [second, first]), both(Status::INVALID_FIELD), "in the wrong order");
    let write = io_command(nvm::WRITE, 9, 1).with_sgl(first.sgl());
    assert_eq!(send(&mut world, io, [write, second]), both(Status::INVALID_FIELD), "two writes");

    let beyond = pair(1 << 40, 1);
    assert_eq!(send(&mut world, io, beyond), Err([Status::LBA_OUT_OF_RANGE, Status::FAILED_FUSED]));
    let protected = pair(9, 1).map(|sqe| sqe.with_nsid(2));
    assert_eq!(send(&mut world, io, protected), Err([Status::FAILED_FUSED, Status::WRITE_PROTECTED]));
    let short = second.with_sgl(Sgl::Transport { length: 8 });
    assert_eq!(
        send(&mut world, io, [first, short]),
        Err([Status::FAILED_FUSED, Status::DATA_SGL_LENGTH_INVALID])
    );
}

#[test]
fn reservations_hold_for_both_halves() {
    let mut world = World::io();
    let (owner, other) = (world.remote(&host(1)), world.remote(&host(2)));
    let register = Sqe::new(nvm::RESERVATION_REGISTER).with_nsid(1);
    let keys = [0u64, 5].map(u64::to_le_bytes).concat();
    assert_eq!(world.tell(owner.io, register, &keys), Status::SUCCESS);
    // Write Exclusive: others may read, so it is the Write that fails.
    let acquire = Sqe::new(nvm::RESERVATION_ACQUIRE).with_nsid(1).with_cdw10_15([1 << 8, 0, 0, 0, 0, 0]);
    assert_eq!(world.tell(owner.io, acquire, &[5u64, 0].map(u64::to_le_bytes).concat()), Status::SUCCESS);
    assert!(send(&mut world, owner.io, pair(0, 1)).is_ok());
    let refused = Err([Status::FAILED_FUSED, Status::RESERVATION_CONFLICT]);
    assert_eq!(send(&mut world, other.io, pair(0, 1)), refused);
}

#[test]
fn a_pair_is_counted_and_its_failures_are_logged() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let command = send(&mut world, remote.io, pair(9, 1)).expect("one block");
    let (one, failed) = ([Status::SUCCESS; 2], [Status::COMPARE_FAILURE, Status::FAILED_FUSED]);
    world.subsystem.on_fused_completed(remote.io, [1, 2], &command, one);
    world.subsystem.on_fused_completed(remote.io, [3, 4], &command, failed);
    let page = world.log(remote.admin, LogRequest::read(log::HEALTH, 0, 512), u32::MAX).expect("log 02h");
    let page = HealthPage::read_from_bytes(&page).expect("512 bytes");
    assert_eq!((page.host_read_commands.get(), page.host_write_commands.get()), (1, 1));
    let errors =
        world.log(remote.admin, LogRequest::read(log::ERROR_INFORMATION, 0, 128), 0).expect("log 01h");
    assert_eq!((errors[10], errors[64 + 10]), (4, 3), "the newest first");
}

#[test]
fn fused_commands_are_reported_in_identify_or_refused() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!((page[522], &page[532..534]), (1, &[0, 0][..]), "FUSES; ACWU is one block");
    let mut bare = config();
    bare.commands.compare = false;
    let mut world = World::new(bare);
    let remote = world.remote(&host(1));
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(page[522], 0);
    assert_eq!(send(&mut world, remote.io, pair(9, 1)), Err([Status::INVALID_FIELD; 2]));
    assert_eq!(send(&mut world, remote.admin, pair(9, 1)), Err([Status::INVALID_FIELD; 2]));
    let [compare, _] = pair(9, 1);
    assert_eq!(world.tell(remote.io, compare, &BLOCK), Status::INVALID_FIELD, "one half alone");
}
