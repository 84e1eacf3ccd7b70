//! NVMe/TCP: both ends of a connection, over bytes.
//!
//! A connection is one queue pair. It does not know what commands mean, only where their data goes:
//!
//!   `target`   bytes in -> Command { sqe, write data } -> the layer above -> reply [with read data] -> bytes out
//!   `host`     submit { sqe, write data | read buffer } -> bytes out ... bytes in -> Completed { cqe, read data }
//!
//! There are no sockets and no clock: the caller passes in bytes as they arrive and polls PDUs out when there
//! is room. The queue size limits everything, whatever the peer does. A peer that violates the protocol ends
//! the connection: a TermReq is queued, and this call and all later ones return `Fatal`.
//!
//! `pdu` has the layouts, framing and digests. The part of the controller's end that no transport changes is
//! `crate::queue`.

pub mod host;
pub mod pdu;
pub mod target;

pub use crate::queue::{Refusal, SubmitError, Transfer};
pub use host::{HostConnection, HostEvent, HostOptions};
pub use target::{Pause, TargetConnection, TargetLimits};

use pdu::Violation;

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The peer violated the protocol. A TermReq that says so waits to be sent; close after sending it.
    #[error("the peer violated the protocol: {0}")]
    Violation(Violation),
    /// The peer sent a TermReq: it says that this end violated the protocol. Nothing more is sent; close.
    #[error("the peer ended the connection: fatal error status {status:#x}, information {information:#x}")]
    Terminated {
        /// Fatal error status (FES) as received.
        status: u16,
        /// Fatal error information (FEI) as received.
        information: u32,
    },
}

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
