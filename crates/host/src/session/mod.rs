//! One controller, from the first Connect to the last IO, over as many connections as needed. Sans-IO.
//!
//! ```text
//!            ┌────────── wait (back-off) ◄─────────── any fault ──────────────────────────────┐
//!            ▼                                                                                │
//!   start: admin connection, bring-up ──► joining: IO connections, their Connect ──► ready: IOs, keep-alive, events
//!            │ a fault that will not pass, or too many tries                                  │ close()
//!            ▼                                                                                ▼
//!           over ◄──────────────────────── closing: CC.SHN ◄──────────────────────────────────┘
//!
//!   submit ──► [ waiting, by class ] ──credit and queue have room──► sent on a connection ──► Ended
//!                      ▲                                               │
//!                      └─────────── connection lost, tries left ───────┘
//! ```
//!
//! A fault of any connection is a fault of the controller: all connections close, outstanding IOs go back to the head of the
//! wait queue in their old order, or end, and after a wait the session starts again.
//!
//! Holds: every accepted IO ends exactly once; there are never more outstanding IOs than credit (both in `tests`).
//! Here: `io` is the path of an IO, `admin` the way to a ready controller, `proof` the proof of who this host is, `ends` has faults, timeouts and closing.
//! Elsewhere: `engine` has sockets and the clock, `nvme::host` decides which admin command comes when, `wait_queue`
//!        holds waiting IOs.
//! Paper: Gimbal §3.6, Appendix B, Algorithm 3.

mod admin;
mod ends;
mod io;
mod proof;

use crate::backoff::Retries;
use crate::connection::{Batch, Connection, ConnectionEvent};
use crate::discover::Discovered;
use crate::fault::{ConnectError, Fault};
use crate::namespace::Namespace;
use crate::options::ControllerOptions;
use crate::request::Completion;
use crate::view::{BusyView, Meter, View};
use crate::wait_queue::WaitQueue;
use auth::hello::Psk;
use nvme::host::{AdminOptions, ControllerInfo, HostController, Names, Purpose};
use nvme::rdma::{OpenQueue, RdmaHostWork};
use sched::{Credit, CreditWindow};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// Number of the admin connection; IO queues follow from 1.
const ADMIN: usize = 0;

/// A request or an event of a session.
#[derive(Debug)]
pub(crate) enum Output {
    /// Connect this connection.
    Open(usize),
    /// Close this connection, after sending these bytes if there are any (a TermReq). The outputs that follow have buffers that the
    /// controller could reach until then.
    Close(usize, Vec<u8>),
    /// An IO has ended.
    Ended(Completion),
    /// IOs can be sent. `first`: for the first time.
    Ready { first: bool },
    /// The controller was lost, or a connection attempt failed. The next attempt starts after this time.
    Down { fault: Fault, retry_in: Nanos },
    /// Namespaces were added or removed, or changed.
    NamespacesChanged,
    /// The discovery log. The session then closes itself.
    Discovered(Vec<Discovered>),
    /// The controller is given up.
    GaveUp(Box<ConnectError>),
    /// The session was closed by the caller.
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
    controller: HostController,
    connections: Vec<Connection>,
    /// Links with something to send.
    marked: Vec<usize>,
    window: CreditWindow,
    wait_queue: WaitQueue,
    /// As of the last time the controller was ready.
    info: ControllerInfo,
    namespaces: Vec<Namespace>,
    /// The namespaces of the current connection, once they are known.
    found: Option<Vec<Namespace>>,
    was_ready: bool,
    /// Not later than the next thing that `on_time` has to do.
    alarm: Instant,
    /// Where the search for a queue starts.
    next_queue: usize,
    meter: Meter,
    /// As the last completion said.
    busy: Option<BusyView>,
    outputs: VecDeque<Output>,
    /// The last transaction of a proof.
    transactions: u16,
    /// The key for TLS that this try to connect has made.
    generated: Option<Psk>,
    /// Empty between calls; kept to reuse its memory.
    connection_events: Vec<ConnectionEvent>,
}

impl Session {
    /// A session that starts to connect.
    pub(crate) fn new(now: Instant, options: ControllerOptions, purpose: Purpose) -> Session {
        let mut session = Session {
            purpose,
            phase: Phase::Over,
            retries: Retries::new(options.backoff, options.seed),
            controller: controller(&options, purpose),
            connections: Vec::new(),
            marked: Vec::new(),
            window: CreditWindow::new(Credit(u32::MAX)),
            wait_queue: WaitQueue::new(options.waiting_max),
            info: ControllerInfo::default(),
            namespaces: Vec::new(),
            found: None,
            was_ready: false,
            alarm: Instant::FAR_FUTURE,
            next_queue: 0,
            meter: Meter::default(),
            busy: None,
            outputs: VecDeque::new(),
            transactions: 0,
            generated: None,
            connection_events: Vec::new(),
            options,
        };
        session.start(now);
        session
    }

    /// Its options.
    pub(crate) fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// The keys for TLS of a connection that is opened now; `None` without TLS.
    pub(crate) fn psks(&self) -> Option<Vec<Psk>> {
        let (host, controller) = (self.options.host.as_str(), self.options.subsystem.as_str());
        let configured = self.options.keys.tls.as_ref().map(|tls| tls.psks(host, controller));
        configured.or_else(|| self.generated.clone().map(|psk| vec![psk]))
    }

    /// The information about the controller.
    pub(crate) fn info(&self) -> &ControllerInfo {
        &self.info
    }

    /// The namespaces last seen.
    pub(crate) fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// The client's view of the SSD.
    pub(crate) fn view(&self) -> View {
        let mut view = View {
            is_ready: self.phase == Phase::Ready,
            credit: self.info.credit.map(|_| self.window.credit().0),
            busy: self.busy,
            in_flight: self.window.in_flight(),
            waiting: self.wait_queue.len(),
            ..View::default()
        };
        self.meter.show(&mut view);
        view
    }

    /// The oldest request or event.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A connection that has something to send.
    pub(crate) fn poll_marked(&mut self) -> Option<usize> {
        let connection = self.marked.pop()?;
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.is_marked = false;
        }
        Some(connection)
    }

    /// Writes the data that a connection has to send into `batch`.
    pub(crate) fn poll_transmit(&mut self, connection: usize, batch: &mut impl Batch) {
        if let Some(connection) = self.connections.get_mut(connection).filter(|connection| connection.is_open)
        {
            connection.poll_transmit(batch);
        }
    }

    /// The request with which the queue pair of a connection is opened; `None` without that connection.
    pub(crate) fn open_queue(&mut self, connection: usize) -> Option<OpenQueue> {
        Some(self.connections.get_mut(connection)?.open_queue())
    }

    /// The next work for the queue pair of a connection, which has `room` for a capsule or not.
    pub(crate) fn poll_work(&mut self, connection: usize, room: bool) -> Result<Option<RdmaHostWork>, Fault> {
        self.connections.get_mut(connection).map_or(Ok(None), |connection| connection.poll_work(room))
    }

    /// The memory that the controller reaches for the data of a command on a connection.
    #[cfg(test)]
    pub(crate) fn reached(&mut self, connection: usize, tag: u16) -> Option<&mut [u8]> {
        self.connections.get_mut(connection)?.reached(tag)
    }

    /// A batch of the connection was sent: there may be more to send.
    pub(crate) fn on_sent(&mut self, connection: usize) {
        self.mark(connection);
    }

    /// The latest time to call `on_time`.
    pub(crate) fn alarm(&self) -> Instant {
        self.alarm
    }

    fn mark(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(number)
            && !connection.is_marked
            && connection.wants_to_send()
        {
            connection.is_marked = true;
            self.marked.push(number);
        }
    }
}

/// A controller on which no command was sent yet.
fn controller(options: &ControllerOptions, purpose: Purpose) -> HostController {
    let names =
        Names { subsystem: options.subsystem.clone(), host: options.host.clone(), host_id: options.host_id };
    let (io_queues, credits) = (options.io_queues, options.credits);
    // Reading a log takes very little time, and Linux's discovery controllers do not support keep-alive.
    let keep_alive = if purpose == Purpose::Io { options.keep_alive } else { Nanos::ZERO };
    let authenticates = options.keys.dhchap.is_some();
    HostController::new(names, AdminOptions { purpose, io_queues, credits, keep_alive, authenticates })
}
