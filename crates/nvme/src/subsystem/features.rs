//! Features: the settings of a controller, and the answers to Get and Set Features.
//!
//! No feature is saved across restarts, so "saved" returns the default, and Save is refused. The
//! specification makes some features mandatory that have no effect here (arbitration, temperature,
//! atomicity): they are stored and read back. Features that do not exist on fabrics (interrupts) are not
//! supported.
//!
//! Holds: a changeable feature reads back as set, any other refuses to be set (`features_read_back_or_refuse` in
//!        `tests/controller/subsystem.rs`); the Feature Identifiers page lists exactly the features that Get
//!        Features supports (`SUPPORTED`).
//! NVM Express Base Specification: "Get Features command", "Set Features command".

use super::action::{Action, QueueKey};
use super::config::Role;
use super::{Queue, Subsystem, exact_length, write_data};
use crate::spec::event::EventKind;
use crate::spec::feature::{self, QueueCounts, Select, notification_mask, supported};
use crate::spec::identify::NSID_ALL;
use crate::spec::log;
use crate::spec::{Cqe, Sqe, Status};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use units::{Instant, Nanos};

/// A feature and its capabilities (`feature::supported`).
pub(super) struct Known {
    pub(super) id: u8,
    capabilities: u32,
    discovery: bool,
}

const fn known(id: u8, capabilities: u32, discovery: bool) -> Known {
    Known { id, capabilities, discovery }
}

/// All supported features. The last column: discovery controllers support it too.
const SUPPORTED: [Known; 15] = [
    known(feature::ARBITRATION, supported::CHANGEABLE, false),
    known(feature::POWER_MANAGEMENT, supported::CHANGEABLE, false),
    known(feature::TEMPERATURE_THRESHOLD, supported::CHANGEABLE, false),
    known(feature::ERROR_RECOVERY, 0, false),
    known(feature::VOLATILE_WRITE_CACHE, supported::CHANGEABLE, false),
    known(feature::NUMBER_OF_QUEUES, supported::CHANGEABLE, false),
    known(feature::WRITE_ATOMICITY, supported::CHANGEABLE, false),
    known(feature::ASYNC_EVENT_CONFIGURATION, supported::CHANGEABLE, true),
    known(feature::TIMESTAMP, supported::CHANGEABLE, false),
    known(feature::KEEP_ALIVE_TIMER, supported::CHANGEABLE, true),
    known(feature::HOST_BEHAVIOR, supported::CHANGEABLE, false),
    known(feature::HOST_IDENTIFIER, 0, false),
    known(
        feature::RESERVATION_NOTIFICATION_MASK,
        supported::CHANGEABLE | supported::NAMESPACE_SPECIFIC,
        false,
    ),
    known(feature::RESERVATION_PERSISTENCE, supported::CHANGEABLE | supported::NAMESPACE_SPECIFIC, false),
    known(feature::CREDITS, supported::CHANGEABLE, false),
];

/// Arbitration burst (bits 2:0): no limit.
const ARBITRATION_DEFAULT: u32 = 0x7;
/// Power Management: mask of the power state. Only state 0 exists.
const POWER_STATE_MASK: u32 = 0x1f;
/// Temperature Threshold: the sensor. 0 is the composite temperature; Fh in Set Features means all.
const SENSOR_SHIFT: u32 = 16;
const SENSOR_MASK: u32 = 0xf;
/// Temperature Threshold: over (0) or under (1).
const THRESHOLD_TYPE_SHIFT: u32 = 20;
const THRESHOLD_TYPE_MASK: u32 = 0x3;
/// Write Atomicity: Disable Normal.
const WRITE_ATOMICITY_MASK: u32 = 1;
/// Host Behavior Support: bytes of data. Only the first (ACRE) is supported.
const HOST_BEHAVIOR_SIZE: usize = 512;
/// Timestamp: bytes of data; 48 bits of milliseconds, then attributes.
const TIMESTAMP_SIZE: usize = 8;
const TIMESTAMP_MASK: u64 = (1 << 48) - 1;
/// Timestamp origin (byte 6 bits 3:1): set by the host.
const TIMESTAMP_SET_BY_HOST: u8 = 1 << 1;

/// A controller's settings, except keep-alive and events, which have their own structs.
#[derive(Clone, Debug)]
pub(super) struct Features {
    arbitration: u32,
    temperature: [u16; 2],
    pub(super) write_cache: bool,
    write_atomicity: u32,
    timestamp: Option<(Instant, u64)>,
    retry_delays: bool,
    pub(super) credits: bool,
    /// IO queues that it was granted, if it has asked.
    queues: Option<u16>,
    notification_masks: BTreeMap<u32, u32>,
}

impl Default for Features {
    fn default() -> Features {
        Features {
            arbitration: ARBITRATION_DEFAULT,
            temperature: [u16::MAX, 0],
            write_cache: true,
            write_atomicity: 0,
            timestamp: None,
            retry_delays: false,
            credits: false,
            queues: None,
            notification_masks: BTreeMap::new(),
        }
    }
}

impl Features {
    /// Feature 82h of a namespace.
    pub(super) fn notification_mask(&self, nsid: u32) -> u32 {
        self.notification_masks.get(&nsid).copied().unwrap_or(0)
    }

    fn temperature(&self, cdw11: u32) -> Option<u16> {
        let sensor = cdw11 >> SENSOR_SHIFT & SENSOR_MASK;
        let kind = (cdw11 >> THRESHOLD_TYPE_SHIFT & THRESHOLD_TYPE_MASK) as usize;
        self.temperature.get(kind).copied().filter(|_| sensor == 0)
    }

    fn timestamp(&self, now: Instant) -> [u8; TIMESTAMP_SIZE] {
        let Some((set_at, millis)) = self.timestamp else { return [0; TIMESTAMP_SIZE] };
        let elapsed = now.saturating_since(set_at).get() / Nanos::millis(1).get();
        let mut bytes = (millis.wrapping_add(elapsed) & TIMESTAMP_MASK).to_le_bytes();
        bytes[6] = TIMESTAMP_SET_BY_HOST;
        bytes
    }
}

/// The value that Get Features returns.
enum Value {
    Dword(u32),
    Bytes(Vec<u8>),
}

impl Subsystem {
    pub(super) fn known_features(&self) -> impl Iterator<Item = &'static Known> {
        let (role, commands, cache) =
            (self.config.role, self.config.commands, self.config.volatile_write_cache);
        SUPPORTED.iter().filter(move |known| match known.id {
            _ if role == Role::Discovery => known.discovery,
            feature::RESERVATION_NOTIFICATION_MASK | feature::RESERVATION_PERSISTENCE => {
                commands.reservations
            }
            feature::VOLATILE_WRITE_CACHE => cache,
            _ => true,
        })
    }

    fn capabilities_of(&self, id: u8) -> Result<u32, Status> {
        let known = self.known_features().find(|known| known.id == id).ok_or(Status::INVALID_FIELD)?;
        let is_fixed = id == feature::RESERVATION_PERSISTENCE && !self.config.persistence;
        Ok(known.capabilities & !if is_fixed { supported::CHANGEABLE } else { 0 })
    }

    pub(super) fn get_features(&self, now: Instant, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let id = sqe.cdw10() as u8;
        let select = Select::from_cdw10(sqe.cdw10()).ok_or(Status::INVALID_FIELD)?;
        let capabilities = self.capabilities_of(id)?;
        let cqe = Cqe::success(sqe.cid());
        if select == Select::Supported {
            return Ok(Action::reply(cqe.with_dw0(capabilities)));
        }
        if capabilities & supported::NAMESPACE_SPECIFIC != 0 && self.namespaces.get(sqe.nsid()).is_none() {
            return Err(Status::INVALID_NAMESPACE);
        }
        let current = select == Select::Current;
        if id == feature::CREDITS {
            let enabled = current && self.controller(slot).features.credits;
            return Ok(Action::Credits { enabled, cqe });
        }
        match self.feature_value(now, slot, sqe, current)? {
            Value::Dword(dword) => Ok(Action::reply(cqe.with_dw0(dword))),
            Value::Bytes(bytes) => {
                exact_length(sqe, bytes.len())?;
                Ok(Action::reply_with(cqe, bytes))
            }
        }
    }

    fn feature_value(&self, now: Instant, slot: usize, sqe: &Sqe, current: bool) -> Result<Value, Status> {
        let controller = self.controller(slot);
        let defaults = Features::default();
        let features = if current { &controller.features } else { &defaults };
        Ok(Value::Dword(match sqe.cdw10() as u8 {
            feature::ARBITRATION => features.arbitration,
            feature::TEMPERATURE_THRESHOLD => {
                u32::from(features.temperature(sqe.cdw11()).ok_or(Status::INVALID_FIELD)?)
            }
            feature::VOLATILE_WRITE_CACHE => u32::from(features.write_cache),
            feature::NUMBER_OF_QUEUES => {
                QueueCounts::both(features.queues.unwrap_or(self.config.limits.io_queues_max)).to_wire()
            }
            feature::WRITE_ATOMICITY => features.write_atomicity,
            feature::ASYNC_EVENT_CONFIGURATION if current => controller.events.configuration(),
            feature::KEEP_ALIVE_TIMER if current => controller.keep_alive.timeout(),
            feature::TIMESTAMP => return Ok(Value::Bytes(features.timestamp(now).to_vec())),
            feature::HOST_BEHAVIOR => {
                let mut behavior = vec![0; HOST_BEHAVIOR_SIZE];
                behavior[0] = u8::from(features.retry_delays);
                return Ok(Value::Bytes(behavior));
            }
            feature::HOST_IDENTIFIER if sqe.cdw11() & feature::EXTENDED_HOST_ID == 0 => {
                return Err(Status::HOST_ID_INCONSISTENT_FORMAT);
            }
            feature::HOST_IDENTIFIER => return Ok(Value::Bytes(controller.host_id.0.to_vec())),
            feature::RESERVATION_NOTIFICATION_MASK => features.notification_mask(sqe.nsid()),
            feature::RESERVATION_PERSISTENCE if current => {
                let namespace = self.namespaces.get(sqe.nsid()).ok_or(Status::INVALID_NAMESPACE)?;
                u32::from(namespace.reservations.persists())
            }
            // Power state 0, no error recovery limit; the defaults of persistence, events and keep-alive.
            _ => 0,
        }))
    }

    pub(super) fn set_features(
        &mut self,
        now: Instant,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let id = sqe.cdw10() as u8;
        let capabilities = self.capabilities_of(id)?;
        if sqe.cdw10() & feature::SAVE != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        let of_namespace = capabilities & supported::NAMESPACE_SPECIFIC != 0;
        match sqe.nsid() {
            0 | NSID_ALL if !of_namespace => {}
            _ if !of_namespace => return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
            NSID_ALL => {}
            nsid if self.namespaces.get(nsid).is_none() => return Err(Status::INVALID_NAMESPACE),
            _ => {}
        }
        if id == feature::HOST_IDENTIFIER {
            // On fabrics, the Connect command has set it.
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        if capabilities & supported::CHANGEABLE == 0 {
            return Err(Status::FEATURE_NOT_CHANGEABLE);
        }
        self.change_feature(now, slot, sqe, data)
    }

    fn change_feature(
        &mut self,
        now: Instant,
        slot: usize,
        sqe: &Sqe,
        data: Option<&[u8]>,
    ) -> Result<Action, Status> {
        let cqe = Cqe::success(sqe.cid());
        let value = sqe.cdw11();
        let queues_max = self.config.limits.io_queues_max;
        let keep_alive_max = self.config.limits.keep_alive_max;
        let event_bits = self.event_bits();
        let nsids: Vec<u32> = match sqe.nsid() {
            NSID_ALL => self.namespaces.ids_after(0).collect(),
            nsid => vec![nsid],
        };
        if sqe.cdw10() as u8 == feature::RESERVATION_PERSISTENCE {
            return self.set_persistence(slot, sqe, nsids);
        }
        let controller = self.controller_mut(slot);
        let features = &mut controller.features;
        match sqe.cdw10() as u8 {
            feature::ARBITRATION => features.arbitration = value,
            feature::POWER_MANAGEMENT if value & POWER_STATE_MASK != 0 => return Err(Status::INVALID_FIELD),
            feature::POWER_MANAGEMENT => {}
            feature::TEMPERATURE_THRESHOLD => {
                let sensor = value >> SENSOR_SHIFT & SENSOR_MASK;
                let kind = (value >> THRESHOLD_TYPE_SHIFT & THRESHOLD_TYPE_MASK) as usize;
                let known = sensor == 0 || sensor == SENSOR_MASK;
                let threshold = features.temperature.get_mut(kind).filter(|_| known);
                *threshold.ok_or(Status::INVALID_FIELD)? = value as u16;
            }
            feature::VOLATILE_WRITE_CACHE => features.write_cache = value & feature::WRITE_CACHE_ENABLED != 0,
            // The number of queues is negotiated once, before there are any.
            feature::NUMBER_OF_QUEUES if controller.has_had_io_queues => {
                return Err(Status::COMMAND_SEQUENCE_ERROR);
            }
            feature::NUMBER_OF_QUEUES => {
                const RESERVED: u32 = 0x1_0000;
                let asked = QueueCounts::from_wire(value);
                if asked.submission == RESERVED || asked.completion == RESERVED {
                    return Err(Status::INVALID_FIELD);
                }
                let least = asked.submission.min(asked.completion);
                let queues = u16::try_from(least).unwrap_or(u16::MAX).min(queues_max);
                return Ok(Action::GrantQueues { queues, cqe });
            }
            feature::WRITE_ATOMICITY => features.write_atomicity = value & WRITE_ATOMICITY_MASK,
            feature::ASYNC_EVENT_CONFIGURATION => {
                // The low byte enables health warnings; this target has none to report.
                const HEALTH_WARNINGS: u32 = 0xff;
                if value & !(event_bits | HEALTH_WARNINGS) != 0 {
                    return Err(Status::INVALID_FIELD);
                }
                controller.events.configure(value);
                return Ok(Action::reply(cqe.with_dw0(value)));
            }
            feature::TIMESTAMP => {
                let bytes = write_data(sqe, data, TIMESTAMP_SIZE)?;
                let millis = u64::from_le_bytes(bytes.try_into().map_err(|_| Status::INTERNAL_ERROR)?);
                features.timestamp = Some((now, millis & TIMESTAMP_MASK));
            }
            feature::KEEP_ALIVE_TIMER if value > keep_alive_max => {
                return Err(Status::KEEP_ALIVE_TIMEOUT_INVALID);
            }
            feature::KEEP_ALIVE_TIMER => {
                controller.keep_alive.set_timeout(now, value);
                self.controllers.expect_timeout(slot);
            }
            feature::HOST_BEHAVIOR => {
                let behavior = write_data(sqe, data, HOST_BEHAVIOR_SIZE)?;
                if behavior[0] > 1 || behavior[1..].iter().any(|&byte| byte != 0) {
                    return Err(Status::INVALID_FIELD);
                }
                features.retry_delays = behavior[0] == 1;
            }
            feature::RESERVATION_NOTIFICATION_MASK => {
                for nsid in nsids {
                    features.notification_masks.insert(nsid, value & notification_mask::ALL);
                }
            }
            feature::CREDITS if value & !feature::CREDITS_ENABLED != 0 => return Err(Status::INVALID_FIELD),
            feature::CREDITS => {
                features.credits = value & feature::CREDITS_ENABLED != 0;
                return Ok(Action::Credits { enabled: features.credits, cqe });
            }
            _ => return Err(Status::FEATURE_NOT_CHANGEABLE),
        }
        Ok(Action::reply(cqe))
    }

    /// Returns the completion of `Action::GrantQueues`: the controller of this admin queue was granted
    /// `queues` IO queues.
    pub fn on_queues_granted(&mut self, key: QueueKey, queues: u16, cqe: Cqe) -> Cqe {
        if let Some(&Queue { controller: Some(slot), queue_id: 0, .. }) = self.queue(key) {
            self.controller_mut(slot).features.queues = Some(queues);
        }
        cqe.with_dw0(QueueCounts::both(queues).to_wire())
    }

    /// Events that this subsystem can report: OAES, and the bits of feature 0Bh.
    pub(super) fn event_bits(&self) -> u32 {
        match self.config.role {
            Role::Io => {
                EventKind::NamespaceChanged.configuration_bit() | EventKind::AnaChanged.configuration_bit()
            }
            Role::Discovery => EventKind::DiscoveryChanged.configuration_bit(),
        }
    }

    /// The Feature Identifiers Supported and Effects page.
    pub(super) fn features_page(&self) -> Vec<u8> {
        let mut page = vec![0; log::SUPPORTED_TABLE_SIZE];
        for known in self.known_features() {
            let at = usize::from(known.id) * 4;
            page[at..at + 4].copy_from_slice(&log::SUPPORTED.to_le_bytes());
        }
        page
    }
}
