//! Reservations on their way between the subsystems here and the state directory.
//!
//! Elsewhere: when a command is answered is decided by the subsystem; files are `state`.

use super::message::ToPipeline;
use crate::home::Home;
use crate::mailbox::Mailbox;
use crate::state::{Keeper, NamespaceName, ToStore};
use nvme::subsystem::SavedReservations;

/// A copy of a namespace's reservations that is to be stored.
pub(super) struct Copy {
    /// The subsystem's slot.
    pub(super) subsystem: usize,
    pub(super) nsid: u32,
    /// The subsystem's number for this copy.
    pub(super) ticket: u64,
    /// `None`: there are none any more.
    pub(super) saved: Option<SavedReservations>,
}

/// Copies of reservations that are being stored.
pub(super) struct Storing {
    /// Where they are kept, if somewhere.
    keeper: Option<Keeper>,
    /// Those that the keeper has not answered.
    under_way: usize,
}

impl Storing {
    pub(super) fn new(keeper: Option<Keeper>) -> Storing {
        Storing { keeper, under_way: 0 }
    }

    /// Whether the keeper has answered all of them.
    pub(super) fn is_done(&self) -> bool {
        self.under_way == 0
    }

    /// The subsystem `home` wants a copy stored. The keeper answers to `answers`.
    pub(super) fn store(&mut self, home: &mut Home, copy: Copy, answers: Option<&Mailbox<ToPipeline>>) {
        let (nsid, ticket) = (copy.nsid, copy.ticket);
        if self.hand_over(home, copy, answers) {
            self.under_way += 1;
        } else {
            home.subsystem.on_stored(nsid, ticket, false);
        }
    }

    /// Returns false if the copy cannot be stored.
    fn hand_over(&self, home: &Home, copy: Copy, answers: Option<&Mailbox<ToPipeline>>) -> bool {
        let Some(keeper) = &self.keeper else { return false };
        let Copy { subsystem, nsid, ticket, saved } = copy;
        let uuid = home.subsystem.namespaces().find(|(other, ..)| *other == nsid).map(|(_, _, uuid)| uuid);
        let (Some(uuid), Some(pipeline)) = (uuid, answers.cloned()) else { return false };
        let namespace = NamespaceName { subsystem: home.subsystem.nqn().as_str().to_owned(), uuid };
        let answer = Box::new(move |is_stored| {
            pipeline.tell(ToPipeline::Stored { subsystem, nsid, ticket, is_stored });
        });
        keeper.store(ToStore { namespace, nsid, saved, answer })
    }

    /// Passes the result of storing a copy to its subsystem, unless that was removed.
    pub(super) fn on_stored(&mut self, home: Option<&mut Home>, nsid: u32, ticket: u64, is_stored: bool) {
        self.under_way -= 1;
        if let Some(home) = home {
            home.subsystem.on_stored(nsid, ticket, is_stored);
        }
    }
}
