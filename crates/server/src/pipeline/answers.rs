//! The way back: completions, data that was read, and buffers and permits on their way home.
//!
//! A connection may be carried by this thread or by another one; then everything travels in the next batch to that thread (`outbox`).
//! Data that arrived belongs to the thread of its connection, data that was read to this one.
//!
//! Holds: what nobody is there to have is taken back here, so memory comes home whatever becomes of a connection
//!        (`tests/bounds.rs`, `tests/threads.rs`).

use super::Pipeline;
use super::sessions::{Session, Wire};
use crate::account::Permit;
use crate::connections::message::ToConnections;
use crate::payload::Payload;
use crate::slab::Key;
use nvme::spec::Cqe;
use reactor::IoBuffer;
use units::Instant;

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

impl Pipeline {
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

    /// The data of a command that needs no device, or none any more, goes back to the thread that it came from.
    pub(super) fn give_back(&mut self, thread: Option<usize>, payload: Option<Payload>) {
        if let Some((buffer, permit)) = payload.map(Payload::into_parts) {
            self.give_arrival(thread, buffer, Some(permit));
        }
    }

    /// As `give_back`, of what a payload was made of.
    pub(super) fn give_arrival(
        &mut self,
        thread: Option<usize>,
        buffer: Option<IoBuffer>,
        permit: Option<Permit>,
    ) {
        match (thread, permit) {
            (Some(thread), Some(permit)) => self.others.tell(thread, ToConnections::Back(buffer, permit)),
            (_, permit) => self.connections.give(buffer, permit),
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
}
