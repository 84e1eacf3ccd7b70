//! Kinds of IO together: what each keeps of its rate, and how latency grows with the load for each share of writes.

use super::alone::bound_writes;
use super::buffer::Found;
use super::{Asker, Stop, closed};
use crate::profile::{Interference, LoadPoint, round};
use crate::task::{ActResult, Arrival, Load, Pattern, Stream};

const SHARES: [u32; 5] = [0, 100, 250, 500, 1000];
const SHARES_THOROUGH: [u32; 7] = [0, 50, 100, 250, 500, 750, 1000];
/// Loads in per cent of the device's maximum.
const LOADS: [u64; 5] = [10, 30, 50, 70, 90];
const LOADS_THOROUGH: [u64; 11] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95];
const SATURATING_DEPTH: u32 = 128;

/// Two streams alone and together.
pub(super) fn interference(asker: &mut Asker<'_>, found: &Found) -> Result<Vec<Interference>, Stop> {
    let small = closed(0, Pattern::Random, 4096, 32);
    let pairs = [
        ("read 4 KiB, depth 32", "read 128 KiB, depth 8", closed(0, Pattern::Random, 128 << 10, 8)),
        (
            "read 4 KiB, depth 32",
            "sequential write 128 KiB, depth 8",
            closed(1000, Pattern::Sequential, 128 << 10, 8),
        ),
        ("read 4 KiB, depth 32", "write 4 KiB, depth 32", closed(1000, Pattern::Random, 4096, 32)),
    ];
    let mut rows = Vec::new();
    for (first, second, stream) in pairs {
        let writes = stream.writes_permille > 0;
        if writes && !asker.config.writes() {
            continue;
        }
        let one = measure(asker, found, first, vec![small.clone()])?;
        let other = measure(asker, found, second, vec![stream.clone()])?;
        let both = measure(asker, found, &format!("{first}, with {second}"), vec![small.clone(), stream])?;
        let (Some(one), Some(other), Some(both)) = (one, other, both) else { continue };
        let share = |stream: usize, alone: &ActResult| {
            round(both.streams[stream].iops() / alone.streams[0].iops().max(1.0), 3)
        };
        rows.push(Interference {
            first: first.to_owned(),
            second: second.to_owned(),
            first_keeps: share(0, one),
            second_keeps: share(1, other),
        });
    }
    Ok(rows)
}

/// Latency of 4 KiB random IO against load. Also: of a million of all these IOs, how many took more than 10 ms.
pub(super) fn loads(asker: &mut Asker<'_>, found: &Found) -> Result<(Vec<LoadPoint>, Option<f64>), Stop> {
    let mut points = Vec::new();
    let (mut ios, mut late) = (0, 0);
    let ppm = |late: u64, ios: u64| (ios > 0).then(|| round(late as f64 * 1e6 / ios as f64, 1));
    let shares = asker.pick(&SHARES[..], &SHARES_THOROUGH);
    let loads = asker.pick(&LOADS[..], &LOADS_THOROUGH);
    for &writes_permille in shares {
        if writes_permille > 0 && !asker.config.writes() {
            continue;
        }
        let title = format!("4 KiB, {} % writes", f64::from(writes_permille) / 10.0);
        let most = closed(writes_permille, Pattern::Random, 4096, SATURATING_DEPTH);
        let Some(most) = measure(asker, found, &title, vec![most])? else { continue };
        let most = most.streams[0].iops();
        for &percent in loads {
            let iops = (most * percent as f64 / 100.0) as u64;
            if iops == 0 {
                continue;
            }
            let arrival = Arrival::Open { iops };
            let stream = Stream { writes_permille, pattern: Pattern::Random, size_bytes: 4096, arrival };
            let Some(result) = measure(asker, found, &format!("{title}, {iops} IOPS"), vec![stream])? else {
                continue;
            };
            let latency = &result.streams[0].latency;
            ios += result.streams[0].ios;
            late += latency.over_10_ms;
            let micros = |ns: u64| round(ns as f64 / 1e3, 1);
            points.push(LoadPoint {
                writes_permille,
                offered_iops: iops,
                achieved_iops: round(result.streams[0].iops(), 0),
                sustained: result.sustained,
                p50_us: micros(latency.p50_ns),
                p90_us: micros(latency.p90_ns),
                p99_us: micros(latency.p99_ns),
                p999_us: micros(latency.p999_ns),
                p9999_us: micros(latency.p9999_ns),
                over_10_ms_ppm: ppm(latency.over_10_ms, result.streams[0].ios).unwrap_or(0.0),
            });
        }
    }
    Ok((points, ppm(late, ios)))
}

/// A load of the usual length; `None` if the limits leave no room for it.
fn measure<'a>(
    asker: &mut Asker<'a>,
    found: &Found,
    title: &str,
    streams: Vec<Stream>,
) -> Result<Option<&'a ActResult>, Stop> {
    let writes = streams.iter().any(|stream| stream.writes_permille > 0);
    let mut load: Load = asker.cell(streams);
    if writes {
        bound_writes(asker, &mut load, found.write_rate);
    }
    if asker.time_left() < load.span_ns || asker.writes_left() < load.writes_most_bytes {
        asker
            .note("interference and latency against load are incomplete: the limits were too low".to_owned());
        return Ok(None);
    }
    asker.ask_fresh(title.to_owned(), load).map(Some)
}
