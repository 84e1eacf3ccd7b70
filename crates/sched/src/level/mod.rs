//! Level, this project's own scheduler and the default: equal service is an equal part of the rate that the SSD would
//! give each tenant's kind of work alone. It needs no constants of the SSD.
//!
//! ```text
//!  on_arrival ─► drr: which IO is next ─► depth: is device time left for it? ─► Submit │ Idle
//!                 ▲  ▲        ▲              ▲
//!   service_lag ──┘  prices   └─ held ─ probe│
//!                     ▲                  │   │
//!  on_completion ─────┴──────────────────┴───┘
//! ```
//!
//! - An IO is charged the device time that its kind of work takes when the SSD does nothing else (`prices`); that is measured now and
//!   then for some milliseconds, kind by kind (`probe`), wherever more than one kind of work competes (`books`); and of writes once for
//!   some seconds, as a drive may take them from a reserve (`evidence`).
//! - Only as much is in the SSD as keeps it busy; that limit is found by trying (`depth`). For one tenant the limit is
//!   far above that.
//! - The total service is watched; if it changes for good, the SSD has changed, and the prices are measured again
//!   (`watch`).
//! - No tenant with work to do falls far behind another (`service_lag`), even if all its IOs are in the SSD, unless
//!   that costs too much (`patience`). A tenant that comes back after it has asked for less than its share goes first,
//!   even if the limit is reached: it does not wait for the others.
//!
//! Nothing is paced, and no constant is that of one SSD: the constants here say how long to measure, and how much measuring may cost.
//!
//! A latency objective squeezes the other tenants' work, but no more than it must (`objectives`).
//!
//! Each part owns its cells: the rules of the round with their parts (`rules`, `limit`), the search for the limit
//! (`search`), the tenants' objectives and their effects on the round (`promises`), and whether an objective can be
//! kept (`admission`). This file passes them to each other.
//!
//! A reservation promises bytes, so it counts a written byte as many times as a large written byte costs more than a read one.
//!
//! Holds: no probe keeps a tenant waiting longer than [`probe::LONGEST`], and a probe ends soon when its tenants have
//!        nothing to do (`a_probe_of_an_idle_kind_ends_soon`); a tenant alone keeps the SSD busy
//!        (`one_tenant_may_have_more_in_the_ssd_than_it_needs`).
//! Figures: `docs/lab.md`, the judge.

mod admission;
mod books;
mod calibrated;
mod closed_loop;
mod depth;
mod evidence;
mod held;
mod in_flight;
mod kind;
mod learnt;
mod limit;
mod load_curve;
#[cfg(test)]
mod objective_tests;
mod objectives;
mod patience;
mod prices;
mod probe;
mod promises;
mod rules;
mod search;
mod service_lag;
#[cfg(test)]
mod tests;
mod took;
mod watch;

#[cfg(test)]
pub(crate) use calibrated::TimeRules;
pub use calibrated::{CalibratedConfig, CostCurve, DeviceCosts, Fragmentation, LevelCalibrated, StateCosts};
pub use in_flight::InFlightLimits;
pub use learnt::{Learnt, LearntPrice, LearntReads, ReadsPart};

use crate::drr::{Drr, Head, Price, RoundConfig};
use crate::{
    Admitted, Backlog, Cost, Credit, Done, ExtraRead, Io, IoKind, MonitorView, Next, ObjectiveView, Outcome,
    Policy, Refused, Share, SsdView, TenantView, Ticket,
};
use admission::{Admission, Known};
use probe::{Explorer, Found, Step};
use promises::Promises;
use rules::LevelRules;
use search::Search;
use units::{Bytes, Instant, Nanos, TenantId};

/// Interval at which the scheduler decides which tenants are busy, whether to probe, and whether the limit changes.
const PERIOD: Nanos = Nanos::millis(25);
/// A period that ends later than this was mostly idle.
const PERIOD_LATEST: Nanos = Nanos::millis(50);
/// The limit for a tenant that has the SSD to itself, and for a kind of work that is probed, in guessed time: several
/// times the work that keeps an SSD busy (1,250 reads of 4 KiB, 30 writes of 128 KiB), and the longest wait of the next
/// tenant's first IO.
const ALONE_LIMIT: Bytes = Bytes(4_000_000);
/// The device time of a tenant's turn: short, so that a tenant with one IO does not wait long for many others.
const QUANTUM: Bytes = Bytes(20_000);
/// Weight of a latency in the displayed averages: one in this number.
const LATENCY_WEIGHT: u64 = 16;

/// One SSD's Level.
#[derive(Clone, Debug)]
pub struct Level {
    drr: Drr<LevelRules>,
    explorer: Explorer,
    search: Search,
    admission: Admission,
    promises: Promises,
    begun: Option<Instant>,
    /// Device time of the IOs that completed in this period.
    served: u64,
    /// Whether a probe touched this period.
    probed: bool,
    /// Whether the probe has seen enough.
    seen: bool,
    /// Extra reads in the SSD.
    extra_reads: u64,
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
        let round = RoundConfig { quantum: QUANTUM, ..RoundConfig::STANDARD };
        Level {
            drr: Drr::new(round, LevelRules::new()),
            explorer: Explorer::new(),
            search: Search::new(),
            admission: Admission::new(),
            promises: Promises::default(),
            begun: None,
            served: 0,
            probed: false,
            seen: false,
            extra_reads: 0,
            write_cost: Cost::ONE,
            latency: [None; 2],
        }
    }

    /// The same, with facts learnt of the SSD by an earlier run. They are not taken as true: see [`Learnt`].
    pub fn told(learnt: &Learnt) -> Level {
        let mut level = Level::new();
        let prices = &mut level.drr.rules_mut().prices;
        prices.tell(&learnt.prices);
        level.write_cost = Cost::ratio(prices.write_cost(), 64);
        level.explorer.tell_buffer(learnt.buffer);
        level.admission.tell(&learnt.reads);
        level
    }

    #[inline]
    fn learn(&mut self, now: Instant, io: &Io, latency: Nanos) {
        self.served += u64::from(io.mark.0);
        let rules = self.drr.rules_mut();
        if let Some(kind) = rules.probe.as_ref().map(|probe| probe.kind) {
            let (own, is_held) = (rules.books.kind(io.tenant) == kind, rules.is_held(io.tenant));
            let in_flight = rules.limit.view().in_flight;
            if let Some(probe) = rules.probe.as_mut() {
                // Work that a reservation lets a waiting tenant do is like that of tenants that do not wait.
                let is_left_over = is_held && latency > probe.lasts(now);
                let step = probe.on_completion(now, own, is_left_over, io, latency, in_flight);
                self.take_step(step);
            }
        }
        self.admission.on_completion(io, self.drr.rules().limit.view().in_flight, latency);
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

    /// Takes the next step of a probe after a completion.
    #[inline]
    fn take_step(&mut self, step: Step) {
        let rules = self.drr.rules_mut();
        match step {
            Step::Continue => {}
            Step::Open => {
                let probe = rules.probe.as_ref().expect("only a probe has steps");
                let limit = rules.prices.of_probe(probe.kind, probe.limit());
                self.promises.set_limit(&mut self.drr, limit);
            }
            Step::Limit(limit) => rules.limit.set_for_probe(limit),
            Step::End => self.seen = true,
        }
    }

    #[cold]
    fn close_period(&mut self, now: Instant, span: Nanos) {
        self.begun = Some(now);
        let (served, probed) = (core::mem::take(&mut self.served), core::mem::take(&mut self.probed));
        let is_idle = span > PERIOD_LATEST;
        let active = self.drr.active_tenants();
        let unserved = self.drr.rules_mut().books.take_unserved();
        for id in unserved {
            if self.drr.outstanding(id) > 0 {
                self.drr.rules_mut().books.keep(id);
            }
        }
        let rules = self.drr.rules_mut();
        let present = rules.books.on_period(!probed);
        self.search.note_dearest(rules.take_dearest());
        let (is_probe, was_squeezed) = (probed || rules.probe.is_some(), rules.limit.is_squeezed());
        self.admission.on_period(present.written, span, is_probe, was_squeezed);
        if rules.probe.is_some() {
            self.probed = true;
            return self.promises.on_period(now, span, rules.limit.unsqueezed(), true);
        }
        let is_squeezed = self.promises.are_squeezing();
        self.promises.on_period(now, span, self.search.limit(), probed);
        let forbids_probes = self.promises.forbid_probes(now);
        // A tenant that was not served may have all its IOs in the SSD.
        let is_shared = present.tenants > 1 || active > 1;
        rules.set_shared(is_shared);
        if probed || is_idle || is_squeezed {
            self.search.skip(&mut rules.patience);
        } else if is_shared
            && self.search.on_period(served, span, &present, &mut rules.patience)
            && self.explorer.doubt(now)
        {
            rules.prices.doubt();
        }
        if !is_idle && !probed && !forbids_probes {
            rules.probe = self.explorer.choose(now, &present, &mut rules.prices);
        }
        self.probed = rules.probe.is_some();
        let limit = match (&rules.probe, is_shared) {
            (Some(probe), _) => rules.prices.of_probe(probe.kind, probe.limit()),
            (None, true) if rules.patience.is_trial() => self.search.limit().max(ALONE_LIMIT),
            (None, true) => self.search.limit(),
            (None, false) => ALONE_LIMIT,
        };
        self.promises.set_limit(&mut self.drr, limit);
        self.promises.close_or_open(self.drr.rules_mut(), now);
    }

    /// The extra read that a probe needs now.
    fn extra_read(&mut self) -> Option<ExtraRead> {
        let LevelRules { probe, prices, limit, .. } = self.drr.rules_mut();
        let probe = probe.as_mut()?;
        let kind = probe.kind;
        let price = |length| prices.of(kind, IoKind::Read, length);
        let read = probe.extra_read(limit.view().in_flight, self.extra_reads, price)?;
        self.extra_reads += 1;
        Some(read)
    }

    /// As [`Policy::next`], where something may have to be done.
    #[inline(never)]
    fn decide(&mut self, now: Instant) -> Next {
        if self.drr.rules().probe.as_ref().is_some_and(|probe| self.seen || probe.ends() <= now) {
            self.end_probe(now);
        }
        self.promises.close_or_open(self.drr.rules_mut(), now);
        loop {
            let write_cost = self.write_cost;
            let price = |rules: &LevelRules, id: TenantId, kind: IoKind, length: Bytes| Price {
                cost: rules.prices.of(rules.books.kind(id), kind, length),
                reserved: if kind.pays_as_write() { write_cost.of(length) } else { length },
            };
            let head = self.drr.head(now, &price);
            let may_go = |head: &Head| {
                let rules = self.drr.rules();
                head.is_promised || head.goes_first && !rules.limit.is_squeezed() || !rules.limit.is_full()
            };
            if let Some(head) = head.filter(may_go) {
                let io = self.drr.submit(now, head);
                let rules = self.drr.rules_mut();
                if let Some(probe) = &mut rules.probe {
                    probe.on_submit(rules.books.kind(io.tenant) == probe.kind, &io);
                }
                self.promises.on_submit(rules, now, io.tenant, head.cost());
                return Next::Submit(io);
            }
            if let Some(read) = self.extra_read() {
                return Next::Extra(read);
            }
            let opens = self.promises.on_nothing(self.drr.rules_mut(), now, head.is_some());
            let timer = [self.drr.next_timer(now), opens].into_iter().flatten().min();
            let is_quiet = self.drr.backlog().in_flight == 0 && self.extra_reads == 0;
            let Some(probe) = self.drr.rules_mut().probe.as_mut() else {
                return timer.map_or(Next::Idle, Next::WakeAt);
            };
            let wakes = if is_quiet { probe.wakes_if_quiet(now) } else { probe.ends() };
            if now < wakes {
                return Next::WakeAt(timer.map_or(wakes, |at| at.min(wakes)));
            }
            // Only tenants that wait for the probe have anything to do, and have had for a while.
            match probe.on_quiet(now) {
                Step::End => self.end_probe(now),
                step => self.take_step(step),
            }
        }
    }

    /// Ends the probe; its findings count if it ran long enough.
    #[cold]
    fn end_probe(&mut self, now: Instant) {
        let rules = self.drr.rules_mut();
        let Some(probe) = rules.probe.take() else { return };
        self.seen = false;
        let found = probe.result();
        let counts = |found: &Found| {
            !probe.is_again || rules.prices.is_lower(probe.kind, found.took.likely, found.guessed)
        };
        if let Some(found) = found.filter(counts) {
            let change = rules.prices.measure(probe.kind, found.took, found.guessed, probe.written());
            if change.price {
                self.search.reprice(&mut rules.patience);
            }
            if change.told {
                self.explorer.forget_buffer();
            }
            self.write_cost = Cost::ratio(rules.prices.write_cost(), 64);
        }
        let measured = rules.prices.measured(probe.kind);
        self.explorer.on_end(now, &probe, found, measured);
        self.promises.set_limit(&mut self.drr, self.search.limit());
        self.probed = true;
    }
}

impl Policy for Level {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        let ticket = self.drr.on_arrival(io);
        let others = self.drr.outstanding(io.tenant) - 1;
        let rules = self.drr.rules_mut();
        rules.books.on_arrival(&io, others);
        if let Some(probe) = &mut rules.probe
            && rules.books.kind(io.tenant) == probe.kind
        {
            probe.on_arrival(others);
        }
        self.promises.on_arrival(&mut self.drr, now, &io);
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        // Nearly every second call finds nothing queued, and without backlog there is no timer.
        let is_quiet = self.drr.backlog().queued == 0 && self.drr.rules().probe.is_none();
        if is_quiet && !self.promises.are_any() { Next::Idle } else { self.decide(now) }
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        let counts = matches!(done.outcome, Outcome::Success { .. });
        let limit = self.search.limit();
        self.promises.on_completion(&mut self.drr, now, (done.io.tenant, done.io.id), counts, limit);
        if let Outcome::Success { latency } = done.outcome {
            self.learn(now, &done.io, latency);
        }
        self.drr.on_completion(&done.io)
    }

    fn on_extra_read(&mut self, now: Instant, read: ExtraRead, outcome: Outcome) {
        self.extra_reads -= 1;
        if let Some(probe) = &mut self.drr.rules_mut().probe {
            let step = probe.on_extra_read(now, read, outcome);
            self.take_step(step);
        }
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        let io = self.drr.withdraw_one(tenant, ticket);
        self.promises.on_withdrawn(now, (tenant, io.id), self.search.limit());
        io
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let (promises, limit) = (&mut self.promises, self.search.limit());
        self.drr.withdraw(tenant, &mut |io| {
            let is_gone = gone(io);
            if is_gone {
                promises.on_withdrawn(now, (tenant, io.id), limit);
            }
            is_gone
        });
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.promises.set(&mut self.drr, now, tenant, (None, false));
        self.drr.forget(tenant);
    }

    fn admission(&self, tenant: TenantId, share: &Share) -> Result<Admitted, Refused> {
        match share.objective() {
            None => Ok(Admitted::Promised),
            Some(objective) => {
                let known = Known::of(self.drr.rules(), self.begun.is_some());
                self.admission.admit(tenant, &objective, self.promises.others(tenant), &known)
            }
        }
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        let known = Known::of(self.drr.rules(), self.begun.is_some());
        let objective = self.admission.take(tenant, &share, self.promises.others(tenant), &known);
        self.drr.set_share(tenant, share);
        self.promises.set(&mut self.drr, now, tenant, objective);
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
        let time = self.drr.rules().limit.view();
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
        let reads = self.admission.learnt();
        let is_any = !prices.is_empty() || !reads.is_empty();
        is_any.then(|| Learnt { prices, reads, buffer: self.explorer.buffer() })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        let view = self.drr.view(tenant)?;
        let refused = self.admission.refused(tenant).map(ObjectiveView::refused);
        Some(TenantView { objective: refused.or_else(|| self.promises.view(tenant)), ..view })
    }
}
