//! Discovery: the subsystems of a target, read by one blocking call.

use crate::engine::Engine;
use crate::event::Event;
use crate::fault::ConnectError;
use crate::options::ControllerOptions;
use crate::{Backend, Backoff, Keys};
use nvme::spec::connect::HostId;
use nvme::spec::discovery::{DiscoveryEntry, SecureChannel, SubsystemType, TransportType};
use nvme::spec::nqn::Nqn;
use std::io;
use std::net::SocketAddr;
use units::Bytes;

/// A subsystem that discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// Its NQN.
    pub subsystem: Nqn,
    /// The address that the target reports: an IP address, or other text.
    pub address: String,
    /// The port.
    pub port: Option<u16>,
    /// Whether it is reached with TLS only.
    pub needs_tls: bool,
}

impl Discovered {
    /// `None` if it is not a subsystem with namespaces, or not reached over this transport.
    pub(crate) fn from_entry(entry: &DiscoveryEntry, transport: TransportType) -> Option<Discovered> {
        let is_usable = entry.is_over(transport) && entry.subsystem_type() == Some(SubsystemType::Nvm);
        let needs_tls = entry.secure_channel() == SecureChannel::Required;
        let subsystem = entry.subsystem_nqn().filter(|_| is_usable)?;
        Some(Discovered { subsystem, address: entry.address(), port: entry.port(), needs_tls })
    }
}

/// Why discovery failed.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// An error of this machine.
    #[error("cannot start the IO backend (io_uring or epoll): {0}")]
    Io(io::Error),
    /// An error with the target.
    #[error("{0}")]
    Connect(Box<ConnectError>),
}

/// Asks the target at `address` once which subsystems are reached by this transport, with the keys of this host if the target may ask for them; without TLS if its key
/// has to be made first. Blocks for a few seconds at most.
pub fn discover(
    backend: Backend,
    (transport, address): (TransportType, SocketAddr),
    (host, host_id): (&Nqn, HostId),
    keys: Keys,
) -> Result<Vec<Discovered>, DiscoverError> {
    let mut engine = Engine::new(backend, Bytes::ZERO).map_err(DiscoverError::Io)?;
    let mut options = ControllerOptions::new(address, Nqn::discovery(), host.clone(), host_id);
    options.transport = transport;
    options.backoff = Backoff::NEVER_RETRY;
    options.keys = Keys { concat: false, ..keys };
    engine.discover(options);
    let mut found = Vec::new();
    loop {
        engine.wait(None).map_err(DiscoverError::Io)?;
        while let Some(event) = engine.next_event() {
            match event {
                Event::Discovered { subsystems, .. } => found = subsystems,
                Event::GaveUp { error, .. } => return Err(DiscoverError::Connect(error)),
                Event::Closed { .. } => return Ok(found),
                _ => {}
            }
        }
    }
}
