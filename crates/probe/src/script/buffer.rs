//! The write buffer (an SLC cache, in most drives): how much can be written before writing becomes slow, and how slow.
//!
//! A buffer of size B that also drains at the rate D under load takes `A = B / (1 − D/w)` of writes at the rate w before it is
//! exhausted. Two rates w give B and D. That a drive does not drain under load is the paper's third finding; here it is measured.
//!
//! Elsewhere: `fill` sees when writing becomes slow, `recovery` finds how the buffer comes back.

use super::{Asker, FILL_BYTES, FILL_DEPTH, Rest, Stop, closed, recovery};
use crate::profile::{BufferTable, DegradedLatency, RecoveryTable, round};
use crate::task::{Act, ActResult, Arrival, FillResult, Load, Pattern, Slow, Stream};
use units::{GIB, MIB};

/// Idle time before the first search, so that a buffer which was just used is whole.
const SETTLE_NS: [u64; 2] = [2_000_000_000, 30_000_000_000];
/// The search may take this part of the time and of the writes that the buffer may take.
const SEARCH_TIME_PERCENT: u64 = 45;
const SEARCH_WRITES_PERCENT: u64 = 30;
/// Least slowdown of writes that counts as a buffer; a smaller one does not matter.
const CONTRAST_MIN: f64 = 1.5;
/// Writes after exhaustion, for the rate that lasts.
const STEADY_NS: [u64; 2] = [1_000_000_000, 10_000_000_000];
/// Rates of exhaustion that differ by less are the same: then nothing drains under load.
const SAME: f64 = 0.03;
/// A slower stream may write this many times as much before it counts as inexhaustible.
const PACED_MOST: u64 = 6;

/// Knowledge of the write buffer.
#[derive(Default)]
pub(super) struct Found {
    pub(super) buffer: Option<BufferTable>,
    pub(super) recovery: Option<RecoveryTable>,
    pub(super) degraded: Vec<DegradedLatency>,
    /// Bytes per second that the device writes while the buffer has room.
    pub(super) write_rate: f64,
    /// Bytes per second after all that was written until then, and how many bytes that were.
    pub(super) steady: Option<(f64, u64)>,
}

/// The buffer as the script uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knee {
    /// Written at full rate until it is exhausted.
    pub(super) bytes: f64,
    /// Bytes per second before and after.
    pub(super) fast: f64,
    pub(super) slow: f64,
}

impl Knee {
    /// Writes slower than this are beyond the buffer: between both rates.
    fn threshold(&self) -> Slow {
        Slow::Below { bytes_per_s: (self.fast * self.slow).sqrt() as u64 }
    }

    /// Writes until the buffer is exhausted. A buffer that is exhausted already costs 64 MiB.
    pub(super) fn exhaust(&self, asker: &Asker<'_>) -> Act {
        let most = (4.0 * self.bytes) as u64 + GIB;
        Act::Load(fill(asker, self.threshold(), most, u64::MAX))
    }

    /// Written fast in this fill.
    pub(super) fn fast_bytes(&self, fill: &FillResult) -> f64 {
        fill.fast_bytes(self.fast, self.slow)
    }
}

pub(super) fn find(asker: &mut Asker<'_>) -> Result<Found, Stop> {
    let (writes, time) = (asker.buffer_writes_left(), asker.buffer_time_left());
    let search = fill(
        asker,
        Slow::AgainstStart,
        writes / 100 * SEARCH_WRITES_PERCENT,
        time / 100 * SEARCH_TIME_PERCENT,
    );
    let settle = Act::Idle { span_ns: asker.pick(SETTLE_NS[0], SETTLE_NS[1]) };
    let results =
        asker.ask("search for the end of the write buffer".to_owned(), vec![settle, Act::Load(search)])?;
    let first = fill_of(&results[1]);
    let steady = Some((first.slow_bytes_per_s, asker.written));
    let mut found = Found { write_rate: first.fast_bytes_per_s, steady, ..Found::default() };
    let contrast = first.fast_bytes_per_s / first.slow_bytes_per_s.max(1.0);
    if !first.exhausted || contrast < CONTRAST_MIN {
        asker.note(format!("no end of a write buffer was found within {} MiB of writes", first.bytes / MIB));
        return Ok(found);
    }
    let mut knee =
        Knee { bytes: first.knee_bytes as f64, fast: first.fast_bytes_per_s, slow: first.slow_bytes_per_s };
    let mut steady = fill(asker, Slow::AgainstStart, u64::MAX, asker.pick(STEADY_NS[0], STEADY_NS[1]));
    steady.until_slow = None;
    steady.writes_most_bytes = asker.buffer_writes_left() / 10;
    let steady = asker.ask("rate beyond the write buffer".to_owned(), vec![Act::Load(steady)])?;
    let steady = steady[0].streams[0].bytes_per_s();
    found.steady = Some((steady, asker.written));

    let curve = recovery::curve(asker, &mut knee)?;
    let drain = match curve.full_ns {
        Some(full_ns) => drain_under_load(asker, &knee, full_ns)?,
        None => {
            asker.note(
                "it is not known how fast the write buffer drains under load: it did not recover in time"
                    .to_owned(),
            );
            asker.note(
                "writes alone and beside others were measured with a write buffer that was partly exhausted"
                    .to_owned(),
            );
            None
        }
    };
    // This share of the bytes written at full rate stays in the buffer.
    let share = 1.0 - drain.unwrap_or(0.0) / knee.fast;
    found.buffer = Some(BufferTable {
        size_mib: round(knee.bytes * share / MIB as f64, 1),
        fast_mb_per_s: round(knee.fast / 1e6, 1),
        exhausted_mb_per_s: round(knee.slow / 1e6, 1),
        steady_mb_per_s: round(steady / 1e6, 1),
        drain_under_load_mb_per_s: drain.map(|drain| round(drain / 1e6, 1)),
        fill: first
            .points
            .iter()
            .map(|&(bytes, rate)| [round(bytes as f64 / MIB as f64, 0), round(rate / 1e6, 1)])
            .collect(),
    });
    found.recovery = recovery::table(asker, &knee, &curve, share)?;
    found.degraded = degraded(asker, &knee, curve.full_ns)?;
    asker.rest = curve.full_ns.map(|span_ns| Rest {
        size_bytes: knee.bytes as u64,
        span_ns,
        part: curve.points.iter().map(|&(idle_ns, back)| (idle_ns, back as u64)).collect(),
        used_bytes: knee.bytes as u64,
    });
    Ok(found)
}

/// Bytes per second that leave the buffer while writes come, or `None` if that was not measured.
fn drain_under_load(asker: &mut Asker<'_>, knee: &Knee, full_ns: u64) -> Result<Option<f64>, Stop> {
    // Half of the way down to the rate that the device keeps up with.
    let paced = (knee.fast + knee.slow) / 2.0;
    let most = PACED_MOST * knee.bytes as u64;
    let seconds = most as f64 / paced;
    let needed = full_ns as f64 / 1e9 + seconds;
    if asker.buffer_writes_left() < most || (asker.buffer_time_left() as f64) < needed * 1e9 {
        asker.note("it was not measured how fast the write buffer drains under load: that would write too much or take too long".to_owned());
        return Ok(None);
    }
    let iops = (paced / f64::from(FILL_BYTES)) as u64;
    let paced = (iops * u64::from(FILL_BYTES)) as f64;
    let threshold = Slow::Below { bytes_per_s: (paced * knee.slow).sqrt() as u64 };
    let mut load = fill(asker, threshold, most, u64::MAX);
    load.streams[0].arrival = Arrival::Paced { iops };
    let acts = vec![knee.exhaust(asker), Act::Idle { span_ns: full_ns }, Act::Load(load)];
    let results = asker.ask("drain of the write buffer under load".to_owned(), acts)?;
    let fill = fill_of(&results[2]);
    let amount = if fill.exhausted { fill.fast_bytes(paced, knee.slow) } else { fill.bytes as f64 };
    // Bytes until exhaustion at full rate over those at this rate.
    let ratio = knee.bytes / amount.max(1.0);
    if ratio > 1.0 - SAME {
        return Ok(Some(0.0));
    }
    Ok(Some((1.0 - ratio) / (1.0 / paced - ratio / knee.fast)))
}

/// Latency of writes, of reads during writes and of reads of new data, with room in the buffer and without.
fn degraded(asker: &mut Asker<'_>, knee: &Knee, full_ns: Option<u64>) -> Result<Vec<DegradedLatency>, Stop> {
    let Some(full_ns) = full_ns else { return Ok(Vec::new()) };
    let writer = || closed(1000, Pattern::Sequential, FILL_BYTES, 8);
    let reader = |pattern| closed(0, pattern, 4096, 1);
    let cases: [(&str, Vec<Stream>); 3] = [
        ("write 128 KiB, depth 8", vec![writer()]),
        ("read 4 KiB beside writes", vec![reader(Pattern::Random), writer()]),
        ("read 4 KiB that was just written", vec![reader(Pattern::JustWritten), writer()]),
    ];
    let mut rows = Vec::new();
    for (what, streams) in cases {
        let mut load = asker.cell(streams);
        load.writes_most_bytes = (knee.bytes / 2.0) as u64;
        load.span_ns = load.span_ns.min((knee.bytes / 2.0 / knee.fast * 1e9) as u64);
        load.warm_up_ns = load.span_ns / 4;
        load.ios_least = 0;
        let needed = full_ns + (knee.bytes / knee.fast * 2e9) as u64;
        if asker.time_left() < 4 * needed || asker.writes_left() < 4 * knee.bytes as u64 {
            asker.note(
                "latencies with an exhausted write buffer are incomplete: the limits were too low".to_owned(),
            );
            break;
        }
        let load = || Act::Load(load.clone());
        // Both in one task: first without room, then, after a rest, with room.
        let acts = vec![knee.exhaust(asker), load(), Act::Idle { span_ns: full_ns }, load()];
        let results = asker.ask(format!("{what}: buffer exhausted and recovered"), acts)?;
        let micros = |ns: u64| round(ns as f64 / 1e3, 1);
        let [without, with] = [&results[1], &results[3]].map(|result| &result.streams[0].latency);
        rows.push(DegradedLatency {
            what: what.to_owned(),
            fresh_mean_us: micros(with.mean_ns),
            fresh_p99_us: micros(with.p99_ns),
            exhausted_mean_us: micros(without.mean_ns),
            exhausted_p99_us: micros(without.p99_ns),
        });
    }
    Ok(rows)
}

/// Sequential writes as fast as the device takes them.
pub(super) fn fill(asker: &Asker<'_>, slow: Slow, writes_most_bytes: u64, span_ns: u64) -> Load {
    Load {
        streams: vec![closed(1000, Pattern::Sequential, FILL_BYTES, FILL_DEPTH)],
        warm_up_ns: 0,
        span_ns: span_ns.min(asker.time_left()),
        ios_least: 0,
        ios_most: u64::MAX,
        writes_most_bytes,
        until_slow: Some(slow),
    }
}

pub(super) fn fill_of(result: &ActResult) -> &FillResult {
    result.fill.as_ref().expect("a load that fills has this result")
}
