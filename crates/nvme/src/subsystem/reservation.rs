//! Reservations of one namespace: the registrants, the holder, and what other hosts may do.
//!
//! A registrant is a 128-bit host identifier together with a host NQN. So all controllers of a host share a
//! registration, and another NQN neither gains anything by using the same identifier nor keeps its owner from
//! registering. The number of registrants is limited, in total and per host NQN, so that no host can lock out
//! the owner.
//!
//! If the reservations of a namespace persist (PTPL), the caller stores them: `saved` returns them for that,
//! `restore` brings them back after a restart. Without PTPL they end with the process.
//!
//!   no registrant --Register--> registrant --Acquire--> holder --Release--> registrant --Unregister--> no registrant
//!                                    ^------- Preempt takes registrations and the reservation from others -------|
//!
//! Holds: a holder is a registrant (`check`, which the tests run after every step); every command has the
//!        effect that it has in a naive model written from the specification
//!        (`tests/controller/reservation.rs`); reservations are restored as they were saved
//!        (`saved_reservations_are_restored_unchanged`, same file).
//! Elsewhere: fields and layouts are in `spec::reservation`; the subsystem decides from `Outcome` which hosts to
//!        notify; `persistence` answers changes that must be stored first.
//! NVM Express Base Specification: "Reservations".

use super::registrants::Registrants;
use super::reservation_terms::{
    Access, Grant, Held, Identity, Outcome, Registrant, ReservationChange, ReservationHost, RestoreError,
    SavedReservations, StrangerGrant,
};
use crate::spec::reservation::{
    AcquireAction, AcquireCommand, NotificationKind, PersistChange, RegisterAction, RegisterCommand,
    ReleaseAction, ReleaseCommand, ReportEntry, ReportHeader, ReservationKeys, ReservationType,
};
use crate::spec::{HostId, Nqn, Status, connect::CNTLID_DYNAMIC};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use zerocopy::{FromZeros, IntoBytes};

/// The reservations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    generation: u32,
    registrants: Registrants,
    held: Option<Held>,
    /// PTPL.
    persists: bool,
    /// Addresses of registrants that the configuration does not name.
    strangers: BTreeMap<ReservationHost, IpAddr>,
}

impl Reservations {
    /// No registrants.
    pub const fn new() -> Reservations {
        Reservations {
            generation: 0,
            registrants: Registrants::new(),
            held: None,
            persists: false,
            strangers: BTreeMap::new(),
        }
    }

    /// Restores saved reservations.
    pub fn restore(saved: SavedReservations) -> Result<Reservations, RestoreError> {
        let SavedReservations { generation, registrants: listed, held } = saved;
        let mut registrants = Registrants::new();
        for registrant in listed {
            if registrant.host.id == HostId::NONE {
                return Err(RestoreError::NoIdentifier);
            }
            if let Err(registrant) = registrants.insert(registrant) {
                return Err(RestoreError::Twice(registrant.host));
            }
        }
        match held {
            Some(held) if !registrants.contains(held.by.identity()) => {
                Err(RestoreError::NotRegistered(held.by))
            }
            _ => Ok(Reservations { generation, registrants, held, persists: true, ..Reservations::new() }),
        }
    }

    /// The reservations to store; `None` if they do not persist.
    pub fn saved(&self) -> Option<SavedReservations> {
        let saved = || SavedReservations {
            generation: self.generation,
            registrants: self.registrants.iter().cloned().collect(),
            held: self.held.clone(),
        };
        self.persists.then(saved)
    }

    /// Whether they survive a power loss (PTPL).
    pub fn persists(&self) -> bool {
        self.persists
    }

    /// Counts changes.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Registered hosts.
    pub fn registrants(&self) -> impl ExactSizeIterator<Item = &Registrant> {
        self.registrants.iter()
    }

    /// The NQNs that are registered with this identifier.
    pub fn names_of(&self, id: HostId) -> impl Iterator<Item = &Nqn> {
        self.registrants.with_id(id).iter().map(|registrant| &registrant.host.nqn)
    }

    /// The reservation in force.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Whether `host` has this access to the namespace.
    #[inline]
    pub fn allows(&self, host: Identity<'_>, access: Access) -> bool {
        match &self.held {
            None => true,
            Some(held) => self.allows_while_held(held, host, access),
        }
    }

    fn allows_while_held(&self, held: &Held, host: Identity<'_>, access: Access) -> bool {
        access == Access::Read && held.kind.others_may_read()
            || held.by.identity() == host
            || held.kind.shared_with_registrants() && self.registrants.contains(host)
    }

    /// Applies a command, or changes nothing if it is refused.
    pub fn apply(
        &mut self,
        host: Identity<'_>,
        change: &ReservationChange,
        grant: &Grant,
    ) -> Result<Outcome, Status> {
        match *change {
            ReservationChange::Register(command, keys) => self.register(host, command, keys, grant),
            ReservationChange::Acquire(command, keys) => self.acquire(host, command, keys),
            ReservationChange::Release(command, keys) => self.release(host, command, keys),
            ReservationChange::Persistence(true) if !grant.persistence => Err(Status::INVALID_FIELD),
            ReservationChange::Persistence(persists) => {
                self.persists = persists;
                Ok(Outcome::default())
            }
        }
    }

    fn register(
        &mut self,
        host: Identity<'_>,
        command: RegisterCommand,
        keys: ReservationKeys,
        grant: &Grant,
    ) -> Result<Outcome, Status> {
        if command.persist == PersistChange::Set && !grant.persistence {
            return Err(Status::INVALID_FIELD);
        }
        let registered = self.registrants.key_of(host);
        let key_fits = command.ignore_existing_key || registered == Some(keys.current.get());
        let mut outcome = Outcome::default();
        match (command.action, registered) {
            (RegisterAction::Register, Some(key)) if key != keys.other.get() => {
                return Err(Status::RESERVATION_CONFLICT);
            }
            (RegisterAction::Register, Some(_)) => {}
            (RegisterAction::Register, None) => self.add(host, keys.other.get(), grant)?,
            (RegisterAction::Replace, Some(_)) if key_fits => {
                self.registrants.set_key(host, keys.other.get())
            }
            (RegisterAction::Replace, None) if command.ignore_existing_key => {
                self.add(host, keys.other.get(), grant)?;
            }
            (RegisterAction::Unregister, Some(_)) if key_fits => self.unregister(host, &mut outcome),
            (RegisterAction::Replace | RegisterAction::Unregister, _) => {
                return Err(Status::RESERVATION_CONFLICT);
            }
        }
        match command.persist {
            PersistChange::Keep => {}
            PersistChange::Clear => self.persists = false,
            PersistChange::Set => self.persists = true,
        }
        self.count_change();
        Ok(outcome)
    }

    fn acquire(
        &mut self,
        host: Identity<'_>,
        command: AcquireCommand,
        keys: ReservationKeys,
    ) -> Result<Outcome, Status> {
        if command.ignore_existing_key {
            return Err(Status::INVALID_FIELD);
        }
        if self.registrants.key_of(host) != Some(keys.current.get()) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        if command.action != AcquireAction::Acquire {
            let mut outcome = self.preempt(host, command.kind, keys.other.get())?;
            if command.action == AcquireAction::Preempt {
                outcome.abort.clear();
            }
            self.count_change();
            return Ok(outcome);
        }
        match &self.held {
            None => self.held = Some(Held { by: host.to_owned(), kind: command.kind }),
            Some(held) if held.kind == command.kind && self.is_holder(held, host) => {}
            Some(_) => return Err(Status::RESERVATION_CONFLICT),
        }
        Ok(Outcome::default())
    }

    fn release(
        &mut self,
        host: Identity<'_>,
        command: ReleaseCommand,
        keys: ReservationKeys,
    ) -> Result<Outcome, Status> {
        if command.ignore_existing_key {
            return Err(Status::INVALID_FIELD);
        }
        if self.registrants.key_of(host) != Some(keys.current.get()) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        let mut outcome = Outcome::default();
        match (command.action, &self.held) {
            (ReleaseAction::Clear, _) => {
                self.held = None;
                self.strangers.clear();
                let others = core::mem::take(&mut self.registrants);
                outcome.notify = others
                    .iter()
                    .filter(|other| other.host.identity() != host)
                    .map(|other| (other.host.clone(), NotificationKind::ReservationPreempted))
                    .collect();
                self.count_change();
            }
            (ReleaseAction::Release, Some(held)) if self.is_holder(held, host) => {
                let kind = held.kind;
                if command.kind != Some(kind) {
                    return Err(Status::INVALID_FIELD);
                }
                self.held = None;
                if kind.shared_with_registrants() {
                    self.tell_others(host, NotificationKind::ReservationReleased, &mut outcome);
                }
            }
            (ReleaseAction::Release, _) if command.kind.is_none() => return Err(Status::INVALID_FIELD),
            (ReleaseAction::Release, _) => {}
        }
        Ok(outcome)
    }

    /// The extended report, with 128-bit host identifiers.
    pub fn report(&self) -> Vec<u8> {
        let header = ReportHeader {
            generation: self.generation.into(),
            kind: self.held.as_ref().map_or(0, |held| held.kind.to_wire()),
            registrants: u16::try_from(self.registrants.len()).unwrap_or(u16::MAX).into(),
            persists: u8::from(self.persists),
            ..ReportHeader::new_zeroed()
        };
        let mut report = header.as_bytes().to_vec();
        for registrant in self.registrants.iter() {
            let holder = registrant.host.identity();
            let holds = self.held.as_ref().is_some_and(|held| self.is_holder(held, holder));
            let entry = ReportEntry {
                controller_id: CNTLID_DYNAMIC.into(),
                status: u8::from(holds),
                key: registrant.key.into(),
                host_id: registrant.host.id.0,
                ..ReportEntry::new_zeroed()
            };
            report.extend_from_slice(entry.as_bytes());
        }
        report
    }

    /// Removes the registrations with key `prkey` from other hosts, and takes over the reservation if its
    /// holder has that key. If no reservation is taken over, the host's own registration is removed too if it
    /// has that key: the specification exempts the host only when it becomes the holder.
    fn preempt(&mut self, host: Identity<'_>, kind: ReservationType, prkey: u64) -> Result<Outcome, Status> {
        let mut outcome = Outcome::default();
        let held = self.held.as_ref().map(|held| (held.kind, self.registrants.key_of(held.by.identity())));
        match held {
            Some((before, _)) if before.held_by_all() && prkey == 0 => {
                let chosen = |registrant: &Registrant| registrant.host.identity() != host;
                self.unregister_where(host, chosen, &mut outcome);
                self.take_over(host, kind, before, &mut outcome);
            }
            Some((before, key)) if !before.held_by_all() && key == Some(prkey) => {
                let chosen = |other: &Registrant| other.host.identity() != host && other.key == prkey;
                self.unregister_where(host, chosen, &mut outcome);
                self.take_over(host, kind, before, &mut outcome);
            }
            Some((before, _)) if !before.held_by_all() && prkey == 0 => return Err(Status::INVALID_FIELD),
            _ if self.registrants.iter().any(|registrant| registrant.key == prkey) => {
                self.unregister_where(host, |registrant| registrant.key == prkey, &mut outcome);
                self.pass_on();
            }
            _ => return Err(Status::RESERVATION_CONFLICT),
        }
        Ok(outcome)
    }

    /// Unregisters the chosen registrants on behalf of `host`. `host` itself gets no notification and loses
    /// no commands.
    fn unregister_where(
        &mut self,
        host: Identity<'_>,
        chosen: impl Fn(&Registrant) -> bool,
        outcome: &mut Outcome,
    ) {
        self.registrants.retain(|registrant| {
            let goes = chosen(registrant);
            if goes && registrant.host.identity() != host {
                outcome.notify.push((registrant.host.clone(), NotificationKind::RegistrationPreempted));
                outcome.abort.push(registrant.host.clone());
            }
            !goes
        });
        self.strangers.retain(|host, _| self.registrants.contains(host.identity()));
    }

    /// Keeps a reservation that is held by all registrants until the last one leaves.
    fn pass_on(&mut self) {
        if let Some(kind) = self.held.as_ref().map(|held| held.kind)
            && kind.held_by_all()
        {
            self.held = self.registrants.iter().next().map(|next| Held { by: next.host.clone(), kind });
        }
    }

    /// `host` becomes the holder. The remaining registrants are notified if the type changes.
    fn take_over(
        &mut self,
        host: Identity<'_>,
        kind: ReservationType,
        before: ReservationType,
        outcome: &mut Outcome,
    ) {
        self.held = Some(Held { by: host.to_owned(), kind });
        if before != kind {
            self.tell_others(host, NotificationKind::ReservationReleased, outcome);
        }
    }

    fn unregister(&mut self, host: Identity<'_>, outcome: &mut Outcome) {
        self.registrants.retain(|registrant| registrant.host.identity() != host);
        self.strangers.remove(&host.to_owned());
        let Some(Held { by, kind }) = &self.held else { return };
        let kind = *kind;
        if kind.held_by_all() {
            self.pass_on();
        } else if by.identity() == host {
            self.held = None;
            if kind.shared_with_registrants() {
                self.tell_others(host, NotificationKind::ReservationReleased, outcome);
            }
        }
    }

    fn tell_others(&self, host: Identity<'_>, kind: NotificationKind, outcome: &mut Outcome) {
        let others = self.registrants.iter().filter(|other| other.host.identity() != host);
        outcome.notify.extend(others.map(|other| (other.host.clone(), kind)));
    }

    /// A host that is refused because of the limits may try again later, when other registrants are gone.
    fn add(&mut self, host: Identity<'_>, key: u64, grant: &Grant) -> Result<(), Status> {
        let of_host = self.registrants.iter().filter(|other| other.host.nqn == *host.nqn).count();
        if of_host >= grant.of_host_max {
            return Err(Status::INTERNAL_ERROR);
        }
        if let Some(StrangerGrant { all_max, address, of_address_max }) = grant.stranger {
            let of_address = self.strangers.values().filter(|other| Some(**other) == address).count();
            if self.registrants.len() >= all_max || of_address >= of_address_max {
                return Err(Status::INTERNAL_ERROR);
            }
            if let Some(address) = address {
                self.strangers.insert(host.to_owned(), address);
            }
        }
        let added = self.registrants.insert(Registrant { host: host.to_owned(), key });
        debug_assert_eq!(added, Ok(()), "only a host without a registration is added");
        Ok(())
    }

    fn is_holder(&self, held: &Held, host: Identity<'_>) -> bool {
        held.by.identity() == host || held.kind.held_by_all() && self.registrants.contains(host)
    }

    fn count_change(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Panics if the state is inconsistent: that is a bug of this crate.
    pub fn check(&self) {
        if let Some(held) = &self.held {
            assert!(
                self.registrants.contains(held.by.identity()),
                "holder {:?} is not one of the registrants {:?}",
                held.by,
                self.registrants
            );
        }
        assert!(
            self.strangers.keys().all(|host| self.registrants.contains(host.identity())),
            "an address is recorded of a host that is not registered: {:?}",
            self.strangers
        );
        self.registrants.check();
    }
}
