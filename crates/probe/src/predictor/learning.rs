//! Observations of the device correct the predictor: its state at once, its model when it is sure.
//!
//! ```text
//!  room is predicted:      fast fast fast│slow slow     the knee came early: there is no room left
//!  no room is predicted:   fast fast│fast fast          there is more, for as long again as it was seen
//!                                   └ what differs is the surprise of this cycle; the next rest ends the cycle, and then it counts
//! ```
//!
//! A surprise may have other causes: the device collects garbage, or hosts write more slowly. So a knee needs two slow stretches right after a
//! fast one, at a rate that is not far below the exhausted one; and fast writes without a rest in between take it back. The surprise goes
//! into the size if the buffer was whole before for sure, and into the time that recovery takes if only a part of it came back. Two such
//! cycles have to agree, and the smaller surprise counts, within bounds for each step and for all of them: what was learnt wrongly is forgotten
//! in a few cycles, and so is what is no longer so.
//!
//! Holds: `a_surprise_counts_when_another_one_agrees`, `what_was_no_exhaustion_is_taken_back`; drifting devices: `crates/ais/src/drift.rs`.

use crate::buffer_model::BufferModel;
use units::{Instant, MIB, Nanos};

/// Slow stretches that make a knee, and fast ones without predicted room that make more room.
const ENOUGH: u32 = 2;
/// The most that one surprise changes.
const STEP: f64 = 0.15;
/// The model stays within this factor of the one that was fitted.
const MOST: f64 = 4.0;
/// A smaller surprise is none: in bytes, and of the size.
const SURPRISE_LEAST: f64 = 24.0 * MIB as f64;
const SURPRISE_PART: f64 = 0.025;
/// Of the size: room that is granted at once, at most.
const GRANT: f64 = 0.125;
/// Of the size: what must have recovered before recovery is judged.
const RECOVERED_LEAST: f64 = 0.125;
/// After this many times the predicted time, the buffer is whole for sure.
const SURE: f64 = 1.5;
/// Of the size: a rest that brings back less does not make it unsure.
const SHORT_REST: f64 = 0.05;
/// Less is no rest.
const REST_LEAST: f64 = MIB as f64;

/// Writes that followed each other without a pause and without reads, at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From its first write.
    pub since: Instant,
    /// To its last.
    pub until: Instant,
    /// Bytes written.
    pub bytes: u64,
    /// Whether it was as slow as writes to an exhausted buffer, and not as fast as others.
    pub is_slow: bool,
}

/// Stretches of one kind that follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    is_slow: bool,
    /// Slow: right after a fast one.
    is_knee: bool,
    count: u32,
    until: Instant,
    /// Room that was predicted at its start, less the granted room: how early or late a knee is here.
    surprise: f64,
}

/// The buffer was seen to end.
#[derive(Clone, Copy, Debug)]
struct Knee {
    /// Bytes that fitted more than predicted, or less if negative.
    surprise: f64,
    /// Room that was taken away, less the bytes written since.
    taken: f64,
}

/// Observations since the last rest.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    fitted: BufferModel,
    run: Option<Run>,
    knee: Option<Knee>,
    /// Room beyond the prediction: seen or granted; and the last grant.
    granted: f64,
    last_grant: f64,
    /// Since the buffer was known to be exhausted: bytes that recovered by the model, and whether it became whole by the model, or for sure.
    recovered: f64,
    is_whole: bool,
    is_sure: bool,
    /// The last surprise of each kind.
    of_size: f64,
    of_recovery: f64,
}

impl Learning {
    pub(super) fn new(fitted: BufferModel) -> Learning {
        Learning {
            fitted,
            run: None,
            knee: None,
            granted: 0.0,
            last_grant: 0.0,
            recovered: 0.0,
            is_whole: false,
            is_sure: false,
            of_size: 0.0,
            of_recovery: 0.0,
        }
    }

    /// Notes a stretch after which this much is used. Returns the bytes that are used in fact.
    pub(super) fn on_stretch(&mut self, model: &BufferModel, used: f64, stretch: Stretch) -> f64 {
        // Further apart than the second one lasts, they do not follow each other.
        let lasts = stretch.until.saturating_since(stretch.since);
        let before = self.run.filter(|run| stretch.since.saturating_since(run.until) < lasts);
        let same = before.filter(|run| run.is_slow == stretch.is_slow);
        let room = (model.size - used).max(0.0);
        let mut run = same.unwrap_or(Run {
            is_slow: stretch.is_slow,
            is_knee: stretch.is_slow && before.is_some(),
            count: 0,
            until: stretch.until,
            surprise: self.granted - if room > 0.0 { room + stretch.bytes as f64 } else { 0.0 },
        });
        run.until = stretch.until;
        if let Some(knee) = &mut self.knee {
            knee.taken -= stretch.bytes as f64;
        }
        let used = if stretch.is_slow {
            run.count += 1;
            if run.is_knee && run.count == ENOUGH {
                self.knee = Some(Knee { surprise: run.surprise, taken: room });
                model.size
            } else {
                used
            }
        } else {
            self.on_fast(model, used, &mut run, stretch.bytes as f64)
        };
        self.run = Some(run);
        used
    }

    fn on_fast(&mut self, model: &BufferModel, used: f64, run: &mut Run, bytes: f64) -> f64 {
        // No rest was in between, so what looked like a knee was none.
        let taken = self.knee.take().map_or(0.0, |knee| knee.taken.max(0.0));
        let used = (used - taken).max(0.0);
        if used < model.size {
            run.count = 0;
            return used;
        }
        run.count += 1;
        if run.count < ENOUGH {
            return used;
        }
        // As much again as was seen, for as long as that goes well.
        let seen = bytes * f64::from(if run.count == ENOUGH { ENOUGH } else { 1 });
        self.last_grant = (self.granted + seen).min(GRANT * model.size);
        self.granted += seen + self.last_grant;
        used - self.last_grant
    }

    /// The device was idle for a time: by the model, that brings the used bytes from `before` to `after`. What was seen counts now. Returns
    /// whether the buffer is known to have been exhausted before.
    pub(super) fn on_rest(&mut self, model: &mut BufferModel, before: f64, after: f64, idle: Nanos) -> bool {
        if before - after < REST_LEAST {
            return false;
        }
        let unused = (model.size - before).clamp(0.0, self.last_grant);
        let surprise = match self.knee {
            Some(knee) => Some(knee.surprise),
            None => (self.granted > 0.0).then_some(self.granted - unused),
        };
        if let Some(surprise) = surprise {
            self.on_surprise(model, surprise);
        }
        let was_exhausted = self.knee.is_some();
        if was_exhausted {
            (self.recovered, self.is_whole, self.is_sure) = (0.0, false, false);
        }
        (self.run, self.knee, self.granted, self.last_grant) = (None, None, 0.0, 0.0);
        self.recovered += before - after;
        self.is_whole |= after < SURPRISE_PART * model.size;
        let is_long = idle.get() as f64 >= SURE * model.idle_until(before, 0.0).get() as f64;
        self.is_sure = is_long || self.is_sure && before - after < SHORT_REST * model.size;
        was_exhausted
    }

    /// Two cycles that agree are believed, up to the smaller surprise.
    fn on_surprise(&mut self, model: &mut BufferModel, surprise: f64) {
        let is_none = surprise.abs() <= SURPRISE_LEAST.max(SURPRISE_PART * model.size);
        let surprise = if is_none { 0.0 } else { surprise };
        let agreed = |other: f64| match other * surprise > 0.0 {
            true if other.abs() < surprise.abs() => other,
            true => surprise,
            false => 0.0,
        };
        let turned = |ratio: f64| ratio.clamp(1.0 - STEP, 1.0 + STEP);
        let bounded = |value: f64, fitted: f64| value.clamp(fitted / MOST, fitted * MOST);
        if self.is_sure {
            let ratio = 1.0 + agreed(self.of_size) / model.size;
            model.size = bounded(model.size * turned(ratio), self.fitted.size);
            self.of_size = surprise;
        } else if !self.is_whole && model.drain == 0.0 && self.recovered >= RECOVERED_LEAST * model.size {
            let ratio = 1.0 + agreed(self.of_recovery) / self.recovered;
            model.span_s = bounded(model.span_s / turned(ratio), self.fitted.span_s);
            self.of_recovery = surprise;
        }
    }
}
