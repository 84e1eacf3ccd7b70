//! Holding back the data that a paused socket received.
//!
//! Pausing cannot undo the kernel's filling of buffers. So the bytes that come in after `pause` are held here, copied
//! out of the receive pool so that a paused socket does not take the buffers of the others, until `resume`. They are at
//! most as many as the receive pool held at the time.
//!
//! Holds: between `pause` and `resume` no inbound event of the socket is in the queue; afterwards all are, in order
//!        (`a_paused_socket_says_nothing_and_loses_nothing`).

use crate::event::{Event, Events};
use crate::token::Token;
use std::collections::VecDeque;

/// The gate for one socket's inbound events.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    paused: bool,
    held: VecDeque<Event>,
}

impl Inbound {
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(crate) fn pause(&mut self, token: Token, events: &mut Events) {
        if !self.paused {
            self.paused = true;
            self.held = events.withdraw_inbound(token).into_iter().map(off_the_pool).collect();
        }
    }

    pub(crate) fn resume(&mut self, events: &mut Events) {
        self.paused = false;
        self.held.drain(..).for_each(|event| events.push(event));
    }

    /// Reports an inbound event, or holds it.
    pub(crate) fn deliver(&mut self, event: Event, events: &mut Events) {
        if self.paused {
            self.held.push_back(off_the_pool(event));
        } else {
            events.push(event);
        }
    }

    /// Forgets the held data: the socket is closed.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }
}

fn off_the_pool(event: Event) -> Event {
    match event {
        Event::Received { token, bytes } => Event::Received { token, bytes: bytes.detach() },
        other => other,
    }
}
