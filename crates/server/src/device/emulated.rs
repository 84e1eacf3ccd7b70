//! A modelled SSD in real time: the model gives the latency; memory, a sparse file, or nothing holds the data.
//!
//! ```text
//!   submit ──┬─► model ─── its instant ───┐
//!            └─► contents ── data moved ──┴─► finished, when both are done
//! ```
//!
//! Data moves at submission, so an IO takes effect between its submission and its completion, as on a real SSD. Only the model
//! determines the latency. The device can be larger than the modelled SSD: then several of its addresses are one on the model.
//!
//! The model has many events between two completions. They need not run in real time: each is run later, at its own instant of the
//! device's clock. The thread sleeps until a completion may be due (`Ssd::completion_bound`). If it wakes up late, the host gets its
//! answer late, but the latency that the scheduler sees, and the further behaviour of the SSD, are the model's.

use super::erase::BYTES_PER_TABLE_BYTE;
use super::file::FileDevice;
use super::sparse::SparseMemory;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, Quote};
use crate::slab::{Key, Slab};
use reactor::{IoBuffer, Reactor, Token};
use ssd::{Command, CommandKind, Completion, SLOT_BYTES, Ssd};
use std::io;
use units::{Bytes, Instant, Nanos};

/// Without outstanding IOs, the background work of the model (programs, garbage collection) runs this often, on the device's clock. So
/// the next IO does not have to wait for much of it.
const BACKGROUND: Nanos = Nanos::millis(1);

/// Where the contents are.
pub(crate) enum Contents {
    /// In memory.
    Memory(SparseMemory),
    /// In a sparse file.
    File(FileDevice),
    /// Nowhere. A pool zeroes read buffers when it makes them, and only devices write to them.
    Nothing,
}

struct InFlight {
    tag: u64,
    /// On the device's clock.
    submitted: Instant,
    /// The latency of the model, when it is known.
    latency: Option<Nanos>,
    /// How late the completion was noticed: when the model was run that far.
    late: Nanos,
    /// The result of moving the data, when it is known.
    moved: Option<io::Result<()>>,
    buffer: Option<IoBuffer>,
}

/// A modelled SSD.
pub(crate) struct EmulatedDevice {
    model: Ssd,
    clock: DeviceClock,
    contents: Contents,
    in_flight: Slab<InFlight>,
    /// The time up to which the model was run, on the device's clock.
    reached: Instant,
    /// Completions of one `advance`, kept for its memory.
    ended: Vec<Completion>,
    done: Vec<DeviceDone>,
    /// Completions of the sparse file; the vector is kept for its memory.
    moved: Vec<DeviceDone>,
}

impl EmulatedDevice {
    /// Makes an SSD on the given clock.
    pub(crate) fn new(model: Ssd, clock: DeviceClock, contents: Contents) -> EmulatedDevice {
        EmulatedDevice {
            model,
            clock,
            contents,
            in_flight: Slab::new(),
            reached: Instant::ZERO,
            ended: Vec::new(),
            done: Vec::new(),
            moved: Vec::new(),
        }
    }

    /// The command of the model that takes as long as `io`.
    fn command(&self, key: Key, io: &DeviceIo) -> Command {
        let kind = match io.op {
            DeviceOp::Read(_) => CommandKind::Read,
            DeviceOp::Write { .. } => CommandKind::Write,
            DeviceOp::Flush => CommandKind::Flush,
            // An SSD zeroes blocks by unmapping them.
            DeviceOp::Discard | DeviceOp::WriteZeroes => CommandKind::Deallocate,
        };
        let slots = self.model.slots();
        let first = io.offset / SLOT_BYTES;
        let count = ((io.offset + io.length).div_ceil(SLOT_BYTES) - first).clamp(1, u64::from(slots)) as u32;
        let slot = ((first % u64::from(slots)) as u32).min(slots - count);
        Command { tag: key.to_bits(), kind, slot, slots: count }
    }

    /// Runs the model up to `until`, and finishes the IOs that it completes.
    fn advance(&mut self, until: Instant) {
        self.reached = until;
        let mut ended = std::mem::take(&mut self.ended);
        self.model.advance(until, &mut |completion| ended.push(completion));
        for completion in ended.drain(..) {
            let key = Key::from_bits(completion.tag);
            let io = self.in_flight.get_mut(key).expect("the IO is in flight until both halves are done");
            io.latency = Some(completion.at.saturating_since(io.submitted));
            io.late = until.saturating_since(completion.at);
            self.finish_if_done(key);
        }
        self.ended = ended;
    }

    /// Finishes an IO if the model has completed it and its data was moved.
    fn finish_if_done(&mut self, key: Key) {
        let io = self.in_flight.get_mut(key).expect("the IO is in flight until both halves are done");
        let Some(latency) = io.latency else { return };
        let Some(result) = io.moved.take() else { return };
        let io = self.in_flight.remove(key).expect("found above");
        self.done.push(DeviceDone { tag: io.tag, result, buffer: io.buffer, latency, late: io.late });
    }

    /// Collects completions of the sparse file.
    fn collect_moved(&mut self) {
        let Contents::File(file) = &mut self.contents else { return };
        let mut moved = std::mem::take(&mut self.moved);
        file.take_finished(&mut moved);
        for done in moved.drain(..) {
            let key = Key::from_bits(done.tag);
            let io = self.in_flight.get_mut(key).expect("the IO is in flight until both halves are done");
            io.moved = Some(done.result);
            io.buffer = done.buffer;
            self.finish_if_done(key);
        }
        self.moved = moved;
    }
}

impl Device for EmulatedDevice {
    fn clock(&self) -> DeviceClock {
        self.clock
    }

    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote {
        match &self.contents {
            Contents::Memory(memory) => memory.quote(self.clock.second(), offset, length, most),
            Contents::File(file) => file.quote(erase, offset, length, most),
            Contents::Nothing => Quote::in_proportion(BYTES_PER_TABLE_BYTE, length, most),
        }
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let submitted = self.clock.to_device(now);
        self.advance(submitted);
        let in_flight =
            InFlight { tag: io.tag, submitted, latency: None, late: Nanos::ZERO, moved: None, buffer: None };
        let key = self.in_flight.insert(in_flight);
        let command = self.command(key, &io);
        self.model.submit(submitted, command);
        let buffer = match &mut self.contents {
            Contents::Memory(memory) => move_data(memory, io),
            Contents::Nothing => buffer_of(io),
            Contents::File(file) => return file.submit(now, reactor, DeviceIo { tag: key.to_bits(), ..io }),
        };
        let io = self.in_flight.get_mut(key).expect("just inserted");
        io.moved = Some(Ok(()));
        io.buffer = buffer;
    }

    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        match &mut self.contents {
            Contents::File(contents) => contents.on_disk(now, file, tag, result, buffer),
            Contents::Memory(_) | Contents::Nothing => {
                unreachable!("contents on no disk, yet disk operation {tag} ended")
            }
        }
        self.collect_moved();
    }

    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        if let Contents::File(file) = &mut self.contents {
            file.poll(now, reactor);
        }
        self.advance(self.clock.to_device(now));
    }

    fn next_wake(&self) -> Option<Instant> {
        let next = match self.model.completion_bound() {
            Some(bound) => bound,
            None => self.model.next_event()?.max(self.reached + BACKGROUND),
        };
        Some(self.clock.to_real(next))
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }
}

/// The buffer of `io`, as it is.
fn buffer_of(io: DeviceIo) -> Option<IoBuffer> {
    match io.op {
        DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
        DeviceOp::Discard | DeviceOp::WriteZeroes | DeviceOp::Flush => None,
    }
}

/// Moves the data of `io`. Returns its buffer.
fn move_data(memory: &mut SparseMemory, io: DeviceIo) -> Option<IoBuffer> {
    match io.op {
        DeviceOp::Read(mut buffer) => {
            memory.read(io.offset, &mut buffer);
            Some(buffer)
        }
        DeviceOp::Write { buffer, .. } => {
            memory.write(io.offset, &buffer);
            Some(buffer)
        }
        DeviceOp::Discard | DeviceOp::WriteZeroes => {
            memory.clear(io.offset, io.length);
            None
        }
        DeviceOp::Flush => None,
    }
}
