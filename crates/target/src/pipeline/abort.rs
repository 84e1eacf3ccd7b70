//! Abort: a host gives up an IO that may not have reached a device yet.
//!
//! ```text
//!   waits for its data, or for memory for it      the transport answers it
//!   waits for room in its connection's account  ┐
//!   in the switch, not on the device           ┴─ taken back, answered: Command Abort Requested
//!   on the way to another SSD, or there           taken back there, if it can be; the Abort waits for word of it
//!   on the device                                 ends by itself: the Abort says that it was not aborted
//! ```
//!
//! Holds: dword 0 of the answer says what happened, and no Abort waits for a device (`tests/abort.rs`).

use super::Pipeline;
use super::message::ToPipeline;
use crate::slab::Key;
use crate::switch::Failure;
use nvme::connection::Cancel;
use nvme::spec::{Cqe, Status};
use nvme::subsystem::ABORTS_MAX;
use units::Instant;

/// An Abort that waits for word of another SSD.
pub(super) struct Abort {
    device: usize,
    /// The session that asked.
    admin: Key,
    cqe: Cqe,
    /// The IO has been taken back.
    is_done: bool,
}

impl Pipeline {
    /// The host of `admin` gives up the command `cid` of `queue`.
    pub(super) fn abort(&mut self, now: Instant, admin: Key, queue: Key, cid: u16, cqe: Cqe) {
        let link = self.sessions.get_mut(queue).and_then(|session| session.link.as_mut());
        match link.map(|link| link.cancel(cid, Status::ABORT_REQUESTED, &mut self.intakes)) {
            Some(Cancel::Answered | Cancel::Draining) => {
                self.memory_came_back = true;
                self.mark_dirty(queue);
                return self.answer_abort(admin, cqe, true);
            }
            Some(Cancel::Delivered) => {}
            Some(Cancel::Unknown) | None => return self.answer_abort(admin, cqe, false),
        }
        let Some(io) = self.find_io(queue, cid) else { return self.answer_abort(admin, cqe, false) };
        let waiting = self.sessions.get(admin).map_or(0, |session| session.aborts);
        if waiting >= ABORTS_MAX {
            return self.answer_abort(admin, Cqe::new(cqe.cid(), Status::ABORT_LIMIT_EXCEEDED), true);
        }
        let context = self.ios.get_mut(io).expect("just found");
        let device = context.device;
        context.if_withdrawn = Status::ABORT_REQUESTED;
        if let Some(first) = &mut context.first {
            // The other half fails because of this one.
            if first.cid == cid {
                first.if_withdrawn = Some(Status::ABORT_REQUESTED);
                context.if_withdrawn = Status::FAILED_FUSED;
            } else {
                first.if_withdrawn = Some(Status::FAILED_FUSED);
            }
        }
        self.withdraw_io(now, io);
        self.ask_others_back();
        if self.ios.get(io).is_none() {
            return self.answer_abort(admin, cqe, true);
        }
        if device == self.index {
            return self.answer_abort(admin, cqe, false);
        }
        self.aborts.entry(io).or_default().push(Abort { device, admin, cqe, is_done: false });
        if let Some(session) = self.sessions.get_mut(admin) {
            session.aborts += 1;
        }
        if self.peers.post(device, ToPipeline::Echo { from: self.index, io }).is_err() {
            self.on_echo(io);
        }
    }

    /// An IO has ended like this.
    #[inline]
    pub(super) fn note_abort(&mut self, io: Key, result: &Result<(), Failure>) {
        if self.aborts.is_empty() {
            return;
        }
        for abort in self.aborts.get_mut(&io).into_iter().flatten() {
            abort.is_done = matches!(result, Err(Failure::Withdrawn));
        }
    }

    /// Another SSD has done what it could before this message: what it could take back, it has told before.
    pub(super) fn on_echo(&mut self, io: Key) {
        // One word comes for each Abort.
        let Some(aborts) = self.aborts.get_mut(&io) else { return };
        let abort = aborts.remove(0);
        if aborts.is_empty() {
            self.aborts.remove(&io);
        }
        self.finish_abort(abort);
    }

    /// No word will come from that SSD any more.
    pub(super) fn give_up_aborts(&mut self, device: usize) {
        let aborts = self.aborts.extract_if(|_, aborts| aborts.iter().any(|abort| abort.device == device));
        let aborts: Vec<Abort> = aborts.flat_map(|(_, aborts)| aborts).collect();
        aborts.into_iter().for_each(|abort| self.finish_abort(abort));
    }

    fn finish_abort(&mut self, Abort { admin, cqe, is_done, .. }: Abort) {
        if let Some(session) = self.sessions.get_mut(admin) {
            session.aborts -= 1;
        }
        self.answer_abort(admin, cqe, is_done);
    }

    fn answer_abort(&mut self, admin: Key, cqe: Cqe, is_aborted: bool) {
        let session = self.sessions.get_mut(admin);
        if let Some(link) = session.and_then(|session| session.link.as_mut()) {
            link.reply(if is_aborted { cqe } else { cqe.abort_failed() });
            self.mark_dirty(admin);
        }
    }
}
