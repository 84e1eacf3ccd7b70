//! Authentication Send and Authentication Receive: a host and a controller exchange messages of a security protocol on a queue.
//!
//! ```text
//!   byte 41  SPSP0 = 01h     byte 42  SPSP1 = 01h     byte 43  SECP = E9h     bytes 44 to 47  TL (Send) or AL (Receive)
//! ```
//!
//! Holds: only the protocol of NVMe's authentication passes, with a length that the data descriptor has, too
//!        (`a_command_that_is_parsed_was_in_order`).
//! NVM Express Base Specification: "Authentication Send Command and Response", "Authentication Receive Command and Response".

use super::opcode::fabrics;
use super::{Sqe, Status};

/// SECP of authentication messages of NVMe over Fabrics.
const PROTOCOL: u32 = 0xe9;
/// SPSP1 and SPSP0.
const SPECIFIC: u32 = 0x0101;
/// The largest length of a message that is accepted, in bytes. The longest message of DH-HMAC-CHAP has less than 1,200.
const LENGTH_MAX: u32 = 16 << 10;

/// One of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationCommand {
    /// The host sends a message of this many bytes.
    Send {
        /// TL.
        length: u32,
    },
    /// The host asks for a message, and has room for this many bytes.
    Receive {
        /// AL.
        length: u32,
    },
}

impl AuthenticationCommand {
    /// The command, or the status that refuses it; `None` if it is another command.
    pub fn parse(sqe: &Sqe) -> Option<Result<AuthenticationCommand, Status>> {
        if !sqe.is_fabrics() {
            return None;
        }
        let length = sqe.cdw11();
        let command = match sqe.fctype() {
            fabrics::AUTHENTICATION_SEND => AuthenticationCommand::Send { length },
            fabrics::AUTHENTICATION_RECEIVE => AuthenticationCommand::Receive { length },
            _ => return None,
        };
        let names_protocol = sqe.cdw10() >> 8 == PROTOCOL << 16 | SPECIFIC;
        if !names_protocol || length == 0 || length > LENGTH_MAX {
            return Some(Err(Status::INVALID_FIELD));
        }
        // A length unlike the descriptor's leaves open which bytes are the message.
        if length != sqe.sgl_length() {
            return Some(Err(Status::INVALID_FIELD));
        }
        Some(Ok(command))
    }

    /// As a command, without its data descriptor.
    pub fn to_sqe(self) -> Sqe {
        let (fctype, length) = match self {
            AuthenticationCommand::Send { length } => (fabrics::AUTHENTICATION_SEND, length),
            AuthenticationCommand::Receive { length } => (fabrics::AUTHENTICATION_RECEIVE, length),
        };
        Sqe::fabrics(fctype).with_cdw10_15([PROTOCOL << 24 | SPECIFIC << 8, length, 0, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Direction, Sgl};
    use zerocopy::IntoBytes;

    fn with_data(sqe: Sqe, length: u32) -> Sqe {
        sqe.with_sgl(Sgl::InCapsule { offset: 0, length })
    }

    #[test]
    fn a_command_that_is_parsed_was_in_order() {
        let send = AuthenticationCommand::Send { length: 72 };
        let receive = AuthenticationCommand::Receive { length: 4096 };
        for (command, length) in [(send, 72), (receive, 4096)] {
            let sqe = with_data(command.to_sqe(), length);
            assert_eq!(&sqe.as_bytes()[41..44], &[0x01, 0x01, 0xe9]);
            assert_eq!(&sqe.as_bytes()[44..48], &length.to_le_bytes());
            assert_eq!(AuthenticationCommand::parse(&sqe), Some(Ok(command)));
            let refused = Some(Err(Status::INVALID_FIELD));
            assert_eq!(AuthenticationCommand::parse(&with_data(sqe, length - 1)), refused);
            for dword in [0xe900_0100, 0xe901_0000, 0xea01_0100, 0] {
                let other = sqe.with_cdw10_15([dword, length, 0, 0, 0, 0]);
                assert_eq!(AuthenticationCommand::parse(&other), refused, "{dword:#x}");
            }
            for length in [0, LENGTH_MAX + 1, u32::MAX] {
                let other = with_data(sqe.with_cdw10_15([0xe901_0100, length, 0, 0, 0, 0]), length);
                assert_eq!(AuthenticationCommand::parse(&other), refused, "{length}");
            }
        }
        assert_eq!(AuthenticationCommand::parse(&Sqe::new(0x05)), None);
        assert_eq!(AuthenticationCommand::parse(&Sqe::fabrics(fabrics::PROPERTY_GET)), None);
    }

    #[test]
    fn the_data_goes_where_the_command_says() {
        assert_eq!(AuthenticationCommand::Send { length: 1 }.to_sqe().direction(), Direction::ToController);
        assert_eq!(
            AuthenticationCommand::Receive { length: 1 }.to_sqe().direction(),
            Direction::FromController
        );
    }
}
