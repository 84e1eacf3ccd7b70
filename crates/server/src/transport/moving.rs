//! A connection on its way from one thread to another.
//!
//! It belongs to no reactor meanwhile. It takes along the bytes that were received and not parsed.

use super::Connection;
use crate::account::ConnectionAccount;
use crate::payload::Payload;
use nvme::subsystem::Connected;
use nvme::tcp::TargetConnection;
use reactor::Reactor;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use units::Instant;

/// See the module.
pub(crate) struct Moving {
    socket: TcpStream,
    peer: SocketAddr,
    transport: TargetConnection<Payload>,
    unparsed: Vec<u8>,
}

impl Moving {
    /// A connection that was detached from its reactor.
    pub(super) fn new(
        socket: TcpStream,
        peer: SocketAddr,
        transport: TargetConnection<Payload>,
        unparsed: Vec<u8>,
    ) -> Moving {
        Moving { socket, peer, transport, unparsed }
    }

    /// The other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sets up the queue as its Connect was granted.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        super::connection::set_up(&mut self.transport, connected);
    }

    /// The connection on the reactor of this thread, with its Connect command, which was delivered elsewhere and will be answered
    /// here; and bytes to parse.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub(crate) fn arrive(
        self,
        now: Instant,
        account: Arc<ConnectionAccount>,
        reactor: &mut Reactor,
    ) -> io::Result<(Connection, Vec<u8>)> {
        let token = reactor.add_socket(self.socket)?;
        let connection = Connection::with_delivered(now, token, self.peer, self.transport, account);
        Ok((connection, self.unparsed))
    }
}
