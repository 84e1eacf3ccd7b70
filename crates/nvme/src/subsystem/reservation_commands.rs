//! The four reservation commands: decodes them for `Reservations`, and notifies the affected hosts.
//!
//! Elsewhere: the rules are in `reservation`, storing a change is in `persistence`, layouts are in
//!        `spec::reservation`.
//! NVM Express Base Specification: "Reservations".

use super::action::{Action, Output, QueueKey};
use super::reservation::Reservations;
use super::reservation_terms::{Identity, Outcome, ReservationChange};
use super::{Subsystem, exact_length, write_data};
use crate::spec::event::EventKind;
use crate::spec::reservation::{
    AcquireCommand, EXTENDED_REPORT, NotificationKind, RegisterCommand, ReleaseCommand, ReservationKeys,
};
use crate::spec::{Cqe, HostId, Sqe, Status};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use zerocopy::FromBytes;

impl Subsystem {
    pub(super) fn reservation_register(
        &mut self,
        key: QueueKey,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = RegisterCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let keys = two_keys(sqe, data)?;
        self.reserving(slot, sqe)?;
        self.change_reservations(key, slot, sqe, ReservationChange::Register(command, keys))
    }

    pub(super) fn reservation_acquire(
        &mut self,
        key: QueueKey,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = AcquireCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let keys = two_keys(sqe, data)?;
        self.reserving(slot, sqe)?;
        self.change_reservations(key, slot, sqe, ReservationChange::Acquire(command, keys))
    }

    pub(super) fn reservation_release(
        &mut self,
        key: QueueKey,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let command = ReleaseCommand::parse(sqe).ok_or(Status::INVALID_FIELD)?;
        let bytes = write_data(sqe, data, size_of::<u64>())?;
        let current = bytes.try_into().map(u64::from_le_bytes).map_err(|_| Status::INTERNAL_ERROR)?;
        let keys = ReservationKeys { current: current.into(), other: 0.into() };
        self.reserving(slot, sqe)?;
        self.change_reservations(key, slot, sqe, ReservationChange::Release(command, keys))
    }

    /// Identifiers have 128 bits here; only the extended report has room for them.
    pub(super) fn reservation_report(&self, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let length = (u64::from(sqe.cdw10()) + 1) * 4;
        if length > self.config.limits.transfer_max.get() {
            return Err(Status::INVALID_FIELD);
        }
        if sqe.cdw11() & EXTENDED_REPORT == 0 {
            return Err(Status::HOST_ID_INCONSISTENT_FORMAT);
        }
        exact_length(sqe, length as usize)?;
        let mut report = self.reserving(slot, sqe)?.report();
        report.truncate(length as usize);
        Ok(Action::reply_with(Cqe::success(sqe.cid()), report))
    }

    /// The reservations that a command is for, if the namespace is reachable now. A host without an
    /// identifier is refused: it cannot be distinguished from other such hosts.
    fn reserving(&self, slot: usize, sqe: &Sqe) -> Result<&Reservations, Status> {
        let namespace = self.namespaces.get(sqe.nsid()).ok_or(Status::INVALID_NAMESPACE)?;
        if !namespace.info.reservable {
            return Err(Status::INVALID_OPCODE);
        }
        if let Some(refusal) = namespace.ana.refusal() {
            return Err(refusal);
        }
        if self.controller(slot).host_id == HostId::NONE {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        Ok(&namespace.reservations)
    }

    /// Notifies the affected hosts.
    pub(super) fn announce(&mut self, nsid: u32, outcome: &Outcome) {
        if outcome.notify.is_empty() {
            return;
        }
        let mut kinds = BTreeMap::<Identity<'_>, Vec<NotificationKind>>::new();
        for (host, kind) in &outcome.notify {
            kinds.entry(host.identity()).or_default().push(*kind);
        }
        for slot in self.controllers.slots() {
            let Some(controller) = self.controllers.find_mut(slot) else { continue };
            let mask = controller.features.notification_mask(nsid);
            let is_wanted = |kind: &NotificationKind| mask & 1 << kind.to_wire() == 0;
            let of_host = kinds.get(&controller.identity()).into_iter().flatten().copied();
            let wanted: Vec<NotificationKind> = of_host.filter(is_wanted).collect();
            wanted.iter().for_each(|&kind| controller.notifications.push(kind, nsid));
            if !wanted.is_empty() {
                self.raise(slot, EventKind::ReservationNotification);
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
