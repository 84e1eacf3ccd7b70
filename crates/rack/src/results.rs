//! What was measured.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use units::Nanos;
use ycsb::Kind;

/// What was measured, over all databases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Latencies in nanoseconds by kind of operation, of all that have ended while it was measured.
    pub kinds: BTreeMap<Kind, Histogram<u64>>,
    /// Operations of each database.
    pub operations: Vec<u64>,
    /// IOs that the SSDs have ended, reads and writes, from the start.
    pub ios: [u64; 2],
    /// Reads that went to the primary copy and to the other one, from the start.
    pub copies_read: [u64; 2],
}

impl Results {
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
