//! The epoll backend: for kernels and containers without io_uring.
//!
//! ```text
//!   sockets    edge-triggered readiness, then recv and sendmsg that do not block
//!   listeners  level-triggered readiness, then accept
//!   channels   one-shot readiness, watched again on demand
//!   disk       blocking calls on a few threads, answers through an eventfd
//! ```
//!
//! To behave as the ring does, it reads into buffers of the shared receive pool by itself, and sends only in `poll` and `block`.
//! Sockets with bytes to read take turns in a list, so that one busy connection does not delay the others; a socket that finds
//! no buffer keeps its place in it.
//!
//! Measured like the receive buffers (see `receive`): 675 ns of processor time per message of 72 B 32 deep on one socket, 3850 on
//! 64 sockets, 3750 for 4 KiB, 129 000 for 128 KiB. The ring needs 700, 3150, 3050 and 86 000.
//!
//! Holds: the kernel keeps no memory of ours between calls, so closing frees at once; a stale notice finds no slot, as it names
//!        the token with its generation.
//! Elsewhere: one socket's state is `net`; the disk's threads are `workers`, their results go through `answers`; waiting is `poller`.

mod answers;
mod net;
mod poller;
mod workers;

use crate::disk::Owner;
use crate::driver::Driver;
use crate::event::{Event, Events};
use crate::receive::ReceivePool;
use crate::refused::Refused;
use crate::ring::Unregistered;
use crate::token::Slab;
use crate::{Clock, DiskAccess, DiskOp, Options, SendBatch, Token, Waker, socket};
use net::Socket;
use poller::{Notice, Poller};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::rc::Rc;
use std::sync::Arc;
use units::{Instant, Nanos};
use workers::{DiskFile, Workers};

/// Names of the two descriptors that belong to no token: a token's slot number is never this high.
const WAKER: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;

/// Flags of a channel: one notice each time that it is watched.
const CHANNEL: i32 = libc::EPOLLIN | libc::EPOLLONESHOT;

/// Connections accepted before it is the sockets' turn.
const ACCEPTS_PER_TURN: usize = 64;

/// A listener; `rests` after an accept failed because a resource was short.
struct Listener {
    listener: TcpListener,
    rests: bool,
}

enum Source {
    Listener(Listener),
    Socket(Box<Socket>),
    File(Arc<DiskFile>),
    /// A copy of the descriptor.
    Channel(OwnedFd),
}

pub(crate) struct EpollDriver {
    poller: Poller,
    pool: Rc<ReceivePool>,
    sources: Slab<Source>,
    /// Sockets that may have bytes to read, in the order of their turns.
    to_read: VecDeque<Token>,
    /// Sockets that were given a batch since the last turn.
    to_write: Vec<Token>,
    workers: Workers,
    disk_in_flight: usize,
    disk_depth: usize,
    waker: Waker,
    /// Scratch space for `turn`.
    notices: Vec<Notice>,
}

impl EpollDriver {
    pub(crate) fn new(options: &Options, waker: Waker) -> io::Result<EpollDriver> {
        let poller = Poller::new()?;
        let workers = Workers::new(options.disk_threads)?;
        poller.add(waker.fd(), libc::EPOLLIN, WAKER)?;
        poller.add(workers.fd(), libc::EPOLLIN, DISK)?;
        let size = usize::try_from(options.receive_buffer_size.get()).expect("a buffer fits in memory");
        Ok(EpollDriver {
            poller,
            pool: ReceivePool::with_list(options.receive_buffers, size)?,
            sources: Slab::new(),
            to_read: VecDeque::new(),
            to_write: Vec::new(),
            workers,
            disk_in_flight: 0,
            disk_depth: options.disk_depth,
            waker,
            notices: Vec::new(),
        })
    }

    fn socket(&mut self, token: Token) -> Option<&mut Socket> {
        match self.sources.get(token) {
            Some(Source::Socket(socket)) => Some(socket),
            _ => None,
        }
    }

    /// Adds a socket to the table and watches it.
    fn watch(&mut self, socket: TcpStream, is_connecting: bool) -> io::Result<Token> {
        let fd = socket.as_raw_fd();
        let token =
            self.sources.insert(|token| Source::Socket(Box::new(Socket::new(token, socket, is_connecting))));
        if let Err(error) = self.poller.add(fd, net::WATCHED, token.to_bits()) {
            self.sources.remove(token.index());
            return Err(error);
        }
        Ok(token)
    }

    /// Takes a socket out of the table.
    fn unwatch(&mut self, token: Token) -> Option<TcpStream> {
        let fd = self.socket(token)?.fd();
        self.poller.remove(fd);
        match self.sources.remove(token.index()) {
            Some(Source::Socket(socket)) => Some(socket.into_socket()),
            _ => None,
        }
    }

    /// Gives a socket a place in the list of those to read from, if it has none and wants one.
    fn queue_read(&mut self, token: Token) {
        if let Some(socket) = self.socket(token)
            && socket.wants_read()
            && !mem::replace(&mut socket.is_queued, true)
        {
            self.to_read.push_back(token);
        }
    }

    /// Waits for news at most for `timeout`, then gives every socket that can do something its turn.
    fn turn(&mut self, timeout: Option<Nanos>, events: &mut Events) -> io::Result<()> {
        let mut notices = mem::take(&mut self.notices);
        let result = self.poller.wait(timeout, &mut notices);
        for notice in notices.drain(..) {
            self.on_notice(notice, events);
        }
        self.notices = notices;
        self.read_all(events);
        result
    }

    fn on_notice(&mut self, notice: Notice, events: &mut Events) {
        match notice.name {
            WAKER => self.waker.drain(),
            DISK => self.on_disk(events),
            bits => {
                let token = Token::from_bits(bits);
                match self.sources.get(token) {
                    Some(Source::Listener(_)) => self.accept(token, events),
                    Some(Source::Socket(_)) => self.on_socket(token, notice, events),
                    Some(Source::Channel(_)) => events.push(Event::Ready { token }),
                    Some(Source::File(_)) | None => {}
                }
            }
        }
    }

    fn on_socket(&mut self, token: Token, notice: Notice, events: &mut Events) {
        let Some(socket) = self.socket(token) else { return };
        socket.on_notice(notice);
        if socket.is_connecting {
            let result = socket.connect_outcome();
            let has_failed = result.is_err();
            events.push(Event::Connected { token, result });
            if has_failed {
                self.unwatch(token);
                return;
            }
        }
        self.write(token, events);
        self.queue_read(token);
    }

    fn accept(&mut self, token: Token, events: &mut Events) {
        let Some(Source::Listener(Listener { listener, rests })) = self.sources.get(token) else { return };
        for _ in 0..ACCEPTS_PER_TURN {
            match listener.accept() {
                Ok((socket, peer)) => events.push(Event::Accepted { listener: token, socket, peer }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if socket::is_transient_accept_error(&error) => {}
                Err(error) => {
                    // Level-triggered, it would report without end.
                    *rests = true;
                    self.poller.remove(listener.as_raw_fd());
                    events.push(Event::AcceptFailed { listener: token, error });
                    return;
                }
            }
        }
    }

    fn on_disk(&mut self, events: &mut Events) {
        for done in self.workers.take_done() {
            self.disk_in_flight -= 1;
            let Owner { file: token, tag } = done.owner;
            if self.sources.get(token).is_some() {
                events.push(Event::Disk { token, tag, result: done.result, buffer: done.buffer });
            }
        }
    }

    fn read_all(&mut self, events: &mut Events) {
        for _ in 0..self.to_read.len() {
            if self.pool.available() == 0 {
                return;
            }
            let Some(token) = self.to_read.pop_front() else { return };
            let pool = Rc::clone(&self.pool);
            let Some(socket) = self.socket(token) else { continue };
            socket.is_queued = false;
            socket.read(&pool, events);
            self.queue_read(token);
        }
    }

    fn write_all(&mut self, events: &mut Events) {
        let mut to_write = mem::take(&mut self.to_write);
        for token in to_write.drain(..) {
            self.write(token, events);
        }
        self.to_write = to_write;
    }

    fn write(&mut self, token: Token, events: &mut Events) {
        if let Some(socket) = self.socket(token)
            && socket.wants_write()
        {
            socket.write(events);
        }
        self.settle(token, events);
    }

    /// Lets a detaching socket go when it is ready.
    fn settle(&mut self, token: Token, events: &mut Events) {
        if self.socket(token).is_some_and(|socket| socket.may_detach())
            && let Some(socket) = self.unwatch(token)
        {
            events.push(Event::Detached { token, socket });
        }
    }
}

impl Driver for EpollDriver {
    fn listen(&mut self, listener: TcpListener) -> io::Result<Token> {
        listener.set_nonblocking(true)?;
        let fd = listener.as_raw_fd();
        let token = self.sources.insert(|_| Source::Listener(Listener { listener, rests: false }));
        if let Err(error) = self.poller.add(fd, libc::EPOLLIN, token.to_bits()) {
            self.sources.remove(token.index());
            return Err(error);
        }
        Ok(token)
    }

    fn resume_accept(&mut self, token: Token) {
        if let Some(Source::Listener(Listener { listener, rests })) = self.sources.get(token)
            && *rests
        {
            // If it cannot be watched because memory is short, it goes on resting.
            *rests = self.poller.add(listener.as_raw_fd(), libc::EPOLLIN, token.to_bits()).is_err();
        }
    }

    fn connect(&mut self, address: SocketAddr, events: &mut Events) -> io::Result<Token> {
        let (socket, address) = socket::unconnected(address)?;
        socket.set_nonblocking(true)?;
        let outcome = socket.connect(&address);
        let token = self.watch(socket.into(), true)?;
        if let Err(error) = outcome
            && error.raw_os_error() != Some(libc::EINPROGRESS)
        {
            self.unwatch(token);
            events.push(Event::Connected { token, result: Err(error) });
        }
        Ok(token)
    }

    fn add_socket(&mut self, socket: TcpStream) -> io::Result<Token> {
        socket::prepare(&socket, true)?;
        self.watch(socket, false)
    }

    fn detach(&mut self, token: Token, events: &mut Events) {
        if let Some(socket) = self.socket(token) {
            socket.detach(events);
            self.settle(token, events);
        }
    }

    fn pause_receive(&mut self, token: Token, events: &mut Events) {
        if let Some(socket) = self.socket(token) {
            socket.pause(events);
        }
    }

    fn resume_receive(&mut self, token: Token, events: &mut Events) {
        if let Some(socket) = self.socket(token) {
            socket.resume(events);
            self.queue_read(token);
        }
    }

    fn pull_receive(&mut self, token: Token) {
        if let Some(socket) = self.socket(token) {
            socket.pull();
        }
    }

    fn push_receive(&mut self, token: Token) {
        if let Some(socket) = self.socket(token) {
            socket.push();
            self.queue_read(token);
        }
    }

    fn read(&mut self, token: Token, places: [&mut [u8]; 2], events: &mut Events) -> Option<usize> {
        let count = self.socket(token)?.read_into(places, events);
        self.queue_read(token);
        count
    }

    fn expect(&mut self, token: Token, count: usize) {
        if let Some(socket) = self.socket(token) {
            socket.expect(count);
        }
    }

    fn read_later(&mut self, token: Token) {
        if let Some(socket) = self.socket(token) {
            socket.read_later();
            self.queue_read(token);
        }
    }

    fn send(
        &mut self,
        token: Token,
        batch: SendBatch,
        _events: &mut Events,
    ) -> Result<(), Refused<SendBatch>> {
        let Some(socket) = self.socket(token) else { return Err(Refused::closed(batch)) };
        socket.load(batch)?;
        self.to_write.push(token);
        Ok(())
    }

    fn shutdown_write(&mut self, token: Token) {
        if let Some(socket) = self.socket(token) {
            socket.shutdown_write();
        }
    }

    fn add_channel(&mut self, descriptor: OwnedFd) -> io::Result<Token> {
        let fd = descriptor.as_raw_fd();
        let token = self.sources.insert(|_| Source::Channel(descriptor));
        if let Err(error) = self.poller.add(fd, CHANNEL, token.to_bits()) {
            self.sources.remove(token.index());
            return Err(error);
        }
        Ok(token)
    }

    fn watch_channel(&mut self, token: Token) -> io::Result<()> {
        match self.sources.get(token) {
            Some(Source::Channel(descriptor)) => {
                self.poller.change(descriptor.as_raw_fd(), CHANNEL, token.to_bits())
            }
            _ => Ok(()),
        }
    }

    fn add_disk(&mut self, file: OwnedFd, access: DiskAccess) -> io::Result<Token> {
        if access != DiskAccess::File {
            let what = "polled devices and NVMe commands need io_uring, which is not in use here";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let file = std::fs::File::from(file);
        let is_block_device = file.metadata()?.file_type().is_block_device();
        self.workers.start()?;
        let file = Arc::new(DiskFile::new(file.into(), is_block_device));
        Ok(self.sources.insert(|_| Source::File(file)))
    }

    /// Returns nothing: this backend registers nothing.
    fn take_unregistered(&mut self) -> Option<Unregistered> {
        None
    }

    fn submit_disk(&mut self, owner: Owner, op: DiskOp, events: &mut Events) -> Result<(), Refused<DiskOp>> {
        let Some(Source::File(file)) = self.sources.get(owner.file) else { return Err(Refused::closed(op)) };
        if self.disk_in_flight >= self.disk_depth {
            return Err(Refused::busy(op));
        }
        if !op.is_addressable() {
            events.push(owner.refused(op, io::Error::from_raw_os_error(libc::EINVAL)));
            return Ok(());
        }
        self.disk_in_flight += 1;
        self.workers.submit(owner, Arc::clone(file), op);
        Ok(())
    }

    fn close(&mut self, token: Token, events: &mut Events) {
        events.discard(token);
        match self.sources.get(token) {
            Some(Source::Socket(_)) => drop(self.unwatch(token)),
            Some(Source::Listener(Listener { listener, .. })) => {
                self.poller.remove(listener.as_raw_fd());
                self.sources.remove(token.index());
            }
            Some(Source::File(_)) => drop(self.sources.remove(token.index())),
            Some(Source::Channel(descriptor)) => {
                self.poller.remove(descriptor.as_raw_fd());
                self.sources.remove(token.index());
            }
            None => {}
        }
    }

    fn poll(&mut self, events: &mut Events) -> io::Result<()> {
        self.write_all(events);
        self.turn(Some(Nanos::ZERO), events)
    }

    fn may_have_events(&mut self) -> bool {
        true
    }

    fn block(&mut self, deadline: Option<Instant>, events: &mut Events) -> io::Result<()> {
        self.write_all(events);
        let can_read = !self.to_read.is_empty() && self.pool.available() > 0;
        let timeout = if can_read || !events.is_empty() {
            Some(Nanos::ZERO)
        } else {
            deadline.map(|deadline| deadline.saturating_since(Clock.now()))
        };
        self.turn(timeout, events)
    }
}
