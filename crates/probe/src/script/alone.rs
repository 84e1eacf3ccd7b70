//! Rates that the device gives each kind of IO alone, by size and queue depth; and the cost of an IO of each size.
//!
//! The cost of an IO is the device time that it takes when the device is saturated: one second over the highest IOPS of any depth.
//! Writes are measured with a write buffer that has room; `degraded` has their times when it is exhausted.

use super::buffer::Found;
use super::{Asker, Stop, closed};
use crate::profile::{Cost, Kind, Limit, SwitchTable, round};
use crate::task::{ActResult, Load, Pattern};

const SIZES_KIB: [u32; 4] = [4, 16, 64, 128];
const SIZES_KIB_THOROUGH: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
const DEPTHS: [u32; 3] = [1, 8, 64];
const DEPTHS_THOROUGH: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// A cell writes at most this much.
const CELL_WRITES: u64 = 256 << 20;
/// A cell may write this much, however slow the device is.
const CELL_WRITES_LEAST: u64 = 64 << 20;
/// No kind of writes is faster than long sequential ones by more than this factor.
const FASTER_MOST: f64 = 1.5;
/// With a write buffer, at most this part of it.
const CELL_PART: u64 = 4;
/// Gimbal's lower latency threshold on its SSD is about three times the latency of a lone 4 KiB read, and the upper one six times that.
const THRESH_MIN_READS: f64 = 3.0;
const THRESH_MAX_MINS: f64 = 6.0;

pub(super) fn reads(asker: &mut Asker<'_>) -> Result<Vec<Limit>, Stop> {
    let mut limits = Vec::new();
    for kind in [Kind::RandomRead, Kind::SequentialRead] {
        limits.extend(grid(asker, kind, None)?);
    }
    Ok(limits)
}

/// `rate`: bytes per second that the device writes at most.
pub(super) fn writes(asker: &mut Asker<'_>, rate: f64) -> Result<Vec<Limit>, Stop> {
    let mut limits = Vec::new();
    for kind in [Kind::SequentialWrite, Kind::RandomWrite] {
        limits.extend(grid(asker, kind, Some(rate))?);
    }
    Ok(limits)
}

fn grid(asker: &mut Asker<'_>, kind: Kind, write_rate: Option<f64>) -> Result<Vec<Limit>, Stop> {
    let sizes = asker.pick(&SIZES_KIB[..], &SIZES_KIB_THOROUGH);
    let depths = asker.pick(&DEPTHS[..], &DEPTHS_THOROUGH);
    let mut limits = Vec::new();
    for &size_kib in sizes {
        for &depth in depths {
            let writes_permille = if write_rate.is_some() { 1000 } else { 0 };
            let pattern = match kind {
                Kind::RandomRead | Kind::RandomWrite => Pattern::Random,
                Kind::SequentialRead | Kind::SequentialWrite => Pattern::Sequential,
            };
            let mut load = asker.cell(vec![closed(writes_permille, pattern, size_kib << 10, depth)]);
            if let Some(rate) = write_rate {
                bound_writes(asker, &mut load, rate);
                if asker.writes_left() < load.writes_most_bytes {
                    asker.note(
                        "the limit on what is written was reached: some writes were not measured".to_owned(),
                    );
                    continue;
                }
            }
            if asker.time_left() < load.span_ns {
                asker.note("the time was too short: some sizes and depths were not measured".to_owned());
                continue;
            }
            let result = asker.ask_fresh(format!("{kind} {size_kib} KiB, depth {depth}"), load)?;
            limits.extend(limit(kind, size_kib, depth, result));
        }
    }
    Ok(limits)
}

/// Makes a load that writes end before it exhausts the write buffer, and sooner than it is warm.
pub(super) fn bound_writes(asker: &Asker<'_>, load: &mut Load, rate: f64) {
    let most = asker.rest.as_ref().map_or(CELL_WRITES, |rest| CELL_WRITES.min(rest.size_bytes / CELL_PART));
    // At the full rate, the load may write for this long.
    let span_ns = (most as f64 / rate.max(1.0) * 1e9) as u64;
    load.span_ns = load.span_ns.min(span_ns);
    load.warm_up_ns = load.span_ns / 4;
    // A value that it will hardly exceed, so that no more rests are planned than it needs.
    let expected = (FASTER_MOST * rate * load.span_ns as f64 / 1e9) as u64;
    load.writes_most_bytes = most.min(expected.max(CELL_WRITES_LEAST));
}

fn limit(kind: Kind, size_kib: u32, depth: u32, result: &ActResult) -> Option<Limit> {
    let stream = &result.streams[0];
    let micros = |ns: u64| round(ns as f64 / 1e3, 1);
    (stream.ios > 0).then(|| Limit {
        kind,
        size_kib,
        depth,
        iops: round(stream.iops(), 0),
        mb_per_s: round(stream.bytes_per_s() / 1e6, 1),
        mean_us: micros(stream.latency.mean_ns),
        p50_us: micros(stream.latency.p50_ns),
        p99_us: micros(stream.latency.p99_ns),
        p999_us: micros(stream.latency.p999_ns),
        over_10_ms_ppm: round(stream.latency.over_10_ms as f64 * 1e6 / stream.ios as f64, 0),
    })
}

pub(super) fn costs(limits: &[Limit]) -> Vec<Cost> {
    let mut costs: Vec<Cost> = Vec::new();
    for limit in limits {
        let ns = 1e9 / limit.iops.max(1.0);
        match costs.iter_mut().find(|cost| cost.kind == limit.kind && cost.size_kib == limit.size_kib) {
            Some(cost) => cost.ns = cost.ns.min(ns),
            None => costs.push(Cost { kind: limit.kind, size_kib: limit.size_kib, ns, in_4_kib_reads: 0.0 }),
        }
    }
    let read =
        costs.iter().find(|cost| cost.kind == Kind::RandomRead && cost.size_kib == 4).map(|cost| cost.ns);
    for cost in &mut costs {
        cost.in_4_kib_reads = round(cost.ns / read.unwrap_or(cost.ns), 2);
        cost.ns = round(cost.ns, 0);
    }
    costs
}

/// Thresholds and write costs for Gimbal. The way from the measurements to them is our choice.
pub(super) fn switch(limits: &[Limit], costs: &[Cost], found: &Found) -> Option<SwitchTable> {
    let alone = limits
        .iter()
        .find(|limit| limit.kind == Kind::RandomRead && limit.size_kib == 4 && limit.depth == 1)?;
    let thresh_min_us = (THRESH_MIN_READS * alone.mean_us).round() as u64;
    let cost = |kind, size_kib| costs.iter().find(|cost| cost.kind == kind && cost.size_kib == size_kib);
    let ratio = |size| Some(cost(Kind::RandomWrite, size)?.ns / cost(Kind::RandomRead, size)?.ns);
    let best = SIZES_KIB.iter().filter_map(|&size| ratio(size)).fold(f64::INFINITY, f64::min).max(1.0);
    let worst = SIZES_KIB.iter().filter_map(|&size| ratio(size)).fold(best, f64::max);
    // Beyond the write buffer, a written byte costs as many times more as the device writes slower.
    let slower = found.buffer.as_ref().map_or(1.0, |buffer| buffer.fast_mb_per_s / buffer.exhausted_mb_per_s);
    best.is_finite().then(|| SwitchTable {
        thresh_min_us: thresh_min_us.max(1),
        thresh_max_us: ((THRESH_MAX_MINS * thresh_min_us as f64) as u64).max(1),
        write_cost_best: round(best, 2),
        write_cost_worst: round((worst * slower).max(1.0), 2),
    })
}
