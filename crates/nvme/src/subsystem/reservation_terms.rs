//! What is said of reservations: hosts, changes, what comes of them, what is stored.
//!
//! Elsewhere: the rules are `reservation`.

use crate::spec::reservation::{
    AcquireCommand, NotificationKind, RegisterCommand, ReleaseCommand, ReservationKeys, ReservationType,
};
use crate::spec::{HostId, Nqn};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// How a command touches a namespace, as far as reservations care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read, Compare, Verify.
    Read,
    /// Write, Write Zeroes, Dataset Management, Flush.
    Write,
}

/// A host as reservations know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its identifier.
    pub id: HostId,
    /// The name that goes with it.
    pub nqn: &'a Nqn,
}

/// A registered host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The host.
    pub host: HostId,
    /// Its name; the identifier alone is no registrant.
    pub nqn: Nqn,
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

/// One command that changes reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationChange {
    /// Reservation Register.
    Register(RegisterCommand, ReservationKeys),
    /// Reservation Acquire.
    Acquire(AcquireCommand, ReservationKeys),
    /// Reservation Release, its one key as `current`.
    Release(ReleaseCommand, ReservationKeys),
    /// Set Features, Reservation Persistence.
    Persistence(bool),
}

/// What a namespace grants the host that sends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Registrants of one host NQN.
    pub of_host_max: usize,
    /// For a host that the configuration does not name. The others are not kept out by anybody.
    pub stranger: Option<StrangerGrant>,
    /// Whether reservations can persist.
    pub persistence: bool,
}

/// What all hosts that are not named have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangerGrant {
    /// Registrants of all hosts.
    pub all_max: usize,
    /// Where the host is. Names cost nothing, addresses do.
    pub address: Option<IpAddr>,
    /// Registrants from one address since the target was started.
    pub of_address_max: usize,
}

/// Reservations that persist, to be stored and restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedReservations {
    /// Counts changes.
    pub generation: u32,
    /// Registered hosts.
    pub registrants: Vec<Registrant>,
    /// The reservation in force.
    pub held: Option<Held>,
}

/// Why saved reservations cannot be ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// There is no such namespace.
    NoSuchNamespace(u32),
    /// A registrant has no identifier.
    NoIdentifier,
    /// A host is registered twice.
    Twice(HostId),
    /// The holder is not registered.
    NotRegistered(HostId),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestoreError::NoSuchNamespace(nsid) => write!(f, "there is no namespace {nsid}"),
            RestoreError::NoIdentifier => f.write_str("a registrant has no host identifier"),
            RestoreError::Twice(host) => write!(f, "host {host:?} is registered twice"),
            RestoreError::NotRegistered(host) => write!(f, "the holder {host:?} is not registered"),
        }
    }
}

impl core::error::Error for RestoreError {}

/// What a command did to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Hosts to be told, and what.
    pub notify: Vec<(HostId, NotificationKind)>,
    /// Hosts whose commands are to be aborted.
    pub abort: Vec<HostId>,
}
