//! Speed of device time: faster while a tenant waits though the SSD keeps up, slower while it does not.
//!
//! ```text
//!   late, or IOs wait for requests              busy level up by 1 a period, from 0   vrate down by 0 … 16 %, by level
//!   in time by a margin, some tenant waits,     busy level down by 1, from 0          vrate up by as much
//!     and none has a surplus
//!   else                                        0                                     stays
//! ```

use super::config::IoCostQos;
use crate::IoKind;
use units::Nanos;

/// Per million.
pub(super) const MILLION: u64 = 1_000_000;
/// Time for which IOs may wait for requests, in per cent of a period.
const WAIT_PER_CENT: u64 = 5;
/// Per cent of the allowed lateness or wait; below that, IOs are in time by a margin.
const MARGIN_PER_CENT: u64 = 75;
/// Bounds that hold whatever was asked for: 1 % and 10,000 %.
const LEAST: u64 = 10_000;
const MOST: u64 = 100_000_000;
/// Busy levels from which on vrate changes by this many per cent a period.
const STEPS: [(u32, u64); 5] = [(48, 16), (40, 8), (32, 4), (16, 2), (4, 1)];

/// The control loop.
#[derive(Clone, Debug)]
pub(super) struct Vrate {
    qos: IoCostQos,
    /// Device time per time, per million.
    rate: u64,
    busy: i32,
    reads: InTime,
    writes: InTime,
}

/// IOs that ended in this period.
#[derive(Clone, Copy, Debug, Default)]
struct InTime {
    all: u64,
    late: u64,
}

/// Result of a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) length: Nanos,
    /// Time for which IOs had budget and no request.
    pub(super) waited: Nanos,
    /// Tenants without enough budget.
    pub(super) shortages: usize,
    /// Tenants that have more budget than they use.
    pub(super) surpluses: usize,
    /// Tenants with IOs that are in the SSD since before the period.
    pub(super) lagging: usize,
}

impl Vrate {
    pub(super) fn new(qos: IoCostQos) -> Vrate {
        Vrate { qos, rate: MILLION, busy: 0, reads: InTime::default(), writes: InTime::default() }
    }

    /// Device time per time, per million.
    pub(super) fn per_million(&self) -> u64 {
        self.rate
    }

    /// Whether latencies count.
    pub(super) fn has_targets(&self) -> bool {
        self.qos.read_percent > 0 || self.qos.write_percent > 0
    }

    /// Counts an IO that has ended after `latency`, of which its size explains `size_cost`.
    pub(super) fn on_end(&mut self, kind: IoKind, latency: Nanos, size_cost: Nanos) {
        let (counted, target) = match kind {
            IoKind::Read => (&mut self.reads, self.qos.read_latency),
            IoKind::Write => (&mut self.writes, self.qos.write_latency),
            IoKind::Management => return,
        };
        counted.all += 1;
        counted.late += u64::from(latency.0.saturating_sub(size_cost.0) > target.0);
    }

    /// Ends a period.
    pub(super) fn on_period(&mut self, period: &Period) {
        let of_period = u128::from(period.length.0.max(1));
        let waited = (u128::from(period.waited.0) * 100 / of_period) as u64;
        // Late IOs per million, and the allowed number.
        let both = [(self.reads, self.qos.read_percent), (self.writes, self.qos.write_percent)].map(
            |(InTime { all, late }, percent)| {
                let late = (late * MILLION).div_ceil(all.max(1));
                (late, MILLION - u64::from(percent.min(100)) * (MILLION / 100))
            },
        );
        (self.reads, self.writes) = (InTime::default(), InTime::default());
        let is_waiting = waited > WAIT_PER_CENT;
        let is_within = |part: u64| {
            waited <= WAIT_PER_CENT * part / 100 && both.iter().all(|(late, may)| *late <= may * part / 100)
        };
        if !is_within(100) {
            self.busy = self.busy.max(0) + 1;
        } else if is_within(MARGIN_PER_CENT) && period.shortages > 0 {
            let may_rise = period.lagging == 0 && period.surpluses == 0;
            self.busy = self.busy.min(0) - i32::from(may_rise);
        } else {
            self.busy = 0;
        }
        self.busy = self.busy.clamp(-1000, 1000);
        if self.busy > 0 || (self.busy < 0 && period.lagging == 0) {
            self.adjust(is_waiting);
        }
    }

    /// Ends the period: no tenant is active any more.
    pub(super) fn rest(&mut self) {
        self.busy = 0;
    }

    fn adjust(&mut self, is_waiting: bool) {
        let bound = |percent: u32| (u64::from(percent) * (MILLION / 100)).clamp(LEAST, MOST);
        // Waiting for requests is a sure sign: then the least that was asked for does not hold.
        let least = if is_waiting { LEAST } else { bound(self.qos.vrate_min) };
        let most = bound(self.qos.vrate_max).max(least);
        let level = self.busy.unsigned_abs();
        let step = STEPS.iter().find(|(from, _)| level >= *from).map_or(0, |(_, step)| *step);
        let percent = if self.busy > 0 { 100 - step } else { 100 + step };
        self.rate = if self.rate < least {
            (self.rate * 104 / 100).min(least)
        } else {
            (self.rate * percent).div_ceil(100).clamp(least, most)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Period =
        Period { length: Nanos::millis(10), waited: Nanos::ZERO, shortages: 1, surpluses: 0, lagging: 0 };

    fn after(vrate: &mut Vrate, periods: u32, period: &Period, late_of_100: u64) -> u64 {
        for _ in 0..periods {
            for n in 0..100 {
                let latency = if n < late_of_100 { Nanos::millis(8) } else { Nanos::millis(1) };
                vrate.on_end(IoKind::Read, latency, Nanos::ZERO);
            }
            vrate.on_period(period);
        }
        vrate.per_million()
    }

    #[test]
    fn it_rises_to_its_bound_while_somebody_waits_and_nothing_is_late() {
        let mut vrate = Vrate::new(IoCostQos::STANDARD);
        assert_eq!(after(&mut vrate, 3, &CALM, 0), MILLION, "not at once");
        assert_eq!(after(&mut vrate, 1, &CALM, 0), 1_010_000);
        assert_eq!(after(&mut vrate, 200, &CALM, 0), 1_500_000);
        assert_eq!(after(&mut vrate, 9, &CALM, 5), 1_500_000, "as many are late as may be");
        assert!(after(&mut vrate, 9, &CALM, 6) < 1_500_000);
        assert_eq!(after(&mut vrate, 400, &CALM, 6), 500_000);
    }

    #[test]
    fn it_stays_while_nobody_waits_or_somebody_has_too_much() {
        let mut vrate = Vrate::new(IoCostQos::STANDARD);
        assert_eq!(after(&mut vrate, 50, &Period { shortages: 0, ..CALM }, 0), MILLION);
        assert_eq!(after(&mut vrate, 50, &Period { surpluses: 1, ..CALM }, 0), MILLION);
        assert_eq!(after(&mut vrate, 50, &Period { lagging: 1, ..CALM }, 0), MILLION);
    }

    #[test]
    fn waiting_for_requests_goes_below_the_bound() {
        let mut vrate = Vrate::new(IoCostQos::STANDARD);
        let full = Period { waited: Nanos::millis(1), ..CALM };
        let low = after(&mut vrate, 100, &full, 0);
        assert!(low < 100_000, "{low}");
        assert!(after(&mut vrate, 300, &CALM, 0) >= 500_000, "and comes back");
    }

    #[test]
    fn what_a_large_io_needs_is_not_late() {
        let mut vrate = Vrate::new(IoCostQos::STANDARD);
        for _ in 0..20 {
            vrate.on_end(IoKind::Write, Nanos::millis(20), Nanos::millis(15));
            vrate.on_period(&CALM);
        }
        assert!(vrate.per_million() > MILLION);
    }
}
