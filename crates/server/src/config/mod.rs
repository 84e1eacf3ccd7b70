//! The configuration of a target: devices, subsystems, tenants, and bounds.
//!
//! ```text
//!  gimbal.toml ──► reader ──┐                                   (lines, types, unknown names)
//!  flags, tests ─► Config ──┴─► judge() ──► Server::start       (what must hold between the fields, and outside)
//! ```
//!
//! This is plain data: nothing here looks at a file or a device. `judge` has the functions that read and judge a [`Config`].
//!
//! Holds: every problem of a file is reported at once, with its line (`every_problem_is_found_at_once`);
//!        the example file of the repository parses (`the_example_file_is_valid`).
//! Elsewhere: a device is `device`; its scheduler `scheduler`; bounds on hosts `limits`; their shares `tenant`; their proofs `security`; access states `group`; faults for tests
//!            `fault`; the reader of one table `fields`; numeric fields as data `schema`; upper bounds of the others `bounds`; fields that
//!            cannot change while a target runs `transition`.

mod admin;
mod ais;
mod back_end;
mod bounds;
pub(crate) mod check;
mod cntlid;
mod device;
mod directory;
mod fault;
mod fields;
mod group;
pub mod limits;
mod listen;
mod log;
mod problem;
mod rack;
pub(crate) mod read;
mod scheduler;
pub mod schema;
pub(crate) mod security;
pub mod tenant;
mod text;
pub(crate) mod transition;
mod write;

#[cfg(test)]
mod tests;

pub use self::admin::{AdminConfig, AdminSocket, MetricsConfig};
pub use self::ais::{AisConfig, AisStore};
pub use device::{
    BackEndConfig, Backing, BlockAccess, Condition, DeviceConfig, DeviceKind, DirectoryConfig,
    EmulatedConfig, Overcommit, Speed,
};
pub use fault::{FaultConfig, FaultError, FaultKind, FaultOp, FaultPattern, FaultRelease};
pub use fields::Lines;
pub(crate) use group::{Access, GROUP_MAX};
pub use group::{AccessState, DEFAULT_GROUP, GroupConfig};
pub use limits::Limits;
pub use listen::{Listen, Transport};
pub use log::{LogConfig, LogFormat};
pub use problem::{ConfigError, Problem};
pub use rack::RackConfig;
pub use scheduler::{SchedulerConfig, SchedulerOverrides, offered};
pub use security::{Authentication, Demand, DiscoveryAccess, HostConfig, OwnSecurity, SecurityConfig, Tls};
pub(crate) use security::{DH_FIELDS, TLS_FIELD};
pub use tenant::{ShareConfig, TenantConfig, TenantKind};
pub use write::NotWritable;

use nvme::subsystem::ControllerIds;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use units::{ByteRate, Bytes, Nanos};

/// The port that IANA assigned to NVMe/TCP.
pub const NVME_TCP_PORT: u16 = 4420;
/// The subsystem that [`Config::simple`] makes.
pub const DEFAULT_NQN: &str = "nqn.2025-01.io.gimbal:ssd";
/// The default address: this machine only.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), NVME_TCP_PORT);
/// The default model number.
pub const DEFAULT_MODEL: &str = "Gimbal";
/// The default block size.
pub const DEFAULT_BLOCK_SIZE: u32 = 4096;

/// Threads for each SSD at most, unless the configuration says how many. A small read costs the thread of its connection about three times
/// the cost on the thread of its SSD (`make bench`: `remote_cost`, `ssd_thread_ns`).
const DEFAULT_THREADS_PER_SSD: usize = 4;
/// Memory for each thread at least, unless the configuration says how many threads there are.
const DEFAULT_THREAD_MEMORY: Bytes = Bytes::mib(32);

/// Everything a target is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where hosts connect; port 0 lets the system choose.
    pub listen: Vec<Listen>,
    /// How threads talk to the system.
    pub backend: BackendChoice,
    /// Time that a device's thread busy-polls before it sleeps, while IOs come quickly. Zero: never; `None`: for a moment,
    /// if there is a processor for each device.
    pub spin: Option<Nanos>,
    /// Threads that carry connections. Each SSD has one; beyond them are threads that have connections only. `None`: one per CPU, up to
    /// what SSDs, memory and hosts can use ([`Config::connection_threads`]).
    pub threads: Option<u32>,
    /// The SSDs. Each gets a thread and a scheduler of its own.
    pub devices: Vec<DeviceConfig>,
    /// Groups of namespaces that change their access state together.
    pub groups: Vec<GroupConfig>,
    /// The subsystems that hosts see.
    pub subsystems: Vec<SubsystemConfig>,
    /// The rules by which hosts prove who they are.
    pub security: SecurityConfig,
    /// Hosts that can prove who they are.
    pub hosts: Vec<HostConfig>,
    /// Hosts with other than an equal share.
    pub tenants: Vec<TenantConfig>,
    /// The directory for state that outlives the target: reservations that persist. `None`: they do not, and hosts can see that.
    pub state_dir: Option<PathBuf>,
    /// The offer to volumes; `None`: nothing.
    pub rack: Option<RackConfig>,
    /// Bounds on what hosts may make the target hold.
    pub limits: Limits,
    /// Level and form of the log.
    pub log: LogConfig,
    /// The admin API.
    pub admin: AdminConfig,
    /// The paths that can be read without permission.
    pub metrics: MetricsConfig,
}

/// How threads talk to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// io_uring where the system allows it, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    IoUring,
    /// epoll, with threads for the disk.
    Epoll,
}

/// One NVM subsystem.
#[derive(Clone, Debug, PartialEq)]
pub struct SubsystemConfig {
    /// Its qualified name, `nqn.…`.
    pub nqn: String,
    /// Serial number; `None` derives one from the name, the same at every start.
    pub serial: Option<String>,
    /// Model number.
    pub model: String,
    /// The identifiers of its controllers. Targets that serve one subsystem have ranges that do not overlap.
    pub cntlid: ControllerIds,
    /// Hosts that may connect.
    pub hosts: AllowedHosts,
    /// The proofs that it asks for, where they are not those of [`SecurityConfig`].
    pub security: OwnSecurity,
    /// The tenants of its namespaces that do not say it themselves.
    pub tenant: TenantKind,
    /// At least one. The device of the first is the subsystem's home.
    pub namespaces: Vec<NamespaceConfig>,
}

/// The hosts that may connect to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Whoever reaches the port.
    Any,
    /// These host NQNs.
    Only(Vec<String>),
}

impl AllowedHosts {
    /// Whether `host` may connect.
    pub(crate) fn allows(&self, host: &str) -> bool {
        match self {
            AllowedHosts::Any => true,
            AllowedHosts::Only(hosts) => hosts.iter().any(|allowed| allowed == host),
        }
    }
}

/// One namespace: a range of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceConfig {
    /// Its number, from 1.
    pub nsid: u32,
    /// Name of the device.
    pub device: String,
    /// Where on the device it begins.
    pub offset: Bytes,
    /// The length; `None` reaches to the end of the device.
    pub size: Option<Bytes>,
    /// 512 or 4096 bytes.
    pub block_size: u32,
    /// Its UUID; `None` derives one from subsystem and number, the same at every start.
    pub uuid: Option<[u8; 16]>,
    /// Its NGUID; `None` derives one as well.
    pub nguid: Option<[u8; 16]>,
    /// Its EUI64; `None` derives one as well.
    pub eui64: Option<[u8; 8]>,
    /// Whether hosts may only read it. On a device that cannot be written, no namespace can.
    pub read_only: bool,
    /// Whether blocks that a reload takes away from it are erased before another namespace can have them.
    pub wipe_on_remove: bool,
    /// The name of its group; `None`: the one of all namespaces that name none.
    pub group: Option<String>,
    /// The tenant of its IOs; `None`: what the subsystem says.
    pub tenant: Option<TenantKind>,
    /// The promises to it, if it is a tenant: to all hosts that use it, together. `None`: an equal share. On its own SSD only.
    pub share: Option<ShareConfig>,
    /// In a directory: the snapshot, or the UUID of the namespace, whose contents a new file has. It has no effect on a file that is there.
    pub origin: Option<String>,
}

impl SubsystemConfig {
    /// The tenant of the IOs of one of its namespaces.
    pub fn tenant_of(&self, namespace: &NamespaceConfig) -> TenantKind {
        namespace.tenant.unwrap_or(self.tenant)
    }
}

/// A namespace that is a tenant.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceTenant<'c> {
    /// Its subsystem.
    pub subsystem: &'c SubsystemConfig,
    /// The namespace.
    pub namespace: &'c NamespaceConfig,
    /// Their places in the configuration.
    pub places: [usize; 2],
}

impl NamespaceTenant<'_> {
    /// The promises to it.
    pub fn share(&self) -> &ShareConfig {
        self.namespace.share.as_ref().unwrap_or(&ShareConfig::EQUAL)
    }
}

impl Config {
    /// One subsystem with one namespace that is the whole of `device`, open to every host.
    pub fn simple(device: DeviceKind, listen: SocketAddr) -> Config {
        Config {
            listen: vec![listen.into()],
            backend: BackendChoice::Auto,
            spin: None,
            threads: None,
            devices: vec![DeviceConfig::new("ssd", device)],
            groups: Vec::new(),
            subsystems: vec![SubsystemConfig {
                nqn: DEFAULT_NQN.to_owned(),
                serial: None,
                model: DEFAULT_MODEL.to_owned(),
                cntlid: ControllerIds::ALL,
                hosts: AllowedHosts::Any,
                security: OwnSecurity::default(),
                tenant: TenantKind::default(),
                namespaces: vec![NamespaceConfig::whole(1, "ssd")],
            }],
            security: SecurityConfig::default(),
            hosts: Vec::new(),
            tenants: Vec::new(),
            state_dir: None,
            rack: None,
            limits: Limits::default(),
            log: LogConfig::default(),
            admin: AdminConfig::default(),
            metrics: MetricsConfig::default(),
        }
    }

    /// The hosts that are named: in a [[tenant]] or [[host]], or among the `hosts` of a subsystem. All others are strangers,
    /// distinguished by their addresses.
    pub fn named_hosts(&self) -> HashSet<String> {
        let proved = self.hosts.iter().map(|host| &host.nqn);
        let tenants = self.tenants.iter().map(|tenant| &tenant.host);
        let allowed = self.subsystems.iter().flat_map(|subsystem| match &subsystem.hosts {
            AllowedHosts::Only(hosts) => &hosts[..],
            AllowedHosts::Any => &[],
        });
        tenants.chain(proved).chain(allowed).cloned().collect()
    }

    /// The namespaces that are tenants, in the order of the configuration.
    pub fn namespace_tenants(&self) -> impl Iterator<Item = NamespaceTenant<'_>> {
        self.subsystems.iter().enumerate().flat_map(|(index, subsystem)| {
            let namespaces = subsystem.namespaces.iter().enumerate();
            let tenants = namespaces.filter(|(_, it)| subsystem.tenant_of(it) == TenantKind::Namespace);
            tenants.map(move |(place, namespace)| NamespaceTenant {
                subsystem,
                namespace,
                places: [index, place],
            })
        })
    }

    /// Threads that have connections and no SSD, on a machine with this many CPUs.
    ///
    /// By default there is a thread per CPU, but not more than can be used: the thread of an SSD can serve about three threads of
    /// connections, each thread needs memory, and there is no use for more threads than connections.
    pub(crate) fn connection_threads(&self, processors: usize) -> usize {
        let devices = self.devices.len();
        let by_default = || {
            let by_memory = self.limits.memory.get() / DEFAULT_THREAD_MEMORY.get();
            let least = by_memory.min(u64::from(self.limits.connections));
            processors
                .min(DEFAULT_THREADS_PER_SSD * devices)
                .min(usize::try_from(least).unwrap_or(usize::MAX))
        };
        self.threads.map_or_else(by_default, |threads| threads as usize).saturating_sub(devices)
    }

    /// The subsystem of that name.
    pub(crate) fn subsystem(&self, nqn: &str) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// The device called `name`, as an index of [`Config::devices`].
    pub(crate) fn device_index(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }
}

impl NamespaceConfig {
    /// The whole of a device, in 4 KiB blocks.
    pub fn whole(nsid: u32, device: &str) -> NamespaceConfig {
        NamespaceConfig {
            nsid,
            device: device.to_owned(),
            offset: Bytes::ZERO,
            size: None,
            block_size: DEFAULT_BLOCK_SIZE,
            uuid: None,
            nguid: None,
            eui64: None,
            read_only: false,
            wipe_on_remove: false,
            group: None,
            tenant: None,
            share: None,
            origin: None,
        }
    }
}
