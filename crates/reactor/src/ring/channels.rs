//! Descriptors that only say when there is something to do, through the ring.
//!
//! A channel has at most one poll out, which completes once. It keeps a copy of the descriptor until that poll is back.
//!
//!   resting <--Ready / watch_channel--> watched;  either --close--> closing --poll back--> gone

use super::queue::{Kind, Queue, Request};
use super::{RingDriver, Source};
use crate::Token;
use crate::event::{Event, Events};
use io_uring::{opcode, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A descriptor and its poll.
pub(super) struct Channel {
    token: Token,
    descriptor: OwnedFd,
    is_armed: bool,
    is_closed: bool,
}

impl Channel {
    fn request(&self) -> Request {
        Request { kind: Kind::Channel, index: self.token.index() }
    }

    /// Begins to watch, unless it does already.
    pub(super) fn arm(&mut self, queue: &mut Queue) {
        if self.is_armed || self.is_closed {
            return;
        }
        self.is_armed = true;
        let descriptor = types::Fd(self.descriptor.as_raw_fd());
        let poll = opcode::PollAdd::new(descriptor, libc::POLLIN as u32).build();
        // SAFETY: the request names no memory, and the descriptor stays in its slot while `is_armed`.
        unsafe { queue.push(poll, self.request()) };
    }

    pub(super) fn close(&mut self, queue: &mut Queue) {
        self.is_closed = true;
        if self.is_armed {
            queue.cancel(self.request());
        }
    }

    pub(super) fn may_be_freed(&self) -> bool {
        self.is_closed && !self.is_armed
    }
}

impl RingDriver {
    pub(super) fn start_watching(&mut self, descriptor: OwnedFd) -> io::Result<Token> {
        let token = self.sources.insert(|token| {
            Source::Channel(Channel { token, descriptor, is_armed: false, is_closed: false })
        });
        if let Some(Source::Channel(channel)) = self.sources.get(token) {
            channel.arm(&mut self.queue);
        }
        Ok(token)
    }

    pub(super) fn on_channel(&mut self, index: u32, events: &mut Events) {
        let Some(Source::Channel(channel)) = self.sources.at(index) else {
            unreachable!("a channel stays in its slot while its poll is out")
        };
        channel.is_armed = false;
        if !channel.is_closed {
            events.push(Event::Ready { token: channel.token });
        }
        self.settle(index, events);
    }
}
