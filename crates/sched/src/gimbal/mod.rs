//! Gimbal: the switch of one SSD.
//!
//! Four parts that know nothing of one another, and this file, through which everything passes between them:
//!
//! ```text
//!  on_arrival ─► drr: whose IO is next ─► bucket: may it go now? ─► Submit │ WakeAt(the instant it may) │ Idle
//!                 ▲  ▲                       ▲
//!        slots,   │  └─ write_cost ──────────┤ cost
//!        credit   │          ▲               │ rate, or emptied
//!                 │          │           congestion
//!                 │          │               ▲ state
//!                 │          └─ latency ─────┤
//!  on_completion ─┴──────────────────────────┘
//! ```
//!
//! With the costs of the SSD at hand (`GimbalConfig::next`) `drr` charges by `costs`, `wear` finds out from what completes how dear writes
//! are, and a `window` of device time in flight stands in the place of buckets and slots.
//!
//! The order is strict: if the head's bucket cannot pay, or the window is full, everybody waits with it (paper §3.3).
//!
//! Holds, for every run: it is idle only with nothing queued, with everybody who has backlog out of slots, limited or too
//!        far ahead of somebody who is (`lead`), with a full window, or until the very instant at which the head can pay; no IO is lost,
//!        repeated or reordered within its class; all books are empty when all IOs have ended (`tests/against_naive.rs`,
//!        `tests/worlds.rs`).
//! Paper: Gimbal (Min, Liu et al., SIGCOMM 2021) §3. Constants and deviations: `config`.

mod bucket;
mod config;
mod congestion;
mod costs;
mod drr;
mod latency;
mod lead;
mod lists;
mod meter;
mod queue;
mod ranking;
mod reciprocal;
mod slots;
mod tenant;
mod wear;
mod window;
mod write_cost;

pub use config::{
    DeferredDeficit, DeviceConstants, GimbalConfig, Halvings, LeadAmong, RateGrowth, ReadOverflow,
    TokenSplit, WriteCostRule,
};
pub use costs::{CostCurve, DeviceCosts, StateCosts};
pub use wear::Wear;
pub use window::WindowSizes;

use crate::{
    Backlog, Congestion, Cost, Credit, Done, Io, IoKind, Next, Outcome, Policy, Share, SsdView, TenantView,
    Ticket,
};
use bucket::{DualBucket, Pace};
use congestion::TargetRate;
use costs::Prices;
use drr::Drr;
use latency::LatencyMonitor;
use units::{Instant, Nanos, TenantId};
use wear::WearEstimator;
use write_cost::WriteCost;

/// One SSD's Gimbal.
#[derive(Clone, Debug)]
pub struct Gimbal {
    config: GimbalConfig,
    drr: Drr,
    bucket: DualBucket,
    read_latency: LatencyMonitor,
    write_latency: LatencyMonitor,
    target: TargetRate,
    write_cost: WriteCost,
    wear: WearEstimator,
}

impl Gimbal {
    /// A switch with nothing queued.
    ///
    /// # Panics
    /// If [`GimbalConfig::check`] finds fault with `config`.
    pub fn new(config: GimbalConfig) -> Gimbal {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        let target = TargetRate::new(&config);
        let write_cost = WriteCost::new(&config);
        let pace = Pace { rate: target.rate(), split: write_cost.cost(), overflow_cost: Cost::ONE };
        Gimbal {
            config,
            drr: Drr::new(&config),
            bucket: DualBucket::new(config.bucket_depth, pace),
            read_latency: LatencyMonitor::new(&config),
            write_latency: LatencyMonitor::new(&config),
            target,
            write_cost,
            wear: WearEstimator::new(&config),
        }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &GimbalConfig {
        &self.config
    }

    /// Learns from a completed read or write: congestion, rate, write cost, and from these the pace of the buckets.
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
        if let Some(costs) = &self.config.costs {
            self.wear.on_completion(now, costs, io, latency, self.drr.is_held_back());
        }
        let state = monitor.on_latency(latency);
        if let Some(sizes) = &self.config.window {
            self.drr.on_window_completion(sizes, now, io);
            return;
        }
        self.target.on_completion(now, state, io.length, latency);
        self.set_pace(now);
        if state == Congestion::Overloaded {
            self.bucket.empty(now);
        }
    }

    /// Tells the buckets what follows from rate, write cost and, if asked for, from who reads and who writes.
    fn set_pace(&mut self, now: Instant) {
        let cost = self.write_cost.cost();
        let split = match (self.config.token_split, self.drr.weights_by_kind()) {
            (TokenSplit::ByCostAndTenants, (readers @ 1.., writers @ 1..)) => cost.scaled(readers, writers),
            (TokenSplit::ByCostAndTenants | TokenSplit::ByCost, _) => cost,
        };
        let overflow_cost = match self.config.read_overflow {
            ReadOverflow::AtWriteCost if self.write_cost.has_readers() => cost,
            ReadOverflow::AtWriteCost | ReadOverflow::Whole => Cost::ONE,
        };
        self.bucket.set_pace(now, Pace { rate: self.target.rate(), split, overflow_cost });
    }

    /// The set of tenants that read or write may have changed.
    fn on_tenants_changed(&mut self, now: Instant) {
        if self.config.token_split == TokenSplit::ByCostAndTenants {
            self.set_pace(now);
        }
    }
}

impl Policy for Gimbal {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        let ticket = self.drr.on_arrival(&self.config, io);
        self.on_tenants_changed(now);
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        let prices = match &self.config.costs {
            Some(costs) => Prices::Device(costs, self.wear.wear(), self.write_cost.cost()),
            None => Prices::Bytes(self.write_cost.cost()),
        };
        let Some(head) = self.drr.head(&self.config, now, prices) else {
            return self.drr.next_timer(now).map_or(Next::Idle, Next::WakeAt);
        };
        if self.config.window.is_some() {
            if self.drr.window().is_full() {
                return self.drr.next_timer(now).map_or(Next::Idle, Next::WakeAt);
            }
        } else if let Err(payable) = self.bucket.pay(now, head.kind, head.length) {
            self.target.on_pacing_bound(now);
            return Next::WakeAt(self.drr.next_timer(now).map_or(payable, |timer| timer.min(payable)));
        }
        if self.drr.backlog().in_flight == 0 {
            self.target.on_busy(now);
        }
        Next::Submit(self.drr.submit(&self.config, now, head))
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        if let Outcome::Success { latency } = done.outcome {
            self.learn(now, &done.io, latency);
        }
        let credit = self.drr.on_completion(&self.config, &done.io);
        self.on_tenants_changed(now);
        if self.drr.backlog().in_flight == 0 {
            self.target.on_idle(now);
        }
        credit
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        let io = self.drr.withdraw_one(&self.config, tenant, ticket);
        self.on_tenants_changed(now);
        io
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.drr.withdraw(&self.config, tenant, gone);
        self.on_tenants_changed(now);
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.drr.forget(&self.config, tenant);
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        self.drr.set_share(&self.config, tenant, share);
        self.on_tenants_changed(now);
    }

    fn on_overdue(&mut self, _now: Instant, tenant: TenantId) {
        self.drr.on_overdue(&self.config, tenant);
    }

    fn credit(&self, tenant: TenantId) -> Credit {
        self.drr.credit(&self.config, tenant)
    }

    fn backlog(&self) -> Backlog {
        self.drr.backlog()
    }

    fn ssd_view(&self, now: Instant) -> Option<SsdView> {
        let mut bucket = self.bucket;
        bucket.advance(now);
        Some(SsdView {
            reads: self.read_latency.view(),
            writes: self.write_latency.view(),
            target_rate: self.target.rate(),
            completion_rate: self.target.completion_rate(),
            write_cost: self.write_cost.cost(),
            wear: self.config.costs.map(|_| self.wear.wear()),
            read_tokens: bucket.bytes(IoKind::Read),
            write_tokens: bucket.bytes(IoKind::Write),
            active_tenants: self.drr.active_tenants(),
            window: self.config.window.map(|_| self.drr.window().view()),
        })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        self.drr.view(&self.config, tenant)
    }
}
