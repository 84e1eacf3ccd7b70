//! Which record an operation asks for, and how long things are.

use crate::keys::Keys;
use crate::text::hash;
use crate::workload::{Distribution, LengthDistribution, Workload};
use crate::zipf::{THETA, Zipf};
use rand::Rng;

/// Popularity is drawn among this many items, and then scattered over the records by a hash. So which records are popular does not
/// depend on how many there are.
const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// The sum for so many items, as YCSB has it: summing takes a minute.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Chooses the records to ask for.
#[derive(Clone, Debug)]
pub enum Requests {
    /// Each equally often.
    Uniform {
        /// The first record.
        first: u64,
        /// Number of records.
        count: u64,
    },
    /// Few are very popular, and lie anywhere.
    Zipfian(Scrambled),
    /// The newest are the most popular.
    Latest(Latest),
    /// A part of the records is asked for more often.
    Hotspot {
        /// The first record; the hot ones come first.
        first: u64,
        /// Number of hot records.
        hot: u64,
        /// Number of the others.
        cold: u64,
        /// Part of the operations that ask for the hot ones.
        share: f64,
    },
    /// One after the other.
    Sequential {
        /// The first record.
        first: u64,
        /// Number of records.
        count: u64,
    },
    /// The newest are the most popular, the others exponentially less.
    Exponential {
        /// 1 / mean distance from the newest.
        gamma: f64,
    },
}

/// Zipf's distribution, scattered over the records.
#[derive(Clone, Debug)]
pub struct Scrambled {
    zipf: Zipf,
    first: u64,
    count: u64,
    is_scattered: bool,
}

/// Zipf's distribution of the distance from the newest record.
#[derive(Clone, Debug)]
pub struct Latest(Zipf);

impl Requests {
    /// As a workload asks for it.
    pub fn new(workload: &Workload) -> Requests {
        let (first, count) = (workload.insert_start, workload.insert_count);
        match workload.distribution {
            Distribution::Uniform => Requests::Uniform { first, count },
            Distribution::Zipfian => Requests::zipfian(workload, THETA, SCRAMBLED_ZETA, true),
            Distribution::Latest => Requests::Latest(Latest(Zipf::new(workload.records - 1, THETA))),
            Distribution::Hotspot { data, operations } => {
                let hot = (count as f64 * data) as u64;
                Requests::Hotspot { first, hot, cold: count - hot, share: operations }
            }
            Distribution::Sequential => Requests::Sequential { first, count },
            Distribution::Exponential { percentile, part } => {
                let range = workload.records as f64 * part;
                Requests::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / range }
            }
        }
    }

    /// Zipf's distribution with another exponent than YCSB's, whose sum over 10¹⁰ + 1 items is `zeta`, or not scattered. For tests that
    /// must tell it from YCSB's.
    pub fn zipfian(workload: &Workload, theta: f64, zeta: f64, is_scattered: bool) -> Requests {
        // Records that will be inserted are among those that are drawn from, and drawn again while they do not exist.
        let expected = (workload.operations as f64 * workload.mix.insert * 2.0) as u64;
        let count = workload.insert_count + expected + 1;
        let zipf = Zipf::with_zeta(SCRAMBLED_ITEMS, theta, zeta);
        Requests::Zipfian(Scrambled { zipf, first: workload.insert_start, count, is_scattered })
    }

    /// A record that exists.
    pub fn next(&mut self, keys: &Keys, rng: &mut impl Rng) -> u64 {
        let limit = keys.limit();
        loop {
            let record = self.draw(limit, keys, rng);
            if let Some(record) = record.filter(|record| *record < limit) {
                return record;
            }
        }
    }

    /// A record, perhaps one that does not exist. `None`: before the first.
    fn draw(&mut self, limit: u64, keys: &Keys, rng: &mut impl Rng) -> Option<u64> {
        let newest = limit - 1;
        match self {
            Requests::Uniform { first, count } => Some(*first + rng.random_range(0..*count)),
            Requests::Zipfian(Scrambled { zipf, first, count, is_scattered }) => {
                let item = zipf.next(rng);
                Some(*first + if *is_scattered { hash(item) % *count } else { item % *count })
            }
            // The oldest one is never chosen, as in YCSB.
            Requests::Latest(Latest(zipf)) => Some(newest - zipf.next_of(newest, rng).min(newest)),
            Requests::Hotspot { first, hot, cold, share } => Some(if rng.random::<f64>() < *share {
                *first + rng.random_range(0..*hot)
            } else {
                *first + *hot + rng.random_range(0..*cold)
            }),
            Requests::Sequential { first, count } => Some(*first + keys.next_in_sequence() % *count),
            Requests::Exponential { gamma } => {
                let behind = -rng.random::<f64>().ln() / *gamma;
                newest.checked_sub(behind as u64)
            }
        }
    }
}

/// How long a scan or a field is.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// From a smallest to a largest.
    Uniform(u64, u64),
    /// The smallest most often.
    Zipfian(u64, ZipfianLengths),
    /// Always the same.
    Constant(u64),
}

/// Zipf's distribution of lengths.
#[derive(Clone, Debug)]
pub struct ZipfianLengths(Zipf);

impl Lengths {
    /// Lengths from `range.0` to `range.1`; constant ones are the largest.
    pub fn new(distribution: LengthDistribution, range: (u64, u64)) -> Lengths {
        let (smallest, largest) = range;
        match distribution {
            LengthDistribution::Constant => Lengths::Constant(largest),
            LengthDistribution::Uniform => Lengths::Uniform(smallest, largest),
            LengthDistribution::Zipfian => {
                Lengths::Zipfian(smallest, ZipfianLengths(Zipf::new(largest - smallest + 1, THETA)))
            }
        }
    }

    /// The next length.
    pub fn next(&mut self, rng: &mut impl Rng) -> u64 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform(smallest, largest) => rng.random_range(*smallest..=*largest),
            Lengths::Zipfian(smallest, ZipfianLengths(zipf)) => *smallest + zipf.next(rng),
        }
    }
}
