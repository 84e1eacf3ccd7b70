//! Why a host could not use a controller, in words that say what to do.

use crate::spec::Status;
use crate::spec::connect::Culprit;
use core::fmt;
use units::Nanos;

/// What a host was about when it failed.
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
    /// Set Features Number of Queues.
    AskingForQueues,
    /// Set Features Asynchronous Event Configuration.
    AskingForEvents,
    /// Reading the namespace list or a namespace.
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
    /// It has no subsystem of that name.
    UnknownSubsystem,
    /// This host may not use the subsystem.
    HostNotAllowed,
    /// No controller is free now.
    Busy,
    /// It wants the host to authenticate.
    AuthenticationRequired,
    /// It found another parameter wrong.
    InvalidParameter(Culprit),
    /// Something else.
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
                f.write_str("the target has no subsystem of that name; discovery lists those it has")
            }
            ConnectRefusal::HostNotAllowed => {
                f.write_str("the target does not allow this host NQN; add it to the subsystem's hosts")
            }
            ConnectRefusal::Busy => f.write_str("the target has no controller free; try again later"),
            ConnectRefusal::AuthenticationRequired => {
                f.write_str("the target demands authentication, which this host does not do")
            }
            ConnectRefusal::InvalidParameter(Culprit::Command(at)) => {
                write!(f, "the target finds byte {at} of the Connect command wrong")
            }
            ConnectRefusal::InvalidParameter(Culprit::Data(at)) => {
                write!(f, "the target finds byte {at} of the Connect data wrong")
            }
            ConnectRefusal::Other(status) => write!(f, "the target answered {status} to Connect"),
        }
    }
}

/// Why a host cannot go on with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// A queue was refused.
    ConnectRefused(ConnectRefusal),
    /// A command that has to succeed failed.
    Failed(Doing, Status),
    /// CSTS.CFS: the controller is broken.
    ControllerFatal,
    /// CSTS did not show what was waited for in the time that CAP.TO allows.
    NotReady(Nanos),
    /// The controller lacks something that cannot be done without.
    Lacking(&'static str),
    /// An answer has less data than its command must have.
    ShortData(Doing),
    /// The discovery log changed whenever it was read.
    DiscoveryUnsteady,
    /// A Keep Alive was not answered within the keep-alive timeout.
    KeepAliveTimeout(Nanos),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::ConnectRefused(refusal) => refusal.fmt(f),
            HostError::Failed(doing, status) => write!(f, "{doing} failed with {status}"),
            HostError::ControllerFatal => f.write_str("the controller reports a fatal state (CSTS.CFS)"),
            HostError::NotReady(waited) => write!(f, "the controller did not get ready in {waited}"),
            HostError::Lacking(what) => write!(f, "the controller lacks {what}"),
            HostError::ShortData(doing) => write!(f, "the answer to {doing} is too short"),
            HostError::DiscoveryUnsteady => f.write_str("the discovery log changed whenever it was read"),
            HostError::KeepAliveTimeout(timeout) => write!(f, "no answer to Keep Alive in {timeout}"),
        }
    }
}

impl core::error::Error for HostError {}
