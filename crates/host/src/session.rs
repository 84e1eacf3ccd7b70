//! One controller, from the first Connect to the last IO, over as many connections as it takes. Sans-IO.
//!
//! ```text
//!            ┌────────── wait (back-off) ◄─────────── any fault ──────────────┐
//!            ▼                                                                │
//!   start: admin link, bring-up ──► joining: IO links, their Connect ──► ready: IOs, keep-alive, events
//!            │ a fault that will not pass, or too many tries                  │ close()
//!            ▼                                                                ▼
//!           over ◄──────────────────────── closing: CC.SHN ◄──────────────────┘
//!
//!   submit ──► [ waiting, in order ] ──credit and queue have room──► out on a link ──► Ended
//!                      ▲                                                │
//!                      └─────────── connection lost, tries left ────────┘
//! ```
//!
//! A fault of any link is a fault of the controller: all links close, IOs that were out go to the head of the line in their
//! old order or end, and after a while everything begins anew.
//!
//! Holds: every accepted IO ends exactly once; never more IOs are out than the credit (both in `tests`).
//! Elsewhere: sockets and the clock are `engine`'s; admin commands in their order are `bringup`'s; `line` keeps who waits.
//! Paper: Gimbal §3.6, Appendix B, Algorithm 3.

use crate::backoff::Retries;
use crate::bringup::{ADMIN_SQSIZE, AdminData, Bringup, Discovered, Next, Purpose, property_set};
use crate::fault::{ConnectError, ConnectRefusal, Fault, Nonsense};
use crate::in_flight::DEPTH_MAX;
use crate::line::Line;
use crate::link::{Batch, Errand, Link, LinkEvent, Outstanding};
use crate::namespace::{ControllerInfo, Namespace};
use crate::options::{ControllerOptions, RetryPolicy};
use crate::request::{Completion, IoError, Operation, Refusal, Refused, Request};
use crate::view::{Meter, View};
use nvme::connection::{Fatal, HostOptions};
use nvme::pdu::Digests;
use nvme::spec::connect::{ConnectCommand, ConnectResult};
use nvme::spec::event::EventKind;
use nvme::spec::identify_controller::oncs;
use nvme::spec::opcode::admin;
use nvme::spec::property::offset;
use nvme::spec::{Cqe, Sqe};
use sched::{Credit, CreditWindow};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// The admin link's number; IO queues follow from 1.
pub(crate) const ADMIN: usize = 0;
/// How long a controller has to acknowledge a shutdown before the connection is closed anyway.
const SHUTDOWN_TIMEOUT: Nanos = Nanos::millis(500);

/// What a session wants, or has to tell.
#[derive(Debug)]
pub(crate) enum Output {
    /// Connect this link.
    Open(usize),
    /// Close this link, after these last words if there are any.
    Close(usize, Vec<u8>),
    /// An IO has ended.
    Ended(Completion),
    /// IOs can go out. Whether for the first time.
    Ready { first: bool },
    /// The controller was lost, or an attempt to have it failed; the next begins after this time.
    Down { fault: Fault, retry_in: Nanos },
    /// Namespaces came, went or changed.
    NamespacesChanged,
    /// The discovery log. The session closes itself after it.
    Discovered(Vec<Discovered>),
    /// The controller is given up.
    GaveUp(Box<ConnectError>),
    /// The session was closed as asked.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting { until: Instant },
    Starting { deadline: Instant },
    Ready,
    Closing { deadline: Instant },
    Over,
}

/// One controller.
#[derive(Debug)]
pub(crate) struct Session {
    options: ControllerOptions,
    purpose: Purpose,
    phase: Phase,
    retries: Retries,
    bringup: Bringup,
    links: Vec<Link>,
    /// Links with something to send.
    marked: Vec<usize>,
    window: CreditWindow,
    line: Line,
    /// As of the last time the controller was ready.
    info: ControllerInfo,
    namespaces: Vec<Namespace>,
    was_ready: bool,
    rescan_wanted: bool,
    keep_alive_at: Instant,
    /// Not later than anything that `on_time` has to do.
    alarm: Instant,
    /// Where the search for a queue begins.
    next_queue: usize,
    meter: Meter,
    outputs: VecDeque<Output>,
    /// Empty between calls; kept for its memory.
    link_events: Vec<LinkEvent>,
}

impl Session {
    /// A session that begins to connect.
    pub(crate) fn new(now: Instant, options: ControllerOptions, purpose: Purpose) -> Session {
        let mut session = Session {
            purpose,
            phase: Phase::Over,
            retries: Retries::new(options.backoff, options.seed),
            bringup: Bringup::new(&options, purpose),
            links: Vec::new(),
            marked: Vec::new(),
            window: CreditWindow::new(Credit(u32::MAX)),
            line: Line::new(options.waiting_max),
            info: ControllerInfo::default(),
            namespaces: Vec::new(),
            was_ready: false,
            rescan_wanted: false,
            keep_alive_at: Instant::FAR_FUTURE,
            alarm: Instant::FAR_FUTURE,
            next_queue: 0,
            meter: Meter::default(),
            outputs: VecDeque::new(),
            link_events: Vec::new(),
            options,
        };
        session.start(now);
        session
    }

    /// The options it was made with.
    pub(crate) fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// What is known about the controller.
    pub(crate) fn info(&self) -> &ControllerInfo {
        &self.info
    }

    /// The namespaces, as last seen.
    pub(crate) fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// What the client knows of the SSD.
    pub(crate) fn view(&self) -> View {
        let mut view = View {
            is_ready: self.phase == Phase::Ready,
            credit: self.info.credit.map(|_| self.window.credit().0),
            in_flight: self.window.in_flight(),
            waiting: self.line.len(),
            ..View::default()
        };
        self.meter.show(&mut view);
        view
    }

    /// The oldest thing wanted or told.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A link that has something to send.
    pub(crate) fn poll_marked(&mut self) -> Option<usize> {
        let link = self.marked.pop()?;
        if let Some(link) = self.links.get_mut(link) {
            link.is_marked = false;
        }
        Some(link)
    }

    /// Lays what a link has to send into `batch`.
    pub(crate) fn poll_transmit(&mut self, link: usize, batch: &mut impl Batch) {
        if let Some(link) = self.links.get_mut(link).filter(|link| link.is_open) {
            link.poll_transmit(batch);
        }
    }

    /// A batch of the link has gone: there may be more.
    pub(crate) fn on_sent(&mut self, link: usize) {
        self.mark(link);
    }

    /// When `on_time` is to be called at the latest.
    pub(crate) fn alarm(&self) -> Instant {
        self.alarm
    }

    /// Takes an IO in; it ends in exactly one `Output::Ended`.
    pub(crate) fn submit(&mut self, now: Instant, request: Request) -> Result<(), Box<Refused>> {
        if let Err(why) = self.check(&request) {
            return Err(Box::new(Refused { why, request }));
        }
        self.line.push(request);
        self.dispatch(now);
        Ok(())
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over | Phase::Closing { .. }) {
            return Err(Refusal::Gone);
        }
        if !self.was_ready {
            return Err(Refusal::NotReady);
        }
        if self.line.is_full() {
            return Err(Refusal::Busy);
        }
        let namespace = self.namespaces.iter().find(|namespace| namespace.nsid == request.nsid);
        let namespace = namespace.ok_or(Refusal::NoSuchNamespace)?;
        let operation = request.operation;
        if operation != Operation::Flush && !namespace.contains(request.lba, request.blocks) {
            return Err(Refusal::OutOfRange);
        }
        if optional_bit(operation).is_some_and(|bit| self.info.optional & bit == 0) {
            return Err(Refusal::Unsupported);
        }
        let block_size = namespace.block_size.get();
        let mut blocks_max = operation.blocks_max();
        if operation.has_buffer() {
            let transfer_max = self.info.transfer_max.get() / block_size;
            blocks_max = blocks_max.min(u32::try_from(transfer_max).unwrap_or(u32::MAX));
        }
        if request.blocks > blocks_max {
            return Err(Refusal::TooLarge { blocks_max });
        }
        let needed = if operation.has_buffer() { block_size * u64::from(request.blocks) } else { 0 };
        if request.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64) != needed {
            return Err(Refusal::BufferLength { needed: needed as usize });
        }
        match request.queue {
            Some(queue) if queue >= self.info.io_queues => Err(Refusal::NoSuchQueue),
            _ => Ok(()),
        }
    }

    /// Sends waiting IOs in their order, as far as credit and queues allow.
    fn dispatch(&mut self, now: Instant) {
        if self.phase != Phase::Ready {
            return;
        }
        while let Some(next) = self.line.first() {
            let Some(queue) = self.pick_queue(next.request.queue) else { return };
            if !self.window.try_submit() {
                return;
            }
            let io = self.line.pop().expect("there was a first");
            let link = &mut self.links[queue];
            if link.in_flight() == 0 {
                self.alarm = self.alarm.min(now + self.options.io_timeout);
            }
            link.submit_io(now, io);
            self.mark(queue);
        }
    }

    /// The link for an IO: the one asked for, else the next one in turn that has room.
    fn pick_queue(&mut self, asked: Option<u16>) -> Option<usize> {
        let queues = self.links.len() - 1;
        if let Some(asked) = asked {
            // After a reconnect there may be fewer queues than when the IO was accepted.
            let link = 1 + usize::from(asked) % queues;
            return self.links[link].has_room().then_some(link);
        }
        for turn in 0..queues {
            let link = 1 + (self.next_queue + turn) % queues;
            if self.links[link].has_room() {
                self.next_queue = link % queues;
                return Some(link);
            }
        }
        None
    }

    fn on_io_completed(
        &mut self,
        now: Instant,
        io: Outstanding,
        cqe: &Cqe,
        received: u32,
    ) -> Result<(), Fault> {
        let Outstanding { request, sent, .. } = io;
        let (status, operation) = (cqe.status(), request.operation);
        let carries_credit =
            status.is_success() && matches!(operation, Operation::Read | Operation::Write { .. });
        let credit = (carries_credit && self.info.credit.is_some()).then(|| Credit(cqe.dw0()));
        self.window.on_completion(credit);
        let length = request.buffer.as_ref().map_or(0, |buffer| buffer.len());
        let mut result = if status.is_success() { Ok(()) } else { Err(IoError::Status(status)) };
        let mut fault = Ok(());
        if status.is_success() && operation == Operation::Read && received as usize != length {
            result = Err(IoError::ConnectionLost);
            fault = Err(Fault::Nonsense(Nonsense::ShortData { received, expected: length as u32 }));
        }
        let completion =
            Completion { tag: request.tag, operation, result, buffer: request.buffer, sent, ended: now };
        if completion.result.is_ok() {
            self.meter.on_completed(now, operation, Bytes(length as u64), completion.service_time());
        }
        self.outputs.push_back(Output::Ended(completion));
        fault
    }

    fn end(&mut self, now: Instant, io: Outstanding, error: IoError) {
        let Outstanding { request: Request { tag, operation, buffer, .. }, sent, .. } = io;
        self.outputs.push_back(Output::Ended(Completion {
            tag,
            operation,
            result: Err(error),
            buffer,
            sent,
            ended: now,
        }));
    }

    fn mark(&mut self, number: usize) {
        if let Some(link) = self.links.get_mut(number)
            && !link.is_marked
            && link.wants_to_send()
        {
            link.is_marked = true;
            self.marked.push(number);
        }
    }

    fn start(&mut self, now: Instant) {
        self.bringup = Bringup::new(&self.options, self.purpose);
        let deadline = now + self.options.connect_timeout;
        self.phase = Phase::Starting { deadline };
        self.open_link(ADMIN_SQSIZE, HostOptions::default());
        self.alarm = deadline;
    }

    fn open_link(&mut self, depth: u16, options: HostOptions) {
        let digests = self.digests();
        self.outputs.push_back(Output::Open(self.links.len()));
        self.links.push(Link::new(HostOptions { digests, ..options }, depth));
    }

    fn digests(&self) -> Digests {
        Digests { header: self.options.header_digest, data: self.options.data_digest }
    }

    /// A link's socket is connected.
    pub(crate) fn on_connected(&mut self, now: Instant, number: usize) {
        let sqsize = self.queue_entries() - 1;
        let Some(link) = self.links.get_mut(number) else { return };
        link.is_open = true;
        if number == ADMIN {
            self.drive_bringup(now);
        } else {
            let command = ConnectCommand {
                record_format: 0,
                queue_id: number as u16,
                sqsize,
                attributes: 0,
                keep_alive_timeout: 0,
            };
            let data = AdminData::To(self.bringup.io_queue_connect(&self.options));
            link.submit_admin(now, Errand::Join, command.to_sqe(), data);
        }
        self.mark(number);
    }

    /// A link's socket is closed, broken, or never came to be.
    pub(crate) fn on_closed(&mut self, now: Instant, fault: Fault) {
        self.fail(now, fault);
    }

    /// Bytes came on a link.
    pub(crate) fn on_bytes(&mut self, now: Instant, number: usize, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(number) else { return };
        let mut events = std::mem::take(&mut self.link_events);
        let result = link.on_bytes(bytes, &mut events);
        let mut fault = None;
        for event in events.drain(..) {
            if fault.is_none() {
                fault = self.on_link_event(now, number, event).err();
            } else if let LinkEvent::Io { io, .. } = event {
                // Behind a fault in the same bytes: it fares like the IOs that are still out.
                self.retry_or_end(now, io);
            }
        }
        self.link_events = events;
        match (fault, result) {
            (Some(fault), _) => self.fail(now, fault),
            (None, Err(fatal)) => self.fail(now, Fault::Protocol(fatal)),
            (None, Ok(())) => {
                self.advance(now, number);
                self.mark(number);
            }
        }
    }

    fn on_link_event(&mut self, now: Instant, number: usize, event: LinkEvent) -> Result<(), Fault> {
        match event {
            LinkEvent::Greeted(digests) if digests == self.digests() => Ok(()),
            LinkEvent::Greeted(_) => Err(Fault::Lacking("the digests asked for")),
            LinkEvent::Io { io, cqe, received } => self.on_io_completed(now, io, &cqe, received),
            LinkEvent::Unknown(cid) => Err(Fault::Nonsense(Nonsense::UnknownCommand(cid))),
            LinkEvent::Reported(cqe) => {
                if EventKind::from_dw0(cqe.dw0()) == Some(EventKind::NamespaceChanged) {
                    self.rescan_wanted = true;
                }
                if cqe.status().is_success() {
                    self.links[number].request_event();
                }
                Ok(())
            }
            LinkEvent::Admin { errand, cqe, data, received, expected } => match errand {
                Errand::KeepAlive | Errand::Shutdown => Ok(()),
                Errand::Join => {
                    if !cqe.status().is_success() {
                        return Err(Fault::Refused(ConnectRefusal::of(cqe.status(), cqe.dw0())));
                    }
                    let (expected, got) =
                        (self.bringup.info.controller_id, ConnectResult::from_dw0(cqe.dw0()).controller_id);
                    if got != expected {
                        return Err(Fault::Nonsense(Nonsense::OtherController { expected, got }));
                    }
                    self.links[number].is_joined = true;
                    Ok(())
                }
                Errand::Bringup if cqe.status().is_success() && received as usize != expected => {
                    Err(Fault::Nonsense(Nonsense::ShortData { received, expected: expected as u32 }))
                }
                Errand::Bringup => self.bringup.on_completed(now, &cqe, &data),
            },
        }
    }

    /// Does what has become possible after something arrived on a link.
    fn advance(&mut self, now: Instant, number: usize) {
        match self.phase {
            Phase::Starting { .. } if number == ADMIN => self.drive_bringup(now),
            Phase::Starting { .. } => self.check_joined(now),
            Phase::Ready if number == ADMIN => {
                if self.rescan_wanted && self.bringup.rescan() {
                    self.rescan_wanted = false;
                }
                self.drive_bringup(now);
            }
            Phase::Ready => self.dispatch(now),
            Phase::Closing { .. } if self.links.first().is_some_and(|admin| admin.in_flight() == 0) => {
                self.finish()
            }
            Phase::Closing { .. } | Phase::Waiting { .. } | Phase::Over => {}
        }
    }

    fn drive_bringup(&mut self, now: Instant) {
        match self.bringup.next(now) {
            Next::Send(sqe, data) => {
                self.links[ADMIN].submit_admin(now, Errand::Bringup, sqe, data);
                if self.phase == Phase::Ready {
                    self.alarm = self.alarm.min(now + self.admin_timeout());
                }
                self.mark(ADMIN);
            }
            Next::Wait(until) => self.alarm = self.alarm.min(until),
            Next::Pending => {}
            Next::Done => self.on_brought_up(now),
        }
    }

    fn on_brought_up(&mut self, now: Instant) {
        match (self.phase, self.purpose) {
            (Phase::Starting { .. }, Purpose::Discovery) => {
                self.outputs.push_back(Output::Discovered(std::mem::take(&mut self.bringup.discovered)));
                self.close(now);
            }
            (Phase::Starting { .. }, Purpose::Io) if self.links.len() == 1 => {
                // One entry less than the queue has may be out: a full ring cannot be told from an empty one.
                let depth = self.queue_entries() - 1;
                let in_capsule_max = self.bringup.info.in_capsule_max;
                for _ in 0..self.bringup.info.io_queues.min(self.options.io_queues).max(1) {
                    self.open_link(depth, HostOptions { in_capsule_max, ..HostOptions::default() });
                }
            }
            (Phase::Ready, _) if self.bringup.namespaces != self.namespaces => {
                self.adopt_namespaces(now);
                self.outputs.push_back(Output::NamespacesChanged);
            }
            _ => {}
        }
    }

    /// Entries of an IO queue: one more than the commands wanted, as far as the controller goes.
    fn queue_entries(&self) -> u16 {
        let wanted = u32::from(self.options.queue_depth.clamp(1, DEPTH_MAX - 2)) + 1;
        // At least 2, the smallest queue there is.
        wanted.min(self.bringup.info.queue_entries_max).max(2) as u16
    }

    fn check_joined(&mut self, now: Instant) {
        if !self.links[1..].iter().all(|link| link.is_joined) {
            return;
        }
        let first = !self.was_ready;
        self.retries.on_success();
        self.phase = Phase::Ready;
        self.was_ready = true;
        self.info = self.bringup.info.clone();
        self.window = CreditWindow::new(Credit(self.info.credit.unwrap_or(u32::MAX)));
        self.rescan_wanted = false;
        let interval = self.keep_alive_interval();
        self.keep_alive_at = interval.map_or(Instant::FAR_FUTURE, |interval| now + interval);
        self.alarm = self.keep_alive_at;
        if self.info.events != 0 {
            self.links[ADMIN].request_event();
            self.mark(ADMIN);
        }
        self.adopt_namespaces(now);
        self.outputs.push_back(Output::Ready { first });
        self.dispatch(now);
    }

    /// IOs that wait for a namespace which is no longer the one they were meant for end here.
    fn adopt_namespaces(&mut self, now: Instant) {
        let former = std::mem::replace(&mut self.namespaces, self.bringup.namespaces.clone());
        let find = |list: &[Namespace], nsid| list.iter().find(|namespace| namespace.nsid == nsid).copied();
        let lost = |nsid| match (find(&former, nsid), find(&self.namespaces, nsid)) {
            (Some(former), Some(present)) => !former.is_same(&present),
            (_, present) => present.is_none(),
        };
        for io in self.line.extract(|request| lost(request.nsid)) {
            self.end(now, io, IoError::NamespaceChanged);
        }
    }

    fn keep_alive_interval(&self) -> Option<Nanos> {
        (self.options.keep_alive > Nanos::ZERO).then(|| Nanos(self.options.keep_alive.get() / 2))
    }

    /// How long an admin command may take.
    fn admin_timeout(&self) -> Nanos {
        if self.options.keep_alive > Nanos::ZERO { self.options.keep_alive } else { self.options.io_timeout }
    }

    /// Time has passed.
    pub(crate) fn on_time(&mut self, now: Instant) {
        if now < self.alarm {
            return;
        }
        self.alarm = Instant::FAR_FUTURE;
        match self.phase {
            Phase::Waiting { until } if now >= until => self.start(now),
            Phase::Waiting { until } => self.alarm = until,
            Phase::Starting { deadline } if now >= deadline => {
                let fault = Fault::NotReady(self.options.connect_timeout, self.bringup.waiting_for());
                self.fail(now, fault);
            }
            Phase::Starting { deadline } => {
                self.alarm = deadline;
                if self.links.first().is_some_and(|admin| admin.is_open) {
                    self.drive_bringup(now);
                }
            }
            Phase::Ready => self.on_time_ready(now),
            Phase::Closing { deadline } if now >= deadline => self.finish(),
            Phase::Closing { deadline } => self.alarm = deadline,
            Phase::Over => {}
        }
    }

    fn on_time_ready(&mut self, now: Instant) {
        for number in 0..self.links.len() {
            let limit = if number == ADMIN { self.admin_timeout() } else { self.options.io_timeout };
            let Some(sent) = self.links[number].oldest_sent() else { continue };
            if now >= sent + limit {
                let name = self.links[number].oldest().map_or("", |(_, name)| name);
                self.fail(now, Fault::Silent(limit, name));
                return;
            }
            self.alarm = self.alarm.min(sent + limit);
        }
        if now >= self.keep_alive_at
            && let Some(interval) = self.keep_alive_interval()
        {
            self.keep_alive_at = now + interval;
            if self.links[ADMIN].has_room() {
                let sqe = Sqe::new(admin::KEEP_ALIVE);
                self.links[ADMIN].submit_admin(now, Errand::KeepAlive, sqe, AdminData::None);
                self.mark(ADMIN);
                self.alarm = self.alarm.min(now + self.admin_timeout());
            }
        }
        self.alarm = self.alarm.min(self.keep_alive_at);
    }

    /// Closes all links. What was out goes back into the line or ends.
    fn fail(&mut self, now: Instant, fault: Fault) {
        if matches!(self.phase, Phase::Over | Phase::Waiting { .. }) {
            return;
        }
        let is_violation = matches!(fault, Fault::Protocol(Fatal::Violation(_)));
        self.close_links(now, is_violation);
        if matches!(self.phase, Phase::Closing { .. }) {
            self.phase = Phase::Over;
            self.outputs.push_back(Output::Closed);
            return;
        }
        let wait = if fault.may_pass() { self.retries.on_failure() } else { None };
        match wait {
            Some(retry_in) => {
                let until = now + retry_in;
                self.phase = Phase::Waiting { until };
                self.alarm = until;
                self.outputs.push_back(Output::Down { fault, retry_in });
            }
            None => self.give_up(now, fault),
        }
    }

    fn close_links(&mut self, now: Instant, with_last_words: bool) {
        self.marked.clear();
        let mut out = Vec::new();
        for (number, mut link) in std::mem::take(&mut self.links).into_iter().enumerate() {
            let mut last_words = Vec::new();
            if with_last_words && link.is_open {
                link.poll_transmit(&mut last_words);
            }
            self.outputs.push_back(Output::Close(number, last_words));
            out.extend(link.into_outstanding());
        }
        self.window = CreditWindow::new(Credit(self.info.credit.unwrap_or(u32::MAX)));
        for io in out {
            self.retry_or_end(now, io);
        }
    }

    fn retry_or_end(&mut self, now: Instant, mut io: Outstanding) {
        let RetryPolicy::Again { times } = self.options.retry else {
            return self.end(now, io, IoError::ConnectionLost);
        };
        if io.losses >= times {
            return self.end(now, io, IoError::ConnectionLost);
        }
        io.losses += 1;
        self.line.put_back(io);
    }

    fn give_up(&mut self, now: Instant, fault: Fault) {
        self.phase = Phase::Over;
        self.alarm = Instant::FAR_FUTURE;
        let tries = self.retries.failed().max(1);
        let ControllerOptions { address, ref subsystem, ref host, .. } = self.options;
        let error = ConnectError { address, subsystem: subsystem.clone(), host: host.clone(), tries, fault };
        self.end_waiting(now);
        self.outputs.push_back(Output::GaveUp(Box::new(error)));
    }

    fn end_waiting(&mut self, now: Instant) {
        for io in self.line.extract(|_| true) {
            self.end(now, io, IoError::ControllerGone);
        }
    }

    /// Ends every IO and takes leave of the controller.
    pub(crate) fn close(&mut self, now: Instant) {
        match self.phase {
            Phase::Over | Phase::Closing { .. } => return,
            Phase::Waiting { .. } => {
                self.phase = Phase::Over;
                self.alarm = Instant::FAR_FUTURE;
                self.end_waiting(now);
                self.outputs.push_back(Output::Closed);
                return;
            }
            Phase::Starting { .. } | Phase::Ready => {}
        }
        let deadline = now + SHUTDOWN_TIMEOUT;
        self.phase = Phase::Closing { deadline };
        self.alarm = deadline;
        for (number, link) in self.links.drain(1..).enumerate() {
            self.outputs.push_back(Output::Close(number + 1, Vec::new()));
            link.into_outstanding().into_iter().for_each(|io| self.line.put_back(io));
        }
        self.end_waiting(now);
        let may_take_leave = self.links.first().is_some_and(|admin| admin.is_open && admin.has_room());
        if may_take_leave {
            let sqe = property_set(offset::CC, self.bringup.configuration.shutting_down().0);
            self.links[ADMIN].submit_admin(now, Errand::Shutdown, sqe, AdminData::None);
            self.mark(ADMIN);
        } else {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Over;
        self.alarm = Instant::FAR_FUTURE;
        self.marked.clear();
        for number in 0..self.links.len() {
            self.outputs.push_back(Output::Close(number, Vec::new()));
        }
        self.links.clear();
        self.outputs.push_back(Output::Closed);
    }
}

/// The bit of ONCS that an operation needs, if it is optional.
fn optional_bit(operation: Operation) -> Option<u16> {
    match operation {
        Operation::Read | Operation::Write { .. } | Operation::Flush => None,
        Operation::WriteZeroes { .. } => Some(oncs::WRITE_ZEROES),
        Operation::Deallocate => Some(oncs::DATASET_MANAGEMENT),
        Operation::Compare => Some(oncs::COMPARE),
        Operation::Verify => Some(oncs::VERIFY),
    }
}
