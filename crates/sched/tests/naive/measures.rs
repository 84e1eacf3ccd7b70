//! Findings of the switch from completions, computed again: latencies, rate, write cost, fragmentation, and the limit on the device time in flight.
//!
//! Written from the papers and the text of the switch's own documentation, not from its code: averages are kept as such, periods are
//! numbered from the first completion, busy time is counted while it passes.

use super::constants::Constants;
use super::costs::{FULL, at_both_ends};
use sched::{Congestion, Cost, DeviceCosts, Halvings, InFlightLimits, Io, IoKind};
use std::collections::BTreeSet;
use units::{Instant, Nanos, TenantId};

const SECOND: u128 = 1_000_000_000;
/// Interval at which fragmentation and limit are reconsidered; twice as long without a chance to do so, and everything
/// is forgotten.
const PERIOD: Nanos = Nanos::millis(50);

/// A latency with 16 binary digits below the nanosecond, as the switch averages it.
fn fine(latency: Nanos) -> u128 {
    u128::from(latency.0) << 16
}

/// Earlier observations, of which an eighth is forgotten, and new ones.
fn remembered(before: u128, new: u128) -> u128 {
    before - before / 8 + new
}

/// One kind's moving average and threshold.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(crate) average: Option<u128>,
    pub(crate) threshold: u128,
    pub(crate) state: Option<Congestion>,
}

impl Latency {
    fn on_latency(&mut self, config: &Constants, latency: Nanos) -> Congestion {
        let part = 1 << config.latency_weight.0;
        let new = fine(latency);
        let average = self.average.map_or(new, |average| average - average / part + new / part);
        let (least, most) = (fine(config.device.thresh_min), fine(config.device.thresh_max));
        let state = match average {
            _ if average > most => Congestion::Overloaded,
            _ if average > self.threshold => Congestion::Congested,
            _ if average > least => Congestion::Avoidance,
            _ => Congestion::Underutilised,
        };
        self.threshold = match (state, config.threshold_weight) {
            (Congestion::Overloaded, _) => most,
            (Congestion::Congested, _) => (self.threshold + most) / 2,
            (_, Some(Halvings(halvings))) => {
                least.max(self.threshold - (self.threshold - average) / (1 << halvings))
            }
            (_, None) => self.threshold,
        };
        (self.average, self.state) = (Some(average), Some(state));
        state
    }
}

/// The target rate, and the completion rate that it falls back to.
#[derive(Clone, Debug)]
struct Rate {
    target: u64,
    /// The last instant at which the bucket delayed a tenant.
    completed: u128,
    busy: u128,
    idle_since: Instant,
    now: Instant,
    measured: Option<u64>,
}

impl Rate {
    /// Time passes; `in_flight` IOs were inside the SSD meanwhile.
    fn pass(&mut self, now: Instant, in_flight: usize) {
        if in_flight > 0 {
            self.busy += u128::from(now.since(self.now).0);
            self.idle_since = now;
        }
        self.now = now;
    }

    fn on_busy(&mut self, config: &Constants) {
        if self.now.since(self.idle_since) > config.completion_idle_max {
            (self.measured, self.completed, self.busy) = (None, 0, 0);
        }
        self.idle_since = self.now;
    }

    fn on_completion(&mut self, config: &Constants, io: &Io, state: Congestion) {
        self.completed += u128::from(io.length.0);
        if self.completed >= u128::from(config.completion_window.0) && self.busy > 0 {
            self.measured = Some((self.completed * SECOND / self.busy) as u64);
            (self.completed, self.busy) = (0, 0);
        }
        let (least, most) = (config.device.rate_min.0, config.device.rate_max.0);
        let target = match state {
            Congestion::Overloaded => {
                self.target.min(self.measured.unwrap_or(u64::MAX)).saturating_sub(io.length.0)
            }
            Congestion::Congested => self.target.saturating_sub(io.length.0),
            Congestion::Avoidance => self.target + io.length.0,
            Congestion::Underutilised => self.target + io.length.0 * config.underutilised_growth,
        };
        self.target = target.max(least).min(most);
    }
}

/// The write cost, and what its present period has seen.
#[derive(Clone, Debug)]
struct Writes {
    /// In parts of [`Cost::SCALE`].
    cost: u64,
    first: Option<Instant>,
    period: u64,
    latencies: Vec<Nanos>,
}

impl Writes {
    fn on_completion(&mut self, config: &Constants, now: Instant, kind: IoKind, latency: Nanos) {
        let first = *self.first.get_or_insert(now);
        let period = now.since(first).0 / config.write_cost_period.0;
        if period != self.period {
            self.judge(config);
            self.period = period;
            self.latencies.clear();
        }
        if kind != IoKind::Read {
            self.latencies.push(latency);
        }
    }

    fn judge(&mut self, config: &Constants) {
        if self.latencies.is_empty() {
            return;
        }
        let sum: u128 = self.latencies.iter().map(|latency| u128::from(latency.0)).sum();
        let mean = Nanos((sum / self.latencies.len() as u128) as u64);
        let device = &config.device;
        let is_slow = mean > device.thresh_min;
        let [best, worst, step]: [u64; 3] =
            [device.write_cost_best, device.write_cost_worst, config.write_cost_step]
                .map(|cost| cost.fixed().into());
        self.cost = match is_slow {
            true => (self.cost + worst).div_ceil(2),
            false => self.cost.saturating_sub(step).max(best),
        };
    }
}

/// Completions of a period, or the memory of all.
#[derive(Clone, Debug, Default)]
struct Seen {
    span: u128,
    costs: [u128; 2],
    written: u128,
    /// Cost × microseconds in the SSD.
    cost_micros: u128,
    ios: u128,
    waiting: u128,
}

impl Seen {
    fn and(&self, new: &Seen) -> Seen {
        Seen {
            span: remembered(self.span, new.span),
            costs: [0, 1].map(|state| remembered(self.costs[state], new.costs[state])),
            written: remembered(self.written, new.written),
            cost_micros: remembered(self.cost_micros, new.cost_micros),
            ios: remembered(self.ios, new.ios),
            waiting: remembered(self.waiting, new.waiting),
        }
    }
}

/// Estimated fragmentation of the flash.
#[derive(Clone, Debug)]
struct Fragmenting {
    fragmentation: u128,
    begun: Option<Instant>,
    present: Seen,
    past: Seen,
}

impl Fragmenting {
    fn on_completion(
        &mut self,
        config: &Constants,
        costs: &DeviceCosts,
        now: Instant,
        (io, latency): (&Io, Nanos),
        a_tenant_waits: bool,
    ) {
        let both = at_both_ends(costs, io);
        let seen = &mut self.present;
        seen.costs = [seen.costs[0] + both[0], seen.costs[1] + both[1]];
        seen.written += if io.kind == IoKind::Read { 0 } else { both[0] };
        seen.cost_micros += both[0] * u128::from(latency.0) / 1000;
        seen.ios += 1;
        seen.waiting += u128::from(a_tenant_waits);
        let span = now.since(*self.begun.get_or_insert(now));
        if span < PERIOD {
            return;
        }
        self.begun = Some(now);
        let seen = Seen { span: span.0.into(), ..std::mem::take(&mut self.present) };
        if span.0 > 2 * PERIOD.0 {
            self.past = Seen::default();
            return;
        }
        self.past = self.past.and(&seen);
        let to = self.judge(config, costs);
        let half_way = (self.fragmentation as i128 + (to as i128 - self.fragmentation as i128) / 2) as u128;
        self.fragmentation = if to.abs_diff(half_way) < FULL / 16 { to } else { half_way };
    }

    /// The estimate to which the fragmentation should move. All sums are parts of the work that the SSD could have done
    /// meanwhile.
    fn judge(&self, config: &Constants, costs: &DeviceCosts) -> u128 {
        let one = FULL as i128;
        let part = |of: u128, whole: u128| ((of * FULL / whole.max(1)) as i128).min(one << 24);
        let all = u128::from(costs.rate.0) * self.past.span / SECOND;
        let [clean, fragmented] = self.past.costs.map(|cost| part(cost, all));
        let margin = one / 20;
        let is_busy = self.past.waiting * 100 >= self.past.ios * 75
            || self.past.cost_micros * 1000 / self.past.span.max(1)
                >= u128::from(config.device.slots) * 128 * 1024;
        if !is_busy {
            // No more fragmented than an SSD that could just do all of this work.
            let most = if fragmented > clean {
                (one + margin - clean).max(0) * one / (fragmented - clean)
            } else {
                one
            };
            return self.fragmentation.min(most as u128);
        }
        let written = part(self.past.written, self.past.costs[0]);
        let mixture = (8 * written * (one - written) / one).min(one);
        let least = one - margin - mixture * 40 / 100;
        let (enough, too_much) = (clean - least, fragmented - (one + margin));
        match (enough >= 0, too_much > 0) {
            (true, true) => 0,
            (false, false) => FULL,
            (true, false) => self.fragmentation,
            (false, true) => (-enough * one / (too_much - enough)) as u128,
        }
    }
}

/// The limit on the device time in flight, by the tenants and kinds of completions.
#[derive(Clone, Debug)]
struct Limit {
    bytes: u64,
    begun: Option<Instant>,
    /// Charges, and the part of them for writes.
    present: [u128; 2],
    past: [u128; 2],
    tenants: BTreeSet<TenantId>,
}

impl Limit {
    fn on_completion(&mut self, sizes: &InFlightLimits, now: Instant, io: &Io, charge: u64) {
        let charge = u128::from(charge);
        let written = if io.kind == IoKind::Read { 0 } else { charge };
        self.present = [self.present[0] + charge, self.present[1] + written];
        let before = self.tenants.len();
        self.tenants.insert(io.tenant);
        let span = now.since(*self.begun.get_or_insert(now));
        if span >= PERIOD {
            self.begun = Some(now);
            let seen = std::mem::take(&mut self.present);
            self.past = match span.0 > 2 * PERIOD.0 {
                true => [0; 2],
                false => [0, 1].map(|of| remembered(self.past[of], seen[of])),
            };
            self.follow(sizes);
            self.tenants.clear();
        } else if before == 1 && self.tenants.len() == 2 {
            self.follow(sizes);
        }
    }

    fn follow(&mut self, sizes: &InFlightLimits) {
        let [all, written] = self.past;
        if all == 0 {
            return;
        }
        let written = written * FULL / all;
        let mixture = (8 * written * (FULL - written) / FULL).min(FULL);
        let wider = u128::from((sizes.mixed - sizes.uniform).0) * mixture / FULL;
        self.bytes = if self.tenants.len() > 1 { sizes.uniform.0 + wider as u64 } else { sizes.alone.0 };
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    config: Constants,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    rate: Rate,
    cost: Writes,
    fragmenting: Fragmenting,
    limit: Limit,
}

impl Measures {
    pub(crate) fn new(config: Constants) -> Measures {
        let device = &config.device;
        let latency = Latency { average: None, threshold: fine(device.thresh_max), state: None };
        Measures {
            reads: latency.clone(),
            writes: latency,
            rate: Rate {
                target: config.rate_start.0.clamp(device.rate_min.0, device.rate_max.0),
                completed: 0,
                busy: 0,
                idle_since: Instant::ZERO,
                now: Instant::ZERO,
                measured: None,
            },
            cost: Writes {
                cost: device.write_cost_worst.fixed().into(),
                first: None,
                period: 0,
                latencies: Vec::new(),
            },
            fragmenting: Fragmenting {
                fragmentation: FULL,
                begun: None,
                present: Seen::default(),
                past: Seen::default(),
            },
            limit: Limit {
                bytes: config.in_flight.map_or(0, |limits| limits.mixed.0),
                begun: None,
                present: [0; 2],
                past: [0; 2],
                tenants: BTreeSet::new(),
            },
            config,
        }
    }

    /// Time passes; `in_flight` IOs were inside the SSD meanwhile.
    pub(crate) fn pass(&mut self, now: Instant, in_flight: usize) {
        self.rate.pass(now, in_flight);
    }

    /// The SSD is given work, and had none.
    pub(crate) fn on_busy(&mut self) {
        self.rate.on_busy(&self.config);
    }

    /// A read or write succeeded, with its charge. Returns whether the SSD is overloaded.
    pub(crate) fn on_success(&mut self, io: &Io, latency: Nanos, charge: u64, a_tenant_waits: bool) -> bool {
        let (config, now) = (&self.config, self.rate.now);
        self.cost.on_completion(config, now, io.kind, latency);
        if let Some(costs) = &config.costs {
            self.fragmenting.on_completion(config, costs, now, (io, latency), a_tenant_waits);
        }
        let monitor = if io.kind == IoKind::Read { &mut self.reads } else { &mut self.writes };
        let state = monitor.on_latency(config, latency);
        if let Some(sizes) = &config.in_flight {
            self.limit.on_completion(sizes, now, io, charge);
            return false;
        }
        self.rate.on_completion(config, io, state);
        state == Congestion::Overloaded
    }

    pub(crate) fn target_rate(&self) -> u64 {
        self.rate.target
    }

    pub(crate) fn completion_rate(&self) -> Option<u64> {
        self.rate.measured
    }

    pub(crate) fn write_cost(&self) -> Cost {
        Cost::ratio(self.cost.cost as u32, Cost::SCALE)
    }

    /// In parts of [`FULL`].
    pub(crate) fn fragmentation(&self) -> u128 {
        self.fragmenting.fragmentation
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.bytes
    }
}
