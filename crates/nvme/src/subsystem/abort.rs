//! Abort: a host gives up a command that it has sent.
//!
//! Admin commands are answered at once, so the only ones to find are event requests, which are given back. An IO can be kept
//! from its device while it waits for its data, for memory or in the scheduler; there the caller has to look. What is with a
//! device ends by itself: dword 0 of the answer says that it was not aborted.
//!
//! Holds: an event request that was aborted is answered once and tells no event (`an_aborted_event_request_is_answered` in
//!        `tests/controller/abort.rs`).
//! NVM Express Base Specification: "Abort command".

use super::Subsystem;
use super::action::{Action, Output};
use crate::spec::{Cqe, Sqe, Status};

/// Abort commands of a controller that may be under way at a time: ACL says one less. More are refused.
pub const ABORTS_MAX: usize = 4;

/// Dword 0 of the answer: the command was not aborted.
const NOT_ABORTED: u32 = 1;

impl Subsystem {
    pub(super) fn abort(&mut self, slot: usize, sqe: &Sqe) -> Action {
        let (queue_id, cid) = (sqe.cdw10() as u16, (sqe.cdw10() >> 16) as u16);
        let cqe = Cqe::success(sqe.cid());
        let controller = self.controller_mut(slot);
        if queue_id == 0 && controller.events.give_up(cid) {
            let aborted = Cqe::new(cid, Status::ABORT_REQUESTED);
            let queue = controller.admin;
            self.outputs.push_back(Output::Complete { queue, cqe: aborted });
            return Action::reply(cqe);
        }
        match controller.io_queues.iter().find(|(id, _)| *id == queue_id) {
            Some(&(_, queue)) => Action::Abort { queue, cid, cqe },
            None => Action::reply(cqe.abort_failed()),
        }
    }
}

impl Cqe {
    /// The completion of an Abort, saying that the command was not aborted.
    #[must_use]
    pub fn abort_failed(self) -> Cqe {
        self.with_dw0(NOT_ABORTED)
    }
}
