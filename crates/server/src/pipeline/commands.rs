//! From a command to its completion.
//!
//! A read is admitted when its data fits the connection's account, and waits in the session otherwise: so a host that does not
//! read its replies stops getting more of them, without holding up other hosts. A write has its memory when it comes here.
//!
//! [`Commands`] has all that an IO of a host can meet on its way. The end of one can set off others (a read gets its memory, a fence
//! falls, held IOs continue, a session is over), so these steps are methods of it, each in the file of its idea. The private state of a part
//! is changed by methods of the part alone.
//!
//! Two fused commands (Compare and Write) are one IO: the transport has found them, the subsystem checks them, the switch does them as one.
//! The write is its command, the compare stands with it as a second command to answer ([`FirstHalf`]).
//!
//! Holds: a read is given to the scheduler only with a permit for its data (`tests/bounds.rs`); nothing here knows how far the end of the
//!        pipeline has come; both of two fused commands are answered, once each, whatever becomes of the IO (`tests/fused.rs`).
//! Elsewhere: input from connections is `arrivals`, the end of a session `closing`, taking back `abort`.

use super::abort::Aborts;
use super::fence::Fences;
use super::homes::Homes;
use super::host_io::{DeviceErrors, HostIo, Statuses};
use super::message::QueueRequest;
use super::orphans::Orphans;
use super::port::Port;
use super::proofs::SessionProofs;
use super::reads::ReadMemory;
use super::sessions::Sessions;
use super::wires::Wires;
use super::{Origin, key_of, queue_of};
use crate::account::Permit;
use crate::device::Held;
use crate::home::priority_of;
use crate::log_throttle::LogThrottle;
use crate::payload::{Payload, footprint};
use crate::replies::{self, Deferred, ReplyRate, Wait};
use crate::slab::Key;
use crate::switch::{IoSlot, Spent, Switch, Work};
use crate::transport::Connection;
use nvme::buffer::Buffer;
use nvme::spec::opcode::admin;
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{Action, FusedAction, IoCommand};
use std::sync::Arc;
use units::Instant;

/// See the module.
pub(super) struct Commands {
    /// The device's name, for the log.
    pub(super) device: Arc<str>,
    /// Its file or disk.
    pub(super) held: Option<Arc<Held>>,
    pub(super) switch: Switch<Origin>,
    pub(super) port: Port,
    pub(super) homes: Homes,
    pub(super) sessions: Sessions,
    pub(super) wires: Wires,
    pub(super) reads: ReadMemory,
    /// Sessions with commands that wait until they may be answered.
    pub(super) deferred: Deferred,
    pub(super) reply_rate: ReplyRate,
    pub(super) orphans: Orphans,
    pub(super) fences: Fences,
    pub(super) aborts: Aborts,
    pub(super) device_errors: DeviceErrors,
    pub(super) log_throttle: LogThrottle,
    pub(super) proofs: SessionProofs,
}

/// The first of two fused commands.
pub(super) struct FirstHalf {
    pub(super) cid: u16,
    /// The right to hold its data.
    pub(super) permit: Permit,
    /// The status for its host if the IO is taken back, unless it is the same as of the second command.
    pub(super) if_withdrawn: Option<Status>,
}

impl Commands {
    /// A command has come, with its data.
    pub(super) fn on_command(&mut self, now: Instant, key: Key, sqe: &Sqe, payload: Option<Payload>) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let length = replies::asked_of_controller(sqe, session.queue_id == 0);
        if length == 0 {
            return self.carry_out(now, key, sqe, payload, None);
        }
        let is_first = session.backlog.commands.is_empty();
        let admitted = is_first.then(|| replies::admit(&session.account, now, length, self.reply_rate));
        match admitted {
            Some(Ok(permit)) => self.carry_out(now, key, sqe, payload, Some(permit)),
            _ => {
                session.backlog.commands.push_back(*sqe);
                if is_first {
                    self.deferred.push(now, key);
                }
                // A command that asks for data brings none, but a host may send it anyway.
                self.wires.give_back(session.wire, payload);
            }
        }
    }

    /// Carries out commands that waited for their replies to be granted.
    pub(super) fn serve_deferred(&mut self, now: Instant) {
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.serve(now, |key| {
            let session = self.sessions.get_mut(key).filter(|session| session.wire.is_open())?;
            let sqe = *session.backlog.commands.front()?;
            let length = replies::asked_of_controller(&sqe, true);
            match session.backlog.owed.turn(&session.account, now, length, self.reply_rate) {
                Err(wait) => Some(wait),
                Ok(permit) => {
                    session.backlog.commands.pop_front();
                    self.carry_out(now, key, &sqe, None, Some(permit));
                    Some(Wait::Turn)
                }
            }
        });
        self.deferred = deferred;
    }

    /// Executes a command. A reply with data has its permit.
    fn carry_out(
        &mut self,
        now: Instant,
        key: Key,
        sqe: &Sqe,
        payload: Option<Payload>,
        permit: Option<Permit>,
    ) {
        let Some(session) = self.sessions.get(key) else { return };
        let wire = session.wire;
        let home = self.homes.get_mut(session.subsystem).filter(|_| wire.is_open());
        let Some(home) = home else { return self.wires.give_back(wire, payload) };
        if session.queue_id == 0 && sqe.opcode() == admin::IDENTIFY {
            home.tell_allocated(sqe.nsid());
        }
        if session.queue_id == 0 && sqe.opcode() == admin::GET_LOG_PAGE {
            home.subsystem.set_temperature(self.held.as_ref().and_then(|held| held.kelvin()));
        }
        let data = payload.as_ref().map(Buffer::bytes);
        match home.subsystem.on_command(now, queue_of(key), sqe, data) {
            Action::Io(command) => {
                let placement = home.placement(command.nsid);
                let (buffer, permit) = payload.and_then(Payload::into_pooled).unzip();
                let work = |command: &IoCommand| placement.work(command, buffer);
                return self.start(now, key, sqe.cid(), (command, permit), (placement.device, work), None);
            }
            Action::Reply { cqe, data } => match data.zip(permit) {
                Some((page, mut permit)) => {
                    // Bytes beyond the page are zeroes, which need no memory.
                    permit.shrink_to(page.capacity() as u64);
                    let length = sqe.sgl_length();
                    self.wires.send_page(wire, cqe, (page, permit), length, &mut self.reads);
                }
                None => self.wires.send(wire, cqe),
            },
            Action::Credits { enabled, cqe } => {
                let credit = if enabled { self.switch.policy().credit(session.tenant).0 } else { 0 };
                self.wires.send(wire, cqe.with_dw0(credit));
                self.sessions.set_credits(key, enabled, |wire| self.wires.set_credits(wire, enabled));
            }
            Action::GrantQueues { queues, cqe } => {
                let session = self.sessions.get(key).expect("looked up above");
                let home = self.port.home();
                session.admission.ask_for_queues(QueueRequest {
                    controller: session.controller(),
                    peer: session.peer,
                    queues,
                    home,
                    session: key,
                    cqe,
                });
            }
            Action::Authenticate(command) => {
                let data = payload.as_ref().map(Buffer::bytes);
                self.authenticate(now, key, (sqe, command), data, permit);
            }
            Action::Fence { nsid, queues, cqe } => self.raise_fence(now, key, nsid, &queues, cqe),
            Action::Abort { queue, cid, cqe } => self.abort(now, key, key_of(queue), cid, cqe),
            Action::Pending => {
                if let Some(connection) = self.wires.get(wire) {
                    connection.hold(sqe.cid());
                }
            }
            // The reply is sent when the change was stored.
            Action::Storing => {}
        }
        self.wires.give_back(wire, payload);
    }

    /// Two fused commands have come, with their data.
    pub(super) fn on_fused(&mut self, now: Instant, key: Key, halves: [(Sqe, Option<Payload>); 2]) {
        let Some(session) = self.sessions.get(key) else { return };
        let wire = session.wire;
        let home = self.homes.get_mut(session.subsystem).filter(|_| wire.is_open());
        let Some(home) = home else {
            return halves.into_iter().for_each(|(_, data)| self.wires.give_back(wire, data));
        };
        let [(first, compared), (second, written)] = halves;
        let data = [&compared, &written].map(|payload| payload.as_ref().map(Buffer::bytes));
        match home.subsystem.on_fused_commands(queue_of(key), [&first, &second], data) {
            FusedAction::Reply(cqes) => {
                cqes.into_iter().for_each(|cqe| self.wires.send(wire, cqe));
                self.wires.give_back(wire, compared);
                self.wires.give_back(wire, written);
            }
            FusedAction::Io(command) => {
                let pooled = |payload: Option<Payload>| payload.and_then(Payload::into_pooled);
                let (expected, permit_of_first) = pooled(compared).expect("a checked compare has its data");
                let (written, permit) = pooled(written).expect("a checked write has its data");
                let placement = home.placement(command.nsid);
                let work = |command: &IoCommand| placement.compare_and_write(command, [expected, written]);
                let first = FirstHalf { cid: first.cid(), permit: permit_of_first, if_withdrawn: None };
                let device = placement.device;
                self.start(
                    now,
                    key,
                    second.cid(),
                    (command, Some(permit)),
                    (device, work),
                    Some(Box::new(first)),
                );
            }
        }
    }

    /// The acceptor has granted IO queues to the controller of an admin queue.
    pub(super) fn on_queues_granted(&mut self, key: Key, queues: u16, cqe: Cqe) {
        let Some(session) = self.sessions.get(key) else { return };
        if let Some(home) = self.homes.get_mut(session.subsystem) {
            let cqe = home.subsystem.on_queues_granted(queue_of(key), queues, cqe);
            self.reply(key, cqe);
        }
    }

    /// Starts an IO, and dispatches it if there is room for the data that it reads. The work for the device is built in its slot.
    #[inline]
    pub(super) fn start(
        &mut self,
        now: Instant,
        key: Key,
        cid: u16,
        (command, permit): (IoCommand, Option<Permit>),
        (device, work): (usize, impl FnOnce(&IoCommand) -> Work),
        first: Option<Box<FirstHalf>>,
    ) {
        let (priority, if_withdrawn) = (priority_of(&command), Status::ABORT_REQUESTED);
        let (sessions, homes) = (&mut self.sessions, &self.homes);
        let io = self.switch.ios.insert_with(|io| {
            let (tenant, lane, sequence) = sessions.begin_io(key, (command.nsid, homes), io);
            let work = work(&command);
            let host_io = HostIo {
                session: key,
                cid,
                command,
                device,
                permit,
                if_withdrawn,
                first,
                waited_for_memory: 0,
                sequence,
                lane,
                is_orphan: false,
            };
            IoSlot::new(tenant, priority, work, Origin::Local(host_io))
        });
        if !self.waits_for_orphans(now, io) {
            self.admit(now, io);
        }
    }

    /// Dispatches an IO to its device, as soon as there is room for the data that it reads.
    pub(super) fn admit(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get_mut(io).expect("an IO is admitted before it ends");
        let length = slot.work.read_length();
        let host_io = slot.host_io_mut();
        let device = host_io.device;
        if length > 0 {
            let key = host_io.session;
            let session = self.sessions.get_mut(key).expect("a session outlives its IOs");
            let is_next = !session.has_waiting();
            let permit = is_next.then(|| session.permit_read(footprint(length))).flatten();
            if permit.is_none() {
                slot.begin_waiting_for_memory(now);
                let session = self.sessions.push_waiting(key, io);
                return self.reads.wait(key, session);
            }
            host_io.permit = permit;
        }
        self.dispatch(now, io, device);
    }

    /// Admits waiting reads within the budget.
    pub(super) fn admit_waiting(&mut self, now: Instant, key: Key) {
        while let Some((session, io)) = self.sessions.first_waiting(key) {
            let slot = self.switch.ios.get_mut(io).expect("a waiting IO has not ended");
            let length = footprint(slot.work.read_length());
            let Some(permit) = session.permit_read(length) else {
                // The missing memory may be held by another connection, or another host.
                return self.reads.wait(key, session);
            };
            let waited = slot.total(now).get() / 1000;
            let host_io = slot.host_io_mut();
            host_io.waited_for_memory = u32::try_from(waited).unwrap_or(u32::MAX);
            host_io.permit = Some(permit);
            let device = host_io.device;
            self.sessions.stop_waiting(key, io);
            self.dispatch(now, io, device);
        }
    }

    /// To the switch of its device, here or elsewhere.
    fn dispatch(&mut self, now: Instant, io: Key, device: usize) {
        if device == self.port.home() {
            self.switch.arrive(now, io);
        } else {
            self.send_remote(now, io);
        }
    }

    /// An IO of a session here is over: its command is answered, and its slot is free.
    pub(super) fn answer(&mut self, now: Instant, io: Key) {
        self.aborts.note_end(io, &self.switch);
        let slot = self.switch.ios.get_mut(io).expect("an IO is answered once");
        let (read, spent) = (slot.take_read(), slot.work.take_buffers());
        let (credit, busy) = (slot.credit, slot.busy);
        let result = slot.take_result();
        let host_io = slot.host_io_mut();
        let (key, cid, nsid) = (host_io.session, host_io.cid, host_io.command.nsid);
        let (mut permit, first, is_orphan) = (host_io.permit.take(), host_io.first.take(), host_io.is_orphan);
        let Statuses { of_first, status, dword } = match result {
            Ok(()) => Statuses::SUCCESS,
            Err(failure) => host_io.statuses(first.as_deref(), failure, &mut self.device_errors),
        };
        let (session, is_fenced) = self.sessions.end_io(key, host_io.lane, io);
        if let Some(home) = self.homes.get_mut(session.subsystem) {
            let (queue, command) = (queue_of(key), &host_io.command);
            match &first {
                None => home.subsystem.on_io_completed(queue, cid, command, status),
                Some(first) => {
                    let (cids, statuses) = ([first.cid, cid], [of_first, status]);
                    home.subsystem.on_fused_completed(queue, cids, command, statuses);
                }
            }
        }
        let (wire, credits) = (session.wire, session.credits);
        if read.is_some()
            && wire.is_open()
            && let Some(permit) = permit.take()
        {
            session.read_permits.lend(permit);
        }
        let has_waiting = session.has_waiting();
        let host = (session.tenant, session.subsystem, nsid);
        let may_be_over = session.ios == 0 && wire.is_gone();
        self.switch.ios.free(io);
        let mut cqe = Cqe::new(cid, status).with_dw0(dword);
        if credits && status.is_success() {
            cqe = cqe.with_dw0(credit.0).with_dw1(busy);
        }
        match read {
            Some(buffer) if wire.is_open() => {
                // Its memory comes back when it was sent.
                self.wires.send_read(wire, cqe, buffer, &mut self.reads);
            }
            read => {
                read.into_iter().for_each(|buffer| self.reads.give(Some(buffer), None));
                let (of_compare, spent) = match spent {
                    Spent::Nothing => (None, None),
                    Spent::One(buffer) => (None, Some(buffer)),
                    Spent::Two(buffers) => {
                        let [first, second] = *buffers;
                        (Some(first), Some(second))
                    }
                };
                if let Some(first) = first {
                    let FirstHalf { cid, permit, .. } = *first;
                    self.wires.give_arrival(wire, of_compare, Some(permit));
                    self.wires.send(wire, Cqe::new(cid, of_first));
                }
                self.wires.send_and_give(wire, cqe, (spent, permit), &mut self.reads);
                if has_waiting {
                    self.admit_waiting(now, key);
                }
            }
        }
        if is_fenced {
            self.lower_fences(key, nsid);
        }
        if is_orphan {
            self.on_orphan_ended(now, host);
        }
        if may_be_over {
            self.retire_if_done(now, key);
        }
    }

    /// Replies to a command.
    pub(super) fn reply(&mut self, key: Key, cqe: Cqe) {
        if let Some(wire) = self.sessions.get(key).map(|session| session.wire) {
            self.wires.send(wire, cqe);
        }
    }

    /// The connection of a session, if this thread carries it. Every admin queue is carried here.
    pub(super) fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        self.wires.get(self.sessions.get(key)?.wire)
    }
}
