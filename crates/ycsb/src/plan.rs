//! What `gimbal bench ycsb` and the program that drives RocksDB tell each other: a plan, then lines of JSON.
//!
//! ```text
//!   gimbal ── plan, one line ──► gimbal-ycsb ── progress, progress, …, report or failure ──► gimbal
//! ```
//!
//! The driver goes on while its standard input stays open. So it ends with the command that has started it, whatever ends that.

use crate::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a database lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// How it is called in results.
    pub name: String,
    /// The file system, such as `gimbal://…`; `None` is the local one.
    pub uri: Option<String>,
    /// The path there.
    pub path: String,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The databases; all of them work at the same time.
    pub places: Vec<Place>,
    /// YCSB's properties.
    pub properties: BTreeMap<String, String>,
    /// Threads of each database.
    pub threads: u32,
    /// Where choices come from.
    pub seed: u64,
    /// RocksDB's options, as text.
    pub options: String,
    /// Each write is synced.
    pub is_synced: bool,
    /// Makes new databases and loads them; otherwise they must be there.
    pub is_loaded: bool,
    /// Ends the run after this time, in milliseconds, if all operations are not done before.
    pub runtime: Option<u64>,
    /// Before measuring, in milliseconds.
    pub ramp: u64,
}

/// What the driver says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// How far it is.
    Progress {
        /// What it does.
        phase: Phase,
        /// Records or operations done.
        done: u64,
        /// How many there will be, if that is known.
        of: Option<u64>,
    },
    /// It is done.
    Report(Box<Report>),
    /// It cannot go on.
    Failed(String),
}

/// What the driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Opens the databases.
    Opening,
    /// Inserts the records.
    Loading,
    /// Carries the workload out, not measured yet.
    Ramp,
    /// Carries the workload out.
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

/// What was measured of one database, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The database.
    pub name: String,
    /// Operations per second.
    pub throughput: f64,
    /// Of all operations.
    pub all: Latency,
    /// By the kind of operation.
    pub kinds: BTreeMap<Kind, Latency>,
    /// Records that were asked for and not found.
    pub missing: u64,
    /// Records that were not as written; looked for with `dataintegrity`.
    pub wrong: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How long the load took, in seconds.
    pub load: Option<f64>,
    /// How long was measured, in seconds.
    pub seconds: f64,
    /// Each database.
    pub instances: Vec<Measured>,
    /// All together.
    pub total: Measured,
    /// What RocksDB has counted from opening to the end, over all databases.
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
