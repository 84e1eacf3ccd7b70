//! Gimbal as published: the switch of one SSD.
//!
//! Four parts that know nothing of one another, and this file, through which everything passes between them:
//!
//! ```text
//!  on_arrival ─► drr: which IO is next ─► bucket: may it go now? ─► Submit │ WakeAt(the instant it may) │ Idle
//!                 ▲  ▲                       ▲
//!        slots,   │  └─ write_cost ──────────┤ cost
//!        credit   │          ▲               │ rate, or emptied
//!                 │          │           congestion
//!                 │          │               ▲ state
//!                 │          └─ latency ─────┤
//!  on_completion ─┴──────────────────────────┘
//! ```
//!
//! If the head's bucket cannot pay, all others wait with it in the order of the paper's text (§3.3). In that of the release the head waits
//! aside (`parked`), and others may overtake it.
//!
//! The round (`drr`) is shared with another scheduler; Gimbal's own part of it are the `slots`.
//!
//! Holds, for every run: it is idle only with nothing queued, with every tenant that has backlog out of slots or limited, or until the
//!        very instant at which the head, or the first that waits aside, can pay; no IO is lost or repeated, or, in the order of the text,
//!        reordered within its class; all books are empty when all IOs have ended (`tests/against_naive.rs`, `tests/worlds.rs`).
//! Paper: Gimbal (Min, Liu et al., SIGCOMM 2021) §3. Constants and their sources: `config`. Deviations: `docs/paper-map.md`.

mod bucket;
mod config;
mod congestion;
pub(crate) mod latency;
mod parked;
mod reciprocal;
pub(crate) mod slots;
pub(crate) mod write_cost;

pub use config::{GimbalConfig, GimbalOrder, Halvings};

use crate::drr::{Drr, Price};
use crate::{
    Backlog, Congestion, Credit, Done, Io, IoKind, Next, Order, Outcome, PacingView, Policy, Share, SsdView,
    TenantView, Ticket,
};
use alloc::vec::Vec;
use bucket::{DualBucket, Pace};
use congestion::TargetRate;
use latency::LatencyMonitor;
use parked::Parked;
use slots::SlotRules;
use units::{Bytes, Instant, Nanos, TenantId};
use write_cost::WriteCost;

/// One SSD's Gimbal.
#[derive(Clone, Debug)]
pub struct Gimbal {
    config: GimbalConfig,
    drr: Drr<SlotRules>,
    bucket: DualBucket,
    parked: Parked,
    read_latency: LatencyMonitor,
    write_latency: LatencyMonitor,
    target: TargetRate,
    write_cost: WriteCost,
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
        let GimbalConfig { device, write_cost_step, write_cost_period, .. } = config;
        let target = TargetRate::new(&config);
        let write_cost = WriteCost::new(&device, write_cost_step, write_cost_period);
        let latency = LatencyMonitor::new(&device, config.latency_weight, config.threshold_weight);
        Gimbal {
            config,
            drr: Drr::new(config.round, SlotRules::new(&config)),
            bucket: DualBucket::new(
                config.bucket_depth,
                Pace { rate: target.rate(), split: write_cost.cost() },
            ),
            parked: Parked::new(),
            read_latency: latency,
            write_latency: latency,
            target,
            write_cost,
        }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &GimbalConfig {
        &self.config
    }

    /// Notes that an IO goes to the SSD.
    #[inline]
    fn note_busy(&mut self, now: Instant) {
        if self.drr.backlog().in_flight == 0 {
            self.target.on_busy(now);
        }
    }

    /// Learns from a completed read or write: congestion, rate, write cost, and from these the pace of the buckets.
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
        let state = monitor.on_latency(latency);
        self.target.on_completion(now, state, io.length);
        self.bucket.set_pace(now, Pace { rate: self.target.rate(), split: self.write_cost.cost() });
        if state == Congestion::Overloaded {
            self.bucket.empty(now);
        }
    }
}

impl Policy for Gimbal {
    fn on_arrival(&mut self, _now: Instant, io: Io) -> Ticket {
        self.parked.step();
        self.drr.on_arrival(io)
    }

    fn next(&mut self, now: Instant) -> Next {
        let write_cost = self.write_cost.cost();
        let price = |_: &_, _: TenantId, kind: IoKind, length: Bytes| {
            let cost = if kind.pays_as_write() { write_cost.of(length) } else { length };
            Price { cost, reserved: cost }
        };
        self.parked.step_if_due(now);
        let mut payable = None;
        if let Some((id, ticket)) = self.parked.front() {
            let &Io { kind, length, .. } = self.drr.parked(id, ticket);
            match self.bucket.pay(now, kind, length) {
                Ok(()) => {
                    self.note_busy(now);
                    self.parked.pop();
                    return Next::Submit(self.drr.submit_parked(id, ticket));
                }
                Err(at) => payable = Some(at),
            }
        }
        if (payable.is_none() || self.parked.is_open())
            && let Some(head) = self.drr.head(now, &price)
        {
            match self.bucket.pay(now, head.kind, head.length) {
                Ok(()) => {
                    self.note_busy(now);
                    return Next::Submit(self.drr.submit(now, head));
                }
                Err(at) => {
                    payable = payable.or(Some(at));
                    if self.config.order == GimbalOrder::Release {
                        let ticket = self.drr.park(now, &head, self.parked.number());
                        self.parked.push(head.tenant, ticket);
                    }
                }
            }
        }
        let Some(at) = [payable, self.drr.next_timer(now)].into_iter().flatten().min() else {
            return Next::Idle;
        };
        self.parked.ask_for(at);
        Next::WakeAt(at)
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.parked.step();
        if let Outcome::Success { latency } = done.outcome {
            self.learn(now, &done.io, latency);
        }
        let credit = self.drr.on_completion(&done.io);
        if self.drr.backlog().in_flight == 0 {
            self.target.on_idle(now);
        }
        credit
    }

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        match self.drr.parked_number(tenant, ticket) {
            Some(number) => {
                self.parked.remove(number);
                self.drr.withdraw_parked(tenant, ticket)
            }
            None => self.drr.withdraw_one(tenant, ticket),
        }
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let parked: Vec<Ticket> = self.parked.of(tenant).collect();
        for ticket in parked {
            if gone(self.drr.parked(tenant, ticket)) {
                self.withdraw_one(now, tenant, ticket);
            }
        }
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

    fn order(&self) -> Order {
        match self.config.order {
            GimbalOrder::Text => Order::Class,
            GimbalOrder::Release => Order::None,
        }
    }

    fn credit(&self, tenant: TenantId) -> Credit {
        self.drr.credit(tenant)
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
            write_cost: self.write_cost.cost(),
            active_tenants: self.drr.active_tenants(),
            pacing: Some(PacingView {
                target_rate: self.target.rate(),
                completion_rate: self.target.completion_rate(),
                read_tokens: bucket.bytes(IoKind::Read),
                write_tokens: bucket.bytes(IoKind::Write),
            }),
            fragmentation: None,
            time_in_flight: None,
        })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        let view = self.drr.view(tenant)?;
        let parked = self.parked.of(tenant).count();
        Some(TenantView { queued: view.queued + parked, in_flight: view.in_flight - parked, ..view })
    }
}
