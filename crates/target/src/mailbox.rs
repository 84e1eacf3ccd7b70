//! Messages to another thread's reactor.
//!
//! The queue itself has no bound; what may be in it has, by the rules of who posts: an IO for another SSD is posted only
//! while fewer than `pipeline::REMOTE_OUTSTANDING_MAX` of its kind are unanswered, a hand-over only within the connection
//! limit, and whoever asks for a snapshot waits for the answer.

use reactor::Waker;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The sending end: many may hold one.
pub(crate) struct Mailbox<M> {
    sender: Sender<M>,
    waker: Waker,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Mailbox<M> {
        Mailbox { sender: self.sender.clone(), waker: self.waker.clone() }
    }
}

impl<M> Mailbox<M> {
    /// A mailbox whose owner sleeps in the reactor of `waker`, and the owner's end.
    pub(crate) fn new(waker: Waker) -> (Mailbox<M>, Inbox<M>) {
        let (sender, receiver) = channel();
        (Mailbox { sender, waker }, Inbox { receiver })
    }

    /// Posts a message and wakes the owner. Gives it back if the owner is gone.
    pub(crate) fn post(&self, message: M) -> Result<(), M> {
        self.sender.send(message).map_err(|error| error.0)?;
        self.waker.wake();
        Ok(())
    }

    /// Posts a message that an owner who is gone needs no more.
    pub(crate) fn tell(&self, message: M) {
        drop(self.post(message));
    }
}

/// The owner's end.
pub(crate) struct Inbox<M> {
    receiver: Receiver<M>,
}

impl<M> Inbox<M> {
    /// The oldest message, if there is one.
    pub(crate) fn take(&mut self) -> Option<M> {
        self.receiver.try_recv().ok()
    }
}
