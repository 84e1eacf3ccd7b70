//! Why a target does not start.

use crate::assemble::SubsystemError;
use crate::config::{ConfigError, Listen, Transport};
use crate::device::DeviceError;
use crate::policy::PolicyError;
use crate::state::StateError;
use std::io;

/// Why a target does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(ConfigError),
    /// A device cannot be used.
    #[error("device {device:?}: {error}")]
    Device {
        /// Its name.
        device: String,
        /// Why.
        error: DeviceError,
    },
    /// A scheduler cannot be made.
    #[error("device {device:?}: {error}")]
    Policy {
        /// The device's name.
        device: String,
        /// Why.
        error: PolicyError,
    },
    /// A subsystem cannot be made.
    #[error("subsystem {nqn}: {error}")]
    Subsystem {
        /// Its name.
        nqn: String,
        /// Why.
        error: SubsystemError,
    },
    /// TLS cannot be used.
    #[error("TLS cannot be used: {0}; free memory, or write tls = \"off\" and remove each tls_key")]
    Tls(tls::Broken),
    /// The state directory, or a file in it, cannot be used.
    #[error("{0}")]
    State(StateError),
    /// An address cannot be listened on.
    #[error("cannot listen on {listen}: {error}{}", listen_advice(.listen, .error))]
    Listen {
        /// The address.
        listen: Listen,
        /// The error of the system.
        error: io::Error,
    },
    /// The backend cannot be used.
    #[error("io_uring cannot be used: {0}; write backend = \"auto\" or \"epoll\"")]
    Backend(io::Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}; check the limits of the process")]
    Thread(io::Error),
}

/// Advice for an address that cannot be listened on.
fn listen_advice(listen: &Listen, error: &io::Error) -> &'static str {
    if listen.transport == Transport::Rdma {
        // What can be done is in these errors.
        return "";
    }
    match error.kind() {
        io::ErrorKind::AddrInUse => "; is another target running there? (ss -ltnp says who listens)",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE; the port of NVMe/TCP is 4420"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no interface of this machine has this address (`ip address` lists the addresses)"
        }
        _ => "",
    }
}
