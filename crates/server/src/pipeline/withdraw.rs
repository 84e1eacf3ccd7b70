//! Taking back IOs that have not reached a device.
//!
//! Where an IO is, its slot says (`switch::State`), so taking one back needs no search, however many there are. One that is on
//! another SSD's thread is asked for there, and ends when that thread answers; one on the device ends in its own time.
//!
//! Holds: what it costs does not grow with what is queued (`what_a_host_queues_is_taken_back_at_the_same_price_however_much_it_is`);
//!        an IO of another connection is never taken (`tests/io.rs`).

use super::commands::Commands;
use super::host_io::HostIo;
use crate::slab::Key;
use crate::switch::{Failure, State};
use nvme::spec::Status;
use units::Instant;

impl Commands {
    /// Takes back what `session` has under way and has not reached a device; the rest ends by itself.
    pub(super) fn withdraw_session(&mut self, now: Instant, session: Key) {
        let ios: Vec<Key> = self.sessions.ios_of(session).collect();
        for io in ios {
            self.withdraw_io(now, io);
            self.stop_io(io);
        }
        self.port.ask_back();
    }

    /// The IO of `session` that has the command identifier `cid`. Looks at all of the queue.
    pub(super) fn find_io(&self, session: Key, cid: u16) -> Option<Key> {
        let is_it = |io: &HostIo| io.cid == cid || io.first.as_ref().is_some_and(|first| first.cid == cid);
        let mut ios = self.sessions.ios_of(session);
        ios.find(|io| self.switch.ios.get(*io).is_some_and(|slot| is_it(slot.host_io())))
    }

    /// Takes back one IO, whose host is told `status`, if it has not reached a device; `Port::ask_back` has to follow.
    pub(super) fn refuse_io(&mut self, now: Instant, io: Key, status: Status) {
        if let Some(slot) = self.switch.ios.get_mut(io) {
            slot.host_io_mut().if_withdrawn = status;
            self.withdraw_io(now, io);
            self.stop_io(io);
        }
    }

    /// Of an IO that is on the device here, the step that is there is the last.
    fn stop_io(&mut self, io: Key) {
        if self.switch.ios.get(io).is_some_and(|slot| slot.state == State::OnDevice) {
            self.switch.stop(io);
        }
    }

    /// Takes back one IO if it has not reached a device; `Port::ask_back` has to follow.
    pub(super) fn withdraw_io(&mut self, now: Instant, io: Key) {
        // It may have ended with another one that was taken back.
        let Some(slot) = self.switch.ios.get_mut(io) else { return };
        match slot.state {
            State::Queued(_) | State::OnDevice => {
                if self.switch.withdraw(now, io) {
                    self.answer(now, io);
                }
                return;
            }
            State::Remote(place) => {
                if !self.port.take_back(io, slot, place) {
                    return;
                }
            }
            State::WaitingForMemory => self.sessions.stop_waiting(slot.host_io().session, io),
            State::Held => self.stop_waiting_for_orphans(io),
            state @ (State::Received | State::Ended) => {
                unreachable!("between two calls an IO is not {state:?}")
            }
        }
        self.end_here(now, io, Failure::Withdrawn);
    }

    /// An IO that is not in the switch ends with this failure.
    pub(super) fn end_here(&mut self, now: Instant, io: Key, failure: Failure) {
        let slot = self.switch.ios.get_mut(io).expect("it has not ended");
        let tenant = slot.tenant();
        slot.state = State::Ended;
        slot.set_outcome(Err(failure), None);
        let credit = self.switch.policy().credit(tenant);
        self.switch.ios.get_mut(io).expect("found above").credit = credit;
        self.answer(now, io);
    }
}
