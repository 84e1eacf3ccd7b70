//! The Connect command and its 1024 bytes of data: a host asks for a queue.
//!
//! The fields of the command are not dword aligned. Only this file extracts them from dwords 10 to 12.
//! `Culprit` uses the byte offsets to tell the host which parameter was wrong.
//!
//! Holds: data is 1024 bytes, with every field at the offset of the specification
//!        (`fields_lie_where_the_specification_has_them`).
//! NVM Express Base Specification: "Connect Command and Response".

use super::nqn::{NQN_FIELD_SIZE, NqnError};
use super::{Cqe, Nqn, Sqe, Status};
use core::fmt;
use core::mem::offset_of;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// CNTLID of a Connect that requests a new controller.
pub const CNTLID_DYNAMIC: u16 = 0xffff;
/// Largest controller identifier that may be assigned.
pub const CNTLID_MAX: u16 = 0xffef;

/// A host's 128-bit identifier.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub [u8; 16]);

impl HostId {
    /// The host gave no identifier.
    pub const NONE: HostId = HostId([0; 16]);
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The data of a Connect command.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    host_id: [u8; 16],
    controller_id: U16,
    reserved: [u8; 238],
    subsystem_nqn: [u8; NQN_FIELD_SIZE],
    host_nqn: [u8; NQN_FIELD_SIZE],
    reserved_end: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == ConnectData::SIZE);

impl ConnectData {
    /// Bytes on the wire.
    pub const SIZE: usize = 1024;

    /// Data of a host that asks `subsystem` for a queue of controller `controller_id`, or of a new controller
    /// (`CNTLID_DYNAMIC`).
    pub fn new(host_id: HostId, host: &Nqn, subsystem: &Nqn, controller_id: u16) -> ConnectData {
        ConnectData {
            host_id: host_id.0,
            controller_id: controller_id.into(),
            subsystem_nqn: subsystem.to_field(),
            host_nqn: host.to_field(),
            ..ConnectData::new_zeroed()
        }
    }

    /// HOSTID.
    pub fn host_id(&self) -> HostId {
        HostId(self.host_id)
    }

    /// CNTLID.
    pub fn controller_id(&self) -> u16 {
        self.controller_id.get()
    }

    /// SUBNQN, if it is a valid NQN.
    pub fn subsystem_nqn(&self) -> Option<Nqn> {
        Nqn::from_field(&self.subsystem_nqn).ok()
    }

    /// HOSTNQN, if it is a valid NQN. A host that sends an empty one gets a name from its host identifier.
    /// (SPDK's perf tool sends an empty one unless it is given a name.)
    pub fn host_nqn(&self) -> Option<Nqn> {
        match Nqn::from_field(&self.host_nqn) {
            Err(NqnError::Empty) if self.host_id() != HostId::NONE => Some(Nqn::of_uuid(self.host_id)),
            name => name.ok(),
        }
    }
}

impl fmt::Debug for ConnectData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectData")
            .field("host_id", &self.host_id())
            .field("controller_id", &self.controller_id())
            .field("subsystem_nqn", &self.subsystem_nqn())
            .field("host_nqn", &self.host_nqn())
            .finish_non_exhaustive()
    }
}

/// The fields of a Connect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectCommand {
    /// RECFMT; only 0 is defined.
    pub record_format: u16,
    /// QID; 0 is the admin queue.
    pub queue_id: u16,
    /// SQSIZE: entries of the queue, minus one.
    pub sqsize: u16,
    /// CATTR.
    pub attributes: u8,
    /// KATO in milliseconds; 0 turns keep-alive off. Admin queue only.
    pub keep_alive_timeout: u32,
}

impl ConnectCommand {
    /// CATTR: do not use submission queue flow control.
    pub const ATTRIBUTE_NO_FLOW_CONTROL: u8 = 1 << 2;

    /// From dwords 10 to 12.
    pub fn parse(sqe: &Sqe) -> ConnectCommand {
        ConnectCommand {
            record_format: sqe.cdw10() as u16,
            queue_id: (sqe.cdw10() >> 16) as u16,
            sqsize: sqe.cdw11() as u16,
            attributes: (sqe.cdw11() >> 16) as u8,
            keep_alive_timeout: sqe.cdw12(),
        }
    }

    /// Entries of the queue.
    pub fn entries(&self) -> u32 {
        u32::from(self.sqsize) + 1
    }

    /// Whether the host turns submission queue flow control off.
    pub fn disables_flow_control(&self) -> bool {
        self.attributes & ConnectCommand::ATTRIBUTE_NO_FLOW_CONTROL != 0
    }

    /// As a command.
    pub fn to_sqe(self) -> Sqe {
        Sqe::fabrics(super::opcode::fabrics::CONNECT).with_cdw10_15([
            u32::from(self.queue_id) << 16 | u32::from(self.record_format),
            u32::from(self.attributes) << 16 | u32::from(self.sqsize),
            self.keep_alive_timeout,
            0,
            0,
            0,
        ])
    }
}

/// The wrong field of a Connect, as encoded in dword 0 of Connect Invalid Parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// A field of the command, at this byte.
    Command(u16),
    /// A field of the data, at this byte.
    Data(u16),
}

impl Culprit {
    /// SQE: QID.
    pub const QUEUE_ID: Culprit = Culprit::Command(42);
    /// SQE: SQSIZE.
    pub const SQSIZE: Culprit = Culprit::Command(44);
    /// Data: HOSTID.
    pub const HOST_ID: Culprit = Culprit::Data(offset_of!(ConnectData, host_id) as u16);
    /// Data: CNTLID.
    pub const CONTROLLER_ID: Culprit = Culprit::Data(offset_of!(ConnectData, controller_id) as u16);
    /// Data: SUBNQN.
    pub const SUBSYSTEM_NQN: Culprit = Culprit::Data(offset_of!(ConnectData, subsystem_nqn) as u16);
    /// Data: HOSTNQN.
    pub const HOST_NQN: Culprit = Culprit::Data(offset_of!(ConnectData, host_nqn) as u16);

    /// Dword 0: IATTR (bit 16) says that the offset is into the data.
    const IN_DATA: u32 = 1 << 16;

    /// Dword 0 of the answer.
    pub const fn to_dw0(self) -> u32 {
        match self {
            Culprit::Command(offset) => offset as u32,
            Culprit::Data(offset) => Culprit::IN_DATA | offset as u32,
        }
    }

    /// From dword 0 of the answer.
    pub const fn from_dw0(dw0: u32) -> Culprit {
        match dw0 & Culprit::IN_DATA {
            0 => Culprit::Command(dw0 as u16),
            _ => Culprit::Data(dw0 as u16),
        }
    }

    /// The completion that refuses Connect `cid` because of this field.
    pub fn refuse(self, cid: u16) -> Cqe {
        Cqe::new(cid, Status::CONNECT_INVALID_PARAMETERS).with_dw0(self.to_dw0())
    }
}

/// Dword 0 of a successful Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectResult {
    /// The controller the queue belongs to.
    pub controller_id: u16,
    /// The host must authenticate before any other command (ATR).
    pub authentication_required: bool,
    /// The host must set up a secure channel before any other command (ASCR).
    pub secure_channel_required: bool,
}

impl ConnectResult {
    /// ATR.
    pub const AUTHENTICATION: u32 = 1 << 17;
    /// ASCR.
    pub const SECURE_CHANNEL: u32 = 1 << 18;

    /// From dword 0.
    pub const fn from_dw0(dw0: u32) -> ConnectResult {
        ConnectResult {
            controller_id: dw0 as u16,
            authentication_required: dw0 & ConnectResult::AUTHENTICATION != 0,
            secure_channel_required: dw0 & ConnectResult::SECURE_CHANNEL != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_specification_has_them() {
        let name = |text| Nqn::new(text).expect("a good name");
        let data = ConnectData::new(HostId([7; 16]), &name("host"), &name("subsystem"), 0x1234);
        let bytes = data.as_bytes();
        assert_eq!(&bytes[..20], &[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0x34, 0x12, 0, 0]);
        assert_eq!(&bytes[256..266], b"subsystem\0");
        assert_eq!(&bytes[512..517], b"host\0");
        assert_eq!(ConnectData::read_from_bytes(bytes).expect("1024 bytes"), data);
        assert_eq!(Culprit::SUBSYSTEM_NQN.to_dw0(), 0x10100);
        assert_eq!(Culprit::HOST_NQN.to_dw0(), 0x10200);
        assert_eq!(Culprit::CONTROLLER_ID.to_dw0(), 0x10010);
    }

    #[test]
    fn a_host_without_a_name_is_named_by_its_identifier() {
        let name = Nqn::new("subsystem").expect("a good name");
        let nameless = |host_id| {
            let data = ConnectData::new(host_id, &name, &name, CNTLID_DYNAMIC);
            ConnectData { host_nqn: [0; NQN_FIELD_SIZE], ..data }
        };
        let by_identifier = "nqn.2014-08.org.nvmexpress:uuid:07070707-0707-0707-0707-070707070707";
        assert_eq!(nameless(HostId([7; 16])).host_nqn(), Nqn::new(by_identifier).ok());
        assert_eq!(nameless(HostId::NONE).host_nqn(), None);
    }

    #[test]
    fn command_fields_lie_where_the_specification_has_them() {
        let command = ConnectCommand {
            record_format: 0,
            queue_id: 3,
            sqsize: 127,
            attributes: 4,
            keep_alive_timeout: 5000,
        };
        let sqe = command.to_sqe();
        let bytes = sqe.as_bytes();
        assert_eq!(&bytes[40..52], &[0, 0, 3, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
        assert_eq!(ConnectCommand::parse(&sqe), command);
    }
}
