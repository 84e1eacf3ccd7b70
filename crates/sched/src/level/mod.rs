//! Level, this project's own and the default: equal service is an equal part of what the SSD can do for each tenant's kind of work. Nobody
//! has to tell it anything of the SSD.
//!
//! ```text
//!  on_arrival ─► drr: which IO is next ─► depth: is there device time for it? ─► Submit │ Idle
//!                 ▲  ▲        ▲              ▲
//!   service_lag ──┘  prices   └─ held ─ probe│
//!                     ▲                  │   │
//!  on_completion ─────┴──────────────────┴───┘
//! ```
//!
//! - An IO is charged the device time that its kind of work takes when the SSD does nothing else (`prices`); that is measured now and
//!   then for some milliseconds, kind by kind (`probe`), wherever more than one kind of work competes (`books`).
//! - Only as much is in the SSD as keeps it busy; how much that is, is found by trying (`depth`). For one tenant the limit is far above that.
//! - What is served in all is watched; if it changes for good, the SSD has changed, and the prices are measured again (`watch`).
//! - No tenant with work to do falls far behind another (`service_lag`). A tenant that comes back after it has asked for less than its
//!   share goes first, even if the limit is reached: it does not wait for the others.
//!
//! Nothing is paced, and no constant is that of one SSD: the constants here say how long to measure, and how much measuring may cost.
//!
//! A reservation promises bytes, so it counts a written byte as many times as a large written byte costs more than a read one.
//!
//! Holds: no probe keeps a tenant waiting longer than [`probe::LONGEST`], and a probe whose tenants have nothing to do ends at once
//!        (`a_probe_of_an_idle_kind_ends_at_once`); a tenant alone keeps the SSD busy (`one_tenant_may_have_more_in_the_ssd_than_it_needs`).
//! Figures: `docs/lab.md`, the judge.

mod books;
mod calibrated;
mod depth;
mod in_flight;
mod learnt;
mod prices;
mod probe;
mod service_lag;
#[cfg(test)]
mod tests;
mod watch;

#[cfg(test)]
pub(crate) use calibrated::TimeRules;
pub use calibrated::{CalibratedConfig, CostCurve, DeviceCosts, Fragmentation, LevelCalibrated, StateCosts};
pub use in_flight::InFlightLimits;
pub use learnt::{Learnt, LearntPrice, ReadsPart};

use crate::drr::{Drr, Place, Price, RoundConfig, Rules};
use crate::{
    Backlog, Cost, Credit, Done, Io, IoKind, Mark, MonitorView, Next, Outcome, Policy, Share, SsdView,
    TenantView, Ticket,
};
use alloc::vec::Vec;
use books::Books;
use depth::Depth;
use in_flight::{TenantTime, TimeInFlight};
use prices::{Kind, Prices};
use probe::{Explorer, Found, Probe, Step};
use service_lag::ServiceLag;
use units::{Bytes, Instant, Nanos, TenantId};
use watch::Watch;

/// How often the scheduler decides which tenants are busy, whether to probe, and whether the limit changes.
const PERIOD: Nanos = Nanos::millis(25);
/// A period that ends later than this was mostly idle.
const PERIOD_LATEST: Nanos = Nanos::millis(50);
/// Other limits may be right if other tenants are busy for this many periods.
const DIFFERS: u32 = 8;
/// A tenant may have this many of its usual IOs in the SSD, whatever its part of the limit is. With fewer, the latency of an IO would make its share.
const IOS_LEAST: u64 = 4;
/// The limit for a tenant that has the SSD to itself, and for a kind of work that is probed, in guessed time: several times what an SSD needs to be busy (1,250 reads of 4 KiB, 30 writes of
/// 128 KiB), and what the next tenant's first IO waits for at most.
const ALONE_LIMIT: Bytes = Bytes(4_000_000);
/// How much more device time a tenant may be served than the least-served one: 1 ms, as a byte is a nanosecond.
const LAG_MAX: Bytes = Bytes(1_000_000);
/// How far a tenant that comes back may be behind the least-served one.
const LAG_CATCH_UP: Bytes = LAG_MAX;
/// The device time of a tenant's turn: short, so that a tenant with one IO does not wait long for many others.
const QUANTUM: Bytes = Bytes(20_000);
/// A latency counts in the averages that are shown with one part in this number.
const LATENCY_WEIGHT: u64 = 16;

/// One SSD's Level.
#[derive(Clone, Debug)]
pub struct Level {
    drr: Drr<LevelRules>,
    explorer: Explorer,
    depth: Depth,
    watch: Watch,
    /// The busy tenants of each kind in the last period: if they change, other limits may be right.
    kinds: [u32; Kind::COUNT],
    /// Periods in a row in which they were others.
    differs: u32,
    begun: Option<Instant>,
    /// Device time of what completed in this period.
    served: u64,
    /// Whether a probe touched this period.
    probed: bool,
    /// Whether the probe has seen enough.
    seen: bool,
    /// For reservations.
    write_cost: Cost,
    /// For people: moving averages of the latencies of reads and writes, ns.
    latency: [Option<u64>; 2],
}

impl Default for Level {
    fn default() -> Level {
        Level::new()
    }
}

impl Level {
    /// A switch with nothing queued, before an SSD of which nothing is known.
    pub fn new() -> Level {
        let depth = Depth::new();
        // Until a second tenant is there.
        let limits =
            InFlightLimits { uniform: ALONE_LIMIT, mixed: ALONE_LIMIT, alone: ALONE_LIMIT, io_min: Bytes(1) };
        let rules = LevelRules {
            time: TimeInFlight::new(&limits),
            limits,
            lag: ServiceLag::new(LAG_MAX, LAG_CATCH_UP),
            books: Books::default(),
            prices: Prices::new(),
            probe: None,
            held: Vec::new(),
        };
        let round = RoundConfig { quantum: QUANTUM, ..RoundConfig::STANDARD };
        Level {
            drr: Drr::new(round, rules),
            explorer: Explorer::new(),
            depth,
            watch: Watch::default(),
            kinds: [0; Kind::COUNT],
            differs: 0,
            begun: None,
            served: 0,
            probed: false,
            seen: false,
            write_cost: Cost::ONE,
            latency: [None; 2],
        }
    }

    /// The same before an SSD of which this was learnt. It is not taken as true: see [`Learnt`].
    pub fn told(learnt: &Learnt) -> Level {
        let mut level = Level::new();
        let prices = &mut level.drr.rules_mut().prices;
        prices.tell(&learnt.prices);
        level.write_cost = Cost::ratio(prices.write_cost(), 64);
        level.explorer.tell_buffer(learnt.buffer);
        level
    }

    #[inline]
    fn learn(&mut self, now: Instant, io: &Io, latency: Nanos) {
        self.served += u64::from(io.mark.0);
        let rules = self.drr.rules_mut();
        if let Some(kind) = rules.probe.as_ref().map(|probe| probe.kind) {
            let (own, is_held) = (rules.books.kind(io.tenant) == kind, rules.is_held(io.tenant));
            let in_flight = rules.time.view().in_flight;
            if let Some(probe) = rules.probe.as_mut() {
                // What a reservation lets a tenant do that waits is work like that of tenants that do not wait.
                let is_left_over = is_held && latency > probe.lasts(now);
                match probe.on_completion(now, own, is_left_over, io, in_flight) {
                    Step::Continue => {}
                    Step::Limit(limit) => rules.time.set_limit(limit),
                    Step::End => self.seen = true,
                }
            }
        }
        if io.kind != IoKind::Management {
            let average = &mut self.latency[usize::from(io.kind == IoKind::Write)];
            let old = average.unwrap_or(latency.0);
            *average = Some(old - old / LATENCY_WEIGHT + latency.0 / LATENCY_WEIGHT);
        }
        let span = now.since(*self.begun.get_or_insert(now));
        if span >= PERIOD {
            self.close_period(now, span);
        }
    }

    #[cold]
    fn close_period(&mut self, now: Instant, span: Nanos) {
        self.begun = Some(now);
        let (served, probed) = (core::mem::take(&mut self.served), core::mem::take(&mut self.probed));
        let is_idle = span > PERIOD_LATEST;
        let active = self.drr.active_tenants();
        let rules = self.drr.rules_mut();
        let present = rules.books.on_period(!probed);
        if rules.probe.is_some() {
            self.probed = true;
            return;
        }
        // A tenant that was not served may have all its IOs in the SSD.
        let is_shared = present.tenants > 1 || active > 1;
        if probed || is_idle {
            // What buffers still hold of the probe is not this mix's.
            self.depth.restart();
            self.watch.pause();
        } else if is_shared {
            // A tenant that pauses for some periods is no reason to search again.
            self.differs = if self.kinds == present.busy { 0 } else { self.differs + 1 };
            if self.differs >= DIFFERS {
                (self.kinds, self.differs) = (present.busy, 0);
                self.depth.forget();
                self.watch.forget();
            }
            if self.depth.is_own_turn() && self.watch.on_period(served, span.0) && self.explorer.doubt(now) {
                rules.prices.doubt();
            }
            if self.depth.on_period(served.saturating_sub(present.excess), span.0, present.is_beyond_reach) {
                self.watch.on_limit();
            }
        }
        if !is_idle && !probed {
            rules.probe = self.explorer.choose(now, &present, &rules.prices);
        }
        self.probed = rules.probe.is_some();
        let limit = match (&rules.probe, is_shared) {
            (Some(probe), _) => rules.prices.of_guessed(probe.kind, ALONE_LIMIT),
            (None, true) => self.depth.limit(),
            (None, false) => ALONE_LIMIT,
        };
        rules.time.set_limit(limit);
        self.drr.on_rooms_changed();
    }

    /// Ends the probe; what it found counts if it had its time.
    #[cold]
    fn end_probe(&mut self, now: Instant) {
        let rules = self.drr.rules_mut();
        let Some(probe) = rules.probe.take() else { return };
        self.seen = false;
        let found = probe.result();
        let counts =
            |found: &Found| !probe.is_again || rules.prices.is_lower(probe.kind, found.nanos, found.guessed);
        if let Some(found) = found.filter(counts) {
            let change = rules.prices.measure(probe.kind, found.nanos, found.guessed);
            if change.price {
                self.depth.forget();
                self.watch.forget();
            }
            if change.told {
                self.explorer.forget_buffer();
            }
            self.write_cost = Cost::ratio(rules.prices.write_cost(), 64);
        }
        let measured = rules.prices.measured(probe.kind);
        self.explorer.on_end(now, &probe, found, measured);
        rules.time.set_limit(self.depth.limit());
        self.probed = true;
        self.drr.on_rooms_changed();
    }
}

/// What the round asks of it.
#[derive(Clone, Debug)]
pub(crate) struct LevelRules {
    time: TimeInFlight,
    limits: InFlightLimits,
    lag: ServiceLag,
    books: Books,
    prices: Prices,
    probe: Option<Probe>,
    /// Tenants with backlog that wait until the probe is over.
    held: Vec<TenantId>,
}

impl LevelRules {
    /// Whether the tenant waits until the probe is over.
    #[inline]
    fn is_held(&self, id: TenantId) -> bool {
        match &self.probe {
            None => false,
            Some(probe) => self.books.is_busy(id) && self.books.kind(id) != probe.kind,
        }
    }

    fn release(&mut self, id: TenantId) {
        if let Some(place) = self.held.iter().rposition(|held| *held == id) {
            self.held.swap_remove(place);
        }
    }
}

/// The tenant's part, or [`IOS_LEAST`] of its usual IOs if they are more.
#[inline]
fn widened(held: &TenantTime, part: Bytes) -> Bytes {
    part.max(held.usual(IOS_LEAST))
}

impl Rules for LevelRules {
    type Held = TenantTime;
    /// The tenant's part of the device time.
    type Room = Bytes;

    #[inline]
    fn room(&self, weight: u32, active_weight: u64) -> Bytes {
        // Few tenants may have the SSD now, and they must keep it busy.
        if self.probe.is_some() { self.time.whole() } else { self.time.part(weight, active_weight) }
    }

    #[inline]
    fn whole(&self) -> Bytes {
        self.time.whole()
    }

    #[inline]
    fn may_submit(&self, held: &TenantTime, part: Bytes) -> bool {
        held.may_submit(widened(held, part))
    }

    fn may_promote(&self, _weight_max: u32, _active_weight: u64) -> bool {
        false
    }

    #[inline]
    fn on_submit(&mut self, id: TenantId, held: &mut TenantTime, cost: Bytes, weight: u32) -> Mark {
        self.lag.on_submit(id, cost, weight);
        self.books.on_submit(id, cost, weight);
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
        held.credit(widened(held, part), &self.limits)
    }

    fn grow(&mut self, tenants: usize) {
        self.lag.grow(tenants);
        self.books.grow(tenants);
    }

    #[inline]
    fn is_ahead(&self, id: TenantId) -> bool {
        self.is_held(id) || self.lag.is_ahead(id)
    }

    #[inline]
    fn caught_up(&self) -> Option<TenantId> {
        match (&self.probe, self.held.last()) {
            (None, Some(held)) => Some(*held),
            _ => self.lag.caught_up(),
        }
    }

    #[inline]
    fn goes_first(&self) -> Option<TenantId> {
        self.lag.returned().filter(|id| !self.is_held(*id))
    }

    #[inline]
    fn on_move(&mut self, id: TenantId, place: Place) {
        if !self.held.is_empty() {
            self.release(id);
        }
        if place == Place::Ahead && self.is_held(id) {
            // It does not compete: others are not to wait for it.
            self.held.push(id);
            self.lag.on_idle(id, false);
        } else {
            self.lag.on_move(id, place);
        }
    }

    /// A tenant whose credit holds it back competes without backlog.
    #[inline]
    fn on_idle(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        if !self.held.is_empty() {
            self.release(id);
        }
        let is_held_to_credit = held.is_held_to(widened(held, part));
        if !is_held_to_credit {
            self.books.on_emptied(id);
        }
        self.lag.on_idle(id, is_held_to_credit);
    }

    #[inline]
    fn on_end_without_backlog(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        self.lag.on_idle(id, held.is_held_to(widened(held, part)));
    }

    fn on_overdue(&mut self, id: TenantId, held: &mut TenantTime, waits: bool) {
        held.excuse(&mut self.time);
        if waits {
            self.lag.excuse(id);
        }
    }

    fn forget(&mut self, id: TenantId) {
        self.lag.forget(id);
        self.books.forget(id);
    }

    fn service_lag(&self, id: TenantId) -> Bytes {
        self.lag.behind(id)
    }
}

impl Policy for Level {
    fn on_arrival(&mut self, _now: Instant, io: Io) -> Ticket {
        let ticket = self.drr.on_arrival(io);
        let others = self.drr.outstanding(io.tenant) - 1;
        self.drr.rules_mut().books.on_arrival(&io, others);
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.drr.rules().probe.as_ref().is_some_and(|probe| self.seen || probe.ends() <= now) {
            self.end_probe(now);
        }
        loop {
            let write_cost = self.write_cost;
            let price = |rules: &LevelRules, id: TenantId, kind: IoKind, length: Bytes| Price {
                cost: rules.prices.of(rules.books.kind(id), kind, length),
                reserved: if kind.pays_as_write() { write_cost.of(length) } else { length },
            };
            let head = self.drr.head(now, &price);
            if let Some(head) = head.filter(|head| head.goes_first || !self.drr.rules().time.is_full()) {
                return Next::Submit(self.drr.submit(now, head));
            }
            let timer = self.drr.next_timer(now);
            let Some(ends) = self.drr.rules().probe.as_ref().map(Probe::ends) else {
                return timer.map_or(Next::Idle, Next::WakeAt);
            };
            if self.drr.backlog().in_flight > 0 {
                return Next::WakeAt(timer.map_or(ends, |at| at.min(ends)));
            }
            // Only tenants that wait for the probe have anything to do.
            self.end_probe(now);
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
        let time = self.drr.rules().time.view();
        let [reads, writes] = self.latency.map(|average| MonitorView {
            ewma: average.map(Nanos),
            threshold: Nanos(time.limit.0),
            state: None,
        });
        Some(SsdView {
            reads,
            writes,
            write_cost: self.write_cost,
            active_tenants: self.drr.active_tenants(),
            pacing: None,
            fragmentation: None,
            time_in_flight: Some(time),
        })
    }

    fn learnt(&self) -> Option<Learnt> {
        let prices = self.drr.rules().prices.learnt(probe::FIRST);
        (!prices.is_empty()).then(|| Learnt { prices, buffer: self.explorer.buffer() })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        self.drr.view(tenant)
    }
}
