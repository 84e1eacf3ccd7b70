//! Connections: the only place that knows sockets and PDUs.
//!
//! ```text
//!   accepted ─► opening (the first byte: which protocol) ─► Connection ─► Moving ─► Connection on another thread
//!                                                            └ [secured] TLS, between the socket and NVMe/TCP
//! ```
//!
//! Everything outside of this folder handles commands, answers and events. A [`Connection`] is tied to the reactor of its thread; a
//! [`Moving`] is the same connection on its way to another thread. Another transport is another file here, and a case of these types.

mod connection;
mod moving;
mod opening;
mod secured;

pub(crate) use connection::{Connection, Events};
pub(crate) use moving::Moving;
pub(crate) use opening::Protocol;

use crate::proof::Refusal;
use std::fmt;

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fatal {
    /// One end has violated NVMe/TCP.
    Protocol(nvme::tcp::Fatal),
    /// TLS has failed.
    Tls(tls::Broken),
}

impl Fatal {
    /// Whether the host is told why: then the connection ends by itself when everything was sent. After another error it must be closed.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Fatal::Protocol(nvme::tcp::Fatal::Violation(_)))
    }

    /// The reason that is counted, if TLS has failed after the handshake.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Fatal::Protocol(_) => None,
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
        }
    }
}
