//! The thread that hosts reach first.
//!
//! ```text
//!   accept ─► ICReq/ICResp ─► Connect ──┬─ a subsystem here ─► detach ─► its home pipeline
//!                                       ├─ discovery ────────► served here
//!                                       └─ neither, or not allowed ─► refused
//! ```
//!
//! A connection that has not said Connect within the handshake time-out is closed, and beyond the connection limit none is
//! taken at all; so whoever just opens connections takes nothing from those who do IO.
//!
//! The front numbers the tenants: before a connection goes to its pipeline, every pipeline has been told who it is.
//!
//! Holds: a connection is counted from accept until its pipeline says that it has gone (`tests/bounds.rs`).
//! Elsewhere: what discovery tells is `assemble`; who a tenant is `tenants`; what changes while the target runs is `change`.

mod change;

pub(crate) use change::{Change, Route};

use crate::config::{AllowedHosts, Limits, TenantConfig};
use crate::link::{Events, Link};
use crate::mailbox::Inbox;
use crate::payload::{Intakes, Payload};
use crate::pipeline::Peers;
use crate::pipeline::message::{Announcement, Handover, Report, ToFront, ToPipeline};
use crate::slab::{Key, Slab};
use crate::tenants::{Registry, share_of};
use nvme::buffer::Buffer;
use nvme::connection::{Fatal, FlowControl, TargetConnection, TargetEvent, TargetLimits};
use nvme::spec::connect::ConnectData;
use nvme::spec::{Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{Action, Output, QueueKey, Subsystem, read_connect, unknown_subsystem};
use reactor::{Clock, Event, Reactor, Token};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::Sender;
use tracing::{debug, info, warn};
use units::{Bytes, Instant, Nanos};

/// Host NQNs known at a time.
const TENANTS_MAX: usize = 4096;
/// Memory for what arrives before a connection has a home: Connect data, and what discovery is asked.
const MEMORY: Bytes = Bytes::mib(8);
/// How long a listener that cannot accept (too many open files) rests.
const ACCEPT_REST: Nanos = Nanos::millis(100);
/// How often connections of the discovery service are looked at for a host that has stopped.
const STALL_CHECK: Nanos = Nanos::secs(1);

/// What the front is made of.
pub(crate) struct Parts {
    /// Its reactor.
    pub(crate) reactor: Reactor,
    /// The discovery subsystem, without records.
    pub(crate) discovery: Subsystem,
    /// Bounds.
    pub(crate) limits: Limits,
    /// What every transport grants.
    pub(crate) transport: TargetLimits,
    /// The owner's end of its mailbox.
    pub(crate) inbox: Inbox<ToFront>,
    /// Whoever started the target.
    pub(crate) reports: Sender<Report>,
}

/// A connection that has no home yet, or is at home in discovery.
struct Guest {
    link: Link,
    local: Option<SocketAddr>,
    stage: Stage,
}

enum Stage {
    /// Connect has not come.
    Greeting,
    /// Connect has come; the socket is on its way out of the reactor.
    Leaving(Box<Departure>),
    /// A host of the discovery service.
    Discovery,
    /// The last reply is on the way.
    Refused,
}

/// What a connection takes along.
struct Departure {
    connect: Sqe,
    connect_data: Payload,
    /// The subsystem's slot.
    subsystem: usize,
    /// The slot of the pipeline it is at home in.
    home: usize,
    host: Nqn,
    unparsed: Vec<u8>,
    is_detaching: bool,
}

/// See the module.
pub(crate) struct Front {
    parts: Parts,
    /// Where hosts may connect.
    listeners: Vec<(SocketAddr, Token)>,
    /// Where they are sent.
    routes: Vec<Route>,
    pipelines: Peers,
    /// Hosts with other than an equal share.
    tenants: Vec<TenantConfig>,
    guests: Slab<Guest>,
    by_token: HashMap<Token, Key>,
    /// By when each guest must have said Connect, oldest first.
    deadlines: VecDeque<(Instant, Key)>,
    registry: Registry,
    /// Connections handed over and not gone.
    handed_over: usize,
    intakes: Intakes,
    resting: Vec<Token>,
    resume_at: Option<Instant>,
    next_stall_check: Instant,
    is_ended: bool,
    events: Events,
}

impl Front {
    pub(crate) fn new(parts: Parts) -> Front {
        Front {
            parts,
            listeners: Vec::new(),
            routes: Vec::new(),
            pipelines: Peers::default(),
            tenants: Vec::new(),
            guests: Slab::new(),
            by_token: HashMap::new(),
            deadlines: VecDeque::new(),
            registry: Registry::new(TENANTS_MAX),
            handed_over: 0,
            intakes: Intakes::new(MEMORY),
            resting: Vec::new(),
            resume_at: None,
            next_stall_check: Instant::ZERO,
            is_ended: false,
            events: Vec::new(),
        }
    }

    /// Runs until it is told to end.
    ///
    /// # Errors
    /// The reactor's own: a broken machine, or a bug.
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.is_ended {
            self.parts.reactor.wait(self.deadline())?;
            let now = Clock.now();
            while let Some(event) = self.parts.reactor.next_event() {
                self.on_event(now, event);
            }
            self.run_discovery(now);
            self.check_time(now);
        }
        debug!("the front ends");
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let handshake = self.deadlines.front().map(|(at, _)| *at);
        let stall = (self.guests.len() > 0).then_some(self.next_stall_check);
        let keep_alive = self.parts.discovery.next_timeout();
        [handshake, stall, keep_alive, self.resume_at].into_iter().flatten().min()
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Accepted { socket, peer, .. } => self.on_accepted(now, socket, peer),
            Event::AcceptFailed { listener, error } => {
                warn!(%error, "no connection can be accepted for now");
                self.resting.push(listener);
                self.resume_at = Some(now + ACCEPT_REST);
            }
            Event::Received { token, bytes } => self.on_received(now, token, &bytes),
            Event::ReceiveEnded { token, error } => {
                if let Some(key) = self.by_token.get(&token).copied() {
                    match error {
                        Some(error) => self.close(now, key, &format!("the connection broke: {error}")),
                        None => self.close(now, key, "closed by the host"),
                    }
                }
            }
            Event::Sent { token, batch, result } => {
                let Some(key) = self.by_token.get(&token).copied() else { return };
                let guest = self.guests.get_mut(key).expect("every token has its guest");
                // What discovery says is on the heap: there are no buffers to give back.
                guest.link.on_sent(batch, drop);
                match result {
                    Ok(()) => self.parse(now, key, &[]),
                    Err(error) => self.close(now, key, &format!("the connection broke: {error}")),
                }
            }
            Event::Detached { token, socket } => self.on_detached(token, socket),
            Event::Woken => {
                while let Some(message) = self.parts.inbox.take() {
                    self.on_message(now, message);
                }
            }
            Event::Connected { .. } | Event::Disk { .. } => {
                unreachable!("the front neither connects nor uses disks: {event:?}")
            }
        }
    }

    fn on_message(&mut self, now: Instant, message: ToFront) {
        match message {
            ToFront::Closed { host } => {
                self.handed_over -= 1;
                self.registry.disconnect(&host);
            }
            ToFront::Change(change) => self.on_change(change),
            ToFront::Drain => {
                for (_, listener) in self.listeners.drain(..) {
                    self.parts.reactor.close(listener);
                }
                self.resume_at = None;
                let keys: Vec<Key> = self.guests.iter().map(|(key, _)| key).collect();
                keys.into_iter().for_each(|key| self.close(now, key, "the target ends"));
                if self.parts.reports.send(Report::Drained).is_err() {
                    debug!("nobody waits for the front to be drained");
                }
            }
            ToFront::Stop => self.is_ended = true,
        }
    }

    fn on_accepted(&mut self, now: Instant, socket: TcpStream, peer: SocketAddr) {
        let connections = self.guests.len() + self.handed_over;
        if connections >= self.parts.limits.connections as usize {
            warn!(%peer, connections, "a connection is refused: limits.connections is reached");
            return;
        }
        let local = socket.local_addr().ok();
        let token = match self.parts.reactor.add_socket(socket) {
            Ok(token) => token,
            Err(error) => {
                warn!(%peer, %error, "a connection is refused: the system has no room for it");
                return;
            }
        };
        let transport = TargetConnection::new(self.parts.transport);
        let link = Link::new(now, token, peer, transport, self.parts.limits.memory_per_connection);
        let key = self.guests.insert(Guest { link, local, stage: Stage::Greeting });
        self.by_token.insert(token, key);
        self.deadlines.push_back((now + self.parts.limits.handshake_timeout, key));
        debug!(%peer, "accepted");
    }

    fn on_received(&mut self, now: Instant, token: Token, bytes: &[u8]) {
        let Some(key) = self.by_token.get(&token).copied() else { return };
        let guest = self.guests.get_mut(key).expect("every token has its guest");
        match &mut guest.stage {
            Stage::Leaving(departure) => departure.unparsed.extend_from_slice(bytes),
            _ => self.parse(now, key, bytes),
        }
    }

    /// Parses new bytes (or, if there are none, what was held back), does what they say, and answers.
    fn parse(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        let reactor = &mut self.parts.reactor;
        let result = match bytes {
            [] => guest.link.parse_held(&mut self.intakes, reactor, &mut self.events),
            _ => guest.link.receive(now, bytes, &mut self.intakes, reactor, &mut self.events),
        };
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            if let TargetEvent::Command { sqe, data } = event {
                self.on_command(now, key, sqe, data);
            }
        }
        self.events = events;
        if let Err(fatal) = result {
            self.on_fatal(now, key, fatal);
        }
        self.proceed(now, key);
    }

    fn on_fatal(&mut self, now: Instant, key: Key, fatal: Fatal) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        match fatal {
            Fatal::Violation(_) => {
                warn!(peer = %guest.link.peer, "{fatal}");
                guest.link.end();
                guest.stage = Stage::Refused;
            }
            Fatal::Terminated { .. } => self.close(now, key, &fatal.to_string()),
        }
    }

    /// Sends what is to be sent; lets go what is ready to leave.
    fn proceed(&mut self, now: Instant, key: Key) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        guest.link.flush(now, &mut self.parts.reactor);
        if guest.link.is_spent() {
            return self.close(now, key, "refused");
        }
        if let Stage::Leaving(departure) = &mut guest.stage
            && guest.link.all_sent()
            && !departure.is_detaching
        {
            departure.is_detaching = true;
            self.parts.reactor.detach(guest.link.token);
        }
    }

    fn on_command(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        match guest.stage {
            Stage::Greeting => {
                if let Err(refusal) = self.on_first_command(now, key, sqe, data) {
                    let guest = self.guests.get_mut(key).expect("found above");
                    warn!(peer = %guest.link.peer, status = ?refusal.status(), "Connect refused");
                    guest.link.reply(refusal);
                    guest.link.end();
                    guest.stage = Stage::Refused;
                }
            }
            Stage::Discovery => {
                let bytes = data.as_ref().map(Buffer::bytes);
                match self.parts.discovery.on_command(now, queue_of(key), &sqe, bytes) {
                    Action::Reply { cqe, data: Some(data) } => {
                        let length =
                            u32::try_from(data.len()).expect("no longer than the command's descriptor");
                        guest.link.reply_with_data(cqe, Payload::Heap(data), length);
                    }
                    Action::Reply { cqe, .. } | Action::Credits { cqe, .. } | Action::Fence { cqe, .. } => {
                        guest.link.reply(cqe);
                    }
                    Action::Io(_) => guest.link.reply(Cqe::new(sqe.cid(), Status::INVALID_OPCODE)),
                    Action::Pending => {}
                }
                self.give_back(key, data);
            }
            Stage::Leaving(_) => self.close(now, key, "the host sent commands before Connect was answered"),
            Stage::Refused => {}
        }
    }

    fn give_back(&mut self, key: Key, payload: Option<Payload>) {
        let Some((buffer, account)) = payload.and_then(Payload::into_pooled) else { return };
        if let Some(guest) = self.guests.get_mut(key) {
            guest.link.budget.give(account, buffer.len());
        }
        self.intakes.give(buffer, account);
    }

    /// The command by which a connection says what it is for. The error is the answer before closing.
    fn on_first_command(
        &mut self,
        now: Instant,
        key: Key,
        sqe: Sqe,
        payload: Option<Payload>,
    ) -> Result<(), Cqe> {
        let data = read_connect(&sqe, payload.as_ref().map(Buffer::bytes))?;
        let subsystem = data.subsystem_nqn().ok_or_else(|| unknown_subsystem(&sqe))?;
        let named = self.routes.iter().find(|route| route.nqn == subsystem.as_str());
        let (Some(route), Some(host), Some(connect_data)) = (named, data.host_nqn(), payload) else {
            return self.connect_discovery(now, key, &sqe, &data);
        };
        if let AllowedHosts::Only(hosts) = &route.hosts
            && !hosts.iter().any(|allowed| allowed == host.as_str())
        {
            let peer = self.guests.get(key).map(|guest| guest.link.peer);
            warn!(
                ?peer,
                host = host.as_str(),
                subsystem = subsystem.as_str(),
                "the host is not allowed here"
            );
            return Err(Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST));
        }
        let guest = self.guests.get_mut(key).expect("its command has just come");
        let unparsed = guest.link.take_held();
        guest.stage = Stage::Leaving(Box::new(Departure {
            connect: sqe,
            connect_data,
            subsystem: route.subsystem,
            home: route.home,
            host,
            unparsed,
            is_detaching: false,
        }));
        Ok(())
    }

    /// A Connect to the discovery service; or to nothing there is, which the discovery subsystem knows how to refuse.
    fn connect_discovery(
        &mut self,
        now: Instant,
        key: Key,
        sqe: &Sqe,
        data: &ConnectData,
    ) -> Result<(), Cqe> {
        let connected = self.parts.discovery.on_connect(now, queue_of(key), sqe, data)?;
        let guest = self.guests.get_mut(key).expect("its command has just come");
        if let Some(local) = guest.local {
            self.parts.discovery.set_local_address(queue_of(key), local);
        }
        let flow = if connected.flow_control_disabled { FlowControl::Disabled } else { FlowControl::Enabled };
        guest.link.transport.set_queue(connected.entries, flow);
        guest.link.reply(connected.cqe);
        guest.stage = Stage::Discovery;
        info!(peer = %guest.link.peer, host = connected.host_nqn.as_str(), "connected to discovery");
        Ok(())
    }

    /// A connection has left the reactor: to its pipeline.
    fn on_detached(&mut self, token: Token, socket: TcpStream) {
        let Some(key) = self.by_token.remove(&token) else { return };
        let guest = self.guests.remove(key).expect("every token has its guest");
        let Stage::Leaving(departure) = guest.stage else {
            unreachable!("only those who leave are detached")
        };
        let Departure { connect, connect_data, subsystem, home, host, unparsed, .. } = *departure;
        let peer = guest.link.peer;
        let Some(admission) = self.registry.connect(host.as_str()) else {
            warn!(%peer, host = host.as_str(), "a connection is refused: {TENANTS_MAX} hosts are connected");
            return;
        };
        if admission.is_new {
            let announcement = Announcement {
                id: admission.id,
                host: admission.host.clone(),
                share: share_of(&self.tenants, host.as_str()),
                is_reused: admission.is_reused,
            };
            for pipeline in self.pipelines.iter() {
                pipeline.tell(ToPipeline::Tenant(announcement.clone()));
            }
        }
        let handover = Handover {
            socket,
            peer,
            transport: guest.link.transport,
            connect,
            connect_data,
            unparsed,
            subsystem,
            tenant: admission.id,
            host: admission.host,
        };
        self.handed_over += 1;
        if self.pipelines.post(home, ToPipeline::Connection(Box::new(handover))).is_err() {
            warn!(%peer, "a connection is dropped: the pipeline of its SSD has ended");
            self.handed_over -= 1;
            self.registry.disconnect(host.as_str());
        }
    }

    fn close(&mut self, now: Instant, key: Key, why: &str) {
        let Some(guest) = self.guests.remove(key) else { return };
        info!(peer = %guest.link.peer, "connection ended: {why}");
        self.by_token.remove(&guest.link.token);
        self.parts.reactor.close(guest.link.token);
        self.parts.discovery.on_disconnect(now, queue_of(key));
    }

    /// Does what the discovery subsystem wants unasked.
    fn run_discovery(&mut self, now: Instant) {
        while let Some(output) = self.parts.discovery.poll(now) {
            match output {
                Output::Complete { queue, cqe } => {
                    let key = Key::new(queue.slot, queue.generation);
                    if let Some(guest) = self.guests.get_mut(key) {
                        guest.link.reply(cqe);
                        self.proceed(now, key);
                    }
                }
                Output::CloseQueue { queue, reason } => {
                    self.close(now, Key::new(queue.slot, queue.generation), &format!("{reason:?}"));
                }
            }
        }
    }

    fn check_time(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.deadlines.front()
            && (at <= now || self.guests.get(key).is_none())
        {
            self.deadlines.pop_front();
            if self.guests.get(key).is_some_and(|guest| !matches!(guest.stage, Stage::Discovery)) {
                self.close(now, key, "Connect did not come in time");
            }
        }
        if now >= self.next_stall_check {
            self.next_stall_check = now + STALL_CHECK;
            let limit = self.parts.limits.stall_timeout;
            let stalled = self.guests.iter().filter(|(_, guest)| guest.link.stalled_for(now) >= limit);
            let stalled: Vec<Key> = stalled.map(|(key, _)| key).collect();
            stalled.into_iter().for_each(|key| self.close(now, key, "the host does not read its replies"));
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            self.resume_at = None;
            self.resting.drain(..).for_each(|listener| self.parts.reactor.resume_accept(listener));
        }
    }
}

/// The name of a guest in the discovery subsystem.
fn queue_of(key: Key) -> QueueKey {
    QueueKey { slot: key.index() as u32, generation: key.generation() }
}
