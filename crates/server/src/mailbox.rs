//! Messages to another thread's reactor.
//!
//! The queue has no limit of its own. Its senders limit its length: at most `pipeline::port::REMOTE_OUTSTANDING_MAX` IOs for another SSD are
//! unanswered; hand-overs are within the connection limits; a thread that asks for a snapshot waits for the answer; commands and
//! replies are limited by the entries of queues. Frequent messages travel in batches (`outbox`).
//!
//! Holds: every accepted message is taken once, in its sender's order, and no owner sleeps while one waits. loom checks this on this
//!        code, in every interleaving with a few forced switches (`interleavings`).

use reactor::Waker;
use std::marker::PhantomData;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The primitives of mailboxes: the standard library's channel, or loom's in tests that explore interleavings.
pub(crate) trait Channel<M> {
    /// The sending end of a queue.
    type Sender: Clone;
    /// The receiving end.
    type Receiver;
    /// The handle that wakes the owner.
    type Waker: Clone;

    /// Makes a queue.
    fn queue() -> (Self::Sender, Self::Receiver);
    /// Adds a message. Returns it if the receiver was dropped.
    fn send(sender: &Self::Sender, message: M) -> Result<(), M>;
    /// Takes the oldest message, if there is one.
    fn take(receiver: &mut Self::Receiver) -> Option<M>;
    /// Wakes the owner.
    fn wake(waker: &Self::Waker);
}

/// The standard library's channel and the reactor's waker.
pub(crate) struct SystemChannel;

impl<M> Channel<M> for SystemChannel {
    type Sender = Sender<M>;
    type Receiver = Receiver<M>;
    type Waker = Waker;

    fn queue() -> (Sender<M>, Receiver<M>) {
        channel()
    }

    fn send(sender: &Sender<M>, message: M) -> Result<(), M> {
        sender.send(message).map_err(|error| error.0)
    }

    fn take(receiver: &mut Receiver<M>) -> Option<M> {
        receiver.try_recv().ok()
    }

    fn wake(waker: &Waker) {
        waker.wake();
    }
}

/// The sending end. It can be cloned.
pub(crate) struct Mailbox<M, L: Channel<M> = SystemChannel> {
    sender: L::Sender,
    waker: L::Waker,
    messages: PhantomData<fn(M)>,
}

impl<M, L: Channel<M>> Clone for Mailbox<M, L> {
    fn clone(&self) -> Mailbox<M, L> {
        Mailbox { sender: self.sender.clone(), waker: self.waker.clone(), messages: PhantomData }
    }
}

impl<M, L: Channel<M>> Mailbox<M, L> {
    /// Makes a mailbox. Its owner sleeps in the reactor of `waker`.
    pub(crate) fn new(waker: L::Waker) -> (Mailbox<M, L>, Inbox<M, L>) {
        let (sender, receiver) = L::queue();
        (Mailbox { sender, waker, messages: PhantomData }, Inbox { receiver })
    }

    /// Posts a message and wakes the owner. Returns the message if the owner has ended.
    pub(crate) fn post(&self, message: M) -> Result<(), M> {
        L::send(&self.sender, message)?;
        L::wake(&self.waker);
        Ok(())
    }

    /// Posts a message; it is dropped if the owner has ended.
    pub(crate) fn tell(&self, message: M) {
        drop(self.post(message));
    }
}

/// The receiving end.
pub(crate) struct Inbox<M, L: Channel<M> = SystemChannel> {
    receiver: L::Receiver,
}

impl<M, L: Channel<M>> Inbox<M, L> {
    /// The oldest message, if there is one.
    pub(crate) fn take(&mut self) -> Option<M> {
        L::take(&mut self.receiver)
    }
}

#[cfg(test)]
#[path = "mailbox_interleavings.rs"]
mod interleavings;
