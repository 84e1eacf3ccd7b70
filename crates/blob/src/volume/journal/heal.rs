//! A second copy of the metadata, made when there is only one.

use super::Journal;
use crate::volume::space::Space;
use crate::{Fault, Mega};
use std::collections::BTreeSet;

impl Journal {
    /// Requests a second copy of the metadata if there is only one, and waits for the attempt.
    pub(crate) async fn heal(&self) {
        if self.has_two_copies() {
            return;
        }
        let before = self.heals.get();
        self.heal_wanted.set(true);
        self.gate.notify();
        let is_over = || {
            self.heals.get() > before
                || self.has_two_copies()
                || self.phase.is_over()
                || self.lease.is_fenced()
        };
        self.gate.wait(|| is_over().then_some(())).await;
    }

    /// Makes a second copy of the metadata, if an SSD of another target has room.
    pub(super) async fn heal_now(&self, space: &Space) -> Result<(), Fault> {
        let copies = self.copies.borrow().clone();
        let megas = space.take_elsewhere(&copies).await?;
        // Without room, the repair tries again later.
        if megas.is_empty() { Ok(()) } else { self.copy_metadata(space, &megas).await }
    }

    /// Adds a copy of the metadata in each of these mega blobs. Those that could not be written are used for data.
    async fn copy_metadata(&self, space: &Space, megas: &[Mega]) -> Result<(), Fault> {
        // If this fails, the store may have recorded the copy: until the next mount the mega blobs stay unused.
        self.checkpoint(megas).await?;
        let copies = self.copies.borrow();
        let from = self.clock.now() + self.settings.quarantine;
        let unused = megas.iter().copied().filter(|mega| !copies.contains(mega));
        space.own(unused, &BTreeSet::new(), from);
        Ok(())
    }
}
