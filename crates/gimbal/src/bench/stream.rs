//! One stream of a job: its place in the workload, its timetable, its IOs that are out.
//!
//! ```text
//!   idle slot --next IO is due, fewer than iodepth are out--> out --completed--> idle slot
//! ```
//!
//! A slot owns one buffer for the whole run, so a stream in steady use allocates nothing.
//!
//! Elsewhere: `drive` submits what a stream asks for and tells it what completed.

use super::direction::Direction;
use super::job::{Amount, Job};
use super::pace::Pace;
use super::workload::{Region, Step, Workload};
use reactor::IoBuffer;
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// A place for one IO.
#[derive(Debug)]
struct Slot {
    /// At home while the IO is not out.
    buffer: Option<IoBuffer>,
    step: Step,
    meant: Instant,
}

/// An IO to submit.
#[derive(Debug)]
pub(super) struct Departure {
    /// Which slot it comes from.
    pub(crate) slot: usize,
    /// What and where.
    pub(crate) step: Step,
    /// The slot's buffer, as long as the IO; `None` if it moves no data.
    pub(crate) buffer: Option<IoBuffer>,
}

/// What the stream may do next.
#[derive(Debug)]
pub(super) enum Turn {
    /// Submit this.
    Go(Departure),
    /// Nothing before this moment.
    At(Instant),
    /// Nothing before a completion.
    Full,
    /// Nothing any more.
    Over,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// The job's number on this thread.
    pub(crate) job: usize,
    /// The IO queue it has to itself.
    pub(crate) queue: u16,
    workload: Workload,
    pace: Pace,
    unit: Bytes,
    hours: Hours,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    /// IOs that may be out: all slots, unless a search tries fewer.
    depth: usize,
    /// Which way the next IO goes, if that was decided and its time has not come.
    decided: Option<Direction>,
    /// Blocks that were deallocated and are to be written (`trimwrite`).
    to_write: VecDeque<Step>,
    writes_after_trims: bool,
    /// Since when there has been room for one more.
    room: Instant,
}

/// When a stream runs, and how much it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hours {
    /// No IO leaves before.
    pub(crate) start: Instant,
    /// No IO leaves at this moment or after.
    pub(crate) stop: Instant,
    /// What is left to do.
    pub(crate) budget: Budget,
}

/// What a stream has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    bytes: Option<u64>,
    ios: Option<u64>,
}

impl Budget {
    /// An amount on a region.
    pub(super) fn new(amount: Amount, region: &Region) -> Budget {
        let Amount { io_size, number_ios, loops } = amount;
        let once = io_size.map_or_else(|| region.units.saturating_mul(region.unit.get()), Bytes::get);
        Budget {
            // What is less than a unit cannot be done.
            bytes: Some(once / region.unit.get() * region.unit.get())
                .map(|bytes| bytes.saturating_mul(loops)),
            ios: number_ios.map(|ios| ios.saturating_mul(loops)),
        }
    }

    /// The same without a limit of bytes.
    pub(super) fn without_bytes(self) -> Budget {
        Budget { bytes: None, ..self }
    }

    fn is_spent(self) -> bool {
        self.bytes == Some(0) || self.ios == Some(0)
    }

    /// The most bytes that the next IO may have.
    fn most(self) -> Bytes {
        Bytes(self.bytes.unwrap_or(u64::MAX))
    }

    fn spend(&mut self, length: Bytes) {
        self.bytes = self.bytes.map(|left| left - length.get());
        self.ios = self.ios.map(|left| left - 1);
    }
}

impl Stream {
    /// Clone number `queue` of `job`, which is number `number` here. There must be a buffer for each of `iodepth`.
    pub(super) fn new(
        number: usize,
        job: &Job,
        queue: u16,
        workload: Workload,
        hours: Hours,
        buffers: Vec<IoBuffer>,
    ) -> Stream {
        assert_eq!(buffers.len(), job.iodepth as usize, "one buffer per IO that may be out");
        let step = Step { direction: Direction::Read, first: 0, units: 0 };
        let slots: Vec<Slot> = buffers
            .into_iter()
            .map(|buffer| Slot { buffer: Some(buffer), step, meant: Instant::ZERO })
            .collect();
        Stream {
            job: number,
            queue,
            workload,
            pace: Pace::new(job, hours.start),
            unit: job.bs.unit(),
            hours,
            idle: (0..slots.len()).rev().collect(),
            depth: slots.len(),
            slots,
            decided: None,
            to_write: VecDeque::new(),
            writes_after_trims: job.rw.writes_after_trims(),
            room: hours.start,
        }
    }

    /// What may leave at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Turn {
        let writes = !self.to_write.is_empty();
        if now >= self.hours.stop || (self.hours.budget.is_spent() && !writes) {
            // The write of a trim that is out is still to come.
            let waits = now < self.hours.stop && self.writes_after_trims && !self.is_quiet();
            return if waits { Turn::Full } else { Turn::Over };
        }
        let direction = if writes { Direction::Write } else { self.decide(now) };
        let meant = self.pace.next(direction, now, self.room).max(self.hours.start);
        if meant > now {
            return if meant >= self.hours.stop { Turn::Over } else { Turn::At(meant) };
        }
        if !self.has_room() {
            return Turn::Full;
        }
        let slot = self.idle.pop().expect("there is room");
        let step = match self.to_write.pop_front() {
            Some(step) => step,
            None => {
                self.decided = None;
                let step = self.workload.next_step(direction, self.hours.budget.most());
                self.hours.budget.spend(self.length_of(step));
                step
            }
        };
        self.pace.on_sent(direction, meant, self.length_of(step), self.workload.random());
        Turn::Go(self.depart(slot, step, meant))
    }

    /// Which way the next IO goes. As in fio, a direction whose time has not come gives way to one whose time is nearer.
    fn decide(&mut self, now: Instant) -> Direction {
        let direction = match self.decided {
            Some(direction) => direction,
            None => self.workload.next_direction(),
        };
        let due = |direction| self.pace.next(direction, now, self.room);
        let direction = match self.workload.other_direction(direction) {
            Some(other) if due(direction) > now && due(other) < due(direction) => other,
            _ => direction,
        };
        self.decided = Some(direction);
        direction
    }

    fn length_of(&self, step: Step) -> Bytes {
        Bytes(step.units * self.unit.get())
    }

    /// Takes a slot for an IO that is not of the workload (reading back); `None` if all are out.
    pub(super) fn next_given(&mut self, now: Instant, step: Step) -> Option<Departure> {
        let slot = self.idle.pop()?;
        Some(self.depart(slot, step, now))
    }

    fn depart(&mut self, slot: usize, step: Step, meant: Instant) -> Departure {
        let length = self.length_of(step).get() as usize;
        let place = &mut self.slots[slot];
        (place.step, place.meant) = (step, meant);
        let buffer = (step.direction != Direction::Trim).then(|| {
            let mut buffer = place.buffer.take().expect("an idle slot has its buffer");
            buffer.set_len(length);
            buffer
        });
        Departure { slot, step, buffer }
    }

    /// The IO of `slot` is over, and has succeeded or not. Answers what it was and how long it took from when it was meant to
    /// leave.
    pub(super) fn on_completed(
        &mut self,
        now: Instant,
        slot: usize,
        buffer: Option<IoBuffer>,
        has_succeeded: bool,
    ) -> (Step, Nanos) {
        let had_room = self.has_room();
        let place = &mut self.slots[slot];
        if let Some(buffer) = buffer {
            assert!(place.buffer.is_none(), "slot {slot} completed but was not out");
            place.buffer = Some(buffer);
        }
        if !had_room {
            self.room = now;
        }
        self.idle.push(slot);
        if self.writes_after_trims && place.step.direction == Direction::Trim && has_succeeded {
            self.to_write.push_back(Step { direction: Direction::Write, ..place.step });
        }
        (place.step, now.saturating_since(place.meant))
    }

    /// The buffer of a slot whose IO is over.
    pub(super) fn buffer(&self, slot: usize) -> &[u8] {
        self.slots[slot].buffer.as_deref().expect("an idle slot has its buffer")
    }

    /// Whether no IO is out.
    pub(super) fn is_quiet(&self) -> bool {
        self.idle.len() == self.slots.len()
    }

    /// Whether one more IO may leave.
    pub(super) fn has_room(&self) -> bool {
        self.slots.len() - self.idle.len() < self.depth
    }

    /// Lets so many IOs be out, as far as there are slots.
    pub(super) fn set_depth(&mut self, depth: u32) {
        self.depth = (depth as usize).min(self.slots.len());
    }

    /// Lets nothing more leave.
    pub(super) fn stop(&mut self) {
        self.hours.stop = Instant::ZERO;
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
