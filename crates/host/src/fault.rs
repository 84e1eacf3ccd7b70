//! Why a controller is not to be had: what happened, to what, and what to do about it.
//!
//! Two kinds. A [`Fault`] that may pass (a lost connection, a silent target) is met with another try after a while; one that
//! will not (an unknown subsystem, a host that is not allowed) gives the controller up at once.

use nvme::connection::Fatal;
use nvme::spec::Status;
use nvme::spec::connect::Culprit;
use nvme::spec::nqn::Nqn;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use units::Nanos;

/// What ended an attempt or a connection.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No connection could be made.
    Unreachable(Arc<io::Error>),
    /// The target closed the connection.
    Closed,
    /// The connection broke.
    Broken(Arc<io::Error>),
    /// One end broke the protocol.
    Protocol(Fatal),
    /// The controller answered something that makes no sense.
    Nonsense(Nonsense),
    /// The controller was not ready in time: how long, and what was waited for.
    NotReady(Nanos, &'static str),
    /// A command got no answer in time: how long, and which.
    Silent(Nanos, &'static str),
    /// The target refused a Connect.
    Refused(ConnectRefusal),
    /// The controller failed a command that is needed: which, and how.
    Failed(&'static str, Status),
    /// The controller lacks something that we need.
    Lacking(&'static str),
}

/// Answers that no controller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// A completion of a command that is not out.
    UnknownCommand(u16),
    /// A success with less data than the command asks for.
    ShortData {
        /// Bytes that came.
        received: u32,
        /// Bytes that belong there.
        expected: u32,
    },
    /// An IO queue of another controller than asked.
    OtherController {
        /// The controller of the admin queue.
        expected: u16,
        /// The one that answered.
        got: u16,
    },
}

/// Why a target does not let us in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// It has no such subsystem.
    UnknownSubsystem,
    /// The subsystem does not admit this host.
    HostNotAllowed,
    /// No controller is free.
    Busy,
    /// It wants authentication, which we do not have.
    AuthenticationRequired,
    /// Another field of the command is not to its liking.
    Parameter(Culprit),
    /// Something else.
    Status(Status),
}

impl ConnectRefusal {
    /// From the answer to a Connect that did not succeed.
    pub(crate) fn of(status: Status, dw0: u32) -> ConnectRefusal {
        if status.is(Status::CONNECT_INVALID_PARAMETERS) {
            match Culprit::from_dw0(dw0) {
                Culprit::SUBSYSTEM_NQN => ConnectRefusal::UnknownSubsystem,
                culprit => ConnectRefusal::Parameter(culprit),
            }
        } else if status.is(Status::CONNECT_INVALID_HOST) {
            ConnectRefusal::HostNotAllowed
        } else if status.is(Status::CONNECT_CONTROLLER_BUSY) {
            ConnectRefusal::Busy
        } else {
            ConnectRefusal::Status(status)
        }
    }
}

impl Fault {
    /// Whether another try may do better.
    pub fn may_pass(&self) -> bool {
        match self {
            Fault::Refused(ConnectRefusal::Busy) => true,
            Fault::Refused(ConnectRefusal::Status(status)) | Fault::Failed(_, status) => !status.dnr,
            Fault::Refused(_) | Fault::Lacking(_) => false,
            Fault::Unreachable(_)
            | Fault::Closed
            | Fault::Broken(_)
            | Fault::Protocol(_)
            | Fault::Nonsense(_)
            | Fault::NotReady(..)
            | Fault::Silent(..) => true,
        }
    }

    /// What to do about it.
    fn advice(&self) -> &'static str {
        match self {
            Fault::Unreachable(_) => "is the target running, and is this its address and port?",
            Fault::Closed | Fault::Broken(_) | Fault::Silent(..) | Fault::NotReady(..) => {
                "look at the target's log and at the network between"
            }
            Fault::Protocol(_) | Fault::Nonsense(_) => {
                "is an NVMe/TCP target listening there? If so, this is a bug in one of the two"
            }
            Fault::Refused(ConnectRefusal::UnknownSubsystem) => {
                "check the subsystem NQN; discovery lists what the target has"
            }
            Fault::Refused(ConnectRefusal::HostNotAllowed) => {
                "add this host's NQN to those that the subsystem admits, or use an admitted one"
            }
            Fault::Refused(ConnectRefusal::Busy) => {
                "disconnect other controllers, or raise the target's limit"
            }
            Fault::Refused(ConnectRefusal::AuthenticationRequired) => {
                "switch authentication off for this host, or use a host that supports it"
            }
            Fault::Refused(ConnectRefusal::Parameter(_) | ConnectRefusal::Status(_)) | Fault::Failed(..) => {
                "look at the target's log"
            }
            Fault::Lacking(_) => "use another target",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreachable(error) => write!(f, "no connection: {error}"),
            Fault::Closed => f.write_str("the target closed the connection"),
            Fault::Broken(error) => write!(f, "the connection broke: {error}"),
            Fault::Protocol(fatal) => fatal.fmt(f),
            Fault::Nonsense(nonsense) => nonsense.fmt(f),
            Fault::NotReady(waited, what) => write!(f, "not ready within {waited}: {what}"),
            Fault::Silent(waited, what) => write!(f, "no answer to a command ({what}) within {waited}"),
            Fault::Refused(refusal) => refusal.fmt(f),
            Fault::Failed(what, status) => write!(f, "{what} failed: {status:?}"),
            Fault::Lacking(what) => write!(f, "the controller does not support {what}"),
        }
    }
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nonsense::UnknownCommand(cid) => {
                write!(f, "the target completed command {cid:#06x}, which is not out")
            }
            Nonsense::ShortData { received, expected } => {
                write!(f, "the target reported success but sent {received} of {expected} bytes")
            }
            Nonsense::OtherController { expected, got } => {
                write!(f, "the target put an IO queue into controller {got}, not {expected}")
            }
        }
    }
}

impl fmt::Display for ConnectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectRefusal::UnknownSubsystem => f.write_str("the target has no such subsystem"),
            ConnectRefusal::HostNotAllowed => f.write_str("the subsystem does not admit this host"),
            ConnectRefusal::Busy => f.write_str("the target has no free controller"),
            ConnectRefusal::AuthenticationRequired => f.write_str("the target requires authentication"),
            ConnectRefusal::Parameter(culprit) => {
                write!(f, "the target rejects a field of Connect: {culprit:?}")
            }
            ConnectRefusal::Status(status) => write!(f, "the target rejects Connect: {status:?}"),
        }
    }
}

/// A controller that was given up.
#[derive(Clone, Debug)]
pub struct ConnectError {
    /// The target.
    pub address: SocketAddr,
    /// The subsystem.
    pub subsystem: Nqn,
    /// Who we were.
    pub host: Nqn,
    /// Tries since the controller was last up.
    pub tries: u32,
    /// What ended the last of them.
    pub fault: Fault,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectError { address, subsystem, host, tries, fault } = self;
        write!(f, "{} at {address}", subsystem.as_str())?;
        if matches!(fault, Fault::Refused(_)) {
            write!(f, " (as host {})", host.as_str())?;
        }
        if *tries > 1 {
            write!(f, ", given up after {tries} tries")?;
        }
        write!(f, ": {fault}; {}", fault.advice())
    }
}

impl std::error::Error for ConnectError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reads_what_happened_to_what_and_what_to_do() {
        let error = ConnectError {
            address: ([127, 0, 0, 1], 4420).into(),
            subsystem: Nqn::new("nqn.test:missing").expect("a name"),
            host: Nqn::new("nqn.test:me").expect("a name"),
            tries: 1,
            fault: Fault::Refused(ConnectRefusal::of(Status::CONNECT_INVALID_PARAMETERS, 0x10100)),
        };
        assert_eq!(
            error.to_string(),
            "nqn.test:missing at 127.0.0.1:4420 (as host nqn.test:me): the target has no such subsystem; \
             check the subsystem NQN; discovery lists what the target has"
        );
        assert!(!error.fault.may_pass());
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let refused = |status, dw0| Fault::Refused(ConnectRefusal::of(status, dw0)).may_pass();
        assert!(refused(Status::CONNECT_CONTROLLER_BUSY, 0));
        assert!(!refused(Status::CONNECT_INVALID_HOST, 0));
        assert!(!refused(Status::CONNECT_INVALID_PARAMETERS, 42));
        assert!(
            Fault::Closed.may_pass()
                && Fault::Unreachable(Arc::new(io::ErrorKind::ConnectionRefused.into())).may_pass()
        );
        assert!(Fault::Failed("Identify", Status::INTERNAL_ERROR).may_pass());
        assert!(!Fault::Failed("Identify", Status::INVALID_OPCODE).may_pass());
    }
}
