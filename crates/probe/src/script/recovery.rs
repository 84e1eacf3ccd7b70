//! Recovery of the write buffer when the device is left idle, and the effect of reads on it.
//!
//! A *trial* exhausts the buffer, leaves the device idle for t, and writes until the buffer is exhausted again: what was written fast had
//! recovered. The trial begins by exhausting, so it does not matter what happened before; an interrupted probe just repeats it. A
//! trial after a short idle time writes little, so the whole curve costs only a few times the size of the buffer.
//!
//! ```text
//!  recovered │            ________ plateau: the whole buffer
//!            │          ╱
//!            │        ╱             idle times are doubled up to the plateau; then the time to 90 % is narrowed down
//!            └──────╱──────► idle
//!               wait
//! ```
//!
//! A straight line between two trials is believed only when a trial in between confirms it: recovery may also come all at once.

use super::buffer::{Knee, fill_of};
use super::{Asker, Stop, closed};
use crate::profile::{ReadsDuringRecovery, RecoveryPoint, RecoveryTable, round};
use crate::task::{Act, Arrival, Pattern};
use units::MIB;

const FIRST_NS: u64 = 250_000_000;
const LEAST_NS: u64 = 4_000_000;
/// Within this of the whole buffer is all of it.
const FULL: f64 = 0.97;
/// Two trials this close, one after twice the time of the other, are the plateau.
const PLATEAU: f64 = 0.03;
/// The recovery time is that of this share.
const RECOVERED: f64 = 0.9;
/// A trial that differs by less from the straight line confirms it.
const STRAIGHT: f64 = 0.02;
/// The time is known well enough when its bounds are this close.
const CLOSE: f64 = 1.08;
const REFINEMENTS_MOST: usize = 8;
/// A rest lasts longer than recovery takes by this factor.
const REST: f64 = 1.1;
/// Reads per second while the device would recover.
const READS: [u64; 3] = [1, 100, 5000];

/// Trials so far.
pub(super) struct Curve {
    /// Idle time in nanoseconds and bytes that had recovered, by time.
    pub(super) points: Vec<(u64, f64)>,
    /// Idle time after which all of it is back, if that was found.
    pub(super) full_ns: Option<u64>,
}

impl Curve {
    fn add(&mut self, idle_ns: u64, bytes: f64) {
        let at = self.points.partition_point(|point| point.0 < idle_ns);
        self.points.insert(at, (idle_ns, bytes));
    }

    /// The last trial with less than `bytes`, and the first after it.
    fn bracket(&self, bytes: f64) -> Option<((u64, f64), (u64, f64))> {
        let above = self.points.iter().rposition(|point| point.1 < bytes).map_or(0, |below| below + 1);
        let high = *self.points.get(above)?;
        let low = if above == 0 { (0, 0.0) } else { self.points[above - 1] };
        Some((low, high))
    }

    /// When this much is back: on a straight line between two trials.
    fn time_to(&self, bytes: f64) -> Option<f64> {
        let (low, high) = self.bracket(bytes)?;
        let share = (bytes - low.1) / (high.1 - low.1);
        Some(low.0 as f64 + share * (high.0 - low.0) as f64)
    }
}

/// Finds the curve. If more recovers than the first search found, the buffer is that large.
pub(super) fn curve(asker: &mut Asker<'_>, knee: &mut Knee) -> Result<Curve, Stop> {
    let mut curve = Curve { points: Vec::new(), full_ns: None };
    let mut idle_ns = FIRST_NS;
    let mut before = None;
    while let Some(bytes) = trial(asker, knee, idle_ns)? {
        curve.add(idle_ns, bytes);
        let like_first = (bytes / knee.bytes - 1.0).abs() < 1.0 - FULL;
        let plateau = before.is_some_and(|(_, last): (u64, f64)| {
            last > 0.3 * knee.bytes && (bytes / last - 1.0).abs() < PLATEAU
        });
        if like_first || plateau {
            let first = before.filter(|_| plateau && !like_first).map_or(idle_ns, |(at, _)| at);
            curve.full_ns = Some((first as f64 * REST) as u64);
            knee.bytes = if plateau && !like_first { bytes } else { knee.bytes };
            break;
        }
        before = Some((idle_ns, bytes));
        idle_ns *= 2;
    }
    let Some(_) = curve.full_ns else {
        asker.note(
            "the recovery of the write buffer was not followed to its end: the limits were too low, or writes \
             did not become slow again"
                .to_owned(),
        );
        return Ok(curve);
    };
    // Down, if the first idle time was enough already.
    let mut idle_ns = curve.points[0].0;
    while curve.points[0].1 >= RECOVERED * knee.bytes && idle_ns > LEAST_NS {
        idle_ns /= 4;
        let Some(bytes) = trial(asker, knee, idle_ns)? else { break };
        curve.add(idle_ns, bytes);
    }
    refine(asker, knee, &mut curve)?;
    let whole = curve.points.iter().find(|point| point.1 >= FULL * knee.bytes);
    if let Some(&(at, _)) = whole {
        curve.full_ns = Some((at as f64 * REST) as u64);
    }
    Ok(curve)
}

/// Narrows down when [`RECOVERED`] of the buffer is back.
fn refine(asker: &mut Asker<'_>, knee: &Knee, curve: &mut Curve) -> Result<(), Stop> {
    let wanted = RECOVERED * knee.bytes;
    let mut try_line = true;
    for _ in 0..REFINEMENTS_MOST {
        let Some((low, high)) = curve.bracket(wanted) else { return Ok(()) };
        if low.0 > 0 && high.0 as f64 / low.0 as f64 <= CLOSE {
            return Ok(());
        }
        let middle =
            if try_line { curve.time_to(wanted).unwrap_or(0.0) as u64 } else { low.0.midpoint(high.0) };
        let middle = middle.clamp(low.0 + 1, high.0 - 1);
        let Some(bytes) = trial(asker, knee, middle)? else { return Ok(()) };
        let line = low.1 + (high.1 - low.1) * (middle - low.0) as f64 / (high.0 - low.0) as f64;
        curve.add(middle, bytes);
        if (bytes - line).abs() < STRAIGHT * knee.bytes {
            return Ok(());
        }
        try_line = !try_line;
    }
    Ok(())
}

/// Bytes that recover in an idle time, or `None` if there is no time or there are no writes left for a trial.
fn trial(asker: &mut Asker<'_>, knee: &Knee, idle_ns: u64) -> Result<Option<f64>, Stop> {
    trial_with(asker, knee, format!("recovery in {} ms", idle_ns / 1_000_000), Act::Idle { span_ns: idle_ns })
}

fn trial_with(asker: &mut Asker<'_>, knee: &Knee, title: String, pause: Act) -> Result<Option<f64>, Stop> {
    let span_ns = match &pause {
        Act::Idle { span_ns } => *span_ns,
        Act::Load(load) => load.span_ns,
    };
    // It may be that all comes back, and writing it takes this long.
    let writes = knee.bytes as u64 + 256 * MIB;
    let fills_ns = ((knee.bytes / knee.fast + 256e6 / knee.slow) * 1e9) as u64;
    if asker.buffer_writes_left() < writes || asker.buffer_time_left() < span_ns + fills_ns {
        return Ok(None);
    }
    let acts = vec![knee.exhaust(asker), pause, knee.exhaust(asker)];
    let results = asker.ask(title, acts)?;
    // A limit came first.
    if !fill_of(&results[0]).exhausted || !fill_of(&results[2]).exhausted {
        return Ok(None);
    }
    Ok(Some(knee.fast_bytes(fill_of(&results[2]))))
}

/// The table of the profile. `share`: the part of the bytes written at full rate that stays in the buffer.
pub(super) fn table(
    asker: &mut Asker<'_>,
    knee: &Knee,
    curve: &Curve,
    share: f64,
) -> Result<Option<RecoveryTable>, Stop> {
    let mib = |bytes: f64| round(bytes * share / MIB as f64, 1);
    let millis = |ns: f64| round(ns / 1e6, 3);
    let point = |&(idle_ns, bytes): &(u64, f64)| RecoveryPoint {
        idle_ms: millis(idle_ns as f64),
        recovered_mib: mib(bytes),
    };
    let mut reads = Vec::new();
    if let (Some(full_ns), Some(part_ns)) = (curve.full_ns, curve.time_to(RECOVERED * knee.bytes)) {
        for iops in READS {
            let mut load = asker.cell(vec![closed(0, Pattern::Random, 4096, 1)]);
            load.streams[0].arrival = Arrival::Paced { iops };
            load.span_ns = (part_ns as u64).min(full_ns);
            (load.warm_up_ns, load.ios_least, load.ios_most) = (0, 0, u64::MAX);
            let title = format!("recovery with {iops} reads per second");
            let Some(bytes) = trial_with(asker, knee, title, Act::Load(load))? else {
                asker.note(
                    "what reads do to recovery was not measured: the limits were too low, or writes did not \
                     become slow again"
                        .to_owned(),
                );
                break;
            };
            let kept = bytes / (RECOVERED * knee.bytes);
            reads.push(ReadsDuringRecovery { reads_per_s: iops, recovered_share: round(kept.min(1.0), 3) });
        }
    }
    // Recovery starts where the line through the first two trials with something meets zero.
    let some: Vec<_> = curve
        .points
        .iter()
        .filter(|point| point.1 > 0.05 * knee.bytes && point.1 < FULL * knee.bytes)
        .collect();
    let line = match some[..] {
        [one, two, ..] if two.1 > one.1 => {
            let slope = (two.1 - one.1) / (two.0 - one.0) as f64;
            Some((one.0 as f64 - one.1 / slope, slope))
        }
        _ => None,
    };
    if curve.points.is_empty() {
        return Ok(None);
    }
    Ok(Some(RecoveryTable {
        time_to_90_percent_ms: curve.full_ns.and_then(|_| curve.time_to(RECOVERED * knee.bytes)).map(millis),
        wait_ms: line.map(|(wait, _)| millis(wait.max(0.0))),
        rate_mb_per_s: line.map(|(_, slope)| round(slope * share * 1e9 / 1e6, 1)),
        point: curve.points.iter().map(point).collect(),
        reads,
    }))
}
