//! The life of a connection in its pipeline.
//!
//! ```text
//!   handover ─► Connect ─► open ──► closed ──last IO ends──► gone (the subsystem and the front are told)
//!                  └─refused─► reply sent ──┘
//! ```

use super::admission::Admission;
use super::lanes::Lanes;
use super::message::Handover;
use super::{Pipeline, queue_of};
use crate::account::ConnectionAccount;
use crate::chain::Chain;
use crate::complaints::Subject;
use crate::link::Link;
use crate::slab::Key;
use nvme::connection::{Fatal, FlowControl, TargetEvent};
use nvme::spec::connect::{ConnectData, Culprit};
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{CloseReason, Connected, unknown_subsystem};
use reactor::{RecvBuffer, SendBatch};
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use tracing::{info, warn};
use units::{Instant, TenantId};

/// A connection and what is under way for it.
pub(super) struct Session {
    /// `None` once the socket has gone.
    pub(super) link: Option<Box<Link>>,
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
    /// Whether it is in the list of those with something to send.
    pub(super) is_dirty: bool,
    /// Whether it is in the list of those that were refused memory.
    pub(super) is_thirsty: bool,
    /// Aborts from it that wait for word of another SSD.
    pub(super) aborts: usize,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// In order, from the other side.
    ClosedByHost,
    /// The network's fault.
    Broken(io::Error),
    /// The subsystem wants it.
    BySubsystem(CloseReason),
    /// The host has left its replies unread, or its data unsent, for too long.
    Stalled,
    /// The host was asked for the data of a write and has not sent all of it in time.
    TransferOverdue,
    /// It was told why before: Connect was refused, or the protocol broken.
    Refused,
    /// The other end has said that the protocol was broken.
    Terminated(Fatal),
    /// The subsystem is no longer served.
    SubsystemRemoved,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::ClosedByHost => write!(f, "closed by the host"),
            Ending::Broken(error) => write!(f, "the connection broke: {error}"),
            Ending::BySubsystem(CloseReason::ControllerReset) => write!(f, "the host reset the controller"),
            Ending::BySubsystem(CloseReason::KeepAliveTimeout) => {
                write!(f, "the keep-alive time-out ran out")
            }
            Ending::BySubsystem(CloseReason::AdminQueueClosed) => write!(f, "the admin queue has gone"),
            Ending::BySubsystem(CloseReason::AccessRevoked) => write!(f, "the host's access was revoked"),
            Ending::Stalled => {
                write!(f, "the host neither read its replies nor sent its data within limits.stall_timeout")
            }
            Ending::TransferOverdue => {
                write!(f, "the host has not sent the data of a write within limits.transfer_timeout")
            }
            Ending::Refused => write!(f, "refused"),
            Ending::Terminated(fatal) => write!(f, "{fatal}"),
            Ending::SubsystemRemoved => write!(f, "the subsystem was removed"),
        }
    }
}

impl Ending {
    /// What the log has it as; nothing if the reason was told before.
    fn subject(&self) -> Option<Subject> {
        match self {
            Ending::ClosedByHost
            | Ending::Broken(_)
            | Ending::SubsystemRemoved
            | Ending::BySubsystem(
                CloseReason::ControllerReset | CloseReason::AdminQueueClosed | CloseReason::AccessRevoked,
            ) => Some(Subject::Ended),
            Ending::BySubsystem(CloseReason::KeepAliveTimeout)
            | Ending::Stalled
            | Ending::TransferOverdue => Some(Subject::Dropped),
            Ending::Terminated(_) => Some(Subject::Violation),
            Ending::Refused => None,
        }
    }
}

impl Pipeline {
    /// A connection comes from the front, with a Connect command to be answered.
    pub(super) fn on_handover(&mut self, now: Instant, handover: Handover) {
        let Handover {
            socket,
            peer,
            transport,
            connect,
            connect_data,
            unparsed,
            subsystem,
            tenant,
            admission,
        } = handover;
        let token = match self.reactor.add_socket(socket) {
            Ok(token) if self.phase == super::Phase::Running => token,
            other => {
                let host = admission.host();
                info!(%peer, %host, error = ?other.err(), "a new connection is dropped: the target ends, or has no room");
                return;
            }
        };
        let payer = self.accounts.payer(Some(admission.host()), peer.ip());
        let account =
            ConnectionAccount::new(self.limits.memory_per_connection, self.account_of(tenant), payer);
        let link = Link::with_delivered(now, token, peer, transport, account);
        let key = self.sessions.insert(Session {
            link: Some(Box::new(link)),
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
            is_dirty: false,
            is_thirsty: false,
            aborts: 0,
        });
        self.by_token.insert(token, key);
        let answer = self.connect(now, key, &connect, &connect_data);
        let session = self.sessions.get_mut(key).expect("just inserted");
        let link = session.link.as_mut().expect("just made");
        match answer {
            Ok(connected) => {
                let flow = if connected.flow_control_disabled {
                    FlowControl::Disabled
                } else {
                    FlowControl::Enabled
                };
                link.transport.set_queue(connected.entries, flow);
                if connected.queue_id != 0 {
                    link.transport.allow_fused();
                }
                link.transport.set_success_without_response(!connected.credits);
                session.credits = connected.credits;
                session.controller_id = connected.controller_id;
                self.queues_of.entry((subsystem, connected.controller_id)).or_default().push(key);
                session.queue_id = connected.queue_id;
                link.reply(connected.cqe);
                if self.complaints.admits(now, peer.ip(), Subject::Connected) {
                    let (controller, queue) = (connected.controller_id, connected.queue_id);
                    info!(%peer, host = %session.admission.host(), device = %self.name, controller, queue, "connected");
                }
            }
            Err(refusal) => {
                if self.complaints.admits(now, peer.ip(), Subject::Refused) {
                    let (host, status) = (session.admission.host(), refusal.status());
                    let names = |culprit: Culprit| refusal == culprit.refuse(refusal.cid());
                    if names(Culprit::HOST_ID) {
                        warn!(%peer, %host, %status, "Connect refused: HOSTID belongs to another host NQN, by a connection or a registration");
                    } else {
                        warn!(%peer, %host, %status, "Connect refused");
                    }
                }
                link.reply(refusal);
                link.end();
            }
        }
        self.mark_dirty(key);
        if !unparsed.is_empty() {
            self.parse_new(now, key, |link, pipeline| {
                link.receive(
                    now,
                    &unparsed,
                    &mut pipeline.intakes,
                    &mut pipeline.reactor,
                    &mut pipeline.events,
                )
            });
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

    /// Bytes have arrived.
    pub(super) fn on_received(&mut self, now: Instant, key: Key, bytes: RecvBuffer) {
        self.parse_new(now, key, |link, pipeline| {
            link.receive(now, &bytes, &mut pipeline.intakes, &mut pipeline.reactor, &mut pipeline.events)
        });
    }

    /// Goes on with bytes and writes that were held back.
    pub(super) fn parse_held(&mut self, now: Instant, key: Key) {
        self.parse_new(now, key, |link, pipeline| {
            link.parse_held(now, &mut pipeline.intakes, &mut pipeline.reactor, &mut pipeline.events)
        });
    }

    /// Parses by `parse`, and executes the commands that come out.
    fn parse_new(
        &mut self,
        now: Instant,
        key: Key,
        parse: impl FnOnce(&mut Link, &mut Pipeline) -> Result<(), Fatal>,
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(mut link) = session.link.take() else { return };
        let result = parse(&mut link, self);
        let wants_to_send = link.transport.transmit_pending() > 0;
        let session = self.sessions.get_mut(key).expect("found above");
        let is_starved = link.starved;
        session.link = Some(link);
        if is_starved {
            self.mark_thirsty(key);
        }
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                TargetEvent::Command { sqe, data } => self.on_command(now, key, &sqe, data),
                TargetEvent::Fused { halves } => self.on_fused(now, key, halves),
                TargetEvent::Refused { sqe, status } => self.on_refused_command(now, key, &sqe, status),
                TargetEvent::GivenUp { cid } => self.on_given_up(key, cid),
                TargetEvent::Initialized { .. } => {}
            }
        }
        self.events = events;
        if wants_to_send {
            self.mark_dirty(key);
        }
        if let Err(fatal) = result {
            self.on_fatal(now, key, fatal);
        }
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
        if self.complaints.admits(now, session.peer.ip(), Subject::Command) {
            let (peer, host, cid, opcode) = (session.peer, session.admission.host(), sqe.cid(), sqe.opcode());
            warn!(%peer, %host, cid, opcode, %status, "the transport refused a command");
        }
    }

    fn on_fatal(&mut self, now: Instant, key: Key, fatal: Fatal) {
        match fatal {
            Fatal::Violation(_) => {
                let Some(session) = self.sessions.get_mut(key) else { return };
                if self.complaints.admits(now, session.peer.ip(), Subject::Violation) {
                    warn!(peer = %session.peer, host = %session.admission.host(), "connection refused: {fatal}");
                }
                if let Some(link) = &mut session.link {
                    link.end();
                }
                self.mark_dirty(key);
            }
            Fatal::Terminated { .. } => self.close_session(now, key, Ending::Terminated(fatal)),
        }
    }

    /// A batch was sent, or not.
    pub(super) fn on_sent(&mut self, now: Instant, key: Key, batch: SendBatch, result: io::Result<()>) {
        let Some(link) = self.sessions.get_mut(key).and_then(|session| session.link.as_mut()) else { return };
        let reads = &mut self.reads;
        link.on_sent(batch, |buffer| reads.give(buffer));
        if let Err(error) = result {
            return self.close_session(now, key, Ending::Broken(error));
        }
        let has_room = link.starved || link.waits_for_transmit();
        // Commands that the transport refused by itself have dropped their buffers unseen; their answers were sent now.
        self.memory_came_back = true;
        self.deferred.wake(now);
        self.mark_dirty(key);
        self.admit_waiting(now, key);
        if has_room {
            self.parse_held(now, key);
        }
    }

    /// The socket goes now; the session when its last IO has ended.
    pub(super) fn close_session(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(link) = session.link.take() else { return };
        let (peer, host, unanswered) = (session.peer, session.admission.host(), session.ios);
        // Of a link that ends because of its host's fault, the fault was told.
        if !link.is_ending()
            && let Some(subject) = ending.subject()
            && self.complaints.admits(now, peer.ip(), subject)
        {
            match subject {
                Subject::Ended => {
                    info!(%peer, %host, device = %self.name, unanswered, "connection ended: {ending}");
                }
                _ => warn!(%peer, %host, device = %self.name, unanswered, "connection dropped: {ending}"),
            }
        }
        self.by_token.remove(&link.token);
        self.reactor.close(link.token);
        let intakes = &mut self.intakes;
        link.transport.into_buffers(|payload| {
            if let Some((buffer, permit)) = payload.into_pooled() {
                intakes.give(buffer, permit.account());
            }
        });
        self.memory_came_back = true;
        self.withdraw_session(now, key);
        self.orphan(key);
        self.retire_if_done(now, key);
    }

    /// Forgets a session whose socket and IOs have gone.
    pub(super) fn retire_if_done(&mut self, now: Instant, key: Key) {
        let is_done =
            self.sessions.get(key).is_some_and(|session| session.link.is_none() && session.ios == 0);
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
