//! Promises to tenants: their objectives, and the effect of these on the round.

use super::objectives::{self, Changed, Objectives};
use super::rules::LevelRules;
use crate::drr::Drr;
use crate::{Io, IoId, Objective, ObjectiveView};
use alloc::boxed::Box;
use units::{Bytes, Instant, Nanos, TenantId};

/// The objectives of one SSD's tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    /// `None` if no tenant has one: nearly always.
    objectives: Option<Box<Objectives>>,
}

impl Promises {
    /// Whether any tenant has an objective.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.objectives.is_some()
    }

    /// The objectives of other tenants than this one.
    pub(super) fn others(&self, tenant: TenantId) -> impl Iterator<Item = &Objective> {
        self.objectives.iter().flat_map(move |objectives| objectives.others(tenant))
    }

    /// The state of the tenant's objective.
    pub(super) fn view(&self, tenant: TenantId) -> Option<ObjectiveView> {
        self.objectives.as_ref()?.view(tenant)
    }

    /// Whether others do less than they could.
    pub(super) fn are_squeezing(&self) -> bool {
        self.objectives.as_ref().is_some_and(|objectives| objectives.is_squeezing())
    }

    /// Whether a probe would break an objective that is kept.
    pub(super) fn forbid_probes(&self, now: Instant) -> bool {
        self.objectives.as_ref().is_some_and(|objectives| objectives.forbids_probes(now))
    }

    /// Ends a period; without objectives its limit would have been `limit`.
    pub(super) fn on_period(&mut self, now: Instant, span: Nanos, limit: Bytes, probed: bool) {
        if let Some(objectives) = &mut self.objectives {
            objectives.on_period(now, span, limit, probed);
        }
    }

    /// Sets the limit on device time in flight, which objectives may lower.
    pub(super) fn set_limit(&self, drr: &mut Drr<LevelRules>, limit: Bytes) {
        let rules = drr.rules_mut();
        let lowered = match (&self.objectives, &rules.probe) {
            (Some(objectives), None) => objectives.limit(),
            _ => None,
        };
        rules.limit.set(limit, lowered);
        drr.on_rooms_changed();
    }

    /// Closes and opens the classes of tenants as objectives want now. Returns when a class opens in which tenants wait.
    #[inline]
    pub(super) fn close_or_open(&self, rules: &mut LevelRules, now: Instant) -> Option<Instant> {
        let objectives = self.objectives.as_ref()?;
        let closed = objectives.closed(now);
        rules.held.set_closed(closed.map(|until| until.is_some()));
        let waits = closed.into_iter().enumerate().filter(|(class, _)| rules.held.waits(*class));
        waits.filter_map(|(_, until)| until).min()
    }

    /// Notes an IO that has arrived.
    #[inline]
    pub(super) fn on_arrival(&mut self, drr: &mut Drr<LevelRules>, now: Instant, io: &Io) {
        if let Some(objectives) = &mut self.objectives
            && objectives.on_arrival(now, io) == Changed(true)
        {
            self.wake(drr, now);
        }
    }

    /// Handles the return of a tenant with an objective.
    #[cold]
    fn wake(&mut self, drr: &mut Drr<LevelRules>, now: Instant) {
        if let Some(objectives) = &mut self.objectives {
            objectives.wake(now);
        }
        self.refresh(drr, now);
    }

    /// Applies objectives that have changed to the limit and to the classes.
    fn refresh(&self, drr: &mut Drr<LevelRules>, now: Instant) {
        let limit = drr.rules().limit.unsqueezed();
        self.set_limit(drr, limit);
        self.close_or_open(drr.rules_mut(), now);
    }

    /// Charges an IO that goes to the SSD to the part of tenants without an objective.
    #[inline]
    pub(super) fn on_submit(&mut self, rules: &LevelRules, now: Instant, tenant: TenantId, cost: Bytes) {
        if let Some(objectives) = &mut self.objectives
            && !objectives.has(tenant)
            && rules.probe.is_none()
        {
            objectives.on_submit(now, rules.books.kind(tenant).writes(), cost);
        }
    }

    /// Notes that the scheduler has nothing to give out now; `has_head` if an IO is queued that the limit keeps waiting.
    #[inline]
    pub(super) fn on_nothing(
        &mut self,
        rules: &mut LevelRules,
        now: Instant,
        has_head: bool,
    ) -> Option<Instant> {
        let opens = self.close_or_open(rules, now);
        if let Some(objectives) = &mut self.objectives {
            let is_held = [0, 1].map(|class| rules.held.is_closed(class) && rules.held.waits(class));
            objectives.note_held(has_head && rules.limit.is_squeezed(), is_held);
        }
        opens
    }

    /// Notes an IO that the SSD has ended; `counts` unless it failed. Without objectives the limit would be `limit`.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        drr: &mut Drr<LevelRules>,
        now: Instant,
        io: (TenantId, IoId),
        counts: bool,
        limit: Bytes,
    ) {
        if let Some(objectives) = &mut self.objectives
            && objectives.on_end(now, io, counts, limit) == Changed(true)
        {
            let limit = drr.rules().limit.unsqueezed();
            self.set_limit(drr, limit);
        }
    }

    /// Notes an IO that its tenant has taken back.
    #[inline]
    pub(super) fn on_withdrawn(&mut self, now: Instant, io: (TenantId, IoId), limit: Bytes) {
        if let Some(objectives) = &mut self.objectives {
            objectives.on_end(now, io, false, limit);
        }
    }

    /// Sets the tenant's objective from now on, or none; `is_lost`: it is not kept as the SSD is now.
    pub(super) fn set(
        &mut self,
        drr: &mut Drr<LevelRules>,
        now: Instant,
        tenant: TenantId,
        (objective, is_lost): (Option<Objective>, bool),
    ) {
        if objective.is_none() && self.objectives.is_none() {
            return;
        }
        let objectives = self.objectives.get_or_insert_with(|| Box::new(Objectives::new()));
        objectives.set(now, tenant, objective, is_lost);
        if objectives.is_empty() {
            self.objectives = None;
            drr.rules_mut().held.set_closed([false; 2]);
        }
        if let Some(objective) = &objective {
            drr.promise(tenant, objectives::meter(objective));
        }
        if let Some((rules, held)) = drr.held_mut(tenant) {
            rules.limit.promise(held, objective.is_some());
        }
        self.refresh(drr, now);
    }
}
