//! One NVMe/TCP connection, from either end: commands and their data out of a byte stream, and back into one.
//!
//! A connection is one queue pair. It knows nothing of what commands mean, only where their data goes:
//!
//!   `target`   bytes in -> Command { sqe, write data } -> the layer above -> reply [with read data] -> bytes out
//!   `host`     submit { sqe, write data | read buffer } -> bytes out ... bytes in -> Completed { cqe, read data }
//!
//! No sockets and no time: bytes are handed in as they come, PDUs are polled out when there is room. Everything is bounded by
//! the queue size, whatever the peer does. A peer that breaks the protocol ends the connection: a TermReq is queued and
//! `Fatal` returned, now and ever after.
//!
//! Shared here: `cid_table` finds a command by its identifier, `slots` holds what is under way.

mod cid_table;
pub mod host;
mod slots;
pub mod target;

pub use host::{HostConnection, HostEvent, HostOptions, Refusal, SubmitError, Transfer};
pub use target::{Cancel, FlowControl, Pause, TargetConnection, TargetEvent, TargetLimits};

use crate::pdu::Violation;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fatal {
    /// The peer broke the protocol. A TermReq saying so is waiting to be sent; close after it.
    Violation(Violation),
    /// The peer says that we did. Nothing more will be sent; close.
    Terminated {
        /// Fatal error status (FES) as received.
        status: u16,
        /// Fatal error information (FEI) as received.
        information: u32,
    },
}

impl core::fmt::Display for Fatal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Fatal::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Fatal::Terminated { status, information } => {
                write!(
                    f,
                    "the peer ended the connection: fatal error status {status:#x}, information {information:#x}"
                )
            }
        }
    }
}

impl core::error::Error for Fatal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_can_move_between_threads() {
        fn is_send<T: Send>() {}
        is_send::<TargetConnection<Vec<u8>>>();
        is_send::<HostConnection<Vec<u8>>>();
    }
}
