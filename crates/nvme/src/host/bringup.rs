//! Bring-up: from a new admin queue to a controller that is ready and identified, one command at a time.
//!
//! ```text
//!   Connect > (the driver authenticates the queue, if that is required) > CAP > CC.EN = 0 > CSTS until not ready > CC.EN = 1 > CSTS until ready > Identify Controller
//!     IO controller:        > number of queues > credits (if wanted) > events > done
//!     discovery controller: > events > done
//! ```
//!
//! Linux also writes CC with EN 0 first, but does not wait. Waiting costs one command, and works with
//! controllers that an earlier association has left enabled.
//!
//! NVM Express Base Specification: "Controller Initialization".

use super::commands::{AdminCommand, Names};
use super::error::{ConnectRefusal, Doing, HostError};
use super::info::ControllerInfo;
use super::{AdminOptions, Purpose};
use crate::spec::Cqe;
use crate::spec::connect::{CNTLID_DYNAMIC, ConnectResult};
use crate::spec::feature::{self, QueueCounts};
use crate::spec::identify::cns;
use crate::spec::identify_controller::IdentifyController;
use crate::spec::property::{Capabilities, Configuration, ControllerStatus, PropertySize, offset};
use units::{Instant, Nanos};
use zerocopy::FromBytes;

/// Entries of the admin queue, the same as Linux uses.
const ADMIN_ENTRIES: u16 = 32;
/// Interval at which CSTS is polled.
pub(super) const STATUS_POLL: Nanos = Nanos::millis(10);
/// Unit of CAP.TO. A CAP.TO of 0 is treated as 1.
const TIMEOUT_UNIT: Nanos = Nanos::millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Connect,
    Authentication,
    Capabilities,
    Configure { enable: bool },
    Status { enable: bool },
    Identify,
    Queues,
    Credits,
    Events,
    Done,
}

/// The next step.
pub(super) enum Progress {
    /// Send a command at this time or later.
    Send(Instant),
    /// The driver authenticates the queue.
    Wait,
    /// Bring-up is complete.
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Bringup {
    stage: Stage,
    not_before: Instant,
    give_up_at: Instant,
    ready_timeout: Nanos,
    pub(super) configuration: Configuration,
    pub(super) info: ControllerInfo,
}

impl Bringup {
    pub(super) fn new() -> Bringup {
        Bringup {
            stage: Stage::Connect,
            not_before: Instant::ZERO,
            give_up_at: Instant::FAR_FUTURE,
            ready_timeout: TIMEOUT_UNIT,
            configuration: Configuration::default(),
            info: ControllerInfo::default(),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        match self.stage {
            Stage::Done => Progress::Done,
            Stage::Authentication => Progress::Wait,
            _ => Progress::Send(self.not_before),
        }
    }

    /// Whether the controller is ready, so that keep-alive must run.
    pub(super) fn is_enabled(&self) -> bool {
        matches!(self.stage, Stage::Identify | Stage::Queues | Stage::Credits | Stage::Events | Stage::Done)
    }

    pub(super) fn ready_timeout(&self) -> Nanos {
        self.ready_timeout
    }

    pub(super) fn command(&self, names: &Names, options: &AdminOptions) -> AdminCommand {
        match self.stage {
            Stage::Connect => names.connect(0, ADMIN_ENTRIES, CNTLID_DYNAMIC, options.keep_alive_millis()),
            Stage::Capabilities => AdminCommand::property_get(offset::CAP, PropertySize::Eight),
            Stage::Configure { .. } => AdminCommand::set_configuration(self.configuration.0),
            Stage::Status { .. } => AdminCommand::property_get(offset::CSTS, PropertySize::Four),
            Stage::Identify => AdminCommand::identify(cns::CONTROLLER, 0),
            Stage::Queues => {
                let wanted = QueueCounts::both(options.io_queues.max(1));
                AdminCommand::set_feature(feature::NUMBER_OF_QUEUES, wanted.to_wire())
            }
            Stage::Credits => AdminCommand::ask_for_credits(),
            Stage::Events => AdminCommand::set_feature(feature::ASYNC_EVENT_CONFIGURATION, self.info.events),
            Stage::Authentication | Stage::Done => unreachable!("there is no command of the bring-up"),
        }
    }

    /// Whether Connect is not answered yet.
    pub(super) fn awaits_connect(&self) -> bool {
        self.stage == Stage::Connect
    }

    /// Whether the driver has to authenticate the queue.
    pub(super) fn awaits_proof(&self) -> bool {
        self.stage == Stage::Authentication
    }

    /// The queue is authenticated.
    pub(super) fn on_proved(&mut self, now: Instant) {
        self.not_before = now;
        self.stage = Stage::Capabilities;
    }

    pub(super) fn on_answer(
        &mut self,
        now: Instant,
        options: &AdminOptions,
        cqe: &Cqe,
        data: &[u8],
    ) -> Result<(), HostError> {
        let done = |doing| match cqe.status() {
            status if status.is_success() => Ok(()),
            status => Err(HostError::Failed(doing, status)),
        };
        self.not_before = now;
        self.stage = match self.stage {
            Stage::Connect => {
                let result = connect_result(cqe, options.authenticates)?;
                self.info = ControllerInfo::connected(result);
                if result.authentication_required { Stage::Authentication } else { Stage::Capabilities }
            }
            Stage::Capabilities => {
                done(Doing::ReadingProperty)?;
                let capabilities = Capabilities(cqe.result());
                self.info.queue_entries_max = capabilities.queue_entries();
                self.ready_timeout = Nanos(TIMEOUT_UNIT.get() * u64::from(capabilities.timeout().max(1)));
                self.configuration = Configuration::host(capabilities.io_command_sets());
                Stage::Configure { enable: false }
            }
            Stage::Configure { enable } => {
                done(Doing::Configuring)?;
                self.give_up_at = now + self.ready_timeout;
                Stage::Status { enable }
            }
            Stage::Status { enable } => {
                done(Doing::ReadingProperty)?;
                let status = ControllerStatus(cqe.dw0());
                match (status.fatal() && enable, status.ready() == enable) {
                    (true, _) => return Err(HostError::ControllerFatal),
                    (_, true) if enable => Stage::Identify,
                    (_, true) => {
                        self.configuration = self.configuration.enabled();
                        Stage::Configure { enable: true }
                    }
                    (_, false) if now >= self.give_up_at => {
                        return Err(HostError::NotReady(self.ready_timeout));
                    }
                    (_, false) => {
                        self.not_before = now + STATUS_POLL;
                        self.stage
                    }
                }
            }
            Stage::Identify => {
                done(Doing::IdentifyingController)?;
                let (identify, _) = IdentifyController::ref_from_prefix(data)
                    .map_err(|_| HostError::ShortData(Doing::IdentifyingController))?;
                let io = options.purpose == Purpose::Io;
                self.info.learn(identify, options.keep_alive_millis() != 0, io)?;
                if io { Stage::Queues } else { self.events_or_done() }
            }
            Stage::Queues => {
                done(Doing::AskingForQueues)?;
                let granted = QueueCounts::from_wire(cqe.dw0());
                let granted = granted.submission.min(granted.completion);
                self.info.io_queues =
                    u16::try_from(granted).unwrap_or(u16::MAX).min(options.io_queues.max(1));
                if options.credits { Stage::Credits } else { self.events_or_done() }
            }
            Stage::Credits => {
                // Any failure means that the controller does not support credits. That is not an error.
                self.info.credit = cqe.status().is_success().then(|| cqe.dw0());
                self.events_or_done()
            }
            Stage::Events => {
                done(Doing::AskingForEvents)?;
                Stage::Done
            }
            Stage::Authentication | Stage::Done => unreachable!("no command of the bring-up was outstanding"),
        };
        Ok(())
    }

    fn events_or_done(&self) -> Stage {
        if self.info.events == 0 { Stage::Done } else { Stage::Events }
    }
}

/// The result of a Connect, or the reason why it was refused. `authenticates`: the driver can authenticate queues.
pub(super) fn connect_result(cqe: &Cqe, authenticates: bool) -> Result<ConnectResult, HostError> {
    let refused = |refusal| Err(HostError::ConnectRefused(refusal));
    if !cqe.status().is_success() {
        return refused(ConnectRefusal::of(cqe.status(), cqe.dw0()));
    }
    match ConnectResult::from_dw0(cqe.dw0()) {
        result if result.secure_channel_required => refused(ConnectRefusal::SecureChannelRequired),
        result if result.authentication_required && !authenticates => {
            refused(ConnectRefusal::AuthenticationRequired)
        }
        result => Ok(result),
    }
}
