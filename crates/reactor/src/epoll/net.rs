//! Connections under epoll.
//!
//! Each socket is watched once, edge-triggered, for everything; the socket remembers the kernel's notices (*readable*,
//! *writable*) until a call finds that they no longer hold. So neither a pause nor a full socket costs a system call. A
//! socket that is read (`pulls`) reports once that it is readable, and then its reader has the turn.
//!
//! Elsewhere: data that a paused socket still receives is in `inbound`; the progress of a batch is in `outbox`; the
//!            turns of sockets are in `mod`.

use super::poller::Notice;
use crate::event::{Event, Events};
use crate::inbound::Inbound;
use crate::outbox::Outbox;
use crate::receive::ReceivePool;
use crate::refused::Refused;
use crate::socket::{self, LowWater};
use crate::{SendBatch, Token};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

/// The events that a socket is watched for.
pub(super) const WATCHED: i32 = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// Receive buffers that one socket may fill before it is the next one's turn.
const READS_PER_TURN: usize = 4;

/// A connection, or an attempt at one.
pub(super) struct Socket {
    token: Token,
    socket: TcpStream,
    pub(super) is_connecting: bool,
    pub(super) is_detaching: bool,
    is_readable: bool,
    is_writable: bool,
    /// Whether the other end has finished, so that a short read does not mean that all has been read.
    is_hung_up: bool,
    has_ended: bool,
    /// Whether its bytes are read, not reported.
    pulls: bool,
    low_water: LowWater,
    /// Whether its reader has the turn.
    is_told: bool,
    /// Whether it waits in the driver's list of sockets to read from.
    pub(super) is_queued: bool,
    inbound: Inbound,
    outbox: Outbox,
    shutdown_after_send: bool,
}

impl Socket {
    pub(super) fn new(token: Token, socket: TcpStream, is_connecting: bool) -> Socket {
        Socket {
            token,
            socket,
            is_connecting,
            is_detaching: false,
            is_readable: false,
            is_writable: true,
            is_hung_up: false,
            has_ended: false,
            pulls: false,
            low_water: LowWater::ONE,
            is_told: false,
            is_queued: false,
            inbound: Inbound::default(),
            outbox: Outbox::new(),
            shutdown_after_send: false,
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Remembers the kernel's notice.
    pub(super) fn on_notice(&mut self, notice: Notice) {
        const ENDED: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        self.is_hung_up |= notice.flags & ENDED as u32 != 0;
        self.is_readable |= notice.flags & (libc::EPOLLIN | ENDED) as u32 != 0;
        self.is_writable |= notice.flags & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
    }

    /// The outcome of a connect that the kernel reported on.
    pub(super) fn connect_outcome(&mut self) -> io::Result<()> {
        self.is_connecting = false;
        socket::pending_error(&self.socket)
    }

    /// Whether there may be bytes to read and the caller wants them.
    pub(super) fn wants_read(&self) -> bool {
        self.is_readable
            && !self.has_ended
            && !self.is_told
            && !self.is_connecting
            && !self.is_detaching
            && !self.inbound.is_paused()
    }

    /// Whether there is something to send and the kernel may take it.
    pub(super) fn wants_write(&self) -> bool {
        self.outbox.is_busy() && self.is_writable
    }

    /// Whether it may leave the reactor now.
    pub(super) fn may_detach(&self) -> bool {
        self.is_detaching && !self.is_connecting && !self.outbox.is_busy()
    }

    pub(super) fn pause(&mut self, events: &mut Events) {
        if !self.is_detaching {
            self.inbound.pause(self.token, events);
            self.is_told = false;
        }
    }

    pub(super) fn resume(&mut self, events: &mut Events) {
        self.inbound.resume(events);
    }

    pub(super) fn detach(&mut self, events: &mut Events) {
        self.expect(1);
        self.is_detaching = true;
        self.inbound.resume(events);
    }

    pub(super) fn pull(&mut self) {
        self.pulls = true;
    }

    pub(super) fn expect(&mut self, count: usize) {
        if self.pulls {
            self.low_water.set(self.fd(), count);
        }
    }

    pub(super) fn push(&mut self) {
        self.expect(1);
        (self.pulls, self.is_told) = (false, false);
    }

    /// Reads into places of the caller.
    pub(super) fn read_into(&mut self, places: [&mut [u8]; 2], events: &mut Events) -> Option<usize> {
        let may_read = self.pulls && !self.has_ended && !self.is_detaching && !self.inbound.is_paused();
        if !may_read {
            return None;
        }
        let room: usize = places.iter().map(|place| place.len()).sum();
        match socket::receive(self.fd(), places) {
            Ok(0) => self.end_reception(None, events),
            Ok(count) => {
                if count < room {
                    // As in `read`.
                    self.is_readable = self.is_hung_up;
                    self.is_told = false;
                }
                return Some(count);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => self.is_told = false,
                io::ErrorKind::WouldBlock => (self.is_readable, self.is_told) = (false, false),
                _ => self.end_reception(Some(error), events),
            },
        }
        None
    }

    pub(super) fn read_later(&mut self) {
        self.is_told = false;
    }

    /// Reads until there is no more, no buffer, or it is another socket's turn.
    pub(super) fn read(&mut self, pool: &Rc<ReceivePool>, events: &mut Events) {
        for _ in 0..READS_PER_TURN {
            if !self.wants_read() {
                return;
            }
            if self.pulls {
                self.is_told = true;
                return self.inbound.deliver(Event::Readable { token: self.token }, events);
            }
            let Some(id) = pool.take() else { return };
            let size = pool.buffer_size();
            // SAFETY: buffer `id` is `size` bytes and ours alone: it is neither on the list nor lent.
            let count = unsafe { libc::recv(self.fd(), pool.start_of(id).cast(), size, libc::MSG_DONTWAIT) };
            match usize::try_from(count) {
                Ok(0) => {
                    pool.put_back(id);
                    self.end_reception(None, events);
                }
                Ok(count) => {
                    // epoll(7): on a stream, a short read means that all has been read.
                    self.is_readable = count == size || self.is_hung_up;
                    let bytes = pool.lend(id, count);
                    self.inbound.deliver(Event::Received { token: self.token, bytes }, events);
                }
                Err(_) => {
                    let error = io::Error::last_os_error();
                    pool.put_back(id);
                    match error.kind() {
                        io::ErrorKind::Interrupted => {}
                        io::ErrorKind::WouldBlock => self.is_readable = false,
                        _ => self.end_reception(Some(error), events),
                    }
                }
            }
        }
    }

    fn end_reception(&mut self, error: Option<io::Error>, events: &mut Events) {
        self.has_ended = true;
        self.inbound.deliver(Event::ReceiveEnded { token: self.token, error }, events);
    }

    pub(super) fn load(&mut self, batch: SendBatch) -> Result<(), Refused<SendBatch>> {
        if self.is_connecting || self.is_detaching {
            return Err(Refused::closed(batch));
        }
        if self.outbox.is_busy() {
            return Err(Refused::busy(batch));
        }
        self.outbox.load(batch);
        Ok(())
    }

    /// Sends until the batch is out or the socket is full.
    pub(super) fn write(&mut self, events: &mut Events) {
        let mut result = Ok(());
        while self.outbox.left() > 0 && result.is_ok() {
            // SAFETY: the message and all it points to stay as they are during the call.
            let count = unsafe {
                libc::sendmsg(self.fd(), self.outbox.message(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            };
            match usize::try_from(count) {
                Ok(0) => result = Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.outbox.advance(count),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    match error.kind() {
                        io::ErrorKind::Interrupted => {}
                        io::ErrorKind::WouldBlock => {
                            self.is_writable = false;
                            return;
                        }
                        _ => result = Err(error),
                    }
                }
            }
        }
        let batch = self.outbox.take().expect("there is a batch to write");
        events.push(Event::Sent { token: self.token, batch, result });
        if self.shutdown_after_send {
            self.shutdown_after_send = false;
            self.shutdown_write();
        }
    }

    pub(super) fn shutdown_write(&mut self) {
        if self.outbox.is_busy() {
            self.shutdown_after_send = true;
        } else if !self.is_connecting {
            socket::shutdown_write(self.fd());
        }
    }
}
