//! Connections: the only place that knows sockets and PDUs, queue pairs and messages.
//!
//! ```text
//!   accepted ─► opening (the first byte: which protocol) ─► Connection ─► Moving ─► Connection on another thread
//!   request of a queue pair ──────────────────────────────────┘ └ [secured] TLS, between the socket and NVMe/TCP
//! ```
//!
//! Everything outside of this folder handles commands, answers and events. A [`Connection`] is tied to the reactor of its thread; a
//! [`Moving`] is the same connection on its way to another thread. `tcp` and `rdma` are the two transports.

mod connection;
mod moving;
mod opening;
mod rdma;
mod secured;
mod tcp;

pub(crate) use connection::Connection;
pub(crate) use moving::Moving;
pub(crate) use opening::Protocol;
pub(crate) use rdma::{Opening, RdmaMoving};
pub(crate) use tcp::TcpConnection;

use crate::payload::Payload;
use crate::proof::Refusal;
use nvme::queue::TargetEvent;
use nvme::rdma::RdmaFatal;
use std::fmt;

/// Commands and other events of a connection.
pub(crate) type Events = Vec<TargetEvent<Payload>>;

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fatal {
    /// One end has violated NVMe/TCP.
    Protocol(nvme::tcp::Fatal),
    /// TLS has failed.
    Tls(tls::Broken),
    /// The host has violated NVMe/RDMA.
    Messages(RdmaFatal),
    /// Work of a queue pair has failed, or cannot be posted.
    Rdma(String),
    /// The host has disconnected.
    ClosedByHost,
}

impl Fatal {
    /// Whether the host is told why: then the connection ends by itself when everything was sent. After another error it must be closed.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Fatal::Protocol(nvme::tcp::Fatal::Violation(_)))
    }

    /// The reason that is counted, if TLS has failed after the handshake.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Fatal::Protocol(_) | Fatal::Messages(_) | Fatal::Rdma(_) | Fatal::ClosedByHost => None,
            Fatal::Tls(tls::Broken::KeyUpdates) => Some(Refusal::TlsKeyUpdates),
            Fatal::Tls(_) => Some(Refusal::TlsRecord),
        }
    }
}

impl From<nvme::tcp::Fatal> for Fatal {
    fn from(fatal: nvme::tcp::Fatal) -> Fatal {
        Fatal::Protocol(fatal)
    }
}

impl From<RdmaFatal> for Fatal {
    fn from(fatal: RdmaFatal) -> Fatal {
        Fatal::Messages(fatal)
    }
}

impl From<tls::Broken> for Fatal {
    fn from(broken: tls::Broken) -> Fatal {
        Fatal::Tls(broken)
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fatal::Protocol(fatal) => fatal.fmt(f),
            Fatal::Tls(broken) => broken.fmt(f),
            Fatal::Messages(fatal) => fatal.fmt(f),
            Fatal::Rdma(error) => error.fmt(f),
            Fatal::ClosedByHost => f.write_str("closed by the host"),
        }
    }
}
