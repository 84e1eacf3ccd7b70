//! One stream of a job: its place in the workload, its timetable, its IOs that are out.
//!
//! ```text
//!   idle slot --next IO is due, fewer than iodepth are out--> out --completed--> idle slot
//! ```
//!
//! A slot owns one buffer for the whole run, so a stream in steady use allocates nothing.
//!
//! Elsewhere: `drive` submits what a stream asks for and tells it what completed.

use super::job::Job;
use super::pace::Pace;
use super::workload::{Direction, Step, Workload};
use reactor::IoBuffer;
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
    /// The slot's buffer.
    pub(crate) buffer: IoBuffer,
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
    step_bytes: Bytes,
    start: Instant,
    stop: Instant,
    /// IOs that are still to leave; `None` is no limit.
    budget: Option<u64>,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    /// Since when there has been an idle slot.
    room: Instant,
}

/// When a stream runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hours {
    /// No IO leaves before.
    pub(crate) start: Instant,
    /// No IO leaves at this moment or after.
    pub(crate) stop: Instant,
    /// No more than so many IOs leave.
    pub(crate) budget: Option<u64>,
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
        let step = Step { direction: Direction::Read, number: 0 };
        let slots: Vec<Slot> = buffers
            .into_iter()
            .map(|buffer| Slot { buffer: Some(buffer), step, meant: Instant::ZERO })
            .collect();
        Stream {
            job: number,
            queue,
            workload,
            pace: Pace::new(job, hours.start),
            step_bytes: job.bs,
            start: hours.start,
            stop: hours.stop,
            budget: hours.budget,
            idle: (0..slots.len()).rev().collect(),
            slots,
            room: hours.start,
        }
    }

    /// What may leave at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Turn {
        if now >= self.stop || self.budget == Some(0) {
            return Turn::Over;
        }
        let meant = self.pace.next(now, self.room).max(self.start);
        if meant > now {
            return if meant >= self.stop { Turn::Over } else { Turn::At(meant) };
        }
        let Some(slot) = self.idle.pop() else { return Turn::Full };
        let step = self.workload.next_step();
        self.pace.on_sent(meant, self.step_bytes, self.workload.random());
        self.budget = self.budget.map(|left| left - 1);
        Turn::Go(self.depart(slot, step, meant))
    }

    /// Takes a slot for an IO that is not of the workload (reading back); `None` if all are out.
    pub(super) fn next_given(&mut self, now: Instant, step: Step) -> Option<Departure> {
        let slot = self.idle.pop()?;
        Some(self.depart(slot, step, now))
    }

    fn depart(&mut self, slot: usize, step: Step, meant: Instant) -> Departure {
        let place = &mut self.slots[slot];
        (place.step, place.meant) = (step, meant);
        let buffer = place.buffer.take().expect("an idle slot has its buffer");
        Departure { slot, step, buffer }
    }

    /// The IO of `slot` is over. Answers what it was and how long it took from when it was meant to leave.
    pub(super) fn on_completed(&mut self, now: Instant, slot: usize, buffer: IoBuffer) -> (Step, Nanos) {
        let place = &mut self.slots[slot];
        assert!(place.buffer.is_none(), "slot {slot} completed but was not out");
        place.buffer = Some(buffer);
        if self.idle.is_empty() {
            self.room = now;
        }
        self.idle.push(slot);
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

    /// Whether a slot is free.
    pub(super) fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Lets nothing more leave.
    pub(super) fn stop(&mut self) {
        self.stop = Instant::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::pace::Rate;
    use reactor::BufferPool;
    use units::ByteRate;

    fn stream(job: &Job, hours: Hours) -> Stream {
        let mut pool = BufferPool::new(Bytes::mib(1));
        let buffers = (0..job.iodepth).map(|_| pool.take(4096).expect("1 MiB is enough")).collect();
        Stream::new(0, job, 0, Workload::new(job, 100, 0, 1), hours, buffers)
    }

    fn go(turn: Turn) -> Departure {
        match turn {
            Turn::Go(departure) => departure,
            other => panic!("expected an IO, got {other:?}"),
        }
    }

    const ALWAYS: Hours = Hours { start: Instant::ZERO, stop: Instant::FAR_FUTURE, budget: None };

    #[test]
    fn a_closed_loop_keeps_its_depth() {
        let mut stream = stream(&Job { iodepth: 2, ..Job::named("a") }, ALWAYS);
        let first = go(stream.next(Instant(5)));
        let second = go(stream.next(Instant(6)));
        assert!(matches!(stream.next(Instant(7)), Turn::Full));
        let (step, latency) = stream.on_completed(Instant(9), first.slot, first.buffer);
        assert_eq!((step, latency), (first.step, Nanos(4)));
        let third = go(stream.next(Instant(9)));
        assert_ne!(third.slot, second.slot);
    }

    #[test]
    fn an_open_loop_counts_latency_from_its_timetable() {
        let job = Job { rate: Some(Rate::Iops(1_000_000)), ..Job::named("a") };
        let mut stream = stream(&job, ALWAYS);
        let first = go(stream.next(Instant(0)));
        assert!(matches!(stream.next(Instant(10)), Turn::At(Instant(1_000))));
        assert!(matches!(stream.next(Instant(4_000)), Turn::Full));
        stream.on_completed(Instant(5_000), first.slot, first.buffer);
        let second = go(stream.next(Instant(5_000)));
        let (_, latency) = stream.on_completed(Instant(6_000), second.slot, second.buffer);
        assert_eq!(latency, Nanos(5_000), "it was meant to leave at 1 µs and completed at 6 µs");
    }

    #[test]
    fn a_capped_stream_sends_as_fast_as_its_rate_or_its_slots_allow() {
        let job = Job { rate_max: Some(ByteRate(4096 * 1_000_000)), iodepth: 1, ..Job::named("a") };
        let mut stream = stream(&job, ALWAYS);
        let first = go(stream.next(Instant(0)));
        assert!(matches!(stream.next(Instant(1_500)), Turn::Full));
        stream.on_completed(Instant(300), first.slot, first.buffer);
        assert!(matches!(stream.next(Instant(300)), Turn::At(Instant(1_000))), "the rate holds it back");
        let second = go(stream.next(Instant(1_200)));
        let (_, latency) = stream.on_completed(Instant(2_500), second.slot, second.buffer);
        assert_eq!(latency, Nanos(1_500), "it was meant to leave at 1 µs");
        let third = go(stream.next(Instant(2_500)));
        let (_, latency) = stream.on_completed(Instant(2_600), third.slot, third.buffer);
        assert_eq!(latency, Nanos(100), "its slot held it back until 2.5 µs");
        assert!(matches!(stream.next(Instant(2_600)), Turn::At(Instant(3_500))));
    }

    #[test]
    fn a_stream_keeps_its_hours_and_its_budget() {
        let hours = Hours { start: Instant(10), stop: Instant(20), budget: Some(1) };
        let mut early = stream(&Job::named("a"), hours);
        assert!(matches!(early.next(Instant(3)), Turn::At(Instant(10))));
        let only = go(early.next(Instant(10)));
        early.on_completed(Instant(11), only.slot, only.buffer);
        assert!(matches!(early.next(Instant(12)), Turn::Over) && early.is_quiet());
        let mut late = stream(&Job::named("a"), Hours { budget: None, ..hours });
        assert!(matches!(late.next(Instant(20)), Turn::Over));
    }
}
