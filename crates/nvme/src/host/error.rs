//! Why a host cannot use a controller, and what to do about it.

use crate::spec::Status;
use crate::spec::connect::Culprit;
use core::fmt;
use units::Nanos;

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Connecting a queue.
    Connect,
    /// Reading a controller property.
    ReadingProperty,
    /// Writing CC.
    Configuring,
    /// Identify Controller.
    IdentifyingController,
    /// Set Features, Number of Queues.
    AskingForQueues,
    /// Set Features, Asynchronous Event Configuration.
    AskingForEvents,
    /// Reading the namespace list or Identify Namespace.
    ReadingNamespaces,
    /// Reading a log page.
    ReadingLog,
    /// Keep Alive.
    KeepingAlive,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doing::Connect => "Connect",
            Doing::ReadingProperty => "Property Get",
            Doing::Configuring => "Property Set of CC",
            Doing::IdentifyingController => "Identify Controller",
            Doing::AskingForQueues => "Set Features Number of Queues",
            Doing::AskingForEvents => "Set Features Asynchronous Event Configuration",
            Doing::ReadingNamespaces => "Identify of the namespaces",
            Doing::ReadingLog => "Get Log Page",
            Doing::KeepingAlive => "Keep Alive",
        })
    }
}

/// Why a target refused a Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// It has no subsystem with this NQN.
    UnknownSubsystem,
    /// This host has no access to the subsystem.
    HostNotAllowed,
    /// No controller is free now.
    Busy,
    /// The host must authenticate.
    AuthenticationRequired,
    /// The host must set up a secure channel.
    SecureChannelRequired,
    /// It refused another parameter.
    InvalidParameter(Culprit),
    /// Any other status.
    Other(Status),
}

impl ConnectRefusal {
    /// From the status and dword 0 of the answer.
    pub fn of(status: Status, dw0: u32) -> ConnectRefusal {
        match status {
            _ if status.is(Status::CONNECT_INVALID_HOST) => ConnectRefusal::HostNotAllowed,
            _ if status.is(Status::CONNECT_CONTROLLER_BUSY) => ConnectRefusal::Busy,
            _ if status.is(Status::CONNECT_INVALID_PARAMETERS) => match Culprit::from_dw0(dw0) {
                Culprit::SUBSYSTEM_NQN => ConnectRefusal::UnknownSubsystem,
                culprit => ConnectRefusal::InvalidParameter(culprit),
            },
            _ => ConnectRefusal::Other(status),
        }
    }
}

impl fmt::Display for ConnectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectRefusal::UnknownSubsystem => {
                f.write_str("the target has no subsystem with this NQN; use discovery to list its subsystems")
            }
            ConnectRefusal::HostNotAllowed => {
                f.write_str("the target does not allow this host NQN: add it to the subsystem's hosts, or connect with TLS if the target asks for it (--tls-key-file)")
            }
            ConnectRefusal::Busy => f.write_str("the target has no free controller; try again later"),
            ConnectRefusal::AuthenticationRequired => {
                f.write_str("the target requires authentication; give this host its key (--dhchap-key-file)")
            }
            ConnectRefusal::SecureChannelRequired => {
                f.write_str("the target asks for a key for TLS that authentication generates, which this host cannot make: configure one at both ends (--tls-key-file)")
            }
            ConnectRefusal::InvalidParameter(Culprit::Command(at)) => {
                write!(f, "the target refused the parameter at byte {at} of the Connect command")
            }
            ConnectRefusal::InvalidParameter(Culprit::Data(at)) => {
                write!(f, "the target refused the parameter at byte {at} of the Connect data")
            }
            ConnectRefusal::Other(status) => write!(f, "the target answered {status} to Connect"),
        }
    }
}

/// Why a host cannot continue with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A queue was refused.
    #[error("{0}")]
    ConnectRefused(ConnectRefusal),
    /// A required command failed.
    #[error("{0} failed with {1}")]
    Failed(Doing, Status),
    /// CSTS.CFS: the controller has failed.
    #[error("the controller reports a fatal state (CSTS.CFS)")]
    ControllerFatal,
    /// CSTS did not reach the expected state within the time of CAP.TO.
    #[error("the controller was not ready within {0}")]
    NotReady(Nanos),
    /// The controller does not have something that this host needs.
    #[error("this host cannot use the controller: {0}")]
    Lacking(&'static str),
    /// An answer has less data than its command requires.
    #[error("the answer to {0} is too short")]
    ShortData(Doing),
    /// The discovery log changed every time it was read.
    #[error("the discovery log changed every time it was read")]
    DiscoveryUnsteady,
    /// A Keep Alive was not answered within the keep-alive timeout.
    #[error("no answer to Keep Alive within {0}")]
    KeepAliveTimeout(Nanos),
}
