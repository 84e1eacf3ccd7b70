//! A load generator in virtual time: streams of commands, each with a fixed queue depth or a fixed offered
//! rate.
//!
//! The facts were measured over a fabric, which the model does not have. So in [`run`] a command takes 9 µs to the
//! device, and its completion 9 µs back. Latencies are those that the host sees. [`run_over`] is for what was measured
//! on the device's own host.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::{Command, CommandKind, Image, SLOT_BYTES, Ssd};
use std::collections::VecDeque;
use units::{ByteRate, Bytes, Instant, Nanos};

/// One-way delay between host and device.
const FABRIC: Nanos = Nanos::micros(9);
/// Time between the first commands of a stream.
const START_GAP: Nanos = Nanos(100);
const SEED: u64 = 42;

/// One stream of commands of one size.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    read_percent: u32,
    slots: u32,
    depth: u32,
    sequential: bool,
    /// First slot and end of the region; the whole device if they are equal.
    region: (u32, u32),
    /// Random arrivals at this rate, independent of completions. `None`: each completion starts the next
    /// command.
    offered: Option<ByteRate>,
}

impl Stream {
    /// Commands of `kib` KiB, `read_percent` of them reads, `depth` outstanding, at random positions of the
    /// whole device.
    pub(crate) fn random(read_percent: u32, kib: u32, depth: u32) -> Stream {
        Stream { read_percent, slots: kib / 4, depth, sequential: false, region: (0, 0), offered: None }
    }

    /// The same, but sequential.
    pub(crate) fn sequential(read_percent: u32, kib: u32, depth: u32) -> Stream {
        Stream { sequential: true, ..Stream::random(read_percent, kib, depth) }
    }

    /// Limits the stream to part `index` of `parts` equal parts of the device.
    pub(crate) fn within(mut self, ssd_slots: u32, index: u32, parts: u32) -> Stream {
        let part = ssd_slots / parts;
        self.region = (index * part, (index + 1) * part);
        self
    }

    /// Makes the stream open: commands arrive at this rate.
    pub(crate) fn offering(mut self, rate: ByteRate) -> Stream {
        self.offered = Some(rate);
        self
    }
}

/// The results of one stream in the measured time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    read_latencies: Vec<u32>,
    write_latencies: Vec<u32>,
    bytes: u64,
    span: Nanos,
}

impl Measured {
    /// MB/s, reads and writes together.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.bytes as f64 / self.span.as_secs_f64() / 1e6
    }

    /// Mean latency of the reads in µs.
    pub(crate) fn read_latency(&self) -> f64 {
        mean(&self.read_latencies)
    }

    /// The latency in µs that this share of the commands (in thousandths) does not exceed.
    pub(crate) fn percentile(&self, permille: usize) -> f64 {
        let [at] = self.percentiles([permille]);
        at
    }

    /// The same for several shares.
    pub(crate) fn percentiles<const SHARES: usize>(&self, permilles: [usize; SHARES]) -> [f64; SHARES] {
        let mut all = [self.read_latencies.as_slice(), self.write_latencies.as_slice()].concat();
        all.sort_unstable();
        permilles.map(|permille| f64::from(all[all.len() * permille / 1000]) / 1e3)
    }

    /// Mean latency of the writes in µs.
    pub(crate) fn write_latency(&self) -> f64 {
        mean(&self.write_latencies)
    }
}

fn mean(nanos: &[u32]) -> f64 {
    nanos.iter().map(|&n| f64::from(n)).sum::<f64>() / nanos.len().max(1) as f64 / 1e3
}

/// The results of all streams of a run.
pub(crate) struct Run {
    pub(crate) streams: Vec<Measured>,
}

impl Run {
    /// MB/s of all streams.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.streams.iter().map(Measured::bandwidth).sum()
    }
}

/// Runs the streams on a device made from `image`: `warm_up` without measuring, then `span` with measuring.
pub(crate) fn run(image: &Image, streams: &[Stream], warm_up: Nanos, span: Nanos) -> Run {
    run_over(FABRIC, image, streams, warm_up, span)
}

/// The same, but `path` passes from the host to the device, and again on the way back.
pub(crate) fn run_over(path: Nanos, image: &Image, streams: &[Stream], warm_up: Nanos, span: Nanos) -> Run {
    let mut ssd = Ssd::from_image(image);
    let mut load = Load::new(path, &ssd, streams, Instant::ZERO + warm_up, span);
    let end = Instant::ZERO + warm_up + span;
    let mut completed = Vec::new();
    loop {
        let next = load.next_arrival().min(ssd.next_event().unwrap_or(Instant::FAR_FUTURE));
        if next > end {
            break;
        }
        ssd.advance(next, &mut |completion| completed.push(completion));
        for completion in completed.drain(..) {
            load.on_completion(completion.tag, completion.at);
        }
        while load.next_arrival() <= next {
            let (at, command) = load.pop_arrival();
            ssd.submit(at, command);
        }
    }
    Run { streams: load.streams.into_iter().map(|running| running.measured).collect() }
}

struct Load {
    streams: Vec<Running>,
    random: Xoshiro256PlusPlus,
    /// Commands of closed loops on their way to the device. All take the same time, so they arrive in order.
    arrivals: VecDeque<(Instant, usize)>,
    in_flight: Vec<InFlight>,
    free_tags: Vec<usize>,
    measured_from: Instant,
    /// One-way delay between host and device.
    path: Nanos,
}

struct Running {
    stream: Stream,
    position: u32,
    /// Next arrival of an open loop.
    next: Instant,
    measured: Measured,
}

#[derive(Clone, Copy)]
struct InFlight {
    stream: usize,
    kind: CommandKind,
    sent: Instant,
}

impl Load {
    fn new(path: Nanos, ssd: &Ssd, streams: &[Stream], measured_from: Instant, span: Nanos) -> Load {
        let mut arrivals = VecDeque::new();
        let running = |(index, stream): (usize, &Stream)| {
            let mut stream = stream.clone();
            if stream.region.0 == stream.region.1 {
                stream.region = (0, ssd.slots());
            }
            let mut next = Instant::FAR_FUTURE;
            if stream.offered.is_some() {
                next = Instant::ZERO + path;
            } else {
                let first = |n| (Instant::ZERO + path + Nanos(START_GAP.0 * u64::from(n)), index);
                arrivals.extend((0..stream.depth).map(first));
            }
            let measured = Measured { span, ..Measured::default() };
            Running { position: stream.region.0, stream, next, measured }
        };
        let streams = streams.iter().enumerate().map(running).collect();
        arrivals.make_contiguous().sort_unstable();
        Load {
            streams,
            random: Xoshiro256PlusPlus::seed_from_u64(SEED),
            arrivals,
            in_flight: Vec::new(),
            free_tags: Vec::new(),
            measured_from,
            path,
        }
    }

    fn next_arrival(&self) -> Instant {
        let closed = self.arrivals.front().map_or(Instant::FAR_FUTURE, |&(at, _)| at);
        self.streams.iter().map(|running| running.next).fold(closed, Instant::min)
    }

    fn pop_arrival(&mut self) -> (Instant, Command) {
        let at = self.next_arrival();
        let index = match self.arrivals.front() {
            Some(&(first, index)) if first == at => {
                self.arrivals.pop_front();
                index
            }
            _ => {
                let due = |running: &Running| running.next == at;
                let index = self.streams.iter().position(due).expect("some stream's arrival is the next one");
                self.plan_arrival(index);
                index
            }
        };
        (at, self.command(index, at))
    }

    /// Exponential gaps: Poisson arrivals.
    fn plan_arrival(&mut self, index: usize) {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let running = &mut self.streams[index];
        let rate = running.stream.offered.expect("only open loops plan arrivals");
        let size = Bytes(u64::from(running.stream.slots) * SLOT_BYTES);
        let mean = rate.time_to_earn(size).expect("an offered rate is not zero");
        running.next += Nanos((-uniform.max(1e-12).ln() * mean.0 as f64) as u64);
    }

    fn command(&mut self, index: usize, at: Instant) -> Command {
        let dice = self.below(100);
        let Stream { read_percent, slots, sequential, region, .. } = self.streams[index].stream;
        let slot = if sequential {
            let running = &mut self.streams[index];
            let slot = running.position;
            running.position += slots;
            if running.position + slots > region.1 {
                running.position = region.0;
            }
            slot
        } else {
            region.0 + self.below((region.1 - region.0) / slots) * slots
        };
        let kind = if dice < read_percent { CommandKind::Read } else { CommandKind::Write };
        let in_flight = InFlight { stream: index, kind, sent: at - self.path };
        let tag = match self.free_tags.pop() {
            Some(tag) => {
                self.in_flight[tag] = in_flight;
                tag
            }
            None => {
                self.in_flight.push(in_flight);
                self.in_flight.len() - 1
            }
        };
        Command { tag: tag as u64, kind, slot, slots }
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    fn on_completion(&mut self, tag: u64, at: Instant) {
        let InFlight { stream, kind, sent } = self.in_flight[tag as usize];
        self.free_tags.push(tag as usize);
        let seen = at + self.path;
        let running = &mut self.streams[stream];
        if seen >= self.measured_from {
            let latency = u32::try_from(seen.since(sent).0).expect("no latency reaches four seconds");
            match kind {
                CommandKind::Read => running.measured.read_latencies.push(latency),
                _ => running.measured.write_latencies.push(latency),
            }
            running.measured.bytes += u64::from(running.stream.slots) * SLOT_BYTES;
        }
        if running.stream.offered.is_none() {
            self.arrivals.push_back((seen + self.path, stream));
        }
    }
}
