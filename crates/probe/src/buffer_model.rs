//! A model of a write buffer with few parameters, fitted to a profile: size, drain under load, and the rule of recovery.
//!
//! ```text
//!  used │▔▔▔▔╲                     after `wait` without IO:
//!       │     ╲  steady              steady:       in a straight line, all of it within `span`
//!       │      ╲ (or exponential)    exponential:  by the factor 1/e in each `span`
//!       └─wait──╲────► idle          all at once:  steady with a very short span
//! ```
//!
//! The recovery of a buffer that is partly used was not measured. The model assumes that it goes on from the point of the curve where as
//! much is used, after the same wait.
//!
//! Holds: a curve of either rule is fitted (`each_rule_is_recognised_from_its_curve`).

use crate::profile::Profile;
use units::{Bytes, MIB, Nanos};

/// Steps of the search for each parameter, in each round.
const STEPS: u32 = 40;
const ROUNDS: u32 = 4;
/// Reads at this rate stop a recovery if less than this share is left of it.
const STOPPED: f64 = 0.5;

/// Recovery of a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// In a straight line.
    Steady,
    /// Ever more slowly.
    Exponential,
}

/// A write buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferModel {
    pub(crate) size: f64,
    /// Bytes per second that leave it while IOs come.
    pub(crate) drain: f64,
    pub(crate) rule: Rule,
    /// Seconds without an IO until it starts to recover.
    pub(crate) wait_s: f64,
    /// Seconds that a whole buffer takes after that, or its time constant.
    pub(crate) span_s: f64,
    /// Whether reads keep it from recovering, as writes do.
    pub(crate) reads_stop_recovery: bool,
    /// Greatest difference to a trial of the profile, as a share of the size.
    pub(crate) misfit: f64,
}

impl BufferModel {
    /// The model that fits a profile best; `None` if the profile has no buffer, or its recovery was not found.
    pub fn fit(profile: &Profile) -> Option<BufferModel> {
        let (buffer, recovery) = (profile.buffer.as_ref()?, profile.recovery.as_ref()?);
        let time_s = recovery.time_to_90_percent_ms? / 1e3;
        let size = buffer.size_mib * MIB as f64;
        let points: Vec<(f64, f64)> = recovery
            .point
            .iter()
            .map(|point| (point.idle_ms / 1e3, point.recovered_mib * MIB as f64))
            .collect();
        let busy = recovery.reads.iter().max_by_key(|reads| reads.reads_per_s);
        let model = BufferModel {
            size,
            drain: buffer.drain_under_load_mb_per_s.unwrap_or(0.0) * 1e6,
            rule: Rule::Steady,
            wait_s: 0.0,
            span_s: time_s,
            reads_stop_recovery: busy.is_none_or(|reads| reads.recovered_share < STOPPED),
            misfit: 0.0,
        };
        let steady = model.search(&points, time_s);
        let exponential = BufferModel { rule: Rule::Exponential, ..model }.search(&points, time_s);
        let best = if steady.squares(&points) <= exponential.squares(&points) { steady } else { exponential };
        let misfit = points
            .iter()
            .map(|&(idle, found)| (best.recovered_after(idle) - found).abs())
            .fold(0.0, f64::max);
        Some(BufferModel { misfit: misfit / size, ..best })
    }

    /// A buffer of `size` bytes that recovers in a straight line: nothing for `wait_s` seconds, all within the next `span_s`.
    pub fn steady(size: f64, wait_s: f64, span_s: f64, reads_stop_recovery: bool) -> BufferModel {
        BufferModel { size, drain: 0.0, rule: Rule::Steady, wait_s, span_s, reads_stop_recovery, misfit: 0.0 }
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes(self.size as u64)
    }

    /// Whether reads keep it from recovering, as writes do.
    pub fn reads_stop_recovery(&self) -> bool {
        self.reads_stop_recovery
    }

    /// The rule of its recovery.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Greatest difference to a trial of the profile, as a share of the size: how far the model can be trusted.
    pub fn misfit(&self) -> f64 {
        self.misfit
    }

    /// Bytes of an exhausted buffer that can be written fast after an idle time.
    pub fn recovered(&self, idle: Nanos) -> Bytes {
        Bytes((self.size - self.after_idle(self.size, idle)) as u64)
    }

    /// Used bytes after an idle time.
    pub(crate) fn after_idle(&self, used: f64, idle: Nanos) -> f64 {
        let active = (idle.as_secs_f64() - self.wait_s).max(0.0);
        // Data that leaves the buffer all the time does not wait.
        let drained = used - self.drain * idle.as_secs_f64();
        let recovered = match self.rule {
            Rule::Steady => used - self.size * active / self.span_s,
            Rule::Exponential => used * (-active / self.span_s).exp(),
        };
        drained.min(recovered).max(0.0)
    }

    /// Idle time until no more than `target` is used.
    pub(crate) fn idle_until(&self, used: f64, target: f64) -> Nanos {
        if used <= target {
            return Nanos::ZERO;
        }
        let active = match self.rule {
            Rule::Steady => (used - target) / self.size * self.span_s,
            // The last part of a per cent never comes back.
            Rule::Exponential => self.span_s * (used / target.max(self.size / 1e3)).ln().max(0.0),
        };
        let drained = if self.drain > 0.0 { (used - target) / self.drain } else { f64::INFINITY };
        Nanos(((self.wait_s + active).min(drained) * 1e9) as u64)
    }

    fn recovered_after(&self, idle_s: f64) -> f64 {
        self.size - self.after_idle(self.size, Nanos((idle_s * 1e9) as u64))
    }

    fn squares(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|&(idle, found)| (self.recovered_after(idle) - found).powi(2)).sum()
    }

    /// The best wait and span for this rule: a grid, then finer ones around the best so far.
    fn search(&self, points: &[(f64, f64)], time_s: f64) -> BufferModel {
        let mut best = self.clone();
        let (mut wait, mut span) = ((0.0, time_s), (time_s * 1e-3, time_s * 4.0));
        for _ in 0..ROUNDS {
            let at =
                |(low, high): (f64, f64), step: u32| low + (high - low) * f64::from(step) / f64::from(STEPS);
            for (one, two) in (0..=STEPS).flat_map(|one| (0..=STEPS).map(move |two| (one, two))) {
                let tried =
                    BufferModel { wait_s: at(wait, one), span_s: at(span, two).max(1e-6), ..self.clone() };
                if tried.squares(points) < best.squares(points) {
                    best = tried;
                }
            }
            let around = |(low, high): (f64, f64), middle: f64| {
                let reach = 3.0 * (high - low) / f64::from(STEPS);
                ((middle - reach).max(0.0), middle + reach)
            };
            (wait, span) = (around(wait, best.wait_s), around(span, best.span_s));
        }
        best
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn model(rule: Rule) -> BufferModel {
        BufferModel {
            size: 1e9,
            drain: 0.0,
            rule,
            wait_s: 0.5,
            span_s: 2.0,
            reads_stop_recovery: true,
            misfit: 0.0,
        }
    }

    #[test]
    fn each_rule_is_recognised_from_its_curve() {
        for rule in [Rule::Steady, Rule::Exponential] {
            let truth = model(rule);
            let points: Vec<(f64, f64)> =
                [0.25, 0.5, 1.0, 2.0, 2.3, 4.0, 8.0].map(|idle| (idle, truth.recovered_after(idle))).into();
            let start = BufferModel { wait_s: 0.0, span_s: 1.0, ..truth.clone() };
            let found = start.search(&points, 2.3);
            assert!(
                (found.wait_s - 0.5).abs() < 0.02 && (found.span_s / 2.0 - 1.0).abs() < 0.02,
                "{found:?}"
            );
            let other = if rule == Rule::Steady { Rule::Exponential } else { Rule::Steady };
            let wrong = BufferModel { rule: other, ..start }.search(&points, 2.3);
            assert!(wrong.squares(&points) > 100.0 * found.squares(&points), "{found:?} {wrong:?}");
        }
    }

    #[test]
    fn the_idle_time_that_is_asked_for_is_enough() {
        for rule in [Rule::Steady, Rule::Exponential] {
            let model = model(rule);
            for target in [0.1e9, 0.5e9, 0.8e9] {
                let idle = model.idle_until(0.9e9, target);
                assert!((model.after_idle(0.9e9, idle) - target).abs() < 1e3, "{rule:?} {target}");
            }
            assert_eq!(model.idle_until(0.1e9, 0.5e9), Nanos::ZERO);
        }
    }
}
