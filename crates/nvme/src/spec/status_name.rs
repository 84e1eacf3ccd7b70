//! A status as the specification calls it, for logs and messages: `Capacity Exceeded (sct 0x0, sc 0x81, do
//! not retry)`.
//!
//! The numbers follow the name, because two statuses may share one name: a code of 80h or above of type 1h
//! means one thing after a Fabrics command and another after an IO. The status alone does not tell which, so
//! both names are shown.
//!
//! Holds: every status that this crate sends has a name (`every_status_that_is_sent_has_a_name`).
//! NVM Express Base Specification: "Status Code"; NVM Command Set Specification: "Status Codes".

use super::status::{SCT_COMMAND_SPECIFIC, SCT_GENERIC, SCT_MEDIA, SCT_PATH, Status};
use core::fmt;

/// Status code type of vendor specific statuses.
const SCT_VENDOR: u8 = 7;

impl Status {
    /// The name in the specification.
    pub const fn name(self) -> Option<&'static str> {
        match self.sct {
            SCT_GENERIC => generic(self.sc),
            SCT_COMMAND_SPECIFIC => command_specific(self.sc),
            SCT_MEDIA => media(self.sc),
            SCT_PATH => path(self.sc),
            SCT_VENDOR => Some("Vendor Specific"),
            _ => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { sct, sc, dnr } = *self;
        let retry = if dnr { ", do not retry" } else { "" };
        write!(f, "{} (sct {sct:#x}, sc {sc:#04x}{retry})", self.name().unwrap_or("unknown status"))
    }
}

const fn generic(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "Successful Completion",
        0x01 => "Invalid Command Opcode",
        0x02 => "Invalid Field in Command",
        0x03 => "Command ID Conflict",
        0x04 => "Data Transfer Error",
        0x05 => "Commands Aborted due to Power Loss Notification",
        0x06 => "Internal Error",
        0x07 => "Command Abort Requested",
        0x08 => "Command Aborted due to SQ Deletion",
        0x09 => "Command Aborted due to Failed Fused Command",
        0x0a => "Command Aborted due to Missing Fused Command",
        0x0b => "Invalid Namespace or Format",
        0x0c => "Command Sequence Error",
        0x0d => "Invalid SGL Segment Descriptor",
        0x0e => "Invalid Number of SGL Descriptors",
        0x0f => "Data SGL Length Invalid",
        0x10 => "Metadata SGL Length Invalid",
        0x11 => "SGL Descriptor Type Invalid",
        0x12 => "Invalid Use of Controller Memory Buffer",
        0x13 => "PRP Offset Invalid",
        0x14 => "Atomic Write Unit Exceeded",
        0x15 => "Operation Denied",
        0x16 => "SGL Offset Invalid",
        0x18 => "Host Identifier Inconsistent Format",
        0x19 => "Keep Alive Timer Expired",
        0x1a => "Keep Alive Timeout Invalid",
        0x1b => "Command Aborted due to Preempt and Abort",
        0x1c => "Sanitize Failed",
        0x1d => "Sanitize In Progress",
        0x1e => "SGL Data Block Granularity Invalid",
        0x1f => "Command Not Supported for Queue in CMB",
        0x20 => "Namespace is Write Protected",
        0x21 => "Command Interrupted",
        0x22 => "Transient Transport Error",
        0x23 => "Command Prohibited by Command and Feature Lockdown",
        0x24 => "Admin Command Media Not Ready",
        0x80 => "LBA Out of Range",
        0x81 => "Capacity Exceeded",
        0x82 => "Namespace Not Ready",
        0x83 => "Reservation Conflict",
        0x84 => "Format In Progress",
        _ => return None,
    })
}

const fn command_specific(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "Completion Queue Invalid",
        0x01 => "Invalid Queue Identifier",
        0x02 => "Invalid Queue Size",
        0x03 => "Abort Command Limit Exceeded",
        0x05 => "Asynchronous Event Request Limit Exceeded",
        0x06 => "Invalid Firmware Slot",
        0x07 => "Invalid Firmware Image",
        0x08 => "Invalid Interrupt Vector",
        0x09 => "Invalid Log Page",
        0x0a => "Invalid Format",
        0x0c => "Invalid Queue Deletion",
        0x0d => "Feature Identifier Not Saveable",
        0x0e => "Feature Not Changeable",
        0x0f => "Feature Not Namespace Specific",
        0x15 => "Namespace Insufficient Capacity",
        0x16 => "Namespace Identifier Unavailable",
        0x18 => "Namespace Already Attached",
        0x19 => "Namespace Is Private",
        0x1a => "Namespace Not Attached",
        0x1b => "Thin Provisioning Not Supported",
        0x1c => "Controller List Invalid",
        0x1f => "Invalid Controller Identifier",
        0x80 => "Connect Incompatible Format or Conflicting Attributes",
        0x81 => "Connect Controller Busy or Invalid Protection Information",
        0x82 => "Connect Invalid Parameters or Attempted Write to Read Only Range",
        0x83 => "Connect Restart Discovery or Command Size Limit Exceeded",
        0x84 => "Connect Invalid Host or Invalid Command Identifier",
        0x85 => "Incompatible Namespace or Format",
        0x86 => "Fast Copy Not Possible",
        0x87 => "Overlapping I/O Range",
        0x88 => "Namespace Not Reachable",
        0x89 => "Insufficient Resources",
        0x90 => "Discovery Restart",
        0x91 => "Authentication Required",
        _ => return None,
    })
}

const fn media(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x80 => "Write Fault",
        0x81 => "Unrecovered Read Error",
        0x82 => "End-to-end Guard Check Error",
        0x83 => "End-to-end Application Tag Check Error",
        0x84 => "End-to-end Reference Tag Check Error",
        0x85 => "Compare Failure",
        0x86 => "Access Denied",
        0x87 => "Deallocated or Unwritten Logical Block",
        0x88 => "End-to-end Storage Tag Check Error",
        _ => return None,
    })
}

const fn path(sc: u8) -> Option<&'static str> {
    Some(match sc {
        0x00 => "Internal Path Error",
        0x01 => "Asymmetric Access Persistent Loss",
        0x02 => "Asymmetric Access Inaccessible",
        0x03 => "Asymmetric Access Transition",
        0x60 => "Controller Pathing Error",
        0x70 => "Host Pathing Error",
        0x71 => "Command Aborted By Host",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_shown_by_its_name_and_its_numbers() {
        assert_eq!(
            Status::CAPACITY_EXCEEDED.to_string(),
            "Capacity Exceeded (sct 0x0, sc 0x81, do not retry)"
        );
        assert_eq!(Status::WRITE_FAULT.to_string(), "Write Fault (sct 0x2, sc 0x80)");
        assert_eq!(Status::command_specific(0xc7).to_string(), "unknown status (sct 0x1, sc 0xc7)");
    }

    #[test]
    fn every_status_that_is_sent_has_a_name() {
        // The constants of `status` are all the statuses that this crate sends.
        let source = include_str!("status.rs");
        let mut known = 0;
        for line in source.lines().filter(|line| line.contains(": Status = Status::")) {
            let made = line.split("Status::").nth(1).expect("a constructor");
            let (kind, rest) = made.split_once('(').expect("its code");
            let code = rest.split(')').next().and_then(|code| code.strip_prefix("0x")).expect("a code");
            let sc = u8::from_str_radix(code, 16).expect("hexadecimal");
            let status = match kind {
                "generic" => Status::generic(sc),
                "command_specific" => Status::command_specific(sc),
                "media" => Status::media(sc),
                "path" => Status::path(sc),
                other => panic!("{other}"),
            };
            assert!(status.name().is_some(), "{line} has no name");
            known += 1;
        }
        assert!(known > 30, "{known} constants were found");
    }
}
