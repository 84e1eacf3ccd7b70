//! The configuration of a subsystem: its name, its limits, its namespaces, the hosts that may connect.
//!
//! Everything that a peer could make grow has a limit here. `Subsystem::new` refuses an inconsistent
//! configuration, so the other files need not check it.

use super::connect::ConnectBounds;
use super::controller_ids::ControllerIds;
use crate::spec::{Nqn, connect::CNTLID_MAX};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use units::Bytes;

/// The purpose of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Namespaces and IO queues.
    Io,
    /// Reports where subsystems are. Answers to its own NQN and to the well-known one. No IO queues, no
    /// namespaces.
    Discovery,
}

/// The hosts that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostAccess {
    /// All.
    Any,
    /// These.
    Only(Vec<Nqn>),
}

impl HostAccess {
    /// Whether `host` may connect.
    pub fn allows(&self, host: &Nqn) -> bool {
        match self {
            HostAccess::Any => true,
            HostAccess::Only(hosts) => hosts.contains(host),
        }
    }

    /// Whether `host` is one of those that are listed.
    pub(super) fn lists(&self, host: &Nqn) -> bool {
        matches!(self, HostAccess::Only(hosts) if hosts.contains(host))
    }
}

/// Limits of everything that a host can request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest transfer of one command: a power of two, at least 4 KiB.
    pub transfer_max: Bytes,
    /// In-capsule data of an IO queue, a multiple of 16 bytes. Fabrics and admin commands always have 8 KiB.
    pub in_capsule_max: u32,
    /// IO queues of a controller.
    pub io_queues_max: u16,
    /// Entries of a queue: also the most commands that a host may have outstanding on it.
    pub queue_entries_max: u16,
    /// Controllers of the subsystem.
    pub controllers_max: u16,
    /// The identifiers of its controllers. There are no more controllers than these.
    pub controller_ids: ControllerIds,
    /// Controllers of one host, so that one tenant cannot lock out the others.
    pub controllers_per_host_max: u16,
    /// Largest namespace identifier.
    pub namespaces_max: u32,
    /// ANA groups. The namespaces of a group change their access state together.
    pub ana_groups_max: u32,
    /// Longest keep-alive timeout that a host may request, in milliseconds. A host may always turn keep-alive
    /// off (0).
    pub keep_alive_max: u32,
    /// Outstanding Asynchronous Event Requests per controller.
    pub event_requests_max: u8,
    /// Entries of a controller's error log; 1 to 256.
    pub error_log_entries: u16,
    /// Registrants of a namespace. Does not limit hosts that the configuration names.
    pub registrants_max: usize,
    /// Registrants of a namespace with one host NQN, so that one tenant cannot lock out the others.
    pub registrants_per_host_max: usize,
}

impl Default for Limits {
    /// 1 MiB transfers: a large one then covers no more than 8 of the scheduler's 128 KiB slots. 8 KiB
    /// in-capsule data: a 4 KiB write and a Dataset Management command need no round trip. The rest is what
    /// Linux hosts are used to.
    fn default() -> Limits {
        Limits {
            transfer_max: Bytes::mib(1),
            in_capsule_max: 8192,
            io_queues_max: 128,
            queue_entries_max: 1024,
            controllers_max: 1024,
            controller_ids: ControllerIds::ALL,
            controllers_per_host_max: 64,
            namespaces_max: 4096,
            ana_groups_max: 32,
            keep_alive_max: u32::MAX,
            event_requests_max: 4,
            error_log_entries: 64,
            registrants_max: 1024,
            registrants_per_host_max: 4,
        }
    }
}

/// Commands that a subsystem supports only if its devices can do them. Reservations need no device support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalCommands {
    /// Compare, and Compare and Write.
    pub compare: bool,
    /// Verify.
    pub verify: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Dataset Management with deallocation.
    pub deallocate: bool,
    /// Copy.
    pub copy: bool,
    /// Reservations.
    pub reservations: bool,
}

impl Default for OptionalCommands {
    fn default() -> Self {
        OptionalCommands {
            compare: true,
            verify: true,
            write_zeroes: true,
            deallocate: true,
            copy: true,
            reservations: true,
        }
    }
}

/// Size of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4096 bytes.
    B4096,
}

impl BlockSize {
    /// As a power of two.
    pub const fn log2(self) -> u8 {
        match self {
            BlockSize::B512 => 9,
            BlockSize::B4096 => 12,
        }
    }

    /// In bytes.
    pub const fn bytes(self) -> u32 {
        1 << self.log2()
    }
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// Bytes of a block.
    pub block_size: BlockSize,
    /// Blocks; not zero.
    pub blocks: u64,
    /// UUID, big-endian as in its text form. If `None`, it is derived from the subsystem's NQN and the
    /// namespace identifier.
    pub uuid: Option<[u8; 16]>,
    /// NGUID, if any.
    pub nguid: Option<[u8; 16]>,
    /// EUI64, if any.
    pub eui64: Option<[u8; 8]>,
    /// ANA group, 1 to `Limits::ana_groups_max`.
    pub ana_group: u32,
    /// Whether the namespace is write protected.
    pub read_only: bool,
    /// Whether blocks are allocated when they are written. NUSE is then the last value passed to
    /// [`super::Subsystem::set_allocated`].
    pub thin: bool,
    /// Whether deallocated blocks read as zeroes.
    pub zeroes_after_deallocate: bool,
    /// Preferred number of blocks to write at once, and their alignment, if there is one (at most 65536).
    pub optimal_write_blocks: Option<u32>,
    /// Whether hosts may reserve it, if the subsystem offers reservations.
    pub reservable: bool,
}

impl NamespaceInfo {
    /// `blocks` blocks of `block_size`; writable, with a derived UUID, in group 1.
    pub fn new(block_size: BlockSize, blocks: u64) -> NamespaceInfo {
        NamespaceInfo {
            block_size,
            blocks,
            uuid: None,
            nguid: None,
            eui64: None,
            ana_group: 1,
            read_only: false,
            thin: false,
            zeroes_after_deallocate: false,
            optimal_write_blocks: None,
            reservable: true,
        }
    }
}

/// A subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its NQN.
    pub nqn: Nqn,
    /// Its purpose.
    pub role: Role,
    /// Serial number, at most 20 characters. Must differ between subsystems and stay the same over restarts.
    pub serial: String,
    /// Model, at most 40 characters.
    pub model: String,
    /// Firmware revision, at most 8 characters.
    pub firmware: String,
    /// The hosts that may connect.
    pub hosts: HostAccess,
    /// Limits.
    pub limits: Limits,
    /// The optional commands that the devices can do.
    pub commands: OptionalCommands,
    /// Whether a power loss may lose completed writes until a Flush. Hosts then send Flush and FUA.
    pub volatile_write_cache: bool,
    /// Whether the caller stores reservations that persist through power loss (`Output::Store`).
    pub persistence: bool,
    /// Namespaces at the start.
    pub namespaces: BTreeMap<u32, NamespaceInfo>,
}

impl SubsystemConfig {
    /// An IO subsystem without namespaces yet, open to every host.
    pub fn io(nqn: Nqn, serial: &str) -> SubsystemConfig {
        SubsystemConfig {
            nqn,
            role: Role::Io,
            serial: serial.into(),
            model: "gimbal".into(),
            firmware: env!("CARGO_PKG_VERSION").into(),
            hosts: HostAccess::Any,
            limits: Limits::default(),
            commands: OptionalCommands::default(),
            volatile_write_cache: true,
            persistence: false,
            namespaces: BTreeMap::new(),
        }
    }

    /// A discovery subsystem, open to every host.
    pub fn discovery(serial: &str) -> SubsystemConfig {
        SubsystemConfig { role: Role::Discovery, ..SubsystemConfig::io(Nqn::discovery(), serial) }
    }

    /// Adds a namespace.
    #[must_use]
    pub fn with_namespace(mut self, nsid: u32, info: NamespaceInfo) -> SubsystemConfig {
        self.namespaces.insert(nsid, info);
        self
    }

    /// The bounds of a Connect to this subsystem.
    pub(super) fn connect_bounds(&self) -> ConnectBounds {
        let limits = &self.limits;
        ConnectBounds {
            io_queues_max: if self.role == Role::Discovery { 0 } else { limits.io_queues_max },
            queue_entries_max: limits.queue_entries_max,
            keep_alive_max: limits.keep_alive_max,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let transfer = limits.transfer_max.get();
        if transfer < MDTS_UNIT || !transfer.is_power_of_two() || transfer > u64::from(u32::MAX) {
            return Err(ConfigError::TransferLimit(limits.transfer_max));
        }
        if !limits.in_capsule_max.is_multiple_of(CAPSULE_UNIT) || limits.in_capsule_max > IN_CAPSULE_LARGEST {
            return Err(ConfigError::InCapsuleLimit(limits.in_capsule_max));
        }
        let counts = [
            ("io_queues_max", u32::from(limits.io_queues_max), 1, u32::from(u16::MAX) - 1),
            ("queue_entries_max", u32::from(limits.queue_entries_max), ADMIN_QUEUE_ENTRIES, 0xffff),
            ("controllers_max", u32::from(limits.controllers_max), 1, u32::from(CNTLID_MAX)),
            (
                "controllers_per_host_max",
                u32::from(limits.controllers_per_host_max),
                1,
                u32::from(CNTLID_MAX),
            ),
            ("namespaces_max", limits.namespaces_max, 1, NAMESPACES_LARGEST),
            ("ana_groups_max", limits.ana_groups_max, 1, u32::from(u16::MAX)),
            ("event_requests_max", u32::from(limits.event_requests_max), 1, u32::from(u8::MAX)),
            ("error_log_entries", u32::from(limits.error_log_entries), 1, 256),
        ];
        for (name, value, least, most) in counts {
            if value < least || value > most {
                return Err(ConfigError::Limit { name, value, least, most });
            }
        }
        if self.role == Role::Discovery && !self.namespaces.is_empty() {
            return Err(ConfigError::NamespaceOfDiscovery);
        }
        self.namespaces.iter().try_for_each(|(&nsid, info)| self.check_namespace(nsid, info))
    }

    pub(super) fn check_namespace(&self, nsid: u32, info: &NamespaceInfo) -> Result<(), ConfigError> {
        let limits = &self.limits;
        if self.role == Role::Discovery {
            return Err(ConfigError::NamespaceOfDiscovery);
        }
        if nsid == 0 || nsid > limits.namespaces_max {
            return Err(ConfigError::NamespaceId { nsid, most: limits.namespaces_max });
        }
        if info.blocks == 0 || info.blocks > u64::MAX >> info.block_size.log2() {
            return Err(ConfigError::NamespaceSize { nsid, blocks: info.blocks });
        }
        self.check_group(info.ana_group)
    }

    pub(super) fn check_group(&self, group: u32) -> Result<(), ConfigError> {
        let most = self.limits.ana_groups_max;
        if group == 0 || group > most { Err(ConfigError::AnaGroup { group, most }) } else { Ok(()) }
    }
}

/// MDTS counts in units of the smallest memory page, 4 KiB.
pub(super) const MDTS_UNIT: u64 = 4096;
/// IOCCSZ counts in units of 16 bytes.
pub(super) const CAPSULE_UNIT: u32 = 16;
/// More in-capsule data than this would waste receive memory.
const IN_CAPSULE_LARGEST: u32 = 1 << 20;
/// Entries that every admin queue must support.
const ADMIN_QUEUE_ENTRIES: u32 = 32;
/// Namespaces are in a table indexed by their identifier.
const NAMESPACES_LARGEST: u32 = 1 << 16;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// `transfer_max` is not a power of two from 4 KiB to 2 GiB.
    #[error("the transfer limit {0} must be a power of two from 4 KiB to 2 GiB")]
    TransferLimit(Bytes),
    /// `in_capsule_max` is not a multiple of 16 up to 1 MiB.
    #[error("the in-capsule limit {0} must be a multiple of 16, at most 1 MiB")]
    InCapsuleLimit(u32),
    /// A limit is out of range.
    #[error("{name} is {value}; it must be from {least} to {most}")]
    Limit {
        /// Field of `Limits`.
        name: &'static str,
        /// As given.
        value: u32,
        /// Smallest allowed value.
        least: u32,
        /// Largest allowed value.
        most: u32,
    },
    /// A namespace identifier is 0 or too large.
    #[error("namespace identifier {nsid} is out of range (1 to {most})")]
    NamespaceId {
        /// As given.
        nsid: u32,
        /// `Limits::namespaces_max`.
        most: u32,
    },
    /// A namespace with this identifier exists already.
    #[error("namespace {0} already exists")]
    NamespaceExists(u32),
    /// No namespace has this identifier.
    #[error("there is no namespace {0}")]
    NoSuchNamespace(u32),
    /// A namespace is empty or larger than 2^64 bytes.
    #[error(
        "namespace {nsid} has {blocks} blocks; it must have at least 1 block and be smaller than 2^64 bytes"
    )]
    NamespaceSize {
        /// The namespace.
        nsid: u32,
        /// As given.
        blocks: u64,
    },
    /// The ANA group is out of range.
    #[error("ANA group {group} is out of range (1 to {most})")]
    AnaGroup {
        /// As given.
        group: u32,
        /// `Limits::ana_groups_max`.
        most: u32,
    },
    /// A discovery subsystem has no namespaces.
    #[error("a discovery subsystem cannot have namespaces")]
    NamespaceOfDiscovery,
}
