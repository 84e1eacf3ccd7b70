//! Reservations that survive a restart: a change is answered after it is stored.
//!
//!   command --> applied to a copy --> Output::Store --(the caller's disk)--> on_stored --> in force, answered
//!                                          |                                    |
//!                  commands that come meanwhile are parked               not stored: all of them fail, nothing changes
//!                                          '------ applied together, stored at once ------'
//!
//! Until the copy is stored, IO and reports use the reservations that were in force before. At most one copy
//! per namespace is being stored. Commands that arrive meanwhile are parked and share the next copy, so a
//! command waits for two writes at most, no matter what other hosts send. Each host NQN may park a few
//! commands per namespace; further ones are refused with a status that allows a retry.
//!
//! Holds: a command is answered only after its change is stored, and changes nothing if it cannot be stored
//!        (`a_change_is_answered_when_it_is_stored`, `a_change_that_cannot_be_stored_has_no_effect` in
//!        `tests/controller/persistence.rs`).
//! Elsewhere: the rules are in `reservation`.
//! NVM Express Base Specification: "Reservations", "Reservation Persistence".

use super::Subsystem;
use super::action::{Action, Output, QueueKey};
use super::health::FailedCommand;
use super::reservation::Reservations;
use super::reservation_terms::{
    Grant, Identity, Outcome, ReservationChange, RestoreError, SavedReservations, StrangerGrant,
};
use crate::spec::reservation::PersistChange;
use crate::spec::{Cqe, HostId, Nqn, Sqe, Status};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Most parked commands of one host NQN per namespace.
const PARKED_OF_HOST_MAX: u8 = 4;

/// One address may have at most 1/4 of the registrants of hosts that the configuration does not name.
const ADDRESS_PART: usize = 4;

/// Copies that are being stored, per namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct UnderWay {
    by_namespace: BTreeMap<u32, Storing>,
    last_ticket: u64,
    /// Commands that change several namespaces.
    spread: Vec<Spread>,
}

#[derive(Clone, Debug)]
struct Storing {
    ticket: u64,
    next: Reservations,
    /// Completions of the commands that made this copy.
    answers: Vec<Answer>,
    parked: Vec<Asked>,
    parked_of: BTreeMap<Nqn, u8>,
    /// The namespace was removed meanwhile.
    is_orphan: bool,
}

/// A command that requests a change.
#[derive(Clone, Debug)]
struct Asked {
    queue: QueueKey,
    cid: u16,
    host: HostId,
    nqn: Nqn,
    address: Option<IpAddr>,
    change: ReservationChange,
}

#[derive(Clone, Debug)]
struct Answer {
    queue: QueueKey,
    cid: u16,
    result: Result<Outcome, Status>,
}

/// A command for several namespaces. It is answered when all of them are done.
#[derive(Clone, Debug)]
struct Spread {
    queue: QueueKey,
    cid: u16,
    left: usize,
    status: Status,
}

impl Storing {
    fn park(&mut self, asked: Asked) -> Result<(), Status> {
        let parked = self.parked_of.entry(asked.nqn.clone()).or_default();
        if *parked == PARKED_OF_HOST_MAX {
            return Err(Status::COMMAND_INTERRUPTED);
        }
        *parked += 1;
        self.parked.push(asked);
        Ok(())
    }
}

impl Asked {
    fn apply(&self, reservations: &mut Reservations, grant: &Grant) -> Result<Outcome, Status> {
        reservations.apply(Identity { id: self.host, nqn: &self.nqn }, &self.change, grant)
    }

    /// Whether the change turns persistence on.
    fn wants_persistence(&self) -> bool {
        match &self.change {
            ReservationChange::Register(command, _) => command.persist == PersistChange::Set,
            ReservationChange::Persistence(persists) => *persists,
            ReservationChange::Acquire(..) | ReservationChange::Release(..) => false,
        }
    }

    fn answer(&self, result: Result<Outcome, Status>) -> Answer {
        Answer { queue: self.queue, cid: self.cid, result }
    }
}

impl Subsystem {
    /// Restores the reservations of a namespace that were stored before a restart.
    pub fn restore_reservations(&mut self, nsid: u32, saved: SavedReservations) -> Result<(), RestoreError> {
        let namespace = self.namespaces.get_mut(nsid).ok_or(RestoreError::NoSuchNamespace(nsid))?;
        namespace.reservations = Reservations::restore(saved)?;
        Ok(())
    }

    /// Storing the copy of `Output::Store` with this `ticket` has succeeded or failed. If it failed, the old
    /// contents must still be stored.
    pub fn on_stored(&mut self, nsid: u32, ticket: u64, is_stored: bool) {
        let found = self.under_way.by_namespace.get(&nsid);
        if found.is_none_or(|storing| storing.ticket != ticket) {
            return;
        }
        let Some(storing) = self.under_way.by_namespace.remove(&nsid) else { return };
        if is_stored
            && !storing.is_orphan
            && let Some(namespace) = self.namespaces.get_mut(nsid)
        {
            namespace.reservations = storing.next;
        }
        for answer in storing.answers {
            let result = if is_stored { answer.result } else { Err(Status::INTERNAL_ERROR) };
            self.answer(nsid, Answer { result, ..answer });
        }
        self.take_up(nsid, storing.parked);
    }

    /// A reservation command for an existing namespace.
    pub(super) fn change_reservations(
        &mut self,
        key: QueueKey,
        slot: usize,
        sqe: &Sqe,
        change: ReservationChange,
    ) -> Result<Action, Status> {
        let (cid, nsid) = (sqe.cid(), sqe.nsid());
        let asked = self.asked(key, slot, cid, change);
        let Some(outcome) = self.submit(nsid, asked)? else { return Ok(Action::Storing) };
        self.announce(nsid, &outcome);
        let (cqe, queues) = (Cqe::success(cid), self.fenced_by(&outcome));
        Ok(if queues.is_empty() { Action::reply(cqe) } else { Action::Fence { nsid, queues, cqe } })
    }

    /// Set Features, Reservation Persistence.
    pub(super) fn set_persistence(
        &mut self,
        slot: usize,
        sqe: &Sqe,
        nsids: Vec<u32>,
    ) -> Result<Action, Status> {
        let change = ReservationChange::Persistence(sqe.cdw11() & 1 != 0);
        let key = self.controller(slot).admin;
        let asked = self.asked(key, slot, sqe.cid(), change);
        let (mut left, mut status) = (0, Status::SUCCESS);
        for nsid in nsids {
            match self.submit(nsid, asked.clone()) {
                Ok(None) => left += 1,
                Ok(Some(_)) => {}
                Err(refusal) => status = refusal,
            }
        }
        if left == 0 {
            return if status.is_success() {
                Ok(Action::reply(Cqe::success(sqe.cid())))
            } else {
                Err(status)
            };
        }
        self.under_way.spread.push(Spread { queue: key, cid: sqe.cid(), left, status });
        Ok(Action::Storing)
    }

    /// Reservations that are being stored and are not yet in force.
    pub(super) fn reservations_under_way(&self) -> impl Iterator<Item = &Reservations> {
        self.under_way.by_namespace.values().map(|storing| &storing.next)
    }

    /// The namespace was removed: the copy being written is still stored, parked commands are refused.
    pub(super) fn orphan_reservations(&mut self, nsid: u32) {
        let Some(storing) = self.under_way.by_namespace.get_mut(&nsid) else { return };
        storing.is_orphan = true;
        storing.parked_of.clear();
        for asked in core::mem::take(&mut storing.parked) {
            self.answer(nsid, asked.answer(Err(Status::INVALID_NAMESPACE)));
        }
    }

    fn asked(&self, queue: QueueKey, slot: usize, cid: u16, change: ReservationChange) -> Asked {
        let controller = self.controller(slot);
        let (host, nqn) = (controller.host_id, controller.host_nqn.clone());
        Asked { queue, cid, host, nqn, address: controller.peer, change }
    }

    /// Applies a change at once, or starts to store it; then there is no outcome yet.
    fn submit(&mut self, nsid: u32, asked: Asked) -> Result<Option<Outcome>, Status> {
        let grant = self.grant(&asked);
        let namespace = self.namespaces.get_mut(nsid).ok_or(Status::INVALID_NAMESPACE)?;
        if let Some(storing) = self.under_way.by_namespace.get_mut(&nsid) {
            return storing.park(asked).map(|()| None);
        }
        let in_force = &mut namespace.reservations;
        if !in_force.persists() && !asked.wants_persistence() {
            return asked.apply(in_force, &grant).map(Some);
        }
        let mut next = in_force.clone();
        let outcome = asked.apply(&mut next, &grant)?;
        if next == *in_force {
            return Ok(Some(outcome));
        }
        self.store(nsid, next, vec![asked.answer(Ok(outcome))]);
        Ok(None)
    }

    fn store(&mut self, nsid: u32, next: Reservations, answers: Vec<Answer>) {
        self.under_way.last_ticket += 1;
        let ticket = self.under_way.last_ticket;
        self.outputs.push_back(Output::Store { nsid, ticket, saved: next.saved() });
        let storing = Storing {
            ticket,
            next,
            answers,
            parked: Vec::new(),
            parked_of: BTreeMap::new(),
            is_orphan: false,
        };
        self.under_way.by_namespace.insert(nsid, storing);
    }

    /// Applies all parked commands in one copy.
    fn take_up(&mut self, nsid: u32, parked: Vec<Asked>) {
        let Some(namespace) = self.namespaces.get(nsid) else { return };
        let mut next = namespace.reservations.clone();
        let mut answers = Vec::with_capacity(parked.len());
        for asked in parked {
            if self.queue(asked.queue).is_some_and(|queue| queue.controller.is_some()) {
                let result = asked.apply(&mut next, &self.grant(&asked));
                answers.push(asked.answer(result));
            } else {
                // Its controller was reset or has ended meanwhile: the command has no effect.
                self.answer(nsid, asked.answer(Err(Status::COMMAND_SEQUENCE_ERROR)));
            }
        }
        let Some(namespace) = self.namespaces.get_mut(nsid) else { return };
        if next.saved() != namespace.reservations.saved() {
            return self.store(nsid, next, answers);
        }
        namespace.reservations = next;
        answers.into_iter().for_each(|answer| self.answer(nsid, answer));
    }

    fn answer(&mut self, nsid: u32, answer: Answer) {
        let Answer { queue, cid, result } = answer;
        let mut status = Status::SUCCESS;
        let mut fenced = Vec::new();
        match result {
            Ok(outcome) => {
                self.announce(nsid, &outcome);
                fenced = self.fenced_by(&outcome);
            }
            Err(refusal) => status = refusal,
        }
        let of_spread = |spread: &Spread| spread.queue == queue && spread.cid == cid;
        if let Some(index) = self.under_way.spread.iter().position(of_spread) {
            let spread = &mut self.under_way.spread[index];
            spread.left -= 1;
            if !status.is_success() {
                spread.status = status;
            }
            if spread.left > 0 {
                return;
            }
            status = self.under_way.spread.swap_remove(index).status;
        }
        let cqe = Cqe::new(cid, status);
        if !fenced.is_empty() {
            // The fence is needed even if the host that asked for it has disconnected.
            return self.outputs.push_back(Output::Fence { queue, nsid, queues: fenced, cqe });
        }
        let Some(&super::Queue { controller: Some(slot), queue_id, .. }) = self.queue(queue) else { return };
        if !status.is_success() {
            let failed = FailedCommand { queue_id, cid, nsid, lba: 0 };
            self.controller_mut(slot).health.on_failure(failed, status);
        }
        self.outputs.push_back(Output::Complete { queue, cqe });
    }

    /// IO queues that lose their commands by a Preempt and Abort.
    fn fenced_by(&self, outcome: &Outcome) -> Vec<QueueKey> {
        outcome.abort.iter().flat_map(|preempted| self.queues.io_queues_of(preempted)).collect()
    }

    fn grant(&self, asked: &Asked) -> Grant {
        let limits = &self.config.limits;
        let stranger = StrangerGrant {
            all_max: limits.registrants_max,
            address: asked.address,
            of_address_max: limits.registrants_max / ADDRESS_PART,
        };
        Grant {
            of_host_max: limits.registrants_per_host_max,
            stranger: (!self.is_named(&asked.nqn)).then_some(stranger),
            persistence: self.config.persistence,
        }
    }
}
