//! A reservation of a namespace by which one host keeps the writes of others away.
//!
//! Its type is Write Exclusive - Registrants Only, and it outlasts a power loss. A host is registered under its host identifier,
//! whichever of its connections a command comes by.
//!
//! Holds: each command has the effect on a target that its name says (`tests/reservation.rs`).
//! NVM Express Base Specification: "Reservation Register / Acquire / Report command".

use nvme::spec::opcode::nvm;
use nvme::spec::reservation::{
    AcquireAction, AcquireCommand, EXTENDED_REPORT, PersistChange, RegisterAction, RegisterCommand,
    ReportEntry, ReportHeader, ReservationKeys, ReservationType,
};
use nvme::spec::{HostId, Sqe};
use zerocopy::{FromBytes, IntoBytes};

/// A change of the reservation. The buffer of its request has [`Reservation::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reservation {
    /// Registers this host with the other key; the current one is 0.
    Register,
    /// Changes the current key of this host to the other one.
    Replace,
    /// Acquires the reservation with the current key, if nobody holds it.
    Acquire,
    /// Removes the registrations of all other hosts with the other key, and aborts their commands. Takes the reservation over if its
    /// holder is one of them.
    PreemptAndAbort,
}

impl Reservation {
    /// The type of the reservation.
    pub const TYPE: ReservationType = ReservationType::WriteExclusiveRegistrantsOnly;
    /// Bytes of the buffer of a change.
    pub const KEYS: usize = size_of::<ReservationKeys>();

    /// The contents of the buffer of a change.
    pub fn keys(current: u64, other: u64) -> [u8; Reservation::KEYS] {
        let keys = ReservationKeys { current: current.into(), other: other.into() };
        let mut bytes = [0; Reservation::KEYS];
        bytes.copy_from_slice(keys.as_bytes());
        bytes
    }

    /// The command's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reservation::Register | Reservation::Replace => "reservation register",
            Reservation::Acquire | Reservation::PreemptAndAbort => "reservation acquire",
        }
    }

    /// The opcode, and CDW10.
    pub(crate) fn command(self) -> (u8, u32) {
        let register = |action| {
            let command = RegisterCommand { action, ignore_existing_key: false, persist: PersistChange::Set };
            (nvm::RESERVATION_REGISTER, command.to_cdw10())
        };
        let acquire = |action| {
            let command = AcquireCommand { action, ignore_existing_key: false, kind: Reservation::TYPE };
            (nvm::RESERVATION_ACQUIRE, command.to_cdw10())
        };
        match self {
            Reservation::Register => register(RegisterAction::Register),
            Reservation::Replace => register(RegisterAction::Replace),
            Reservation::Acquire => acquire(AcquireAction::Acquire),
            Reservation::PreemptAndAbort => acquire(AcquireAction::PreemptAndAbort),
        }
    }
}

/// The command that reads a report into `length` bytes.
pub(crate) fn report_command(nsid: u32, length: usize) -> Sqe {
    let dwords = (length / 4).saturating_sub(1) as u32;
    Sqe::new(nvm::RESERVATION_REPORT).with_nsid(nsid).with_cdw10_15([dwords, EXTENDED_REPORT, 0, 0, 0, 0])
}

/// A registered host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its identifier.
    pub host: HostId,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holds: bool,
}

/// The reservations of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// The type of the reservation; `None` without one.
    pub kind: Option<ReservationType>,
    /// Whether they survive a power loss.
    pub persists: bool,
    /// The registered hosts.
    pub registered: Vec<Registered>,
}

/// Why a report cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It is longer than its buffer.
    #[error("the report of reservations has {registrants} registrants, more than there is room for")]
    Longer {
        /// Registered hosts.
        registrants: u16,
    },
    /// Its type of reservation does not exist.
    #[error("the report has a reservation of type {0}, which does not exist")]
    Kind(u8),
}

impl ReservationReport {
    /// Bytes of a report with this many registered hosts.
    pub const fn length(registrants: u16) -> usize {
        size_of::<ReportHeader>() + registrants as usize * size_of::<ReportEntry>()
    }

    /// Bytes that the target has to send of the report in `buffer`.
    pub(crate) fn length_expected(buffer: &[u8]) -> usize {
        let registrants =
            ReportHeader::ref_from_prefix(buffer).map_or(0, |(header, _)| header.registrants.get());
        ReservationReport::length(registrants).min(buffer.len())
    }

    /// Reads the buffer of an [`Operation::ReportReservations`](crate::Operation::ReportReservations).
    ///
    /// # Errors
    /// The report is longer than the buffer, or invalid.
    pub fn parse(buffer: &[u8]) -> Result<ReservationReport, ReportError> {
        let (header, rest) =
            ReportHeader::ref_from_prefix(buffer).map_err(|_| ReportError::Longer { registrants: 0 })?;
        let registrants = header.registrants.get();
        let (entries, _) = <[ReportEntry]>::ref_from_prefix_with_elems(rest, usize::from(registrants))
            .map_err(|_| ReportError::Longer { registrants })?;
        let kind = match header.kind {
            0 => None,
            rtype => Some(ReservationType::from_wire(rtype).ok_or(ReportError::Kind(rtype))?),
        };
        let registered = |entry: &ReportEntry| Registered {
            host: HostId(entry.host_id),
            key: entry.key.get(),
            holds: entry.status & 1 != 0,
        };
        Ok(ReservationReport {
            kind,
            persists: header.persists != 0,
            registered: entries.iter().map(registered).collect(),
        })
    }
}
