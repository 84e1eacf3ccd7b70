//! From a command to its completion.
//!
//! A read is admitted when its data fits the connection's account, and waits in the session otherwise: so a host that does not
//! read its replies stops getting more of them, and nobody else is held up. A write has its memory when it comes here.

use super::fused::FirstHalf;
use super::host_io::{DeviceErrors, HostIo, Statuses};
use super::placement::priority_of;
use super::sessions::Wire;
use super::{Origin, Phase, Pipeline, key_of, queue_of};
use crate::account::{Account, Permit};
use crate::connections::message::ToConnections;
use crate::payload::{Payload, footprint};
use crate::replies::{self, ReplyRate, Wait};
use crate::slab::Key;
use crate::switch::{IoSlot, Spent, State, Work};
use nvme::buffer::Buffer;
use nvme::spec::opcode::admin;
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{Action, IoCommand};
use units::Instant;

impl Pipeline {
    /// A command has come, with its data.
    pub(super) fn on_command(&mut self, now: Instant, key: Key, sqe: &Sqe, payload: Option<Payload>) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let length = replies::asked_of_controller(sqe, session.queue_id == 0);
        if length == 0 {
            return self.carry_out(now, key, sqe, payload, None);
        }
        let is_first = session.backlog.commands.is_empty();
        let admitted =
            is_first.then(|| replies::admit(&session.account, now, length, ReplyRate::of(&self.limits)));
        match admitted {
            Some(Ok(permit)) => self.carry_out(now, key, sqe, payload, Some(permit)),
            _ => {
                session.backlog.commands.push_back(*sqe);
                if is_first {
                    self.deferred.push(now, key);
                }
                // What asks for data brings none, but a host may say otherwise.
                let thread = session.thread;
                self.give_back(thread, payload);
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
            match session.backlog.owed.turn(&session.account, now, length, ReplyRate::of(&self.limits)) {
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

    /// Does what a command says. A reply with data has its permit.
    fn carry_out(
        &mut self,
        now: Instant,
        key: Key,
        sqe: &Sqe,
        payload: Option<Payload>,
        permit: Option<Permit>,
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let thread = session.thread;
        let home = self.homes.get_mut(session.subsystem).filter(|_| session.wire.is_open());
        let Some(home) = home else { return self.give_back(thread, payload) };
        if session.queue_id == 0 && sqe.opcode() == admin::IDENTIFY {
            home.tell_allocated(sqe.nsid());
        }
        let data = payload.as_ref().map(Buffer::bytes);
        match home.subsystem.on_command(now, queue_of(key), sqe, data) {
            Action::Io(command) => {
                let placement = home.placement(command.nsid);
                let (buffer, permit) = payload.and_then(Payload::into_pooled).unzip();
                let work = placement.work(&command, buffer);
                let what = (placement.device, work);
                return self.start(now, key, sqe.cid(), (command, permit), what, None);
            }
            Action::Reply { cqe, data } => match data.zip(permit) {
                Some((page, permit)) => self.reply_with_page(key, cqe, page, permit, sqe.sgl_length()),
                None => self.reply(key, cqe),
            },
            Action::Credits { enabled, cqe } => {
                let credit = if enabled { self.switch.policy().credit(session.tenant).0 } else { 0 };
                self.reply(key, cqe.with_dw0(credit));
                self.set_credits(key, enabled);
            }
            Action::Fence { nsid, queues, cqe } => self.raise_fence(now, key, nsid, &queues, cqe),
            Action::Abort { queue, cid, cqe } => self.abort(now, key, key_of(queue), cid, cqe),
            Action::Pending => {
                if let Some(connection) = self.connection(key) {
                    connection.transport.hold(sqe.cid());
                }
            }
            // It is answered when what it changes is stored.
            Action::Storing => {}
        }
        self.give_back(thread, payload);
    }

    /// Completions on all queues of the controller of `key` carry credits from now on, or no longer.
    fn set_credits(&mut self, key: Key, is_enabled: bool) {
        let Some(session) = self.sessions.get(key) else { return };
        let controller = (session.subsystem, session.controller_id);
        for queue in self.queues_of.get(&controller).into_iter().flatten() {
            let Some(session) = self.sessions.get_mut(*queue) else { continue };
            session.credits = is_enabled;
            match (session.wire, session.thread) {
                (Wire::Here(connection), _) => {
                    if let Some(connection) = self.connections.get(connection) {
                        connection.transport.set_success_without_response(!is_enabled);
                    }
                }
                (Wire::There(connection), Some(thread)) => {
                    self.others.tell(thread, ToConnections::Credits { connection, is_enabled });
                }
                // It is told when it is open.
                _ => {}
            }
        }
    }

    /// An IO begins, and is dispatched if there is room for what it reads.
    pub(super) fn start(
        &mut self,
        now: Instant,
        key: Key,
        cid: u16,
        (command, permit): (IoCommand, Option<Permit>),
        (device, work): (usize, Work),
        first: Option<Box<FirstHalf>>,
    ) {
        let session = self.sessions.get_mut(key).expect("its command has just come");
        let lane = session.lanes.place_of(command.nsid);
        let (priority, sequence) = (priority_of(&command), self.started);
        let if_withdrawn = Status::ABORT_REQUESTED;
        let host_io = HostIo {
            session: key,
            cid,
            command,
            device,
            permit,
            if_withdrawn,
            first,
            sequence,
            lane,
            is_orphan: false,
        };
        let slot = IoSlot::new(session.tenant, priority, work, Origin::Local(host_io));
        let io = self.switch.ios.insert(slot);
        self.started += 1;
        session.ios += 1;
        self.lane_links.push(&mut session.lanes.at(lane).ios, io);
        if !self.waits_for_orphans(now, io) {
            self.admit(now, io);
        }
    }

    /// To its device, as soon as there is room for what it reads.
    pub(super) fn admit(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get_mut(io).expect("an IO is admitted before it ends");
        let length = slot.work.read_length();
        let host_io = slot.host_io_mut();
        if length > 0 {
            let key = host_io.session;
            let session = self.sessions.get_mut(key).expect("a session outlives its IOs");
            let is_next = session.waiting.is_empty();
            let permit = is_next.then(|| session.account.take(Account::Read, footprint(length))).flatten();
            if permit.is_none() {
                slot.state = State::WaitingForMemory;
                self.waiting_links.push(&mut session.waiting, io);
                return self.mark_waiting_for_memory(key);
            }
            host_io.permit = permit;
        }
        self.dispatch(now, io);
    }

    /// Admits reads that waited, as far as the budget goes.
    pub(super) fn admit_waiting(&mut self, now: Instant, key: Key) {
        loop {
            let Some(session) = self.sessions.get_mut(key).filter(|session| session.wire.is_open()) else {
                return;
            };
            let first = self.waiting_links.first(&session.waiting);
            let Some(io) = first else { return };
            let slot = self.switch.ios.get_mut(io).expect("a waiting IO has not ended");
            let length = footprint(slot.work.read_length());
            let Some(permit) = session.account.take(Account::Read, length) else {
                // What is missing may be held by another connection, or another host.
                return self.mark_waiting_for_memory(key);
            };
            slot.host_io_mut().permit = Some(permit);
            self.waiting_links.remove(&mut session.waiting, io);
            self.dispatch(now, io);
        }
    }

    /// To the switch of its device, here or elsewhere.
    pub(super) fn dispatch(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get_mut(io).expect("an IO is dispatched before it ends");
        if slot.host_io().device == self.index {
            self.switch.arrive(now, io);
        } else {
            self.send_remote(now, io);
        }
    }

    /// An IO of the switch is over.
    pub(super) fn on_done(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get(io).expect("what is over has its slot until it is answered");
        if matches!(slot.owner, Origin::Local(_)) {
            return self.answer(now, io);
        }
        let mut slot = self.switch.ios.remove(io).expect("just found");
        match slot.owner {
            Origin::Local(_) => unreachable!("looked at above"),
            Origin::Remote { from, io } => self.answer_remote(from, io, slot),
            Origin::House => self.on_flushed(slot.take_result()),
            Origin::Wipe(wipe) => {
                let goes_on = self.phase == Phase::Running;
                self.wipes.on_part(now, &mut self.switch, (wipe, slot.take_result()), goes_on);
            }
        }
    }

    /// An IO of a session here is over: its command is answered, and its slot is free.
    pub(super) fn answer(&mut self, now: Instant, io: Key) {
        self.note_abort(io);
        let slot = self.switch.ios.get_mut(io).expect("an IO is answered once");
        let (read, spent, credit) = (slot.take_read(), slot.work.take_buffers(), slot.credit);
        let result = slot.take_result();
        let host_io = slot.host_io_mut();
        let (key, cid, nsid) = (host_io.session, host_io.cid, host_io.command.nsid);
        let (permit, first, is_orphan) = (host_io.permit.take(), host_io.first.take(), host_io.is_orphan);
        let Statuses { of_first, status, dword } = match result {
            Ok(()) => Statuses::SUCCESS,
            Err(failure) => {
                let mut log = DeviceErrors { home: &self.name, count: &mut self.device_errors };
                host_io.statuses(first.as_deref(), failure, &mut log)
            }
        };
        let session = self.sessions.get_mut(key).expect("a session outlives its IOs");
        session.ios -= 1;
        let lane = session.lanes.at(host_io.lane);
        self.lane_links.remove(&mut lane.ios, io);
        let is_fenced = !lane.fences.is_empty();
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
        let (route, credits) = (session.route(), session.credits);
        let has_waiting = !session.waiting.is_empty();
        let field = (session.tenant, session.subsystem, nsid);
        let may_be_over = session.ios == 0 && session.wire == Wire::Gone;
        self.switch.ios.free(io);
        let mut cqe = Cqe::new(cid, status).with_dw0(dword);
        if credits && status.is_success() {
            cqe = cqe.with_dw0(credit.0);
        }
        match (read, permit) {
            (Some(buffer), Some(permit)) => {
                // Its memory comes back when it was sent.
                let length = buffer.len() as u32;
                self.send_data(route, cqe, Payload::Pooled(buffer, permit), length);
            }
            (read, permit) => {
                read.into_iter().for_each(|buffer| self.reads.give(buffer));
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
                    self.give_arrival(route.thread, of_compare, Some(permit));
                    self.send(route, Cqe::new(cid, of_first));
                }
                self.send_and_give(route, cqe, spent, permit);
                if has_waiting {
                    self.admit_waiting(now, key);
                }
            }
        }
        if is_fenced {
            self.lower_fences(key, nsid);
        }
        if is_orphan {
            self.on_orphan_ended(now, field);
        }
        if may_be_over {
            self.retire_if_done(now, key);
        }
    }
}
