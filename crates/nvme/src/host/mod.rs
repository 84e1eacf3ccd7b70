//! The host side of one controller: bring-up, namespaces, discovery, keep-alive, events, shutdown.
//!
//! [`HostController`] decides what goes over the admin queue. Sockets, command identifiers and IO belong to
//! the driver. At most three commands are outstanding: one of the current sequence, one Keep Alive, one
//! Asynchronous Event Request.
//!
//! ```text
//!   bring-up > Ready (the driver connects IO queues) > scan > Namespaces ... events > scan again > Namespaces
//!   bring-up > Ready > discovery log > Discovered ... an event > log again > Discovered
//!   shut_down > CC.SHN > CSTS until complete > ShutDown
//! ```
//!
//! The driver sends the commands that `poll` returns, passes every answer with its tag to `on_completed`, and
//! takes events from `poll_event`. It calls `poll` and `poll_event` after every other call and at
//! `next_timeout`. After an error the controller cannot be used any more: close its connections and start
//! again.
//!
//! Holds: it works with our own subsystem (`tests/controller/bringup.rs`), in the same order as Linux.
//! NVM Express Base Specification: "Controller Initialization", "Association".

mod bringup;
mod commands;
mod discovery;
mod error;
mod info;
mod keep_alive;
mod scan;

pub use commands::{AdminCommand, AdminData, Names};
pub use error::{ConnectRefusal, Doing, HostError};
pub use info::{ControllerInfo, NamespaceView};

use crate::spec::Cqe;
use crate::spec::discovery::DiscoveryEntry;
use crate::spec::event::EventKind;
use crate::spec::identify::NSID_ALL;
use crate::spec::log::{self, LogRequest};
use crate::spec::property::{ControllerStatus, PropertySize, offset};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use bringup::{Bringup, Progress, STATUS_POLL};
use discovery::DiscoveryReader;
use keep_alive::KeepAliveSchedule;
use scan::{Scan, apply_ana};
use units::{Instant, Nanos};

/// The purpose of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// IO.
    Io,
    /// Discovery.
    Discovery,
}

/// Options that a host requests from a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminOptions {
    /// The purpose of the controller.
    pub purpose: Purpose,
    /// IO queues to request; the target may grant fewer.
    pub io_queues: u16,
    /// Whether to request credits. A target that does not support them is used without.
    pub credits: bool,
    /// The keep-alive timeout, rounded up to milliseconds; zero turns it off.
    pub keep_alive: Nanos,
    /// Whether the driver can authenticate queues. Without it, a target that requires that is a refusal.
    pub authenticates: bool,
}

impl AdminOptions {
    fn keep_alive_millis(&self) -> u32 {
        let millis = self.keep_alive.get().div_ceil(Nanos::millis(1).get());
        u32::try_from(millis).unwrap_or(u32::MAX)
    }
}

/// Which outstanding command an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// The command of the current sequence.
    Sequence,
    /// The Keep Alive.
    KeepAlive,
    /// The Asynchronous Event Request.
    EventRequest,
}

/// An event for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminEvent {
    /// The controller is ready. The driver may connect IO queues 1 to `info.io_queues`.
    Ready(ControllerInfo),
    /// All namespaces: after bring-up, and each time one is added or removed or its size or access state
    /// changes.
    Namespaces(Vec<NamespaceView>),
    /// All discovery entries: after bring-up, and each time they change.
    Discovered(Vec<DiscoveryEntry>),
    /// Another host changed a reservation or registration of this host. The data is the Reservation
    /// Notification page.
    ReservationNotification(Vec<u8>),
    /// The shutdown is complete: close the connections.
    ShutDown,
}

/// The current sequence.
#[derive(Clone, Debug)]
enum Activity {
    Bringup(Bringup),
    Idle,
    Scan(Scan),
    Discovery(DiscoveryReader),
    AnaLog,
    NotificationLog,
    Shutdown { started: bool, not_before: Instant, give_up_at: Instant },
    ShutDown,
}

/// The host side of one controller. See the module documentation.
#[derive(Clone, Debug)]
pub struct HostController {
    names: Names,
    options: AdminOptions,
    activity: Activity,
    is_answer_due: bool,
    /// Set by the bring-up.
    info: ControllerInfo,
    configuration: crate::spec::property::Configuration,
    ready_timeout: Nanos,
    keep_alive: Option<KeepAliveSchedule>,
    /// Kinds of reported events with log pages that are still to be read.
    reported: BTreeSet<EventKind>,
    wants_scan: bool,
    wants_shutdown: bool,
    has_event_request: bool,
    namespaces: Vec<NamespaceView>,
    events: VecDeque<AdminEvent>,
}

impl HostController {
    /// A controller that is not brought up yet. Its admin connection is open and initialized; no command was
    /// sent on it.
    pub fn new(names: Names, options: AdminOptions) -> HostController {
        HostController {
            names,
            options,
            activity: Activity::Bringup(Bringup::new()),
            is_answer_due: false,
            info: ControllerInfo::default(),
            configuration: Default::default(),
            ready_timeout: Nanos::ZERO,
            keep_alive: None,
            reported: BTreeSet::new(),
            wants_scan: false,
            wants_shutdown: false,
            has_event_request: false,
            namespaces: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// The facts known about the controller; complete after `AdminEvent::Ready`.
    pub fn info(&self) -> &ControllerInfo {
        &self.info
    }

    /// The namespaces last reported.
    pub fn namespaces(&self) -> &[NamespaceView] {
        &self.namespaces
    }

    /// The Connect command of IO queue `queue_id`. It must be the first command on that queue's connection.
    /// Pass its answer to [`HostController::on_io_queue_answer`].
    pub fn connect_io_queue(&self, queue_id: u16, entries: u16) -> AdminCommand {
        self.names.connect(queue_id, entries, self.info.controller_id, 0)
    }

    /// The answer to the Connect of an IO queue. Returns whether the driver has to authenticate the queue.
    pub fn on_io_queue_answer(&self, cqe: &Cqe) -> Result<bool, HostError> {
        let result = bringup::connect_result(cqe, self.options.authenticates)?;
        Ok(result.authentication_required)
    }

    /// Whether the Connect of the admin queue was answered.
    pub fn is_connected(&self) -> bool {
        !matches!(&self.activity, Activity::Bringup(bringup) if bringup.awaits_connect())
    }

    /// Whether the driver has to authenticate the admin queue now, and then call [`HostController::on_proved`].
    pub fn awaits_proof(&self) -> bool {
        matches!(&self.activity, Activity::Bringup(bringup) if bringup.awaits_proof())
    }

    /// The admin queue is authenticated.
    pub fn on_proved(&mut self, now: Instant) {
        if let Activity::Bringup(bringup) = &mut self.activity {
            bringup.on_proved(now);
        }
    }

    /// Shuts the controller down when no sequence is running. IO queues should be idle.
    pub fn shut_down(&mut self) {
        self.wants_shutdown = true;
    }

    /// Reads the namespaces again without an event.
    pub fn rescan(&mut self) {
        self.wants_scan = true;
    }

    /// Notes that an IO command was sent. It may make a Keep Alive unnecessary.
    #[inline]
    pub fn on_traffic(&mut self) {
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.on_traffic();
        }
    }

    /// The next command to send on the admin queue. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Result<Option<(Tag, AdminCommand)>, HostError> {
        if let Some(keep_alive) = &mut self.keep_alive
            && keep_alive.is_due(now)?
        {
            return Ok(Some((Tag::KeepAlive, AdminCommand::keep_alive())));
        }
        if self.is_answer_due {
            return Ok(None);
        }
        if matches!(self.activity, Activity::Idle) {
            self.activity = self.next_activity(now);
        }
        let command = match &self.activity {
            Activity::Bringup(bringup) => match bringup.progress() {
                Progress::Send(at) if now >= at => bringup.command(&self.names, &self.options),
                Progress::Send(_) | Progress::Wait => return Ok(None),
                Progress::Done => unreachable!("a finished bring-up is not the current activity"),
            },
            Activity::Scan(scan) => scan.command(),
            Activity::Discovery(reader) => reader.command(),
            Activity::AnaLog => {
                let length = self.info.ana_log_length.min(self.info.transfer_max.get()) / 4 * 4;
                AdminCommand::log(LogRequest::read(log::ANA, 0, length), NSID_ALL)
            }
            Activity::NotificationLog => {
                let length = size_of::<log::ReservationNotificationPage>() as u64;
                AdminCommand::log(LogRequest::read(log::RESERVATION_NOTIFICATION, 0, length), NSID_ALL)
            }
            Activity::Shutdown { started: false, .. } => {
                AdminCommand::set_configuration(self.configuration.shutting_down().0)
            }
            Activity::Shutdown { not_before, .. } if now >= *not_before => {
                AdminCommand::property_get(offset::CSTS, PropertySize::Four)
            }
            Activity::Idle if self.wants_event_request() => {
                self.has_event_request = true;
                return Ok(Some((Tag::EventRequest, AdminCommand::event_request())));
            }
            Activity::Shutdown { .. } | Activity::Idle | Activity::ShutDown => return Ok(None),
        };
        self.is_answer_due = true;
        self.on_traffic();
        Ok(Some((Tag::Sequence, command)))
    }

    /// The answer to a command from `poll`, with its data.
    pub fn on_completed(&mut self, now: Instant, tag: Tag, cqe: &Cqe, data: &[u8]) -> Result<(), HostError> {
        match tag {
            Tag::KeepAlive if !cqe.status().is_success() => {
                Err(HostError::Failed(Doing::KeepingAlive, cqe.status()))
            }
            Tag::KeepAlive => {
                if let Some(keep_alive) = &mut self.keep_alive {
                    keep_alive.on_answer();
                }
                Ok(())
            }
            Tag::EventRequest => {
                // If the target fails the request, it has no events to report. Do not send another one.
                if cqe.status().is_success() {
                    self.has_event_request = false;
                    self.reported
                        .extend(EventKind::from_dw0(cqe.dw0()).filter(|&kind| self.understands(kind)));
                }
                Ok(())
            }
            Tag::Sequence => {
                assert!(self.is_answer_due, "an answer without a command");
                self.is_answer_due = false;
                self.on_sequence_answer(now, cqe, data)
            }
        }
    }

    /// The next event for the driver. Call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<AdminEvent> {
        self.events.pop_front()
    }

    /// When to call `poll` next if nothing else happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        let waiting = match &self.activity {
            _ if self.is_answer_due => None,
            Activity::Bringup(bringup) => match bringup.progress() {
                Progress::Send(at) => Some(at),
                Progress::Wait | Progress::Done => None,
            },
            Activity::Shutdown { started: true, not_before, .. } => Some(*not_before),
            _ => None,
        };
        let keep_alive = self.keep_alive.as_ref().and_then(KeepAliveSchedule::next_timeout);
        waiting.into_iter().chain(keep_alive).min()
    }

    /// Whether this host handles events of this kind.
    fn understands(&self, kind: EventKind) -> bool {
        match kind {
            EventKind::ReservationNotification => self.options.purpose == Purpose::Io,
            EventKind::AnaChanged => self.info.ana && self.info.events & kind.configuration_bit() != 0,
            _ => self.info.events & kind.configuration_bit() != 0,
        }
    }

    fn wants_event_request(&self) -> bool {
        self.info.events != 0 && !self.has_event_request
    }

    fn next_activity(&mut self, now: Instant) -> Activity {
        if self.wants_shutdown {
            let give_up_at = now + self.ready_timeout;
            return Activity::Shutdown { started: false, not_before: now, give_up_at };
        }
        let namespaces_changed = self.reported.remove(&EventKind::NamespaceChanged);
        if namespaces_changed || core::mem::take(&mut self.wants_scan) {
            return Activity::Scan(Scan::new(&self.info, namespaces_changed));
        }
        match self.reported.pop_first() {
            Some(EventKind::AnaChanged) => Activity::AnaLog,
            Some(EventKind::ReservationNotification) => Activity::NotificationLog,
            Some(EventKind::DiscoveryChanged) => {
                Activity::Discovery(DiscoveryReader::new(self.info.transfer_max))
            }
            Some(EventKind::NamespaceChanged) | None => Activity::Idle,
        }
    }

    fn on_sequence_answer(&mut self, now: Instant, cqe: &Cqe, data: &[u8]) -> Result<(), HostError> {
        let done = match &mut self.activity {
            Activity::Bringup(bringup) => {
                bringup.on_answer(now, &self.options, cqe, data)?;
                if bringup.is_enabled() && self.keep_alive.is_none() {
                    self.keep_alive = Some(KeepAliveSchedule::new(now, self.options.keep_alive));
                }
                matches!(bringup.progress(), Progress::Done)
            }
            Activity::Scan(scan) => {
                scan.on_answer(cqe, data)?;
                match scan.done() {
                    Some(found) => {
                        self.namespaces = found;
                        self.events.push_back(AdminEvent::Namespaces(self.namespaces.clone()));
                        true
                    }
                    None => false,
                }
            }
            Activity::Discovery(reader) => {
                reader.on_answer(cqe, data)?;
                match reader.done() {
                    Some(entries) => {
                        self.events.push_back(AdminEvent::Discovered(entries));
                        true
                    }
                    None => false,
                }
            }
            Activity::AnaLog => {
                if cqe.status().is_success() {
                    apply_ana(&mut self.namespaces, data);
                    self.events.push_back(AdminEvent::Namespaces(self.namespaces.clone()));
                }
                true
            }
            Activity::NotificationLog => {
                if cqe.status().is_success() {
                    self.events.push_back(AdminEvent::ReservationNotification(data.to_vec()));
                }
                true
            }
            Activity::Shutdown { started, .. } if !*started => {
                if !cqe.status().is_success() {
                    return Err(HostError::Failed(Doing::Configuring, cqe.status()));
                }
                *started = true;
                false
            }
            Activity::Shutdown { not_before, give_up_at, .. } => {
                if !cqe.status().is_success() {
                    return Err(HostError::Failed(Doing::ReadingProperty, cqe.status()));
                }
                if ControllerStatus(cqe.dw0()).shutdown_complete() {
                    self.events.push_back(AdminEvent::ShutDown);
                    self.keep_alive = None;
                    self.activity = Activity::ShutDown;
                    return Ok(());
                }
                if now >= *give_up_at {
                    return Err(HostError::NotReady(self.ready_timeout));
                }
                *not_before = now + STATUS_POLL;
                false
            }
            Activity::Idle | Activity::ShutDown => unreachable!("no command was outstanding"),
        };
        if done {
            self.on_activity_done();
        }
        Ok(())
    }

    fn on_activity_done(&mut self) {
        let Activity::Bringup(bringup) = core::mem::replace(&mut self.activity, Activity::Idle) else {
            return;
        };
        self.ready_timeout = bringup.ready_timeout();
        self.configuration = bringup.configuration;
        self.info = bringup.info;
        if let Some(keep_alive) = &mut self.keep_alive {
            keep_alive.set_traffic_counts(self.info.traffic_based_keep_alive);
        }
        self.events.push_back(AdminEvent::Ready(self.info.clone()));
        match self.options.purpose {
            Purpose::Io => self.wants_scan = true,
            Purpose::Discovery => {
                self.activity = Activity::Discovery(DiscoveryReader::new(self.info.transfer_max));
            }
        }
    }
}
