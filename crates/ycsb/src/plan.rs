//! The protocol between `gimbal bench ycsb` and the program that drives RocksDB: a plan, then lines of JSON.
//!
//! ```text
//!   gimbal ── plan, one line ──► gimbal-ycsb ── progress, progress, …, report or failure ──► gimbal
//! ```
//!
//! The driver runs only while its standard input stays open. So it ends with the command that started it, however that
//! ends.

use crate::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The location of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name in results.
    pub name: String,
    /// The file system, such as `gimbal://…`; `None` is the local one.
    pub uri: Option<String>,
    /// The path in this file system.
    pub path: String,
}

/// The work of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The databases, which all work at the same time.
    pub places: Vec<Place>,
    /// YCSB's properties.
    pub properties: BTreeMap<String, String>,
    /// Threads of each database.
    pub threads: u32,
    /// Seed of the choices.
    pub seed: u64,
    /// RocksDB's options, as text.
    pub options: String,
    /// Whether each write is synced.
    pub is_synced: bool,
    /// Whether to create the databases and load them; otherwise they must exist.
    pub is_loaded: bool,
    /// Time limit of the run, in milliseconds; it may end earlier, after all operations.
    pub runtime: Option<u64>,
    /// Length of the warm-up before measuring, in milliseconds.
    pub ramp: u64,
}

/// A message of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// Its progress.
    Progress {
        /// The current phase.
        phase: Phase,
        /// Records or operations done.
        done: u64,
        /// Total number, if it is known.
        of: Option<u64>,
    },
    /// The results, at the end.
    Report(Box<Report>),
    /// The reason why it cannot continue.
    Failed(String),
}

/// The phase of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Opening the databases.
    Opening,
    /// Inserting the records.
    Loading,
    /// Carrying out the workload, before measuring.
    Ramp,
    /// Carrying out the workload, measured.
    Running,
}

/// Latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of operations.
    pub count: u64,
    /// Average.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// The measurements of one database, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The database.
    pub name: String,
    /// Operations per second.
    pub throughput: f64,
    /// Latency of all operations together.
    pub all: Latency,
    /// Latency by kind of operation.
    pub kinds: BTreeMap<Kind, Latency>,
    /// Number of records that were requested and not found.
    pub missing: u64,
    /// Number of records that differed from the data written; checked with `dataintegrity`.
    pub wrong: u64,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Duration of the load, in seconds.
    pub load: Option<f64>,
    /// Duration of the measurement, in seconds.
    pub seconds: f64,
    /// Each database.
    pub instances: Vec<Measured>,
    /// All together.
    pub total: Measured,
    /// RocksDB's counters from opening to the end, summed over all databases.
    pub rocksdb: BTreeMap<String, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_said() {
        let kinds = BTreeMap::from([(Kind::ReadModifyWrite, Latency { count: 3, ..Latency::default() })]);
        let total = Measured { kinds, ..Measured::default() };
        let report = Message::Report(Box::new(Report { total, ..Report::default() }));
        for message in [report, Message::Progress { phase: Phase::Loading, done: 1, of: None }] {
            let text = serde_json::to_string(&message).expect("JSON");
            assert_eq!(serde_json::from_str::<Message>(&text).expect("a message"), message);
        }
    }
}
