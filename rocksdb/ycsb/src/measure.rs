//! Latencies by kind of operation.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use ycsb::Kind;
use ycsb::plan::{Latency, Measured};

/// Latencies of one thread, one database, or all.
#[derive(Default)]
pub(crate) struct Latencies {
    kinds: BTreeMap<Kind, Histogram<u64>>,
    pub(crate) missing: u64,
    pub(crate) wrong: u64,
}

/// In nanoseconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are possible")
}

impl Latencies {
    /// An operation has taken so long.
    pub(crate) fn record(&mut self, kind: Kind, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX / 4).max(1);
        self.kinds.entry(kind).or_insert_with(histogram).record(nanos).expect("histograms grow");
    }

    /// Adds those of another.
    pub(crate) fn add(&mut self, other: &Latencies) {
        for (kind, latencies) in &other.kinds {
            let sum = self.kinds.entry(*kind).or_insert_with(histogram);
            sum.add(latencies).expect("histograms that grow have room for each other");
        }
        self.missing += other.missing;
        self.wrong += other.wrong;
    }

    /// As results, after `seconds`.
    pub(crate) fn measured(&self, name: &str, seconds: f64) -> Measured {
        let mut all = histogram();
        for latencies in self.kinds.values() {
            all.add(latencies).expect("histograms that grow have room for each other");
        }
        Measured {
            name: name.to_owned(),
            throughput: if seconds > 0.0 { all.len() as f64 / seconds } else { 0.0 },
            all: summary(&all),
            kinds: self.kinds.iter().map(|(kind, latencies)| (*kind, summary(latencies))).collect(),
            missing: self.missing,
            wrong: self.wrong,
        }
    }
}

fn summary(latencies: &Histogram<u64>) -> Latency {
    let micros = |nanos: u64| nanos as f64 / 1e3;
    Latency {
        count: latencies.len(),
        mean: latencies.mean() / 1e3,
        p50: micros(latencies.value_at_quantile(0.5)),
        p99: micros(latencies.value_at_quantile(0.99)),
        p999: micros(latencies.value_at_quantile(0.999)),
        max: micros(latencies.max()),
    }
}
