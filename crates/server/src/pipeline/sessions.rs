//! The life of a session: a connection, wherever it is carried, and what is under way for it.
//!
//! ```text
//!   handover ─► Connect ─┬► carried here ───────────────► closed ──last IO ends──► gone (the subsystem and the acceptor are told)
//!                        ├► another thread ─► opened ─► closing ─► ended ──┘
//!                        └─refused─► reply sent ─► closed
//! ```
//!
//! A session whose connection another thread carries is over only when that thread has said so: nothing comes of it then.
//!
//! Elsewhere: how a session begins is `handover`, how its commands are answered `answers`.

use super::admission::Admission;
use super::lanes::Lanes;
use super::{Pipeline, queue_of};
use crate::account::ConnectionAccount;
use crate::connection::Connection;
use crate::connections::load::Burden;
use crate::connections::message::{News, ToConnections};
use crate::connections::{Owner, Parsed, Sent, SocketEnd};
use crate::intrusive_list::List;
use crate::log_throttle::Subject;
use crate::replies::Backlog;
use crate::slab::Key;
use nvme::connection::{Fatal, TargetEvent};
use nvme::spec::{Sqe, Status};
use nvme::subsystem::CloseReason;
use reactor::SendBatch;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::{info, warn};
use units::{Instant, TenantId};

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
    pub(super) waiting: List,
    /// Whether it is in the list of those whose reads wait for memory.
    pub(super) waits_for_memory: bool,
    /// Aborts from it that wait for word of another thread.
    pub(super) aborts: usize,
    /// What it adds to the loads of threads.
    pub(super) burdens: Vec<Burden>,
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
            && let Some(home) = self.homes.get_mut(session.subsystem)
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

    /// Closes the connection. The session goes when its last IO has ended.
    pub(super) fn close_session(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get(key) else { return };
        let (wire, thread) = (session.wire, session.thread);
        if matches!(wire, Wire::Unwanted | Wire::Closing | Wire::Gone) {
            return;
        }
        // Logged before it is closed, so that the line is there when the host sees the end.
        let was_told = match wire {
            Wire::Here(connection) => {
                self.connections.get(connection).is_some_and(|connection| connection.is_ending())
            }
            _ => false,
        };
        if !was_told {
            self.log_ending(now, key, &ending);
        }
        let wire = match (wire, thread) {
            (Wire::Here(connection), _) => {
                let reads = &mut self.reads;
                self.connections.close(connection, SocketEnd::AsTold, &mut self.reactor, |buffer, permit| {
                    buffer.into_iter().for_each(|buffer| reads.give(buffer));
                    drop(permit);
                });
                self.memory_came_back = true;
                Wire::Gone
            }
            (Wire::There(connection), Some(thread)) => {
                self.others.tell(thread, ToConnections::Close { connection });
                Wire::Closing
            }
            _ => Wire::Unwanted,
        };
        self.sessions.get_mut(key).expect("found above").wire = wire;
        self.leave(now, key);
    }

    /// The thread that carries a connection says that it is gone.
    pub(super) fn on_ended(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let was_open = session.wire.is_open();
        session.wire = Wire::Gone;
        if was_open {
            self.log_ending(now, key, &ending);
            self.leave(now, key);
        } else {
            self.retire_if_done(now, key);
        }
    }

    /// Logs why a connection has ended, unless that was logged before.
    fn log_ending(&mut self, now: Instant, key: Key, ending: &Ending) {
        let Some(session) = self.sessions.get(key) else { return };
        let (peer, host, unanswered) = (session.peer, session.admission.host(), session.ios);
        let Some(subject) = ending.subject() else { return };
        if !self.log_throttle.allows(now, peer.ip(), subject) {
            return;
        }
        match subject {
            Subject::Ended => {
                info!(%peer, %host, device = %self.name, unanswered, "connection ended: {ending}");
            }
            _ => warn!(%peer, %host, device = %self.name, unanswered, "connection dropped: {ending}"),
        }
    }

    /// The host gets no more answers: takes back what can be taken back, and has later connections wait for the rest.
    fn leave(&mut self, now: Instant, key: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.backlog.commands.clear();
        self.withdraw_session(now, key);
        self.orphan(key);
        self.retire_if_done(now, key);
    }

    /// The connection of a session, if this thread carries it. Every admin queue is carried here.
    pub(super) fn connection(&mut self, key: Key) -> Option<&mut Connection> {
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
        if let Some(home) = self.homes.get_mut(session.subsystem) {
            home.subsystem.on_disconnect(now, queue_of(key));
        }
    }
}
