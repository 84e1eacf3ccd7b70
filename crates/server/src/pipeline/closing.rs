//! The life of a session, and how it ends.
//!
//! ```text
//!   handover ─► Connect ─┬► carried here ───────────────► closed ──last IO ends──► gone (the subsystem and the acceptor get a message)
//!                        ├► another thread ─► opened ─► closing ─► ended ──┘
//!                        └─refused─► reply sent ─► closed
//! ```
//!
//! A session whose connection another thread carries is over only after the report of that thread: nothing comes of it then.

use super::commands::Commands;
use super::queue_of;
use super::wires::Wire;
use crate::connections::{Owner, SocketEnd};
use crate::log_throttle::Subject;
use crate::slab::Key;
use nvme::subsystem::CloseReason;
use reactor::Reactor;
use std::fmt;
use tracing::{info, warn};
use units::Instant;

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Of itself, or by its host.
    Socket(SocketEnd),
    /// The subsystem wants it.
    BySubsystem(CloseReason),
    /// The subsystem is no longer served.
    SubsystemRemoved,
    /// The operator wants it.
    ByOperator,
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
            Ending::ByOperator => write!(f, "the operator has disconnected the host"),
            Ending::ThreadFailed => write!(f, "the thread that carried it failed"),
        }
    }
}

impl Ending {
    /// The subject of the log line; `None` if the reason was logged before.
    fn subject(&self) -> Option<Subject> {
        match self {
            Ending::Socket(SocketEnd::ClosedByHost | SocketEnd::Broken(_))
            | Ending::SubsystemRemoved
            | Ending::ByOperator
            | Ending::ThreadFailed
            | Ending::BySubsystem(
                CloseReason::ControllerReset | CloseReason::AdminQueueClosed | CloseReason::AccessRevoked,
            ) => Some(Subject::Ended),
            Ending::BySubsystem(CloseReason::KeepAliveTimeout)
            | Ending::Socket(SocketEnd::Stalled | SocketEnd::TransferOverdue) => Some(Subject::Dropped),
            Ending::Socket(SocketEnd::Terminated(_)) => Some(Subject::Violation),
            // The reason was logged before.
            Ending::Socket(SocketEnd::Refused | SocketEnd::AsTold) => None,
        }
    }
}

impl Commands {
    /// A connection here is to be closed.
    pub(super) fn close_connection(
        &mut self,
        now: Instant,
        connection: Key,
        end: SocketEnd,
        reactor: &mut Reactor,
    ) {
        if let Some(Owner { session, .. }) = self.wires.here.owner(connection) {
            self.close_session(now, session, Ending::Socket(end), reactor);
        }
    }

    /// Closes the connection. The session goes when its last IO has ended.
    pub(super) fn close_session(&mut self, now: Instant, key: Key, ending: Ending, reactor: &mut Reactor) {
        let Some(session) = self.sessions.get(key) else { return };
        let wire = session.wire;
        if !wire.is_open() {
            return;
        }
        // Logged before the connection is closed, so that the line exists when the host sees the end.
        let was_told = self.wires.get(wire).is_some_and(|connection| connection.is_ending());
        if !was_told {
            self.note_ending(now, key, &ending);
        }
        let wire = self.wires.close(wire, reactor, &mut self.reads);
        let session = self.sessions.get_mut(key).expect("found above");
        session.wire = wire;
        if wire.is_gone() {
            session.read_permits.close();
        }
        self.sessions.note_change();
        self.leave(now, key);
    }

    /// The thread that carries a connection reports its end.
    pub(super) fn on_ended(&mut self, now: Instant, key: Key, ending: Ending) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let was_open = session.wire.is_open();
        session.wire = Wire::Gone { thread: session.wire.thread() };
        session.read_permits.close();
        self.sessions.note_change();
        self.on_opening_over(now, key);
        if was_open {
            self.note_ending(now, key, &ending);
            self.leave(now, key);
        } else {
            self.retire_if_done(now, key);
        }
    }

    /// A thread of connections has failed, and all that it carried with it.
    pub(super) fn on_thread_failed(&mut self, now: Instant, thread: usize) {
        self.wires.forget_thread(thread);
        for key in self.sessions.find_all(|session| session.wire.thread() == Some(thread)) {
            self.on_ended(now, key, Ending::ThreadFailed);
        }
        self.give_up_cancels(now, thread);
    }

    /// Counts and logs why a connection has ended, unless that was logged before.
    fn note_ending(&mut self, now: Instant, key: Key, ending: &Ending) {
        let Some(session) = self.sessions.get(key) else { return };
        if let Ending::Socket(SocketEnd::Terminated(fatal)) = ending
            && let Some(refusal) = fatal.refusal()
        {
            self.proofs.shared.refusals.count(refusal);
        }
        let (peer, host, unanswered) = (session.peer, session.admission.host(), session.ios);
        let Some(subject) = ending.subject() else { return };
        if !self.log_throttle.allows(now, peer.ip(), subject) {
            return;
        }
        match subject {
            Subject::Ended => {
                info!(%peer, %host, device = %self.device, unanswered, "connection ended: {ending}");
            }
            _ => warn!(%peer, %host, device = %self.device, unanswered, "connection dropped: {ending}"),
        }
    }

    /// Ends replies to the host: takes back IOs that have not reached a device, and makes later connections wait for the others.
    fn leave(&mut self, now: Instant, key: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.backlog.commands.clear();
        self.withdraw_session(now, key);
        self.orphan(key);
        self.retire_if_done(now, key);
    }

    /// Forgets a session whose connection and IOs have ended.
    pub(super) fn retire_if_done(&mut self, now: Instant, key: Key) {
        if let Some(session) = self.sessions.remove_if_done(key)
            && let Some(home) = self.homes.get_mut(session.subsystem)
        {
            home.subsystem.on_disconnect(now, queue_of(key));
        }
    }
}
