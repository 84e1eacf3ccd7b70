//! The acceptor: the thread that hosts reach first.
//!
//! ```text
//!   accept ─► ICReq/ICResp ─► Connect ──┬─ to a subsystem of this target ─► [proof] ─► detach ─► the pipeline of its SSD
//!                                       ├─ to discovery ──────────────────► [proof] ─► stays here
//!                                       └─ to neither, or not allowed ────► refused
//! ```
//!
//! A connection before Connect is a handshake. Handshakes have a limit and time-outs of their own, so a client that only opens
//! connections takes nothing from hosts that do IO. A new handshake always gets in; it may evict another. So unknown hosts cannot
//! keep out a host that the configuration names.
//!
//! Connect identifies the host. From then on the connection counts against the quotas, until its pipeline reports the end of it.
//!
//! The acceptor numbers the tenants. Before it hands a connection to a pipeline, it has announced the tenant to every pipeline.
//!
//! Holds: connections are bounded: in all, per host, per address, and before Connect (`tests/bad_peers/crowds.rs`, `strangers.rs`).
//! Elsewhere: `queue_pairs` opens queue pairs of RDMA, `receive` parses what arrives, `securing` begins TLS, `connect` handles the Connect command, `proving` the proof of who a host is, `discovery` the discovery service, `change` what changes while the target
//!            runs, `shares` the share of each tenant, `watch` hosts that vanish. `handshake` and `eviction` choose which
//!            connection has to go, `quota` grants connections to hosts, `tenants` numbers them, `assemble` makes the
//!            discovery records, `log_throttle` limits log lines.

mod change;
mod connect;
mod discovery;
mod grants;
mod own;
mod proving;
mod queue_pairs;
mod receive;
mod securing;
mod shares;
mod watch;

pub(crate) use change::{Change, Listener, Route};

use crate::account::{Accounts, ConnectionAccount, HostAccount, REPLIES_MAX, Supply};
use crate::assemble::{IN_CAPSULE_MAX, millis};
use crate::config::{Limits, TenantConfig};
use crate::eviction::EvictionSet;
use crate::handshake::{Handshake, Handshakes};
use crate::log_throttle::{LogThrottle, Subject, Suppressed};
use crate::mailbox::{Inbox, Mailbox};
use crate::missed::MissedTime;
use crate::payload::Intakes;
use crate::pipeline::Peers;
use crate::pipeline::message::{Report, ToAcceptor, ToPipeline};
use crate::proof::{GeneratedKeys, Proofs, Throttle};
use crate::quota::{ConnectionQuota, Origin, QuotaLimits};
use crate::replies::{Backlog, Deferred};
use crate::slab::{Key, Slab};
use crate::stats::AcceptorBoard;
use crate::stats::beat::Beat;
use crate::tenants::Registry;
use crate::transport::{Connection, Events, TcpConnection};
use auth::hello::Collector;
use grants::Grants;
use nvme::spec::Sqe;
use nvme::spec::connect::ConnectData;
use nvme::subsystem::{QueueKey, Subsystem};
use nvme::tcp::TargetLimits;
use proving::Proving;
use queue_pairs::QueuePairs;
use reactor::{Clock, Event, Reactor, Token};
use securing::Identity;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tls::Spares;
use tracing::{debug, info, warn};
use units::{Bytes, Instant, Nanos};
use watch::watch_peer;

/// Upper bound for known host NQNs.
const TENANTS_MAX: usize = 4096;
/// Memory of one connection on this thread: for the data of Connect, and for the replies of discovery.
const CONNECTION_MEMORY: Bytes = Bytes::kib(64);
/// When a listener that could not accept (too many open files) tries again.
const ACCEPT_RETRY: Nanos = Nanos::millis(100);
/// Time between two checks for stalled hosts.
const STALL_CHECK: Nanos = Nanos::secs(1);

/// The parts of the acceptor.
pub(crate) struct Parts {
    /// Its reactor.
    pub(crate) reactor: Reactor,
    /// The discovery subsystem, without records.
    pub(crate) discovery: Subsystem,
    /// The limits of the configuration.
    pub(crate) limits: Limits,
    /// The limits of every transport.
    pub(crate) transport: TargetLimits,
    /// Its mailbox, to which connections report their end.
    pub(crate) mailbox: Mailbox<ToAcceptor>,
    /// The receiving end of the mailbox.
    pub(crate) inbox: Inbox<ToAcceptor>,
    /// To the thread that started the target.
    pub(crate) reports: Sender<Report>,
    /// The keys of hosts, and the way to check them.
    pub(crate) proofs: Proofs,
    /// Its numbers, for readers.
    pub(crate) board: Arc<AcceptorBoard>,
    /// The sign of life.
    pub(crate) beat: Beat,
}

/// A connection of this thread: a handshake, or one to discovery.
struct Entry {
    connection: Connection,
    /// Discovery commands that wait until their replies are paid for.
    backlog: Backlog,
    /// The address that the host connected to.
    local: Option<SocketAddr>,
    /// The names that TLS has proved.
    identity: Option<Identity>,
    stage: Stage,
}

enum Stage {
    /// Proofs of its address have failed: bytes that have arrived wait until then.
    Delayed { until: Instant, early: Vec<u8> },
    /// Nothing has arrived.
    Opening,
    /// TLS has begun, and its first message is not complete.
    Securing(Box<Collector>),
    /// Connect has not arrived. With TLS, its handshake may still be under way.
    Handshake,
    /// Connect was answered, and the host has to prove who it is.
    Proving(Box<Proving>),
    /// The host has made a key for TLS, and is to begin anew with it: it closes this connection.
    Concatenated,
    /// Connect has arrived. The socket is being detached from the reactor.
    HandingOver(Box<PendingHandover>),
    /// Connected to discovery.
    Discovery,
    /// Refused. The last reply is being sent.
    Refused,
}

/// The data that the pipeline will get with the socket.
struct PendingHandover {
    connect: Sqe,
    connect_data: Box<ConnectData>,
    /// The subsystem's slot.
    subsystem: usize,
    /// The slot of the subsystem's pipeline.
    home: usize,
    /// Its place among the connections.
    place: connect::Place,
    is_detaching: bool,
    /// The identifier of the controller, if Connect was answered before the host proved who it is.
    proved: Option<u16>,
}

/// See the module.
pub(crate) struct Acceptor {
    parts: Parts,
    /// Where hosts may connect.
    listeners: Vec<(SocketAddr, Token)>,
    /// Where hosts may open queue pairs, if anywhere.
    queue_pairs: Option<QueuePairs>,
    /// The subsystems that hosts may connect to.
    routes: Vec<Route>,
    pipelines: Peers,
    /// Hosts with a share of their own in the configuration.
    tenants: Vec<TenantConfig>,
    connections: Slab<Entry>,
    by_token: HashMap<Token, Key>,
    /// Connections before Connect.
    handshakes: Handshakes,
    /// Connections that are delayed, by the end of the delay.
    delayed: BTreeSet<(Instant, Key)>,
    throttle: Throttle,
    /// Keys for TLS that hosts have made.
    generated: GeneratedKeys,
    /// Identifiers of controllers that were drawn for hosts that have to prove who they are.
    controllers_drawn: u16,
    registry: Registry,
    /// Counts the connections that were handed over and have not gone.
    quota: ConnectionQuota,
    /// Places for queues that are to come.
    grants: Grants,
    /// All weights are multiplied by this, so that the hosts of one address can have parts of one weight (`shares`).
    weight_scale: u32,
    /// Connections to discovery.
    discovery_connections: EvictionSet,
    accounts: Accounts,
    intakes: Intakes,
    /// Connections with commands in their backlog.
    deferred: Deferred,
    /// Listeners that could not accept. They try again at `resume_at`.
    paused_listeners: Vec<Token>,
    resume_at: Option<Instant>,
    /// Whether the last attempt to accept failed.
    accept_fails: bool,
    next_stall_check: Instant,
    is_ended: bool,
    /// Whether the target is drained: no host is connected to a subsystem.
    is_drained: bool,
    events: Events,
    /// Memory for records of TLS to be sent.
    spares: Spares,
    log_throttle: LogThrottle,
}

impl Acceptor {
    pub(crate) fn new(parts: Parts) -> Acceptor {
        Acceptor {
            listeners: Vec::new(),
            queue_pairs: None,
            routes: Vec::new(),
            pipelines: Peers::default(),
            tenants: Vec::new(),
            connections: Slab::new(),
            by_token: HashMap::new(),
            handshakes: Handshakes::new(parts.limits.connections_waiting as usize),
            delayed: BTreeSet::new(),
            throttle: Throttle::new(parts.limits.auth_failures_per_minute),
            generated: GeneratedKeys::default(),
            controllers_drawn: 0,
            registry: Registry::new(TENANTS_MAX),
            quota: ConnectionQuota::new(quota_limits(&parts.limits)),
            grants: Grants::default(),
            weight_scale: 1,
            discovery_connections: EvictionSet::default(),
            accounts: Accounts::new(supplies(&parts.limits)),
            intakes: Intakes::alike(receive_memory(&parts.limits)),
            deferred: Deferred::default(),
            paused_listeners: Vec::new(),
            resume_at: None,
            accept_fails: false,
            next_stall_check: Instant::ZERO,
            is_ended: false,
            is_drained: false,
            events: Vec::new(),
            spares: Spares::default(),
            log_throttle: LogThrottle::new(),
            parts,
        }
    }

    /// Other limits, for connections from now on.
    fn set_limits(&mut self, limits: Limits) {
        self.handshakes.set_capacity(limits.connections_waiting as usize);
        self.throttle.set_allowed(limits.auth_failures_per_minute);
        self.intakes = Intakes::alike(receive_memory(&limits));
        self.accounts.set_supplies(supplies(&limits));
        self.quota.set_limits(quota_limits(&limits));
        self.parts.discovery.set_keep_alive_max(millis(limits.keep_alive_max));
        self.parts.limits = limits;
    }

    /// Runs until a message ends it.
    ///
    /// # Errors
    /// Errors of the reactor itself: the machine is broken, or there is a bug.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut missed = MissedTime::new("acceptor".to_owned(), Clock.now());
        while !self.is_ended {
            let deadline = self.deadline();
            self.parts.beat.wait();
            self.parts.reactor.wait(deadline)?;
            let now = Clock.now();
            self.parts.beat.begin(now);
            if let Some(by) = missed.on_turn(deadline, now) {
                self.extend(by);
            }
            while let Some(event) = self.parts.reactor.next_event() {
                self.on_event(now, event);
            }
            self.run_discovery(now);
            self.serve_deferred(now);
            self.check_time(now);
            self.parts.board.connections.set(u64::from(self.quota.held()));
            self.parts.board.handshakes.set(self.handshakes.len() as u64);
        }
        debug!("the acceptor ends");
        Ok(())
    }

    /// Extends all time-outs: the thread did not run for this long, which is not the hosts' fault.
    fn extend(&mut self, by: Nanos) {
        self.handshakes.extend(by);
        self.grants.extend(by);
        self.registry.extend(by);
        self.parts.discovery.extend(by);
        self.connections.values_mut().for_each(|entry| entry.connection.extend(by));
        self.next_stall_check += by;
    }

    fn deadline(&self) -> Option<Instant> {
        let stall = (self.connections.len() > 0).then_some(self.next_stall_check);
        let keep_alive = self.parts.discovery.next_timeout();
        let suppressed = self.log_throttle.deadline();
        let deferred = self.deferred.deadline();
        let grants = self.grants.deadline();
        let delayed = self.delayed.first().map(|(at, _)| *at);
        let (waiting, generated) = (self.handshakes.deadline(), self.generated.deadline());
        let relisten = self.relisten_at();
        [
            waiting,
            stall,
            keep_alive,
            self.resume_at,
            suppressed,
            deferred,
            grants,
            delayed,
            generated,
            relisten,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Accepted { socket, peer, .. } => self.on_accepted(now, socket, peer),
            Event::AcceptFailed { listener, error } => {
                // Accepting is tried again every 100 ms. Only the first failure is logged.
                if !std::mem::replace(&mut self.accept_fails, true)
                    && self.log_throttle.allows(now, IpAddr::V4(Ipv4Addr::UNSPECIFIED), Subject::NotAccepted)
                {
                    warn!(%error, connections = self.quota.held(), "no connection can be accepted for now; the target tries again");
                }
                self.paused_listeners.push(listener);
                self.resume_at = Some(now + ACCEPT_RETRY);
            }
            Event::Ready { token } => self.on_ready(now, token),
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
                let entry = self.connections.get_mut(key).expect("every token has its entry");
                // Replies of discovery are on the heap: there are no buffers to return.
                if let Some(connection) = entry.connection.tcp() {
                    connection.on_sent(batch, &mut self.spares, |_, _| {});
                }
                self.deferred.wake(now);
                match result {
                    Ok(()) => self.parse(now, key, &[]),
                    Err(error) => self.close_broken(now, key, &error),
                }
            }
            Event::Detached { token, socket } => self.on_detached(token, Some(socket)),
            Event::Woken => {
                while let Some(message) = self.parts.inbox.take() {
                    self.on_message(now, message);
                }
            }
            Event::Connected { .. } | Event::Readable { .. } | Event::Disk { .. } => {
                unreachable!("the acceptor neither connects nor reads nor uses disks: {event:?}")
            }
        }
    }

    fn on_message(&mut self, now: Instant, message: ToAcceptor) {
        match message {
            ToAcceptor::Closed { host, charged, controller } => {
                self.on_connection_gone(now, &host, &charged);
                if let Some(controller) = controller {
                    self.withdraw_grant(now, controller);
                }
            }
            ToAcceptor::QueuesWanted { host, request } => self.on_queues_wanted(now, host, request),
            ToAcceptor::Computed { connection, computed } => self.on_computed(now, connection, computed),
            ToAcceptor::Generated { names, made } => self.generated.keep(now, names, *made),
            ToAcceptor::TenantLeft(name) => {
                if let Some((device, id)) = self.registry.left(&name) {
                    self.pipelines.post(device, ToPipeline::TenantGone(id));
                }
            }
            ToAcceptor::Change(change) => self.on_change(change),
            ToAcceptor::Drain => {
                for (_, listener) in self.listeners.drain(..) {
                    self.parts.reactor.close(listener);
                }
                self.unlisten_all_rdma();
                self.resume_at = None;
                let keys: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
                keys.into_iter().for_each(|key| self.close(now, key, Subject::Ended, "the target ends"));
                if self.parts.reports.send(Report::Drained).is_err() {
                    debug!("the acceptor is drained, but its starter is gone");
                }
            }
            ToAcceptor::Stop => self.is_ended = true,
        }
    }

    fn on_accepted(&mut self, now: Instant, socket: TcpStream, peer: SocketAddr) {
        self.parts.board.accepted.add(1);
        if std::mem::take(&mut self.accept_fails) {
            info!("connections are accepted again");
        }
        if let Some(key) = self.handshakes.victim() {
            self.close(
                now,
                key,
                Subject::Dropped,
                "evicted by a newer connection: limits.connections_waiting is reached",
            );
        }
        let local = socket.local_addr().ok();
        if let Err(error) = watch_peer(&socket, self.parts.limits.stall_timeout) {
            debug!(%peer, %error, "TCP keep-alive cannot be set: a peer that vanishes will not be noticed");
        }
        let token = match self.parts.reactor.add_socket(socket) {
            Ok(token) => token,
            Err(error) => {
                if self.log_throttle.allows(now, peer.ip(), Subject::NotAccepted) {
                    warn!(%peer, %error, "a connection is refused: the system has no resources for it");
                }
                return;
            }
        };
        // The host is not known yet, so the address pays.
        let payer = self.accounts.payer(None, peer.ip());
        let account = ConnectionAccount::new(CONNECTION_MEMORY, HostAccount::new(None), payer);
        let transport = self.parts.transport;
        let connection =
            Connection::Tcp(Box::new(TcpConnection::accepted(now, token, peer, transport, account)));
        let origin = Origin::of(peer.ip());
        let delay = self.throttle.delay(now, origin);
        let stage = match delay {
            Nanos::ZERO => Stage::Opening,
            _ => Stage::Delayed { until: now + delay, early: Vec::new() },
        };
        let key = self.connections.insert(Entry {
            connection,
            backlog: Backlog::default(),
            local,
            identity: None,
            stage,
        });
        self.by_token.insert(token, key);
        if delay > Nanos::ZERO {
            self.delayed.insert((now + delay, key));
        }
        let timeout = self.parts.limits.handshake_timeout;
        self.handshakes.insert(key, origin, Handshake::IcReq, now + delay, timeout);
        debug!(%peer, "accepted");
    }

    /// The address of the other end.
    fn peer_ip(&self, key: Key) -> IpAddr {
        self.connections.get(key).expect("it is there").connection.peer().ip()
    }

    fn check_time(&mut self, now: Instant) {
        while let Some((key, handshake)) = self.handshakes.overdue(now) {
            let why = match handshake {
                Handshake::IcReq => "no ICReq arrived within limits.handshake_timeout",
                Handshake::Connect => "no Connect arrived within limits.connect_timeout",
                Handshake::Proof => self.late_proof(key),
            };
            self.close(now, key, Subject::Dropped, why);
        }
        self.end_delays(now);
        self.relisten(now);
        self.expire_grants(now);
        self.generated.expire(now);
        while let Some(Suppressed { address, subject, count }) = self.log_throttle.poll(now) {
            warn!(?address, "{subject}: {count} more in the last seconds");
        }
        if now >= self.next_stall_check {
            self.next_stall_check = now + STALL_CHECK;
            let (stall, transfer) = (self.parts.limits.stall_timeout, self.parts.limits.transfer_timeout);
            let is_late = |connection: &Connection| {
                connection.stalled_for(now) >= stall || connection.transfer_awaited_for(now) >= transfer
            };
            let stalled = self.connections.iter().filter(|(_, entry)| is_late(&entry.connection));
            let stalled: Vec<Key> = stalled.map(|(key, _)| key).collect();
            for key in stalled {
                self.close(
                    now,
                    key,
                    Subject::Dropped,
                    "the host did not read its replies or send its data within limits.stall_timeout or limits.transfer_timeout",
                );
            }
            let waiting = self.connections.iter().filter(|(_, entry)| entry.connection.waits_for_memory());
            let waiting: Vec<Key> = waiting.map(|(key, _)| key).collect();
            waiting.into_iter().for_each(|key| self.parse(now, key, &[]));
        }
        if self.resume_at.is_some_and(|at| at <= now) {
            self.resume_at = None;
            self.paused_listeners.drain(..).for_each(|listener| self.parts.reactor.resume_accept(listener));
        }
    }
}

/// Memory for data that arrives on this thread: enough for one command of every connection.
fn receive_memory(limits: &Limits) -> Bytes {
    let connections_max = u64::from(limits.discovery_connections) + u64::from(limits.connections_waiting);
    Bytes((connections_max + 1) * u64::from(IN_CAPSULE_MAX))
}

/// The memory of this thread for each account. Named hosts have no guaranteed minimum here: no host is known before Connect, and a
/// connection to discovery always gets in.
fn supplies(limits: &Limits) -> [Supply; 4] {
    let command = Bytes(u64::from(IN_CAPSULE_MAX));
    let connections = Supply { limit: receive_memory(limits), floor_max: Bytes::ZERO, first: command };
    let none = Supply { limit: Bytes::ZERO, floor_max: Bytes::ZERO, first: Bytes::ZERO };
    let replies = Bytes(REPLIES_MAX);
    [
        connections,
        connections,
        none,
        Supply { limit: limits.reply_memory, floor_max: replies, first: replies },
    ]
}

fn quota_limits(limits: &Limits) -> QuotaLimits {
    QuotaLimits {
        all: limits.connections,
        per_address: limits.connections_per_address,
        hosts_per_address: limits.hosts_per_address,
    }
}

/// The queue of a connection in the discovery subsystem.
fn queue_of(key: Key) -> QueueKey {
    QueueKey { slot: key.index() as u32, generation: key.generation() }
}
