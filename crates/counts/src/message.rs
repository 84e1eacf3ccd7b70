//! One command over RDMA in the controller's end of its queue pair, without the device: capsule in, work requests out.

use nvme::buffer::{BufferSource, BufferUse};
use nvme::queue::{FlowControl, TargetEvent};
use nvme::rdma::{COMMAND_BYTES, RdmaLimits, RdmaTarget, RdmaWork};
use nvme::spec::opcode::nvm;
use nvme::spec::{Cqe, Sgl, Sqe};
use std::hint::black_box;
use zerocopy::IntoBytes;

/// Bytes of data.
const DATA: u32 = 4096;
const LIMITS: RdmaLimits =
    RdmaLimits { entries: 128, transfer_max: 1 << 20, reads_max: 16, zeroes: 64 << 10 };
/// Entries of the send queue: always enough.
const ROOM: usize = 300;

/// The one buffer that is used again and again.
struct One(Option<Vec<u8>>);

impl BufferSource for One {
    type Buffer = Vec<u8>;

    fn take(&mut self, _length: usize, _purpose: BufferUse) -> Option<Vec<u8>> {
        self.0.take()
    }
}

pub(crate) fn reads(reads: u32) {
    run(nvm::READ, reads);
}

pub(crate) fn writes(writes: u32) {
    run(nvm::WRITE, writes);
}

fn run(opcode: u8, commands: u32) {
    let mut target = RdmaTarget::new(LIMITS);
    target.set_queue(LIMITS.entries, FlowControl::Enabled);
    let mut source = One(Some(vec![0; DATA as usize]));
    let mut events = Vec::new();
    while let Some(RdmaWork::Receive) = target.poll(ROOM, &mut events) {}
    let sgl = Sgl::Keyed { address: 1 << 40, length: DATA, key: 7, invalidates: true };
    for n in 0..commands {
        let sqe = Sqe::new(opcode).with_cid(n as u16).with_nsid(1).with_sgl(sgl);
        let command: [u8; COMMAND_BYTES] = sqe.as_bytes().try_into().expect("64 bytes");
        let taken = target.on_capsule(black_box(&command), COMMAND_BYTES as u32, &mut source, &mut events);
        taken.expect("the host keeps to the protocol");
        loop {
            for event in events.drain(..) {
                let TargetEvent::Command { sqe, data } = event else { panic!("{event:?}") };
                let cqe = Cqe::success(sqe.cid());
                match data {
                    Some(data) => {
                        source.0 = Some(data);
                        target.reply(cqe);
                    }
                    None => {
                        let data = source.0.take().expect("there is one command at a time");
                        target.reply_with_data(cqe, data, DATA);
                    }
                }
            }
            match target.poll(ROOM, &mut events) {
                Some(RdmaWork::Receive) => {}
                Some(RdmaWork::Read { tag, buffer, .. }) => target.on_read(tag, buffer, &mut events),
                Some(RdmaWork::Answer { data, cqe, .. }) => {
                    black_box(cqe);
                    source.0 = data.map(|data| data.buffer).or(source.0.take());
                }
                None => break,
            }
        }
    }
}
