//! Input from connections on any thread: commands, faults, memory; and the order in which waiting sessions get memory.
//!
//! A connection that this thread carries is read here, and what its bytes say is carried out at once. Of one that another thread carries the
//! events come as messages, in order.

use super::closing::Ending;
use super::commands::Commands;
use super::queue_of;
use super::wires::Wire;
use crate::connections::message::{ConnectionEvent, Returned, ToConnections};
use crate::connections::{Owner, Parsed, Sent, SocketEnd};
use crate::log_throttle::Subject;
use crate::payload::footprint;
use crate::slab::Key;
use crate::transport::{Events, Fatal};
use nvme::queue::TargetEvent;
use nvme::spec::{Sqe, Status};
use reactor::{IoBuffer, Reactor, SendBatch};
use std::io;
use tracing::warn;
use units::Instant;

impl Commands {
    /// Executes commands that were parsed from bytes of a connection here.
    pub(super) fn on_parsed(&mut self, now: Instant, parsed: Option<Parsed>, reactor: &mut Reactor) {
        let Some(Parsed { owner: Owner { session: key, .. }, mut events, fatal, .. }) = parsed else {
            return;
        };
        self.on_events(now, key, &mut events);
        self.wires.here.recycle(events);
        match fatal {
            Some(fatal) if fatal.is_answered() => self.on_violated(now, key, &fatal),
            Some(fatal) => {
                self.close_session(now, key, Ending::Socket(fatal.into()), reactor);
            }
            None => {}
        }
    }

    /// Carries out commands where they are: an event is as large as the largest of them.
    fn on_events(&mut self, now: Instant, key: Key, events: &mut Events) {
        for event in events {
            match event {
                TargetEvent::Command { sqe, data } => self.on_command(now, key, sqe, data.take()),
                TargetEvent::Fused { halves } => {
                    let halves = halves.each_mut().map(|(sqe, data)| (*sqe, data.take()));
                    self.on_fused(now, key, halves);
                }
                TargetEvent::Refused { sqe, status } => self.on_refused_command(now, key, sqe, *status),
                TargetEvent::GivenUp { cid } => self.on_given_up(key, *cid),
                TargetEvent::Initialized => {}
            }
        }
    }

    /// Handles an event of a connection that another thread carries.
    pub(super) fn on_connection_event(&mut self, now: Instant, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Opened { session, connection } => self.on_opened(now, session, connection),
            ConnectionEvent::Events { session, mut events } => self.on_events(now, session, &mut events),
            ConnectionEvent::Violated { session, fatal } => self.on_violated(now, session, &fatal),
            ConnectionEvent::Returned(returned) => self.take_back(now, returned),
            ConnectionEvent::Cancelled { ticket, cancel } => self.on_cancelled(now, ticket, cancel),
            ConnectionEvent::Ended { session, end } => self.on_ended(now, session, Ending::Socket(end)),
            ConnectionEvent::ThreadFailed { thread } => self.on_thread_failed(now, thread),
        }
    }

    fn on_opened(&mut self, now: Instant, key: Key, connection: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.wire {
            Wire::CloseWhenOpen { thread } => {
                session.wire = Wire::Closing { thread };
                self.wires.tell(thread, ToConnections::Close { connection });
            }
            Wire::Opening { thread } => {
                session.wire = Wire::There { thread, connection };
                // It may have changed meanwhile.
                self.wires.set_credits(session.wire, session.credits);
            }
            wire => unreachable!("a thread opens a connection once, not when it is {wire:?}"),
        }
        self.on_opening_over(now, key);
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

    /// The host has broken the protocol. Its connection ends after the report to the host.
    fn on_violated(&mut self, now: Instant, key: Key, fatal: &Fatal) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.backlog.commands.clear();
        if self.log_throttle.allows(now, session.peer.ip(), Subject::Violation) {
            warn!(peer = %session.peer, host = %session.admission.host(), "connection refused: {fatal}");
        }
    }

    /// Work of a queue pair here has ended.
    pub(super) fn on_ready(
        &mut self,
        now: Instant,
        connection: Key,
        takes_commands: bool,
        reactor: &mut Reactor,
    ) {
        let mut bytes = 0;
        let give = |buffer: Option<IoBuffer>, permit| {
            bytes += buffer.as_ref().map_or(0, |buffer| footprint(buffer.len()));
            self.reads.give(buffer, permit);
        };
        let parsed = self.wires.here.on_ready(now, connection, takes_commands, reactor, give);
        let Some(Parsed { owner: Owner { session: key, .. }, .. }) = parsed else { return };
        self.return_bytes(key, bytes);
        self.reads.note_came_back();
        self.deferred.wake(now);
        self.admit_waiting(now, key);
        self.on_parsed(now, parsed, reactor);
    }

    /// A batch of a connection here was sent, or not.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        connection: Key,
        (batch, result): (SendBatch, io::Result<()>),
        reactor: &mut Reactor,
    ) {
        let mut bytes = 0;
        let give = |buffer: Option<IoBuffer>, permit| {
            bytes += buffer.as_ref().map_or(0, |buffer| footprint(buffer.len()));
            self.reads.give(buffer, permit);
        };
        let sent = self.wires.here.on_sent(connection, batch, give);
        let Some(Sent { owner: Owner { session: key, .. }, has_room }) = sent else { return };
        self.return_bytes(key, bytes);
        if let Err(error) = result {
            return self.close_session(now, key, Ending::Socket(SocketEnd::Broken(error)), reactor);
        }
        self.reads.note_came_back();
        self.deferred.wake(now);
        self.admit_waiting(now, key);
        if has_room {
            let parsed = self.wires.here.parse_held(now, connection, reactor);
            self.on_parsed(now, parsed, reactor);
        }
    }

    /// Takes back buffers and permits of replies that another thread has sent, or cannot send.
    fn take_back(&mut self, now: Instant, Returned { session, buffers, permits }: Returned) {
        let bytes = buffers.iter().map(|buffer| footprint(buffer.len())).sum();
        buffers.into_iter().for_each(|buffer| self.reads.give(Some(buffer), None));
        permits.into_iter().for_each(|permit| self.reads.give(None, Some(permit)));
        if let Some(key) = session {
            self.return_bytes(key, bytes);
        }
        self.deferred.wake(now);
    }

    /// Returns bytes that were sent to the permits of their session.
    fn return_bytes(&mut self, key: Key, bytes: u64) {
        if let Some(session) = self.sessions.get_mut(key)
            && session.read_permits.return_bytes(bytes)
        {
            self.reads.settle_later(key);
        }
    }

    /// Gives bytes that came back in this turn, and were not used again, to the accounts.
    fn settle_returned(&mut self) {
        while let Some(key) = self.reads.next_to_settle() {
            if let Some(session) = self.sessions.get_mut(key) {
                session.read_permits.settle();
            }
        }
    }

    /// Makes other threads return memory at once during a shortage.
    pub(super) fn note_shortage(&mut self, now: Instant) {
        let is_short =
            self.reads.waiting() > 0 || self.switch.waits_for_memory() || self.deferred.is_waiting();
        self.wires.note_shortage(now, is_short);
    }

    /// Lets connections and sessions that were refused memory go on, in turn, once some came back.
    pub(super) fn serve_waiting_for_memory(&mut self, now: Instant, reactor: &mut Reactor) {
        self.settle_returned();
        if self.reads.take_came_back() {
            self.wires.here.note_memory();
        }
        let (waiting, has_memory) = self.wires.here.waiting_for_memory();
        if !has_memory {
            return;
        }
        for _ in 0..waiting {
            let parsed = self.wires.here.serve_waiting_for_memory(now, reactor);
            self.on_parsed(now, parsed, reactor);
        }
        for _ in 0..self.reads.waiting() {
            let key = self.reads.next_waiting().expect("counted");
            if let Some(session) = self.sessions.get_mut(key) {
                session.waits_for_memory = false;
                self.admit_waiting(now, key);
            }
        }
    }
}
