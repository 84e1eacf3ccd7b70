//! Messages to another thread's reactor.
//!
//! The queue itself has no bound; what may be in it has, by the rules of who posts: an IO for another SSD is posted only
//! while fewer than `pipeline::REMOTE_OUTSTANDING_MAX` of its kind are unanswered, a hand-over only within the connection
//! limit, whoever asks for a snapshot waits for the answer, and commands and their answers are bounded by the entries of queues.
//! What there is much of goes in batches (`outbox`).
//!
//! Holds: in every interleaving with a few forced switches, every message that was accepted is taken once, in the order of its sender, and no owner
//!        sleeps over one (`interleavings`, by loom on this very code).

use reactor::Waker;
use std::marker::PhantomData;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What mailboxes are made of: the system's own, or parts whose interleavings a test explores.
pub(crate) trait Channel<M> {
    /// The sending end of a queue.
    type Sender: Clone;
    /// The receiving end.
    type Receiver;
    /// What wakes the owner.
    type Waker: Clone;

    /// A queue.
    fn queue() -> (Self::Sender, Self::Receiver);
    /// Puts a message in; gives it back if the receiving end is gone.
    fn send(sender: &Self::Sender, message: M) -> Result<(), M>;
    /// Takes the oldest message out, if there is one.
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

/// The sending end: many may hold one.
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
    /// A mailbox whose owner sleeps in the reactor of `waker`, and the owner's end.
    pub(crate) fn new(waker: L::Waker) -> (Mailbox<M, L>, Inbox<M, L>) {
        let (sender, receiver) = L::queue();
        (Mailbox { sender, waker, messages: PhantomData }, Inbox { receiver })
    }

    /// Posts a message and wakes the owner. Gives it back if the owner is gone.
    pub(crate) fn post(&self, message: M) -> Result<(), M> {
        L::send(&self.sender, message)?;
        L::wake(&self.waker);
        Ok(())
    }

    /// Posts a message that an owner who is gone needs no more.
    pub(crate) fn tell(&self, message: M) {
        drop(self.post(message));
    }
}

/// The owner's end.
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
