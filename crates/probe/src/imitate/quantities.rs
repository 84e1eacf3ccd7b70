//! The numbers in which a simulated SSD is compared with the device that it imitates.

use crate::profile::{Kind, Limit, Profile};

/// The depth at which a device is taken to be saturated. Both kinds of probe measure it.
const DEEP: u32 = 64;

/// Prefix of the numbers that say what writes do to reads.
pub(super) const KEEP: &str = "reads keep";

/// One number.
pub(super) struct Quantity {
    /// Name and unit.
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    /// `None`: not measured.
    pub(super) of: fn(&Profile) -> Option<f64>,
}

/// Those that a parameter of the model is fitted to, in the order of `super::Knob`.
pub(super) const FITTED: [Quantity; 8] = [
    Quantity {
        what: "random read 4 KiB, alone",
        unit: "µs",
        of: |p| Some(limit(p, Kind::RandomRead, 4, 1)?.mean_us),
    },
    Quantity {
        what: "random read 4 KiB, depth 64",
        unit: "IOPS",
        of: |p| Some(limit(p, Kind::RandomRead, 4, DEEP)?.iops),
    },
    Quantity {
        what: "sequential read 128 KiB, depth 64",
        unit: "MB/s",
        of: |p| Some(limit(p, Kind::SequentialRead, 128, DEEP)?.mb_per_s),
    },
    Quantity {
        what: "random write 4 KiB, alone",
        unit: "µs",
        of: |p| Some(limit(p, Kind::RandomWrite, 4, 1)?.mean_us),
    },
    Quantity {
        what: "random write 4 KiB, depth 64",
        unit: "IOPS",
        of: |p| Some(limit(p, Kind::RandomWrite, 4, DEEP)?.iops),
    },
    Quantity {
        what: "sequential write 128 KiB, depth 64",
        unit: "MB/s",
        of: |p| Some(limit(p, Kind::SequentialWrite, 128, DEEP)?.mb_per_s),
    },
    Quantity { what: "write buffer", unit: "MiB", of: |p| Some(p.buffer.as_ref()?.size_mib) },
    Quantity {
        what: "sequential write, exhausted",
        unit: "MB/s",
        of: |p| Some(p.buffer.as_ref()?.exhausted_mb_per_s),
    },
];

/// Those that follow from the others in the model, and may differ.
pub(super) const COMPARED: [Quantity; 5] = [
    Quantity {
        what: "idle until 90 % of the buffer is back",
        unit: "ms",
        of: |p| p.recovery.as_ref()?.time_to_90_percent_ms,
    },
    Quantity {
        what: "random read 4 KiB, alone, p99",
        unit: "µs",
        of: |p| Some(limit(p, Kind::RandomRead, 4, 1)?.p99_us),
    },
    Quantity {
        what: "random read 128 KiB, depth 8",
        unit: "MB/s",
        of: |p| Some(limit(p, Kind::RandomRead, 128, 8)?.mb_per_s),
    },
    Quantity { what: "reads keep beside sequential writes", unit: "%", of: |p| keeps(p, "sequential write") },
    Quantity { what: "reads keep beside small writes", unit: "%", of: |p| keeps(p, "write 4 KiB") },
];

fn limit(profile: &Profile, kind: Kind, size_kib: u32, depth: u32) -> Option<&Limit> {
    profile.limit.iter().find(|limit| (limit.kind, limit.size_kib, limit.depth) == (kind, size_kib, depth))
}

/// Part of their rate that small reads keep, in per cent.
fn keeps(profile: &Profile, beside: &str) -> Option<f64> {
    let row = profile.interference.iter().find(|row| row.second.starts_with(beside))?;
    Some(100.0 * row.first_keeps)
}
