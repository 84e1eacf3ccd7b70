//! Reservation commands: their fields, their data, and the report.
//!
//! Holds: fields survive their dword (`fields_survive_their_dword`), layouts have their sizes (assertions).
//! NVM Express Base Specification: "Reservation Register / Acquire / Release / Report command".

use super::Sqe;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// CDW10 bit 3: Ignore Existing Key.
pub const IGNORE_EXISTING_KEY: u32 = 1 << 3;
/// Report, CDW11 bit 0: Extended Data Structure, with 128-bit host identifiers.
pub const EXTENDED_REPORT: u32 = 1;

/// The type of a reservation: the access that it leaves to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReservationType {
    /// Others may read.
    WriteExclusive,
    /// Others may neither read nor write.
    ExclusiveAccess,
    /// Others may read; registrants may also write.
    WriteExclusiveRegistrantsOnly,
    /// Only registrants may read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Others may read; all registrants hold the reservation.
    WriteExclusiveAllRegistrants,
    /// All registrants hold the reservation; others may neither read nor write.
    ExclusiveAccessAllRegistrants,
}

impl ReservationType {
    /// All of them, in the order of their numbers.
    pub const ALL: [ReservationType; 6] = [
        ReservationType::WriteExclusive,
        ReservationType::ExclusiveAccess,
        ReservationType::WriteExclusiveRegistrantsOnly,
        ReservationType::ExclusiveAccessRegistrantsOnly,
        ReservationType::WriteExclusiveAllRegistrants,
        ReservationType::ExclusiveAccessAllRegistrants,
    ];

    /// RTYPE.
    pub const fn to_wire(self) -> u8 {
        self as u8 + 1
    }

    /// From RTYPE; `None` for a reserved value.
    pub fn from_wire(rtype: u8) -> Option<ReservationType> {
        ReservationType::ALL.into_iter().find(|kind| kind.to_wire() == rtype)
    }

    /// Whether all registrants hold the reservation.
    pub const fn held_by_all(self) -> bool {
        matches!(
            self,
            ReservationType::WriteExclusiveAllRegistrants | ReservationType::ExclusiveAccessAllRegistrants
        )
    }

    /// Whether the other registrants have the same access as the holder.
    pub const fn shared_with_registrants(self) -> bool {
        !matches!(self, ReservationType::WriteExclusive | ReservationType::ExclusiveAccess)
    }

    /// Whether hosts without write access may still read.
    pub const fn others_may_read(self) -> bool {
        matches!(
            self,
            ReservationType::WriteExclusive
                | ReservationType::WriteExclusiveRegistrantsOnly
                | ReservationType::WriteExclusiveAllRegistrants
        )
    }
}

/// RREGA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterAction {
    /// Become a registrant.
    Register,
    /// Stop being one.
    Unregister,
    /// Change the key.
    Replace,
}

/// RACQA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireAction {
    /// Acquire the reservation.
    Acquire,
    /// Remove registrations of other hosts, and take over the reservation.
    Preempt,
    /// The same, and abort their commands too.
    PreemptAndAbort,
}

/// RRELA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseAction {
    /// Release the reservation.
    Release,
    /// Remove the reservation and all registrations.
    Clear,
}

/// CPTPL: whether reservations shall survive a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PersistChange {
    /// No change.
    Keep,
    /// They shall not.
    Clear,
    /// They shall.
    Set,
}

/// CDW10 of Reservation Register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterCommand {
    /// RREGA.
    pub action: RegisterAction,
    /// IEKEY.
    pub ignore_existing_key: bool,
    /// CPTPL.
    pub persist: PersistChange,
}

impl RegisterCommand {
    /// From CDW10; `None` for a reserved value.
    pub fn parse(sqe: &Sqe) -> Option<RegisterCommand> {
        let cdw10 = sqe.cdw10();
        Some(RegisterCommand {
            action: match cdw10 & 0x7 {
                0 => RegisterAction::Register,
                1 => RegisterAction::Unregister,
                2 => RegisterAction::Replace,
                _ => return None,
            },
            ignore_existing_key: cdw10 & IGNORE_EXISTING_KEY != 0,
            persist: match cdw10 >> 30 {
                0 => PersistChange::Keep,
                2 => PersistChange::Clear,
                3 => PersistChange::Set,
                _ => return None,
            },
        })
    }

    /// CDW10.
    pub const fn to_cdw10(self) -> u32 {
        let action = match self.action {
            RegisterAction::Register => 0,
            RegisterAction::Unregister => 1,
            RegisterAction::Replace => 2,
        };
        let persist = match self.persist {
            PersistChange::Keep => 0,
            PersistChange::Clear => 2,
            PersistChange::Set => 3,
        };
        action | existing_key(self.ignore_existing_key) | persist << 30
    }
}

/// CDW10 of Reservation Acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireCommand {
    /// RACQA.
    pub action: AcquireAction,
    /// IEKEY; must be 0 since version 1.3.
    pub ignore_existing_key: bool,
    /// RTYPE.
    pub kind: ReservationType,
}

impl AcquireCommand {
    /// From CDW10; `None` for a reserved value.
    pub fn parse(sqe: &Sqe) -> Option<AcquireCommand> {
        let cdw10 = sqe.cdw10();
        Some(AcquireCommand {
            action: match cdw10 & 0x7 {
                0 => AcquireAction::Acquire,
                1 => AcquireAction::Preempt,
                2 => AcquireAction::PreemptAndAbort,
                _ => return None,
            },
            ignore_existing_key: cdw10 & IGNORE_EXISTING_KEY != 0,
            kind: ReservationType::from_wire((cdw10 >> 8) as u8)?,
        })
    }

    /// CDW10.
    pub const fn to_cdw10(self) -> u32 {
        let action = match self.action {
            AcquireAction::Acquire => 0,
            AcquireAction::Preempt => 1,
            AcquireAction::PreemptAndAbort => 2,
        };
        action | existing_key(self.ignore_existing_key) | (self.kind.to_wire() as u32) << 8
    }
}

/// CDW10 of Reservation Release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseCommand {
    /// RRELA.
    pub action: ReleaseAction,
    /// IEKEY; must be 0 since version 1.3.
    pub ignore_existing_key: bool,
    /// RTYPE; Clear ignores it.
    pub kind: Option<ReservationType>,
}

impl ReleaseCommand {
    /// From CDW10; `None` for a reserved action.
    pub fn parse(sqe: &Sqe) -> Option<ReleaseCommand> {
        let cdw10 = sqe.cdw10();
        Some(ReleaseCommand {
            action: match cdw10 & 0x7 {
                0 => ReleaseAction::Release,
                1 => ReleaseAction::Clear,
                _ => return None,
            },
            ignore_existing_key: cdw10 & IGNORE_EXISTING_KEY != 0,
            kind: ReservationType::from_wire((cdw10 >> 8) as u8),
        })
    }

    /// CDW10.
    pub const fn to_cdw10(self) -> u32 {
        let action = match self.action {
            ReleaseAction::Release => 0,
            ReleaseAction::Clear => 1,
        };
        let kind = match self.kind {
            Some(kind) => kind.to_wire() as u32,
            None => 0,
        };
        action | existing_key(self.ignore_existing_key) | kind << 8
    }
}

/// IEKEY.
const fn existing_key(is_ignored: bool) -> u32 {
    if is_ignored { IGNORE_EXISTING_KEY } else { 0 }
}

/// Data of Register (CRKEY, NRKEY) and of Acquire (CRKEY, PRKEY). Release has the first only.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ReservationKeys {
    /// CRKEY: the key the host is registered with.
    pub current: U64,
    /// NRKEY: the key to register; PRKEY: the key of those to preempt.
    pub other: U64,
}

const _: () = assert!(size_of::<ReservationKeys>() == 16);

/// The header of the extended report.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReportHeader {
    /// GEN: counts changes.
    pub generation: U32,
    /// RTYPE; 0 without a reservation.
    pub kind: u8,
    /// REGCTL: entries that follow.
    pub registrants: U16,
    /// Reserved.
    pub reserved_7: [u8; 2],
    /// PTPLS: 1 if reservations survive a power loss.
    pub persists: u8,
    /// Reserved.
    pub reserved_10: [u8; 54],
}

const _: () = assert!(size_of::<ReportHeader>() == 64);

/// An entry of the extended report.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReportEntry {
    /// CNTLID; FFFFh with dynamic controllers.
    pub controller_id: U16,
    /// RCSTS bit 0: holds the reservation.
    pub status: u8,
    /// Reserved.
    pub reserved_3: [u8; 5],
    /// RKEY.
    pub key: U64,
    /// HOSTID.
    pub host_id: [u8; 16],
    /// Reserved.
    pub reserved_32: [u8; 32],
}

const _: () = assert!(size_of::<ReportEntry>() == 64);

/// The kind of event on the Reservation Notification page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotificationKind {
    /// Another host removed this host's registration.
    RegistrationPreempted,
    /// A reservation was released while this host was a registrant.
    ReservationReleased,
    /// Another host took over the reservation.
    ReservationPreempted,
}

impl NotificationKind {
    /// The kind's number on the page; also the number of its bit in feature 82h.
    pub const fn to_wire(self) -> u8 {
        self as u8 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::opcode::nvm;

    fn with_cdw10(cdw10: u32) -> Sqe {
        Sqe::new(nvm::RESERVATION_REGISTER).with_cdw10_15([cdw10, 0, 0, 0, 0, 0])
    }

    #[test]
    fn fields_survive_their_dword() {
        let register = RegisterCommand::parse(&with_cdw10(0xc000_000a)).expect("no reserved value");
        assert_eq!(register.action, RegisterAction::Replace);
        assert_eq!((register.ignore_existing_key, register.persist), (true, PersistChange::Set));
        assert_eq!(RegisterCommand::parse(&with_cdw10(3)), None);
        assert_eq!(RegisterCommand::parse(&with_cdw10(1 << 30)), None);
        let acquire = AcquireCommand::parse(&with_cdw10(0x602)).expect("no reserved value");
        assert_eq!(acquire.action, AcquireAction::PreemptAndAbort);
        assert_eq!(acquire.kind, ReservationType::ExclusiveAccessAllRegistrants);
        assert_eq!(AcquireCommand::parse(&with_cdw10(0x700)), None);
        assert_eq!(AcquireCommand::parse(&with_cdw10(0x000)), None);
        let release = ReleaseCommand::parse(&with_cdw10(0x101)).expect("no reserved value");
        assert_eq!(
            (release.action, release.kind),
            (ReleaseAction::Clear, Some(ReservationType::WriteExclusive))
        );
        // Every dword that is parsed is written as it was.
        let actions = (0..4u32).flat_map(|action| [action, action | IGNORE_EXISTING_KEY]);
        for low in actions.flat_map(|action| (0..8u32).map(move |kind| action | kind << 8)) {
            let sqe = with_cdw10(low);
            assert!(AcquireCommand::parse(&sqe).is_none_or(|command| command.to_cdw10() == low));
            let release = ReleaseCommand::parse(&sqe);
            assert!(release.is_none_or(|command| command.kind.is_none() || command.to_cdw10() == low));
            for dword in (0..4u32).map(|persist| low & 0xff | persist << 30) {
                let register = RegisterCommand::parse(&with_cdw10(dword));
                assert!(register.is_none_or(|command| command.to_cdw10() == dword));
            }
        }
    }

    #[test]
    fn types_have_the_numbers_of_the_specification() {
        for (number, kind) in (1..).zip(ReservationType::ALL) {
            assert_eq!((kind.to_wire(), ReservationType::from_wire(number)), (number, Some(kind)));
        }
    }
}
