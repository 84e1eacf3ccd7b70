//! Many controllers and connections on one thread: gives sessions their sockets, queue pairs and the time.
//!
//! ```text
//!   loop {
//!       engine.wait(deadline)?;                    // sends the submitted IOs, receives, keeps time
//!       while let Some(event) = engine.next_event() { … engine.submit(controller, request) … }
//!   }
//! ```
//!
//! IOs submitted between two calls of `wait` are sent in one batch per connection. A connection has one
//! batch in flight; later submissions form the next batch. A queue pair is given every command on its own.
//!
//! Elsewhere: `session` makes all decisions, `queue_pairs` is what RDMA has of its own.

mod buffers;
mod queue_pairs;

use crate::connection::Batch;
use crate::event::{ControllerId, Event};
use crate::fault::Fault;
use crate::namespace::Namespace;
use crate::options::ControllerOptions;
use crate::request::{Refusal, Refused, Request};
use crate::secured::Secured;
use crate::session::{Output, Session};
use crate::view::View;
use buffers::Buffers;
use nvme::host::{ControllerInfo, Purpose};
use nvme::spec::discovery::TransportType;
use queue_pairs::{Lender, QueuePairs};
use reactor::rdma::CmNumber;
use reactor::{Backend, Clock, IoBuffer, Reactor, RecvBuffer, SendBatch, Token, Waker};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use tls::{Broken, Spares};
use units::{Bytes, Instant, Nanos};

/// Time that a closed connection stays open so that its TermReq can be sent.
const LINGER: Nanos = Nanos::millis(200);
/// Batches kept for reuse.
const SPARE_BATCHES: usize = 256;

#[derive(Debug)]
struct Slot {
    generation: u32,
    session: Option<Session>,
    /// The ways of its connections.
    links: Vec<Option<Link>>,
    /// The memory that its controller may reach by RDMA.
    lender: Option<Arc<Lender>>,
    /// Whether it is in `touched`: it may have something to send.
    is_touched: bool,
    /// The earliest time at which it is in `alarms`.
    armed: Instant,
}

/// The way of a connection.
#[derive(Clone, Copy, Debug)]
enum Link {
    Socket(Token),
    Pair(CmNumber),
}

#[derive(Debug)]
struct Socket {
    slot: usize,
    connection: usize,
    is_sending: bool,
    secured: Option<Box<Secured>>,
}

/// Drives many controllers on the thread that created it.
pub struct Engine {
    reactor: Reactor,
    /// Before everything that has buffers: an engine that is dropped destroys its queue pairs first.
    pairs: Option<QueuePairs>,
    buffers: Buffers,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// A tree: each IO looks here several times, and an engine has few sockets.
    sockets: BTreeMap<Token, Socket>,
    /// Closed connections whose TermReq is still being sent, and their deadlines.
    lingering: Vec<(Instant, Token)>,
    /// May have entries that are no longer needed; never lacks one that is.
    alarms: BinaryHeap<Reverse<(Instant, usize)>>,
    touched: Vec<usize>,
    events: VecDeque<Event>,
    spare: Vec<SendBatch>,
    /// Room for the plaintext of a record.
    plain: Vec<u8>,
    /// Memory for records to be sent.
    records: Spares,
}

impl Engine {
    /// An engine that lends up to `memory` for IO buffers.
    ///
    /// # Errors
    /// If the requested backend is not available, or the process has no file descriptors left.
    pub fn new(backend: Backend, memory: Bytes) -> io::Result<Engine> {
        Ok(Engine::with_reactor(Reactor::new(backend)?, memory))
    }

    /// An engine on an existing reactor.
    pub fn with_reactor(reactor: Reactor, memory: Bytes) -> Engine {
        Engine {
            reactor,
            pairs: None,
            buffers: Buffers::new(memory),
            slots: Vec::new(),
            free: Vec::new(),
            sockets: BTreeMap::new(),
            lingering: Vec::new(),
            alarms: BinaryHeap::new(),
            touched: Vec::new(),
            events: VecDeque::new(),
            spare: Vec::new(),
            plain: Vec::new(),
            records: Spares::default(),
        }
    }

    /// Starts to connect, and then keeps the controller connected. [`Event::Ready`] or [`Event::GaveUp`]
    /// follows.
    pub fn connect(&mut self, options: ControllerOptions) -> ControllerId {
        self.add(options, Purpose::Io)
    }

    /// Starts to read the discovery log of the target; `options.subsystem` is usually
    /// [`nvme::spec::nqn::Nqn::discovery`]. [`Event::Discovered`] or [`Event::GaveUp`] follows.
    pub fn discover(&mut self, options: ControllerOptions) -> ControllerId {
        self.add(options, Purpose::Discovery)
    }

    fn add(&mut self, options: ControllerOptions, purpose: Purpose) -> ControllerId {
        let now = Clock.now();
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                session: None,
                links: Vec::new(),
                lender: None,
                is_touched: false,
                armed: Instant::FAR_FUTURE,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.session = Some(Session::new(now, options, purpose));
        slot.armed = Instant::FAR_FUTURE;
        let id = ControllerId { index: index as u32, generation: slot.generation };
        self.after_input(now, index);
        id
    }

    /// Submits an IO. Exactly one [`Event::Completed`] follows.
    ///
    /// # Errors
    /// Returns the request with the reason why it was not accepted. Then nothing has happened.
    pub fn submit(&mut self, controller: ControllerId, request: Request) -> Result<(), Box<Refused>> {
        let now = Clock.now();
        let Some(session) = self.session_mut(controller) else {
            return Err(Box::new(Refused { why: Refusal::Gone, request }));
        };
        session.submit(now, request)?;
        self.after_input(now, controller.index as usize);
        Ok(())
    }

    /// Ends all IOs of a controller and shuts it down; [`Event::Closed`] follows.
    pub fn close(&mut self, controller: ControllerId) {
        let now = Clock.now();
        if let Some(session) = self.session_mut(controller) {
            session.close(now);
            self.after_input(now, controller.index as usize);
        }
    }

    /// A buffer of exactly `length` bytes with unspecified contents, for IOs of this controller; `None` while the limit of the engine's
    /// memory is reached. Use it for no other controller: one by RDMA may look into its buffers, and change them, at any time.
    pub fn take_buffer(&mut self, controller: ControllerId, length: usize) -> Option<IoBuffer> {
        let options = self.session(controller).map(Session::options);
        match options.map_or(TransportType::Tcp, |options| options.transport) {
            TransportType::Tcp => self.buffers.take_shared(length),
            TransportType::Rdma => self.buffers.take_own(controller.index as usize, length),
        }
    }

    /// Returns a buffer to its pool. (Dropping it does the same, a little slower.)
    pub fn give_buffer(&mut self, buffer: IoBuffer) {
        self.buffers.give(buffer);
    }

    /// The namespaces of a controller: empty before it is ready, kept while it is disconnected.
    pub fn namespaces(&self, controller: ControllerId) -> &[Namespace] {
        self.session(controller).map_or(&[], Session::namespaces)
    }

    /// Information about a controller that has been ready.
    pub fn info(&self, controller: ControllerId) -> Option<&ControllerInfo> {
        self.session(controller).map(Session::info)
    }

    /// The virtual view of a controller's SSD; `None` if the controller no longer exists.
    pub fn view(&self, controller: ControllerId) -> Option<View> {
        self.session(controller).map(Session::view)
    }

    /// Wakes this engine from other threads, as [`Event::Woken`].
    pub fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    /// Makes the next `wait` that has no event to return fail with `error`: for tests of whoever owns the engine.
    pub fn break_down(&mut self, error: io::Error) {
        self.reactor.break_down(error);
    }

    /// The backend in use.
    pub fn backend(&self) -> Backend {
        self.reactor.backend()
    }

    /// The oldest event that was not taken yet.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Sends the submitted IOs. Returns when there is an event to take, or when `deadline` has passed.
    ///
    /// # Errors
    /// An error of the reactor: the machine does not work.
    pub fn wait(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.send_touched();
        loop {
            if self.events.is_empty() {
                let alarm = self.alarms.peek().map(|Reverse((at, _))| *at);
                let linger = self.lingering.first().map(|(until, _)| *until);
                let until = [deadline, alarm, linger].into_iter().flatten().min();
                self.reactor.wait(until)?;
            } else {
                self.reactor.flush()?;
            }
            let now = self.take_in();
            self.on_time(now);
            if !self.events.is_empty() || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(());
            }
            self.send_touched();
        }
    }

    fn session(&self, id: ControllerId) -> Option<&Session> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.session.as_ref()
    }

    fn session_mut(&mut self, id: ControllerId) -> Option<&mut Session> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.session.as_mut()
    }

    /// Handles the events of the reactor. Returns the time.
    fn take_in(&mut self) -> Instant {
        let mut now = Clock.now();
        while let Some(event) = self.reactor.next_event() {
            match event {
                reactor::Event::Received { token, bytes } => {
                    now = Clock.now();
                    self.on_received(now, token, &bytes);
                }
                reactor::Event::Sent { token, batch, result } => self.on_sent(now, token, batch, result),
                reactor::Event::Connected { token, result } => self.on_connected(now, token, result),
                reactor::Event::ReceiveEnded { token, error } => {
                    let fault = error.map_or(Fault::Closed, |error| Fault::Broken(Arc::new(error)));
                    self.on_broken(now, token, fault);
                }
                reactor::Event::Woken => self.events.push_back(Event::Woken),
                reactor::Event::Ready { token } => {
                    now = Clock.now();
                    self.on_ready(now, token);
                }
                // An engine never listens, reads, detaches, or uses a disk.
                reactor::Event::Accepted { .. }
                | reactor::Event::Readable { .. }
                | reactor::Event::AcceptFailed { .. }
                | reactor::Event::Detached { .. }
                | reactor::Event::Disk { .. } => {}
            }
        }
        now
    }

    fn on_received(&mut self, now: Instant, token: Token, bytes: &RecvBuffer) {
        let Some(Socket { slot, connection, secured, .. }) = self.sockets.get_mut(&token) else { return };
        let (slot, connection) = (*slot, *connection);
        let Some(session) = &mut self.slots[slot].session else { return };
        match secured {
            None => session.on_bytes(now, connection, bytes),
            Some(secured) => {
                let plain = &mut self.plain;
                if let Err(broken) = receive(session, connection, secured, (now, bytes, plain)) {
                    session.on_closed(now, Fault::Tls(broken));
                }
                self.send_records(now, token);
            }
        }
        self.after_input(now, slot);
    }

    /// Sends records that the session knows nothing of: those of the handshake.
    fn send_records(&mut self, now: Instant, token: Token) {
        let Some(socket) = self.sockets.get_mut(&token).filter(|socket| !socket.is_sending) else { return };
        let Some(secured) = &mut socket.secured else { return };
        let mut batch = self.spare.pop().unwrap_or_default();
        match secured.seal(&mut batch) {
            Ok(()) if batch.is_empty() => self.spare.push(batch),
            // If it is refused, the connection has just broken; its event follows.
            Ok(()) => socket.is_sending = self.reactor.send(token, batch).is_ok(),
            Err(broken) => self.on_broken(now, token, Fault::Tls(broken)),
        }
    }

    fn on_sent(&mut self, now: Instant, token: Token, mut batch: SendBatch, result: io::Result<()>) {
        let mut socket = self.sockets.get_mut(&token);
        if socket.as_ref().is_some_and(|socket| socket.secured.is_some()) {
            self.records.give(batch.take_vec());
        }
        batch.clear();
        if self.spare.len() < SPARE_BATCHES {
            self.spare.push(batch);
        }
        let Some(socket) = &mut socket else {
            return self.stop_lingering(|lingering| lingering == token);
        };
        socket.is_sending = false;
        let (slot, connection) = (socket.slot, socket.connection);
        match result {
            Ok(()) => {
                if let Some(session) = &mut self.slots[slot].session {
                    session.on_sent(connection);
                    self.send_records(now, token);
                    self.after_input(now, slot);
                }
            }
            Err(error) => self.on_broken(now, token, Fault::Broken(Arc::new(error))),
        }
    }

    fn on_connected(&mut self, now: Instant, token: Token, result: io::Result<()>) {
        let Some(socket) = self.sockets.get_mut(&token) else { return };
        let (slot, connection) = (socket.slot, socket.connection);
        match result {
            Ok(()) => {
                let Some(session) = &mut self.slots[slot].session else { return };
                match Secured::begin(session.psks()) {
                    Ok(None) => session.on_connected(now, connection, None),
                    Ok(secured) => {
                        socket.secured = secured;
                        self.send_records(now, token);
                    }
                    Err(broken) => session.on_closed(now, Fault::Tls(broken)),
                }
                self.after_input(now, slot);
            }
            Err(error) => self.on_broken(now, token, Fault::Unreachable(Arc::new(error))),
        }
    }

    fn on_broken(&mut self, now: Instant, token: Token, fault: Fault) {
        let Some(&Socket { slot, .. }) = self.sockets.get(&token) else {
            return self.stop_lingering(|lingering| lingering == token);
        };
        if let Some(session) = &mut self.slots[slot].session {
            session.on_closed(now, fault);
            self.after_input(now, slot);
        }
    }

    fn on_time(&mut self, now: Instant) {
        while let Some(&Reverse((at, slot))) = self.alarms.peek() {
            if at > now {
                break;
            }
            self.alarms.pop();
            let Slot { session, armed, .. } = &mut self.slots[slot];
            if *armed == at {
                *armed = Instant::FAR_FUTURE;
            }
            if let Some(session) = session {
                session.on_time(now);
                self.after_input(now, slot);
            }
        }
        let expired = self.lingering.iter().take_while(|(until, _)| *until <= now).count();
        for (_, token) in self.lingering.drain(..expired) {
            self.reactor.close(token);
        }
    }

    fn stop_lingering(&mut self, is_over: impl Fn(Token) -> bool) {
        let reactor = &mut self.reactor;
        self.lingering.retain(|&(_, token)| {
            if is_over(token) {
                reactor.close(token);
            }
            !is_over(token)
        });
    }

    /// Handles the outputs of a session after it got input.
    fn after_input(&mut self, now: Instant, index: usize) {
        while let Some(session) = &mut self.slots[index].session
            && let Some(output) = session.poll_output()
        {
            self.on_output(now, index, output);
        }
        let slot = &mut self.slots[index];
        let Some(session) = &slot.session else { return };
        if session.alarm() < slot.armed {
            slot.armed = session.alarm();
            self.alarms.push(Reverse((slot.armed, index)));
        }
        if !slot.is_touched {
            slot.is_touched = true;
            self.touched.push(index);
        }
    }

    fn on_output(&mut self, now: Instant, index: usize, output: Output) {
        let controller = ControllerId { index: index as u32, generation: self.slots[index].generation };
        let event = match output {
            Output::Ended(completion) => Event::Completed { controller, completion },
            Output::Open(connection) => return self.open(now, index, connection),
            Output::Close(connection, last_words) => {
                return self.close_link(now, index, connection, &last_words);
            }
            Output::Ready { first } => Event::Ready { controller, first },
            Output::Down { fault, retry_in } => Event::Down { controller, fault, retry_in },
            Output::NamespacesChanged => Event::NamespacesChanged { controller },
            Output::Discovered(subsystems) => Event::Discovered { controller, subsystems },
            Output::GaveUp(error) => {
                self.remove(index);
                Event::GaveUp { controller, error }
            }
            Output::Closed => {
                self.remove(index);
                Event::Closed { controller }
            }
        };
        self.events.push_back(event);
    }

    fn remove(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.session = None;
        slot.lender = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.buffers.forget(index);
        self.free.push(index);
    }

    fn open(&mut self, now: Instant, index: usize, connection: usize) {
        let Slot { session: Some(session), links, .. } = &mut self.slots[index] else { return };
        if links.len() <= connection {
            links.resize(connection + 1, None);
        }
        let options = session.options();
        let link = match options.transport {
            TransportType::Tcp => match self.reactor.connect(options.address) {
                Ok(token) => {
                    let socket = Socket { slot: index, connection, is_sending: false, secured: None };
                    self.sockets.insert(token, socket);
                    Ok(Link::Socket(token))
                }
                Err(error) => Err(Fault::Unreachable(Arc::new(error))),
            },
            TransportType::Rdma => {
                QueuePairs::begin(&mut self.pairs, &mut self.reactor, options, (index, connection))
                    .map(Link::Pair)
            }
        };
        match link {
            Ok(link) => links[connection] = Some(link),
            Err(fault) => session.on_closed(now, fault),
        }
    }

    fn close_link(&mut self, now: Instant, index: usize, connection: usize, last_words: &[u8]) {
        match self.slots[index].links.get_mut(connection).and_then(Option::take) {
            None => {}
            Some(Link::Socket(token)) => self.close_socket(now, token, last_words),
            Some(Link::Pair(number)) => self.close_pair(number),
        }
    }

    fn close_socket(&mut self, now: Instant, token: Token, last_words: &[u8]) {
        let socket = self.sockets.remove(&token).filter(|socket| !socket.is_sending);
        let lingers = !last_words.is_empty()
            && socket.is_some_and(|socket| {
                let mut batch = SendBatch::new();
                let written = match socket.secured {
                    None => {
                        batch.push_bytes(last_words);
                        Ok(())
                    }
                    Some(mut secured) => {
                        secured.push(last_words);
                        secured.seal(&mut batch)
                    }
                };
                written.is_ok() && self.reactor.send(token, batch).is_ok()
            });
        if lingers {
            self.lingering.push((now + LINGER, token));
        } else {
            self.reactor.close(token);
        }
    }

    fn send_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for index in touched.drain(..) {
            self.slots[index].is_touched = false;
            self.send(index);
        }
        self.touched = touched;
    }

    fn send(&mut self, index: usize) {
        while let Slot { session: Some(session), links, .. } = &mut self.slots[index]
            && let Some(connection) = session.poll_marked()
        {
            let token = match links.get(connection).copied().flatten() {
                None => continue,
                Some(Link::Pair(number)) => {
                    self.flush(number);
                    continue;
                }
                Some(Link::Socket(token)) => token,
            };
            let Some(socket) = self.sockets.get_mut(&token) else { continue };
            if socket.is_sending {
                // `on_sent` marks the connection again.
                continue;
            }
            let mut batch = self.spare.pop().unwrap_or_default();
            match &mut socket.secured {
                None => session.poll_transmit(connection, &mut batch),
                Some(secured) => {
                    secured.make_room(&mut self.records);
                    session.poll_transmit(connection, &mut **secured);
                    if let Err(error) = secured.seal(&mut batch) {
                        // It ends all connections of the controller.
                        return self.on_broken(Clock.now(), token, Fault::Tls(error));
                    }
                }
            }
            if batch.is_empty() {
                self.spare.push(batch);
                continue;
            }
            match self.reactor.send(token, batch) {
                Ok(()) => socket.is_sending = true,
                // The connection has just broken; its event follows.
                Err(refused) => drop(refused),
            }
        }
    }
}

/// Takes in records of a connection.
fn receive(
    session: &mut Session,
    connection: usize,
    secured: &mut Secured,
    (now, bytes, plain): (Instant, &[u8], &mut Vec<u8>),
) -> Result<(), Broken> {
    secured.inlet().pass(bytes, || {
        if secured.negotiate()? {
            session.on_connected(now, connection, None);
        }
        while let Some(plain) = secured.read(now, plain)? {
            session.on_bytes(now, connection, plain);
        }
        Ok(())
    })
}
