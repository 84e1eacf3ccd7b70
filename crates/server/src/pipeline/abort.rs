//! Taking back IOs that have not reached a device: because their connection has ended, or their host gives one up (Abort).
//!
//! Where an IO is, its slot says (`switch::State`), so taking one back needs no search, however many there are. One that is on
//! another SSD's thread is asked for there, and ends when that thread answers; one on the device ends in its own time.
//!
//! ```text
//!   waits for its data, or for memory for it      the transport answers it, on whichever thread it is
//!   waits for room in its connection's account  ┐
//!   in the switch, not on the device           ┴─ taken back, answered: Command Abort Requested
//!   on the way to another SSD, or there           taken back there, if it can be; the Abort waits for word of it
//!   on the device                                 ends by itself: the Abort says that it was not aborted
//! ```
//!
//! A command that another thread has parsed and this one has not seen is on its way here: the answer of that thread comes behind it. A queue's first
//! command may even be there before that thread's word that it has the queue: so an Abort waits for that word first.
//!
//! Holds: dword 0 of the answer says what happened, and no Abort waits for a device (`tests/abort.rs`, also with the queue on another
//!        thread). The cost of taking back does not grow with the queue
//!        (`what_a_host_queues_is_taken_back_at_the_same_price_however_much_it_is`); an IO of another connection is never taken
//!        (`tests/io.rs`).

use super::Origin;
use super::commands::Commands;
use super::host_io::HostIo;
use super::message::ToPipeline;
use super::wires::Wire;
use crate::connections::message::ToConnections;
use crate::slab::{Key, Slab};
use crate::switch::{Failure, State, Switch};
use nvme::queue::Cancel;
use nvme::spec::{Cqe, Status};
use nvme::subsystem::ABORTS_MAX;
use std::collections::HashMap;
use units::Instant;

/// An Abort that waits for word of the thread that carries the queue.
struct Cancelling {
    thread: usize,
    /// The session that asked.
    admin: Key,
    /// The session of the command.
    queue: Key,
    cid: u16,
    cqe: Cqe,
}

/// An Abort that waits for word of another SSD.
struct Abort {
    device: usize,
    /// The session that asked.
    admin: Key,
    cqe: Cqe,
    /// The IO has been taken back.
    is_done: bool,
}

/// Aborts that wait for word of other threads.
pub(super) struct Aborts {
    /// Of another SSD, by the IO.
    of_ssds: HashMap<Key, Vec<Abort>>,
    /// Of the thread that carries the queue.
    of_threads: Slab<Cancelling>,
    /// Of the thread that is to carry the queue: that it does.
    of_openings: Vec<Cancelling>,
}

impl Aborts {
    pub(super) fn new() -> Aborts {
        Aborts { of_ssds: HashMap::new(), of_threads: Slab::new(), of_openings: Vec::new() }
    }

    /// An IO has ended.
    #[inline]
    pub(super) fn note_end(&mut self, io: Key, switch: &Switch<Origin>) {
        if self.of_ssds.is_empty() {
            return;
        }
        let slot = switch.ios.get(io);
        let is_done = slot.is_some_and(|slot| matches!(slot.result(), Err(Failure::Withdrawn)));
        for abort in self.of_ssds.get_mut(&io).into_iter().flatten() {
            abort.is_done = is_done;
        }
    }

    /// The Abort of an IO that has waited longest: one word comes for each.
    fn on_word(&mut self, io: Key) -> Option<Abort> {
        let aborts = self.of_ssds.get_mut(&io)?;
        let abort = aborts.remove(0);
        if aborts.is_empty() {
            self.of_ssds.remove(&io);
        }
        Some(abort)
    }

    /// All that wait for word of an SSD from which none will come any more.
    fn give_up(&mut self, device: usize) -> Vec<Abort> {
        let aborts = self.of_ssds.extract_if(|_, aborts| aborts.iter().any(|abort| abort.device == device));
        aborts.flat_map(|(_, aborts)| aborts).collect()
    }

    /// All that wait for word of a thread of connections.
    fn waiting_for_thread(&self, thread: usize) -> Vec<Key> {
        let there = self.of_threads.iter().filter(|(_, cancelling)| cancelling.thread == thread);
        there.map(|(ticket, _)| ticket).collect()
    }
}

impl Commands {
    /// The host of `admin` gives up the command `cid` of `queue`.
    pub(super) fn abort(&mut self, now: Instant, admin: Key, queue: Key, cid: u16, cqe: Cqe) {
        let Some(session) = self.sessions.get(queue) else { return self.answer_abort(admin, cqe, false) };
        match session.wire {
            Wire::Here(connection) => {
                let cancel = self.wires.here.cancel(connection, cid, Status::ABORT_REQUESTED);
                self.on_cancel(now, (admin, queue, cid, cqe), cancel);
            }
            Wire::Opening { thread } => {
                if self.has_too_many(admin) {
                    return self.answer_abort(admin, too_many(cqe), true);
                }
                self.count_abort(admin);
                self.aborts.of_openings.push(Cancelling { thread, admin, queue, cid, cqe });
            }
            Wire::There { thread, connection } => {
                if self.has_too_many(admin) {
                    return self.answer_abort(admin, too_many(cqe), true);
                }
                let ticket = self.aborts.of_threads.insert(Cancelling { thread, admin, queue, cid, cqe });
                let (from, status) = (self.port.home(), Status::ABORT_REQUESTED);
                let cancel = ToConnections::Cancel { from, connection, cid, status, ticket };
                self.count_abort(admin);
                if !self.wires.push(thread, cancel) {
                    self.on_cancelled(now, ticket, Cancel::Unknown);
                }
            }
            // Its commands have been taken back.
            Wire::CloseWhenOpen { .. } | Wire::Closing { .. } | Wire::Gone { .. } => {
                self.answer_abort(admin, cqe, false)
            }
        }
    }

    /// Resumes Aborts that waited for a queue: another thread carries it from now on, or its connection has ended.
    pub(super) fn on_opening_over(&mut self, now: Instant, queue: Key) {
        let waiting: Vec<Cancelling> =
            self.aborts.of_openings.extract_if(.., |cancelling| cancelling.queue == queue).collect();
        for Cancelling { admin, cid, cqe, .. } in waiting {
            if let Some(session) = self.sessions.get_mut(admin) {
                session.aborts -= 1;
            }
            self.abort(now, admin, queue, cid, cqe);
        }
    }

    fn has_too_many(&self, admin: Key) -> bool {
        self.sessions.get(admin).map_or(0, |session| session.aborts) >= ABORTS_MAX
    }

    /// The thread of a connection reports the result of a cancelled command. Commands that it had delivered are here by now.
    pub(super) fn on_cancelled(&mut self, now: Instant, ticket: Key, cancel: Cancel) {
        let Some(Cancelling { admin, queue, cid, cqe, .. }) = self.aborts.of_threads.remove(ticket) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(admin) {
            session.aborts -= 1;
        }
        self.on_cancel(now, (admin, queue, cid, cqe), cancel);
    }

    /// The answers of a thread of connections that has failed will not come.
    pub(super) fn give_up_cancels(&mut self, now: Instant, thread: usize) {
        let there = self.aborts.waiting_for_thread(thread);
        there.into_iter().for_each(|ticket| self.on_cancelled(now, ticket, Cancel::Unknown));
    }

    fn on_cancel(&mut self, now: Instant, (admin, queue, cid, cqe): (Key, Key, u16, Cqe), cancel: Cancel) {
        match cancel {
            Cancel::Answered | Cancel::Draining => return self.answer_abort(admin, cqe, true),
            Cancel::Delivered => {}
            Cancel::Unknown => return self.answer_abort(admin, cqe, false),
        }
        let Some(io) = self.find_io(queue, cid) else { return self.answer_abort(admin, cqe, false) };
        if self.has_too_many(admin) {
            return self.answer_abort(admin, too_many(cqe), true);
        }
        let host_io = self.switch.ios.get_mut(io).expect("just found").host_io_mut();
        let device = host_io.device;
        host_io.if_withdrawn = Status::ABORT_REQUESTED;
        if let Some(first) = &mut host_io.first {
            // The other half fails because of this one.
            if first.cid == cid {
                first.if_withdrawn = Some(Status::ABORT_REQUESTED);
                host_io.if_withdrawn = Status::FAILED_FUSED;
            } else {
                first.if_withdrawn = Some(Status::FAILED_FUSED);
            }
        }
        self.withdraw_io(now, io);
        self.port.ask_back();
        if self.switch.ios.get(io).is_none() {
            return self.answer_abort(admin, cqe, true);
        }
        if device == self.port.home() {
            return self.answer_abort(admin, cqe, false);
        }
        self.aborts.of_ssds.entry(io).or_default().push(Abort { device, admin, cqe, is_done: false });
        self.count_abort(admin);
        if !self.port.push(device, ToPipeline::Echo { from: self.port.home(), io }) {
            self.on_echo(io);
        }
    }

    fn count_abort(&mut self, admin: Key) {
        if let Some(session) = self.sessions.get_mut(admin) {
            session.aborts += 1;
        }
    }

    /// Another SSD has handled everything sent before this message; reports of IOs that it has taken back came before.
    pub(super) fn on_echo(&mut self, io: Key) {
        if let Some(abort) = self.aborts.on_word(io) {
            self.finish_abort(abort);
        }
    }

    /// No word will come from that SSD any more.
    pub(super) fn give_up_aborts(&mut self, device: usize) {
        self.aborts.give_up(device).into_iter().for_each(|abort| self.finish_abort(abort));
    }

    fn finish_abort(&mut self, Abort { admin, cqe, is_done, .. }: Abort) {
        if let Some(session) = self.sessions.get_mut(admin) {
            session.aborts -= 1;
        }
        self.answer_abort(admin, cqe, is_done);
    }

    fn answer_abort(&mut self, admin: Key, cqe: Cqe, is_aborted: bool) {
        self.reply(admin, if is_aborted { cqe } else { cqe.abort_failed() });
    }
}

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

    /// Takes back one IO with `status` for its host, if it has not reached a device; `Port::ask_back` has to follow.
    pub(super) fn refuse_io(&mut self, now: Instant, io: Key, status: Status) {
        if let Some(slot) = self.switch.ios.get_mut(io) {
            slot.host_io_mut().if_withdrawn = status;
            self.withdraw_io(now, io);
            self.stop_io(io);
        }
    }

    /// Ends an IO that is on the device here after its current step.
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

fn too_many(cqe: Cqe) -> Cqe {
    Cqe::new(cqe.cid(), Status::ABORT_LIMIT_EXCEEDED)
}
