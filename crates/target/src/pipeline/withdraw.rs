//! Taking back IOs that have not reached a device.
//!
//! Where an IO is, it says itself (`commands::Place`), so taking one back needs no search, however many there are. One that is on
//! another SSD's thread is asked for there, and ends when that thread answers; one on the device ends in its own time.
//!
//! Holds: what it costs does not grow with what is queued (`what_a_host_queues_is_taken_back_at_the_same_price_however_much_it_is`);
//!        an IO of another connection is never taken (`tests/io.rs`).

use super::Pipeline;
use super::commands::{IoContext, Place};
use super::message::{IoOutcome, ToPipeline};
use crate::slab::Key;
use crate::switch::{Failure, Spent};
use nvme::spec::Status;
use units::Instant;

impl Pipeline {
    /// Takes back what `session` has under way and has not reached a device; the rest ends by itself.
    pub(super) fn withdraw_session(&mut self, now: Instant, session: Key) {
        let Some(lanes) = self.sessions.get(session).map(|session| &session.lanes) else { return };
        let ios: Vec<Key> = lanes.iter().flat_map(|(_, lane)| self.lane_links.iter(&lane.chain)).collect();
        for io in ios {
            self.withdraw_io(now, io);
            self.stop_io(io);
        }
        self.ask_others_back();
    }

    /// The IO of `session` that has the command identifier `cid`. Looks at all of the queue.
    pub(super) fn find_io(&self, session: Key, cid: u16) -> Option<Key> {
        let lanes = &self.sessions.get(session)?.lanes;
        let mut ios = lanes.iter().flat_map(|(_, lane)| self.lane_links.iter(&lane.chain));
        let is_it = |context: &IoContext| {
            context.cid == cid || context.first.as_ref().is_some_and(|first| first.cid == cid)
        };
        ios.find(|io| self.ios.get(*io).is_some_and(is_it))
    }

    /// Takes back one IO, whose host is told `status`, if it has not reached a device; [`Pipeline::ask_others_back`] has to follow.
    pub(super) fn refuse_io(&mut self, now: Instant, io: Key, status: Status) {
        if let Some(context) = self.ios.get_mut(io) {
            context.if_withdrawn = status;
            self.withdraw_io(now, io);
            self.stop_io(io);
        }
    }

    /// Of an IO that is on the device here, the step that is there is the last.
    fn stop_io(&mut self, io: Key) {
        if let Some(Place::Here(key)) = self.ios.get(io).map(|context| &context.place) {
            self.switch.stop(*key);
        }
    }

    /// Takes back one IO if it has not reached a device; [`Pipeline::ask_others_back`] has to follow.
    pub(super) fn withdraw_io(&mut self, now: Instant, io: Key) {
        // It may have ended with another one that was taken back.
        let Some(context) = self.ios.get_mut(io) else { return };
        let spent = match &context.place {
            Place::Here(key) => {
                if let Some(finished) = self.switch.withdraw(now, *key) {
                    self.on_finished(now, finished);
                }
                return;
            }
            Place::There(key) => match self.remotes[context.device].withdraw(*key) {
                Some(waiting) => waiting.work.into_buffers(),
                None => {
                    let device = context.device;
                    self.asked_back.push((device, io));
                    return;
                }
            },
            Place::Waiting(_) | Place::Held(_) => self.take_waiting(io),
            Place::Nowhere => unreachable!("an IO is somewhere between two calls"),
        };
        let tenant = self.tenant_of(io);
        let credit = self.switch.policy().credit(tenant);
        let result = Err(Failure::Withdrawn);
        self.on_outcome(now, io, IoOutcome { result, read: None, spent, credit });
    }

    /// Takes an IO out of the line that it waits in; answers the buffers that came with it.
    fn take_waiting(&mut self, io: Key) -> Spent {
        let context = self.ios.get_mut(io).expect("it waits");
        // It had not been counted against the budget.
        context.read_length = 0;
        let work = match std::mem::replace(&mut context.place, Place::Nowhere) {
            Place::Waiting(work) => {
                let session = self.sessions.get_mut(context.session).expect("a session outlives its IOs");
                self.waiting_links.remove(&mut session.waiting, io);
                work
            }
            Place::Held(work) => {
                self.leave_hold(io);
                work
            }
            Place::Nowhere | Place::Here(_) | Place::There(_) => unreachable!("it waits"),
        };
        work.into_buffers()
    }

    /// Asks the threads of other SSDs for what is there.
    pub(super) fn ask_others_back(&mut self) {
        let mut asked = std::mem::take(&mut self.asked_back);
        asked.sort_by_key(|(device, _)| *device);
        for of_device in asked.chunk_by(|(one, _), (other, _)| one == other) {
            let ios = of_device.iter().map(|(_, io)| *io).collect();
            self.peers.tell(of_device[0].0, ToPipeline::RemoteWithdraw { from: self.index, ios });
        }
        asked.clear();
        self.asked_back = asked;
    }
}
