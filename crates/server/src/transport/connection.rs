//! One connection on the reactor of its thread, over either transport.

use super::rdma::RdmaConnection;
use super::tcp::TcpConnection;
use super::{Events, Fatal, Moving};
use crate::account::{ConnectionAccount, Permit};
use crate::payload::{Intakes, Payload};
use nvme::queue::Cancel;
use nvme::spec::discovery::TransportType;
use nvme::spec::{ConnectCommand, Cqe, Status};
use nvme::subsystem::Connected;
use reactor::{IoBuffer, Reactor, Token};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tls::Spares;
use units::{Instant, Nanos};

/// See the module. The acceptor uses it before Connect, the pipelines and connection threads afterwards. A connection moves between
/// threads as a [`Moving`].
pub(crate) enum Connection {
    Tcp(Box<TcpConnection>),
    Rdma(Box<RdmaConnection>),
}

/// Does the same with a connection of either transport.
macro_rules! either {
    ($connection:expr, $it:ident => $body:expr) => {
        match $connection {
            Connection::Tcp($it) => $body,
            Connection::Rdma($it) => $body,
        }
    };
}

impl Connection {
    /// Its name on the reactor of this thread.
    #[inline]
    pub(crate) fn token(&self) -> Token {
        either!(self, it => it.token)
    }

    /// The other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        match self {
            Connection::Tcp(it) => it.peer,
            Connection::Rdma(it) => it.peer(),
        }
    }

    /// Its transport.
    pub(crate) fn transport(&self) -> TransportType {
        match self {
            Connection::Tcp(_) => TransportType::Tcp,
            Connection::Rdma(_) => TransportType::Rdma,
        }
    }

    /// The account for the memory that the connection holds.
    #[inline]
    pub(crate) fn account(&self) -> &Arc<ConnectionAccount> {
        either!(self, it => &it.account)
    }

    /// Has another account pay from now on.
    pub(crate) fn set_account(&mut self, account: Arc<ConnectionAccount>) {
        either!(self, it => it.account = account);
    }

    /// Whether memory was refused. Call `parse_held` when some was returned.
    #[inline]
    pub(crate) fn waits_for_memory(&self) -> bool {
        either!(self, it => it.waits_for_memory)
    }

    /// The connection, if it is one of NVMe/TCP.
    #[inline]
    pub(crate) fn tcp(&mut self) -> Option<&mut TcpConnection> {
        match self {
            Connection::Tcp(it) => Some(it),
            Connection::Rdma(_) => None,
        }
    }

    /// The connection, if it is one of NVMe/RDMA.
    pub(crate) fn rdma(&mut self) -> Option<&mut RdmaConnection> {
        match self {
            Connection::Tcp(_) => None,
            Connection::Rdma(it) => Some(it),
        }
    }

    /// Whether TLS was begun and its handshake is not done.
    pub(crate) fn is_securing(&self) -> bool {
        match self {
            Connection::Tcp(it) => it.is_securing(),
            Connection::Rdma(_) => false,
        }
    }

    /// Parses held input: after memory was returned, and after replies were sent.
    pub(crate) fn parse_held(
        &mut self,
        now: Instant,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        match self {
            Connection::Tcp(it) => it.parse_held(now, intakes, reactor, events),
            Connection::Rdma(it) => it.parse_held(now, intakes, reactor, events),
        }
    }

    /// Handles completions of a queue pair; see `RdmaConnection`.
    ///
    /// # Panics
    /// If it is one of NVMe/TCP.
    pub(crate) fn on_ready(
        &mut self,
        now: Instant,
        takes_commands: bool,
        (intakes, reactor): (&mut Intakes, &mut Reactor),
        events: &mut Events,
        give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Result<(), Fatal> {
        let rdma = self.rdma().expect("only queue pairs have channels");
        rdma.on_ready(now, takes_commands, intakes, reactor, events, give)
    }

    /// Whether there is input that was received and not parsed.
    pub(crate) fn has_unparsed(&self) -> bool {
        match self {
            Connection::Tcp(it) => it.has_unparsed(),
            Connection::Rdma(it) => it.has_unparsed(),
        }
    }

    /// The connection without its reactor, which has returned the `socket` of one of NVMe/TCP.
    pub(crate) fn into_moving(self, socket: Option<TcpStream>, reactor: &mut Reactor) -> Moving {
        match self {
            Connection::Tcp(it) => {
                Moving::Tcp(Box::new(it.into_moving(socket.expect("its socket was detached"))))
            }
            Connection::Rdma(it) => Moving::Rdma(Box::new(it.into_moving(reactor))),
        }
    }

    /// Sets up the queue as its Connect was granted.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        either!(self, it => it.set_up(connected));
    }

    /// The host has proved who it is, and its controller is on this thread.
    pub(crate) fn allow_transfers(&mut self) {
        either!(self, it => it.allow_transfers());
    }

    /// Sets up the queue for the commands of a proof, before its Connect is granted.
    pub(crate) fn set_up_for_proof(&mut self, connect: &ConnectCommand) {
        either!(self, it => it.set_up_for_proof(connect));
    }

    /// Completions of reads carry credits, so that each needs a response of its own, or not. Over RDMA each has one.
    pub(crate) fn set_credits(&mut self, is_enabled: bool) {
        if let Connection::Tcp(it) = self {
            it.set_credits(is_enabled);
        }
    }

    /// Marks a command that is answered only if an event happens.
    pub(crate) fn hold(&mut self, cid: u16) {
        either!(self, it => it.hold(cid));
    }

    /// Whether a command follows the one that is not answered yet.
    pub(crate) fn has_more_than_one(&self) -> bool {
        either!(self, it => it.has_more_than_one())
    }

    /// Whether answers wait to be sent.
    #[inline]
    pub(crate) fn has_to_send(&self) -> bool {
        either!(self, it => it.has_to_send())
    }

    /// Completes a command with `status` if it waits for its data, or for memory.
    pub(crate) fn cancel(&mut self, cid: u16, status: Status, intakes: &mut Intakes) -> Cancel {
        either!(self, it => it.cancel(cid, status, intakes))
    }

    /// Completes a command.
    #[inline]
    pub(crate) fn reply(&mut self, cqe: Cqe) {
        either!(self, it => it.reply(cqe));
    }

    /// Removes a command that was held for an event. It is not answered.
    pub(crate) fn forget(&mut self, cid: u16) {
        either!(self, it => it.forget(cid));
    }

    /// Completes a command with data.
    #[inline]
    pub(crate) fn reply_with_data(&mut self, cqe: Cqe, payload: Payload, length: u32) {
        either!(self, it => it.reply_with_data(cqe, payload, length));
    }

    /// Completes a command with data of the controller: `length` bytes, of which `page` holds all but the zeroes at the end.
    pub(crate) fn reply_with_page(&mut self, cqe: Cqe, page: Vec<u8>, mut permit: Permit, length: u32) {
        permit.shrink_to(page.capacity() as u64);
        self.reply_with_data(cqe, Payload::Page(page, permit), length);
    }

    /// Hands over what is to be sent. Records of TLS are made in memory of `spares`.
    #[inline]
    pub(crate) fn flush(&mut self, now: Instant, reactor: &mut Reactor, spares: &mut Spares) {
        match self {
            Connection::Tcp(it) => it.flush(now, reactor, spares),
            Connection::Rdma(it) => it.flush(now),
        }
    }

    /// Stops parsing. When everything was sent, `is_spent` is true.
    pub(crate) fn end(&mut self) {
        either!(self, it => it.end());
    }

    /// Whether parsing has stopped.
    pub(crate) fn is_ending(&self) -> bool {
        either!(self, it => it.is_ending())
    }

    /// Whether everything was sent.
    pub(crate) fn all_sent(&self) -> bool {
        either!(self, it => it.all_sent())
    }

    /// Whether it may move to another thread: nothing that this thread has answered waits here. What a queue pair is sending moves with it, and has to: the
    /// host may send its next command before this end hears that the answer has arrived.
    pub(crate) fn may_move(&self) -> bool {
        match self {
            Connection::Tcp(it) => it.all_sent(),
            Connection::Rdma(it) => !it.has_answers(),
        }
    }

    /// Whether parsing has stopped and everything was sent.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.is_ending() && self.all_sent()
    }

    /// Takes the connection apart. Every payload that it holds goes to `payload`; the permits of what is being sent go to `permit`. The
    /// buffers of that return to their pool when the kernel or the device is done with them.
    pub(crate) fn into_parts(self, payload: impl FnMut(Payload), permit: impl FnMut(Permit)) {
        either!(self, it => it.into_parts(payload, permit));
    }

    /// The time by which the host is late: to read replies, or to send data that it announced.
    pub(crate) fn stalled_for(&self, now: Instant) -> Nanos {
        either!(self, it => it.stalled_for(now))
    }

    /// Excludes a time in which the target did not run: that is not the host's time.
    pub(crate) fn extend(&mut self, by: Nanos) {
        either!(self, it => it.extend(by));
    }

    /// The time for which the data of one write has been awaited.
    pub(crate) fn transfer_awaited_for(&self, now: Instant) -> Nanos {
        either!(self, it => it.transfer_awaited_for(now))
    }
}
