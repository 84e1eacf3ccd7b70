//! Messages to other threads, a batch for each at the end of a turn.
//!
//! ```text
//!   push ─► outbox of the other thread ──flush, once per turn──► one message, one wake-up ─► mailbox
//! ```
//!
//! A batch is one message of the mailbox that everything else for that thread goes through. So nothing overtakes anything: a tenant
//! that was announced is known when its first IO comes, whichever way that took. A ring beside the mailbox would need an order
//! between the two, and a second queue for when it is full; what a batch costs is shared by all that is in it.
//!
//! What may wait in an outbox is bounded by those who push: the entries of the queues of connections, and `window` for IOs of other SSDs.
//!
//! Holds: what is pushed arrives once, in order, or comes back when the other thread is gone
//!        (`a_batch_arrives_whole_in_order_or_comes_back` in `mailbox`'s interleavings, by loom on this very code).

use crate::mailbox::{Channel, Mailbox, SystemChannel};

/// Messages that can travel together.
pub(crate) trait Batched: Sized {
    /// Many as one.
    fn batch(messages: Vec<Self>) -> Self;
    /// The many, if this is such a message; otherwise itself.
    fn unbatch(self) -> Result<Vec<Self>, Self>;
}

struct Outbox<M, L: Channel<M>> {
    /// `None`: nobody is there.
    mailbox: Option<Mailbox<M, L>>,
    messages: Vec<M>,
}

/// The way from one thread to all others of a kind, by their slots.
pub(crate) struct Outboxes<M: Batched, L: Channel<M> = SystemChannel> {
    outboxes: Vec<Outbox<M, L>>,
    /// Those with messages.
    filled: Vec<usize>,
}

impl<M: Batched, L: Channel<M>> Outboxes<M, L> {
    /// Leads nowhere yet.
    pub(crate) fn new() -> Outboxes<M, L> {
        Outboxes { outboxes: Vec::new(), filled: Vec::new() }
    }

    /// A thread has come, or gone.
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

    /// The mailboxes of all threads there are.
    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &Mailbox<M, L>> {
        self.outboxes.iter().filter_map(|outbox| outbox.mailbox.as_ref())
    }

    /// The mailbox of one.
    pub(crate) fn mailbox(&self, slot: usize) -> Option<&Mailbox<M, L>> {
        self.outboxes.get(slot)?.mailbox.as_ref()
    }

    /// Puts a message into the next batch for a thread. Gives it back if there is none.
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

    /// As [`Outboxes::push`], of a message that a thread that is gone needs no more.
    pub(crate) fn tell(&mut self, slot: usize, message: M) {
        drop(self.push(slot, message));
    }

    /// Sends all batches. What a thread that is gone did not take goes to `lost`.
    pub(crate) fn flush(&mut self, mut lost: impl FnMut(usize, M)) {
        for slot in self.filled.drain(..) {
            let outbox = &mut self.outboxes[slot];
            // The next batch is likely to be as long as this one.
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

    /// Takes what waits for one thread out again.
    pub(crate) fn take_back(&mut self, slot: usize) -> Vec<M> {
        self.filled.retain(|filled| *filled != slot);
        self.outboxes.get_mut(slot).map_or(Vec::new(), |outbox| std::mem::take(&mut outbox.messages))
    }

    /// Whether there is something to flush.
    pub(crate) fn is_filled(&self) -> bool {
        !self.filled.is_empty()
    }
}
