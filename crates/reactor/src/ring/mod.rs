//! The io_uring backend: sockets, disk and wake-ups in one ring, except for some devices.
//!
//! ```text
//!   listener   multishot accept                          one request, a completion per connection
//!   socket     multishot recv into provided buffers      one request, a completion per arrival
//!              or poll, then recvmsg by ourselves              for bytes that belong somewhere
//!              sendmsg (MSG_WAITALL), one at a time
//!   file       read · write · fsync · fallocate · discard command
//!   channel    poll, once for each time that it is watched
//!   waker      multishot poll of an eventfd
//! ```
//!
//! Devices that are polled, or that get NVMe commands, have rings of their own (`device`).
//!
//! A request belongs to the slot of its socket, file or transfer, and its `user_data` says which: the slot and all memory that
//! the request names stay until the request's last completion. So a slot needs no reference count from the kernel's side, only
//! to know which of its few requests are out.
//!
//! Holds: a slot is freed only when none of its requests is out (`closing_with_a_batch_in_flight_returns_its_buffers`), and the ring and
//!        everything in it only when no request at all is (`dropping_the_reactor_returns_every_buffer`).
//! Elsewhere: the ring itself is `setup` and `queue`; the sockets are `net`, the disk is `files`, channels are `channels`; what rings know beforehand is `registry`.

pub(crate) mod buffers;
mod channels;
mod device;
mod files;
mod net;
mod queue;
mod registry;
mod setup;

use crate::disk::Owner;
use crate::driver::Driver;
use crate::event::Events;
use crate::receive::ReceivePool;
use crate::refused::Refused;
use crate::region::Region;
use crate::token::Slab;
use crate::{Clock, DiskAccess, DiskOp, Options, SendBatch, Token, Waker};
use buffers::BufferRing;
use device::{DEVICE_LANES, DeviceRings};
use io_uring::{cqueue, opcode, types};
use queue::{Kind, Queue, Request};
use registry::Registry;
pub use registry::Unregistered;
use std::collections::VecDeque;
use std::hint;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::{Instant, Nanos};

/// Time that a dropped reactor waits for the kernel to let go of its memory. Sockets let go at once; a disk that takes longer
/// than this is broken, and then the memory is leaked instead.
const DRAIN_PATIENCE: Nanos = Nanos::secs(10);

/// Interval before it tries again to cancel a request that was not found the time before.
const CANCEL_INTERVAL: Nanos = Nanos::millis(2);

/// The purpose of a slot.
enum Source {
    Listener(net::Listener),
    Socket(net::Socket),
    File(files::File),
    Channel(channels::Channel),
}

pub(crate) struct RingDriver {
    queue: Queue,
    /// The files and buffers that the main ring knows beforehand.
    registry: Registry,
    devices: DeviceRings,
    /// The zeroes that are written to a namespace without Write Zeroes; this memory is not written otherwise.
    zeroes: Option<Region>,
    pool: Rc<ReceivePool>,
    sources: Slab<Source>,
    flights: Slab<files::Flight>,
    disk_depth: usize,
    /// Operations that were asked for and not handed to the kernel.
    disk_pushed: usize,
    /// Sockets with a reception that stopped for lack of a buffer, in the order in which they will get one.
    starved: VecDeque<Token>,
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
            registry: Registry::default(),
            devices: DeviceRings::default(),
            zeroes: None,
            pool,
            sources: Slab::new(),
            flights: Slab::new(),
            disk_depth: options.disk_depth,
            disk_pushed: 0,
            starved: VecDeque::new(),
            waker,
            completions: Vec::new(),
        };
        driver.watch_waker();
        Ok(driver)
    }

    /// Makes every wake-up a completion from now on. The eventfd's counter is never read: only the write to it matters.
    fn watch_waker(&mut self) {
        let poll = opcode::PollAdd::new(types::Fd(self.waker.fd()), libc::POLLIN as u32).multi(true).build();
        // SAFETY: the eventfd lives as long as the driver, and the driver's drop waits for the request's last
        // completion.
        unsafe { self.queue.push(poll, Request { kind: Kind::Wake, index: 0 }) };
    }

    /// Gives sockets that wait for memory another try, up to the number of free buffers.
    fn feed_starved(&mut self) {
        for _ in 0..self.pool.available().min(self.starved.len()) {
            let Some(token) = self.starved.pop_front() else { break };
            if let Some(Source::Socket(socket)) = self.sources.get(token) {
                socket.feed(&mut self.queue);
            }
        }
    }

    /// Handles all completions; returns their number.
    fn collect(&mut self, events: &mut Events) -> usize {
        let mut completions = mem::take(&mut self.completions);
        self.queue.take_completions(&mut completions);
        let mut count = completions.len();
        for completion in completions.drain(..) {
            self.on_completion(&completion, events);
        }
        for lane in DEVICE_LANES {
            let Some(ring) = self.devices.get(lane) else { continue };
            ring.queue.take_completions(&mut completions);
            count += completions.len();
            for completion in completions.drain(..) {
                let queue = &mut self.devices.get(lane).expect("found above").queue;
                if let Some(request) = queue.on_completion(&completion) {
                    self.on_disk(request.index, result_of(&completion), events);
                }
            }
        }
        self.completions = completions;
        count
    }

    /// Hands everything over on every ring.
    fn submit(&mut self) -> io::Result<()> {
        self.disk_pushed = 0;
        self.queue.submit()?;
        self.devices.all().try_for_each(|ring| ring.queue.submit())
    }

    /// Polls in place of a sleep, until something has happened on any ring or the deadline.
    fn poll_until(&mut self, deadline: Option<Instant>, events: &mut Events) -> io::Result<()> {
        loop {
            self.submit()?;
            if self.collect(events) > 0 || deadline.is_some_and(|deadline| Clock.now() >= deadline) {
                return Ok(());
            }
            hint::spin_loop();
        }
    }

    fn on_completion(&mut self, completion: &cqueue::Entry, events: &mut Events) {
        let Some(request) = self.queue.on_completion(completion) else { return };
        let result = result_of(completion);
        let is_last = !cqueue::more(completion.flags());
        match request.kind {
            Kind::Wake if is_last => self.watch_waker(),
            Kind::Wake => {}
            Kind::Accept => self.on_accept(request.index, result, is_last, events),
            Kind::Connect => self.on_connect(request.index, result, events),
            Kind::Receive => {
                let buffer = cqueue::buffer_select(completion.flags());
                self.on_receive(request.index, result, buffer, is_last, events);
            }
            Kind::Readable => self.on_readable(request.index, events),
            Kind::Send => self.on_send(request.index, result, events),
            Kind::Disk => self.on_disk(request.index, result, events),
            Kind::DeviceRing => self.devices.on_watched(request.index),
            Kind::Channel => self.on_channel(request.index, events),
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
        // A disk operation cannot be cancelled, only waited for.
        for lane in DEVICE_LANES {
            let Some(ring) = self.devices.get(lane) else { continue };
            while ring.queue.in_flight() > 0 {
                if Clock.now() >= give_up || ring.queue.submit_and_wait(Some(CANCEL_INTERVAL)).is_err() {
                    return false;
                }
                ring.queue.take_completions(&mut completions);
                for completion in completions.drain(..) {
                    ring.queue.on_completion(&completion);
                }
            }
        }
        true
    }
}

/// The result of a completion: a count, or an error.
fn result_of(completion: &cqueue::Entry) -> io::Result<usize> {
    match completion.result() {
        negative @ ..0 => Err(io::Error::from_raw_os_error(-negative)),
        count => Ok(count as usize),
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

    fn pull_receive(&mut self, token: Token) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.pull(&mut self.queue);
        }
    }

    fn push_receive(&mut self, token: Token) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.push(&mut self.queue);
        }
    }

    fn read(&mut self, token: Token, places: [&mut [u8]; 2], events: &mut Events) -> Option<usize> {
        match self.sources.get(token) {
            Some(Source::Socket(socket)) => socket.read(places, &mut self.queue, events),
            _ => None,
        }
    }

    fn expect(&mut self, token: Token, count: usize) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.expect(count);
        }
    }

    fn read_later(&mut self, token: Token) {
        if let Some(Source::Socket(socket)) = self.sources.get(token) {
            socket.arm(&mut self.queue);
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

    fn add_channel(&mut self, descriptor: OwnedFd) -> io::Result<Token> {
        self.start_watching(descriptor)
    }

    fn watch_channel(&mut self, token: Token) -> io::Result<()> {
        if let Some(Source::Channel(channel)) = self.sources.get(token) {
            channel.arm(&mut self.queue);
        }
        Ok(())
    }

    fn add_disk(&mut self, file: OwnedFd, access: DiskAccess) -> io::Result<Token> {
        self.start_disk(file, access)
    }

    fn take_unregistered(&mut self) -> Option<Unregistered> {
        let of_main = self.registry.take_refusal();
        of_main.or_else(|| self.devices.all().find_map(|ring| ring.registry.take_refusal()))
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
            Source::Channel(channel) => channel.close(&mut self.queue),
        }
        self.settle(token.index(), events);
    }

    fn poll(&mut self, events: &mut Events) -> io::Result<()> {
        self.feed_starved();
        self.submit()?;
        self.collect(events);
        Ok(())
    }

    fn may_have_events(&mut self) -> bool {
        self.queue.may_have_completions()
            || self.devices.all().any(|ring| ring.queue.must_be_polled() || ring.queue.may_have_completions())
    }

    fn block(&mut self, deadline: Option<Instant>, events: &mut Events) -> io::Result<()> {
        self.feed_starved();
        self.disk_pushed = 0;
        self.devices.all().try_for_each(|ring| ring.queue.submit())?;
        if self.devices.must_be_polled() {
            return self.poll_until(deadline, events);
        }
        if !self.devices.watch(&mut self.queue) {
            self.devices.unwatch();
            return self.poll(events);
        }
        let timeout = deadline.map(|deadline| deadline.saturating_since(Clock.now()));
        let result = self.queue.submit_and_wait(timeout);
        self.devices.unwatch();
        result?;
        // The work behind a signalled completion runs only now.
        self.devices.all().try_for_each(|ring| ring.queue.submit())?;
        self.collect(events);
        Ok(())
    }
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        if self.drain() {
            self.pool.ring().expect("made with a ring").unregister(&self.queue.submitter());
            self.registry.clear(&self.queue.submitter());
            self.devices.all().for_each(|ring| ring.registry.clear(&ring.queue.submitter()));
        } else {
            // The kernel may still write to any of this, so it must never be freed.
            mem::forget(Rc::clone(&self.pool));
            mem::forget(mem::replace(&mut self.sources, Slab::new()));
            mem::forget(mem::replace(&mut self.flights, Slab::new()));
            mem::forget(self.zeroes.take());
            mem::forget(mem::take(&mut self.devices));
        }
    }
}
