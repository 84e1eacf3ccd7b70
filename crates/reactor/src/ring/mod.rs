//! The io_uring backend: sockets, disk and wake-ups in one ring.
//!
//! ```text
//!   listener   multishot accept                          one request, a completion per connection
//!   socket     multishot recv into provided buffers      one request, a completion per arrival
//!              sendmsg (MSG_WAITALL), one at a time
//!   file       read · write · fsync · fallocate · discard command
//!   waker      read of an eventfd
//! ```
//!
//! A request belongs to the slot of its socket, file or transfer, and its `user_data` says which: the slot and all memory that
//! the request names stay until the request's last completion. So a slot needs no reference count from the kernel's side, only
//! to know which of its few requests are out.
//!
//! Holds: a slot is freed only when none of its requests is out (`closing_with_a_batch_in_flight_returns_its_buffers`), and the ring and
//!        everything in it only when no request at all is (`dropping_the_reactor_returns_every_buffer`).
//! Elsewhere: the ring itself is `setup` and `queue`; the sockets are `net`, the disk is `files`.

pub(crate) mod buffers;
mod files;
mod net;
mod queue;
mod setup;

use crate::disk::{Owner, Transfer};
use crate::driver::Driver;
use crate::event::Events;
use crate::receive::ReceivePool;
use crate::refused::Refused;
use crate::token::Slab;
use crate::{Clock, DiskOp, Options, SendBatch, Token, Waker};
use buffers::BufferRing;
use io_uring::{cqueue, opcode, types};
use queue::{Kind, Queue, Request};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::ptr;
use std::rc::Rc;
use units::{Instant, Nanos};

/// How long a dropped reactor waits for the kernel to let go of its memory. Sockets let go at once; a disk that takes longer
/// than this is broken, and then the memory is leaked instead.
const DRAIN_PATIENCE: Nanos = Nanos::secs(10);

/// How long it waits before it tries again to cancel what was not found the time before.
const CANCEL_INTERVAL: Nanos = Nanos::millis(2);

/// What a slot is for.
enum Source {
    Listener(net::Listener),
    Socket(net::Socket),
    File(files::File),
}

/// A disk operation in flight.
struct Flight {
    owner: Owner,
    transfer: Transfer,
    /// Whether it is out as a command to the device, which may turn out to be unknown.
    is_command: bool,
}

pub(crate) struct RingDriver {
    queue: Queue,
    pool: Rc<ReceivePool>,
    sources: Slab<Source>,
    flights: Slab<Flight>,
    disk_depth: usize,
    /// Operations that were asked for and not handed to the kernel.
    disk_pushed: usize,
    /// Sockets whose reception stopped for want of a buffer, in the order in which they will get one.
    starved: VecDeque<Token>,
    /// Where the eventfd's counter is read to; its value is of no interest.
    wake_count: Box<u64>,
    waker: Waker,
    /// Scratch space for `collect`.
    completions: Vec<cqueue::Entry>,
}

impl RingDriver {
    pub(crate) fn new(options: &Options, waker: Waker) -> io::Result<RingDriver> {
        let ring = setup::build()?;
        let buffer_ring = BufferRing::new(options.receive_buffers)?;
        let size = usize::try_from(options.receive_buffer_size.get()).expect("a buffer fits in memory");
        let pool = ReceivePool::with_ring(options.receive_buffers, size, buffer_ring)?;
        pool.ring().expect("made with a ring").register(&ring.submitter())?;
        let mut driver = RingDriver {
            queue: Queue::new(ring),
            pool,
            sources: Slab::new(),
            flights: Slab::new(),
            disk_depth: options.disk_depth,
            disk_pushed: 0,
            starved: VecDeque::new(),
            wake_count: Box::new(0),
            waker,
            completions: Vec::new(),
        };
        driver.watch_waker();
        Ok(driver)
    }

    fn watch_waker(&mut self) {
        let to = ptr::from_mut(&mut *self.wake_count).cast();
        let read = opcode::Read::new(types::Fd(self.waker.fd()), to, mem::size_of::<u64>() as u32).build();
        // SAFETY: `wake_count` is on the heap and, like the eventfd, lives as long as the driver, whose drop waits for the
        // request's completion.
        unsafe { self.queue.push(read, Request { kind: Kind::Wake, index: 0 }) };
    }

    /// Gives starved sockets another try, as many as there are buffers.
    fn feed_starved(&mut self) {
        for _ in 0..self.pool.available().min(self.starved.len()) {
            let Some(token) = self.starved.pop_front() else { break };
            if let Some(Source::Socket(socket)) = self.sources.get(token) {
                socket.feed(&mut self.queue);
            }
        }
    }

    /// Handles every completion that is there.
    fn collect(&mut self, events: &mut Events) {
        let mut completions = mem::take(&mut self.completions);
        self.queue.take_completions(&mut completions);
        for completion in completions.drain(..) {
            self.on_completion(&completion, events);
        }
        self.completions = completions;
    }

    fn on_completion(&mut self, completion: &cqueue::Entry, events: &mut Events) {
        let Some(request) = self.queue.on_completion(completion) else { return };
        let result = match completion.result() {
            negative @ ..0 => Err(io::Error::from_raw_os_error(-negative)),
            count => Ok(count as usize),
        };
        let is_last = !cqueue::more(completion.flags());
        match request.kind {
            Kind::Wake => self.watch_waker(),
            Kind::Accept => self.on_accept(request.index, result, is_last, events),
            Kind::Connect => self.on_connect(request.index, result, events),
            Kind::Receive => {
                let buffer = cqueue::buffer_select(completion.flags());
                self.on_receive(request.index, result, buffer, is_last, events);
            }
            Kind::Send => self.on_send(request.index, result, events),
            Kind::Disk => self.on_disk(request.index, result, events),
            Kind::CancelReceive => self.on_cancel_receive(request.index, result),
        }
    }

    /// Waits until the kernel is done with every request; `false` if it takes too long.
    fn drain(&mut self) -> bool {
        let give_up = Clock.now() + DRAIN_PATIENCE;
        let mut completions = Vec::new();
        while self.queue.in_flight() > 0 {
            self.queue.cancel_everything();
            if Clock.now() >= give_up || self.queue.submit_and_wait(Some(CANCEL_INTERVAL)).is_err() {
                return false;
            }
            self.queue.take_completions(&mut completions);
            for completion in completions.drain(..) {
                let Some(request) = self.queue.on_completion(&completion) else { continue };
                if request.kind == Kind::Accept {
                    net::discard_accepted(&completion);
                }
            }
        }
        true
    }
}

impl Driver for RingDriver {
    fn listen(&mut self, listener: TcpListener) -> io::Result<Token> {
        self.start_listening(listener)
    }

    fn resume_accept(&mut self, listener: Token) {
        if let Some(Source::Listener(listener)) = self.sources.get(listener) {
            listener.arm(&mut self.queue);
        }
    }

    fn connect(&mut self, address: SocketAddr, _events: &mut Events) -> io::Result<Token> {
        self.start_connecting(address)
    }

    fn add_socket(&mut self, socket: TcpStream) -> io::Result<Token> {
        self.start_receiving(socket)
    }

    fn detach(&mut self, token: Token, events: &mut Events) {
        self.start_detaching(token, events);
    }

    fn pause_receive(&mut self, token: Token, events: &mut Events) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.pause(&mut self.queue, events);
        }
    }

    fn resume_receive(&mut self, token: Token, events: &mut Events) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.resume(&mut self.queue, events);
        }
    }

    fn send(
        &mut self,
        token: Token,
        batch: SendBatch,
        events: &mut Events,
    ) -> Result<(), Refused<SendBatch>> {
        match self.sources.get(token) {
            Some(Source::Socket(socket)) => socket.send(batch, &mut self.queue, events),
            _ => Err(Refused::closed(batch)),
        }
    }

    fn shutdown_write(&mut self, token: Token) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.shutdown_write();
        }
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<Token> {
        let file = files::File::new(file)?;
        Ok(self.sources.insert(|_| Source::File(file)))
    }

    fn submit_disk(&mut self, owner: Owner, op: DiskOp, events: &mut Events) -> Result<(), Refused<DiskOp>> {
        self.start_transfer(owner, op, events)
    }

    fn close(&mut self, token: Token, events: &mut Events) {
        events.discard(token);
        let Some(source) = self.sources.retire(token) else { return };
        match source {
            Source::Listener(listener) => listener.close(),
            Source::Socket(socket) => socket.close(&mut self.queue),
            Source::File(file) => file.close(),
        }
        self.settle(token.index(), events);
    }

    fn poll(&mut self, events: &mut Events) -> io::Result<()> {
        self.feed_starved();
        self.disk_pushed = 0;
        self.queue.submit()?;
        self.collect(events);
        Ok(())
    }

    fn may_have_events(&mut self) -> bool {
        self.queue.may_have_completions()
    }

    fn block(&mut self, deadline: Option<Instant>, events: &mut Events) -> io::Result<()> {
        self.feed_starved();
        self.disk_pushed = 0;
        let timeout = deadline.map(|deadline| deadline.saturating_since(Clock.now()));
        self.queue.submit_and_wait(timeout)?;
        self.collect(events);
        Ok(())
    }
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        if self.drain() {
            self.pool.ring().expect("made with a ring").unregister(&self.queue.submitter());
        } else {
            // The kernel may still write to any of this, so it must never be freed.
            mem::forget(Rc::clone(&self.pool));
            mem::forget(mem::replace(&mut self.sources, Slab::new()));
            mem::forget(mem::replace(&mut self.flights, Slab::new()));
            mem::forget(mem::take(&mut self.wake_count));
        }
    }
}
