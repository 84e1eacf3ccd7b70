//! The vocabulary of reservations: hosts, changes, outcomes, and the stored form.
//!
//! Elsewhere: the rules are in `reservation`.

use crate::spec::reservation::{
    AcquireCommand, NotificationKind, RegisterCommand, ReleaseCommand, ReservationKeys, ReservationType,
};
use crate::spec::{HostId, Nqn};
use alloc::vec::Vec;
use core::net::IpAddr;

/// The kinds of access that reservations distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, Compare, Verify.
    Read,
    /// Write, Write Zeroes, Dataset Management, Flush.
    Write,
}

/// A host, as reservations identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity<'a> {
    /// Its identifier.
    pub id: HostId,
    /// Its NQN. Host identifiers are no secret, so both together make a host.
    pub nqn: &'a Nqn,
}

impl Identity<'_> {
    /// To keep.
    pub fn to_owned(self) -> ReservationHost {
        ReservationHost { id: self.id, nqn: self.nqn.clone() }
    }
}

/// An [`Identity`] that is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationHost {
    /// Its identifier.
    pub id: HostId,
    /// Its NQN.
    pub nqn: Nqn,
}

impl ReservationHost {
    /// The same, borrowed.
    pub fn identity(&self) -> Identity<'_> {
        Identity { id: self.id, nqn: &self.nqn }
    }
}

/// A registered host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The host.
    pub host: ReservationHost,
    /// Its key.
    pub key: u64,
}

/// A reservation in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The host that acquired it. If all registrants hold the reservation, this one has no more rights than
    /// the others.
    pub by: ReservationHost,
    /// The type, which says what others may not do.
    pub kind: ReservationType,
}

/// One command that changes reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationChange {
    /// Reservation Register.
    Register(RegisterCommand, ReservationKeys),
    /// Reservation Acquire.
    Acquire(AcquireCommand, ReservationKeys),
    /// Reservation Release; its only key is `current`.
    Release(ReleaseCommand, ReservationKeys),
    /// Set Features, Reservation Persistence.
    Persistence(bool),
}

/// Limits that apply to the host that sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Most registrants of one host NQN.
    pub of_host_max: usize,
    /// Limits of a host that the configuration does not name. `None` for a named host: other hosts cannot
    /// lock it out.
    pub stranger: Option<StrangerGrant>,
    /// Whether reservations can persist.
    pub persistence: bool,
}

/// Limits shared by all hosts that the configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangerGrant {
    /// Most registrants in total.
    pub all_max: usize,
    /// The host's address. Hosts can invent names but not addresses.
    pub address: Option<IpAddr>,
    /// Most registrants from one address since the target was started.
    pub of_address_max: usize,
}

/// Persistent reservations, as stored and restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedReservations {
    /// Counts changes.
    pub generation: u32,
    /// Registered hosts.
    pub registrants: Vec<Registrant>,
    /// The reservation in force.
    pub held: Option<Held>,
}

/// Why saved reservations are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The namespace does not exist.
    #[error("there is no namespace {0}")]
    NoSuchNamespace(u32),
    /// A registrant has no identifier.
    #[error("a registrant has no host identifier")]
    NoIdentifier,
    /// A host is registered twice.
    #[error("host {0:?} is registered twice")]
    Twice(ReservationHost),
    /// The holder is not registered.
    #[error("the holder {0:?} is not registered")]
    NotRegistered(ReservationHost),
}

/// The effects of a command on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Hosts to notify, with the event of each.
    pub notify: Vec<(ReservationHost, NotificationKind)>,
    /// Hosts that lose their commands: these are to be aborted.
    pub abort: Vec<ReservationHost>,
}
