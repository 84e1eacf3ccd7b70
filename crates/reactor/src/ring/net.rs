//! Listeners and connections through the ring.
//!
//! A socket has at most one request of each kind out: its multishot receive, its poll, its send, its connect. The
//! receive stays out for as long as bytes may come, and ends by itself when the buffers run out or the connection ends;
//! to pause is to cancel it. To close is to shut the socket down, which makes all its present and later requests fail.
//!
//! A socket that is read (`pulls`) has no receive out but a poll, and nothing while its reader has the turn. The kernel
//! writes to the reader's memory only during the call.
//!
//!   receive --pull, receive back--> poll <--Readable / nothing left--> the reader's turn --push--> receive
//!
//!   open --close--> closing --last request back--> gone
//!   open --detach--> detaching --last request back--> gone, with the socket handed out
//!
//! Elsewhere: data that a paused socket still receives is in `inbound`; the progress of a batch is in `outbox`.

use super::queue::{Kind, Queue, Request};
use super::{RingDriver, Source, buffers};
use crate::event::{Event, Events};
use crate::inbound::Inbound;
use crate::outbox::Outbox;
use crate::refused::Refused;
use crate::socket::{self, LowWater};
use crate::{SendBatch, Token};
use io_uring::{cqueue, opcode, types};
use socket2::SockAddr;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A listener and its multishot accept.
pub(super) struct Listener {
    token: Token,
    listener: TcpListener,
    is_armed: bool,
    is_closed: bool,
}

impl Listener {
    fn request(&self) -> Request {
        Request { kind: Kind::Accept, index: self.token.index() }
    }

    /// Begins to accept, unless it does already.
    pub(super) fn arm(&mut self, queue: &mut Queue) {
        if self.is_armed || self.is_closed {
            return;
        }
        self.is_armed = true;
        let accept =
            opcode::AcceptMulti::new(types::Fd(self.listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the request names no memory, and the listener stays in its slot while `is_armed`.
        unsafe { queue.push(accept, self.request()) };
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        socket::shutdown(self.listener.as_raw_fd());
    }
}

/// Where a socket is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Detaching,
    Closing,
}

/// A connection, or an attempt at one, and its requests.
pub(super) struct Socket {
    token: Token,
    socket: TcpStream,
    fate: Fate,
    /// Where to, while a connect is out.
    connecting: Option<Box<SockAddr>>,
    /// Whether the multishot receive is out.
    is_armed: bool,
    /// Whether its bytes are read, not reported.
    pulls: bool,
    low_water: LowWater,
    /// Whether a poll for bytes is out.
    is_polling: bool,
    /// Whether a cancellation of the receive is on its way.
    is_cancelling: bool,
    /// Whether it waits in the driver's list of starved sockets.
    is_starved: bool,
    /// Whether the end of reception was reported.
    has_ended: bool,
    inbound: Inbound,
    outbox: Outbox,
    shutdown_after_send: bool,
}

impl Socket {
    fn new(token: Token, socket: TcpStream) -> Socket {
        Socket {
            token,
            socket,
            fate: Fate::Open,
            connecting: None,
            is_armed: false,
            pulls: false,
            low_water: LowWater::ONE,
            is_polling: false,
            is_cancelling: false,
            is_starved: false,
            has_ended: false,
            inbound: Inbound::default(),
            outbox: Outbox::new(),
            shutdown_after_send: false,
        }
    }

    fn fd(&self) -> types::Fd {
        types::Fd(self.socket.as_raw_fd())
    }

    fn request(&self, kind: Kind) -> Request {
        Request { kind, index: self.token.index() }
    }

    fn start_connect(&mut self, address: SockAddr, queue: &mut Queue) {
        let address = self.connecting.insert(Box::new(address));
        let connect =
            opcode::Connect::new(types::Fd(self.socket.as_raw_fd()), address.as_ptr().cast(), address.len())
                .build();
        // SAFETY: the address is on the heap and stays there until the completion takes it from `connecting`; the socket stays in
        // its slot until then (`is_quiet`).
        unsafe { queue.push(connect, self.request(Kind::Connect)) };
    }

    /// Begins to receive, or to wait for bytes to read, unless it does already or must not. A starved socket waits for its turn (`feed`).
    pub(super) fn arm(&mut self, queue: &mut Queue) {
        let must_not = self.fate != Fate::Open
            || self.connecting.is_some()
            || self.has_ended
            || self.is_starved
            || self.inbound.is_paused();
        if self.is_armed || must_not {
            return;
        }
        if self.pulls {
            return self.poll(queue);
        }
        self.is_armed = true;
        let receive = opcode::RecvMulti::new(self.fd(), buffers::GROUP).build();
        // SAFETY: the memory comes from the buffer ring, which the driver keeps alive until all requests are back; the
        // socket stays in its slot while `is_armed`.
        unsafe { queue.push(receive, self.request(Kind::Receive)) };
    }

    fn poll(&mut self, queue: &mut Queue) {
        if self.is_polling {
            return;
        }
        self.is_polling = true;
        let poll = opcode::PollAdd::new(self.fd(), (libc::POLLIN | libc::POLLRDHUP) as u32).build();
        // SAFETY: the request names no memory, and the socket stays in its slot while `is_polling`.
        unsafe { queue.push(poll, self.request(Kind::Readable)) };
    }

    pub(super) fn pull(&mut self, queue: &mut Queue) {
        if self.fate == Fate::Open && !self.pulls {
            self.pulls = true;
            self.disarm(queue);
            self.arm(queue);
        }
    }

    pub(super) fn expect(&mut self, count: usize) {
        if self.pulls {
            self.low_water.set(self.socket.as_raw_fd(), count);
        }
    }

    pub(super) fn push(&mut self, queue: &mut Queue) {
        self.expect(1);
        self.pulls = false;
        self.arm(queue);
    }

    pub(super) fn read(
        &mut self,
        places: [&mut [u8]; 2],
        queue: &mut Queue,
        events: &mut Events,
    ) -> Option<usize> {
        let may_read = self.pulls && !self.is_armed && !self.has_ended && !self.inbound.is_paused();
        if self.fate != Fate::Open || !may_read {
            return None;
        }
        let room: usize = places.iter().map(|place| place.len()).sum();
        match socket::receive(self.socket.as_raw_fd(), places) {
            Ok(0) => self.end_reception(None, events),
            Ok(count) => {
                if count < room {
                    self.arm(queue);
                }
                return Some(count);
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => self.arm(queue),
                _ => self.end_reception(Some(error), events),
            },
        }
        None
    }

    /// Lets this starved socket try for a buffer.
    pub(super) fn feed(&mut self, queue: &mut Queue) {
        self.is_starved = false;
        self.arm(queue);
    }

    fn disarm(&mut self, queue: &mut Queue) {
        if self.is_armed && !self.is_cancelling {
            self.is_cancelling = true;
            queue.cancel_receive(self.token.index());
        }
    }

    pub(super) fn pause(&mut self, queue: &mut Queue, events: &mut Events) {
        if self.fate == Fate::Open {
            self.inbound.pause(self.token, events);
            self.disarm(queue);
        }
    }

    pub(super) fn resume(&mut self, queue: &mut Queue, events: &mut Events) {
        self.inbound.resume(events);
        self.arm(queue);
    }

    pub(super) fn send(
        &mut self,
        batch: SendBatch,
        queue: &mut Queue,
        events: &mut Events,
    ) -> Result<(), Refused<SendBatch>> {
        if self.fate != Fate::Open || self.connecting.is_some() {
            return Err(Refused::closed(batch));
        }
        if self.outbox.is_busy() {
            return Err(Refused::busy(batch));
        }
        if batch.is_empty() {
            events.push(Event::Sent { token: self.token, batch, result: Ok(()) });
            return Ok(());
        }
        self.outbox.load(batch);
        self.push_send(queue);
        Ok(())
    }

    fn push_send(&mut self, queue: &mut Queue) {
        // MSG_WAITALL: the kernel goes on by itself after a short send. It still gives up at 1024 pieces.
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let send = opcode::SendMsg::new(self.fd(), self.outbox.message()).flags(flags).build();
        // SAFETY: the outbox keeps the message and the batch, which owns all it points to, unchanged until `on_send`; the socket
        // stays in its slot while the outbox is busy.
        unsafe { queue.push(send, self.request(Kind::Send)) };
    }

    pub(super) fn shutdown_write(&mut self) {
        if self.outbox.is_busy() {
            self.shutdown_after_send = true;
        } else if self.connecting.is_none() {
            socket::shutdown_write(self.socket.as_raw_fd());
        }
    }

    /// Ends everything. A connection that is shut down fails whatever is tried on it, so this reaches also the requests that a
    /// cancellation would miss. Only a connect that has not begun must be cancelled.
    pub(super) fn close(&mut self, queue: &mut Queue) {
        self.fate = Fate::Closing;
        self.inbound.clear();
        socket::shutdown(self.socket.as_raw_fd());
        if self.connecting.is_some() {
            queue.cancel(self.request(Kind::Connect));
        }
    }

    /// Whether none of its requests is out.
    fn is_quiet(&self) -> bool {
        !self.is_armed && !self.is_polling && self.connecting.is_none() && !self.outbox.is_busy()
    }

    fn end_reception(&mut self, error: Option<io::Error>, events: &mut Events) {
        self.has_ended = true;
        if self.fate != Fate::Closing {
            self.inbound.deliver(Event::ReceiveEnded { token: self.token, error }, events);
        }
    }
}

impl RingDriver {
    pub(super) fn start_listening(&mut self, listener: TcpListener) -> io::Result<Token> {
        listener.set_nonblocking(false)?;
        let token = self.sources.insert(|token| {
            Source::Listener(Listener { token, listener, is_armed: false, is_closed: false })
        });
        if let Some(Source::Listener(listener)) = self.sources.get(token) {
            listener.arm(&mut self.queue);
        }
        Ok(token)
    }

    pub(super) fn start_receiving(&mut self, socket: TcpStream) -> io::Result<Token> {
        socket::prepare(&socket, false)?;
        let token = self.sources.insert(|token| Source::Socket(Socket::new(token, socket)));
        let (socket, queue) = self.socket(token.index());
        socket.arm(queue);
        Ok(token)
    }

    pub(super) fn start_connecting(&mut self, address: SocketAddr) -> io::Result<Token> {
        let (socket, address) = socket::unconnected(address)?;
        let token = self.sources.insert(|token| Source::Socket(Socket::new(token, socket.into())));
        let (socket, queue) = self.socket(token.index());
        socket.start_connect(address, queue);
        Ok(token)
    }

    pub(super) fn start_detaching(&mut self, token: Token, events: &mut Events) {
        let Some(Source::Socket(socket)) = self.sources.get(token) else { return };
        socket.expect(1);
        socket.fate = Fate::Detaching;
        socket.inbound.resume(events);
        socket.disarm(&mut self.queue);
        if socket.is_polling {
            self.queue.cancel(socket.request(Kind::Readable));
        }
        self.settle(token.index(), events);
    }

    /// The socket that a request belongs to.
    fn socket(&mut self, index: u32) -> (&mut Socket, &mut Queue) {
        match self.sources.at(index) {
            Some(Source::Socket(socket)) => (socket, &mut self.queue),
            _ => unreachable!("a socket stays in its slot while it has requests out"),
        }
    }

    pub(super) fn on_accept(
        &mut self,
        index: u32,
        result: io::Result<usize>,
        is_last: bool,
        events: &mut Events,
    ) {
        let Some(Source::Listener(listener)) = self.sources.at(index) else {
            unreachable!("a listener stays in its slot while its accept is out")
        };
        listener.is_armed &= !is_last;
        let token = listener.token;
        let mut rests = false;
        match result {
            Ok(fd) => {
                let socket = adopt(fd);
                if !listener.is_closed
                    && let Some(peer) = socket::peer_of(&socket)
                {
                    events.push(Event::Accepted { listener: token, socket, peer });
                }
            }
            Err(error) if listener.is_closed || socket::is_transient_accept_error(&error) => {}
            Err(error) => {
                rests = true;
                events.push(Event::AcceptFailed { listener: token, error });
            }
        }
        if !rests {
            listener.arm(&mut self.queue);
        }
        self.settle(index, events);
    }

    pub(super) fn on_connect(&mut self, index: u32, result: io::Result<usize>, events: &mut Events) {
        let (socket, queue) = self.socket(index);
        socket.connecting = None;
        let token = socket.token;
        if socket.fate == Fate::Closing {
            return self.settle(index, events);
        }
        match result {
            Ok(_) => {
                events.push(Event::Connected { token, result: Ok(()) });
                socket.arm(queue);
                self.settle(index, events);
            }
            Err(error) => {
                events.push(Event::Connected { token, result: Err(error) });
                self.sources.remove(index);
            }
        }
    }

    pub(super) fn on_receive(
        &mut self,
        index: u32,
        result: io::Result<usize>,
        buffer: Option<u16>,
        is_last: bool,
        events: &mut Events,
    ) {
        let buffer = match (&result, buffer) {
            (&Ok(count), Some(id)) if count > 0 => Some(self.pool.lend(id, count)),
            (_, Some(id)) => {
                self.pool.put_back(id);
                None
            }
            (_, None) => None,
        };
        let Some(Source::Socket(socket)) = self.sources.at(index) else {
            unreachable!("a socket stays in its slot while it has requests out")
        };
        if is_last {
            (socket.is_armed, socket.is_cancelling) = (false, false);
        }
        match (result, buffer) {
            (Ok(_), Some(bytes)) if socket.fate != Fate::Closing => {
                socket.inbound.deliver(Event::Received { token: socket.token, bytes }, events);
            }
            (Ok(_), Some(_)) => {}
            (Ok(_), None) => socket.end_reception(None, events),
            (Err(error), _) => match error.raw_os_error() {
                Some(libc::ECANCELED | libc::EINTR | libc::EAGAIN) => {}
                Some(libc::ENOBUFS) => {
                    socket.is_starved = true;
                    self.starved.push_back(socket.token);
                }
                _ => socket.end_reception(Some(error), events),
            },
        }
        socket.arm(&mut self.queue);
        self.settle(index, events);
    }

    /// Handles bytes to read, or the end of the connection.
    pub(super) fn on_readable(&mut self, index: u32, events: &mut Events) {
        let (socket, _) = self.socket(index);
        socket.is_polling = false;
        if socket.pulls && socket.fate == Fate::Open {
            socket.inbound.deliver(Event::Readable { token: socket.token }, events);
        }
        self.settle(index, events);
    }

    /// A cancellation that did not find a receive which is still out is tried again. (The slot may have changed hands meanwhile;
    /// then the new tenant's receive is cancelled only if it is to be.)
    pub(super) fn on_cancel_receive(&mut self, index: u32, result: io::Result<usize>) {
        if let Some(Source::Socket(socket)) = self.sources.at(index)
            && result.is_err()
            && socket.is_armed
            && socket.is_cancelling
        {
            self.queue.cancel_receive(index);
        }
    }

    pub(super) fn on_send(&mut self, index: u32, result: io::Result<usize>, events: &mut Events) {
        let (socket, queue) = self.socket(index);
        let result = match result {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                socket.outbox.advance(count);
                Ok(())
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => Ok(()),
            Err(error) => Err(error),
        };
        if result.is_ok() && socket.outbox.left() > 0 && socket.fate != Fate::Closing {
            return socket.push_send(queue);
        }
        let batch = socket.outbox.take().expect("a batch was out");
        if socket.fate != Fate::Closing {
            events.push(Event::Sent { token: socket.token, batch, result });
        }
        if socket.shutdown_after_send {
            socket.shutdown_after_send = false;
            socket.shutdown_write();
        }
        self.settle(index, events);
    }

    /// Frees the slot of a closed or detached entry, once none of its requests is out.
    pub(super) fn settle(&mut self, index: u32, events: &mut Events) {
        let may_be_freed = match self.sources.at(index) {
            Some(Source::Listener(listener)) => listener.is_closed && !listener.is_armed,
            Some(Source::Socket(socket)) => socket.fate != Fate::Open && socket.is_quiet(),
            Some(Source::File(file)) => file.may_be_freed(),
            Some(Source::Channel(channel)) => channel.may_be_freed(),
            None => false,
        };
        if !may_be_freed {
            return;
        }
        match self.sources.remove(index) {
            Some(Source::Socket(Socket { fate: Fate::Detaching, token, socket, .. })) => {
                events.push(Event::Detached { token, socket });
            }
            Some(Source::File(file)) => self.forget_file(&file),
            _ => {}
        }
    }
}

/// Closes a connection that was accepted for a reactor that is no more.
pub(super) fn discard_accepted(completion: &cqueue::Entry) {
    if let Ok(fd) = usize::try_from(completion.result()) {
        drop(adopt(fd));
    }
}

/// Takes ownership of the descriptor that an accept completion carries.
fn adopt(fd: usize) -> TcpStream {
    let fd = RawFd::try_from(fd).expect("a descriptor is an int");
    // SAFETY: the kernel made this descriptor for this completion, which is looked at once; it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }.into()
}
