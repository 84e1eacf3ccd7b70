//! Abort: a host asks to abort a command that it has sent.
//!
//! Admin commands complete at once, so the only ones left to abort are Asynchronous Event Requests. They are
//! completed with Command Abort Requested. An IO can be aborted while it waits for its data, for memory or in
//! the scheduler; the caller has to look there. An IO on a device is not aborted: dword 0 of the answer says
//! so.
//!
//! Holds: an aborted event request gets one completion and reports no event
//!        (`an_aborted_event_request_is_answered` in `tests/controller/abort.rs`).
//! NVM Express Base Specification: "Abort command".

use super::Subsystem;
use super::action::{Action, Output};
use crate::spec::{Cqe, Sqe, Status};

/// Most outstanding Abort commands of a controller; further ones are refused. ACL is this number minus one.
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
