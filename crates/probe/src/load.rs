//! Runs one load: decides which IO to submit when, and keeps what came of it.
//!
//! A closed stream submits an IO whenever one of its own completes. An open stream submits at its own times; an IO that the device cannot
//! take waits here, and its latency counts from its arrival. When the load is over nothing new is submitted, and what is under way
//! completes before the next act.

use crate::config::Config;
use crate::device::{Io, IoKind, Step};
use crate::fill::Fill;
use crate::task::{Act, ActResult, Arrival, Latency, Load, Pattern, Stream, StreamResult};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use slab::Slab;
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// IOs of an open stream that may be under way.
const OPEN_DEPTH: u32 = 512;
/// Arrivals that may wait. If more wait, the device does not sustain the load.
const BACKLOG_MOST: usize = 4096;
/// A load gets at most this many times its span to see enough IOs.
pub(crate) const EXTENSION: u64 = 4;
/// Recent writes from which a read of new data may choose.
const RECENT_WRITES: usize = 64;
/// Latency is kept with this many significant digits.
const DIGITS: u8 = 3;
const TEN_MS: u64 = 10_000_000;

/// Where sequential streams are on the device. They continue where the one before ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    read: u64,
    write: u64,
}

/// An act in progress.
pub(crate) enum ActRun {
    Idle { begun: Instant, until: Instant },
    Load(Box<LoadRun>),
}

pub(crate) struct LoadRun {
    load: Load,
    begun: Instant,
    counts_from: Instant,
    streams: Vec<StreamRun>,
    under_way: Slab<UnderWay>,
    fill: Option<Fill>,
    random: Xoshiro256PlusPlus,
    cursors: Cursors,
    size: u64,
    written: u64,
    submitted_writes: u64,
    /// The latest writes that completed.
    recent: VecDeque<u64>,
    /// Nothing new is submitted from this time on.
    stopped: Option<Instant>,
    sustained: bool,
    last: Instant,
}

struct UnderWay {
    stream: usize,
    kind: IoKind,
    offset: u64,
    arrived: Instant,
}

struct StreamRun {
    spec: Stream,
    under_way: u32,
    /// Of open and paced streams.
    next_arrival: Instant,
    backlog: VecDeque<Instant>,
    ios: u64,
    last: Instant,
    total_ns: u128,
    over_10_ms: u64,
    latencies: Histogram<u64>,
}

impl ActRun {
    pub(crate) fn start(act: &Act, now: Instant, config: &Config, cursors: Cursors, seed: u64) -> ActRun {
        match act {
            Act::Idle { span_ns } => ActRun::Idle { begun: now, until: now + Nanos(*span_ns) },
            Act::Load(load) => ActRun::Load(Box::new(LoadRun::start(load, now, config, cursors, seed))),
        }
    }

    /// The next thing to do; `None` when the act is over.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Step> {
        match self {
            ActRun::Idle { until, .. } => (now < *until).then_some(Step::Wait { until: Some(*until) }),
            ActRun::Load(load) => load.poll(now),
        }
    }

    pub(crate) fn on_done(&mut self, now: Instant, tag: u64) {
        match self {
            ActRun::Idle { .. } => panic!("IO {tag} completed while no IO was under way"),
            ActRun::Load(load) => load.on_done(now, tag),
        }
    }

    pub(crate) fn finish(self, now: Instant) -> (ActResult, Option<Cursors>) {
        match self {
            ActRun::Idle { begun, .. } => {
                let result =
                    ActResult { span_ns: now.since(begun).get(), sustained: true, ..Default::default() };
                (result, None)
            }
            ActRun::Load(load) => {
                let cursors = load.cursors;
                (load.result(), Some(cursors))
            }
        }
    }
}

impl LoadRun {
    fn start(load: &Load, now: Instant, config: &Config, cursors: Cursors, seed: u64) -> LoadRun {
        let stream = |spec: &Stream| StreamRun {
            spec: spec.clone(),
            under_way: 0,
            next_arrival: now,
            backlog: VecDeque::new(),
            ios: 0,
            last: now,
            total_ns: 0,
            over_10_ms: 0,
            latencies: Histogram::new(DIGITS).expect("the number of digits is valid"),
        };
        LoadRun {
            begun: now,
            counts_from: now + Nanos(load.warm_up_ns),
            streams: load.streams.iter().map(stream).collect(),
            under_way: Slab::new(),
            fill: load.until_slow.map(|slow| Fill::new(slow, now)),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            cursors,
            size: config.size_bytes,
            written: 0,
            submitted_writes: 0,
            recent: VecDeque::new(),
            stopped: None,
            sustained: true,
            last: now,
            load: load.clone(),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Step> {
        if self.stopped.is_none() && self.is_over(now) {
            self.stopped = Some(now);
        }
        if self.stopped.is_some() {
            return (!self.under_way.is_empty()).then_some(Step::Wait { until: None });
        }
        let mut until = self.begun + Nanos(self.load.span_ns);
        if now >= until {
            until = self.begun + Nanos(EXTENSION * self.load.span_ns);
        }
        for n in 0..self.streams.len() {
            let stream = &mut self.streams[n];
            let arrived = match stream.spec.arrival {
                Arrival::Closed { depth } => (stream.under_way < depth).then_some(now),
                Arrival::Open { iops } | Arrival::Paced { iops } => {
                    while stream.next_arrival <= now {
                        stream.backlog.push_back(stream.next_arrival);
                        let mean = 1e9 / iops as f64;
                        let gap = match stream.spec.arrival {
                            Arrival::Open { .. } => -mean * unit(&mut self.random).ln(),
                            _ => mean,
                        };
                        stream.next_arrival += Nanos(gap.max(1.0) as u64);
                    }
                    until = until.min(stream.next_arrival);
                    if stream.backlog.len() > BACKLOG_MOST && self.load.until_slow.is_none() {
                        self.sustained = false;
                        self.stopped = Some(now);
                        return self.poll(now);
                    }
                    if stream.under_way < OPEN_DEPTH { stream.backlog.pop_front() } else { None }
                }
            };
            if let Some(arrived) = arrived {
                match self.next_io(n, arrived) {
                    Some(io) => return Some(Step::Submit(io)),
                    // The limit on writes is reached.
                    None => {
                        self.stopped = Some(now);
                        return self.poll(now);
                    }
                }
            }
        }
        Some(Step::Wait { until: Some(until) })
    }

    fn is_over(&self, now: Instant) -> bool {
        let spent = now.since(self.begun).get();
        let ios: u64 = self.streams.iter().map(|stream| stream.ios).sum();
        let enough = ios >= self.load.ios_least || spent >= EXTENSION * self.load.span_ns;
        (spent >= self.load.span_ns && enough) || ios >= self.load.ios_most
    }

    /// The next IO of a stream; `None` if it would write more than it may.
    fn next_io(&mut self, number: usize, arrived: Instant) -> Option<Io> {
        let stream = &mut self.streams[number];
        let Stream { writes_permille, pattern, size_bytes, .. } = stream.spec;
        let is_write = match writes_permille {
            0 => false,
            1000 => true,
            share => self.random.next_u64() % 1000 < u64::from(share),
        };
        let kind = if is_write { IoKind::Write } else { IoKind::Read };
        let length = u64::from(size_bytes);
        if is_write {
            if self.submitted_writes + length > self.load.writes_most_bytes {
                return None;
            }
            self.submitted_writes += length;
        }
        let places = self.size / length;
        let offset = match pattern {
            Pattern::Sequential => {
                let cursor = if is_write { &mut self.cursors.write } else { &mut self.cursors.read };
                // Larger IOs than before: go on at the next multiple.
                let at = cursor.next_multiple_of(length);
                let at = if at + length > self.size { 0 } else { at };
                *cursor = at + length;
                at
            }
            Pattern::JustWritten if !self.recent.is_empty() => {
                let n = self.random.next_u64() as usize % self.recent.len();
                self.recent[n]
            }
            Pattern::Random | Pattern::JustWritten => self.random.next_u64() % places * length,
        };
        stream.under_way += 1;
        let tag = self.under_way.insert(UnderWay { stream: number, kind, offset, arrived }) as u64;
        Some(Io { tag, kind, offset, length: size_bytes })
    }

    fn on_done(&mut self, now: Instant, tag: u64) {
        let UnderWay { stream, kind, offset, arrived } = self.under_way.remove(tag as usize);
        self.last = now;
        let stream = &mut self.streams[stream];
        stream.under_way -= 1;
        let length = stream.spec.size_bytes;
        // Completions after the end of the load would make it look faster than it is.
        if now >= self.counts_from && self.stopped.is_none() {
            let latency = now.saturating_since(arrived).get();
            stream.ios += 1;
            stream.last = now;
            stream.total_ns += u128::from(latency);
            stream.over_10_ms += u64::from(latency > TEN_MS);
            stream.latencies.record(latency).expect("the histogram grows");
        }
        if kind == IoKind::Write {
            self.written += u64::from(length);
            if self.recent.len() == RECENT_WRITES {
                self.recent.pop_front();
            }
            self.recent.push_back(offset);
            if let Some(fill) = &mut self.fill
                && fill.on_written(now, length)
                && self.stopped.is_none()
            {
                self.stopped = Some(now);
            }
        }
    }

    fn result(self) -> ActResult {
        let end = self.stopped.unwrap_or(self.last);
        let streams = self.streams.iter().map(|stream| {
            let span_ns = end.saturating_since(self.counts_from).get();
            let bytes = stream.ios * u64::from(stream.spec.size_bytes);
            StreamResult { span_ns, ios: stream.ios, bytes, latency: stream.latency() }
        });
        ActResult {
            span_ns: self.last.since(self.begun).get(),
            written_bytes: self.written,
            sustained: self.sustained,
            streams: streams.collect(),
            fill: self.fill.as_ref().map(Fill::result),
        }
    }
}

impl StreamRun {
    fn latency(&self) -> Latency {
        if self.ios == 0 {
            return Latency::default();
        }
        let at = |quantile| self.latencies.value_at_quantile(quantile);
        Latency {
            mean_ns: (self.total_ns / u128::from(self.ios)) as u64,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            over_10_ms: self.over_10_ms,
        }
    }
}

/// A random number above 0 and at most 1.
fn unit(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}
