//! The stream of operations of one thread.

use crate::choice::{Lengths, Requests};
use crate::keys::Keys;
use crate::text;
use crate::workload::{Mix, Workload};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads a record.
    Read,
    /// Writes fields of a record.
    Update,
    /// Writes a new record.
    Insert,
    /// Reads consecutive records.
    Scan,
    /// Reads a record, then writes fields of it.
    ReadModifyWrite,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Update, Kind::Insert, Kind::Scan, Kind::ReadModifyWrite];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::ReadModifyWrite => "read-modify-write",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All of them.
    All,
    /// This one.
    One(u32),
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub kind: Kind,
    /// The record, or the first one of a scan.
    pub record: u64,
    /// The number of records of a scan.
    pub scan: u64,
    /// The fields to read, for kinds that read.
    pub reads: Fields,
    /// The fields to write, for kinds that write.
    pub writes: Fields,
}

/// The stream of operations of one thread, which its seed determines.
#[derive(Debug)]
pub struct Generator {
    workload: Arc<Workload>,
    keys: Arc<Keys>,
    requests: Requests,
    scans: Lengths,
    lengths: Lengths,
    rng: Xoshiro256PlusPlus,
}

impl Generator {
    /// The stream of thread `thread` for a seed. Streams of different threads do not overlap.
    pub fn new(workload: Arc<Workload>, keys: Arc<Keys>, seed: u64, thread: u32) -> Generator {
        let requests = Requests::new(&workload);
        Generator::with_requests(workload, keys, requests, seed, thread)
    }

    /// A stream whose records are chosen by `requests` instead of the workload.
    pub fn with_requests(
        workload: Arc<Workload>,
        keys: Arc<Keys>,
        requests: Requests,
        seed: u64,
        thread: u32,
    ) -> Generator {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..thread).for_each(|_| rng.jump());
        let scans = Lengths::new(workload.scan_distribution, workload.scan_length);
        let lengths = Lengths::new(workload.field_distribution, workload.field_length);
        Generator { workload, keys, requests, scans, lengths, rng }
    }

    /// Generates the next operation. An insert must be acknowledged (`Keys::acknowledge`) when it has ended.
    pub fn next_operation(&mut self) -> Operation {
        let kind = self.kind();
        let record = match kind {
            Kind::Insert => self.keys.next_insert(),
            _ => self.requests.next(&self.keys, &mut self.rng),
        };
        let scan = if kind == Kind::Scan { self.scans.next(&mut self.rng) } else { 0 };
        let reads = if self.workload.reads_all { Fields::All } else { self.one() };
        let writes = if kind == Kind::Insert || self.workload.writes_all { Fields::All } else { self.one() };
        Operation { kind, record, scan, reads, writes }
    }

    fn one(&mut self) -> Fields {
        Fields::One(self.rng.random_range(0..self.workload.fields))
    }

    fn kind(&mut self) -> Kind {
        let Mix { read, update, insert, scan, read_modify_write } = self.workload.mix;
        let weights = [read, update, insert, scan, read_modify_write];
        let mut drawn = self.rng.random::<f64>() * weights.iter().sum::<f64>();
        let mut last = Kind::Read;
        for (kind, weight) in Kind::ALL.into_iter().zip(weights).filter(|(_, weight)| *weight > 0.0) {
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
            last = kind;
        }
        // Only rounding errors lead here.
        last
    }

    /// The bytes to write to a field of a record.
    pub fn value(&mut self, record: u64, field: u32) -> Vec<u8> {
        let length = self.lengths.next(&mut self.rng) as usize;
        if self.workload.is_checked {
            self.workload.expected(record, field, length)
        } else {
            text::random(length, &mut self.rng)
        }
    }

    /// The fields to write to a record, each with its name and bytes.
    pub fn values(&mut self, record: u64, fields: Fields) -> Vec<(String, Vec<u8>)> {
        let range = match fields {
            Fields::All => 0..self.workload.fields,
            Fields::One(field) => field..field + 1,
        };
        range.map(|field| (self.workload.field(field), self.value(record, field))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Properties;

    fn generator(workload: char, seed: u64, thread: u32) -> Generator {
        let workload =
            Workload::new(&Properties::core(workload).expect("a core workload")).expect("it works");
        let keys = Arc::new(Keys::new(&workload));
        Generator::new(Arc::new(workload), keys, seed, thread)
    }

    #[test]
    fn a_seed_and_a_thread_give_one_stream() {
        let stream = |seed, thread| -> Vec<(Operation, Vec<u8>)> {
            let mut generator = generator('f', seed, thread);
            let next = |_| {
                let operation = generator.next_operation();
                let value = generator.value(operation.record, 0);
                (operation, value)
            };
            (0..100).map(next).collect()
        };
        assert_eq!(stream(1, 0), stream(1, 0));
        assert_ne!(stream(1, 0), stream(1, 1));
        assert_ne!(stream(1, 0), stream(2, 0));
    }

    #[test]
    fn reads_never_ask_for_a_record_that_is_not_there() {
        for workload in ['d', 'e'] {
            let mut generator = generator(workload, 3, 0);
            let mut pending = Vec::new();
            for _ in 0..20_000 {
                let limit = generator.keys.limit();
                let operation = generator.next_operation();
                match operation.kind {
                    Kind::Insert => pending.push(operation.record),
                    _ => assert!(operation.record < limit, "{operation:?}, limit {limit}"),
                }
                // The inserts are acknowledged late, and the newest first.
                if pending.len() == 5 {
                    pending.drain(..).rev().for_each(|record| generator.keys.acknowledge(record));
                }
            }
            assert!(generator.keys.limit() > 1000 + 500, "nothing was inserted");
        }
    }
}
