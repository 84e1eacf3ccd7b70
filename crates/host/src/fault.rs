//! Why a controller cannot be used: what happened, to what, and what to do about it.
//!
//! There are two kinds of [`Fault`]. After one that may pass (a lost connection, a target that does not
//! answer), the host tries again later. After one that will not pass (an unknown subsystem, a host without
//! access), it gives the controller up at once.

use auth::Explanation;
use nvme::host::{ConnectRefusal, HostError};
use nvme::rdma::{RdmaHostFatal, Rejection};
use nvme::spec::Status;
use nvme::spec::nqn::Nqn;
use nvme::tcp::Fatal;
use reactor::rdma::RdmaError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use units::Nanos;

/// The cause that ended an attempt or a connection.
#[derive(Clone, Debug)]
pub enum Fault {
    /// No connection could be made.
    Unreachable(Arc<io::Error>),
    /// The target closed the connection.
    Closed,
    /// The connection failed.
    Broken(Arc<io::Error>),
    /// One end violated the protocol.
    Protocol(Fatal),
    /// The target violated NVMe/RDMA.
    Messages(RdmaHostFatal),
    /// The options are not those of a controller that is reached by RDMA: it has none of these.
    NotByRdma(&'static str),
    /// This machine cannot use RDMA.
    NoRdma(RdmaError),
    /// The target rejected a queue pair.
    Rejected(Rejection),
    /// The target accepted a queue pair, but not as NVMe/RDMA does.
    NotAccepted,
    /// The RDMA device of this machine, or the kernel, does not do what is asked of it.
    Device(Arc<io::Error>),
    /// The target completed a command that is not outstanding.
    UnknownCommand(u16),
    /// The target reported success for a read, or a report of reservations, but sent fewer bytes than it has.
    ShortRead {
        /// Bytes received.
        received: u32,
        /// Bytes that were to come.
        expected: u32,
    },
    /// The target did not accept the requested digests.
    NoDigests,
    /// The controller was not ready in time: the limit, and the step it was waiting for.
    NotReady(Nanos, &'static str),
    /// A command was not answered in time: the limit, and the command.
    Silent(Nanos, &'static str),
    /// The target refused a Connect.
    Refused(ConnectRefusal),
    /// The target asks for a proof, and this host has no key.
    NoKey,
    /// The system gives no random bytes.
    NoRandomness(String),
    /// The target refused a command of the proof.
    ProofCommand(Status),
    /// The proof has failed, on either side.
    Unproved(Explanation),
    /// TLS has failed.
    Tls(tls::Broken),
    /// The target asks for no proof, so it has not proved itself, and this host has a key by which it should.
    ControllerUnproved,
    /// The target asks for no proof, of which this host is to make its key for TLS.
    NotConcatenated,
    /// The controller cannot be used.
    Controller(HostError),
}

impl From<HostError> for Fault {
    fn from(error: HostError) -> Fault {
        match error {
            HostError::ConnectRefused(refusal) => Fault::Refused(refusal),
            error => Fault::Controller(error),
        }
    }
}

impl Fault {
    /// Whether another try may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Fault::Refused(ConnectRefusal::Busy) => true,
            Fault::Refused(ConnectRefusal::Other(status))
            | Fault::Controller(HostError::Failed(_, status)) => !status.dnr,
            Fault::NoRdma(RdmaError::NoDevice | RdmaError::NoProvider { .. })
            | Fault::Rejected(Rejection::NoResources) => true,
            Fault::Refused(_)
            | Fault::NoRdma(_)
            | Fault::Rejected(_)
            | Fault::NotByRdma(_)
            | Fault::NoDigests
            | Fault::NoKey
            | Fault::Unproved(_)
            | Fault::ControllerUnproved
            | Fault::NotConcatenated
            | Fault::Tls(tls::Broken::Handshake(_) | tls::Broken::Unwanted(_))
            | Fault::Controller(HostError::Lacking(_)) => false,
            Fault::ProofCommand(status) => !status.dnr,
            // The limit of locked memory stays.
            Fault::Device(error) => error.kind() != io::ErrorKind::OutOfMemory,
            Fault::Unreachable(_)
            | Fault::Closed
            | Fault::Broken(_)
            | Fault::Protocol(_)
            | Fault::Messages(_)
            | Fault::NotAccepted
            | Fault::UnknownCommand(_)
            | Fault::ShortRead { .. }
            | Fault::NotReady(..)
            | Fault::Silent(..)
            | Fault::NoRandomness(_)
            | Fault::Tls(_)
            | Fault::Controller(_) => true,
        }
    }

    /// Advice for the user, if the message does not contain it.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Fault::Unreachable(error) if is_out_of_descriptors(error) => Some(
                "this process has too many files and connections open: use fewer connections, or raise the limit (ulimit -n)",
            ),
            Fault::Unreachable(_) => {
                Some("check that the target is running and that this is its address and port")
            }
            Fault::Protocol(_) | Fault::UnknownCommand(_) | Fault::ShortRead { .. } => {
                Some("check that an NVMe/TCP target listens there; if so, this host or the target has a bug")
            }
            Fault::Messages(_) | Fault::NotAccepted => {
                Some("check that an NVMe/RDMA target listens there; if so, this host or the target has a bug")
            }
            Fault::NotByRdma(_) => Some("leave them out, or connect by TCP"),
            Fault::Rejected(rejection) => advice_on(*rejection),
            Fault::NoDigests => Some("turn digests on at the target, or turn them off here"),
            Fault::NoKey => {
                Some("give this host its key (--dhchap-key-file), or connect with TLS (--tls-key-file)")
            }
            Fault::Unproved(Explanation::SecureChannel) => Some(
                "the target has to have concat = true and TLS on for this subsystem; or, without --concat, it asks for TLS",
            ),
            Fault::Unproved(_) => Some(
                "compare the fingerprints of the keys at both ends (gimbal key show); the target's log says more",
            ),
            Fault::Tls(tls::Broken::Handshake(_)) => Some(
                "check that the target has TLS on for this subsystem and this host's tls_key (gimbal key show compares fingerprints); its log says which it was",
            ),
            Fault::ControllerUnproved => Some(
                "write a [[host]] table with this host's keys at the target; or leave the key of the controller out here, if it need not prove itself",
            ),
            Fault::NotConcatenated => Some(
                "write concat = true into [security] and a [[host]] table with this host's dhchap_key at the target",
            ),
            Fault::Refused(_)
            | Fault::NoRdma(_)
            | Fault::Device(_)
            | Fault::Controller(HostError::Lacking(_)) => None,
            Fault::Closed
            | Fault::Broken(_)
            | Fault::Silent(..)
            | Fault::NotReady(..)
            | Fault::NoRandomness(_)
            | Fault::ProofCommand(_)
            | Fault::Tls(_)
            | Fault::Controller(_) => Some("check the target's log and the network"),
        }
    }
}

/// Advice after a rejection.
fn advice_on(rejection: Rejection) -> Option<&'static str> {
    Some(match rejection {
        Rejection::HostSends => {
            "use a smaller queue depth here (gimbal bench: --iodepth), or allow a larger one at the target"
        }
        Rejection::QueueId => "use fewer IO queues (gimbal bench: --numjobs)",
        Rejection::NoResources => "the target's log says what it is short of",
        Rejection::InboundReads | Rejection::OutboundReads => {
            "an RDMA device of this host or of the target cannot have its memory read by the other end"
        }
        Rejection::Length | Rejection::Format | Rejection::HostReceives => {
            "this host or the target has a bug"
        }
    })
}

/// Whether this machine, and not the target, is the reason.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    // errno(3), the same on every architecture of Linux.
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unreachable(error) => write!(f, "cannot connect: {error}"),
            Fault::Closed => f.write_str("the target closed the connection"),
            Fault::Broken(error) => write!(f, "the connection failed: {error}"),
            Fault::Protocol(fatal) => fatal.fmt(f),
            Fault::Messages(fatal) => fatal.fmt(f),
            Fault::NotByRdma(what) => write!(f, "{what} cannot be had by RDMA"),
            Fault::NoRdma(error) => error.fmt(f),
            Fault::Rejected(rejection) => write!(f, "the target rejected the queue pair: {rejection}"),
            Fault::NotAccepted => {
                f.write_str("the target accepted the queue pair, but not in the way of NVMe/RDMA")
            }
            Fault::Device(error) => write!(f, "RDMA fails on this machine: {error}"),
            Fault::UnknownCommand(cid) => {
                write!(f, "the target completed command {cid:#06x}, which is not outstanding")
            }
            Fault::ShortRead { received, expected } => {
                write!(f, "the target reported success for a read but sent {received} of {expected} bytes")
            }
            Fault::NoDigests => f.write_str("the target did not accept the requested digests"),
            Fault::NotReady(waited, what) => write!(f, "not ready within {waited}: {what}"),
            Fault::Silent(waited, what) => write!(f, "no answer to {what} within {waited}"),
            Fault::Refused(refusal) => refusal.fmt(f),
            Fault::NoKey => f.write_str("the target asks for a proof of who this host is"),
            Fault::NoRandomness(error) => write!(f, "the system gives no random bytes: {error}"),
            Fault::ProofCommand(status) => {
                write!(f, "the target answered {status} to an authentication command")
            }
            Fault::Unproved(explanation) => write!(f, "the proof of identity has failed: {explanation}"),
            Fault::Tls(broken) => broken.fmt(f),
            Fault::ControllerUnproved => {
                f.write_str("the target has not proved that it has the key of the controller")
            }
            Fault::NotConcatenated => f.write_str(
                "the target asks for no proof of who this host is, so no key for TLS can be made of it",
            ),
            Fault::Controller(error) => error.fmt(f),
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
    /// This host.
    pub host: Nqn,
    /// Tries since the controller was last ready.
    pub tries: u32,
    /// The cause that ended the last try.
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
        write!(f, ": {fault}")?;
        fault.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for ConnectError {}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::host::Doing;
    use nvme::spec::Status;

    #[test]
    fn an_error_says_what_happened_to_what_and_what_to_do() {
        let error = ConnectError {
            address: ([127, 0, 0, 1], 4420).into(),
            subsystem: Nqn::new("nqn.test:missing").expect("a name"),
            host: Nqn::new("nqn.test:me").expect("a name"),
            tries: 1,
            fault: Fault::Refused(ConnectRefusal::of(Status::CONNECT_INVALID_PARAMETERS, 0x10100)),
        };
        assert_eq!(
            error.to_string(),
            "nqn.test:missing at 127.0.0.1:4420 (as host nqn.test:me): the target has no subsystem with this NQN; \
             use discovery to list its subsystems"
        );
        assert!(!error.fault.may_pass());
    }

    #[test]
    fn only_faults_that_may_pass_are_tried_again() {
        let refused = |status, dw0| Fault::Refused(ConnectRefusal::of(status, dw0)).may_pass();
        assert!(refused(Status::CONNECT_CONTROLLER_BUSY, 0));
        assert!(!refused(Status::CONNECT_INVALID_HOST, 0));
        assert!(!refused(Status::CONNECT_INVALID_PARAMETERS, 42));
        assert!(
            Fault::Closed.may_pass()
                && Fault::Unreachable(Arc::new(io::ErrorKind::ConnectionRefused.into())).may_pass()
        );
        let failed = |status| Fault::from(HostError::Failed(Doing::Configuring, status)).may_pass();
        assert!(failed(Status::INTERNAL_ERROR) && !failed(Status::INVALID_OPCODE));
    }
}
