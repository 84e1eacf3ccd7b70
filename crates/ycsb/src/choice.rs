//! The choices of records for operations, and of lengths for scans and fields.

use crate::keys::Keys;
use crate::text::hash;
use crate::workload::{Distribution, LengthDistribution, Workload};
use crate::zipf::{THETA, Zipf};
use rand::Rng;

/// Number of items among which popularity is drawn; a hash then scatters them over the records. So the choice of the
/// popular records does not depend on the number of records.
const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// Zeta of this number of items, as in YCSB; a constant because summing takes a minute.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Chooses the records of operations.
#[derive(Clone, Debug)]
pub enum Requests {
    /// All records with equal probability.
    Uniform {
        /// The first record.
        first: u64,
        /// Number of records.
        count: u64,
    },
    /// A few records are very popular; they are anywhere among the records.
    Zipfian(Scrambled),
    /// The newest records are the most popular.
    Latest(Latest),
    /// A part of the records is chosen more often.
    Hotspot {
        /// The first record; the hot ones come first.
        first: u64,
        /// Number of hot records.
        hot: u64,
        /// Number of the others.
        cold: u64,
        /// Fraction of the operations that choose a hot record.
        share: f64,
    },
    /// One record after the other.
    Sequential {
        /// The first record.
        first: u64,
        /// Number of records.
        count: u64,
    },
    /// The newest record is the most popular; popularity falls exponentially with age.
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
    /// The choice that a workload defines.
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

    /// A Zipf distribution with another exponent than YCSB's (`zeta` is its sum over 10¹⁰ + 1 items), or one that is
    /// not scattered. For tests that must distinguish it from YCSB's.
    pub fn zipfian(workload: &Workload, theta: f64, zeta: f64, is_scattered: bool) -> Requests {
        // The draw includes records that are yet to be inserted; it is repeated while the record does not exist.
        let expected = (workload.operations as f64 * workload.mix.insert * 2.0) as u64;
        let count = workload.insert_count + expected + 1;
        let zipf = Zipf::with_zeta(SCRAMBLED_ITEMS, theta, zeta);
        Requests::Zipfian(Scrambled { zipf, first: workload.insert_start, count, is_scattered })
    }

    /// Chooses a record that exists.
    pub fn next(&mut self, keys: &Keys, rng: &mut impl Rng) -> u64 {
        let limit = keys.limit();
        loop {
            let record = self.draw(limit, keys, rng);
            if let Some(record) = record.filter(|record| *record < limit) {
                return record;
            }
        }
    }

    /// Draws a record, which may not exist. `None` means one before the first.
    fn draw(&mut self, limit: u64, keys: &Keys, rng: &mut impl Rng) -> Option<u64> {
        let newest = limit - 1;
        match self {
            Requests::Uniform { first, count } => Some(*first + rng.random_range(0..*count)),
            Requests::Zipfian(Scrambled { zipf, first, count, is_scattered }) => {
                let item = zipf.next(rng);
                Some(*first + if *is_scattered { hash(item) % *count } else { item % *count })
            }
            // The oldest record is never chosen, as in YCSB.
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

/// Chooses the length of a scan or a field.
#[derive(Clone, Debug)]
pub enum Lengths {
    /// Uniform from a smallest to a largest length.
    Uniform(u64, u64),
    /// Zipf: the smallest length is the most frequent.
    Zipfian(u64, ZipfianLengths),
    /// A constant length.
    Constant(u64),
}

/// Zipf's distribution of lengths.
#[derive(Clone, Debug)]
pub struct ZipfianLengths(Zipf);

impl Lengths {
    /// Lengths from `range.0` to `range.1`. The constant is the largest.
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
