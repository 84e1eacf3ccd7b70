//! Requests of the script and their results: a task is a list of acts, and each act has a result.
//!
//! All of it is data that goes into the journal. Numbers carry their unit in their name.

use serde::{Deserialize, Serialize};

/// One question to the device. Its acts follow each other without a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    /// For people.
    pub(crate) title: String,
    pub(crate) acts: Vec<Act>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    /// No IO at all.
    Idle { span_ns: u64 },
    /// Streams of IOs.
    Load(Load),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) streams: Vec<Stream>,
    /// IOs that complete within this time are not counted.
    pub(crate) warm_up_ns: u64,
    /// Including the warm-up. A device on which fewer than `ios_least` complete in this time gets up to four times as long.
    pub(crate) span_ns: u64,
    pub(crate) ios_least: u64,
    pub(crate) ios_most: u64,
    /// The most that is written.
    pub(crate) writes_most_bytes: u64,
    /// Ends the load when writing has become slow.
    pub(crate) until_slow: Option<Slow>,
}

/// Bound of slow writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Slow {
    /// Much slower than at the start.
    AgainstStart,
    /// Below this rate.
    Below { bytes_per_s: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    pub(crate) writes_permille: u32,
    pub(crate) pattern: Pattern,
    pub(crate) size_bytes: u32,
    pub(crate) arrival: Arrival,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pattern {
    Random,
    Sequential,
    /// Reads what another stream of the load has just written.
    JustWritten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Arrival {
    /// As many IOs under way as this, always.
    Closed { depth: u32 },
    /// At random moments (Poisson), whether the device keeps up or not.
    Open { iops: u64 },
    /// At even distances, whether the device keeps up or not.
    Paced { iops: u64 },
}

/// The result of an act.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ActResult {
    /// From its start until its last IO completed.
    pub(crate) span_ns: u64,
    pub(crate) written_bytes: u64,
    /// Whether open arrivals were served. Closed ones always are.
    pub(crate) sustained: bool,
    pub(crate) streams: Vec<StreamResult>,
    /// For loads with `until_slow`.
    pub(crate) fill: Option<FillResult>,
}

/// Results of a stream after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamResult {
    /// The time in which IOs were counted.
    pub(crate) span_ns: u64,
    pub(crate) ios: u64,
    pub(crate) bytes: u64,
    pub(crate) latency: Latency,
}

impl StreamResult {
    pub(crate) fn iops(&self) -> f64 {
        per_second(self.ios, self.span_ns)
    }

    pub(crate) fn bytes_per_s(&self) -> f64 {
        per_second(self.bytes, self.span_ns)
    }
}

/// Number per second; zero for an empty span.
pub(crate) fn per_second(count: u64, span_ns: u64) -> f64 {
    if span_ns == 0 { 0.0 } else { count as f64 * 1e9 / span_ns as f64 }
}

/// The distribution of the time from arrival to completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) p9999_ns: u64,
    /// IOs that took more than 10 ms.
    pub(crate) over_10_ms: u64,
}

/// Conclusions from a stream of writes about the write buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FillResult {
    /// Written, and the time from the first submission to the last completion that counts.
    pub(crate) bytes: u64,
    pub(crate) span_ns: u64,
    /// Whether writing became slow.
    pub(crate) exhausted: bool,
    /// Written until it became slow, and the rates before and after.
    pub(crate) knee_bytes: u64,
    pub(crate) fast_bytes_per_s: f64,
    pub(crate) slow_bytes_per_s: f64,
    /// For the plot: bytes written, and the rate since the point before.
    pub(crate) points: Vec<(u64, f64)>,
}
