//! The four reservation commands: from a command to `Reservations`, and from its outcome to the hosts concerned.
//!
//! Elsewhere: the rules are `reservation`, layouts `spec::reservation`.
//! NVM Express Base Specification: "Reservations".

use super::action::{Action, Output, QueueKey};
use super::reservation::{Outcome, Reservations};
use super::{Subsystem, exact_length, write_data};
use crate::spec::event::EventKind;
use crate::spec::reservation::{
    AcquireAction, AcquireCommand, EXTENDED_REPORT, RegisterCommand, ReleaseCommand, ReservationKeys,
};
use crate::spec::{Cqe, HostId, Sqe, Status};
use alloc::vec::Vec;
use zerocopy::FromBytes;

impl Subsystem {
    pub(super) fn reservation_register(
        &mut self,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = RegisterCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let keys = two_keys(sqe, data)?;
        let registrants_max = self.config.limits.registrants_max;
        let (host, reservations) = self.reserving(slot, sqe)?;
        let outcome = reservations.register(host, command, keys, registrants_max)?;
        self.announce(sqe.nsid(), &outcome);
        Ok(Action::reply(Cqe::success(sqe.cid())))
    }

    pub(super) fn reservation_acquire(
        &mut self,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = AcquireCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let keys = two_keys(sqe, data)?;
        let (host, reservations) = self.reserving(slot, sqe)?;
        let outcome = reservations.acquire(host, command, keys)?;
        self.announce(sqe.nsid(), &outcome);
        let cqe = Cqe::success(sqe.cid());
        let queues: Vec<QueueKey> =
            outcome.abort.iter().flat_map(|&preempted| self.io_queues_of(preempted)).collect();
        if command.action == AcquireAction::PreemptAndAbort && !queues.is_empty() {
            return Ok(Action::Fence { nsid: sqe.nsid(), queues, cqe });
        }
        Ok(Action::reply(cqe))
    }

    pub(super) fn reservation_release(
        &mut self,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = ReleaseCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let key = write_data(sqe, data, size_of::<u64>())?;
        let current = key.try_into().map(u64::from_le_bytes).map_err(|_| Status::INTERNAL_ERROR)?;
        let keys = ReservationKeys { current: current.into(), other: 0.into() };
        let (host, reservations) = self.reserving(slot, sqe)?;
        let outcome = reservations.release(host, command, keys)?;
        self.announce(sqe.nsid(), &outcome);
        Ok(Action::reply(Cqe::success(sqe.cid())))
    }

    /// Identifiers have 128 bits here, so only the extended report can hold them.
    pub(super) fn reservation_report(&mut self, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let length = (u64::from(sqe.cdw10()) + 1) * 4;
        if length > self.config.limits.transfer_max.get() {
            return Err(Status::INVALID_FIELD);
        }
        if sqe.cdw11() & EXTENDED_REPORT == 0 {
            return Err(Status::HOST_ID_INCONSISTENT_FORMAT);
        }
        exact_length(sqe, length as usize)?;
        let (_, reservations) = self.reserving(slot, sqe)?;
        let mut report = reservations.report();
        report.resize(length as usize, 0);
        Ok(Action::reply_with(Cqe::success(sqe.cid()), report))
    }

    /// The host and the reservations a command is about, if they can be reached this way now. A host without an identifier cannot be told from another.
    fn reserving(&mut self, slot: usize, sqe: &Sqe) -> Result<(HostId, &mut Reservations), Status> {
        let host = self.controller(slot).host_id;
        let namespace = self.namespaces.get_mut(sqe.nsid()).ok_or(Status::INVALID_NAMESPACE)?;
        if let Some(refusal) = namespace.ana.refusal() {
            return Err(refusal);
        }
        if host == HostId::NONE {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        Ok((host, &mut namespace.reservations))
    }

    fn announce(&mut self, nsid: u32, outcome: &Outcome) {
        for &(host, kind) in &outcome.notify {
            for slot in 0..self.controllers.len() {
                let Some(controller) = &mut self.controllers[slot] else { continue };
                let masked = controller.features.notification_mask(nsid) & 1 << kind.to_wire() != 0;
                if controller.host_id == host && !masked {
                    controller.notifications.push(kind, nsid);
                    self.raise(slot, EventKind::ReservationNotification);
                }
            }
        }
    }

    /// Raises an event for one controller.
    pub(super) fn raise(&mut self, slot: usize, kind: EventKind) {
        let controller = self.controller_mut(slot);
        if let Some(cqe) = controller.events.raise(kind) {
            let queue = controller.admin;
            self.outputs.push_back(Output::Complete { queue, cqe });
        }
    }
}

fn two_keys(sqe: &Sqe, data: Option<&[u8]>) -> Result<ReservationKeys, Status> {
    let bytes = write_data(sqe, data, size_of::<ReservationKeys>())?;
    ReservationKeys::read_from_bytes(bytes).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)
}
