//! Worlds by seed: commands, sizes, memory, order and faults are drawn; checkers are in `world` and `network`.

use super::world::{Counted, FLUSH, READ, WRITE, World};
use nvme::queue::{Cancel, FlowControl, TargetEvent};
use nvme::rdma::{COMMAND_BYTES, RdmaLimits, RdmaTarget, RdmaWork};
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use zerocopy::IntoBytes;

/// Worlds of every run of the tests, and of a long one.
const WORLDS: u64 = if cfg!(miri) { 3 } else { 20_000 };
const WORLDS_LONG: u64 = 1_000_000;
/// Steps after which a world that does not end is stuck.
const STEPS_MAX: u32 = 200_000;

fn limits(rng: &mut impl Rng) -> RdmaLimits {
    RdmaLimits {
        entries: rng.random_range(2..=12),
        transfer_max: 16 << 10,
        reads_max: rng.random_range(1..=4),
        zeroes: [512, 4096][rng.random_range(0..2)],
    }
}

/// Faults of one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The link is cut.
    Cut,
    /// The host withdraws the key of a command.
    Key,
}

fn run_world(seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let limits = limits(&mut rng);
    let fault = [Fault::None, Fault::None, Fault::Cut, Fault::Key][rng.random_range(0..4)];
    let few = rng.random_range(1..=2 * limits.entries as usize + 4);
    let mut world = World::new(limits, few);
    world.held_max = [u32::MAX, 1000, 0][rng.random_range(0..3)];
    world.grant();
    let mut left = rng.random_range(1..=20u16);
    let fault_at = rng.random_range(0..200);
    for step in 0.. {
        assert!(step < STEPS_MAX, "world {seed} is stuck: {limits:?}, {few} buffers, {fault:?}");
        if fault != Fault::None && step == fault_at {
            let key = (0..20).find_map(|cid| world.key_of(cid));
            if fault == Fault::Cut {
                break;
            }
            if let Some(key) = key {
                world.memory.deregister(key);
                break;
            }
        }
        match rng.random_range(0..12) {
            0 if left > 0 => {
                let opcode = [READ, WRITE, FLUSH][rng.random_range(0..3)];
                let length = [512, 4096, 16 << 10, rng.random_range(1..16 << 10)][rng.random_range(0..4)];
                let length = if opcode == FLUSH { 0 } else { length };
                left -= u16::from(world.submit(opcode, left, length, rng.random()));
            }
            0 | 1 => drop(world.post_of_host()),
            2 => drop(world.execute_of_host()),
            3 => drop(world.post_of_target()),
            4 => drop(world.execute_of_target()),
            5 => drop(world.end_read(&mut rng)),
            6 => drop(world.tell_target().expect("our host keeps to the protocol")),
            7 => drop(world.tell_host().expect("our target keeps to the protocol")),
            8 if !world.delivered.is_empty() => {
                let status = if rng.random_bool(0.2) { Status::INTERNAL_ERROR } else { Status::SUCCESS };
                world.answer(rng.random_range(0..world.delivered.len()), status);
            }
            9 => {
                // The host's own buffers are counted as well.
                world.source.limit = few + world.host.outstanding();
                world.resume();
            }
            10 if rng.random_bool(0.05) => {
                let cancel = world.cancel(rng.random_range(1..=20));
                assert!(matches!(
                    cancel,
                    Cancel::Answered | Cancel::Draining | Cancel::Delivered | Cancel::Unknown
                ));
            }
            _ => {}
        }
        let outstanding = world.target.outstanding();
        assert!(outstanding <= 2 * limits.entries as usize, "{outstanding} of {limits:?}");
        assert_eq!(world.broken(), None, "world {seed}");
        if left == 0 && world.is_idle() && world.delivered.is_empty() {
            break;
        }
    }
    if fault == Fault::Key {
        // The target meets the key or does not; nothing panics, and nothing is lost.
        for _ in 0..200 {
            world.post_of_target();
            world.execute_of_target();
            world.end_read(&mut rng);
            if world.broken().is_some() {
                break;
            }
        }
    }
    world.end();
}

#[test]
fn a_fabric_with_faults_loses_nothing() {
    (0..WORLDS).for_each(run_world);
}

#[test]
#[ignore = "long: a million worlds"]
fn a_million_fabrics_with_faults_lose_nothing() {
    (0..WORLDS_LONG).for_each(|seed| run_world(seed ^ 0x5eed_0000_0000));
}

/// A host that sends anything at any time, and takes answers or does not.
fn run_hostile(seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let limits = limits(&mut rng);
    let mut world = World::new(limits, 64);
    if rng.random_bool(0.8) {
        world.target.set_queue(rng.random_range(1..=limits.entries), FlowControl::Enabled);
    }
    if rng.random() {
        world.target.allow_fused();
    }
    let mut waiting: Vec<Cqe> = Vec::new();
    // Work that the host never lets end: its buffers.
    let mut stuck = Vec::new();
    let mut receives = 0u32;
    let mut room = RdmaTarget::<Counted>::sends(&limits) as usize;
    let mut reads = 0;
    for _ in 0..rng.random_range(1..300) {
        let mut events = Vec::new();
        match rng.random_range(0..8) {
            0..=3 if receives > 0 => {
                receives -= 1;
                let length =
                    if rng.random_bool(0.02) { rng.random_range(0..64) } else { COMMAND_BYTES as u32 };
                let command = any_command(&mut rng);
                if world.target.on_capsule(&command, length, &mut world.source, &mut events).is_err() {
                    break;
                }
            }
            4 if !waiting.is_empty() => {
                let cqe = waiting.swap_remove(rng.random_range(0..waiting.len()));
                world.target.reply(cqe);
            }
            5 => {
                world.source.limit = rng.random_range(0..128);
                world.target.resume(&mut world.source);
            }
            6 => {
                let cid = rng.random_range(0..8);
                if world.target.cancel(cid, Status::ABORT_REQUESTED) == Cancel::Delivered {
                    world.target.hold(cid);
                }
            }
            _ => match world.target.poll(room, &mut events) {
                Some(RdmaWork::Receive) => receives += 1,
                Some(RdmaWork::Read { buffer, .. }) => {
                    room -= 1;
                    reads += 1;
                    assert!(reads <= limits.reads_max, "reads beyond the limit");
                    stuck.push(buffer);
                }
                Some(RdmaWork::Answer { data, .. }) => {
                    let answer = data.as_ref();
                    room -= answer
                        .map_or(1, |data| RdmaTarget::<Counted>::cost(data.held, data.length, limits.zeroes));
                    stuck.extend(data.map(|data| data.buffer));
                }
                None => {}
            },
        }
        world.target.take_discarded(drop);
        for event in events {
            match event {
                TargetEvent::Command { sqe, .. } => waiting.push(Cqe::success(sqe.cid())),
                TargetEvent::Fused { halves } => {
                    waiting.extend(halves.iter().map(|(sqe, _)| Cqe::success(sqe.cid())));
                }
                TargetEvent::GivenUp { cid } => waiting.retain(|cqe| cqe.cid() != cid),
                TargetEvent::Refused { .. } | TargetEvent::Initialized => {}
            }
        }
        let entries = limits.entries.max(8) as usize;
        assert!(receives <= limits.entries, "{receives} receives");
        assert!(world.target.outstanding() <= 2 * entries, "{} commands", world.target.outstanding());
        assert!(world.target.transmit_pending() <= 3 * entries + 16, "answers wait without bound");
    }
    drop(stuck);
    world.end();
}

/// A command of any kind; often one that is nearly right.
fn any_command(rng: &mut impl Rng) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    if rng.random_bool(0.2) {
        rng.fill(&mut bytes);
        return bytes;
    }
    let length = [0, 512, 4096, 16 << 10, (16 << 10) + 1, 0xff_ffff][rng.random_range(0..6)];
    let sgl = match rng.random_range(0..5) {
        0 => Sgl::InCapsule { offset: u64::from(rng.random_bool(0.1)), length },
        1 => Sgl::Transport { length },
        2 => Sgl::Other(rng.random()),
        _ => Sgl::Keyed { address: rng.random(), length, key: rng.random(), invalidates: rng.random() },
    };
    let opcode = [0, 1, 2, 5, 0x7f, rng.random()][rng.random_range(0..6)];
    let flags = if rng.random_bool(0.1) {
        rng.random()
    } else {
        0x40 | (rng.random_range(0..4) * u8::from(rng.random_bool(0.2)))
    };
    let sqe = Sqe::new(opcode).with_cid(rng.random_range(0..8)).with_flags(flags).with_sgl(sgl);
    bytes.copy_from_slice(sqe.as_bytes());
    bytes
}

#[test]
fn a_target_survives_any_host_within_its_bounds() {
    (0..WORLDS).for_each(run_hostile);
}

#[test]
#[ignore = "long: a million hosts"]
fn a_target_survives_a_million_hosts_within_its_bounds() {
    (0..WORLDS_LONG).for_each(|seed| run_hostile(seed ^ 0xbad_0000_0000));
}
