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
//! - No tenant with work to do falls far behind another (`service_lag`), even if all its IOs are in the SSD, unless that costs too much (`patience`).
//!   A tenant that comes back after it has asked for less than its share goes first, even if the limit is reached: it does not wait for the others.
//!
//! Nothing is paced, and no constant is that of one SSD: the constants here say how long to measure, and how much measuring may cost.
//!
//! A latency objective squeezes what others do, as far as it must (`objectives`).
//!
//! A reservation promises bytes, so it counts a written byte as many times as a large written byte costs more than a read one.
//!
//! Holds: no probe keeps a tenant waiting longer than [`probe::LONGEST`], and a probe whose tenants have nothing to do ends at once
//!        (`a_probe_of_an_idle_kind_ends_at_once`); a tenant alone keeps the SSD busy (`one_tenant_may_have_more_in_the_ssd_than_it_needs`).
//! Figures: `docs/lab.md`, the judge.

mod books;
mod calibrated;
mod closed_loop;
mod depth;
mod held;
mod in_flight;
mod kind;
mod learnt;
mod load_curve;
#[cfg(test)]
mod objective_tests;
mod objectives;
mod patience;
mod prices;
mod probe;
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

use crate::drr::{Drr, Head, Place, Price, RoundConfig, Rules};
use crate::{
    Admitted, Backlog, Cost, Credit, Done, ExtraRead, Io, IoKind, Mark, MonitorView, Next, Objective,
    ObjectiveView, Outcome, Policy, Refused, Share, SsdView, TenantView, Ticket,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use books::Books;
use core::cmp::Ordering;
use depth::Depth;
use held::Held;
use in_flight::{TenantTime, TimeInFlight};
use kind::Kind;
use load_curve::{Answer, LoadCurve};
use objectives::{Changed, Objectives, PROMISED_MOST};
use patience::Patience;
use prices::Prices;
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
    /// Extra reads in the SSD.
    extra_reads: u64,
    /// For reservations.
    write_cost: Cost,
    /// For people: moving averages of the latencies of reads and writes, ns.
    latency: [Option<u64>; 2],
    curve: LoadCurve,
    /// Reads of this period that are still to be noted in the curve.
    to_note: u32,
    /// The part of the SSD's time that was tenants' that write, in the last period, in 1024ths.
    written: u64,
    /// `None` if no tenant has one: nearly always.
    objectives: Option<Box<Objectives>>,
    /// Objectives that were refused.
    refused: BTreeMap<TenantId, Refused>,
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
            held: Held::default(),
            closed: [false; 2],
            is_squeezed: false,
            unsqueezed: ALONE_LIMIT,
            patience: Patience::new(),
            is_shared: false,
            dearest: Bytes::ZERO,
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
            extra_reads: 0,
            write_cost: Cost::ONE,
            latency: [None; 2],
            curve: LoadCurve::new(),
            to_note: 0,
            written: 0,
            objectives: None,
            refused: BTreeMap::new(),
        }
    }

    /// The same before an SSD of which this was learnt. It is not taken as true: see [`Learnt`].
    pub fn told(learnt: &Learnt) -> Level {
        let mut level = Level::new();
        let prices = &mut level.drr.rules_mut().prices;
        prices.tell(&learnt.prices);
        level.write_cost = Cost::ratio(prices.write_cost(), 64);
        level.explorer.tell_buffer(learnt.buffer);
        level.curve.tell(&learnt.reads);
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
                let step = probe.on_completion(now, own, is_left_over, io, latency, in_flight);
                self.take_step(step);
            }
        }
        if self.to_note > 0 && io.kind == IoKind::Read {
            self.to_note -= 1;
            let others = self.drr.rules().time.view().in_flight.saturating_sub(Bytes(u64::from(io.mark.0)));
            self.curve.note(io.length, others, self.written, latency);
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

    /// What a probe has seen changes how it goes on.
    #[inline]
    fn take_step(&mut self, step: Step) {
        let rules = self.drr.rules_mut();
        match step {
            Step::Continue => {}
            Step::Open => {
                let probe = rules.probe.as_ref().expect("only a probe has steps");
                let limit = rules.prices.of_guessed(probe.kind, probe.limit());
                self.set_limit(limit);
            }
            Step::Limit(limit) => rules.time.set_limit(limit),
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
        self.depth.note_dearest(core::mem::take(&mut rules.dearest));
        let written = u128::from(present.written) << 10;
        self.written = u64::try_from(written / u128::from(span.0.max(1))).unwrap_or(u64::MAX);
        // A probe is no state that lasts.
        self.to_note = match (probed || rules.probe.is_some(), rules.is_squeezed) {
            (true, _) => 0,
            // It may not last.
            (false, true) => load_curve::NOTED_SQUEEZED,
            (false, false) => load_curve::NOTED,
        };
        if rules.probe.is_some() {
            self.probed = true;
            if let Some(objectives) = &mut self.objectives {
                objectives.on_period(now, span, rules.unsqueezed, true);
            }
            return;
        }
        let mut is_squeezed = false;
        let mut forbids_probes = false;
        if let Some(objectives) = &mut self.objectives {
            is_squeezed = objectives.is_squeezing();
            objectives.on_period(now, span, self.depth.limit(), probed);
            forbids_probes = objectives.forbids_probes(now);
        }
        // A tenant that was not served may have all its IOs in the SSD.
        let is_shared = present.tenants > 1 || active > 1;
        rules.is_shared = is_shared;
        if probed || is_idle || is_squeezed {
            // What buffers still hold of the probe is not this mix's.
            self.depth.restart();
            rules.patience.restart();
            self.watch.pause();
        } else if is_shared {
            let useful = served.saturating_sub(present.excess);
            let was_trial = rules.patience.is_trial();
            if let Some(rate) = rules.patience.on_period(useful, span.0) {
                self.depth.begin_at(self.depth.limit().max(ALONE_LIMIT), rate);
                self.watch.forget();
            }
            // A tenant that pauses for some periods is no reason to search again.
            self.differs = if self.kinds == present.busy { 0 } else { self.differs + 1 };
            if self.differs >= DIFFERS {
                (self.kinds, self.differs) = (present.busy, 0);
                self.depth.forget();
                self.watch.forget();
                rules.patience.forget();
            }
            if was_trial || rules.patience.is_trial() {
                // A trial has a limit of its own.
                self.depth.restart();
                self.watch.pause();
            } else {
                let is_own_turn = self.depth.is_own_turn();
                if is_own_turn && self.watch.on_period(served, span.0) && self.explorer.doubt(now) {
                    rules.prices.doubt();
                }
                if let Some(direction) = self.depth.on_period(useful, span.0, present.is_beyond_reach) {
                    self.watch.on_limit(direction == Ordering::Greater);
                }
            }
        }
        if !is_idle && !probed && !forbids_probes {
            rules.probe = self.explorer.choose(now, &present, &rules.prices);
        }
        self.probed = rules.probe.is_some();
        let limit = match (&rules.probe, is_shared) {
            (Some(probe), _) => rules.prices.of_guessed(probe.kind, probe.limit()),
            (None, true) if rules.patience.is_trial() => self.depth.limit().max(ALONE_LIMIT),
            (None, true) => self.depth.limit(),
            (None, false) => ALONE_LIMIT,
        };
        self.set_limit(limit);
        self.close_or_open(now);
    }

    /// Sets the limit on what is in the SSD, which objectives may lower.
    fn set_limit(&mut self, limit: Bytes) {
        let rules = self.drr.rules_mut();
        rules.unsqueezed = limit;
        let lowered = match (&self.objectives, &rules.probe) {
            (Some(objectives), None) => objectives.limit(),
            _ => None,
        };
        rules.is_squeezed = lowered.is_some();
        rules.time.set_limit(lowered.map_or(limit, |lowered| lowered.min(limit)));
        self.drr.on_rooms_changed();
    }

    /// What objectives let others do now. Answers when they may do more.
    fn close_or_open(&mut self, now: Instant) -> Option<Instant> {
        let objectives = self.objectives.as_ref()?;
        let closed = objectives.closed(now);
        let rules = self.drr.rules_mut();
        rules.closed = closed.map(|until| until.is_some());
        let waits = closed.into_iter().enumerate().filter(|(class, _)| rules.held.waits(*class));
        waits.filter_map(|(_, until)| until).min()
    }

    /// A tenant with an objective is back.
    #[cold]
    fn wake_objectives(&mut self, now: Instant) {
        if let Some(objectives) = &mut self.objectives {
            objectives.wake(now);
        }
        let limit = self.drr.rules().unsqueezed;
        self.set_limit(limit);
        self.close_or_open(now);
    }

    /// Whether the objective can be kept, as far as that is known.
    fn admit(&self, tenant: TenantId, objective: &Objective) -> Result<Admitted, Refused> {
        let slo = objective.slo;
        if slo.iops == 0 || slo.read_percent > 100 || slo.latency == Nanos::ZERO {
            return Err(Refused::Meaningless(slo));
        }
        let others = self.objectives.iter().flat_map(|objectives| objectives.others(tenant));
        let others: u64 = others.map(|other| self.asks_for(other).unwrap_or(0)).sum();
        let asked = self.asks_for(objective).unwrap_or(0);
        if asked.saturating_add(others) > PROMISED_MOST * 10 {
            let [asked, others] = [asked, others].map(|thousandths| thousandths.div_ceil(10));
            return Err(Refused::TooManyIos { iops: slo.iops, asked, others, most: PROMISED_MOST });
        }
        // Before anything was served, somebody may.
        let writes = self.written > 0 || self.begun.is_none();
        let reads = (slo.read_percent > 0).then(|| self.reads_of(tenant));
        let answer =
            reads.map(|size| (size, self.curve.answer(size, objective.latency(), slo.percentile, writes)));
        match answer {
            Some((_, Answer::Kept)) => Ok(Admitted::Promised),
            Some((size, Answer::Missed { least, late, seen })) => {
                let least = objective.in_tenants_time(least);
                Err(Refused::TooSlow { bound: slo.latency, size, least, seen: late, seen_of: seen })
            }
            Some((_, Answer::Unknown)) | None => Ok(Admitted::Tried),
        }
    }

    /// The size of a tenant's IOs, as far as it is known.
    fn reads_of(&self, tenant: TenantId) -> Bytes {
        self.drr.rules().books.length(tenant).unwrap_or(Bytes::kib(4))
    }

    /// The tenant has this objective from now on, or none; `is_lost`: it is not kept as the SSD is now.
    fn set_objective(&mut self, now: Instant, tenant: TenantId, objective: Option<Objective>, is_lost: bool) {
        if objective.is_none() && self.objectives.is_none() {
            return;
        }
        let objectives = self.objectives.get_or_insert_with(|| Box::new(Objectives::new()));
        objectives.set(now, tenant, objective, is_lost);
        if objectives.is_empty() {
            self.objectives = None;
            self.drr.rules_mut().closed = [false; 2];
        }
        if let Some(objective) = &objective {
            self.drr.promise(tenant, objectives::meter(objective));
        }
        if let Some((rules, held)) = self.drr.held_mut(tenant) {
            held.promise(&mut rules.time, objective.is_some());
        }
        let limit = self.drr.rules().unsqueezed;
        self.set_limit(limit);
        self.close_or_open(now);
    }

    /// What an objective's IOs take of the SSD's time, in thousandths; `None` if their prices are not known.
    fn asks_for(&self, objective: &Objective) -> Option<u64> {
        let prices = &self.drr.rules().prices;
        let length = Bytes::kib(4);
        let reads = u64::from(objective.slo.read_percent.min(100));
        let time = |kind: IoKind| {
            let work = Kind::of(1, u32::from(kind == IoKind::Read), length.0);
            (prices.measured(work) > 0).then(|| prices.of(work, kind, length).0)
        };
        let of = |part: u64, kind| if part > 0 { time(kind).map(|time| time * part) } else { Some(0) };
        let hundred = of(reads, IoKind::Read)? + of(100 - reads, IoKind::Write)?;
        let all = u128::from(objective.slo.iops) * u128::from(hundred) * 10;
        Some(u64::try_from(all / u128::from(objective.second.0.max(1))).unwrap_or(u64::MAX))
    }

    /// The extra read that a probe needs now.
    fn extra_read(&mut self) -> Option<ExtraRead> {
        let LevelRules { probe, prices, time, .. } = self.drr.rules_mut();
        let probe = probe.as_mut()?;
        let kind = probe.kind;
        let price = |length| prices.of(kind, IoKind::Read, length);
        let read = probe.extra_read(time.view().in_flight, self.extra_reads, price)?;
        self.extra_reads += 1;
        Some(read)
    }

    /// Ends the probe; what it found counts if it had its time.
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
            let change = rules.prices.measure(probe.kind, found.took, found.guessed);
            if change.price {
                self.depth.reprice();
                self.watch.forget();
                rules.patience.forget();
            }
            if change.told {
                self.explorer.forget_buffer();
            }
            self.write_cost = Cost::ratio(rules.prices.write_cost(), 64);
        }
        let measured = rules.prices.measured(probe.kind);
        self.explorer.on_end(now, &probe, found, measured);
        self.set_limit(self.depth.limit());
        self.probed = true;
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
    held: Held,
    /// Whether an objective keeps tenants waiting now that write, and that only read.
    closed: [bool; 2],
    /// Whether an objective has lowered the limit.
    is_squeezed: bool,
    /// The limit without objectives.
    unsqueezed: Bytes,
    /// For tenants that have all their IOs in the SSD.
    patience: Patience,
    /// Whether several tenants were served in the last period.
    is_shared: bool,
    /// What the usual IO of a tenant was charged that was served in this period, of the dearest one.
    dearest: Bytes,
}

impl LevelRules {
    /// Whether the tenant waits until the probe is over.
    #[inline]
    fn is_held(&self, id: TenantId) -> bool {
        match &self.probe {
            None => self.closed != [false; 2] && self.closed[self.class(id)],
            Some(probe) => self.books.is_busy(id) && self.books.kind(id) != probe.kind,
        }
    }

    /// Its class in [`LevelRules::held`].
    #[inline]
    fn class(&self, id: TenantId) -> usize {
        usize::from(!self.books.kind(id).writes())
    }

    /// Whether the others wait for the tenant, which has nothing in the switch: it would take more than it gets, and its IOs are in the SSD.
    fn is_waited_for(&mut self, id: TenantId, held: &TenantTime) -> bool {
        self.is_shared
            && held.has_any()
            && self.probe.is_none()
            && self.books.is_busy(id)
            && self.patience.is_patient()
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
        self.time.whole().max(self.unsqueezed)
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
        self.dearest = self.dearest.max(held.usual(1));
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
        self.held.grow(tenants);
        self.books.grow(tenants);
    }

    #[inline]
    fn is_ahead(&self, id: TenantId) -> bool {
        self.is_held(id) || self.lag.is_ahead(id)
    }

    #[inline]
    fn caught_up(&self) -> Option<TenantId> {
        match (&self.probe, self.held.first(self.closed)) {
            (None, Some(held)) => Some(held),
            _ => self.lag.caught_up(),
        }
    }

    /// A tenant that is let go on for an IO at a time would never save up for a large one.
    #[inline]
    fn keeps_deficit(&self, id: TenantId) -> bool {
        self.held.contains(id)
    }

    #[inline]
    fn goes_first(&self) -> Option<TenantId> {
        self.lag.returned().filter(|id| !self.is_held(*id))
    }

    #[inline]
    fn on_move(&mut self, id: TenantId, place: Place) {
        self.held.release(id);
        if place == Place::Ahead && self.is_held(id) {
            // It does not compete: others are not to wait for it.
            let class = self.class(id);
            self.held.push(class, id);
            self.lag.on_idle(id, false);
        } else {
            self.lag.on_move(id, place);
        }
    }

    /// A tenant whose credit holds it back competes without backlog.
    #[inline]
    fn on_idle(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        self.held.release(id);
        let is_held_to_credit = held.is_held_to(widened(held, part));
        if !is_held_to_credit {
            self.books.on_emptied(id);
        }
        let competes = is_held_to_credit || self.is_waited_for(id, held);
        self.lag.on_idle(id, competes);
    }

    #[inline]
    fn on_end_without_backlog(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        let competes = held.is_held_to(widened(held, part)) || self.is_waited_for(id, held);
        self.lag.on_idle(id, competes);
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
        if let Some(objectives) = &mut self.objectives
            && objectives.on_arrival(now, &io) == Changed(true)
        {
            self.wake_objectives(now);
        }
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.drr.rules().probe.as_ref().is_some_and(|probe| self.seen || probe.ends() <= now) {
            self.end_probe(now);
        }
        if self.objectives.is_some() {
            self.close_or_open(now);
        }
        loop {
            let write_cost = self.write_cost;
            let price = |rules: &LevelRules, id: TenantId, kind: IoKind, length: Bytes| Price {
                cost: rules.prices.of(rules.books.kind(id), kind, length),
                reserved: if kind.pays_as_write() { write_cost.of(length) } else { length },
            };
            let head = self.drr.head(now, &price);
            let may_go = |head: &Head| {
                let rules = self.drr.rules();
                head.is_promised || head.goes_first && !rules.is_squeezed || !rules.time.is_full()
            };
            if let Some(head) = head.filter(may_go) {
                let io = self.drr.submit(now, head);
                let rules = self.drr.rules_mut();
                if let Some(probe) = &mut rules.probe {
                    probe.on_submit(rules.books.kind(io.tenant) == probe.kind, &io);
                }
                if let Some(objectives) = &mut self.objectives
                    && !objectives.has(io.tenant)
                    && self.drr.rules().probe.is_none()
                {
                    let writes = self.drr.rules().books.kind(io.tenant).writes();
                    objectives.on_submit(now, writes, head.cost());
                }
                return Next::Submit(io);
            }
            if let Some(read) = self.extra_read() {
                return Next::Extra(read);
            }
            let opens = if self.objectives.is_some() { self.close_or_open(now) } else { None };
            if let Some(objectives) = &mut self.objectives {
                let rules = self.drr.rules();
                let is_held = [0, 1].map(|class| rules.closed[class] && rules.held.waits(class));
                objectives.note_held(head.is_some() && rules.is_squeezed, is_held);
            }
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

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        if let Some(objectives) = &mut self.objectives {
            let counts = matches!(done.outcome, Outcome::Success { .. });
            let (io, limit) = ((done.io.tenant, done.io.id), self.depth.limit());
            if objectives.on_end(now, io, counts, limit) == Changed(true) {
                let limit = self.drr.rules().unsqueezed;
                self.set_limit(limit);
            }
        }
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
        if let Some(objectives) = &mut self.objectives {
            objectives.on_end(now, (tenant, io.id), false, self.depth.limit());
        }
        io
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let (objectives, limit) = (&mut self.objectives, self.depth.limit());
        self.drr.withdraw(tenant, &mut |io| {
            let is_gone = gone(io);
            if let Some(objectives) = objectives
                && is_gone
            {
                objectives.on_end(now, (tenant, io.id), false, limit);
            }
            is_gone
        });
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.set_objective(now, tenant, None, false);
        self.drr.forget(tenant);
    }

    fn admission(&self, tenant: TenantId, share: &Share) -> Result<Admitted, Refused> {
        match share.objective() {
            None => Ok(Admitted::Promised),
            Some(objective) => self.admit(tenant, &objective),
        }
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        self.refused.remove(&tenant);
        let answer = share.objective().map(|objective| (objective, self.admit(tenant, &objective)));
        let (objective, is_lost) = match answer {
            None => (None, false),
            Some((objective, Ok(_))) => (Some(objective), false),
            // The SSD may recover.
            Some((objective, Err(Refused::TooSlow { .. }))) => (Some(objective), true),
            Some((_, Err(refused))) => {
                self.refused.insert(tenant, refused);
                (None, false)
            }
        };
        self.drr.set_share(tenant, share);
        self.set_objective(now, tenant, objective, is_lost);
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
        let reads = self.curve.learnt();
        let is_any = !prices.is_empty() || !reads.is_empty();
        is_any.then(|| Learnt { prices, reads, buffer: self.explorer.buffer() })
    }

    fn tenant_view(&self, tenant: TenantId) -> Option<TenantView> {
        let view = self.drr.view(tenant)?;
        let refused = self.refused.get(&tenant).map(|refused| ObjectiveView::refused(*refused));
        let kept = self.objectives.as_ref().and_then(|objectives| objectives.view(tenant));
        Some(TenantView { objective: refused.or(kept), ..view })
    }
}
