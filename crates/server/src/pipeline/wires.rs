//! The way to the connections of this thread's sessions: completions, data that was read, and buffers and permits on their way home.
//!
//! A connection may be carried by this thread or by another one; then everything travels in the next batch to that thread (`outbox`).
//! Data that arrived belongs to the thread of its connection, data that was read to this one (`reads`).
//!
//! Holds: data that no connection can take is taken back here, so memory comes home whatever becomes of a connection
//!        (`tests/bounds.rs`, `tests/threads.rs`).

use super::reads::ReadMemory;
use crate::account::Permit;
use crate::connections::load::{self, Burden, Load};
use crate::connections::message::ToConnections;
use crate::connections::{Connections, Owner, SocketEnd};
use crate::mailbox::Mailbox;
use crate::outbox::Outboxes;
use crate::payload::Payload;
use crate::slab::Key;
use crate::transport::Connection;
use nvme::spec::Cqe;
use reactor::{IoBuffer, Reactor};
use units::{Bytes, Instant, Nanos};

/// The way to a session's connection. A thread stays known after the end of the connection: data of commands goes back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// This thread carries it.
    Here(Key),
    /// On its way to another thread, which then sends its name there.
    Opening { thread: usize },
    /// As before, and closed meanwhile.
    CloseWhenOpen { thread: usize },
    /// Another thread carries it.
    There { thread: usize, connection: Key },
    /// Another thread is closing it.
    Closing { thread: usize },
    /// Nothing comes of it any more. The thread is the one that carried it, if that was another one.
    Gone { thread: Option<usize> },
}

impl Wire {
    /// The wire of a session without a connection.
    pub(super) const NONE: Wire = Wire::Gone { thread: None };

    /// Whether its host is to be answered.
    #[inline]
    pub(super) fn is_open(self) -> bool {
        matches!(self, Wire::Here(_) | Wire::Opening { .. } | Wire::There { .. })
    }

    /// Whether nothing comes of it any more.
    #[inline]
    pub(super) fn is_gone(self) -> bool {
        matches!(self, Wire::Gone { .. })
    }

    /// The other thread that carries the connection, or did; `None` is this one.
    #[inline]
    pub(super) fn thread(self) -> Option<usize> {
        match self {
            Wire::Here(_) => None,
            Wire::Opening { thread }
            | Wire::CloseWhenOpen { thread }
            | Wire::There { thread, .. }
            | Wire::Closing { thread } => Some(thread),
            Wire::Gone { thread } => thread,
        }
    }
}

/// See the module.
pub(super) struct Wires {
    /// This pipeline's slot, by which other threads know it.
    pipeline: usize,
    /// The connections that this thread carries.
    pub(super) here: Connections,
    /// To threads that have connections and no SSD.
    threads: Outboxes<ToConnections>,
    /// The load of this thread, and of the others.
    load: Load,
    loads: Vec<Load>,
    /// Time of the last shortage of memory, while other threads are asked to give it back at once.
    short_at: Option<Instant>,
}

/// Minimum time without a shortage before other threads may keep memory longer again: each change is a message to all of them.
const SHORT_FOR_MIN: Nanos = Nanos::secs(1);

impl Wires {
    /// A table without connections, with this much memory for arriving data of those that this thread is going to carry.
    pub(super) fn new(
        pipeline: usize,
        memory: Bytes,
        load: Load,
        others: Vec<(Mailbox<ToConnections>, Load)>,
    ) -> Wires {
        let (mut threads, mut loads) = (Outboxes::new(), Vec::new());
        for (thread, (mailbox, load)) in others.into_iter().enumerate() {
            threads.set(thread, Some(mailbox));
            loads.push(load);
        }
        Wires { pipeline, here: Connections::new(memory), threads, load, loads, short_at: None }
    }

    /// The name of a session on all threads.
    pub(super) fn owner(&self, session: Key) -> Owner {
        Owner { pipeline: self.pipeline, session }
    }

    /// Finds the thread with the least load, and the burdens of a queue on it. `None` is this one.
    pub(super) fn place(&self) -> (Option<usize>, Vec<Burden>) {
        load::place(&self.load, self.loads.iter().enumerate())
    }

    /// The connection, if this thread carries it.
    pub(super) fn get(&mut self, wire: Wire) -> Option<&mut Connection> {
        match wire {
            Wire::Here(connection) => self.here.get(connection),
            _ => None,
        }
    }

    /// Sends a completion.
    #[inline]
    pub(super) fn send(&mut self, wire: Wire, cqe: Cqe) {
        match wire {
            Wire::Here(connection) => self.here.reply(connection, cqe),
            Wire::There { thread, connection } => {
                self.threads.tell(thread, ToConnections::Done { connection, cqe, back: None });
            }
            // The connection has ended.
            _ => {}
        }
    }

    /// Sends a completion, and gives back the buffer and the permit of its command.
    #[inline]
    pub(super) fn send_and_give(
        &mut self,
        wire: Wire,
        cqe: Cqe,
        (buffer, permit): (Option<IoBuffer>, Option<Permit>),
        reads: &mut ReadMemory,
    ) {
        match (wire, permit) {
            (Wire::There { thread, connection }, Some(permit)) if permit.is_of_arrival() => {
                let back = Some((buffer, permit));
                return self.threads.tell(thread, ToConnections::Done { connection, cqe, back });
            }
            // A read that brings nothing.
            (_, Some(permit)) if !permit.is_of_arrival() => reads.give(None, Some(permit)),
            (_, permit) if buffer.is_some() || permit.is_some() => {
                self.give_arrival(wire, buffer, permit);
            }
            _ => {}
        }
        self.send(wire, cqe);
    }

    /// Sends read data and its completion. If the connection has ended, the data is taken back.
    #[inline]
    pub(super) fn send_read(&mut self, wire: Wire, cqe: Cqe, buffer: IoBuffer, reads: &mut ReadMemory) {
        let length = buffer.len() as u32;
        self.send_data(wire, cqe, Payload::Lent(buffer), length, reads);
    }

    /// Sends a page of a controller, `length` bytes long, and its completion. If the connection has ended, the page is taken back.
    pub(super) fn send_page(
        &mut self,
        wire: Wire,
        cqe: Cqe,
        (page, permit): (Vec<u8>, Permit),
        length: u32,
        reads: &mut ReadMemory,
    ) {
        self.send_data(wire, cqe, Payload::Page(page, permit), length, reads);
    }

    #[inline]
    fn send_data(&mut self, wire: Wire, cqe: Cqe, data: Payload, length: u32, reads: &mut ReadMemory) {
        let left = match wire {
            Wire::Here(connection) => self.here.reply_with_data(connection, cqe, data, length),
            Wire::There { thread, connection } => {
                let from = self.pipeline;
                self.threads.tell(thread, ToConnections::Data { connection, cqe, data, length, from });
                None
            }
            _ => Some(data),
        };
        if let Some((buffer, permit)) = left.map(Payload::into_parts) {
            reads.give(buffer, permit);
        }
    }

    /// The data of a command that needs no device, or none any more, goes back to the thread that it came from.
    pub(super) fn give_back(&mut self, wire: Wire, payload: Option<Payload>) {
        if let Some((buffer, permit)) = payload.map(Payload::into_parts) {
            self.give_arrival(wire, buffer, permit);
        }
    }

    /// As `give_back`, for the parts of a payload.
    pub(super) fn give_arrival(&mut self, wire: Wire, buffer: Option<IoBuffer>, permit: Option<Permit>) {
        match (wire.thread(), permit) {
            (Some(thread), Some(permit)) => self.threads.tell(thread, ToConnections::Back(buffer, permit)),
            (_, permit) => self.here.give(buffer, permit),
        }
    }

    /// Turns credits in completions on or off. A connection that is not open yet gets the setting when it is.
    pub(super) fn set_credits(&mut self, wire: Wire, is_enabled: bool) {
        match wire {
            Wire::Here(connection) => {
                if let Some(connection) = self.here.get(connection) {
                    connection.set_credits(is_enabled);
                }
            }
            Wire::There { thread, connection } => {
                self.threads.tell(thread, ToConnections::Credits { connection, is_enabled });
            }
            _ => {}
        }
    }

    /// Makes other threads return sent memory at once during a shortage here.
    pub(super) fn note_shortage(&mut self, now: Instant, is_short: bool) {
        let was_told = self.short_at.is_some();
        if is_short {
            self.short_at = Some(now);
        } else if self.short_at.is_some_and(|at| now.saturating_since(at) >= SHORT_FOR_MIN) {
            self.short_at = None;
        }
        let is_wanted = self.short_at.is_some();
        if is_wanted == was_told {
            return;
        }
        for thread in 0..self.threads.slots() {
            self.threads.tell(thread, ToConnections::Hurry { pipeline: self.pipeline, is_wanted });
        }
    }

    /// Reads nothing more from a connection, and closes it when everything was sent.
    pub(super) fn end(&mut self, wire: Wire) {
        match wire {
            Wire::Here(connection) => self.here.end(connection),
            Wire::There { thread, connection } => {
                self.threads.tell(thread, ToConnections::End { connection });
            }
            // No command has come from it yet, or none comes any more.
            Wire::Opening { .. } | Wire::CloseWhenOpen { .. } | Wire::Closing { .. } | Wire::Gone { .. } => {}
        }
    }

    /// Closes a connection that is open, and returns its new state.
    pub(super) fn close(&mut self, wire: Wire, reactor: &mut Reactor, reads: &mut ReadMemory) -> Wire {
        match wire {
            Wire::Here(connection) => {
                let give = |buffer, permit| reads.give(buffer, permit);
                self.here.close(connection, SocketEnd::AsTold, reactor, give);
                reads.note_came_back();
                Wire::NONE
            }
            Wire::There { thread, connection } => {
                self.threads.tell(thread, ToConnections::Close { connection });
                Wire::Closing { thread }
            }
            Wire::Opening { thread } => Wire::CloseWhenOpen { thread },
            closed @ (Wire::CloseWhenOpen { .. } | Wire::Closing { .. } | Wire::Gone { .. }) => closed,
        }
    }

    /// Adds a message to the next batch for another thread. False if that thread has failed.
    pub(super) fn push(&mut self, thread: usize, message: ToConnections) -> bool {
        self.threads.push(thread, message).is_ok()
    }

    /// As [`Wires::push`], but drops the message if that thread has failed.
    pub(super) fn tell(&mut self, thread: usize, message: ToConnections) {
        self.threads.tell(thread, message);
    }

    /// Sends all batches. Messages that a failed thread does not take are dropped: its failure is reported separately.
    pub(super) fn flush_threads(&mut self) {
        self.threads.flush(|_, message| drop(message));
    }

    /// Another thread has failed.
    pub(super) fn forget_thread(&mut self, thread: usize) {
        self.threads.set(thread, None);
        drop(self.threads.take_back(thread));
    }

    /// The mailboxes of all other threads.
    pub(super) fn mailboxes(&self) -> impl Iterator<Item = &Mailbox<ToConnections>> {
        self.threads.mailboxes()
    }
}
