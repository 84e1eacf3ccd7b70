//! A thread that has connections and no SSD.
//!
//! It does what most of an IO costs: TCP, and parsing and laying out PDUs. Every command goes to the pipeline of the connection's
//! session, one batch a turn, and every answer comes from there.
//!
//! ```text
//!   Drain ─► reads no more ─► Quiet ─► Finish, when pipelines have answered all ─► all sent ─► Drained ─► Stop
//! ```
//!
//! Memory of data that was sent goes back to its pipeline with the next commands for it, so that no pipeline is woken for that alone. It
//! goes at once during a shortage of memory (`Hurry`), and after a moment if no commands come.
//!
//! Holds: every command that was parsed reaches its pipeline before `Quiet`, every answer its host before `Drained`
//!        (`tests/threads.rs`); a thread that fails takes only its own connections with it.

use super::message::{Carry, Change, ConnectionEvent, Returned, ToConnections};
use super::{Connections, Owner, Parsed, Sent, SocketEnd};
use crate::account::{Accounts, ConnectionAccount, HostAccount};
use crate::config::Limits;
use crate::mailbox::Inbox;
use crate::memory::Memory;
use crate::missed::MissedTime;
use crate::outbox::Outboxes;
use crate::payload::Payload;
use crate::pipeline::message::{Report, ToPipeline};
use crate::slab::Key;
use crate::stats::ThreadBoard;
use crate::stats::beat::Beat;
use crate::transport::Events;
use nvme::queue::TargetEvent;
use reactor::{Clock, Event, Reactor};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use tracing::{debug, error};
use units::{Bytes, Instant, Nanos};

/// Hosts that are remembered at least, whether they have connections or not.
const HOSTS_MIN: usize = 64;

/// The parts of such a thread.
pub(crate) struct Parts {
    /// Its number among these threads.
    pub(crate) index: usize,
    /// Its reactor.
    pub(crate) reactor: Reactor,
    /// The owner's end of its mailbox.
    pub(crate) inbox: Inbox<ToConnections>,
    /// Whoever started the target.
    pub(crate) reports: Sender<Report>,
    /// Bounds.
    pub(crate) limits: Limits,
    /// Memory.
    pub(crate) memory: Memory,
    /// Its numbers, for readers.
    pub(crate) board: Arc<ThreadBoard>,
    /// The sign of life.
    pub(crate) beat: Beat,
}

/// Longest time that sent buffers wait for commands to travel with. It may be long, as a pipeline that needs them earlier sends `Hurry`.
const RETURN_AFTER: Nanos = Nanos::millis(100);

/// Time between two looks at the memory in use.
const PUBLISH_INTERVAL: Nanos = Nanos::millis(50);

/// Phases of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Nothing is read; answers still come.
    Quiet,
    /// All answers are here.
    Sending,
    Ended,
}

/// See the module.
pub(crate) struct ConnectionThread {
    index: usize,
    reactor: Reactor,
    inbox: Inbox<ToConnections>,
    reports: Sender<Report>,
    limits: Limits,
    memory: Memory,
    connections: Connections,
    accounts: Accounts,
    /// Hosts with connections here, and some that had.
    hosts: HashMap<Arc<str>, Weak<HostAccount>>,
    hosts_max: usize,
    pipelines: Outboxes<ToPipeline>,
    /// Pipelines that need sent buffers back at once.
    hurried: Vec<usize>,
    /// When to give back buffers that wait for commands.
    give_back_at: Option<Instant>,
    phase: Phase,
    board: Arc<ThreadBoard>,
    beat: Beat,
    /// When to publish memory in use, which other threads may end.
    publish_at: Option<Instant>,
}

impl ConnectionThread {
    pub(crate) fn new(parts: Parts) -> ConnectionThread {
        let Parts { index, reactor, inbox, reports, limits, memory, board, beat } = parts;
        ConnectionThread {
            index,
            reactor,
            inbox,
            reports,
            accounts: Accounts::new(memory.supplies(&limits)),
            connections: Connections::new(memory.arrivals),
            limits,
            memory,
            hosts: HashMap::new(),
            hosts_max: HOSTS_MIN,
            pipelines: Outboxes::new(),
            hurried: Vec::new(),
            give_back_at: None,
            phase: Phase::Running,
            board,
            beat,
            publish_at: None,
        }
    }

    /// Runs until a message ends it.
    ///
    /// # Errors
    /// The reactor's own: a broken machine, or a bug. The pipelines have been told.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let result = self.take_turns();
        if let Err(error) = &result {
            let connections = self.connections.len();
            error!(thread = self.index, %error, connections, "a thread of connections fails: its connections are closed");
            drop(self.inbox);
            for pipeline in self.pipelines.mailboxes() {
                pipeline.tell(ToPipeline::Event(ConnectionEvent::ThreadFailed { thread: self.index }));
            }
        }
        result
    }

    fn take_turns(&mut self) -> io::Result<()> {
        let mut missed = MissedTime::new(format!("connections {}", self.index), Clock.now());
        while self.phase != Phase::Ended {
            let deadlines = [self.connections.deadline(), self.give_back_at, self.publish_at];
            let deadline = deadlines.into_iter().flatten().min();
            self.beat.wait();
            self.reactor.wait(deadline)?;
            let now = Clock.now();
            self.beat.begin(now);
            if let Some(by) = missed.on_turn(deadline, now) {
                self.connections.extend(by);
            }
            while let Some(event) = self.reactor.next_event() {
                self.publish_at.get_or_insert(now + PUBLISH_INTERVAL);
                self.on_event(now, event);
            }
            let (waiting, has_memory) = self.connections.waiting_for_memory();
            for _ in 0..if has_memory && self.phase == Phase::Running { waiting } else { 0 } {
                let parsed = self.connections.serve_waiting_for_memory(now, &mut self.reactor);
                self.pass_on(parsed);
            }
            for (key, end) in self.connections.stalled(now, &self.limits) {
                self.close(key, end);
            }
            for key in self.connections.flush(now, &mut self.reactor) {
                self.close(key, SocketEnd::Refused);
            }
            if self.give_back_at.is_some_and(|at| at <= now) {
                self.give_back_at = None;
                self.pipelines.send_what_waits();
            }
            // A pipeline that has ended has closed its connections, or has reported its failure.
            self.pipelines.flush(|_, message| drop(message));
            if self.give_back_at.is_some() && !self.pipelines.holds_back() {
                self.give_back_at = None;
            }
            self.publish(now);
            if self.phase == Phase::Sending && self.connections.all_sent() {
                self.phase = Phase::Quiet;
                self.report(Report::Drained);
            }
        }
        debug!(thread = self.index, "a thread of connections ends");
        Ok(())
    }

    /// Publishes the numbers of this thread: memory only now and then, while something happens or any is in use.
    fn publish(&mut self, now: Instant) {
        self.board.connections.set(self.connections.len() as u64);
        if self.publish_at.is_some_and(|at| at <= now) {
            let memory = self.connections.memory();
            self.board.memory.set(memory.get());
            self.publish_at = (memory > Bytes::ZERO).then(|| now + PUBLISH_INTERVAL);
        }
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Received { token, bytes } => {
                if let Some(key) = self.connections.find(token)
                    && self.phase == Phase::Running
                {
                    let parsed = self.connections.on_received(now, key, bytes, &mut self.reactor);
                    self.pass_on(parsed);
                }
            }
            Event::Readable { token } => {
                if let Some(key) = self.connections.find(token)
                    && self.phase == Phase::Running
                {
                    let parsed = self.connections.on_readable(now, key, &mut self.reactor);
                    self.pass_on(parsed);
                }
            }
            Event::Ready { token } => {
                let Some(key) = self.connections.find(token) else { return };
                let mut back = Returned::default();
                let (takes_commands, give) =
                    (self.phase == Phase::Running, |buffer, permit| back.add(buffer, permit));
                let parsed = self.connections.on_ready(now, key, takes_commands, &mut self.reactor, give);
                if let Some(Owner { pipeline, session }) = self.connections.owner(key) {
                    self.give_back(now, pipeline, Returned { session: Some(session), ..back });
                }
                self.pass_on(parsed);
            }
            Event::Sent { token, batch, result } => {
                let Some(key) = self.connections.find(token) else { return };
                let mut back = Returned::with_capacity(batch.buffers());
                let sent = self.connections.on_sent(key, batch, |buffer, permit| back.add(buffer, permit));
                if let Some(Sent { owner: Owner { pipeline, session }, .. }) = sent {
                    self.give_back(now, pipeline, Returned { session: Some(session), ..back });
                }
                if let Err(error) = result {
                    self.close(key, SocketEnd::Broken(error));
                } else if self.phase == Phase::Running && sent.is_some_and(|sent| sent.has_room) {
                    let parsed = self.connections.parse_held(now, key, &mut self.reactor);
                    self.pass_on(parsed);
                }
            }
            Event::ReceiveEnded { token, error } => {
                if let Some(key) = self.connections.find(token) {
                    self.close(key, error.map_or(SocketEnd::ClosedByHost, SocketEnd::Broken));
                }
            }
            Event::Woken => {
                while let Some(message) = self.inbox.take() {
                    match message {
                        ToConnections::Batch(messages) => {
                            messages.into_iter().for_each(|message| self.on_message(now, message));
                        }
                        message => self.on_message(now, message),
                    }
                }
            }
            Event::Accepted { .. }
            | Event::AcceptFailed { .. }
            | Event::Connected { .. }
            | Event::Detached { .. }
            | Event::Disk { .. } => {
                unreachable!(
                    "a thread of connections neither listens, connects, detaches nor has disks: {event:?}"
                )
            }
        }
    }

    fn on_message(&mut self, now: Instant, message: ToConnections) {
        match message {
            ToConnections::Batch(_) => unreachable!("batches hold no batches"),
            ToConnections::Carry(carry) => self.carry(now, *carry),
            ToConnections::Done { connection, cqe, back } => {
                if let Some((buffer, permit)) = back {
                    self.connections.give(buffer, Some(permit));
                }
                self.connections.reply(connection, cqe);
            }
            ToConnections::Data { connection, cqe, data, length, from } => {
                if let Some(data) = self.connections.reply_with_data(connection, cqe, data, length) {
                    let mut back = Returned::default();
                    let (buffer, permit) = data.into_parts();
                    back.add(buffer, permit);
                    self.give_back(now, from, back);
                }
            }
            ToConnections::Back(buffer, permit) => self.connections.give(buffer, Some(permit)),
            ToConnections::Cancel { from, connection, cid, status, ticket } => {
                let cancel = self.connections.cancel(connection, cid, status);
                self.tell(from, ConnectionEvent::Cancelled { ticket, cancel });
            }
            ToConnections::Credits { connection, is_enabled } => {
                if let Some(connection) = self.connections.get(connection) {
                    connection.set_credits(is_enabled);
                }
            }
            ToConnections::Hurry { pipeline, is_wanted } => {
                self.hurried.retain(|other| *other != pipeline);
                if is_wanted {
                    self.hurried.push(pipeline);
                    self.pipelines.send_what_waits();
                }
            }
            ToConnections::End { connection } => self.connections.end(connection),
            // If it was closed before, the pipeline has received the reason.
            ToConnections::Close { connection } => self.close(connection, SocketEnd::AsTold),
            ToConnections::Change(change) => self.on_change(*change),
            ToConnections::PipelineFailed { slot } => {
                self.pipelines.set(slot, None);
                for key in self.connections.of_pipeline(slot) {
                    self.close(key, SocketEnd::AsTold);
                }
            }
            ToConnections::Drain => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Quiet;
                    self.connections.pause(&mut self.reactor);
                    self.pipelines.flush(|_, message| drop(message));
                    self.report(Report::Quiet);
                }
            }
            ToConnections::Finish => self.phase = Phase::Sending,
            ToConnections::Stop => self.phase = Phase::Ended,
        }
    }

    fn on_change(&mut self, change: Change) {
        match change {
            Change::Pipeline { slot, mailbox } => {
                // Messages that wait for the former pipeline in this slot free their memory when they are dropped.
                drop(self.pipelines.take_back(slot));
                self.hurried.retain(|other| *other != slot);
                self.pipelines.set(slot, mailbox);
            }
            Change::Named(hosts) => self.accounts.set_named(hosts),
            Change::Limits { limits, memory } => {
                self.memory.arrivals = memory;
                self.limits = limits;
                let of_host = self.memory.of_host(&self.limits);
                self.hosts.values().filter_map(Weak::upgrade).for_each(|host| host.set_limit(of_host));
                self.accounts.set_supplies(self.memory.supplies(&self.limits));
                self.connections.set_memory(memory);
            }
            // Whoever asked may have waited too long already.
            Change::Barrier(done) => drop(done.send(())),
        }
    }

    /// A connection comes, its Connect granted.
    fn carry(&mut self, now: Instant, carry: Carry) {
        let Carry { moving, connected, owner, host } = carry;
        let session = owner.session;
        if self.phase != Phase::Running {
            return self.tell(owner.pipeline, ConnectionEvent::Ended { session, end: SocketEnd::AsTold });
        }
        let payer = self.accounts.payer(Some(&host), moving.peer().ip());
        let limit = self.limits.memory_per_connection.get() / 2;
        let account = ConnectionAccount::new(units::Bytes(limit), self.host(&host), payer);
        let carried = match moving.arrive(now, account, &mut self.reactor) {
            Ok(arrived) => arrived,
            Err(error) => {
                return self
                    .tell(owner.pipeline, ConnectionEvent::Ended { session, end: SocketEnd::Broken(error) });
            }
        };
        let has_unparsed = carried.has_unparsed();
        let connection = self.connections.add(carried, owner);
        self.tell(owner.pipeline, ConnectionEvent::Opened { session, connection });
        if let Some(cqe) = connected {
            self.connections.reply(connection, cqe);
        }
        if has_unparsed {
            let parsed = self.connections.parse_held(now, connection, &mut self.reactor);
            self.pass_on(parsed);
        }
    }

    /// The account of all connections of a host on this thread.
    fn host(&mut self, host: &Arc<str>) -> Arc<HostAccount> {
        if let Some(account) = self.hosts.get(host).and_then(Weak::upgrade) {
            return account;
        }
        if self.hosts.len() >= self.hosts_max {
            self.hosts.retain(|_, account| account.strong_count() > 0);
            self.hosts_max = (2 * self.hosts.len()).max(HOSTS_MIN);
        }
        let account = HostAccount::new(self.memory.of_host(&self.limits));
        self.hosts.insert(Arc::clone(host), Arc::downgrade(&account));
        account
    }

    /// Passes parsed input on to the session.
    fn pass_on(&mut self, parsed: Option<Parsed>) {
        let Some(Parsed { owner: Owner { pipeline, session }, key, events, fatal }) = parsed else {
            return;
        };
        if events.is_empty() {
            self.connections.recycle(events);
        } else {
            // The next ones are probably as many.
            self.connections.recycle(Vec::with_capacity(events.len()));
            let event = ToPipeline::Event(ConnectionEvent::Events { session, events });
            if let Err(ToPipeline::Event(ConnectionEvent::Events { events, .. })) =
                self.pipelines.push(pipeline, event)
            {
                self.keep(events);
            }
        }
        match fatal {
            Some(fatal) if fatal.is_answered() => {
                self.tell(pipeline, ConnectionEvent::Violated { session, fatal })
            }
            Some(fatal) => self.close(key, fatal.into()),
            None => {}
        }
    }

    /// Frees the data of commands whose pipeline has ended.
    fn keep(&mut self, events: Events) {
        for event in events {
            let payloads = match event {
                TargetEvent::Command { data, .. } => [data, None],
                TargetEvent::Fused { halves } => halves.map(|(_, data)| data),
                _ => [None, None],
            };
            for (buffer, permit) in payloads.into_iter().flatten().map(Payload::into_parts) {
                self.connections.give(buffer, permit);
            }
        }
    }

    fn close(&mut self, key: Key, end: SocketEnd) {
        let mut back = Returned::default();
        let give = |buffer, permit| back.add(buffer, permit);
        let closed = self.connections.close(key, end, &mut self.reactor, give);
        let Some((Owner { pipeline, session }, end)) = closed else { return };
        if !back.is_empty() {
            self.tell(pipeline, ConnectionEvent::Returned(back));
        }
        self.tell(pipeline, ConnectionEvent::Ended { session, end });
    }

    /// Gives a pipeline its buffers and permits back.
    fn give_back(&mut self, now: Instant, pipeline: usize, back: Returned) {
        if back.is_empty() {
            return;
        }
        if self.hurried.contains(&pipeline) {
            return self.tell(pipeline, ConnectionEvent::Returned(back));
        }
        self.pipelines.tell_later(pipeline, ToPipeline::Event(ConnectionEvent::Returned(back)));
        self.give_back_at.get_or_insert(now + RETURN_AFTER);
    }

    fn tell(&mut self, pipeline: usize, event: ConnectionEvent) {
        self.pipelines.tell(pipeline, ToPipeline::Event(event));
    }

    fn report(&self, report: Report) {
        if self.reports.send(report).is_err() {
            debug!(thread = self.index, ?report, "nobody waits for this report");
        }
    }
}
