//! Messages to other threads, sent as one batch per thread at the end of a turn.
//!
//! ```text
//!   push ─► outbox of the other thread ──flush, once per turn──► one message, one wake-up ─► mailbox
//! ```
//!
//! A batch is one message of the mailbox, and all other messages to that thread use the same mailbox. So the order is kept: a tenant is
//! announced before its first IO arrives. A separate ring for batches would need an order between ring and mailbox, and a second queue
//! for when it is full. The batch already shares the cost of the mailbox among its messages.
//!
//! The users of an outbox limit what is in it: by the entries of the connections' queues, and by `window` for IOs of other SSDs.
//!
//! Holds: a message arrives once, in order, or comes back if the other thread is gone
//!        (`a_batch_arrives_whole_in_order_or_comes_back` in `mailbox`'s interleavings; loom checks it on this code).

use crate::mailbox::{Channel, Mailbox, SystemChannel};

/// Messages that can be sent as a batch.
pub(crate) trait Batched: Sized {
    /// Makes one message of many.
    fn batch(messages: Vec<Self>) -> Self;
    /// The messages of a batch, or this message if it is no batch.
    fn unbatch(self) -> Result<Vec<Self>, Self>;
}

struct Outbox<M, L: Channel<M>> {
    /// `None`: there is no thread in this slot.
    mailbox: Option<Mailbox<M, L>>,
    messages: Vec<M>,
}

/// The outboxes of one thread, one for each slot of the other threads.
pub(crate) struct Outboxes<M: Batched, L: Channel<M> = SystemChannel> {
    outboxes: Vec<Outbox<M, L>>,
    /// Slots with messages.
    filled: Vec<usize>,
}

impl<M: Batched, L: Channel<M>> Outboxes<M, L> {
    /// No outboxes yet.
    pub(crate) fn new() -> Outboxes<M, L> {
        Outboxes { outboxes: Vec::new(), filled: Vec::new() }
    }

    /// A thread was started in a slot, or has ended.
    pub(crate) fn set(&mut self, slot: usize, mailbox: Option<Mailbox<M, L>>) {
        if self.outboxes.len() <= slot {
            self.outboxes.resize_with(slot + 1, || Outbox { mailbox: None, messages: Vec::new() });
        }
        self.outboxes[slot].mailbox = mailbox;
    }

    /// One more than the highest slot that was ever used.
    pub(crate) fn slots(&self) -> usize {
        self.outboxes.len()
    }

    /// The mailboxes of all threads.
    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &Mailbox<M, L>> {
        self.outboxes.iter().filter_map(|outbox| outbox.mailbox.as_ref())
    }

    /// The mailbox of one thread.
    pub(crate) fn mailbox(&self, slot: usize) -> Option<&Mailbox<M, L>> {
        self.outboxes.get(slot)?.mailbox.as_ref()
    }

    /// Adds a message to the next batch for a thread. Returns it if there is no such thread.
    pub(crate) fn push(&mut self, slot: usize, message: M) -> Result<(), M> {
        match self.outboxes.get_mut(slot) {
            Some(outbox) if outbox.mailbox.is_some() => {
                if outbox.messages.is_empty() {
                    self.filled.push(slot);
                }
                outbox.messages.push(message);
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// As [`Outboxes::push`], but drops the message if there is no such thread.
    pub(crate) fn tell(&mut self, slot: usize, message: M) {
        drop(self.push(slot, message));
    }

    /// Sends all batches. Messages to a thread that is gone go to `lost`.
    pub(crate) fn flush(&mut self, mut lost: impl FnMut(usize, M)) {
        for slot in self.filled.drain(..) {
            let outbox = &mut self.outboxes[slot];
            // The next batch is probably as long as this one.
            let next = Vec::with_capacity(outbox.messages.len());
            let messages = std::mem::replace(&mut outbox.messages, next);
            let back = match &outbox.mailbox {
                Some(mailbox) => mailbox.post(M::batch(messages)).err(),
                None => Some(M::batch(messages)),
            };
            match back.map(M::unbatch) {
                Some(Ok(messages)) => messages.into_iter().for_each(|message| lost(slot, message)),
                Some(Err(message)) => lost(slot, message),
                None => {}
            }
        }
    }

    /// Removes the messages that wait for one thread.
    pub(crate) fn take_back(&mut self, slot: usize) -> Vec<M> {
        self.filled.retain(|filled| *filled != slot);
        self.outboxes.get_mut(slot).map_or(Vec::new(), |outbox| std::mem::take(&mut outbox.messages))
    }

    /// Whether there is something to flush.
    pub(crate) fn is_filled(&self) -> bool {
        !self.filled.is_empty()
    }
}
