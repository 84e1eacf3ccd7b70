//! The life of a session: a connection, wherever it is carried, and what is under way for it.
//!
//! ```text
//!   handover ─► Connect ─┬► carried here ───────────────► closed ──last IO ends──► gone (the subsystem and the acceptor are told)
//!                        ├► another thread ─► opened ─► closing ─► ended ──┘
//!                        └─refused─► reply sent ─► closed
//! ```
//!
//! A session whose connection another thread carries is over only when that thread has said so: nothing comes of it then.

use super::admission::Admission;
use super::lanes::Lanes;
use super::message::Handover;
use super::{Pipeline, queue_of};
use crate::account::{ConnectionAccount, Permit};
use crate::chain::Chain;
use crate::connection::Connection;
use crate::connections::load::{self, Burden};
use crate::connections::message::{Carry, News, ToConnections};
use crate::connections::{Owner, Parsed, Sent, SocketEnd};
use crate::log_throttle::Subject;
use crate::payload::Payload;
use crate::replies::Backlog;
use crate::slab::Key;
use nvme::connection::{Fatal, FlowControl, TargetConnection, TargetEvent};
use nvme::spec::connect::{ConnectData, Culprit};
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{CloseReason, Connected, unknown_subsystem};
use reactor::{IoBuffer, SendBatch};
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tracing::{info, warn};
use units::{Bytes, Instant, TenantId};

/// A connection and what is under way for it.
pub(super) struct Session {
    /// The connection.
    pub(super) wire: Wire,
    /// Which thread carries it, or did, if not this one.
    pub(super) thread: Option<usize>,
    /// What is read for it, and what it is told by controllers, is charged to this.
    pub(super) account: Arc<ConnectionAccount>,
    /// Commands that wait until they may be answered.
    pub(super) backlog: Backlog,
    pub(super) peer: SocketAddr,
    /// The subsystem's slot.
    pub(super) subsystem: usize,
    pub(super) tenant: TenantId,
    pub(super) admission: Admission,
    /// The controller whose queue it is.
    pub(super) controller_id: u16,
    /// 0 is the admin queue.
    pub(super) queue_id: u16,
    /// Whether completions carry credits.
    pub(super) credits: bool,
    /// IOs that have not ended.
    pub(super) ios: usize,
    /// The same by namespace.
    pub(super) lanes: Lanes,
    /// Reads that wait for room in the connection's budget.
    pub(super) waiting: Chain,
    /// Whether it is in the list of those whose reads wait for memory.
    pub(super) is_thirsty: bool,
    /// Aborts from it that wait for word of another thread.
    pub(super) aborts: usize,
    /// What it adds to the loads of threads.
    pub(super) burdens: Vec<Burden>,
}

/// The way of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) wire: Wire,
    /// Which thread carries the connection, if not this one.
    pub(super) thread: Option<usize>,
}

impl Session {
    /// The way of its answers.
    pub(super) fn route(&self) -> Route {
        Route { wire: self.wire, thread: self.thread }
    }
}

/// The way to a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// This thread carries it.
    Here(Key),
    /// On its way to another thread, which then tells its name there.
    Opening,
    /// As before, and closed meanwhile.
    Unwanted,
    /// Another thread carries it.
    There(Key),
    /// Another thread was told to close it.
    Closing,
    /// Nothing comes of it any more.
    Gone,
}

impl Wire {
    /// Whether its host is to be answered.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Wire::Here(_) | Wire::Opening | Wire::There(_))
    }
}

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Of itself, or by its host.
    Socket(SocketEnd),
    /// The subsystem wants it.
    BySubsystem(CloseReason),
    /// The subsystem is no longer served.
    SubsystemRemoved,
    /// The thread that carried it has failed.
    ThreadFailed,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Socket(end) => end.fmt(f),
            Ending::BySubsystem(CloseReason::ControllerReset) => write!(f, "the host reset the controller"),
            Ending::BySubsystem(CloseReason::KeepAliveTimeout) => {
                write!(f, "the keep-alive time-out ran out")
            }
            Ending::BySubsystem(CloseReason::AdminQueueClosed) => write!(f, "the admin queue has gone"),
            Ending::BySubsystem(CloseReason::AccessRevoked) => write!(f, "the host's access was revoked"),
            Ending::SubsystemRemoved => write!(f, "the subsystem was removed"),
            Ending::ThreadFailed => write!(f, "the thread that carried it failed"),
        }
    }
}

impl Ending {
    /// What the log has it as; nothing if the reason was told before.
    fn subject(&self) -> Option<Subject> {
        match self {
            Ending::Socket(SocketEnd::ClosedByHost | SocketEnd::Broken(_))
            | Ending::SubsystemRemoved
            | Ending::ThreadFailed
            | Ending::BySubsystem(
                CloseReason::ControllerReset | CloseReason::AdminQueueClosed | CloseReason::AccessRevoked,
            ) => Some(Subject::Ended),
            Ending::BySubsystem(CloseReason::KeepAliveTimeout)
            | Ending::Socket(SocketEnd::Stalled | SocketEnd::TransferOverdue) => Some(Subject::Dropped),
            Ending::Socket(SocketEnd::Terminated(_)) => Some(Subject::Violation),
            // Why, was told before.
            Ending::Socket(SocketEnd::Refused | SocketEnd::AsTold) => None,
        }
    }
}

impl Pipeline {
    /// A connection comes from the acceptor, with a Connect command to be answered.
    pub(super) fn on_handover(&mut self, now: Instant, handover: Handover) {
        let Handover {
            socket,
            peer,
            mut transport,
            connect,
            connect_data,
            unparsed,
            subsystem,
            tenant,
            admission,
        } = handover;
        if self.phase != super::Phase::Running {
            return info!(%peer, host = admission.host(), "a new connection is dropped: the target ends");
        }
        let account = self.account(tenant, admission.host(), peer, self.limits.memory_per_connection);
        let key = self.sessions.insert(Session {
            wire: Wire::Gone,
            thread: None,
            account,
            backlog: Backlog::default(),
            peer,
            subsystem,
            tenant,
            admission,
            controller_id: 0,
            queue_id: 0,
            credits: false,
            ios: 0,
            lanes: Lanes::default(),
            waiting: Chain::default(),
            is_thirsty: false,
            aborts: 0,
            burdens: Vec::new(),
        });
        match self.connect(now, key, &connect, &connect_data) {
            Ok(connected) => {
                set_up(&mut transport, &connected);
                let session = self.sessions.get_mut(key).expect("just inserted");
                session.credits = connected.credits;
                session.controller_id = connected.controller_id;
                session.queue_id = connected.queue_id;
                self.queues_of.entry((subsystem, connected.controller_id)).or_default().push(key);
                let thread = self.place(key);
                if self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
                    let host = self.host_of(key);
                    let (controller, queue) = (connected.controller_id, connected.queue_id);
                    info!(%peer, %host, device = %self.name, controller, queue, thread, "connected");
                }
                let Some(thread) = thread else {
                    return self.carry(now, key, (socket, transport), unparsed, connected.cqe, false);
                };
                let owner = Owner { pipeline: self.index, session: key };
                let (connected, host) = (connected.cqe, self.host_of(key));
                let carry = Carry { socket, peer, transport, connected, unparsed, owner, host };
                self.send_to(now, key, thread, carry);
            }
            Err(refusal) => {
                if self.log_throttle.allows(now, peer.ip(), Subject::Refused) {
                    let (host, status) = (self.host_of(key), refusal.status());
                    let names = |culprit: Culprit| refusal == culprit.refuse(refusal.cid());
                    if names(Culprit::HOST_ID) {
                        warn!(%peer, %host, %status, "Connect refused: HOSTID belongs to another host NQN, by a connection or a registration");
                    } else {
                        warn!(%peer, %host, %status, "Connect refused");
                    }
                }
                self.carry(now, key, (socket, transport), unparsed, refusal, true);
            }
        }
    }

    /// The host of a session.
    fn host_of(&self, key: Key) -> Arc<str> {
        self.sessions.get(key).expect("it is there").admission.shared_host()
    }

    /// What a new session is charged to.
    fn account(
        &mut self,
        tenant: TenantId,
        host: &str,
        peer: SocketAddr,
        limit: Bytes,
    ) -> Arc<ConnectionAccount> {
        let payer = self.accounts.payer(Some(host), peer.ip());
        ConnectionAccount::new(limit, self.account_of(tenant), payer)
    }

    /// Finds the thread that is to carry a new queue: IO queues go to the one with least to do. The answer is `None` for this one.
    fn place(&mut self, key: Key) -> Option<usize> {
        let session = self.sessions.get(key).expect("just inserted");
        if session.queue_id == 0 {
            return None;
        }
        let (thread, burdens) = load::place(&self.load, self.loads.iter().enumerate());
        let (tenant, peer, host) = (session.tenant, session.peer, session.admission.shared_host());
        if thread.is_some() {
            // The other half of what a connection may have is for what arrives, which is the other thread's.
            let half = Bytes(self.limits.memory_per_connection.get() / 2);
            let account = self.account(tenant, &host, peer, half);
            self.sessions.get_mut(key).expect("just inserted").account = account;
        }
        let session = self.sessions.get_mut(key).expect("just inserted");
        (session.thread, session.burdens) = (thread, burdens);
        thread
    }

    /// Has another thread carry a connection.
    fn send_to(&mut self, now: Instant, key: Key, thread: usize, carry: Carry) {
        self.sessions.get_mut(key).expect("just inserted").wire = Wire::Opening;
        if self.others.push(thread, ToConnections::Carry(Box::new(carry))).is_err() {
            self.on_ended(now, key, Ending::ThreadFailed);
        }
    }

    /// Carries a connection here, whose first command is answered by `cqe`: the last answer if it is a refusal.
    fn carry(
        &mut self,
        now: Instant,
        key: Key,
        (socket, transport): (TcpStream, TargetConnection<Payload>),
        unparsed: Vec<u8>,
        cqe: Cqe,
        is_refusal: bool,
    ) {
        let session = self.sessions.get_mut(key).expect("just inserted");
        let token = match self.reactor.add_socket(socket) {
            Ok(token) => token,
            Err(error) => {
                let (peer, host) = (session.peer, session.admission.host());
                info!(%peer, %host, %error, "a new connection is dropped: the target has no room");
                return self.retire_if_done(now, key);
            }
        };
        let account = Arc::clone(&session.account);
        let link = Connection::with_delivered(now, token, session.peer, transport, account);
        let connection = self.connections.add(link, Owner { pipeline: self.index, session: key });
        session.wire = Wire::Here(connection);
        self.connections.reply(connection, cqe);
        if is_refusal {
            self.connections.end(connection);
        }
        if !unparsed.is_empty() {
            let parsed = self.connections.receive(now, connection, &unparsed, &mut self.reactor);
            self.on_parsed(now, parsed);
        }
    }

    fn connect(&mut self, now: Instant, key: Key, sqe: &Sqe, data: &ConnectData) -> Result<Connected, Cqe> {
        let subsystem = self.sessions.get(key).expect("just inserted").subsystem;
        let peer = self.sessions.get(key).expect("just inserted").peer.ip();
        match &mut self.homes[subsystem] {
            Some(home) => {
                let connected = home.subsystem.on_connect(now, queue_of(key), sqe, data)?;
                home.subsystem.set_peer_address(queue_of(key), peer);
                Ok(connected)
            }
            // It was removed while the connection was on its way here.
            None => Err(unknown_subsystem(sqe)),
        }
    }

    /// What came out of bytes of a connection here: commands are executed.
    pub(super) fn on_parsed(&mut self, now: Instant, parsed: Option<Parsed>) {
        let Some(Parsed { owner: Owner { session: key, .. }, mut events, fatal, .. }) = parsed else {
            return;
        };
        for event in events.drain(..) {
            match event {
                TargetEvent::Command { sqe, data } => self.on_command(now, key, &sqe, data),
                TargetEvent::Fused { halves } => self.on_fused(now, key, *halves),
                TargetEvent::Refused { sqe, status } => self.on_refused_command(now, key, &sqe, status),
                TargetEvent::GivenUp { cid } => self.on_given_up(key, cid),
                TargetEvent::Initialized { .. } => {}
            }
        }
        self.connections.recycle(events);
        match fatal {
            Some(fatal @ Fatal::Violation(_)) => self.on_violated(now, key, &fatal),
            Some(fatal @ Fatal::Terminated { .. }) => {
                self.close_session(now, key, Ending::Socket(SocketEnd::Terminated(fatal)));
            }
            None => {}
        }
    }

    /// News of a session whose connection another thread carries.
    pub(super) fn on_news(&mut self, now: Instant, news: News) {
        match news {
            News::Opened { session, connection } => self.on_opened(session, connection),
            News::Command { session, sqe, data } => self.on_command(now, session, &sqe, data),
            News::Fused { session, halves } => self.on_fused(now, session, *halves),
            News::Refused { session, sqe, status } => self.on_refused_command(now, session, &sqe, status),
            News::Violated { session, fatal } => self.on_violated(now, session, &fatal),
            News::Returned(buffer, permit) => self.take_back(now, buffer, permit),
            News::Cancelled { ticket, cancel } => self.on_cancelled(now, ticket, cancel),
            News::Ended { session, end } => self.on_ended(now, session, Ending::Socket(end)),
            News::ThreadFailed { thread } => self.on_thread_failed(now, thread),
        }
    }

    fn on_opened(&mut self, key: Key, connection: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(thread) = session.thread else { return };
        let is_enabled = session.credits;
        if session.wire == Wire::Unwanted {
            session.wire = Wire::Closing;
            self.others.tell(thread, ToConnections::Close { connection });
        } else {
            session.wire = Wire::There(connection);
            // It may have changed meanwhile.
            self.others.tell(thread, ToConnections::Credits { connection, is_enabled });
        }
    }

    /// What was read, or said by a controller, has been sent, or never will be.
    pub(super) fn take_back(&mut self, now: Instant, buffer: Option<IoBuffer>, permit: Option<Permit>) {
        if let Some(buffer) = buffer {
            self.reads.give(buffer);
        }
        drop(permit);
        self.memory_came_back = true;
        self.deferred.wake(now);
    }

    /// A thread of connections has failed, and all that it carried with it.
    fn on_thread_failed(&mut self, now: Instant, thread: usize) {
        self.others.set(thread, None);
        drop(self.others.take_back(thread));
        let there = self.sessions.iter().filter(|(_, session)| session.thread == Some(thread));
        let there: Vec<Key> = there.map(|(key, _)| key).collect();
        for key in there {
            self.on_ended(now, key, Ending::ThreadFailed);
        }
        self.give_up_cancels(now, thread);
    }

    /// The host has used the identifier of a command that waits for an event.
    fn on_given_up(&mut self, key: Key, cid: u16) {
        if let Some(session) = self.sessions.get(key)
            && let Some(home) = &mut self.homes[session.subsystem]
        {
            home.subsystem.on_given_up(queue_of(key), cid);
        }
    }

    /// The transport has answered a command by itself.
    fn on_refused_command(&mut self, now: Instant, key: Key, sqe: &Sqe, status: Status) {
        let Some(session) = self.sessions.get(key) else { return };
        if self.log_throttle.allows(now, session.peer.ip(), Subject::Command) {
            let (peer, host, cid, opcode) = (session.peer, session.admission.host(), sqe.cid(), sqe.opcode());
            warn!(%peer, %host, cid, opcode, %status, "the transport refused a command");
        }
    }

    /// The host has broken the protocol. Its connection ends when it was told so.
    fn on_violated(&mut self, now: Instant, key: Key, fatal: &Fatal) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.backlog.commands.clear();
        if self.log_throttle.allows(now, session.peer.ip(), Subject::Violation) {
            warn!(peer = %session.peer, host = %session.admission.host(), "connection refused: {fatal}");
        }
    }

    /// A batch of a connection here was sent, or not.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        connection: Key,
        batch: SendBatch,
        result: io::Result<()>,
    ) {
        let reads = &mut self.reads;
        let sent = self.connections.on_sent(connection, batch, |_, buffer, permit| {
            buffer.into_iter().for_each(|buffer| reads.give(buffer));
            drop(permit);
        });
        let Some(Sent { owner: Owner { session: key, .. }, has_room }) = sent else { return };
        if let Err(error) = result {
            return self.close_session(now, key, Ending::Socket(SocketEnd::Broken(error)));
        }
        self.memory_came_back = true;
        self.deferred.wake(now);
        self.admit_waiting(now, key);
        if has_room {
            let parsed = self.connections.parse_held(now, connection, &mut self.reactor);
            self.on_parsed(now, parsed);
        }
    }

    /// A connection here is to be closed.
    pub(super) fn close_connection(&mut self, now: Instant, connection: Key, end: SocketEnd) {
        if let Some(Owner { session, .. }) = self.connections.owner(connection) {
            self.close_session(now, session, Ending::Socket(end));
        }
    }

    /// The connection is closed; the session goes when its last IO has ended.
    pub(super) fn close_session(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let (wire, thread) = (session.wire, session.thread);
        let mut is_told = false;
        session.wire = match (wire, thread) {
            (Wire::Here(connection), _) => {
                let reads = &mut self.reads;
                let closed = self.connections.close(
                    connection,
                    SocketEnd::AsTold,
                    &mut self.reactor,
                    |buffer, permit| {
                        buffer.into_iter().for_each(|buffer| reads.give(buffer));
                        drop(permit);
                    },
                );
                is_told = matches!(closed, Some((_, SocketEnd::Refused)));
                self.memory_came_back = true;
                Wire::Gone
            }
            (Wire::There(connection), Some(thread)) => {
                self.others.tell(thread, ToConnections::Close { connection });
                Wire::Closing
            }
            (Wire::Opening, _) => Wire::Unwanted,
            // It is closed already.
            _ => return,
        };
        self.leave(now, key, &ending, is_told);
    }

    /// The thread that carries a connection says that it is gone.
    fn on_ended(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let was_open = session.wire.is_open();
        session.wire = Wire::Gone;
        if was_open { self.leave(now, key, &ending, false) } else { self.retire_if_done(now, key) }
    }

    /// Nobody is to be answered any more: what can be taken back is, and what cannot is what later connections wait for.
    fn leave(&mut self, now: Instant, key: Key, ending: &Ending, is_told: bool) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.backlog.commands.clear();
        let (peer, host, unanswered) = (session.peer, session.admission.host(), session.ios);
        if !is_told
            && let Some(subject) = ending.subject()
            && self.log_throttle.allows(now, peer.ip(), subject)
        {
            match subject {
                Subject::Ended => {
                    info!(%peer, %host, device = %self.name, unanswered, "connection ended: {ending}");
                }
                _ => warn!(%peer, %host, device = %self.name, unanswered, "connection dropped: {ending}"),
            }
        }
        self.withdraw_session(now, key);
        self.orphan(key);
        self.retire_if_done(now, key);
    }

    /// Answers a command.
    pub(super) fn reply(&mut self, key: Key, cqe: Cqe) {
        if let Some(route) = self.sessions.get(key).map(Session::route) {
            self.send(route, cqe);
        }
    }

    /// Sends a completion.
    #[inline]
    pub(super) fn send(&mut self, route: Route, cqe: Cqe) {
        match (route.wire, route.thread) {
            (Wire::Here(connection), _) => self.connections.reply(connection, cqe),
            (Wire::There(connection), Some(thread)) => {
                self.others.tell(thread, ToConnections::Done { connection, cqe, back: None });
            }
            // Nobody is there to be answered.
            _ => {}
        }
    }

    /// Sends a completion, and gives back what had come with its command: a buffer, and the permit that it was done under.
    #[inline]
    pub(super) fn send_and_give(
        &mut self,
        route: Route,
        cqe: Cqe,
        buffer: Option<IoBuffer>,
        permit: Option<Permit>,
    ) {
        match (route.wire, route.thread, permit) {
            (Wire::There(connection), Some(thread), Some(permit)) if permit.is_of_arrival() => {
                let back = Some((buffer, permit));
                return self.others.tell(thread, ToConnections::Done { connection, cqe, back });
            }
            (_, _, Some(permit)) if !permit.is_of_arrival() => {
                // A read that brings nothing.
                drop(permit);
                self.memory_came_back = true;
            }
            (_, thread, permit) if buffer.is_some() || permit.is_some() => {
                self.give_arrival(thread, buffer, permit);
            }
            _ => {}
        }
        self.send(route, cqe);
    }

    /// Sends data and its completion. If nobody is there to have it, it is taken back.
    #[inline]
    pub(super) fn send_data(&mut self, route: Route, cqe: Cqe, data: Payload, length: u32) {
        let left = match (route.wire, route.thread) {
            (Wire::Here(connection), _) => self.connections.reply_with_data(connection, cqe, data, length),
            (Wire::There(connection), Some(thread)) => {
                let from = self.index;
                self.others.tell(thread, ToConnections::Data { connection, cqe, data, length, from });
                None
            }
            _ => Some(data),
        };
        if let Some((buffer, permit)) = left.map(Payload::into_parts) {
            buffer.into_iter().for_each(|buffer| self.reads.give(buffer));
            drop(permit);
            self.memory_came_back = true;
        }
    }

    /// Answers a command with what the controller says of itself: `length` bytes, of which `page` has those before the zeroes.
    pub(super) fn reply_with_page(
        &mut self,
        key: Key,
        cqe: Cqe,
        page: Vec<u8>,
        mut permit: Permit,
        length: u32,
    ) {
        permit.shrink_to(page.capacity() as u64);
        let Some(route) = self.sessions.get(key).map(Session::route) else { return };
        self.send_data(route, cqe, Payload::Page(page, permit), length);
    }

    /// The link of a session that is carried here, as every admin queue is.
    pub(super) fn link(&mut self, key: Key) -> Option<&mut Connection> {
        match self.sessions.get(key)?.wire {
            Wire::Here(connection) => self.connections.get(connection),
            _ => None,
        }
    }

    /// Forgets a session whose connection and IOs have gone.
    pub(super) fn retire_if_done(&mut self, now: Instant, key: Key) {
        let is_done =
            self.sessions.get(key).is_some_and(|session| session.wire == Wire::Gone && session.ios == 0);
        if !is_done {
            return;
        }
        let session = self.sessions.remove(key).expect("found above");
        if let Entry::Occupied(mut queues) = self.queues_of.entry((session.subsystem, session.controller_id))
        {
            queues.get_mut().retain(|queue| *queue != key);
            if queues.get().is_empty() {
                queues.remove();
            }
        }
        if let Some(home) = &mut self.homes[session.subsystem] {
            home.subsystem.on_disconnect(now, queue_of(key));
        }
    }
}

/// What a queue is granted, to the transport.
fn set_up(transport: &mut TargetConnection<Payload>, connected: &Connected) {
    let flow = if connected.flow_control_disabled { FlowControl::Disabled } else { FlowControl::Enabled };
    transport.set_queue(connected.entries, flow);
    if connected.queue_id != 0 {
        transport.allow_fused();
    }
    transport.set_success_without_response(!connected.credits);
}
