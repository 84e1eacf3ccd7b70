//! Why a target does not start.

use crate::assemble::SubsystemError;
use crate::config::ConfigError;
use crate::device::DeviceError;
use crate::policy::PolicyError;
use crate::state::StateError;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a target does not start.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is wrong.
    Config(ConfigError),
    /// A device cannot be had.
    Device {
        /// Its name.
        device: String,
        /// Why.
        error: DeviceError,
    },
    /// A scheduler cannot be had.
    Policy {
        /// The device's name.
        device: String,
        /// Why.
        error: PolicyError,
    },
    /// A subsystem cannot be had.
    Subsystem {
        /// Its name.
        nqn: String,
        /// Why.
        error: SubsystemError,
    },
    /// The state directory, or a file in it, does not serve.
    State(StateError),
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system answered.
        error: io::Error,
    },
    /// The backend cannot be had.
    Backend(io::Error),
    /// A thread cannot be had.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(error) => write!(f, "{error}"),
            StartError::Device { device, error } => write!(f, "device {device:?}: {error}"),
            StartError::Policy { device, error } => write!(f, "device {device:?}: {error}"),
            StartError::Subsystem { nqn, error } => write!(f, "subsystem {nqn}: {error}"),
            StartError::State(error) => write!(f, "{error}"),
            StartError::Listen { address, error } => {
                write!(f, "cannot listen on {address}: {error}")?;
                match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; is another target running there? (ss -ltnp says who listens)")
                    }
                    io::ErrorKind::PermissionDenied => f.write_str(
                        "; ports below 1024 are for root, or for who has CAP_NET_BIND_SERVICE: NVMe/TCP's own is 4420",
                    ),
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("; no interface of this machine has this address (ip address lists those there are)")
                    }
                    _ => Ok(()),
                }
            }
            StartError::Backend(error) => {
                write!(f, "io_uring cannot be used: {error}; write backend = \"auto\" or \"epoll\"")
            }
            StartError::Thread(error) => {
                write!(f, "a thread cannot be started: {error}; check the limits of the process")
            }
        }
    }
}

impl std::error::Error for StartError {}
