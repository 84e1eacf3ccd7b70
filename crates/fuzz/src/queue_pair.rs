//! The controller's end of a queue pair of NVMe/RDMA, facing a host that may do anything: any private data; capsules that are valid, nearly valid or any
//! bytes; answers that the host never takes, reads that never end, late replies, cancels, a lack of buffers.
//!
//! Holds: private data that is accepted is within the bounds, and written again as it was; receives, reads in flight, outstanding commands and
//!        waiting answers are bounded by the queue's entries; work takes no more of the send queue than it says; a command is
//!        passed on once at a time, and answered once; all buffers come back.

use crate::input::Input;
use crate::pool::{Counted, Live, Pool};
use nvme::buffer::Buffer;
use nvme::queue::{Cancel, FlowControl, TargetEvent};
use nvme::rdma::{
    Accepted, COMMAND_BYTES, OpenQueue, QueueBounds, RdmaLimits, RdmaTarget, RdmaWork, Rejection,
};
use nvme::spec::{Cqe, Direction, Sgl, Sqe, Status};
use std::collections::BTreeMap;
use std::rc::Rc;
use zerocopy::IntoBytes;

const BOUNDS: QueueBounds = QueueBounds { entries: 64, io_queues: 8 };
const TRANSFER_MAX: u32 = 16384;
const ZEROES: u32 = 4096;
/// Commands that may be outstanding before Connect.
const BEFORE_CONNECT: usize = 8;
/// Answers that may wait beyond twice the queue size: refusals.
const TRANSMIT_SLACK: usize = 24;
/// Few identifiers, so that commands often have the same one.
const CIDS: u32 = 6;
const STEPS_MAX: u32 = 512;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    open(&mut input);
    attack(&mut input);
}

/// Any private data of a request and of its answers.
fn open(input: &mut Input<'_>) {
    let mut data = OpenQueue { queue_id: 0, host_receives: 32, entries: 32 }.to_bytes().to_vec();
    for _ in 0..input.below(8) {
        let at = input.below(data.len() as u32) as usize;
        data[at] = input.byte();
    }
    data.resize(input.below(200) as usize, 0);
    let reads = input.below(3);
    match OpenQueue::parse(&data, reads, BOUNDS) {
        Ok(open) => {
            assert!((2..=BOUNDS.entries).contains(&open.entries) && open.queue_id <= BOUNDS.io_queues);
            assert!(reads > 0 && open.host_receives > 0 && data.starts_with(&open.to_bytes()[..8]));
        }
        Err(rejection) => assert_eq!(Rejection::from_bytes(&rejection.to_bytes()), Some(rejection)),
    }
    // The same bytes as an answer, which hosts read.
    let accepted = Accepted::parse(&data);
    assert!(accepted.is_none_or(|accepted| accepted.to_bytes()[..4] == data[..4]));
}

fn attack(input: &mut Input<'_>) {
    let limits = RdmaLimits {
        entries: 2 + input.below(14),
        transfer_max: TRANSFER_MAX,
        reads_max: 1 + input.below(4),
        zeroes: ZEROES,
    };
    let live = Rc::new(Live::default());
    let mut pool =
        Pool { left: usize::from(input.byte()), live: Rc::clone(&live), length_max: TRANSFER_MAX as usize };
    let mut target: RdmaTarget<Counted> = RdmaTarget::new(limits);
    if input.flag() {
        target.set_queue(1 + input.below(limits.entries), FlowControl::Enabled);
    }
    if input.flag() {
        target.allow_fused();
    }
    let capacity = RdmaTarget::<Counted>::sends(&limits) as usize;
    let (mut receives, mut room) = (0, capacity);
    // Commands that the layer above has, and whether each waits for an event.
    let mut delivered: BTreeMap<u16, (Sqe, bool)> = BTreeMap::new();
    let mut reads: Vec<(u16, Counted)> = Vec::new();
    let mut answers: Vec<(usize, Option<Counted>)> = Vec::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let mut events = Vec::new();
        match input.below(10) {
            0..=3 if receives > 0 => {
                receives -= 1;
                let length = if input.one_in(64) { input.below(64) } else { COMMAND_BYTES as u32 };
                if target.on_capsule(&command(input), length, &mut pool, &mut events).is_err() {
                    break;
                }
            }
            4 if !reads.is_empty() => {
                let (tag, buffer) = reads.swap_remove(input.below(reads.len() as u32) as usize);
                target.on_read(tag, buffer, &mut events);
            }
            5 if !answers.is_empty() => {
                let (cost, buffer) = answers.remove(0);
                room += cost;
                drop(buffer);
            }
            6 => {
                if let Some((cid, (sqe, _))) =
                    delivered.iter().find(|(_, (_, held))| !held).map(|(cid, of)| (*cid, *of))
                {
                    delivered.remove(&cid);
                    answer(input, &mut target, &sqe, &live);
                }
            }
            7 => {
                pool.left = usize::from(input.byte());
                target.resume(&mut pool);
            }
            8 => {
                let cid = input.below(CIDS) as u16;
                match target.cancel(cid, Status::ABORT_REQUESTED) {
                    Cancel::Delivered => {
                        if let Some((_, held)) = delivered.get_mut(&cid)
                            && input.flag()
                        {
                            *held = true;
                            target.hold(cid);
                        }
                    }
                    Cancel::Answered | Cancel::Draining => assert!(!delivered.contains_key(&cid)),
                    Cancel::Unknown => {}
                }
            }
            _ => match target.poll(room, &mut events) {
                Some(RdmaWork::Receive) => receives += 1,
                Some(RdmaWork::Read { tag, buffer, length, .. }) => {
                    assert!(length > 0 && length as usize <= buffer.bytes().len());
                    room = room.checked_sub(1).expect("a read takes an entry");
                    reads.push((tag, buffer));
                }
                Some(RdmaWork::Answer { data, .. }) => {
                    let cost = data
                        .as_ref()
                        .map_or(1, |data| RdmaTarget::<Counted>::cost(data.held, data.length, ZEROES));
                    room = room.checked_sub(cost).expect("an answer takes no more than there is");
                    answers.push((cost, data.map(|data| data.buffer)));
                }
                None => {}
            },
        }
        target.take_discarded(drop);
        take_in(events, &mut delivered);
        let entries = (limits.entries as usize).max(BEFORE_CONNECT);
        assert!(receives <= limits.entries && reads.len() <= limits.reads_max as usize);
        assert!(target.outstanding() <= entries && target.parked() <= entries);
        assert!(target.transmit_pending() <= 2 * entries + TRANSMIT_SLACK, "answers wait without bound");
    }
    drop((reads, answers));
    target.into_buffers(drop);
    assert_eq!((live.buffers.get(), live.bytes.get()), (0, 0), "every buffer comes back");
}

fn take_in(events: Vec<TargetEvent<Counted>>, delivered: &mut BTreeMap<u16, (Sqe, bool)>) {
    for event in events {
        match event {
            TargetEvent::Command { sqe, data } => deliver(sqe, data, delivered),
            TargetEvent::Fused { halves } => {
                halves.into_iter().for_each(|(sqe, data)| deliver(sqe, data, delivered));
            }
            TargetEvent::GivenUp { cid } => drop(delivered.remove(&cid)),
            TargetEvent::Refused { .. } => {}
            TargetEvent::Initialized => unreachable!("there is no handshake"),
        }
    }
}

fn deliver(sqe: Sqe, data: Option<Counted>, delivered: &mut BTreeMap<u16, (Sqe, bool)>) {
    let length = if sqe.direction() == Direction::ToController { sqe.sgl_length() as usize } else { 0 };
    assert!(data.is_none_or(|data| data.bytes().len() >= length));
    assert!(delivered.insert(sqe.cid(), (sqe, false)).is_none(), "passed on twice");
}

fn answer(input: &mut Input<'_>, target: &mut RdmaTarget<Counted>, sqe: &Sqe, live: &Rc<Live>) {
    let status = if input.one_in(4) { Status::INTERNAL_ERROR } else { Status::SUCCESS };
    let cqe = Cqe::new(sqe.cid(), status);
    let asked = if sqe.direction() == Direction::FromController { sqe.sgl_length() } else { 0 };
    if asked == 0 {
        return target.reply(cqe);
    }
    let length = 1 + input.below(asked);
    let held = input.below(length + 1) as usize;
    target.reply_with_data(cqe, Counted::new(vec![1; held], live), length);
}

/// A command of any kind; often one that is nearly right.
fn command(input: &mut Input<'_>) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    if input.one_in(8) {
        bytes.fill_with(|| input.byte());
        return bytes;
    }
    let length = input.pick(&[0, 512, 4096, TRANSFER_MAX, TRANSFER_MAX + 1, 0xff_ffff]);
    let sgl = match input.below(6) {
        0 => Sgl::InCapsule { offset: u64::from(input.byte()), length },
        1 => Sgl::Transport { length },
        2 => Sgl::Other(input.byte()),
        _ => Sgl::Keyed { address: input.long(), length, key: input.word(), invalidates: input.flag() },
    };
    let opcode = input.pick(&[0, 1, 2, 5, 0x7f]);
    let flags = if input.one_in(8) { input.byte() } else { 0x40 };
    let sqe = Sqe::new(opcode).with_cid(input.below(CIDS) as u16).with_flags(flags).with_sgl(sgl);
    bytes.copy_from_slice(sqe.as_bytes());
    bytes
}
