//! How a command ended: status code type, status code, and whether asking again can help.
//!
//! Holds: a status survives the wire, whatever the phase tag says (`a_status_survives_the_wire`).
//! NVM Express Base Specification: "Status Field".

/// Status code type of command-independent statuses.
pub const SCT_GENERIC: u8 = 0;
/// Status code type of statuses whose meaning depends on the command.
pub const SCT_COMMAND_SPECIFIC: u8 = 1;

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
    /// The command did what was asked.
    pub const SUCCESS: Status = Status::generic(0x00);
    /// The opcode is reserved or not supported.
    pub const INVALID_OPCODE: Status = Status::generic(0x01).do_not_retry();
    /// A field has a value that is reserved or not supported.
    pub const INVALID_FIELD: Status = Status::generic(0x02).do_not_retry();
    /// The identifier is that of a command still outstanding on the queue.
    pub const COMMAND_ID_CONFLICT: Status = Status::generic(0x03).do_not_retry();
    /// Moving the data or metadata failed.
    pub const DATA_TRANSFER_ERROR: Status = Status::generic(0x04);
    /// Something inside the controller failed.
    pub const INTERNAL_ERROR: Status = Status::generic(0x06);
    /// The host asked for this command to be aborted.
    pub const ABORT_REQUESTED: Status = Status::generic(0x07);
    /// The length of the SGL does not suit the command or what came with it.
    pub const DATA_SGL_LENGTH_INVALID: Status = Status::generic(0x0f).do_not_retry();
    /// The SGL descriptor is of a type that is not supported there.
    pub const SGL_DESCRIPTOR_TYPE_INVALID: Status = Status::generic(0x11).do_not_retry();
    /// The offset in the SGL descriptor is not supported.
    pub const SGL_OFFSET_INVALID: Status = Status::generic(0x16).do_not_retry();
    /// The transport spoiled the data once (a data digest that does not fit).
    pub const TRANSIENT_TRANSPORT_ERROR: Status = Status::generic(0x22);

    /// A generic status that may be retried.
    pub const fn generic(sc: u8) -> Status {
        Status { sct: SCT_GENERIC, sc, dnr: false }
    }

    /// A command specific status that may be retried.
    pub const fn command_specific(sc: u8) -> Status {
        Status { sct: SCT_COMMAND_SPECIFIC, sc, dnr: false }
    }

    /// The same status, marked as pointless to retry.
    #[must_use]
    pub const fn do_not_retry(self) -> Status {
        Status { dnr: true, ..self }
    }

    /// Whether the command did what was asked.
    pub const fn is_success(self) -> bool {
        self.sct == SCT_GENERIC && self.sc == 0
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
