//! A connection on its way from one thread to another.

use super::Connection;
use super::rdma::RdmaMoving;
use super::tcp::TcpMoving;
use crate::account::ConnectionAccount;
use nvme::spec::discovery::TransportType;
use nvme::subsystem::Connected;
use reactor::Reactor;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use units::Instant;

/// See the module.
pub(crate) enum Moving {
    /// Of NVMe/TCP, detached from its reactor.
    Tcp(Box<TcpMoving>),
    /// Of NVMe/RDMA.
    Rdma(Box<RdmaMoving>),
}

impl Moving {
    /// The other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        match self {
            Moving::Tcp(moving) => moving.peer,
            Moving::Rdma(moving) => moving.peer(),
        }
    }

    /// Its transport.
    pub(crate) fn transport(&self) -> TransportType {
        match self {
            Moving::Tcp(_) => TransportType::Tcp,
            Moving::Rdma(_) => TransportType::Rdma,
        }
    }

    /// Sets up the queue as its Connect was granted. One whose Connect was answered before has its size already.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        match self {
            Moving::Tcp(moving) => moving.set_up(connected),
            Moving::Rdma(moving) => moving.set_up(connected),
        }
    }

    /// The connection on the reactor of this thread, with its Connect command, which will be answered here unless it was answered
    /// before. If it [has unparsed input](Connection::has_unparsed), that is the next to be parsed.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub(crate) fn arrive(
        self,
        now: Instant,
        account: Arc<ConnectionAccount>,
        reactor: &mut Reactor,
    ) -> io::Result<Connection> {
        Ok(match self {
            Moving::Tcp(moving) => Connection::Tcp(Box::new(moving.arrive(now, account, reactor)?)),
            Moving::Rdma(moving) => Connection::Rdma(Box::new(moving.arrive(now, account, reactor)?)),
        })
    }
}
