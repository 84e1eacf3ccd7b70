//! `level-calibrated`: Level for an SSD that was measured beforehand. The lab compares Level with it.
//!
//! ```text
//!  on_arrival ─► drr: which IO is next ─► in_flight: is device time left for it? ─► Submit │ Idle
//!                 ▲  ▲                       ▲
//!   service_lag ──┘  └─ costs                │
//!                         ▲                  │
//!                         └─ fragmentation   │
//!  on_completion ─────────┴──────────────────┘
//! ```
//!
//! - An IO is charged the device time that it takes (`costs`), from a calibration of the device. How fragmented the flash is decides
//!   the cost of a write; it is estimated from what completes (`fragmentation`).
//! - No more is let into the SSD than keeps it busy (`in_flight`). The rest waits here, where weights decide.
//! - No tenant with work to do falls far behind another (`service_lag`).
//!
//! Nothing is paced: without limits and reservations there is no instant to wake at.
//!
//! A reservation promises bytes, so it counts a written byte at a write cost learned from latencies (`gimbal::write_cost`).
//!
//! Holds, for every run: it is idle only with nothing queued, with every tenant that has backlog out of its part of the device time,
//!        limited or ahead of another, or with all of the device time in flight; no IO is lost, repeated or reordered within its class;
//!        all books are empty when all IOs have ended (`tests/against_naive.rs`, `tests/worlds.rs`).
//! Figures: `docs/paper-map.md`.

mod config;
mod costs;
mod fragmentation;

pub use config::CalibratedConfig;
pub use costs::{CostCurve, DeviceCosts, StateCosts};
pub use fragmentation::Fragmentation;

use super::in_flight::{InFlightLimits, TenantTime, TimeInFlight};
use super::service_lag::ServiceLag;
use crate::drr::{Drr, Place, Price, Rules};
use crate::gimbal::Halvings;
use crate::gimbal::latency::LatencyMonitor;
use crate::gimbal::write_cost::WriteCost;
use crate::{
    Backlog, Cost, Credit, Done, Io, IoKind, Mark, Next, Outcome, Policy, Share, SsdView, TenantView, Ticket,
};
use fragmentation::FragmentationEstimator;
use units::{Bytes, Instant, Nanos, TenantId};

/// The weight of a new latency in the averages that are shown, and of the average in their thresholds.
const LATENCY_WEIGHT: Halvings = Halvings(4);
/// Moves of the write cost that reservations count.
const WRITE_COST_STEP: Cost = Cost::ratio(1, 2);
const WRITE_COST_PERIOD: Nanos = Nanos::millis(100);

/// One SSD's LevelCalibrated.
#[derive(Clone, Debug)]
pub struct LevelCalibrated {
    config: CalibratedConfig,
    drr: Drr<TimeRules>,
    fragmentation: FragmentationEstimator,
    /// For reservations.
    write_cost: WriteCost,
    /// For people; nothing is decided from them.
    read_latency: LatencyMonitor,
    write_latency: LatencyMonitor,
}

impl LevelCalibrated {
    /// A switch with nothing queued.
    ///
    /// # Panics
    /// If [`CalibratedConfig::check`] finds fault with `config`.
    pub fn new(config: CalibratedConfig) -> LevelCalibrated {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        let device = &config.device;
        let latency = LatencyMonitor::new(device, LATENCY_WEIGHT, Some(LATENCY_WEIGHT));
        LevelCalibrated {
            drr: Drr::new(config.round, TimeRules::new(&config)),
            fragmentation: FragmentationEstimator::new(device.slots),
            write_cost: WriteCost::new(device, WRITE_COST_STEP, WRITE_COST_PERIOD),
            read_latency: latency,
            write_latency: latency,
            config,
        }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &CalibratedConfig {
        &self.config
    }

    /// Learns from a completed read or write: the state of the flash, the limit on the device time in flight, the write cost.
    #[inline]
    fn learn(&mut self, now: Instant, io: &Io, latency: Nanos) {
        let monitor = match io.kind {
            IoKind::Read => {
                self.write_cost.on_read(now);
                &mut self.read_latency
            }
            IoKind::Write => {
                self.write_cost.on_write(now, latency);
                &mut self.write_latency
            }
            IoKind::Management => return,
        };
        monitor.on_latency(latency);
        let is_held_back = self.drr.is_held_back();
        self.fragmentation.on_completion(now, &self.config.costs, io, latency, is_held_back);
        if self.drr.rules_mut().time.on_completion(now, &self.config.in_flight, io) {
            self.drr.on_rooms_changed();
        }
    }
}

/// Rules of LevelCalibrated's round: device time, and bounded service lag.
#[derive(Clone, Debug)]
pub(crate) struct TimeRules {
    time: TimeInFlight,
    limits: InFlightLimits,
    lag: ServiceLag,
}

impl TimeRules {
    pub(crate) fn new(config: &CalibratedConfig) -> TimeRules {
        let CalibratedConfig { in_flight: limits, lag_max, lag_catch_up, .. } = *config;
        TimeRules { time: TimeInFlight::new(&limits), limits, lag: ServiceLag::new(lag_max, lag_catch_up) }
    }
}

impl Rules for TimeRules {
    type Held = TenantTime;
    /// The tenant's part of the device time.
    type Room = Bytes;

    #[inline]
    fn room(&self, weight: u32, active_weight: u64) -> Bytes {
        self.time.part(weight, active_weight)
    }

    #[inline]
    fn whole(&self) -> Bytes {
        self.time.whole()
    }

    #[inline]
    fn may_submit(&self, held: &TenantTime, part: Bytes) -> bool {
        held.may_submit(part)
    }

    /// A deferred tenant has an IO in the SSD, and sees its larger part when that ends.
    fn may_promote(&self, _weight_max: u32, _active_weight: u64) -> bool {
        false
    }

    #[inline]
    fn on_submit(&mut self, id: TenantId, held: &mut TenantTime, cost: Bytes, weight: u32) -> Mark {
        self.lag.on_submit(id, cost, weight);
        let mark = self.limits.charge(cost);
        held.on_submit(&mut self.time, mark);
        mark
    }

    #[inline]
    fn on_end(&mut self, held: &mut TenantTime, mark: Mark) {
        held.on_end(&mut self.time, mark);
    }

    #[inline]
    fn credit(&self, held: &TenantTime, part: Bytes) -> Credit {
        held.credit(part, &self.limits)
    }

    fn grow(&mut self, tenants: usize) {
        self.lag.grow(tenants);
    }

    #[inline]
    fn is_ahead(&self, id: TenantId) -> bool {
        self.lag.is_ahead(id)
    }

    #[inline]
    fn caught_up(&self) -> Option<TenantId> {
        self.lag.caught_up()
    }

    #[inline]
    fn on_move(&mut self, id: TenantId, place: Place) {
        self.lag.on_move(id, place);
    }

    /// Lets a tenant held back by its credit compete without backlog.
    #[inline]
    fn on_idle(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        self.lag.on_idle(id, held.is_held_to(part));
    }

    #[inline]
    fn on_end_without_backlog(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        self.on_idle(id, held, part);
    }

    fn on_overdue(&mut self, id: TenantId, held: &mut TenantTime, waits: bool) {
        held.excuse(&mut self.time);
        if waits {
            self.lag.excuse(id);
        }
    }

    fn forget(&mut self, id: TenantId) {
        self.lag.forget(id);
    }

    fn service_lag(&self, id: TenantId) -> Bytes {
        self.lag.behind(id)
    }
}

impl Policy for LevelCalibrated {
    fn on_arrival(&mut self, _now: Instant, io: Io) -> Ticket {
        self.drr.on_arrival(io)
    }

    fn next(&mut self, now: Instant) -> Next {
        let (costs, state) = (&self.config.costs, self.fragmentation.fragmentation());
        let write_cost = self.write_cost.cost();
        let price = |_: &_, _: TenantId, kind: IoKind, length: Bytes| Price {
            cost: costs.of(state, kind, length),
            reserved: if kind.pays_as_write() { write_cost.of(length) } else { length },
        };
        match self.drr.head(now, &price) {
            Some(head) if !self.drr.rules().time.is_full() => Next::Submit(self.drr.submit(now, head)),
            _ => self.drr.next_timer(now).map_or(Next::Idle, Next::WakeAt),
        }
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        if let Outcome::Success { latency } = done.outcome {
            self.learn(now, &done.io, latency);
        }
        self.drr.on_completion(&done.io)
    }

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.drr.withdraw_one(tenant, ticket)
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.drr.withdraw(tenant, gone);
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.drr.forget(tenant);
    }

    fn set_share(&mut self, _now: Instant, tenant: TenantId, share: Share) {
        self.drr.set_share(tenant, share);
    }

    fn on_overdue(&mut self, _now: Instant, tenant: TenantId) {
        self.drr.on_overdue(tenant);
    }

    fn credit(&self, tenant: TenantId) -> Credit {
        self.drr.credit(tenant)
    }

    fn backlog(&self) -> Backlog {
        self.drr.backlog()
    }

    fn ssd_view(&self, _now: Instant) -> Option<SsdView> {
        Some(SsdView {
            reads: self.read_latency.view(),
            writes: self.write_latency.view(),
            write_cost: self.write_cost.cost(),
            active_tenants: self.drr.active_tenants(),
            pacing: None,
            fragmentation: Some(self.fragmentation.fragmentation()),
            time_in_flight: Some(self.drr.rules().time.view()),
        })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        self.drr.view(tenant)
    }
}
