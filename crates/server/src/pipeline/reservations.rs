//! Reservations on their way between the subsystems here and the state directory.
//!
//! Elsewhere: when a command is answered is decided by the subsystem; files are `state`.

use super::Pipeline;
use crate::state::{NamespaceName, ToStore};
use nvme::subsystem::SavedReservations;

impl Pipeline {
    /// The subsystem in `slot` wants a namespace's reservations stored.
    pub(super) fn store(&mut self, slot: usize, nsid: u32, ticket: u64, saved: Option<SavedReservations>) {
        let is_on_its_way = self.hand_to_keeper(slot, nsid, ticket, saved);
        if is_on_its_way {
            self.storing += 1;
        } else if let Some(home) = &mut self.homes[slot] {
            home.subsystem.on_stored(nsid, ticket, false);
        }
    }

    fn hand_to_keeper(
        &self,
        subsystem: usize,
        nsid: u32,
        ticket: u64,
        saved: Option<SavedReservations>,
    ) -> bool {
        let (Some(keeper), Some(home)) = (&self.keeper, &self.homes[subsystem]) else { return false };
        let uuid = home.subsystem.namespaces().find(|(other, ..)| *other == nsid).map(|(_, _, uuid)| uuid);
        let (Some(uuid), Some(pipeline)) = (uuid, self.peers.mailbox(self.index).cloned()) else {
            return false;
        };
        let namespace = NamespaceName { subsystem: home.subsystem.nqn().as_str().to_owned(), uuid };
        keeper.store(ToStore { namespace, saved, pipeline, subsystem, nsid, ticket })
    }

    /// The state directory has them, or not.
    pub(super) fn on_stored(&mut self, slot: usize, nsid: u32, ticket: u64, is_stored: bool) {
        self.storing -= 1;
        if let Some(Some(home)) = self.homes.get_mut(slot) {
            home.subsystem.on_stored(nsid, ticket, is_stored);
        }
    }
}
