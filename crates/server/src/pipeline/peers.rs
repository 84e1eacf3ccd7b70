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

    /// All there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mailbox<ToPipeline>> {
        self.0.iter().flatten()
    }

    /// Posts a message; false if the pipeline is gone, and the message with it.
    pub(crate) fn post(&self, slot: usize, message: ToPipeline) -> bool {
        matches!(self.0.get(slot), Some(Some(mailbox)) if mailbox.post(message).is_ok())
    }
}
