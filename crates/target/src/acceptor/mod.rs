//! The thread that hosts reach first.
//!
//! ```text
//!   accept ─► ICReq/ICResp ─► Connect ──┬─ a subsystem here ─► detach ─► its home pipeline
//!                                       ├─ discovery ────────► served here
//!                                       └─ neither, or not allowed ─► refused
//! ```
//!
//! Until it has said Connect, a connection is in the waiting room, which has a bound and a timeout of its own; so whoever
//! just opens connections takes nothing from those who do IO. One that has, counts until its pipeline says that it has gone.
//!
//! The acceptor numbers the tenants: before a connection goes to its pipeline, every pipeline has been told who it is.
//!
//! Who may stay is decided when it is known who it is, at Connect: until then everybody is in the waiting room, where a newcomer
//! always finds a place. So strangers, however many, do not keep out a host that the configuration names.
//!
//! Holds: connections are bounded, in all, by host, by address, and before Connect (`tests/bad_peers/crowds.rs`, `strangers.rs`).
//! Elsewhere: the Connect command is `connect`; what discovery tells is `assemble`; who a tenant is `tenants`, and what share it has `shares`; who pays for places `quota`; who has to leave
//!            the room is `handshake`; how often a host is worth a line of the log is `log_throttle`; who has vanished is `watch`; what
//!            changes while the target runs is `change`.

mod change;
mod connect;
mod shares;
mod watch;

pub(crate) use change::{Change, Route};

use crate::account::{Accounts, ConnectionAccount, HostAccount, Permit, REPLIES_MAX, Supply};
use crate::assemble::{IN_CAPSULE_MAX, millis};
use crate::config::{Limits, TenantConfig};
use crate::eviction::EvictionSet;
use crate::handshake::{Handshake, Handshakes};
use crate::link::{Events, Link};
use crate::log_throttle::{LogThrottle, Subject, Suppressed};
use crate::mailbox::{Inbox, Mailbox};
use crate::payload::{Intakes, Payload};
use crate::pipeline::Peers;
use crate::pipeline::message::{Report, ToAcceptor};
use crate::quota::{Charged, ConnectionQuota, Origin, QuotaLimits};
use crate::replies::{self, Backlog, Deferred, ReplyRate, Wait};
use crate::slab::{Key, Slab};
use crate::tenants::Registry;
use connect::Refusal;
use nvme::buffer::Buffer;
use nvme::connection::{Fatal, TargetConnection, TargetEvent, TargetLimits};
use nvme::spec::connect::ConnectData;
use nvme::spec::{Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{Action, Output, QueueKey, Subsystem};
use reactor::{Clock, Event, Reactor, Token};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tracing::{debug, info, warn};
use units::{Bytes, Instant, Nanos, TenantId};
use watch::watch_peer;

/// Host NQNs known at a time.
const TENANTS_MAX: usize = 4096;
/// Memory of one connection before it has a home: Connect data, or what discovery is asked.
const GUEST_MEMORY: Bytes = Bytes::kib(64);
/// Bytes after Connect that are kept while a connection is on its way to its home: none come from a host that waits for the answer.
const UNPARSED_MAX: usize = 64 << 10;
/// Why a connection ends whose host does not wait.
const TOO_EARLY: &str = "the host sent commands before Connect was answered";
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
    /// Its mailbox, for connections to say that they have gone.
    pub(crate) mailbox: Mailbox<ToAcceptor>,
    /// The owner's end of that.
    pub(crate) inbox: Inbox<ToAcceptor>,
    /// Whoever started the target.
    pub(crate) reports: Sender<Report>,
}

/// A connection that has no home yet, or is at home in discovery.
struct Guest {
    link: Link,
    /// Commands that wait until they may be answered.
    backlog: Backlog,
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
    connect_data: Box<ConnectData>,
    /// The subsystem's slot.
    subsystem: usize,
    /// The slot of the pipeline it is at home in.
    home: usize,
    tenant: TenantId,
    host: Arc<str>,
    /// Who pays for its place.
    charged: Charged,
    unparsed: Vec<u8>,
    is_detaching: bool,
}

/// See the module.
pub(crate) struct Acceptor {
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
    /// Guests that have not said Connect.
    handshakes: Handshakes,
    registry: Registry,
    /// Of connections handed over and not gone.
    quota: ConnectionQuota,
    /// By which the weights of all tenants are multiplied, so that the hosts of an address can be told parts of one.
    scale: u32,
    /// Guests at home in discovery.
    discovering: EvictionSet,
    accounts: Accounts,
    intakes: Intakes,
    /// Guests with commands that wait until they may be answered.
    deferred: Deferred,
    /// Listeners that cannot accept, and when they try again.
    resting: Vec<Token>,
    resume_at: Option<Instant>,
    /// Whether the last attempt to accept failed.
    is_short: bool,
    next_stall_check: Instant,
    is_ended: bool,
    events: Events,
    log_throttle: LogThrottle,
}

impl Acceptor {
    pub(crate) fn new(parts: Parts) -> Acceptor {
        Acceptor {
            listeners: Vec::new(),
            routes: Vec::new(),
            pipelines: Peers::default(),
            tenants: Vec::new(),
            guests: Slab::new(),
            by_token: HashMap::new(),
            handshakes: Handshakes::new(parts.limits.connections_waiting as usize),
            registry: Registry::new(TENANTS_MAX),
            quota: ConnectionQuota::new(quota_limits(&parts.limits)),
            scale: 1,
            discovering: EvictionSet::default(),
            accounts: Accounts::new(supplies(&parts.limits)),
            intakes: Intakes::alike(guests_memory(&parts.limits)),
            deferred: Deferred::default(),
            resting: Vec::new(),
            resume_at: None,
            is_short: false,
            next_stall_check: Instant::ZERO,
            is_ended: false,
            events: Vec::new(),
            log_throttle: LogThrottle::new(),
            parts,
        }
    }

    /// Other bounds, for what comes from now on.
    fn set_limits(&mut self, limits: Limits) {
        self.handshakes.set_capacity(limits.connections_waiting as usize);
        self.intakes = Intakes::alike(guests_memory(&limits));
        self.accounts.set_supplies(supplies(&limits));
        self.quota.set_limits(quota_limits(&limits));
        self.parts.discovery.set_keep_alive_max(millis(limits.keep_alive_max));
        self.parts.limits = limits;
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
            self.serve_deferred(now);
            self.check_time(now);
        }
        debug!("the acceptor ends");
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let stall = (self.guests.len() > 0).then_some(self.next_stall_check);
        let keep_alive = self.parts.discovery.next_timeout();
        let suppressed = self.log_throttle.deadline();
        let deferred = self.deferred.deadline();
        [self.handshakes.deadline(), stall, keep_alive, self.resume_at, suppressed, deferred]
            .into_iter()
            .flatten()
            .min()
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Accepted { socket, peer, .. } => self.on_accepted(now, socket, peer),
            Event::AcceptFailed { listener, error } => {
                // It is tried again and again; that it fails is worth a line, that it still fails is not.
                if !std::mem::replace(&mut self.is_short, true)
                    && self.log_throttle.allows(now, IpAddr::V4(Ipv4Addr::UNSPECIFIED), Subject::Turned)
                {
                    warn!(%error, connections = self.quota.held(), "no connection can be accepted for now");
                }
                self.resting.push(listener);
                self.resume_at = Some(now + ACCEPT_REST);
            }
            Event::Received { token, bytes } => self.on_received(now, token, &bytes),
            Event::ReceiveEnded { token, error } => {
                if let Some(key) = self.by_token.get(&token).copied() {
                    match error {
                        Some(error) => self.close_broken(now, key, &error),
                        None => self.close(now, key, Subject::Ended, "closed by the host"),
                    }
                }
            }
            Event::Sent { token, batch, result } => {
                let Some(key) = self.by_token.get(&token).copied() else { return };
                let guest = self.guests.get_mut(key).expect("every token has its guest");
                // What discovery says is on the heap: there are no buffers to give back.
                guest.link.on_sent(batch, |_, _| {});
                self.deferred.wake(now);
                match result {
                    Ok(()) => self.parse(now, key, &[]),
                    Err(error) => self.close_broken(now, key, &error),
                }
            }
            Event::Detached { token, socket } => self.on_detached(token, socket),
            Event::Woken => {
                while let Some(message) = self.parts.inbox.take() {
                    self.on_message(now, message);
                }
            }
            Event::Connected { .. } | Event::Disk { .. } => {
                unreachable!("the acceptor neither connects nor uses disks: {event:?}")
            }
        }
    }

    fn on_message(&mut self, now: Instant, message: ToAcceptor) {
        match message {
            ToAcceptor::Closed { host, charged } => self.dismiss(&host, &charged),
            ToAcceptor::Change(change) => self.on_change(change),
            ToAcceptor::Drain => {
                for (_, listener) in self.listeners.drain(..) {
                    self.parts.reactor.close(listener);
                }
                self.resume_at = None;
                let keys: Vec<Key> = self.guests.iter().map(|(key, _)| key).collect();
                keys.into_iter().for_each(|key| self.close(now, key, Subject::Ended, "the target ends"));
                if self.parts.reports.send(Report::Drained).is_err() {
                    debug!("nobody waits for the acceptor to be drained");
                }
            }
            ToAcceptor::Stop => self.is_ended = true,
        }
    }

    fn on_accepted(&mut self, now: Instant, socket: TcpStream, peer: SocketAddr) {
        if std::mem::take(&mut self.is_short) {
            info!("connections are accepted again");
        }
        if let Some(key) = self.handshakes.victim() {
            self.close(now, key, Subject::Dropped, "limits.connections_waiting is reached, others come");
        }
        let local = socket.local_addr().ok();
        if let Err(error) = watch_peer(&socket, self.parts.limits.stall_timeout) {
            debug!(%peer, %error, "a peer that vanishes will not be noticed");
        }
        let token = match self.parts.reactor.add_socket(socket) {
            Ok(token) => token,
            Err(error) => {
                if self.log_throttle.allows(now, peer.ip(), Subject::Turned) {
                    warn!(%peer, %error, "a connection is turned away: the system has no room for it");
                }
                return;
            }
        };
        let transport = TargetConnection::new(self.parts.transport);
        // Whose it is, nobody knows yet: its address pays.
        let payer = self.accounts.payer(None, peer.ip());
        let account = ConnectionAccount::new(GUEST_MEMORY, HostAccount::new(None), payer);
        let link = Link::new(now, token, peer, transport, account);
        let key =
            self.guests.insert(Guest { link, backlog: Backlog::default(), local, stage: Stage::Greeting });
        self.by_token.insert(token, key);
        let timeout = self.parts.limits.handshake_timeout;
        self.handshakes.insert(key, Origin::of(peer.ip()), Handshake::AwaitsIcReq, now, timeout);
        debug!(%peer, "accepted");
    }

    /// The address of a guest.
    fn peer_ip(&self, key: Key) -> IpAddr {
        self.guests.get(key).expect("it is there").link.peer.ip()
    }

    fn on_received(&mut self, now: Instant, token: Token, bytes: &[u8]) {
        let Some(key) = self.by_token.get(&token).copied() else { return };
        let guest = self.guests.get_mut(key).expect("every token has its guest");
        match &mut guest.stage {
            Stage::Leaving(departure) if departure.unparsed.len() < UNPARSED_MAX => {
                departure.unparsed.extend_from_slice(bytes)
            }
            Stage::Leaving(_) => self.close(now, key, Subject::Violation, TOO_EARLY),
            _ => self.parse(now, key, bytes),
        }
    }

    /// Parses new bytes (or, if there are none, what was held back), does what they say, and answers.
    fn parse(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        let reactor = &mut self.parts.reactor;
        let result = match bytes {
            [] => guest.link.parse_held(now, &mut self.intakes, reactor, &mut self.events),
            _ => guest.link.receive(now, bytes, &mut self.intakes, reactor, &mut self.events),
        };
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                TargetEvent::Command { sqe, data } => self.on_command(now, key, sqe, data),
                TargetEvent::Initialized { .. } => {
                    let (origin, timeout) =
                        (Origin::of(self.peer_ip(key)), self.parts.limits.connect_timeout);
                    self.handshakes.insert(key, origin, Handshake::AwaitsConnect, now, timeout);
                }
                TargetEvent::Refused { sqe, status } => self.on_refused_command(now, key, &sqe, status),
                TargetEvent::Fused { .. } => unreachable!("only the queues of a pipeline are let fuse"),
                TargetEvent::GivenUp { cid } => self.parts.discovery.on_given_up(queue_of(key), cid),
            }
        }
        self.events = events;
        if let Err(fatal) = result {
            self.on_fatal(now, key, fatal);
        }
        self.proceed(now, key);
    }

    /// The transport has answered a command by itself.
    fn on_refused_command(&mut self, now: Instant, key: Key, sqe: &Sqe, status: Status) {
        let Some(guest) = self.guests.get(key) else { return };
        let peer = guest.link.peer;
        if self.log_throttle.allows(now, peer.ip(), Subject::Command) {
            warn!(%peer, cid = sqe.cid(), opcode = sqe.opcode(), %status, "the transport refused a command");
        }
    }

    fn on_fatal(&mut self, now: Instant, key: Key, fatal: Fatal) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        match fatal {
            Fatal::Violation(_) => {
                let peer = guest.link.peer;
                if self.log_throttle.allows(now, peer.ip(), Subject::Violation) {
                    warn!(%peer, "connection refused: {fatal}");
                }
                guest.link.end();
                guest.stage = Stage::Refused;
            }
            Fatal::Terminated { .. } => self.close(now, key, Subject::Violation, &fatal.to_string()),
        }
    }

    /// Sends what is to be sent; lets go what is ready to leave.
    fn proceed(&mut self, now: Instant, key: Key) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        guest.link.flush(now, &mut self.parts.reactor);
        if guest.link.is_spent() {
            // Why, was logged when it was refused.
            return self.forget(now, key);
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
                let refused = self.on_first_command(now, key, sqe, data.as_ref());
                self.give_back(data);
                let Some(guest) = self.guests.get_mut(key) else { return };
                if let Err(Refusal { cqe, host, why }) = refused {
                    let peer = guest.link.peer;
                    if self.log_throttle.allows(now, peer.ip(), Subject::Refused) {
                        let host = host.as_ref().map(Nqn::as_str);
                        warn!(%peer, host, status = %cqe.status(), "Connect refused: {why}");
                    }
                    guest.link.reply(cqe);
                    guest.link.end();
                    guest.stage = Stage::Refused;
                } else if matches!(guest.stage, Stage::Leaving(_)) && guest.link.transport.outstanding() > 1 {
                    // It would take memory of this thread along.
                    self.close(now, key, Subject::Violation, TOO_EARLY);
                }
            }
            Stage::Discovery => self.on_discovery_command(now, key, sqe, data),
            Stage::Leaving(_) => self.close(now, key, Subject::Violation, TOO_EARLY),
            Stage::Refused => {}
        }
    }

    /// A command for discovery: carried out when its reply may be held.
    fn on_discovery_command(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>) {
        let length = replies::asked_of_controller(&sqe, true);
        if length == 0 {
            return self.carry_out(now, key, sqe, data, None);
        }
        let Some(guest) = self.guests.get_mut(key) else { return };
        let is_first = guest.backlog.commands.is_empty();
        let rate = ReplyRate::of(&self.parts.limits);
        match is_first.then(|| replies::admit(&guest.link.account, now, length, rate)) {
            Some(Ok(permit)) => self.carry_out(now, key, sqe, data, Some(permit)),
            _ => {
                guest.backlog.commands.push_back(sqe);
                if is_first {
                    self.deferred.push(now, key);
                }
            }
        }
    }

    /// Carries out commands that waited for their replies to be granted.
    fn serve_deferred(&mut self, now: Instant) {
        let rate = ReplyRate::of(&self.parts.limits);
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.serve(now, |key| {
            let Guest { link, backlog, .. } = self.guests.get_mut(key)?;
            let sqe = *backlog.commands.front().filter(|_| !link.is_ending())?;
            match backlog.owed.turn(&link.account, now, replies::asked_of_controller(&sqe, true), rate) {
                Err(wait) => Some(wait),
                Ok(permit) => {
                    backlog.commands.pop_front();
                    self.carry_out(now, key, sqe, None, Some(permit));
                    self.proceed(now, key);
                    Some(Wait::Turn)
                }
            }
        });
        self.deferred = deferred;
    }

    /// Does what a command for discovery says. A reply with data has its permit.
    fn carry_out(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>, permit: Option<Permit>) {
        let Some(guest) = self.guests.get_mut(key) else { return };
        let bytes = data.as_ref().map(Buffer::bytes);
        match self.parts.discovery.on_command(now, queue_of(key), &sqe, bytes) {
            Action::Reply { cqe, data } => match data.zip(permit) {
                Some((page, permit)) => guest.link.reply_with_page(cqe, page, permit, sqe.sgl_length()),
                None => guest.link.reply(cqe),
            },
            Action::Credits { cqe, .. } | Action::Fence { cqe, .. } => guest.link.reply(cqe),
            // A discovery controller has no IO queues.
            Action::Abort { cqe, .. } => guest.link.reply(cqe.abort_failed()),
            // There are no namespaces here.
            Action::Io(_) | Action::Storing => {
                guest.link.reply(Cqe::new(sqe.cid(), Status::INVALID_OPCODE));
            }
            Action::Pending => guest.link.transport.hold(sqe.cid()),
        }
        self.give_back(data);
    }

    fn give_back(&mut self, payload: Option<Payload>) {
        if let Some((buffer, permit)) = payload.and_then(Payload::into_pooled) {
            self.intakes.give(buffer, permit.account());
        }
    }

    fn close(&mut self, now: Instant, key: Key, subject: Subject, why: &str) {
        let Some(guest) = self.guests.get(key) else { return };
        let peer = guest.link.peer;
        let is_last_word = !matches!(guest.stage, Stage::Refused);
        if is_last_word && self.log_throttle.allows(now, peer.ip(), subject) {
            let host = match &guest.stage {
                Stage::Leaving(departure) => Some(&*departure.host),
                _ => None,
            };
            match subject {
                Subject::Ended => info!(%peer, host, "connection ended: {why}"),
                _ => warn!(%peer, host, "connection dropped: {why}"),
            }
        }
        self.forget(now, key);
    }

    fn close_broken(&mut self, now: Instant, key: Key, error: &io::Error) {
        self.close(now, key, Subject::Ended, &format!("the connection broke: {error}"));
    }

    /// Closes a connection without a word.
    fn forget(&mut self, now: Instant, key: Key) {
        let Some(guest) = self.guests.remove(key) else { return };
        self.handshakes.remove(key);
        self.discovering.remove(key);
        self.by_token.remove(&guest.link.token);
        self.parts.reactor.close(guest.link.token);
        match guest.stage {
            Stage::Leaving(departure) => self.dismiss(&departure.host, &departure.charged),
            Stage::Discovery => self.parts.discovery.on_disconnect(now, queue_of(key)),
            Stage::Greeting | Stage::Refused => {}
        }
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
                Output::Fence { .. } | Output::Store { .. } => {
                    unreachable!("discovery has no namespaces to reserve: {output:?}")
                }
                Output::Forget { queue, cid } => {
                    if let Some(guest) = self.guests.get_mut(Key::new(queue.slot, queue.generation)) {
                        guest.link.forget(cid);
                    }
                }
                Output::CloseQueue { queue, reason } => {
                    let key = Key::new(queue.slot, queue.generation);
                    self.close(now, key, Subject::Ended, &format!("{reason:?}"));
                }
            }
        }
    }

    fn check_time(&mut self, now: Instant) {
        while let Some((key, handshake)) = self.handshakes.overdue(now) {
            let why = match handshake {
                Handshake::AwaitsIcReq => "no ICReq came within limits.handshake_timeout",
                Handshake::AwaitsConnect => "no Connect came within limits.connect_timeout",
            };
            self.close(now, key, Subject::Dropped, why);
        }
        while let Some(Suppressed { address, subject, count }) = self.log_throttle.poll(now) {
            warn!(?address, "{subject}: {count} more in the last seconds");
        }
        if now >= self.next_stall_check {
            self.next_stall_check = now + STALL_CHECK;
            let (stall, transfer) = (self.parts.limits.stall_timeout, self.parts.limits.transfer_timeout);
            let is_late =
                |link: &Link| link.stalled_for(now) >= stall || link.transfer_awaited_for(now) >= transfer;
            let stalled = self.guests.iter().filter(|(_, guest)| is_late(&guest.link));
            let stalled: Vec<Key> = stalled.map(|(key, _)| key).collect();
            for key in stalled {
                self.close(
                    now,
                    key,
                    Subject::Dropped,
                    "the host neither read its replies nor sent its data in time",
                );
            }
            let starved = self.guests.iter().filter(|(_, guest)| guest.link.starved);
            let starved: Vec<Key> = starved.map(|(key, _)| key).collect();
            starved.into_iter().for_each(|key| self.parse(now, key, &[]));
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            self.resume_at = None;
            self.resting.drain(..).for_each(|listener| self.parts.reactor.resume_accept(listener));
        }
    }
}

/// Memory for what arrives before a connection has a home: enough for everybody's one command.
fn guests_memory(limits: &Limits) -> Bytes {
    let guests_max = u64::from(limits.discovery_connections) + u64::from(limits.connections_waiting);
    Bytes((guests_max + 1) * u64::from(IN_CAPSULE_MAX))
}

/// What the front has of each account. Named hosts have no floors here: nobody is known before Connect, and those who come to
/// discovery always find a place.
fn supplies(limits: &Limits) -> [Supply; 4] {
    let command = Bytes(u64::from(IN_CAPSULE_MAX));
    let guests = Supply { limit: guests_memory(limits), floor_max: Bytes::ZERO, first: command };
    let none = Supply { limit: Bytes::ZERO, floor_max: Bytes::ZERO, first: Bytes::ZERO };
    let replies = Bytes(REPLIES_MAX);
    [guests, guests, none, Supply { limit: limits.reply_memory, floor_max: replies, first: replies }]
}

fn quota_limits(limits: &Limits) -> QuotaLimits {
    QuotaLimits {
        all: limits.connections,
        per_address: limits.connections_per_address,
        hosts_per_address: limits.hosts_per_address,
    }
}

/// The name of a guest in the discovery subsystem.
fn queue_of(key: Key) -> QueueKey {
    QueueKey { slot: key.index() as u32, generation: key.generation() }
}
