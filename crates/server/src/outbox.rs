//! Messages to other threads, sent as one batch per thread at the end of a turn.
//!
//! ```text
//!   push ─► outbox of the other thread ──flush, once per turn──► one message, one wake-up ─► mailbox
//!   tell_later ─┘ waits there for a push
//! ```
//!
//! A batch is one message of the mailbox, and all other messages to that thread use the same mailbox. So the order is kept: a tenant is
//! announced before its first IO arrives. A separate ring for batches would need an order between ring and mailbox, and a second queue
//! for when it is full. The batch already shares the cost of the mailbox among its messages.
//!
//! The users of an outbox limit its content: by the entries of the connections' queues, and by the window of `pipeline::port` for IOs of other SSDs.
//!
//! Holds: a message arrives once, in order, or comes back if the other thread has ended
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
    /// Whether they are sent by the next flush. Otherwise all of them can wait for more.
    is_due: bool,
}

/// The outboxes of one thread, one for each slot of the other threads.
pub(crate) struct Outboxes<M: Batched, L: Channel<M> = SystemChannel> {
    outboxes: Vec<Outbox<M, L>>,
    /// Slots with messages to be sent by the next flush.
    due: Vec<usize>,
}

impl<M: Batched, L: Channel<M>> Outboxes<M, L> {
    /// No outboxes yet.
    pub(crate) fn new() -> Outboxes<M, L> {
        Outboxes { outboxes: Vec::new(), due: Vec::new() }
    }

    /// A thread was started in a slot, or has ended.
    pub(crate) fn set(&mut self, slot: usize, mailbox: Option<Mailbox<M, L>>) {
        if self.outboxes.len() <= slot {
            self.outboxes.resize_with(slot + 1, || Outbox {
                mailbox: None,
                messages: Vec::new(),
                is_due: false,
            });
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
    #[inline]
    pub(crate) fn push(&mut self, slot: usize, message: M) -> Result<(), M> {
        match self.outboxes.get_mut(slot) {
            Some(outbox) if outbox.mailbox.is_some() => {
                outbox.messages.push(message);
                if !outbox.is_due {
                    outbox.is_due = true;
                    self.due.push(slot);
                }
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// As [`Outboxes::tell`], but the message waits for the next one that does not, or for [`Outboxes::send_what_waits`].
    pub(crate) fn tell_later(&mut self, slot: usize, message: M) {
        if let Some(outbox) = self.outboxes.get_mut(slot).filter(|outbox| outbox.mailbox.is_some()) {
            outbox.messages.push(message);
        }
    }

    /// Includes messages that can wait in the next flush.
    pub(crate) fn send_what_waits(&mut self) {
        for (slot, outbox) in self.outboxes.iter_mut().enumerate() {
            if !outbox.messages.is_empty() && !outbox.is_due {
                outbox.is_due = true;
                self.due.push(slot);
            }
        }
    }

    /// Whether messages wait that no flush sent.
    pub(crate) fn holds_back(&self) -> bool {
        self.outboxes.iter().any(|outbox| !outbox.messages.is_empty())
    }

    /// As [`Outboxes::push`], but drops the message if there is no such thread.
    #[inline]
    pub(crate) fn tell(&mut self, slot: usize, message: M) {
        drop(self.push(slot, message));
    }

    /// Sends all batches. Messages to a thread that has ended go to `lost`.
    pub(crate) fn flush(&mut self, mut lost: impl FnMut(usize, M)) {
        for slot in self.due.drain(..) {
            let outbox = &mut self.outboxes[slot];
            outbox.is_due = false;
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
        self.due.retain(|due| *due != slot);
        self.outboxes.get_mut(slot).map_or(Vec::new(), |outbox| {
            outbox.is_due = false;
            std::mem::take(&mut outbox.messages)
        })
    }

    /// Whether there is something to flush.
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }
}
