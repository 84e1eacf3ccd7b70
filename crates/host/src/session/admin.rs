//! From start to a ready controller: connections are opened, the admin queue is driven, IO queues connect.
//!
//! ```text
//!   admin connection open ─► HostController: bring-up ─► Ready ─► IO connections open, Connect on each ─┐
//!                                             └──► namespaces known ────────────────────────┴─► IOs may be sent
//! ```

use super::{ADMIN, Output, Phase, Session, controller};
use crate::connection::{Connection, ConnectionEvent, Done, Errand, Lend};
use crate::discover::Discovered;
use crate::fault::Fault;
use crate::in_flight::DEPTH_MAX;
use crate::namespace::Namespace;
use crate::request::IoError;
use nvme::host::{AdminEvent, Purpose};
use nvme::spec::discovery::TransportType;
use nvme::tcp::HostOptions;
use nvme::tcp::pdu::Digests;
use sched::{Credit, CreditWindow};
use std::sync::Arc;
use units::Instant;

/// Most outstanding commands on the admin queue; `HostController` has at most three.
const ADMIN_DEPTH: u16 = 31;

impl Session {
    pub(super) fn start(&mut self, now: Instant) {
        self.generated = None;
        let deadline = now + self.options.connect_timeout;
        self.phase = Phase::Starting { deadline };
        self.alarm = deadline;
        match self.options.check() {
            Ok(()) => self.open_admin(),
            Err(fault) => self.fail(now, fault),
        }
    }

    /// Opens the admin connection of a controller on which no command was sent yet.
    pub(super) fn open_admin(&mut self) {
        self.controller = controller(&self.options, self.purpose);
        self.found = None;
        self.open_connection(ADMIN_DEPTH, HostOptions::default());
    }

    fn open_connection(&mut self, depth: u16, options: HostOptions) {
        let number = self.connections.len();
        self.outputs.push_back(Output::Open(number));
        self.connections.push(match self.options.transport {
            TransportType::Tcp => {
                Connection::by_tcp(HostOptions { digests: self.digests(), ..options }, depth)
            }
            TransportType::Rdma => Connection::by_rdma(number as u16, depth),
        });
    }

    fn digests(&self) -> Digests {
        Digests { header: self.options.header_digest, data: self.options.data_digest }
    }

    /// The socket or queue pair of a connection is connected; `lender` makes memory known to the device of a queue pair.
    pub(crate) fn on_connected(&mut self, now: Instant, number: usize, lender: Option<Arc<dyn Lend>>) {
        let entries = self.queue_entries();
        let Some(connection) = self.connections.get_mut(number) else { return };
        connection.open(lender);
        if number == ADMIN {
            self.drive(now);
        } else {
            connection.submit_admin(
                now,
                Errand::Join,
                self.controller.connect_io_queue(number as u16, entries),
            );
        }
        self.mark(number);
    }

    /// Bytes arrived on a connection.
    pub(crate) fn on_bytes(&mut self, now: Instant, number: usize, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let mut events = std::mem::take(&mut self.connection_events);
        let result = connection.on_bytes(bytes, &mut events).map_err(Fault::Protocol);
        self.on_connection_events(now, number, events, result);
    }

    /// Pieces of work of a connection's queue pair have ended.
    pub(crate) fn on_done(&mut self, now: Instant, number: usize, done: &[Done]) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        let mut events = std::mem::take(&mut self.connection_events);
        let result = done.iter().try_for_each(|done| connection.on_done(done, &mut events));
        self.on_connection_events(now, number, events, result);
    }

    fn on_connection_events(
        &mut self,
        now: Instant,
        number: usize,
        mut events: Vec<ConnectionEvent>,
        result: Result<(), Fault>,
    ) {
        let mut fault = None;
        for event in events.drain(..) {
            if fault.is_none() {
                fault = self.on_connection_event(now, number, event).err();
            } else if let ConnectionEvent::Io { io, .. } = event {
                // There was a fault before this completion. The IO is treated like the ones that are
                // still outstanding.
                self.retry_or_end(now, io);
            }
        }
        self.connection_events = events;
        match (fault, result) {
            (Some(fault), _) | (None, Err(fault)) => self.fail(now, fault),
            (None, Ok(())) => {
                match self.phase {
                    _ if number == ADMIN => self.drive(now),
                    Phase::Starting { .. } => self.check_ready(now),
                    _ => self.dispatch(now),
                }
                self.mark(number);
            }
        }
    }

    fn on_connection_event(
        &mut self,
        now: Instant,
        number: usize,
        event: ConnectionEvent,
    ) -> Result<(), Fault> {
        match event {
            ConnectionEvent::Greeted(digests) if digests == self.digests() => Ok(()),
            ConnectionEvent::Greeted(_) => Err(Fault::NoDigests),
            ConnectionEvent::Io { io, cqe, received } => self.on_io_completed(now, io, &cqe, received),
            ConnectionEvent::Unknown(cid) => Err(Fault::UnknownCommand(cid)),
            ConnectionEvent::Admin { errand: Errand::Ask(tag), cqe, data } => {
                let is_connect = !self.controller.is_connected();
                self.controller.on_completed(now, tag, &cqe, &data)?;
                if self.controller.awaits_proof() {
                    return self.begin_proof(now, number);
                }
                if is_connect { self.accept_without_proof() } else { Ok(()) }
            }
            ConnectionEvent::Admin { errand: Errand::Join, cqe, .. } => {
                if self.controller.on_io_queue_answer(&cqe)? {
                    return self.begin_proof(now, number);
                }
                self.accept_without_proof()?;
                self.connections[number].is_joined = true;
                Ok(())
            }
            ConnectionEvent::Admin { errand: Errand::Prove, cqe, data } => {
                self.on_proof_command(now, number, &cqe, &data)
            }
        }
    }

    /// Sends the commands of the host controller and handles its events.
    pub(super) fn drive(&mut self, now: Instant) {
        while self.connections.first().is_some_and(|admin| admin.is_open) {
            match self.controller.poll(now) {
                Err(error) => return self.fail(now, error.into()),
                Ok(Some((tag, command))) => {
                    self.connections[ADMIN].submit_admin(now, Errand::Ask(tag), command);
                    if self.phase == Phase::Ready {
                        self.alarm = self.alarm.min(now + self.admin_timeout());
                    }
                }
                Ok(None) => match self.controller.poll_event() {
                    Some(event) => self.on_admin_event(now, event),
                    None => break,
                },
            }
        }
        // A connection that is being opened has nothing to send, whatever the controller has.
        let is_open = self.connections.first().is_some_and(|admin| admin.is_open);
        if is_open && !matches!(self.phase, Phase::Waiting { .. } | Phase::Over) {
            self.alarm = self.alarm.min(self.controller.next_timeout().unwrap_or(Instant::FAR_FUTURE));
            self.mark(ADMIN);
        }
    }

    fn on_admin_event(&mut self, now: Instant, event: AdminEvent) {
        match event {
            AdminEvent::Ready(info) => {
                let is_wanted = matches!(self.phase, Phase::Starting { .. }) && self.purpose == Purpose::Io;
                if is_wanted {
                    // One command less than the queue has entries may be outstanding: a full ring looks like
                    // an empty one.
                    let depth = self.queue_entries() - 1;
                    let options =
                        HostOptions { in_capsule_max: info.in_capsule_max, ..HostOptions::default() };
                    (0..info.io_queues.max(1)).for_each(|_| self.open_connection(depth, options));
                }
            }
            AdminEvent::Namespaces(found) => {
                self.found = Some(found.iter().map(Namespace::from).collect());
                match self.phase {
                    Phase::Starting { .. } => self.check_ready(now),
                    Phase::Ready if self.found.as_ref() != Some(&self.namespaces) => {
                        self.adopt_namespaces(now);
                        self.outputs.push_back(Output::NamespacesChanged);
                    }
                    _ => {}
                }
            }
            AdminEvent::Discovered(entries) => {
                let found = entries
                    .iter()
                    .filter_map(|entry| Discovered::from_entry(entry, self.options.transport))
                    .collect();
                self.outputs.push_back(Output::Discovered(found));
                self.begin_closing(now);
            }
            AdminEvent::ShutDown => self.finish(),
            // The page is dropped: an application that uses reservations reads their state.
            AdminEvent::ReservationNotification(_) => {}
        }
    }

    /// Entries of an IO queue: the wanted commands plus one, within the limit of the controller.
    fn queue_entries(&self) -> u16 {
        let wanted = u32::from(self.options.queue_depth.clamp(1, DEPTH_MAX - 2)) + 1;
        // At least 2, the size of the smallest queue.
        wanted.min(self.controller.info().queue_entries_max).max(2) as u16
    }

    fn check_ready(&mut self, now: Instant) {
        let has_joined =
            self.connections.len() > 1 && self.connections[1..].iter().all(|connection| connection.is_joined);
        if !has_joined || self.found.is_none() {
            return;
        }
        let first = !self.was_ready;
        self.retries.on_success();
        self.phase = Phase::Ready;
        self.was_ready = true;
        self.info = self.controller.info().clone();
        self.window = CreditWindow::new(Credit(self.info.credit.unwrap_or(u32::MAX)));
        self.alarm = self.controller.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        self.adopt_namespaces(now);
        self.outputs.push_back(Output::Ready { first });
        self.dispatch(now);
    }

    /// Ends waiting IOs whose namespace no longer exists or is not the same as before.
    fn adopt_namespaces(&mut self, now: Instant) {
        let former = std::mem::replace(&mut self.namespaces, self.found.clone().unwrap_or_default());
        let find = |list: &[Namespace], nsid| list.iter().find(|namespace| namespace.nsid == nsid).copied();
        let lost = |nsid| match (find(&former, nsid), find(&self.namespaces, nsid)) {
            (Some(former), Some(present)) => !former.is_same(&present),
            (_, present) => present.is_none(),
        };
        for io in self.wait_queue.extract(|request| lost(request.nsid)) {
            self.end(now, io, IoError::NamespaceChanged);
        }
    }
}
