//! The facts: what the Samsung DCT983 of the Gimbal paper's experiments does, each with the band that the
//! model must meet.
//!
//! If a fact is a number, the band is ±10 % of it. The test asserts the facts with `met_by_a`; the example
//! `facts` measures all and reports those that differ.

use crate::driver::{Measured, Run, Stream, run};
use ssd::{Condition, Image, Profile};
use std::cell::OnceCell;
use units::{ByteRate, Nanos};

/// One measured fact of the device.
pub(crate) struct Fact {
    pub(crate) about: &'static str,
    /// What the device does.
    pub(crate) target: &'static str,
    /// Lowest and highest value that meet the fact.
    pub(crate) band: (f64, f64),
    /// Whether the model with parameter set A must meet it.
    pub(crate) met_by_a: bool,
    pub(crate) measure: fn(&Bench) -> f64,
}

impl Fact {
    /// Whether `value` meets the fact.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.band.0..=self.band.1).contains(&value)
    }
}

/// A device in both conditions; each is made when it is first needed.
pub(crate) struct Bench {
    profile: Profile,
    clean: OnceCell<Image>,
    fragmented: OnceCell<Image>,
}

const CONDITIONING_SEED: u64 = 7;
const WARM_UP: Nanos = Nanos::millis(50);
/// Writes first have to fill the write buffer and reach their steady state.
const WRITE_WARM_UP: Nanos = Nanos::millis(300);
const SPAN: Nanos = Nanos::millis(200);
/// Garbage collection works in blocks, so its mean needs longer.
const WRITE_SPAN: Nanos = Nanos::millis(1000);
/// Some 30,000 commands one after the other, so that one in a thousand occurs often enough.
const LONE_SPAN: Nanos = Nanos::secs(3);
const SIZES_KIB: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];

impl Bench {
    pub(crate) fn new(profile: &Profile) -> Bench {
        Bench { profile: profile.clone(), clean: OnceCell::new(), fragmented: OnceCell::new() }
    }

    fn clean(&self) -> &Image {
        self.clean.get_or_init(|| Image::new(&self.profile, Condition::Clean, CONDITIONING_SEED))
    }

    fn fragmented(&self) -> &Image {
        self.fragmented.get_or_init(|| Image::new(&self.profile, Condition::Fragmented, CONDITIONING_SEED))
    }

    fn clean_reads(&self, streams: &[Stream]) -> Run {
        run(self.clean(), streams, WARM_UP, SPAN)
    }

    fn fragmented_reads(&self, streams: &[Stream]) -> Run {
        run(self.fragmented(), streams, WARM_UP, SPAN)
    }

    fn clean_writes(&self, streams: &[Stream]) -> Run {
        run(self.clean(), streams, WRITE_WARM_UP, WRITE_SPAN)
    }

    fn fragmented_writes(&self, streams: &[Stream]) -> Run {
        run(self.fragmented(), streams, WRITE_WARM_UP, WRITE_SPAN)
    }

    /// Latencies of 4 KiB commands at random positions, one at a time, on a clean device.
    pub(crate) fn lone_commands(&self, read_percent: u32) -> Measured {
        run(self.clean(), &[Stream::random(read_percent, 4, 1)], WARM_UP, LONE_SPAN).streams.swap_remove(0)
    }

    /// MB/s of a mix of 4 KiB commands at random positions, 32 outstanding, in each condition.
    pub(crate) fn mix(&self, condition: Condition, read_percent: u32) -> f64 {
        let stream = [Stream::random(read_percent, 4, 32)];
        match condition {
            Condition::Clean => self.clean_writes(&stream).bandwidth(),
            Condition::Fragmented => self.fragmented_writes(&stream).bandwidth(),
        }
    }

    /// Percentage of its stand-alone bandwidth that a reader keeps when a writer of the same size runs on the
    /// other half.
    fn reader_keeps(&self, read: &Stream, write: &Stream) -> f64 {
        let slots = u32::try_from(self.profile.geometry.capacity.get() / ssd::SLOT_BYTES).expect("scaled");
        let read = read.clone().within(slots, 0, 2);
        let write = write.clone().within(slots, 1, 2);
        let alone = self.clean_reads(std::slice::from_ref(&read)).bandwidth();
        let together = run(self.clean(), &[read, write], WRITE_WARM_UP, SPAN).streams[0].bandwidth();
        100.0 * together / alone
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// The minimum of bandwidth over the read ratio, as a share of the lower of the two ends.
fn bathtub(measure: impl Fn(u32) -> f64) -> f64 {
    let ends = measure(0).min(measure(100));
    [30, 50, 70, 80, 90].into_iter().map(measure).fold(f64::MAX, f64::min) / ends
}

pub(crate) const FACTS: &[Fact] = &[
    Fact {
        about: "128 KiB random read, clean, QD 32 (GB/s)",
        target: "3.16",
        band: (2.84, 3.48),
        met_by_a: true,
        measure: |bench| bench.clean_reads(&[Stream::random(100, 128, 32)]).bandwidth() / 1e3,
    },
    Fact {
        about: "128 KiB sequential read at QD 8, share of full speed",
        target: "1",
        band: (0.97, 1.03),
        met_by_a: true,
        measure: |bench| sequential_read(bench, 8) / sequential_read(bench, 32),
    },
    Fact {
        about: "128 KiB sequential read at QD 4, share of full speed",
        target: "< 0.9",
        band: (0.0, 0.9),
        met_by_a: true,
        measure: |bench| sequential_read(bench, 4) / sequential_read(bench, 32),
    },
    Fact {
        about: "4 KiB random read, clean, QD 128 (GB/s)",
        target: "1.67",
        band: (1.50, 1.84),
        met_by_a: true,
        measure: |bench| bench.clean_reads(&[Stream::random(100, 4, 128)]).bandwidth() / 1e3,
    },
    Fact {
        about: "4 KiB read, QD 1, latency (us)",
        target: "80-90",
        band: (80.0, 90.0),
        met_by_a: true,
        measure: |bench| bench.clean_reads(&[Stream::random(100, 4, 1)]).streams[0].read_latency(),
    },
    Fact {
        about: "4 KiB read bandwidth, QD 64 to QD 32 side by side",
        target: "2.0",
        band: (1.8, 2.2),
        met_by_a: true,
        measure: |bench| {
            let run = bench.clean_reads(&[Stream::random(100, 4, 64), Stream::random(100, 4, 32)]);
            run.streams[0].bandwidth() / run.streams[1].bandwidth()
        },
    },
    Fact {
        about: "128 KiB sequential write, clean (MB/s)",
        target: "1050-1400",
        band: (1050.0, 1400.0),
        met_by_a: true,
        measure: |bench| bench.clean_writes(&[Stream::sequential(0, 128, 32)]).bandwidth(),
    },
    Fact {
        about: "4 KiB random write, fragmented (MB/s)",
        target: "180",
        band: (162.0, 198.0),
        met_by_a: true,
        measure: fragmented_random_write,
    },
    Fact {
        about: "write cost: 4 KiB random read to write, fragmented",
        target: "9",
        band: (8.1, 9.9),
        met_by_a: true,
        measure: |bench| {
            let read = bench.fragmented_reads(&[Stream::random(100, 4, 128)]).bandwidth();
            read / fragmented_random_write(bench)
        },
    },
    Fact {
        about: "4 KiB write at 40 MB/s next to 4 KiB reads at QD 16, clean, latency (us)",
        target: "70",
        band: (63.0, 77.0),
        met_by_a: true,
        measure: |bench| {
            let trickle = Stream::random(0, 4, 1).offering(ByteRate(40_000_000));
            let run = run(bench.clean(), &[Stream::random(100, 4, 16), trickle], WARM_UP, WRITE_SPAN);
            run.streams[1].write_latency()
        },
    },
    Fact {
        about: "4 KiB write latency at QD 128 to that at 70 % of the drain rate, fragmented",
        target: "> 10",
        band: (10.0, f64::MAX),
        met_by_a: true,
        measure: |bench| {
            let over = bench.fragmented_writes(&[Stream::random(0, 4, 128)]);
            let drain = ByteRate((0.7 * over.bandwidth() * 1e6) as u64);
            let under = bench.fragmented_writes(&[Stream::random(0, 4, 1).offering(drain)]);
            over.streams[0].write_latency() / under.streams[0].write_latency()
        },
    },
    Fact {
        about: "two 4 KiB readers, QD 32 each, clean: the first one (MB/s)",
        target: "850",
        band: (765.0, 935.0),
        met_by_a: true,
        measure: |bench| two_readers(bench, 0),
    },
    Fact {
        about: "two 4 KiB readers, QD 32 each, clean: the second one (MB/s)",
        target: "850",
        band: (765.0, 935.0),
        met_by_a: true,
        measure: |bench| two_readers(bench, 1),
    },
    Fact {
        about: "64 KiB reader next to a 4 KiB reader, QD 32, fragmented (MB/s)",
        target: "1473",
        band: (1326.0, 1620.0),
        met_by_a: true,
        measure: |bench| unequal_readers(bench, 1),
    },
    Fact {
        about: "4 KiB reader next to a 64 KiB reader, QD 32, fragmented (MB/s)",
        target: "91",
        band: (82.0, 100.0),
        met_by_a: false,
        measure: |bench| unequal_readers(bench, 0),
    },
    Fact {
        about: "4 KiB random mix, clean, QD 32: worst ratio to the lower end (bathtub)",
        target: "< 1",
        band: (0.0, 0.95),
        met_by_a: true,
        measure: |bench| bathtub(|read| bench.mix(Condition::Clean, read)),
    },
    Fact {
        about: "4 KiB random mix, fragmented, QD 32: worst ratio to the lower end (bathtub)",
        target: "< 1",
        band: (0.0, 0.95),
        met_by_a: false,
        measure: |bench| bathtub(|read| bench.mix(Condition::Fragmented, read)),
    },
    Fact {
        about: "256 KiB random read, QD 1, clean, latency (us)",
        target: "200",
        band: (180.0, 220.0),
        met_by_a: true,
        measure: |bench| bench.clean_reads(&[Stream::random(100, 256, 1)]).streams[0].read_latency(),
    },
    Fact {
        about: "256 KiB random read, QD 8, clean, latency (us)",
        target: "400-800",
        band: (400.0, 800.0),
        met_by_a: true,
        measure: |bench| bench.clean_reads(&[Stream::random(100, 256, 8)]).streams[0].read_latency(),
    },
    Fact {
        about: "256 KiB random read in a 70:30 mix, QD 1, clean, latency (us)",
        target: "400-800",
        band: (400.0, 800.0),
        met_by_a: false,
        measure: |bench| bench.clean_reads(&[Stream::random(70, 256, 1)]).streams[0].read_latency(),
    },
    Fact {
        about: "reader next to a writer, random, 4 KiB, QD 32: keeps of its bandwidth (%)",
        target: "38.9",
        band: (35.0, 42.8),
        met_by_a: false,
        measure: |bench| random_reader_keeps(bench, 4),
    },
    Fact {
        about: "reader next to a writer, random, mean over 4-256 KiB, QD 32: keeps (%)",
        target: "38.9",
        band: (35.0, 42.8),
        met_by_a: true,
        measure: |bench| mean(SIZES_KIB.iter().map(|&kib| random_reader_keeps(bench, kib))),
    },
    Fact {
        about: "reader next to a writer, sequential, 128 KiB, QD 32: keeps of its bandwidth (%)",
        target: "27.3",
        band: (24.6, 30.0),
        met_by_a: true,
        measure: |bench| sequential_reader_keeps(bench, 128, 32),
    },
    Fact {
        about: "reader next to a writer, sequential, mean over 4-256 KiB, QD 32: keeps (%)",
        target: "27.3",
        band: (24.6, 30.0),
        met_by_a: true,
        measure: |bench| mean(SIZES_KIB.iter().map(|&kib| sequential_reader_keeps(bench, kib, 32))),
    },
    Fact {
        about: "reader next to a writer, sequential, mean over 4-256 KiB, QD 8: keeps (%)",
        target: "27.3",
        band: (24.6, 30.0),
        met_by_a: false,
        measure: |bench| mean(SIZES_KIB.iter().map(|&kib| sequential_reader_keeps(bench, kib, 8))),
    },
];

fn sequential_read(bench: &Bench, depth: u32) -> f64 {
    bench.clean_reads(&[Stream::sequential(100, 128, depth)]).bandwidth()
}

fn fragmented_random_write(bench: &Bench) -> f64 {
    bench.fragmented_writes(&[Stream::random(0, 4, 128)]).bandwidth()
}

fn two_readers(bench: &Bench, which: usize) -> f64 {
    let reader = Stream::random(100, 4, 32);
    bench.clean_reads(&[reader.clone(), reader]).streams[which].bandwidth()
}

fn unequal_readers(bench: &Bench, which: usize) -> f64 {
    let streams = [Stream::random(100, 4, 32), Stream::random(100, 64, 32)];
    bench.fragmented_reads(&streams).streams[which].bandwidth()
}

fn random_reader_keeps(bench: &Bench, kib: u32) -> f64 {
    bench.reader_keeps(&Stream::random(100, kib, 32), &Stream::random(0, kib, 32))
}

fn sequential_reader_keeps(bench: &Bench, kib: u32, depth: u32) -> f64 {
    bench.reader_keeps(&Stream::sequential(100, kib, depth), &Stream::sequential(0, kib, depth))
}
