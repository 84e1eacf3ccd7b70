//! From a command to its completion.
//!
//! A read is admitted when its data fits the connection's account, and waits in the session otherwise: so a host that does not
//! read its replies stops getting more of them, and nobody else is held up. A write has its memory when it comes here.

use super::fused::FirstHalf;
use super::message::IoOutcome;
use super::placement::{Placement, priority_of};
use super::sessions::Wire;
use super::{Origin, Pipeline, key_of, queue_of};
use crate::account::{Account, Permit};
use crate::connections::message::ToConnections;
use crate::payload::{Payload, footprint};
use crate::replies::{self, ReplyRate, Wait};
use crate::slab::Key;
use crate::switch::{Failure, Finished, Request, Spent, Work};
use nvme::buffer::Buffer;
use nvme::spec::opcode::admin;
use nvme::spec::status::SCT_PATH;
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{Action, IoCommand, IoOp};
use reactor::{CommandStatus, IoBuffer};
use std::io;
use tracing::warn;
use units::{Instant, TenantId};

/// An IO of a connection here.
pub(super) struct IoContext {
    pub(super) session: Key,
    pub(super) cid: u16,
    pub(super) command: IoCommand,
    /// The device it is for.
    pub(super) device: usize,
    /// Bytes that it reads for its host.
    pub(super) read_length: usize,
    /// The right to hold the data that it writes, or has been admitted to read.
    pub(super) permit: Option<Permit>,
    pub(super) place: Place,
    /// What its host is told if it is taken back before it has reached the device.
    pub(super) if_withdrawn: Status,
    /// The first command, if the host has fused it with this one.
    pub(super) first: Option<FirstHalf>,
    /// IOs that had started before it, of all connections.
    pub(super) sequence: u64,
    /// Its connection has ended, and later ones of the host wait for it (`hold`).
    pub(super) is_orphan: bool,
}

/// Where an IO is.
pub(super) enum Place {
    /// In the hands of the code that runs.
    Nowhere,
    /// A read that waits for room in its connection's account, in `Session::waiting`.
    Waiting(Work),
    /// Waits for what an earlier connection of its host has on the device (`hold`).
    Held(Work),
    /// In the switch here.
    Here(Key),
    /// On the way to another SSD, or there: its name in `Pipeline::remotes` while it waits to be sent.
    There(Key),
}

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
        let home = self.homes[session.subsystem].as_mut().filter(|_| session.wire.is_open());
        let Some(home) = home else { return self.give_back(thread, payload) };
        if session.queue_id == 0 && sqe.opcode() == admin::IDENTIFY {
            home.tell_allocated(sqe.nsid());
        }
        let data = payload.as_ref().map(Buffer::bytes);
        match home.subsystem.on_command(now, queue_of(key), sqe, data) {
            Action::Io(command) => return self.start_io(now, key, sqe.cid(), command, payload),
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
                if let Some(link) = self.link(key) {
                    link.transport.hold(sqe.cid());
                }
            }
            // It is answered when what it changes is stored.
            Action::Storing => {}
        }
        self.give_back(thread, payload);
    }

    /// The data of a command that needs no device, or none any more, goes back to the thread that it came from.
    pub(super) fn give_back(&mut self, thread: Option<usize>, payload: Option<Payload>) {
        if let Some((buffer, permit)) = payload.map(Payload::into_parts) {
            self.give_arrival(thread, buffer, Some(permit));
        }
    }

    /// As `give_back`, of what a payload was made of.
    pub(super) fn give_arrival(
        &mut self,
        thread: Option<usize>,
        buffer: Option<IoBuffer>,
        permit: Option<Permit>,
    ) {
        match (thread, permit) {
            (Some(thread), Some(permit)) => self.others.tell(thread, ToConnections::Back(buffer, permit)),
            (_, permit) => self.connections.give(buffer, permit),
        }
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
                    if let Some(link) = self.connections.get(connection) {
                        link.transport.set_success_without_response(!is_enabled);
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

    fn start_io(&mut self, now: Instant, key: Key, cid: u16, command: IoCommand, payload: Option<Payload>) {
        let (buffer, permit) = payload.and_then(Payload::into_pooled).unzip();
        let placement = self.placement_of(key, command.nsid);
        let work = placement.work(&command, buffer);
        self.start_work(now, key, cid, (command, permit), (placement.device, work), None);
    }

    /// Where a namespace lies that a command of `key` was just checked against.
    pub(super) fn placement_of(&self, key: Key, nsid: u32) -> Placement {
        let session = self.sessions.get(key).expect("its command has just come");
        let home = self.homes[session.subsystem].as_ref().expect("its command was just checked");
        home.placements[nsid as usize].expect("the subsystem knows only placed namespaces")
    }

    /// Notes an IO, and dispatches it if there is room for what it reads.
    pub(super) fn start_work(
        &mut self,
        now: Instant,
        key: Key,
        cid: u16,
        (command, permit): (IoCommand, Option<Permit>),
        (device, work): (usize, Work),
        first: Option<FirstHalf>,
    ) {
        let session = self.sessions.get_mut(key).expect("its command has just come");
        let read_length = match &work {
            Work::Read(range) => usize::try_from(range.length).expect("a transfer fits the address space"),
            _ => 0,
        };
        let nsid = command.nsid;
        let io = self.ios.insert(IoContext {
            session: key,
            cid,
            command,
            device,
            read_length,
            permit,
            place: Place::Nowhere,
            if_withdrawn: Status::ABORT_REQUESTED,
            sequence: self.started,
            is_orphan: false,
            first,
        });
        self.started += 1;
        session.ios += 1;
        self.lane_links.push(&mut session.lanes.get_or_add(nsid).chain, io);
        if let Some(work) = self.hold(now, io, work) {
            self.admit(now, io, work);
        }
    }

    /// To its device, as soon as there is room for what it reads.
    pub(super) fn admit(&mut self, now: Instant, io: Key, work: Work) {
        let context = self.ios.get_mut(io).expect("an IO is admitted once");
        let key = context.session;
        let session = self.sessions.get_mut(key).expect("a session outlives its IOs");
        let length = context.read_length;
        if length > 0 {
            let is_next = session.waiting.is_empty();
            let permit = is_next.then(|| session.account.take(Account::Read, footprint(length))).flatten();
            if permit.is_none() {
                context.place = Place::Waiting(work);
                self.waiting_links.push(&mut session.waiting, io);
                return self.mark_thirsty(key);
            }
            context.permit = permit;
        }
        self.dispatch(now, io, work);
    }

    /// Admits reads that waited, as far as the budget goes.
    pub(super) fn admit_waiting(&mut self, now: Instant, key: Key) {
        loop {
            let Some(session) = self.sessions.get_mut(key).filter(|session| session.wire.is_open()) else {
                return;
            };
            let first = self.waiting_links.first(&session.waiting);
            let Some(io) = first else { return };
            let context = self.ios.get_mut(io).expect("a waiting IO has not ended");
            let Some(permit) = session.account.take(Account::Read, footprint(context.read_length)) else {
                // What is missing may be held by another connection, or another host.
                return self.mark_thirsty(key);
            };
            context.permit = Some(permit);
            self.waiting_links.remove(&mut session.waiting, io);
            let Place::Waiting(work) = std::mem::replace(&mut context.place, Place::Nowhere) else {
                unreachable!("it waited with its work");
            };
            self.dispatch(now, io, work);
        }
    }

    /// Whose IO it is.
    pub(super) fn tenant_of(&self, io: Key) -> TenantId {
        let context = self.ios.get(io).expect("asked of an IO that has not ended");
        self.sessions.get(context.session).expect("a session outlives its IOs").tenant
    }

    /// To the switch of its device, here or elsewhere.
    pub(super) fn dispatch(&mut self, now: Instant, io: Key, work: Work) {
        let context = self.ios.get_mut(io).expect("an IO is dispatched once");
        let tenant = self.sessions.get(context.session).expect("a session outlives its IOs").tenant;
        let priority = priority_of(&context.command);
        if context.device == self.index {
            let request = Request { tag: Origin::Local(io), tenant, priority, work };
            context.place = Place::Here(self.switch.arrive(now, request));
        } else {
            self.send_remote(now, io, tenant, priority, work);
        }
    }

    /// The switch is done with an IO.
    pub(super) fn on_finished(&mut self, now: Instant, finished: Finished<Origin>) {
        let Finished { tag, result, read, spent, credit, .. } = finished;
        match tag {
            Origin::Local(io) => self.on_outcome(now, io, IoOutcome { result, read, spent, credit }),
            Origin::Remote { from, io } => {
                self.remote_ios.remove(&(from, io));
                self.answer_remote(from, io, IoOutcome { result, read, spent, credit })
            }
            Origin::House => self.on_flushed(result),
            Origin::Wipe(wipe) => self.on_wiped(now, wipe, result),
        }
    }

    /// An IO of a connection here has ended.
    pub(super) fn on_outcome(&mut self, now: Instant, io: Key, outcome: IoOutcome) {
        let mut context = self.ios.remove(io).expect("an IO ends once");
        let permit = context.permit.take();
        let IoOutcome { result, read, spent, credit } = outcome;
        self.note_abort(io, &result);
        let dword = match &result {
            Err(Failure::Copy { range, .. }) => *range,
            _ => 0,
        };
        let (first_status, status) = self.statuses_of(&context, result);
        let first = context.first.take();
        let session = self.sessions.get_mut(context.session).expect("a session outlives its IOs");
        session.ios -= 1;
        let nsid = context.command.nsid;
        if let Some(lane) = session.lanes.get(nsid) {
            self.lane_links.remove(&mut lane.chain, io);
        }
        let field = (session.tenant, session.subsystem, nsid);
        if let Some(home) = &mut self.homes[session.subsystem] {
            let (queue, command) = (queue_of(context.session), &context.command);
            match &first {
                None => home.subsystem.on_io_completed(queue, context.cid, command, status),
                Some(first) => {
                    let (cids, statuses) = ([first.cid, context.cid], [first_status, status]);
                    home.subsystem.on_fused_completed(queue, cids, command, statuses);
                }
            }
        }
        let (thread, credits) = (session.thread, session.credits);
        let (of_first, spent) = match spent {
            Spent::Nothing => (None, None),
            Spent::One(buffer) => (None, Some(buffer)),
            Spent::Two(buffers) => {
                let [first, second] = *buffers;
                (Some(first), Some(second))
            }
        };
        if let Some(FirstHalf { cid, permit, .. }) = first {
            self.give_arrival(thread, of_first, Some(permit));
            self.reply(context.session, Cqe::new(cid, first_status));
        }
        let mut cqe = Cqe::new(context.cid, status).with_dw0(dword);
        if credits && status.is_success() {
            cqe = cqe.with_dw0(credit.0);
        }
        match (read, permit) {
            (Some(buffer), Some(permit)) => {
                // Its memory comes back when it was sent.
                let length = buffer.len() as u32;
                self.reply_with_data(context.session, cqe, Payload::Pooled(buffer, permit), length);
            }
            (read, permit) => {
                read.into_iter().for_each(|buffer| self.reads.give(buffer));
                self.reply_and_give(context.session, cqe, spent, permit);
                self.admit_waiting(now, context.session);
            }
        }
        self.lower_fences(context.session, nsid);
        if context.is_orphan {
            self.on_orphan_ended(now, field);
        }
        self.retire_if_done(now, context.session);
    }

    /// What the host is told of the first command, if there are two, and of the only or second one.
    fn statuses_of(&mut self, context: &IoContext, result: Result<(), Failure>) -> (Status, Status) {
        let op = &context.command.op;
        let is_fused = context.first.is_some();
        match result {
            Ok(()) => (Status::SUCCESS, Status::SUCCESS),
            Err(Failure::Miscompare) if is_fused => (Status::COMPARE_FAILURE, Status::FAILED_FUSED),
            Err(Failure::Miscompare) => (Status::SUCCESS, Status::COMPARE_FAILURE),
            Err(Failure::Withdrawn) => {
                let first = context.first.as_ref().and_then(|first| first.if_withdrawn);
                (first.unwrap_or(context.if_withdrawn), context.if_withdrawn)
            }
            Err(Failure::Device(error)) => {
                let status = status_of_error(op, &error);
                self.log_device_error(context, &error);
                (Status::SUCCESS, status)
            }
            Err(Failure::Unread(error)) => {
                let status = status_of_error(&IoOp::Compare, &error);
                self.log_device_error(context, &error);
                (status, Status::FAILED_FUSED)
            }
            Err(Failure::Copy { is_read, error, .. }) => {
                let status = status_of_error(if is_read { &IoOp::Read } else { &IoOp::Write }, &error);
                self.log_device_error(context, &error);
                (Status::SUCCESS, status)
            }
        }
    }

    fn log_device_error(&mut self, context: &IoContext, error: &io::Error) {
        self.device_errors += 1;
        // A device that fails fails often: the log gets the first, the second, the fourth …
        if self.device_errors.is_power_of_two() {
            let (op, lba, nsid) = (&context.command.op, context.command.lba.0, context.command.nsid);
            let (home, device, count) = (&self.name, context.device, self.device_errors);
            warn!(%home, device, ?op, lba, nsid, count, %error, "the device failed an IO");
        }
    }
}

/// The device's answer in the words of NVMe.
fn status_of_error(op: &IoOp, error: &io::Error) -> Status {
    if is_gone(error) {
        return Status::INTERNAL_ERROR.do_not_retry();
    }
    if let Some(CommandStatus { code_type, code, do_not_retry }) = CommandStatus::of(error) {
        return match code_type {
            // The path between the device and this machine's driver is no host's path.
            SCT_PATH => Status::INTERNAL_ERROR,
            sct => Status { sct, sc: code, dnr: do_not_retry },
        };
    }
    if error.kind() == io::ErrorKind::TimedOut {
        // Its driver gave it up; the device may have done it or not.
        return Status::INTERNAL_ERROR;
    }
    match (op, error.kind()) {
        (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Status::CAPACITY_EXCEEDED,
        (IoOp::Read | IoOp::Compare | IoOp::Verify, _) => Status::UNRECOVERED_READ_ERROR,
        // Of a pair or a copy that is left to be told: the write.
        (
            IoOp::Write
            | IoOp::CompareAndWrite
            | IoOp::Copy(_)
            | IoOp::WriteZeroes { .. }
            | IoOp::Deallocate(_)
            | IoOp::Flush,
            _,
        ) => Status::WRITE_FAULT,
    }
}

/// Whether there is no device any more, or no thread that could ask it: then no block is at fault, and to try again is in vain.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
        || error.kind() == io::ErrorKind::BrokenPipe
}
