//! One stream of a job: its position in the workload, its timetable, its outstanding IOs.
//!
//! ```text
//!   idle slot --next IO is due, fewer than iodepth are outstanding--> outstanding --completed--> idle slot
//! ```
//!
//! A slot owns one buffer for the whole run, so a stream allocates nothing while it runs.
//!
//! Elsewhere: `drive` submits what a stream asks for and tells it what completed.

use crate::direction::Direction;
use crate::job::{Amount, Job};
use crate::pace::Pace;
use crate::workload::{Region, Step, Workload};
use reactor::IoBuffer;
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// A place for one IO.
#[derive(Debug)]
struct Slot {
    /// Present while the slot is idle.
    buffer: Option<IoBuffer>,
    step: Step,
    meant: Instant,
}

/// An IO to submit.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The slot it comes from.
    pub slot: usize,
    /// Its direction and place.
    pub step: Step,
    /// The slot's buffer, as long as the IO; `None` if it moves no data.
    pub buffer: Option<IoBuffer>,
}

/// The next action of the stream.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Submit this IO.
    Go(Departure),
    /// Wait until this moment.
    At(Instant),
    /// Wait for a completion.
    Full,
    /// The stream is over.
    Over,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The job's number on this thread.
    pub job: usize,
    /// Its own IO queue.
    pub queue: u16,
    workload: Workload,
    pace: Pace,
    unit: Bytes,
    hours: Hours,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    /// IOs that may be outstanding: all slots, unless a search tries fewer.
    depth: usize,
    /// The direction of the next IO, if it was decided and the IO is not due yet.
    decided: Option<Direction>,
    /// Blocks that were deallocated and have to be written (`trimwrite`).
    to_write: VecDeque<Step>,
    writes_after_trims: bool,
    /// Since when one more IO could be outstanding.
    room: Instant,
}

/// When a stream runs, and how much it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hours {
    /// No IO is sent before this moment.
    pub start: Instant,
    /// No IO is sent at this moment or later.
    pub stop: Instant,
    /// The remaining work.
    pub budget: Budget,
}

/// The remaining work of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    bytes: Option<u64>,
    ios: Option<u64>,
}

impl Budget {
    /// An amount on a region.
    pub(crate) fn new(amount: Amount, region: &Region) -> Budget {
        let Amount { io_size, number_ios, loops } = amount;
        let once = io_size.map_or_else(|| region.units.saturating_mul(region.unit.get()), Bytes::get);
        Budget {
            // A remainder smaller than a unit cannot be done.
            bytes: Some(once / region.unit.get() * region.unit.get())
                .map(|bytes| bytes.saturating_mul(loops)),
            ios: number_ios.map(|ios| ios.saturating_mul(loops)),
        }
    }

    /// The same without a limit of bytes.
    pub(crate) fn without_bytes(self) -> Budget {
        Budget { bytes: None, ..self }
    }

    fn is_spent(self) -> bool {
        self.bytes == Some(0) || self.ios == Some(0)
    }

    /// The largest size of the next IO.
    fn most(self) -> Bytes {
        Bytes(self.bytes.unwrap_or(u64::MAX))
    }

    fn spend(&mut self, length: Bytes) {
        self.bytes = self.bytes.map(|left| left - length.get());
        self.ios = self.ios.map(|left| left - 1);
    }
}

impl Stream {
    /// Connection number `queue` of `job`, which has number `number` on this thread. There must be `iodepth` buffers.
    pub(crate) fn new(
        number: usize,
        job: &Job,
        queue: u16,
        workload: Workload,
        hours: Hours,
        buffers: Vec<IoBuffer>,
    ) -> Stream {
        assert_eq!(buffers.len(), job.iodepth as usize, "one buffer per outstanding IO");
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
            unit: job.unit(),
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

    /// The action at `now`.
    pub(crate) fn next(&mut self, now: Instant) -> Turn {
        let writes = !self.to_write.is_empty();
        if now >= self.hours.stop || (self.hours.budget.is_spent() && !writes) {
            // An outstanding trim will be followed by its write.
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

    /// The direction of the next IO. As in fio, a direction that is not due gives way to the other one if that is due earlier.
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

    /// Takes a slot for an IO outside the workload (reading back); `None` if all slots are in use.
    pub(crate) fn next_given(&mut self, now: Instant, step: Step) -> Option<Departure> {
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

    /// The IO of `slot` has completed. Returns the IO, and its latency from when it was due.
    pub(crate) fn on_completed(
        &mut self,
        now: Instant,
        slot: usize,
        buffer: Option<IoBuffer>,
        has_succeeded: bool,
    ) -> (Step, Nanos) {
        let had_room = self.has_room();
        let place = &mut self.slots[slot];
        if let Some(buffer) = buffer {
            assert!(place.buffer.is_none(), "slot {slot} completed but was not outstanding");
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

    /// The buffer of a slot whose IO has completed.
    pub(crate) fn buffer(&self, slot: usize) -> &[u8] {
        self.slots[slot].buffer.as_deref().expect("an idle slot has its buffer")
    }

    /// Whether no IO is outstanding.
    pub(crate) fn is_quiet(&self) -> bool {
        self.idle.len() == self.slots.len()
    }

    /// Whether one more IO may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() - self.idle.len() < self.depth
    }

    /// Sets how many IOs may be outstanding; the number of slots is the maximum.
    pub(crate) fn set_depth(&mut self, depth: u32) {
        self.depth = (depth as usize).min(self.slots.len());
    }

    /// Sends no more IOs.
    pub(crate) fn stop(&mut self) {
        self.hours.stop = Instant::ZERO;
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
