//! The mailboxes of all pipelines.
//!
//! A pipeline has a *slot*, a small number by which it is addressed for as long as it lives. Pipelines come and go while the
//! target runs, so a slot may be empty.

use super::message::ToPipeline;
use crate::mailbox::Mailbox;

/// The mailboxes of all pipelines, by slot.
#[derive(Clone, Default)]
pub(crate) struct Peers(Vec<Option<Mailbox<ToPipeline>>>);

impl Peers {
    /// A pipeline has come, or gone.
    pub(crate) fn set(&mut self, slot: usize, mailbox: Option<Mailbox<ToPipeline>>) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = mailbox;
    }

    /// One more than the highest slot that was ever used.
    pub(crate) fn slots(&self) -> usize {
        self.0.len()
    }

    /// All there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mailbox<ToPipeline>> {
        self.0.iter().flatten()
    }

    /// The mailbox of one.
    pub(crate) fn mailbox(&self, slot: usize) -> Option<&Mailbox<ToPipeline>> {
        self.0.get(slot)?.as_ref()
    }

    /// Posts a message; gives it back if the pipeline is gone.
    pub(crate) fn post(&self, slot: usize, message: ToPipeline) -> Result<(), ToPipeline> {
        match self.0.get(slot) {
            Some(Some(mailbox)) => mailbox.post(message),
            _ => Err(message),
        }
    }

    /// Posts a message that a pipeline that is gone needs no more.
    pub(crate) fn tell(&self, slot: usize, message: ToPipeline) {
        drop(self.post(slot, message));
    }
}
