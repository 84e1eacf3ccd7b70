//! Latency against load: what a real drive does, and what the model does at the same loads.
//!
//! A *mix* is a share of writes. The commands are random, of 4 KiB, and arrive at random times (Poisson), whatever the device does;
//! latencies are those of reads and writes together. A drive's file has one row for each mix and load.
//!
//! A load is *sustained* if at least 99 % of it is done. The *knee* of a mix is the highest load below the first one that is not
//! sustained. At every load below the knee, the model's median must be within 15 % of the drive's and its p99 within 35 %. Its knee must
//! be within 15 %: it sustains 85 % of the drive's, and not 115 %. If the drive sustains every load of the file, the last one counts as
//! its knee, and the model's may be higher.

use crate::driver::{Stream, run_over};
use serde::Deserialize;
use ssd::{Condition, Image, Profile, SLOT_BYTES};
use units::{ByteRate, Nanos};

const MEDIAN_WITHIN: f64 = 0.15;
const P99_WITHIN: f64 = 0.35;
pub(crate) const KNEE_WITHIN: f64 = 0.15;
/// Share of a sustained load that is done at least.
const SUSTAINED: f64 = 0.99;
const CONDITIONING_SEED: u64 = 7;

/// Latencies in µs at one load.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Point {
    pub(crate) writes_permille: u32,
    pub(crate) offered_iops: f64,
    pub(crate) achieved_iops: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl Point {
    pub(crate) fn is_sustained(&self) -> bool {
        self.achieved_iops >= SUSTAINED * self.offered_iops
    }

    /// Whether the model's median is near enough to the drive's.
    pub(crate) fn meets_median_of(&self, drive: &Point) -> bool {
        (self.p50_us - drive.p50_us).abs() <= MEDIAN_WITHIN * drive.p50_us
    }

    /// Whether the model's p99 is near enough to the drive's.
    pub(crate) fn meets_p99_of(&self, drive: &Point) -> bool {
        (self.p99_us - drive.p99_us).abs() <= P99_WITHIN * drive.p99_us
    }
}

/// The highest load that is sustained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Knee {
    At(f64),
    /// All loads of the file are sustained; this is the highest.
    Beyond(f64),
}

impl Knee {
    pub(crate) fn load(self) -> f64 {
        match self {
            Knee::At(load) | Knee::Beyond(load) => load,
        }
    }
}

/// A real drive's latencies at all mixes and loads.
pub(crate) struct Drive {
    points: Vec<Point>,
}

impl Drive {
    /// The drive in a file like those in `data/real-drives`.
    ///
    /// # Errors
    /// The text lacks a column, or has something that is no number.
    pub(crate) fn parse(text: &str) -> Result<Drive, csv::Error> {
        let points =
            csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<Vec<_>, _>>()?;
        Ok(Drive { points })
    }

    /// Shares of writes, in thousandths.
    pub(crate) fn mixes(&self) -> Vec<u32> {
        let mut mixes: Vec<u32> = self.points.iter().map(|point| point.writes_permille).collect();
        mixes.dedup();
        mixes
    }

    /// The loads of a mix, lowest first.
    fn curve(&self, writes_permille: u32) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.writes_permille == writes_permille)
    }

    pub(crate) fn knee(&self, writes_permille: u32) -> Knee {
        let mut sustained = 0.0;
        for point in self.curve(writes_permille) {
            if !point.is_sustained() {
                return Knee::At(sustained);
            }
            sustained = point.offered_iops;
        }
        Knee::Beyond(sustained)
    }

    /// The loads of a mix below its knee, lowest first.
    pub(crate) fn below_knee(&self, writes_permille: u32) -> Vec<&Point> {
        let knee = self.knee(writes_permille).load();
        self.curve(writes_permille).take_while(|point| point.offered_iops < knee).collect()
    }

    /// Of every second load of a mix below its knee, those nearest to these shares of the knee.
    pub(crate) fn near(&self, writes_permille: u32, shares: &[f64]) -> Vec<Point> {
        let below = self.below_knee(writes_permille);
        let knee = self.knee(writes_permille).load();
        let nearest = |share: &f64| {
            let away = |point: &&&Point| (point.offered_iops - share * knee).abs();
            below.iter().step_by(2).min_by(|one, other| away(one).total_cmp(&away(other)))
        };
        let mut points: Vec<Point> = shares.iter().filter_map(nearest).map(|point| **point).collect();
        points.dedup_by_key(|point| point.offered_iops.to_bits());
        points
    }
}

/// How much is measured at each load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Commands whose latency counts.
    pub(crate) commands: f64,
    /// Least time in which they are counted.
    pub(crate) span: Nanos,
    /// Time before that.
    pub(crate) warm_up: Nanos,
}

/// The model in the state of random overwrites.
pub(crate) struct Model {
    image: Image,
    effort: Effort,
}

impl Model {
    pub(crate) fn new(profile: &Profile, effort: Effort) -> Model {
        Model { image: Image::new(profile, Condition::Fragmented, CONDITIONING_SEED), effort }
    }

    /// What the model does at one load.
    pub(crate) fn at(&self, writes_permille: u32, offered_iops: f64) -> Point {
        let rate = ByteRate((offered_iops * SLOT_BYTES as f64) as u64);
        let stream = Stream::random((1000 - writes_permille) / 10, 4, 0).offering(rate);
        let span = Nanos((self.effort.commands / offered_iops * 1e9) as u64).max(self.effort.span);
        let run = run_over(Nanos::ZERO, &self.image, &[stream], self.effort.warm_up, span);
        let measured = &run.streams[0];
        let [p50_us, p99_us, p999_us] = measured.percentiles([500, 990, 999]);
        let achieved_iops = measured.bandwidth() * 1e6 / SLOT_BYTES as f64;
        Point { writes_permille, offered_iops, achieved_iops, p50_us, p99_us, p999_us }
    }

    /// Whether the model's knee is near enough to the drive's.
    pub(crate) fn meets_knee(&self, writes_permille: u32, drive: Knee) -> bool {
        let sustains = |load| self.at(writes_permille, load).is_sustained();
        sustains((1.0 - KNEE_WITHIN) * drive.load())
            && (matches!(drive, Knee::Beyond(_)) || !sustains((1.0 + KNEE_WITHIN) * drive.load()))
    }
}
