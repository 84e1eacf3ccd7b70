//! The status of a completed command: status code type, status code, and whether a retry can help.
//!
//! Holds: a status survives the wire, with either phase tag (`a_status_survives_the_wire`).
//! NVM Express Base Specification: "Status Field".

/// Status code type of command-independent statuses.
pub const SCT_GENERIC: u8 = 0;
/// Status code type of statuses with a meaning that depends on the command.
pub const SCT_COMMAND_SPECIFIC: u8 = 1;
/// Status code type of media and data integrity errors.
pub const SCT_MEDIA: u8 = 2;
/// Status code type of path related statuses.
pub const SCT_PATH: u8 = 3;

/// Bit positions in the 16-bit field of the completion; bit 0 is the phase tag.
const SC_SHIFT: u32 = 1;
const SCT_SHIFT: u32 = 9;
const SCT_MASK: u16 = 0x7;
const DNR_SHIFT: u32 = 15;

/// A command's status.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    /// Status code type.
    pub sct: u8,
    /// Status code.
    pub sc: u8,
    /// Do not retry: the same command would fail again.
    pub dnr: bool,
}

impl Status {
    /// The command succeeded.
    pub const SUCCESS: Status = Status::generic(0x00);
    /// The opcode is reserved or not supported.
    pub const INVALID_OPCODE: Status = Status::generic(0x01).do_not_retry();
    /// A field has a value that is reserved or not supported.
    pub const INVALID_FIELD: Status = Status::generic(0x02).do_not_retry();
    /// A command with this identifier is still outstanding on the queue.
    pub const COMMAND_ID_CONFLICT: Status = Status::generic(0x03).do_not_retry();
    /// The transfer of data or metadata failed.
    pub const DATA_TRANSFER_ERROR: Status = Status::generic(0x04);
    /// An internal error of the controller.
    pub const INTERNAL_ERROR: Status = Status::generic(0x06);
    /// The host requested that this command be aborted.
    pub const ABORT_REQUESTED: Status = Status::generic(0x07);
    /// The other command of a fused operation failed.
    pub const FAILED_FUSED: Status = Status::generic(0x09);
    /// The other command of a fused operation is missing or not adjacent.
    pub const MISSING_FUSED: Status = Status::generic(0x0a).do_not_retry();
    /// The namespace does not exist, or its format is not usable.
    pub const INVALID_NAMESPACE: Status = Status::generic(0x0b).do_not_retry();
    /// The command is not allowed in the state the controller or the queue is in.
    pub const COMMAND_SEQUENCE_ERROR: Status = Status::generic(0x0c).do_not_retry();
    /// The length of the SGL does not match the command or its data.
    pub const DATA_SGL_LENGTH_INVALID: Status = Status::generic(0x0f).do_not_retry();
    /// This type of SGL descriptor is not supported here.
    pub const SGL_DESCRIPTOR_TYPE_INVALID: Status = Status::generic(0x11).do_not_retry();
    /// An operation that must be atomic has more blocks than the atomic write unit.
    pub const ATOMIC_WRITE_UNIT_EXCEEDED: Status = Status::generic(0x14).do_not_retry();
    /// The offset in the SGL descriptor is not supported.
    pub const SGL_OFFSET_INVALID: Status = Status::generic(0x16).do_not_retry();
    /// A 64-bit host identifier was used where only 128-bit ones are supported, or the other way round.
    pub const HOST_ID_INCONSISTENT_FORMAT: Status = Status::generic(0x18).do_not_retry();
    /// Another host's Preempt and Abort aborted this command.
    pub const PREEMPTED_AND_ABORTED: Status = Status::generic(0x1b).do_not_retry();
    /// The keep-alive timeout is not supported: it is longer than the controller allows.
    pub const KEEP_ALIVE_TIMEOUT_INVALID: Status = Status::generic(0x1a).do_not_retry();
    /// The namespace is write protected.
    pub const WRITE_PROTECTED: Status = Status::generic(0x20).do_not_retry();
    /// The controller cannot complete the command now; the host may send it again.
    pub const COMMAND_INTERRUPTED: Status = Status::generic(0x21);
    /// A transient transport error: the data digest did not match.
    pub const TRANSIENT_TRANSPORT_ERROR: Status = Status::generic(0x22);
    /// Some blocks lie beyond the end of the namespace.
    pub const LBA_OUT_OF_RANGE: Status = Status::generic(0x80).do_not_retry();
    /// Not enough capacity.
    pub const CAPACITY_EXCEEDED: Status = Status::generic(0x81).do_not_retry();
    /// The namespace is not ready for the command yet.
    pub const NAMESPACE_NOT_READY: Status = Status::generic(0x82);
    /// The command conflicts with another host's reservation.
    pub const RESERVATION_CONFLICT: Status = Status::generic(0x83).do_not_retry();

    /// More outstanding Abort commands than the controller supports.
    pub const ABORT_LIMIT_EXCEEDED: Status = Status::command_specific(0x03);
    /// More outstanding Asynchronous Event Requests than the controller supports.
    pub const ASYNC_EVENT_LIMIT_EXCEEDED: Status = Status::command_specific(0x05).do_not_retry();
    /// The log page is not supported.
    pub const INVALID_LOG_PAGE: Status = Status::command_specific(0x09).do_not_retry();
    /// The feature cannot be saved.
    pub const FEATURE_NOT_SAVEABLE: Status = Status::command_specific(0x0d).do_not_retry();
    /// The feature cannot be changed.
    pub const FEATURE_NOT_CHANGEABLE: Status = Status::command_specific(0x0e).do_not_retry();
    /// The feature belongs to the controller, not to a namespace.
    pub const FEATURE_NOT_NAMESPACE_SPECIFIC: Status = Status::command_specific(0x0f).do_not_retry();

    /// Connect: the record format is not supported.
    pub const CONNECT_INCOMPATIBLE_FORMAT: Status = Status::command_specific(0x80).do_not_retry();
    /// Connect: no controller is free.
    pub const CONNECT_CONTROLLER_BUSY: Status = Status::command_specific(0x81);
    /// Connect: a parameter is wrong; the result says which.
    pub const CONNECT_INVALID_PARAMETERS: Status = Status::command_specific(0x82).do_not_retry();
    /// Connect: this host has no access to the subsystem.
    pub const CONNECT_INVALID_HOST: Status = Status::command_specific(0x84).do_not_retry();

    /// The queue has to be authenticated before it accepts this command.
    pub const AUTHENTICATION_REQUIRED: Status = Status::command_specific(0x91).do_not_retry();

    /// A Copy has more ranges, or longer ones, than the controller supports.
    pub const COMMAND_SIZE_LIMIT_EXCEEDED: Status = Status::command_specific(0x83).do_not_retry();
    /// The source and destination of a Copy overlap.
    pub const OVERLAPPING_IO_RANGE: Status = Status::command_specific(0x87).do_not_retry();

    /// The media failed to write the data.
    pub const WRITE_FAULT: Status = Status::media(0x80);
    /// The media failed to read the data.
    pub const UNRECOVERED_READ_ERROR: Status = Status::media(0x81);
    /// Compare: the data differ.
    pub const COMPARE_FAILURE: Status = Status::media(0x85).do_not_retry();

    /// The path to the namespace failed inside the target; another path may work.
    pub const INTERNAL_PATH_ERROR: Status = Status::path(0x00);
    /// The namespace is permanently unreachable on this path.
    pub const ANA_PERSISTENT_LOSS: Status = Status::path(0x01);
    /// The namespace is not reachable on this path now.
    pub const ANA_INACCESSIBLE: Status = Status::path(0x02);
    /// The access state of the namespace is changing.
    pub const ANA_TRANSITION: Status = Status::path(0x03);

    /// A generic status that may be retried.
    pub const fn generic(sc: u8) -> Status {
        Status { sct: SCT_GENERIC, sc, dnr: false }
    }

    /// A command specific status that may be retried.
    pub const fn command_specific(sc: u8) -> Status {
        Status { sct: SCT_COMMAND_SPECIFIC, sc, dnr: false }
    }

    /// A media or data integrity status that may be retried.
    pub const fn media(sc: u8) -> Status {
        Status { sct: SCT_MEDIA, sc, dnr: false }
    }

    /// A path related status: a multipath host tries another path.
    pub const fn path(sc: u8) -> Status {
        Status { sct: SCT_PATH, sc, dnr: false }
    }

    /// The same status with Do Not Retry set.
    #[must_use]
    pub const fn do_not_retry(self) -> Status {
        Status { dnr: true, ..self }
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.sct == SCT_GENERIC && self.sc == 0
    }

    /// Whether both have the same type and code; Do Not Retry is ignored.
    pub const fn is(self, other: Status) -> bool {
        self.sct == other.sct && self.sc == other.sc
    }

    /// The 16-bit field of the completion, phase tag 0.
    pub const fn to_wire(self) -> u16 {
        (self.sc as u16) << SC_SHIFT
            | (self.sct as u16 & SCT_MASK) << SCT_SHIFT
            | (self.dnr as u16) << DNR_SHIFT
    }

    /// From the 16-bit field of the completion.
    pub const fn from_wire(field: u16) -> Status {
        Status {
            sct: (field >> SCT_SHIFT & SCT_MASK) as u8,
            sc: (field >> SC_SHIFT) as u8,
            dnr: field >> DNR_SHIFT != 0,
        }
    }
}

impl core::fmt::Debug for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Status(sct {:#x}, sc {:#04x}{})", self.sct, self.sc, if self.dnr { ", DNR" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_the_wire() {
        for status in [Status::SUCCESS, Status::INVALID_FIELD, Status::command_specific(0x82).do_not_retry()]
        {
            assert_eq!(Status::from_wire(status.to_wire()), status);
            assert_eq!(Status::from_wire(status.to_wire() | 1), status);
        }
        assert_eq!(Status::INVALID_OPCODE.to_wire(), 0x8002);
    }
}
