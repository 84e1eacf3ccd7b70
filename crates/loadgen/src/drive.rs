//! The jobs of one thread on one engine: connects them, keeps their streams busy, records what completes.
//!
//! ```text
//!   stream.next ──Go──► engine.submit        completion ──► recorder, stream.on_completed ──► stream.next …
//!          └────At(t)──► due ──t──► stream.next
//! ```
//!
//! Holds: when an IO of a stream completes, the stream sends its next one before anything else happens, so a closed loop always
//!        keeps its depth.
//! Elsewhere: `stream` decides which IOs, when, and how many; `run` starts several threads together.

mod connect;
mod read_back;

use crate::direction::Direction;
use crate::due::Due;
use crate::error::BenchError;
use crate::job::Job;
use crate::latency_target::{Search, Verdict};
use crate::measure::{Completed, Interval, Recorded, Recorder, Window};
use crate::pattern;
use crate::place::Place;
use crate::results::{JobResult, Trouble, Verified};
use crate::run::Load;
use crate::stream::{Budget, Departure, Hours, Stream, Turn};
use crate::workload::Workload;
use crate::written::Written;
use host::{Completion, ControllerId, Engine, Event, IoBuffer, Nqn, Operation, Refusal, Request};
use reactor::Clock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Instant, Lba, Nanos};

/// A tag is the number of the stream and, in this many low bits, of its slot.
const SLOT_BITS: u32 = 16;

/// A job of this thread.
#[derive(Debug)]
struct Running {
    /// Its number among all jobs of the run.
    number: usize,
    job: Job,
    nqn: Nqn,
    controller: ControllerId,
    /// Known once connected.
    place: Option<Place>,
    /// The workload and the buffers of each stream, from `prepare` to the start.
    prepared: Vec<(Workload, Vec<IoBuffer>)>,
    recorder: Option<Recorder>,
    trouble: Trouble,
    written: Option<Written>,
    verified: Verified,
    /// The search for a latency, if the job does one.
    search: Option<Search>,
    /// Streams that have outstanding IOs or will send more.
    unfinished: u32,
    /// When the last of them finished.
    ended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Load,
    ReadBack,
}

/// One thread's part of a run.
pub(crate) struct Drive {
    engine: Engine,
    running: Vec<Running>,
    by_controller: HashMap<ControllerId, usize>,
    streams: Vec<Stream>,
    /// When to ask streams with a timetable again.
    due: Due,
    /// Streams that have outstanding IOs or will send more.
    unfinished: usize,
    is_finished: Vec<bool>,
    phase: Phase,
    /// Marks the data that this run writes.
    run_mark: u64,
}

impl Drive {
    /// Wakes this thread while it waits for the start.
    pub(crate) fn waker(&self) -> host::Waker {
        self.engine.waker()
    }

    /// Keeps connections alive until `is_over`, which it checks after every wake-up.
    pub(crate) fn idle_until(&mut self, mut is_over: impl FnMut() -> bool) -> Result<(), BenchError> {
        while !is_over() {
            self.step(None)?;
        }
        Ok(())
    }

    /// Runs the load from `start` on, and reports every interval to `tell`. Returns each job's result with its number, and the error
    /// that ended the run early, if any; the results then show the work done until then.
    pub(crate) fn run(
        mut self,
        load: &Load,
        start: Instant,
        stop: &AtomicBool,
        mut tell: impl FnMut(Told),
    ) -> Part {
        let end =
            load.options.runtime.map_or(Instant::FAR_FUTURE, |runtime| start + load.options.ramp + runtime);
        (0..self.running.len()).for_each(|index| self.open_streams(load, index, start, end));
        let outcome = self.carry_out(load, start, stop, &mut tell);
        (self.finish(load, start.max(Clock.now())), outcome.err())
    }

    fn carry_out(
        &mut self,
        load: &Load,
        start: Instant,
        stop: &AtomicBool,
        tell: &mut impl FnMut(Told),
    ) -> Result<(), BenchError> {
        while Clock.now() < start {
            self.step(Some(start))?;
        }
        let mut interval_end = start + load.options.interval;
        (0..self.streams.len()).try_for_each(|stream| self.fill(stream, start))?;
        while self.unfinished > 0 {
            let due = self.due.next().unwrap_or(Instant::FAR_FUTURE);
            self.step(Some(due.min(interval_end)))?;
            let now = Clock.now();
            while let Some(stream) = self.due.pop(now) {
                self.fill(stream, now)?;
            }
            if now >= interval_end {
                self.close_intervals(now, tell);
                interval_end = next_end(interval_end, load.options.interval, now);
            }
            if stop.load(Ordering::Relaxed) {
                self.streams.iter_mut().for_each(Stream::stop);
                (0..self.streams.len()).for_each(|stream| self.note_finished(stream));
            }
        }
        self.close_intervals(Clock.now(), tell);
        if self.running.iter().any(|running| running.job.verify) && !stop.load(Ordering::Relaxed) {
            tell(Told::Verifying);
            self.read_back()?;
        }
        Ok(())
    }

    /// Prepares the parts of streams that take time: workloads, and buffers with data.
    pub(crate) fn prepare(&mut self, load: &Load) {
        for running in &mut self.running {
            let job = &running.job;
            let region = running.place.expect("the job is connected").region;
            running.written = job.verify.then(|| Written::new(region.reach(job.numjobs)));
            let seed = job.seed.unwrap_or(load.options.seed).wrapping_add(running.number as u64);
            for clone in 0..job.numjobs {
                let workload = Workload::new(job, region, clone, seed);
                let buffers = (0..job.iodepth).map(|_| {
                    let mut buffer = self
                        .engine
                        .take_buffer(running.controller, buffer_of(job).get() as usize)
                        .expect("the pool was sized for all slots");
                    // Data that does not compress, because some devices would compress it.
                    pattern::fill(&mut buffer, Bytes(u64::from(clone) << 32), seed);
                    buffer
                });
                running.prepared.push((workload, buffers.collect()));
            }
        }
    }

    /// Notes on limits of the controllers that are below the demands of the jobs.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for Running { job, controller, .. } in &self.running {
            let Some(info) = self.engine.info(*controller) else { continue };
            // A queue is full with one entry free.
            let holds = info.queue_entries_max.saturating_sub(1);
            if job.iodepth > holds {
                notes.push(format!(
                    "job {}: a queue of this controller holds {holds} commands; of iodepth={} the rest waits here, and its latency counts from then",
                    job.name, job.iodepth
                ));
            }
            if u32::from(info.io_queues) < job.numjobs {
                notes.push(format!(
                    "job {}: the controller grants {} IO queues; the {} connections of numjobs share them",
                    job.name, info.io_queues, job.numjobs
                ));
            }
        }
        notes
    }

    fn open_streams(&mut self, load: &Load, index: usize, start: Instant, end: Instant) {
        let running = &mut self.running[index];
        let job = &running.job;
        let region = running.place.expect("the job is connected").region;
        let hours_end = job.stop.map_or(end, |stop| (start + stop).min(end));
        let window = Window { from: start + load.options.ramp.max(job.start + job.ramp), until: hours_end };
        running.recorder = Some(Recorder::new(start, window));
        running.search = job.latency_target.map(|asked| Search::new(asked, job.iodepth, window.from));
        running.unfinished = job.numjobs;
        let is_endless = load.options.runtime.is_some() || job.time_based;
        let budget = Budget::new(job.amount, &region);
        let budget = if is_endless { budget.without_bytes() } else { budget };
        let hours = Hours { start: start + job.start, stop: hours_end, budget };
        for (clone, (workload, buffers)) in running.prepared.drain(..).enumerate() {
            let mut stream = Stream::new(index, job, clone as u16, workload, hours, buffers);
            if let Some(search) = &running.search {
                stream.set_depth(search.depth());
            }
            self.streams.push(stream);
            self.is_finished.push(false);
            self.unfinished += 1;
        }
    }

    /// Submits every IO that a stream may send now.
    fn fill(&mut self, number: usize, now: Instant) -> Result<(), BenchError> {
        loop {
            match self.streams[number].next(now) {
                Turn::Go(departure) => self.submit(number, departure)?,
                Turn::At(at) => {
                    self.due.at(at, number);
                    return Ok(());
                }
                Turn::Full => return Ok(()),
                Turn::Over => {
                    self.note_finished(number);
                    return Ok(());
                }
            }
        }
    }

    fn note_finished(&mut self, number: usize) {
        if self.streams[number].is_quiet() && !self.is_finished[number] {
            self.is_finished[number] = true;
            self.unfinished -= 1;
            let running = &mut self.running[self.streams[number].job];
            running.unfinished -= 1;
            if running.unfinished == 0 {
                running.ended = Some(Clock.now());
            }
        }
    }

    fn submit(&mut self, number: usize, departure: Departure) -> Result<(), BenchError> {
        let Departure { slot, step, mut buffer } = departure;
        let stream = &self.streams[number];
        let running = &self.running[stream.job];
        let place = running.place.expect("the job is connected");
        let operation = match step.direction {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write { durable: false },
            Direction::Trim => Operation::Deallocate,
        };
        if let (Some(_), Direction::Write, Some(buffer)) = (&running.written, step.direction, &mut buffer) {
            pattern::fill(buffer, place.offset_of(step), self.run_mark);
        }
        let (lba, blocks) = place.blocks_of(step);
        let queues = self.engine.info(running.controller).map_or(1, |info| info.io_queues.max(1));
        let request = Request {
            tag: (number as u64) << SLOT_BITS | slot as u64,
            nsid: place.nsid,
            operation,
            lba: Lba(lba),
            blocks,
            buffer,
            class: running.job.class,
            queue: Some(stream.queue % queues),
        };
        let refused =
            |refused: Box<host::Refused>| BenchError::Refused(running.job.name.clone(), refused.why);
        self.engine.submit(running.controller, request).map_err(refused)
    }

    /// Waits for events and handles them.
    fn step(&mut self, deadline: Option<Instant>) -> Result<(), BenchError> {
        self.engine.wait(deadline).map_err(BenchError::Io)?;
        let mut refused = None;
        while let Some(event) = self.engine.next_event() {
            match event {
                Event::Completed { completion, .. } => match self.on_completed(completion) {
                    // A later event gives the reason for the loss of the controller.
                    Err(error @ BenchError::Refused(_, Refusal::Gone)) => {
                        refused.get_or_insert(error);
                    }
                    other => other?,
                },
                Event::Down { controller, .. } => {
                    self.running[self.by_controller[&controller]].trouble.losses += 1;
                }
                Event::GaveUp { error, .. } => return Err(BenchError::Connect(error)),
                _ => {}
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn on_completed(&mut self, completion: Completion) -> Result<(), BenchError> {
        let (number, slot) =
            ((completion.tag >> SLOT_BITS) as usize, (completion.tag & ((1 << SLOT_BITS) - 1)) as usize);
        let (ended, service) = (completion.ended, completion.service_time());
        let stream = &mut self.streams[number];
        let running = &mut self.running[stream.job];
        let (step, latency) = stream.on_completed(ended, slot, completion.buffer, completion.result.is_ok());
        let place = running.place.expect("the job is connected");
        let mut verdict = Verdict::Wait;
        match (self.phase, completion.result) {
            (Phase::Load, Ok(())) => {
                let length = place.length_of(step);
                let io = Completed { direction: step.direction, length, latency, service };
                if let Some(recorder) = &mut running.recorder {
                    recorder.on_completed(ended, &io);
                }
                if let (Direction::Write, Some(written)) = (step.direction, &mut running.written) {
                    (step.first..step.first + step.units).for_each(|unit| written.on_written(unit));
                }
                if let Some(search) = &mut running.search {
                    let sent = Instant(ended.0.saturating_sub(service.0));
                    verdict = search.on_completed(ended, sent, latency);
                }
            }
            (Phase::Load, Err(error)) => {
                running.trouble.failed += 1;
                running.trouble.first.get_or_insert_with(|| error.to_string());
            }
            (Phase::ReadBack, result) => {
                let offset = place.offset_of(step);
                running.verified.steps += 1;
                match result.map(|()| pattern::check(stream.buffer(slot), offset, self.run_mark)) {
                    Ok(Ok(())) => {}
                    Ok(Err(mismatch)) => {
                        running.verified.differing += 1;
                        running.verified.first.get_or_insert(mismatch);
                    }
                    Err(_) => running.verified.unreadable += 1,
                }
            }
        }
        match self.phase {
            Phase::Load => {
                let job = self.streams[number].job;
                self.follow(job, verdict, ended)?;
                self.fill(number, ended)
            }
            Phase::ReadBack => self.fill_back(number, ended),
        }
    }

    /// Acts on the verdict of a job's search.
    fn follow(&mut self, job: usize, verdict: Verdict, now: Instant) -> Result<(), BenchError> {
        match verdict {
            Verdict::Wait => return Ok(()),
            Verdict::Confirm(_) => {
                if let Some(recorder) = &mut self.running[job].recorder {
                    recorder.restart(now);
                }
                return Ok(());
            }
            Verdict::Try(depth) => {
                self.streams.iter_mut().filter(|stream| stream.job == job).for_each(|it| it.set_depth(depth));
            }
            Verdict::End => {
                self.streams.iter_mut().filter(|stream| stream.job == job).for_each(Stream::stop);
            }
        }
        // The other streams of the job may now send more, or are over.
        let of_job = (0..self.streams.len()).filter(|number| self.streams[*number].job == job);
        of_job.collect::<Vec<_>>().into_iter().try_for_each(|number| self.fill(number, now))
    }

    fn close_intervals(&mut self, now: Instant, tell: &mut impl FnMut(Told)) {
        for running in &mut self.running {
            let credit = self.engine.view(running.controller).and_then(|view| view.credit);
            let interval =
                running.recorder.as_mut().and_then(|recorder| recorder.close_interval(now, credit));
            if let Some(interval) = interval {
                tell(Told::Interval(running.number, interval));
            }
        }
    }

    fn finish(self, load: &Load, now: Instant) -> Vec<(usize, JobResult)> {
        let result = |running: Running| {
            let recorder = running.recorder.expect("the job has run");
            let Recorded { measured, tallies, series } = recorder.finish(running.ended.unwrap_or(now));
            let standalone = running.job.standalone.map(|rate| rate as f64);
            let result = JobResult {
                verified: running.job.verify.then_some(running.verified),
                job: running.job,
                nqn: running.nqn.as_str().to_string(),
                measured,
                tallies,
                series,
                trouble: running.trouble,
                standalone,
                tenants: load.tenants,
                found: running.search.as_ref().map(Search::found),
                members: Vec::new(),
            };
            (running.number, result)
        };
        self.running.into_iter().map(result).collect()
    }
}

/// A thread's part of the results: one for each of its jobs (by number), and the error that ended it early.
pub(crate) type Part = (Vec<(usize, JobResult)>, Option<BenchError>);

/// The reports of a thread while it runs.
#[derive(Debug)]
pub(crate) enum Told {
    /// An interval of the job with this number has ended.
    Interval(usize, Interval),
    /// Reading back begins.
    Verifying,
}

/// The first end of an interval after `now`; `end` was one. Interval ends do not drift when they are noticed late.
fn next_end(end: Instant, interval: Nanos, now: Instant) -> Instant {
    let passed = now.saturating_since(end).get() / interval.get() + 1;
    end + Nanos(interval.get().saturating_mul(passed))
}

/// The size of a job's buffers: the size of its largest IO that moves data.
fn buffer_of(job: &Job) -> Bytes {
    job.bs.largest_transfer(job.rw.directions()).unwrap_or(Bytes(IoBuffer::ALIGNMENT as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_keep_their_timetable() {
        let next = |now| next_end(Instant(100), Nanos(10), Instant(now));
        assert_eq!([next(100), next(104), next(110), next(135)].map(|at| at.0), [110, 110, 120, 140]);
    }
}
