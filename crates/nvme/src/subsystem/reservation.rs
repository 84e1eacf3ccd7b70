//! Reservations of one namespace: who is registered, who holds it, what others may still do.
//!
//! Hosts are known by their 128-bit identifier, so all controllers of a host share a registration. Nothing survives a
//! restart of the target, and a host that asks for that is refused (PTPL is not supported).
//!
//!   no registrant --Register--> registrant --Acquire--> holder --Release--> registrant --Unregister--> no registrant
//!                                    ^------- Preempt takes registrations and the reservation from others -------|
//!
//! Holds: a holder is a registrant (`check`, run by the tests after every step), and every command does what a naive model
//!        written from the specification's text does (`tests/controller/reservation.rs`).
//! Elsewhere: fields and layouts are `spec::reservation`; who is told is decided by the subsystem from `Outcome`.
//! NVM Express Base Specification: "Reservations".

use crate::spec::reservation::{
    AcquireAction, AcquireCommand, NotificationKind, PersistChange, RegisterAction, RegisterCommand,
    ReleaseAction, ReleaseCommand, ReportEntry, ReportHeader, ReservationKeys, ReservationType,
};
use crate::spec::{HostId, Status, connect::CNTLID_DYNAMIC};
use alloc::vec::Vec;
use zerocopy::{FromZeros, IntoBytes};

/// How a command touches a namespace, as far as reservations care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, Compare, Verify.
    Read,
    /// Write, Write Zeroes, Dataset Management, Flush.
    Write,
}

/// A registered host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The host.
    pub host: HostId,
    /// Its key.
    pub key: u64,
}

/// A reservation in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Who acquired it. Of the types held by all registrants this is no more a holder than the others.
    pub by: HostId,
    /// What it forbids.
    pub kind: ReservationType,
}

/// What a command did to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Hosts to be told, and what.
    pub notify: Vec<(HostId, NotificationKind)>,
    /// Hosts whose commands are to be aborted.
    pub abort: Vec<HostId>,
}

/// The reservations of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    generation: u32,
    registrants: Vec<Registrant>,
    held: Option<Held>,
}

impl Reservations {
    /// Nobody registered.
    pub const fn new() -> Reservations {
        Reservations { generation: 0, registrants: Vec::new(), held: None }
    }

    /// Counts changes.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Registered hosts, oldest first.
    pub fn registrants(&self) -> &[Registrant] {
        &self.registrants
    }

    /// The reservation in force.
    pub fn held(&self) -> Option<Held> {
        self.held
    }

    /// Whether `host` may touch the namespace so.
    #[inline]
    pub fn allows(&self, host: &HostId, access: Access) -> bool {
        match &self.held {
            None => true,
            Some(held) => self.allows_beside(held, host, access),
        }
    }

    fn allows_beside(&self, held: &Held, host: &HostId, access: Access) -> bool {
        held.by == *host
            || access == Access::Read && held.kind.others_may_read()
            || held.kind.shared_with_registrants() && self.key_of(host).is_some()
    }

    /// Reservation Register. `registrants_max` bounds what hosts can make grow.
    pub fn register(
        &mut self,
        host: HostId,
        command: RegisterCommand,
        keys: ReservationKeys,
        registrants_max: usize,
    ) -> Result<Outcome, Status> {
        if command.persist == PersistChange::Set {
            return Err(Status::INVALID_FIELD);
        }
        let registered = self.key_of(&host);
        let key_fits = command.ignore_existing_key || registered == Some(keys.current.get());
        let mut outcome = Outcome::default();
        match (command.action, registered) {
            (RegisterAction::Register, Some(key)) if key != keys.other.get() => {
                return Err(Status::RESERVATION_CONFLICT);
            }
            (RegisterAction::Register, Some(_)) => {}
            (RegisterAction::Register, None) => self.add(host, keys.other.get(), registrants_max)?,
            (RegisterAction::Replace, Some(_)) if key_fits => self.set_key(host, keys.other.get()),
            (RegisterAction::Replace, None) if command.ignore_existing_key => {
                self.add(host, keys.other.get(), registrants_max)?;
            }
            (RegisterAction::Unregister, Some(_)) if key_fits => self.unregister(host, &mut outcome),
            (RegisterAction::Replace | RegisterAction::Unregister, _) => {
                return Err(Status::RESERVATION_CONFLICT);
            }
        }
        self.count_change();
        Ok(outcome)
    }

    /// Reservation Acquire.
    pub fn acquire(
        &mut self,
        host: HostId,
        command: AcquireCommand,
        keys: ReservationKeys,
    ) -> Result<Outcome, Status> {
        if command.ignore_existing_key {
            return Err(Status::INVALID_FIELD);
        }
        if self.key_of(&host) != Some(keys.current.get()) {
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
        match self.held {
            None => self.held = Some(Held { by: host, kind: command.kind }),
            Some(held) if held.kind == command.kind && self.is_holder(held, &host) => {}
            Some(_) => return Err(Status::RESERVATION_CONFLICT),
        }
        Ok(Outcome::default())
    }

    /// Reservation Release. The caller gives the one key as `current`.
    pub fn release(
        &mut self,
        host: HostId,
        command: ReleaseCommand,
        keys: ReservationKeys,
    ) -> Result<Outcome, Status> {
        if command.ignore_existing_key {
            return Err(Status::INVALID_FIELD);
        }
        if self.key_of(&host) != Some(keys.current.get()) {
            return Err(Status::RESERVATION_CONFLICT);
        }
        let mut outcome = Outcome::default();
        match (command.action, self.held) {
            (ReleaseAction::Clear, _) => {
                self.held = None;
                let others =
                    core::mem::take(&mut self.registrants).into_iter().map(|registrant| registrant.host);
                outcome.notify = others
                    .filter(|other| *other != host)
                    .map(|other| (other, NotificationKind::ReservationPreempted))
                    .collect();
                self.count_change();
            }
            (ReleaseAction::Release, Some(held)) if self.is_holder(held, &host) => {
                if command.kind != Some(held.kind) {
                    return Err(Status::INVALID_FIELD);
                }
                self.held = None;
                if held.kind.shared_with_registrants() {
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
            kind: self.held.map_or(0, |held| held.kind.to_wire()),
            registrants: (self.registrants.len() as u16).into(),
            ..ReportHeader::new_zeroed()
        };
        let mut report = header.as_bytes().to_vec();
        for registrant in &self.registrants {
            let holds = self.held.is_some_and(|held| self.is_holder(held, &registrant.host));
            let entry = ReportEntry {
                controller_id: CNTLID_DYNAMIC.into(),
                status: u8::from(holds),
                key: registrant.key.into(),
                host_id: registrant.host.0,
                ..ReportEntry::new_zeroed()
            };
            report.extend_from_slice(entry.as_bytes());
        }
        report
    }

    /// Takes registrations of key `prkey`, and the reservation if the key is its holder's, from others. Where no
    /// reservation is taken, the host's own registration goes too if it has that key: the specification excepts the host
    /// only where it becomes the holder.
    fn preempt(&mut self, host: HostId, kind: ReservationType, prkey: u64) -> Result<Outcome, Status> {
        let mut outcome = Outcome::default();
        match self.held {
            Some(held) if held.kind.held_by_all() && prkey == 0 => {
                self.unregister_where(host, |registrant| registrant.host != host, &mut outcome);
                self.take_over(host, kind, held, &mut outcome);
            }
            Some(held) if !held.kind.held_by_all() && self.key_of(&held.by) == Some(prkey) => {
                let chosen = |registrant: &Registrant| registrant.host != host && registrant.key == prkey;
                self.unregister_where(host, chosen, &mut outcome);
                self.take_over(host, kind, held, &mut outcome);
            }
            Some(held) if !held.kind.held_by_all() && prkey == 0 => return Err(Status::INVALID_FIELD),
            _ if self.registrants.iter().any(|registrant| registrant.key == prkey) => {
                self.unregister_where(host, |registrant| registrant.key == prkey, &mut outcome);
                self.pass_on();
            }
            _ => return Err(Status::RESERVATION_CONFLICT),
        }
        Ok(outcome)
    }

    /// Unregisters the chosen ones on behalf of `host`, which is neither told nor loses commands.
    fn unregister_where(
        &mut self,
        host: HostId,
        chosen: impl Fn(&Registrant) -> bool,
        outcome: &mut Outcome,
    ) {
        self.registrants.retain(|registrant| {
            let goes = chosen(registrant);
            if goes && registrant.host != host {
                outcome.notify.push((registrant.host, NotificationKind::RegistrationPreempted));
                outcome.abort.push(registrant.host);
            }
            !goes
        });
    }

    /// A reservation held by all registrants outlives every one but the last.
    fn pass_on(&mut self) {
        if let Some(held) = self.held
            && held.kind.held_by_all()
        {
            self.held = self.registrants.first().map(|next| Held { by: next.host, ..held });
        }
    }

    /// The reservation becomes one of `host`; the registrants left over learn of a change of type.
    fn take_over(&mut self, host: HostId, kind: ReservationType, before: Held, outcome: &mut Outcome) {
        self.held = Some(Held { by: host, kind });
        if before.kind != kind {
            self.tell_others(host, NotificationKind::ReservationReleased, outcome);
        }
    }

    fn unregister(&mut self, host: HostId, outcome: &mut Outcome) {
        self.registrants.retain(|registrant| registrant.host != host);
        let Some(held) = self.held else { return };
        if held.kind.held_by_all() {
            self.pass_on();
        } else if held.by == host {
            self.held = None;
            if held.kind.shared_with_registrants() {
                self.tell_others(host, NotificationKind::ReservationReleased, outcome);
            }
        }
    }

    fn tell_others(&self, host: HostId, kind: NotificationKind, outcome: &mut Outcome) {
        let others = self.registrants.iter().filter(|registrant| registrant.host != host);
        outcome.notify.extend(others.map(|registrant| (registrant.host, kind)));
    }

    fn add(&mut self, host: HostId, key: u64, registrants_max: usize) -> Result<(), Status> {
        if self.registrants.len() >= registrants_max {
            return Err(Status::INTERNAL_ERROR);
        }
        self.registrants.push(Registrant { host, key });
        Ok(())
    }

    fn set_key(&mut self, host: HostId, key: u64) {
        for registrant in self.registrants.iter_mut().filter(|registrant| registrant.host == host) {
            registrant.key = key;
        }
    }

    fn key_of(&self, host: &HostId) -> Option<u64> {
        self.registrants.iter().find(|registrant| registrant.host == *host).map(|registrant| registrant.key)
    }

    fn is_holder(&self, held: Held, host: &HostId) -> bool {
        held.by == *host || held.kind.held_by_all() && self.key_of(host).is_some()
    }

    fn count_change(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Panics if the state contradicts itself: our own bug.
    pub fn check(&self) {
        if let Some(held) = self.held {
            assert!(
                self.key_of(&held.by).is_some(),
                "holder {:?} is no registrant of {:?}",
                held.by,
                self.registrants
            );
        }
        for (index, registrant) in self.registrants.iter().enumerate() {
            let twice = self.registrants[..index].iter().any(|other| other.host == registrant.host);
            assert!(!twice, "{:?} is registered twice", registrant.host);
        }
    }
}
