//! Measurements.

use crate::choices::Choices;
use hdrhistogram::Histogram;
use sched::{Learnt, ObjectiveState};
use std::collections::BTreeMap;
use units::Nanos;
use ycsb::Kind;

/// Measurements over all databases.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Latencies in nanoseconds by kind of operation, of all that have ended while it was measured.
    pub kinds: BTreeMap<Kind, Histogram<u64>>,
    /// Operations of each database.
    pub operations: Vec<u64>,
    /// IOs that the SSDs have ended, reads and writes, from the start.
    pub ios: [u64; 2],
    /// Reads that went to the primary copy and to the other one, from the start.
    pub copies_read: [u64; 2],
    /// Time spent by IOs, by their purpose, during the measurement.
    pub stays: BTreeMap<Purpose, Stay>,
    /// Worth of choosing a copy, while it was measured.
    pub choices: Choices,
    /// Small reads of each SSD, while it was measured.
    pub reads_of: Vec<u64>,
    /// Bytes read and written for the databases and for each neighbour, while it was measured.
    pub bytes: (u64, Vec<u64>),
    /// States of objectives at the end, one for each database and SSD; `None`: the scheduler has said nothing of it.
    pub objectives: Vec<Option<ObjectiveState>>,
    /// Learnt facts of the first SSD's scheduler.
    pub learnt: Option<Learnt>,
}

/// Purpose of an IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A block that an operation needs.
    Get,
    /// The log.
    Log,
    /// Read by a compaction.
    Merge,
    /// Written by a flush or compaction.
    Table,
    /// Given back to the SSD.
    Trim,
    /// The work of the neighbours.
    Neighbour,
}

/// Where the time of IOs went: sums over IOs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// Number of them.
    pub ios: u64,
    /// Waiting in the client, for credit.
    pub client: Nanos,
    /// Waiting in the scheduler.
    pub switch: Nanos,
    /// In the SSD.
    pub ssd: Nanos,
}

impl Results {
    pub(crate) fn new(databases: usize, neighbours: usize, ssds: usize) -> Results {
        Results {
            kinds: BTreeMap::new(),
            operations: vec![0; databases],
            ios: [0; 2],
            copies_read: [0; 2],
            stays: BTreeMap::new(),
            choices: Choices::new(ssds),
            reads_of: vec![0; ssds],
            bytes: (0, vec![0; neighbours]),
            objectives: Vec::new(),
            learnt: None,
        }
    }

    pub(crate) fn record(&mut self, database: usize, kind: Kind, latency: Nanos) {
        let latencies = self.kinds.entry(kind).or_insert_with(histogram);
        latencies.record(latency.0.max(1)).expect("histograms grow");
        self.operations[database] += 1;
    }

    /// Latencies of all operations.
    pub fn all(&self) -> Histogram<u64> {
        let mut all = histogram();
        self.kinds.values().for_each(|of_kind| all.add(of_kind).expect("histograms grow"));
        all
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are possible")
}
