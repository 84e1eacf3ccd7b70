//! Latency objectives: "the 99th percentile is at most x, as long as the tenant asks for at most y IOPS".
//!
//! Up to y IOPS the tenant's IOs go to the SSD at once (`drr`, as with a reservation). Their time there depends on the
//! work that others have in the SSD, and that is squeezed as far as it must be and no further:
//!
//! ```text
//!   IOs of tenants with an objective ─► promise: late or not? ─► too many ─► squeeze: others do less ─► still too many, at the least ─► lost
//!                                                              └► few ────► squeeze: others do more
//! ```
//!
//! An objective on an unknown SSD is *tried*: within seconds it is seen either to be kept or to be lost. A lost one
//! limits no tenant, is still served first, and is tried again after a pause that doubles (`promise`): so an SSD that
//! has recovered keeps it again.
//!
//! While an objective is kept there are no probes of other tenants' kinds of work: half a second of writes alone would
//! break it. Prices stay as they were.
//!
//! The cost for others is bounded: objectives take at most [`PROMISED_MOST`] of the SSD's time by the prices known; of
//! the rest, others keep the parts that `squeeze` states.
//!
//! Holds: nothing is squeezed while no tenant with an objective asks for anything (`an_idle_tenant_squeezes_nobody`);
//!        an objective that cannot be kept squeezes no tenant for long
//!        (`a_lost_objective_squeezes_nobody_and_is_tried_again`).
//! The error budget's way of thinking is that of site reliability engineering; the form of objectives is ReFlex's.

mod promise;
mod squeeze;

use crate::drr::meter::Meter;
use crate::policy::SECOND;
use crate::{Io, IoId, Objective, ObjectiveState, ObjectiveView};
use alloc::collections::BTreeMap;
use promise::{Finding, Promise};
use squeeze::{Knob, SETTLES, Squeeze, Use, WHOLE};
use units::{Bytes, Instant, Nanos, TenantId};

pub(super) use promise::meter;

/// Most that all objectives may ask for of the SSD's time, per cent.
pub(super) const PROMISED_MOST: u64 = 75;
/// Device time that others may save up while they are limited to a part of it.
const BURST: Nanos = Nanos::micros(200);

/// All objectives of one SSD.
#[derive(Clone, Debug)]
pub(super) struct Objectives {
    promises: BTreeMap<TenantId, Promise>,
    squeeze: Squeeze,
    /// Whether a tenant with an objective asks for anything.
    is_awake: bool,
    /// The instant from which on the last change has its effect.
    settled: Instant,
    /// Device time of writers' and readers' IOs in this period, of tenants without an objective.
    used: [u64; 2],
    /// The same in parts of the SSD's time, of the last periods.
    time: [u64; 2],
    /// Limits of writers and readers, while there are any.
    paces: [Option<Meter>; 2],
    /// The limits that have held others back since the last change.
    hold: [bool; 3],
}

/// Whether the limits of others have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changed(pub(super) bool);

impl Objectives {
    pub(super) fn new() -> Objectives {
        Objectives {
            promises: BTreeMap::new(),
            squeeze: Squeeze::new(),
            is_awake: false,
            settled: Instant::ZERO,
            used: [0; 2],
            time: [0; 2],
            paces: [None; 2],
            hold: [false; 3],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.promises.is_empty()
    }

    pub(super) fn has(&self, tenant: TenantId) -> bool {
        self.promises.contains_key(&tenant)
    }

    /// Objectives of other tenants than this one.
    pub(super) fn others(&self, tenant: TenantId) -> impl Iterator<Item = &Objective> {
        self.promises.iter().filter(move |(id, _)| **id != tenant).map(|(_, promise)| &promise.objective)
    }

    /// Sets the tenant's objective from now on, or none; `is_lost`: it is not kept as the SSD is now, and is tried
    /// later.
    pub(super) fn set(
        &mut self,
        now: Instant,
        tenant: TenantId,
        objective: Option<Objective>,
        is_lost: bool,
    ) {
        let known = self.promises.get(&tenant).map(|promise| promise.objective);
        if known == objective {
            return;
        }
        match objective {
            Some(objective) => {
                self.promises.insert(tenant, Promise::new(objective, now));
            }
            None => {
                self.promises.remove(&tenant);
            }
        }
        // One that was set aside may fit now.
        self.promises.values_mut().for_each(|promise| promise.retry = now);
        if let Some(promise) = self.promises.get_mut(&tenant).filter(|_| is_lost) {
            promise.lose(now);
        }
    }

    pub(super) fn view(&self, tenant: TenantId) -> Option<ObjectiveView> {
        let promise = self.promises.get(&tenant)?;
        let lately = promise.lately();
        let left = |knob: Knob| {
            let value = self.squeeze.value(knob).filter(|_| self.is_awake).unwrap_or(WHOLE);
            (value.min(WHOLE) * 100).div_ceil(WHOLE) as u8
        };
        Some(ObjectiveView {
            state: promise.state,
            latency: promise.percentile().map(|latency| promise.objective.in_tenants_time(latency)),
            ios: lately.ios,
            late: lately.late,
            left_to_others: [left(Knob::Readers), left(Knob::Writers)],
        })
    }

    /// Notes an IO of any tenant that has arrived.
    #[inline]
    pub(super) fn on_arrival(&mut self, now: Instant, io: &Io) -> Changed {
        let Some(promise) = self.promises.get_mut(&io.tenant) else { return Changed(false) };
        promise.on_arrival(now, io);
        Changed(!core::mem::replace(&mut self.is_awake, true) && !self.squeeze.is_open())
    }

    /// Notes the end of an IO of any tenant: the SSD did it (`counts`), or it failed or was taken back. Without
    /// objectives the limit would be `limit`.
    #[inline]
    pub(super) fn on_end(
        &mut self,
        now: Instant,
        (tenant, id): (TenantId, IoId),
        counts: bool,
        limit: Bytes,
    ) -> Changed {
        let Some(promise) = self.promises.get_mut(&tenant) else { return Changed(false) };
        promise.on_end(now, id, counts);
        let finding = promise.finding();
        // A raise that was too much is taken back at once.
        if !self.squeeze.has_raised() || !matches!(finding, Finding::Bad | Finding::VeryBad) {
            return Changed(false);
        }
        let seen = self.seen(now, limit);
        self.tighten(now, &seen, finding);
        self.pace(now);
        Changed(true)
    }

    /// Others could not go on: because the limit was reached, and because writers or readers had their part.
    pub(super) fn note_held(&mut self, by_limit: bool, [writers, readers]: [bool; 2]) {
        for (hold, now) in self.hold.iter_mut().zip([by_limit, writers, readers]) {
            *hold |= now;
        }
    }

    /// Facts for the squeeze.
    fn seen(&self, now: Instant, limit: Bytes) -> Use {
        let bounds =
            self.promises.values().filter(|promise| promise.squeezes(now)).map(|promise| promise.bound().0);
        Use { limit: limit.0, time: self.time, bound: bounds.min().unwrap_or(u64::MAX) }
    }

    fn tighten(&mut self, now: Instant, seen: &Use, finding: Finding) -> bool {
        match self.squeeze.tighten(now, seen, finding == Finding::VeryBad) {
            Some(settles) => self.wait_until(now + settles),
            None => return self.lose(now),
        }
        true
    }

    /// Charges an IO of a tenant without an objective that goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, now: Instant, writes: bool, cost: Bytes) {
        let of = usize::from(!writes);
        self.used[of] += cost.0;
        if let Some(pace) = &mut self.paces[of] {
            pace.charge(now, cost.0);
        }
    }

    /// The instants from which writers and readers may go, if not now.
    #[inline]
    pub(super) fn closed(&self, now: Instant) -> [Option<Instant>; 2] {
        self.paces.map(|pace| pace.map(|pace| pace.due()).filter(|due| *due > now))
    }

    /// The limit on what others have in the SSD, if it is lower than without objectives.
    pub(super) fn limit(&self) -> Option<Bytes> {
        self.squeeze.value(Knob::Limit).filter(|_| self.is_awake).map(Bytes)
    }

    /// Whether others do less than they could.
    pub(super) fn is_squeezing(&self) -> bool {
        self.is_awake && !self.squeeze.is_open()
    }

    /// Whether a promise is kept that a probe would break.
    pub(super) fn forbids_probes(&self, now: Instant) -> bool {
        let is_kept = |promise: &Promise| {
            matches!(promise.state, ObjectiveState::Kept | ObjectiveState::Missed) && promise.is_asking(now)
        };
        self.promises.values().any(is_kept)
    }

    /// Ends a period of `span`; without objectives the limit would be `limit`. `is_probed`: in it some tenants had to
    /// wait for a probe.
    #[cold]
    pub(super) fn on_period(&mut self, now: Instant, span: Nanos, limit: Bytes, is_probed: bool) -> Changed {
        let used = core::mem::take(&mut self.used);
        for (time, used) in self.time.iter_mut().zip(used) {
            let part = u128::from(used) * u128::from(WHOLE) / u128::from(span.0.max(1));
            *time = (*time * 3).saturating_add(u64::try_from(part).unwrap_or(u64::MAX)) / 4;
        }
        let is_awake = self.promises.values().any(|promise| promise.is_asking(now));
        let woke = core::mem::replace(&mut self.is_awake, is_awake) != is_awake;
        let changed = if is_probed {
            // Data that the probe has written is in the SSD's buffer.
            self.wait_until(now + SETTLES);
            false
        } else {
            is_awake && self.decide(now, limit)
        };
        if changed || woke {
            self.pace(now);
        }
        Changed(changed || woke)
    }

    /// Ignores observations until then for the next decision.
    fn wait_until(&mut self, settled: Instant) {
        self.settled = settled;
        self.hold = [false; 3];
        self.promises.values_mut().for_each(|promise| promise.look_anew(settled));
    }

    fn decide(&mut self, now: Instant, limit: Bytes) -> bool {
        for promise in self.promises.values_mut() {
            match promise.state {
                ObjectiveState::Kept if promise.is_missed() => promise.state = ObjectiveState::Missed,
                ObjectiveState::Missed if !promise.is_missed() && promise.finding() == Finding::Good => {
                    promise.state = ObjectiveState::Kept;
                }
                _ => {}
            }
        }
        if let Some(changed) = self.retry(now) {
            return changed;
        }
        let squeezes = |promise: &&mut Promise| promise.squeezes(now);
        let findings = self.promises.values_mut().filter(squeezes).map(|promise| promise.finding());
        let (mut worst, mut all_are_good, mut any) = (Finding::Nothing, true, false);
        for finding in findings {
            any = true;
            all_are_good &= finding == Finding::Good;
            worst = match (worst, finding) {
                (_, Finding::VeryBad) | (Finding::VeryBad, _) => Finding::VeryBad,
                (_, Finding::Bad) | (Finding::Bad, _) => Finding::Bad,
                _ => Finding::Nothing,
            };
        }
        if !any {
            return false;
        }
        let seen = self.seen(now, limit);
        match worst {
            Finding::Bad | Finding::VeryBad => self.tighten(now, &seen, worst),
            _ if all_are_good && now >= self.settled => {
                self.promises.values_mut().filter(squeezes).for_each(|promise| {
                    if !matches!(promise.state, ObjectiveState::Kept | ObjectiveState::Missed) {
                        promise.forget_lately();
                        promise.state = ObjectiveState::Kept;
                    }
                    (promise.is_retried, promise.pause) = (false, Nanos::ZERO);
                });
                let has_spare =
                    self.promises.values_mut().filter(squeezes).all(|promise| promise.has_spare());
                let hold = self.hold;
                let settles = if has_spare { self.squeeze.loosen(now, &seen, hold) } else { None };
                if let Some(settles) = settles {
                    // IOs that are late from now on are late because of that.
                    self.wait_until(now);
                    self.settled = now + settles;
                }
                settles.is_some()
            }
            _ => false,
        }
    }

    /// Gives up the objectives that were missed for long enough although others do as little as they may.
    fn lose(&mut self, now: Instant) -> bool {
        let mut any = false;
        for promise in self.promises.values_mut().filter(|promise| promise.is_hopeless()) {
            promise.lose(now);
            any = true;
        }
        if self.promises.values().all(|promise| promise.state == ObjectiveState::Lost && !promise.is_retried)
        {
            self.squeeze = Squeeze::new();
        }
        if any {
            self.wait_until(now);
        }
        any
    }

    /// Tries a lost objective again, with others at the least.
    fn retry(&mut self, now: Instant) -> Option<bool> {
        let is_due = |promise: &&mut Promise| {
            promise.state == ObjectiveState::Lost
                && !promise.is_retried
                && promise.retry <= now
                && promise.is_asking(now)
        };
        let mut any = false;
        for promise in self.promises.values_mut().filter(is_due) {
            (promise.is_retried, any) = (true, true);
        }
        if any {
            self.squeeze.lower_fully();
            self.wait_until(now + SETTLES);
        }
        any.then_some(true)
    }

    /// Sets the pace of writers and readers as the squeeze says.
    fn pace(&mut self, now: Instant) {
        for (knob, pace) in [Knob::Writers, Knob::Readers].into_iter().zip(&mut self.paces) {
            let value = self.squeeze.value(knob).filter(|_| self.is_awake);
            let rate = value.map(|value| value * (SECOND.0 / WHOLE));
            *pace = rate.map(|rate| match *pace {
                Some(pace) => pace.at(rate),
                None => Meter::new(rate, SECOND, BURST).from(now),
            });
        }
    }

    /// Applies the others' limits when a tenant with an objective returns.
    #[cold]
    pub(super) fn wake(&mut self, now: Instant) {
        self.squeeze.forget_raise();
        self.wait_until(now);
        self.pace(now);
    }
}
