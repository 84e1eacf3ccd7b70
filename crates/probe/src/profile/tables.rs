//! The tables of a profile: what each field means.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `[device]`: which device, and how it was probed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTable {
    /// The user's name for it.
    pub name: String,
    /// Its size.
    pub capacity_mib: u64,
    /// Whether the probe was a quick one.
    pub quick: bool,
    /// Whether it wrote nothing.
    pub read_only: bool,
    /// Bytes that the probe wrote.
    pub written_mib: u64,
    /// Time for which the device was under test.
    pub took_s: f64,
    /// Parts that were left out, with the reason.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// `[switch]`: constants for Gimbal, derived from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchTable {
    /// Lower latency threshold: three times a lone 4 KiB read.
    pub thresh_min_us: u64,
    /// Upper latency threshold: six times the lower one.
    pub thresh_max_us: u64,
    /// Least cost of a written byte, in read bytes: of the cheapest size, at least 1.
    pub write_cost_best: f64,
    /// Greatest cost of a written byte: of the most expensive size, with an exhausted write buffer.
    pub write_cost_worst: f64,
}

/// `[metrics]`: single numbers to compare drives by. Their definitions are ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsTable {
    /// Of a million IOs of all loads in `[[load]]`, those that took more than 10 ms; none if no load was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_10_ms_ppm: Option<f64>,
    /// Rate of sequential writes after as much was written as the next field says; none without writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_write_mb_per_s: Option<f64>,
    /// Bytes written before, as a share of the capacity. Far below 1, the rate is not that of a drive in its steady state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_after_share: Option<f64>,
    /// Bytes written to the flash over bytes written by the probe; none if the drive does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
}

/// `[buffer]`: the write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferTable {
    /// Its size.
    pub size_mib: f64,
    /// Rate of sequential writes while it has room.
    pub fast_mb_per_s: f64,
    /// Their rate right after it is exhausted.
    pub exhausted_mb_per_s: f64,
    /// Their rate some time later.
    pub steady_mb_per_s: f64,
    /// Rate at which it drains while writes come; none if that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_under_load_mb_per_s: Option<f64>,
    /// The first fill, for plots: MiB written, and MB/s since the point before.
    pub fill: Vec<[f64; 2]>,
}

/// `[recovery]`: how the write buffer comes back when the device is idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryTable {
    /// Idle time until 90 % of an exhausted buffer is back; none if it was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_90_percent_ms: Option<f64>,
    /// Idle time until recovery starts, if it is gradual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<f64>,
    /// Its rate after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mb_per_s: Option<f64>,
    /// The curve, by idle time.
    pub point: Vec<RecoveryPoint>,
    /// Effect of reads on it.
    #[serde(default)]
    pub reads: Vec<ReadsDuringRecovery>,
}

/// A point of the recovery curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryPoint {
    /// Idle time since exhaustion.
    pub idle_ms: f64,
    /// Bytes that are back.
    pub recovered_mib: f64,
}

/// Recovery while 4 KiB reads come at an even rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsDuringRecovery {
    /// Their rate.
    pub reads_per_s: u64,
    /// Bytes that recover, relative to the same time without reads.
    pub recovered_share: f64,
}

/// `[[degraded]]`: a latency with room in the write buffer and without. The writes during reads are sequential, 128 KiB, depth 8.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DegradedLatency {
    /// Of what.
    pub what: String,
    /// With room, mean.
    pub fresh_mean_us: f64,
    /// With room, 99th percentile.
    pub fresh_p99_us: f64,
    /// Without room, mean.
    pub exhausted_mean_us: f64,
    /// Without room, 99th percentile.
    pub exhausted_p99_us: f64,
}

/// A kind of IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads at random addresses.
    RandomRead,
    /// Reads one after the other.
    SequentialRead,
    /// Writes at random addresses.
    RandomWrite,
    /// Writes one after the other.
    SequentialWrite,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::RandomRead => "random read",
            Kind::SequentialRead => "sequential read",
            Kind::RandomWrite => "random write",
            Kind::SequentialWrite => "sequential write",
        })
    }
}

/// `[[limit]]`: one kind of IO alone. Writes are with room in the write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Of which kind.
    pub kind: Kind,
    /// Size of an IO.
    pub size_kib: u32,
    /// IOs under way.
    pub depth: u32,
    /// IOs per second.
    pub iops: f64,
    /// Bandwidth.
    pub mb_per_s: f64,
    /// Mean latency.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// IOs that took more than 10 ms, of a million.
    pub over_10_ms_ppm: f64,
}

/// `[[cost]]`: the device time of an IO when the device is saturated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Of which kind.
    pub kind: Kind,
    /// Size of an IO.
    pub size_kib: u32,
    /// One second over the highest IOPS.
    pub ns: f64,
    /// The same relative to a random 4 KiB read.
    pub in_4_kib_reads: f64,
}

/// `[[interference]]`: two streams together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interference {
    /// One of them.
    pub first: String,
    /// The other.
    pub second: String,
    /// The rate of the first with the other over its rate alone.
    pub first_keeps: f64,
    /// The rate of the second with the other over its rate alone.
    pub second_keeps: f64,
}

/// `[[load]]`: latency of random 4 KiB IO that comes at random moments, over reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPoint {
    /// Share of writes.
    pub writes_permille: u32,
    /// IOs per second that came.
    pub offered_iops: u64,
    /// IOs per second that were served.
    pub achieved_iops: f64,
    /// Whether the device kept up.
    pub sustained: bool,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// IOs that took more than 10 ms, of a million.
    #[serde(default)]
    pub over_10_ms_ppm: f64,
}
