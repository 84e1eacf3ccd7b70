//! From a fresh admin queue to a controller that is understood: one command at a time.
//!
//! ```text
//!   Connect > CAP > CC.EN=1 > CSTS until RDY > Identify Controller
//!     IO controller:        > queues > credits > events > namespace list > each namespace > its names > done
//!     discovery controller: > log header > log entries > log header again (until the generation holds still) > done
//! ```
//!
//! Sans-IO: `next` says what to send or how long to wait, `on_completed` takes the answer. The same machine looks at the
//! namespaces again when the controller says that they changed ([`Bringup::rescan`]).
//!
//! Elsewhere: IO queues connect in `session`; keep-alive and event requests too.
//! NVM Express Base Specification: "Controller Initialization"; order as Linux hosts keep it.

use crate::fault::{ConnectRefusal, Fault};
use crate::namespace::{ControllerInfo, Namespace};
use crate::options::{ControllerOptions, TRANSFER_MAX};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, ConnectResult};
use nvme::spec::discovery::{DiscoveryEntry, DiscoveryHeader, RECORD_SIZE, SubsystemType};
use nvme::spec::event::EventKind;
use nvme::spec::feature::{
    ASYNC_EVENT_CONFIGURATION, CREDITS, CREDITS_ENABLED, NUMBER_OF_QUEUES, QueueCounts,
};
use nvme::spec::identify::{
    CSI_NVM, IDENTIFY_SIZE, IdentifyCommand, NSID_ALL, cns, descriptor, read_namespace_list,
};
use nvme::spec::identify_controller::IdentifyController;
use nvme::spec::identify_namespace::IdentifyNamespace;
use nvme::spec::log::{CHANGED_NAMESPACES, CHANGED_NAMESPACES_MAX, DISCOVERY, LogRequest};
use nvme::spec::opcode::{admin, fabrics};
use nvme::spec::property::{Capabilities, Configuration, ControllerStatus, PropertySize, offset};
use nvme::spec::{Cqe, Sqe};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};
use zerocopy::{FromBytes, IntoBytes};

/// SQSIZE of the admin queue, one less than its entries.
pub(crate) const ADMIN_SQSIZE: u16 = 31;
/// How often CSTS is looked at while the controller gets ready.
const READY_POLL: Nanos = Nanos::millis(10);
/// Entries of a discovery log that are read: more subsystems than anybody lists, and a bound on memory.
const DISCOVERY_ENTRIES_MAX: u64 = 1024;
/// Namespaces that are looked at; a bound on memory and on the time to connect.
const NAMESPACES_MAX: usize = 1024;
/// MDTS counts in units of the controller's smallest page; 4 KiB on every controller over fabrics.
const MDTS_UNIT: u64 = 4096;
/// IOCCSZ counts in 16 bytes and includes the command's 64.
const CAPSULE_UNIT: u32 = 16;

/// A subsystem that discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// Its name.
    pub subsystem: nvme::spec::nqn::Nqn,
    /// The address the target gives for it: an IP address or what else it wrote there.
    pub address: String,
    /// The port.
    pub port: Option<u16>,
}

/// What a bring-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// IO.
    Io,
    /// Reading the discovery log.
    Discovery,
}

/// Data of an admin command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AdminData {
    None,
    To(Vec<u8>),
    /// So many bytes come.
    From(usize),
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Send(Sqe, AdminData),
    Wait(Instant),
    /// An answer is awaited.
    Pending,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    Capabilities,
    Enable,
    Status,
    WaitReady(Instant),
    Identify,
    Queues,
    Credits,
    Events,
    ChangedList,
    NamespaceList,
    Namespace(u32),
    NamespaceNames(u32),
    LogHeader,
    LogEntries(u64),
    LogCheck,
    Done,
}

/// One controller's bring-up.
#[derive(Debug)]
pub(crate) struct Bringup {
    purpose: Purpose,
    connect: ConnectData,
    keep_alive: Nanos,
    io_queues: u16,
    want_credits: bool,
    step: Step,
    is_pending: bool,
    /// What the controller was enabled with (CC).
    pub(crate) configuration: Configuration,
    generation: u64,
    to_scan: VecDeque<u32>,
    scanned: Vec<Namespace>,
    /// What was learned about the controller.
    pub(crate) info: ControllerInfo,
    /// The namespaces found, complete when done.
    pub(crate) namespaces: Vec<Namespace>,
    /// The subsystems found, complete when done.
    pub(crate) discovered: Vec<Discovered>,
}

impl Bringup {
    pub(crate) fn new(options: &ControllerOptions, purpose: Purpose) -> Bringup {
        let connect = ConnectData::new(options.host_id, &options.host, &options.subsystem, CNTLID_DYNAMIC);
        Bringup {
            purpose,
            connect,
            keep_alive: if purpose == Purpose::Io { options.keep_alive } else { Nanos::ZERO },
            io_queues: options.io_queues,
            want_credits: options.credits,
            step: Step::Connect,
            is_pending: false,
            configuration: Configuration::default(),
            generation: 0,
            to_scan: VecDeque::new(),
            scanned: Vec::new(),
            info: ControllerInfo::default(),
            namespaces: Vec::new(),
            discovered: Vec::new(),
        }
    }

    /// Looks at the namespaces again. Answers whether it does: not while it is at something already.
    pub(crate) fn rescan(&mut self) -> bool {
        let is_free = self.step == Step::Done;
        if is_free {
            self.step = Step::ChangedList;
        }
        is_free
    }

    /// The Connect data of an IO queue of the same controller.
    pub(crate) fn io_queue_connect(&self, options: &ControllerOptions) -> Vec<u8> {
        let id = self.info.controller_id;
        ConnectData::new(options.host_id, &options.host, &options.subsystem, id).as_bytes().to_vec()
    }

    /// What is being waited for, for people.
    pub(crate) fn waiting_for(&self) -> &'static str {
        match self.step {
            Step::Connect => "Connect of the admin queue",
            Step::Capabilities | Step::Enable => "enabling the controller",
            Step::Status | Step::WaitReady(_) => "CSTS.RDY",
            Step::Identify => "Identify Controller",
            Step::Queues | Step::Credits | Step::Events => "Set Features",
            Step::ChangedList => "the list of changed namespaces",
            Step::NamespaceList | Step::Namespace(_) | Step::NamespaceNames(_) => {
                "Identify of the namespaces"
            }
            Step::LogHeader | Step::LogEntries(_) | Step::LogCheck => "the discovery log",
            Step::Done => "IO queues",
        }
    }

    /// What to do at `now`. After `Send`, the next call that matters is `on_completed`.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if self.is_pending {
            return Next::Pending;
        }
        if let Step::WaitReady(until) = self.step {
            if now < until {
                return Next::Wait(until);
            }
            self.step = Step::Status;
        }
        let identify = |cns, nsid| {
            let command = IdentifyCommand { cns, controller_id: 0, command_set: CSI_NVM };
            (command.to_sqe(nsid), AdminData::From(IDENTIFY_SIZE))
        };
        let log =
            |at, length| (LogRequest::read(DISCOVERY, at, length as u64).to_sqe(0), AdminData::From(length));
        let (sqe, data) = match self.step {
            Step::Connect => {
                let command = ConnectCommand {
                    record_format: 0,
                    queue_id: 0,
                    sqsize: ADMIN_SQSIZE,
                    attributes: 0,
                    keep_alive_timeout: u32::try_from(self.keep_alive.get().div_ceil(NANOS_PER_MILLI))
                        .unwrap_or(u32::MAX),
                };
                (command.to_sqe(), AdminData::To(self.connect.as_bytes().to_vec()))
            }
            Step::Capabilities => (property_get(offset::CAP, PropertySize::Eight), AdminData::None),
            Step::Enable => (property_set(offset::CC, self.configuration.0), AdminData::None),
            Step::Status => (property_get(offset::CSTS, PropertySize::Four), AdminData::None),
            Step::Identify => identify(cns::CONTROLLER, 0),
            Step::Queues => {
                (set_features(NUMBER_OF_QUEUES, QueueCounts::both(self.io_queues).to_wire()), AdminData::None)
            }
            Step::Credits => (set_features(CREDITS, CREDITS_ENABLED), AdminData::None),
            Step::Events => (set_features(ASYNC_EVENT_CONFIGURATION, self.info.events), AdminData::None),
            Step::ChangedList => {
                let length = CHANGED_NAMESPACES_MAX * size_of::<u32>();
                let request = LogRequest::read(CHANGED_NAMESPACES, 0, length as u64);
                (request.to_sqe(NSID_ALL), AdminData::From(length))
            }
            Step::NamespaceList => identify(cns::ACTIVE_NAMESPACES, 0),
            Step::Namespace(nsid) => identify(cns::NAMESPACE, nsid),
            Step::NamespaceNames(nsid) => identify(cns::NAMESPACE_DESCRIPTORS, nsid),
            Step::LogHeader | Step::LogCheck => log(0, RECORD_SIZE),
            Step::LogEntries(count) => log(RECORD_SIZE as u64, RECORD_SIZE * count as usize),
            Step::Done => return Next::Done,
            Step::WaitReady(_) => unreachable!("waiting was dealt with above"),
        };
        self.is_pending = true;
        Next::Send(sqe, data)
    }

    /// The answer to what was sent.
    pub(crate) fn on_completed(&mut self, now: Instant, cqe: &Cqe, data: &[u8]) -> Result<(), Fault> {
        assert!(self.is_pending, "an answer came though nothing was sent");
        self.is_pending = false;
        let what = self.waiting_for();
        let ok = || if cqe.status().is_success() { Ok(()) } else { Err(Fault::Failed(what, cqe.status())) };
        self.step = match self.step {
            Step::Connect => {
                if !cqe.status().is_success() {
                    return Err(Fault::Refused(ConnectRefusal::of(cqe.status(), cqe.dw0())));
                }
                let result = ConnectResult::from_dw0(cqe.dw0());
                if result.authentication_required {
                    return Err(Fault::Refused(ConnectRefusal::AuthenticationRequired));
                }
                self.info.controller_id = result.controller_id;
                Step::Capabilities
            }
            Step::Capabilities => {
                ok()?;
                let capabilities = Capabilities(cqe.result());
                self.info.queue_entries_max = capabilities.queue_entries();
                self.configuration = Configuration::host(capabilities.io_command_sets()).enabled();
                Step::Enable
            }
            Step::Enable => {
                ok()?;
                Step::Status
            }
            Step::Status => {
                ok()?;
                let status = ControllerStatus(cqe.dw0());
                if status.fatal() {
                    return Err(Fault::NotReady(
                        Nanos::ZERO,
                        "the controller reports a fatal state (CSTS.CFS)",
                    ));
                }
                if status.ready() { Step::Identify } else { Step::WaitReady(now + READY_POLL) }
            }
            Step::Identify => {
                ok()?;
                let identify = IdentifyController::ref_from_bytes(data).expect("the session checks lengths");
                self.learn_controller(identify)?;
                match self.purpose {
                    Purpose::Io => Step::Queues,
                    Purpose::Discovery => Step::LogHeader,
                }
            }
            Step::Queues => {
                ok()?;
                let granted = QueueCounts::from_wire(cqe.dw0());
                let granted = granted.submission.min(granted.completion);
                self.info.io_queues = u16::try_from(granted).unwrap_or(u16::MAX).min(self.io_queues);
                if self.want_credits { Step::Credits } else { self.after_credits() }
            }
            Step::Credits => {
                // Any failure means that the target does not know credits, which is no fault.
                self.info.credit = cqe.status().is_success().then(|| cqe.dw0());
                self.after_credits()
            }
            // Reading the list re-arms the event; all namespaces are looked at anyway.
            Step::Events | Step::ChangedList => {
                ok()?;
                Step::NamespaceList
            }
            Step::NamespaceList => {
                ok()?;
                self.to_scan = read_namespace_list(data).take(NAMESPACES_MAX).collect();
                self.scanned.clear();
                self.next_namespace()
            }
            Step::Namespace(nsid) => {
                // A namespace may vanish between the list and the look.
                let identify = IdentifyNamespace::ref_from_bytes(data).expect("the session checks lengths");
                match identify.block_size().filter(|_| cqe.status().is_success() && identify.nsze.get() > 0) {
                    Some(block_size) => {
                        self.scanned.push(Namespace {
                            nsid,
                            block_size: Bytes(u64::from(block_size)),
                            blocks: identify.nsze.get(),
                            nguid: identify.nguid,
                            uuid: None,
                        });
                        Step::NamespaceNames(nsid)
                    }
                    None => self.next_namespace(),
                }
            }
            Step::NamespaceNames(_) => {
                // The list of names is optional before version 1.3.
                if cqe.status().is_success()
                    && let Some(namespace) = self.scanned.last_mut()
                {
                    let ids = descriptor::parse(data);
                    namespace.uuid = ids.uuid;
                    namespace.nguid = ids.nguid.unwrap_or(namespace.nguid);
                }
                self.next_namespace()
            }
            Step::LogHeader => {
                ok()?;
                let header = DiscoveryHeader::ref_from_bytes(data).expect("the session checks lengths");
                self.generation = header.generation.get();
                self.discovered.clear();
                match header.records.get().min(DISCOVERY_ENTRIES_MAX) {
                    0 => Step::Done,
                    count => Step::LogEntries(count),
                }
            }
            Step::LogEntries(_) => {
                ok()?;
                self.discovered = data.chunks_exact(RECORD_SIZE).filter_map(discovered).collect();
                Step::LogCheck
            }
            Step::LogCheck => {
                ok()?;
                let header = DiscoveryHeader::ref_from_bytes(data).expect("the session checks lengths");
                if header.generation.get() == self.generation { Step::Done } else { Step::LogHeader }
            }
            Step::WaitReady(_) | Step::Done => unreachable!("nothing is sent in {:?}", self.step),
        };
        Ok(())
    }

    fn after_credits(&self) -> Step {
        if self.info.events == 0 { Step::NamespaceList } else { Step::Events }
    }

    fn next_namespace(&mut self) -> Step {
        match self.to_scan.pop_front() {
            Some(nsid) => Step::Namespace(nsid),
            None => {
                self.namespaces = std::mem::take(&mut self.scanned);
                Step::Done
            }
        }
    }

    fn learn_controller(&mut self, identify: &IdentifyController) -> Result<(), Fault> {
        const SGLS_SUPPORTED: u32 = 3;
        let info = &mut self.info;
        if self.keep_alive > Nanos::ZERO && identify.kas.get() == 0 {
            return Err(Fault::Lacking("keep-alive (KAS is 0)"));
        }
        info.transfer_max = match identify.mdts {
            0 => TRANSFER_MAX,
            mdts => Bytes(MDTS_UNIT.checked_shl(u32::from(mdts)).unwrap_or(u64::MAX)).min(TRANSFER_MAX),
        };
        info.optional = identify.oncs.get();
        info.serial = nvme::spec::identify_controller::unpadded(&identify.sn).to_string();
        info.model = nvme::spec::identify_controller::unpadded(&identify.mn).to_string();
        if self.purpose == Purpose::Io {
            if identify.sgls.get() & SGLS_SUPPORTED == 0 {
                return Err(Fault::Lacking("SGLs (SGLS is 0)"));
            }
            let capsule = identify.ioccsz.get().saturating_mul(CAPSULE_UNIT);
            info.in_capsule_max = capsule
                .checked_sub(Sqe::SIZE as u32)
                .ok_or(Fault::Lacking("capsules of 64 bytes (IOCCSZ)"))?;
            info.events = identify.oaes.get() & EventKind::NamespaceChanged.configuration_bit();
            if identify.maxcmd.get() > 0 {
                info.queue_entries_max = info.queue_entries_max.min(u32::from(identify.maxcmd.get()));
            }
        }
        Ok(())
    }
}

const NANOS_PER_MILLI: u64 = 1_000_000;

fn property_get(offset: u32, size: PropertySize) -> Sqe {
    Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([size.to_attributes(), offset, 0, 0, 0, 0])
}

/// Writes a property of four bytes.
pub(crate) fn property_set(offset: u32, value: u32) -> Sqe {
    let attributes = PropertySize::Four.to_attributes();
    Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([attributes, offset, value, 0, 0, 0])
}

fn set_features(feature: u8, value: u32) -> Sqe {
    Sqe::new(admin::SET_FEATURES).with_cdw10_15([u32::from(feature), value, 0, 0, 0, 0])
}

fn discovered(record: &[u8]) -> Option<Discovered> {
    let entry = DiscoveryEntry::ref_from_bytes(record).ok()?;
    let is_ours = entry.is_tcp() && entry.subsystem_type() == Some(SubsystemType::Nvm);
    let subsystem = entry.subsystem_nqn().filter(|_| is_ours)?;
    Some(Discovered { subsystem, address: entry.address(), port: entry.port() })
}
