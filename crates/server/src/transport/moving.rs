//! A connection on its way from one thread to another.
//!
//! It belongs to no reactor meanwhile. It takes along the bytes that were received and not parsed, and its TLS.

use super::Connection;
use super::connection::{allow_by_controller, set_up_queue};
use super::secured::Secured;
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
    /// Commands that are not answered: Connect, unless it was answered before.
    delivered: usize,
    /// Bytes that were received and not parsed: plaintext.
    held: Vec<u8>,
    secured: Option<Box<Secured>>,
}

/// The state that moves along.
pub(super) struct Carried {
    pub(super) transport: TargetConnection<Payload>,
    pub(super) delivered: usize,
    pub(super) held: Vec<u8>,
    pub(super) secured: Option<Box<Secured>>,
}

impl Moving {
    /// A connection that was detached from its reactor.
    pub(super) fn new(socket: TcpStream, peer: SocketAddr, carried: Carried) -> Moving {
        let Carried { transport, delivered, held, secured } = carried;
        Moving { socket, peer, transport, delivered, held, secured }
    }

    /// The other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sets up the queue as its Connect was granted. One whose Connect was answered before has its size already.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        if self.delivered > 0 {
            set_up_queue(&mut self.transport, connected.entries, connected.flow_control_disabled);
        } else {
            self.transport.allow_transfers();
        }
        allow_by_controller(&mut self.transport, connected);
    }

    /// The connection on the reactor of this thread, with its Connect command, which will be answered here unless it was answered
    /// before. If it [has unparsed bytes](Connection::has_unparsed), they are the next to be parsed.
    ///
    /// # Errors
    /// If the system has no resources for it.
    pub(crate) fn arrive(
        self,
        now: Instant,
        account: Arc<ConnectionAccount>,
        reactor: &mut Reactor,
    ) -> io::Result<Connection> {
        let token = reactor.add_socket(self.socket)?;
        let Moving { transport, delivered, held, secured, .. } = self;
        let carried = Carried { transport, delivered, held, secured };
        Ok(Connection::carried(now, token, self.peer, carried, account))
    }
}
