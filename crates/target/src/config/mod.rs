//! What a target shares, with whom, and within which bounds.
//!
//! ```text
//!  gimbal.toml ──► reader ──┐                                   (lines, types, unknown names)
//!  flags, tests ─► Config ──┴─► check() ──► Server::start       (what must hold between the fields)
//! ```
//!
//! A [`Config`] made by a program and one read from a file pass the same check. Nothing here touches a device: that a
//! path exists is found out by `Server::start`.
//!
//! Holds: every problem of a file is reported at once, with its line (`every_problem_is_found_at_once`);
//!        the example file of the repository parses (`the_example_file_is_valid`).
//! Elsewhere: the reader of one table is `fields`; how amounts are written is `amount`; how large they may be is `bounds`; what cannot change while a target
//!            runs is `transition`; faults for tests are `fault`.

mod amount;
mod bounds;
mod check;
mod fault;
mod fields;
mod log;
mod problem;
mod read;
pub(crate) mod transition;

#[cfg(test)]
mod tests;

pub use amount::{parse_size, parse_span};
pub use fault::{FaultConfig, FaultError, FaultKind, FaultOp, FaultPattern, FaultRelease};
pub use fields::Lines;
pub use log::{LogConfig, LogFormat};
pub use problem::{ConfigError, Problem};

use sched::{Cost, Slo};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use units::{ByteRate, Bytes, Nanos};

/// The port that IANA assigned to NVMe/TCP.
pub const NVME_TCP_PORT: u16 = 4420;
/// The subsystem that [`Config::simple`] makes.
pub const DEFAULT_NQN: &str = "nqn.2025-01.io.gimbal:ssd";

/// Everything a target is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where hosts connect; port 0 lets the system choose.
    pub listen: Vec<SocketAddr>,
    /// How threads talk to the system.
    pub backend: BackendChoice,
    /// How long a device's thread looks for work before it sleeps, while IOs come quickly. Zero: never; `None`: for a moment,
    /// if there is a processor for each device.
    pub spin: Option<Nanos>,
    /// The SSDs. Each gets a thread and a scheduler of its own.
    pub devices: Vec<DeviceConfig>,
    /// What hosts see.
    pub subsystems: Vec<SubsystemConfig>,
    /// Hosts with other than an equal share.
    pub tenants: Vec<TenantConfig>,
    /// Bounds on what hosts may make the target hold.
    pub limits: Limits,
    /// What is logged, and how.
    pub log: LogConfig,
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

/// One SSD and its scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// What namespaces and messages call it.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Who goes to it next, and when.
    pub scheduler: SchedulerConfig,
    /// How it misbehaves, for tests; a device that is to be used has none.
    pub faults: Vec<FaultConfig>,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// A regular file.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its size; `None` takes the file as it is. A smaller file is extended, sparse; it is never cut.
        size: Option<Bytes>,
        /// Make the file if it does not exist (needs `size`).
        create: bool,
        /// Bypass the page cache where the file system can.
        direct: bool,
    },
    /// A block device, whole.
    Block {
        /// Where it is, such as `/dev/nvme0n1`.
        path: PathBuf,
        /// Bypass the page cache.
        direct: bool,
    },
    /// The SSD model in real time over memory or a sparse file.
    Emulated(EmulatedConfig),
    /// Reads zeroes, forgets writes, completes at once: measures everything but the device.
    Null {
        /// How large it says it is.
        size: Bytes,
    },
}

/// An SSD that is a model.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedConfig {
    /// A profile of the `ssd` crate by name, or the path of one (with a `/` or ending in `.toml`).
    pub profile: String,
    /// The state of the flash at the start.
    pub condition: Condition,
    /// How fast it runs against real time.
    pub speed: Speed,
    /// Where its contents are.
    pub backing: Backing,
    /// How large it says it is.
    pub size: Bytes,
    /// The seed of the model.
    pub seed: u64,
}

/// The state of an emulated SSD's flash at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Filled once, in sequence: much spare space.
    #[default]
    Clean,
    /// The steady state of random overwrites.
    Fragmented,
}

/// Where the contents of an emulated SSD are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// In memory, allocated as it is written; gone when the target stops.
    #[default]
    Ram,
    /// In a sparse file, made if missing.
    File(PathBuf),
    /// Nowhere: reads are zeros, writes are forgotten. For measurements that write more than the machine has memory.
    None,
}

/// How fast an emulated SSD runs against real time, in thousandths: 1000 is real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed {
    thousandths: u32,
}

impl Speed {
    /// As fast as the SSD that is modelled.
    pub const REAL_TIME: Speed = Speed { thousandths: 1000 };

    /// `n` thousandths of real time; `None` for zero.
    pub const fn from_thousandths(n: u32) -> Option<Speed> {
        if n == 0 { None } else { Some(Speed { thousandths: n }) }
    }

    /// `0.1`, `1`, `2.5`; `None` if it is not such a number, is zero, or is finer than a thousandth.
    pub fn parse(text: &str) -> Option<Speed> {
        Speed::from_thousandths(u32::try_from(amount::parse_thousandths(text)?).ok()?)
    }

    /// In thousandths of real time; never zero.
    pub const fn thousandths(self) -> u32 {
        self.thousandths
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.thousandths) / 1000.0)
    }
}

/// The scheduler of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which one.
    pub policy: PolicyKind,
    /// What was measured of the device, for the schedulers that do not measure by themselves: the path of a file.
    pub calibration: Option<PathBuf>,
    /// Constants that replace those of the device's profile.
    pub overrides: SchedulerOverrides,
}

/// The schedulers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Gimbal with the bounded lead and the other options of `GimbalConfig::fair`.
    #[default]
    Gimbal,
    /// Gimbal that charges what an IO takes of the device, `GimbalConfig::next`. Needs a calibration.
    GimbalNext,
    /// Gimbal exactly as published.
    GimbalPaper,
    /// ReFlex: tokens, with reservations for tenants with an objective. Needs a calibration.
    Reflex,
    /// FlashFQ: equal parts of the device's time. Needs a calibration.
    Flashfq,
    /// First in, first out: what other targets do.
    None,
}

/// Constants that replace those of the device's profile; `None` keeps the profile's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerOverrides {
    /// A profile (name or path) to take the constants from, for a device that is not emulated.
    pub profile: Option<String>,
    /// Device latency below which the SSD is under-utilised.
    pub latency_min: Option<Nanos>,
    /// Device latency above which the SSD is overloaded.
    pub latency_max: Option<Nanos>,
    /// Cost of a written byte against a read one at its best.
    pub write_cost_best: Option<Cost>,
    /// Cost of a written byte against a read one at its worst.
    pub write_cost_worst: Option<Cost>,
    /// Virtual slots that sequential reads need to fill the SSD.
    pub slots: Option<u32>,
    /// How many times as many are shared out.
    pub slots_factor: Option<u32>,
    /// What an IO costs besides its length.
    pub io_overhead: Option<Bytes>,
    /// How much more than others a tenant may have been served and still go on.
    pub lead_max: Option<Bytes>,
    /// The lowest target rate.
    pub rate_min: Option<ByteRate>,
    /// The highest target rate.
    pub rate_max: Option<ByteRate>,
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
    /// Hosts that may connect.
    pub hosts: AllowedHosts,
    /// At least one. The device of the first is the subsystem's home.
    pub namespaces: Vec<NamespaceConfig>,
}

/// Who may connect to a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Whoever reaches the port.
    Any,
    /// These host NQNs.
    Only(Vec<String>),
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
    /// How long it is; `None` reaches to the end of the device.
    pub size: Option<Bytes>,
    /// 512 or 4096 bytes.
    pub block_size: u32,
    /// Its UUID; `None` derives one from subsystem and number, the same at every start.
    pub uuid: Option<[u8; 16]>,
}

/// A host with other than an equal share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantConfig {
    /// The host's NQN.
    pub host: String,
    /// Relative share; 1 is the common one.
    pub weight: u32,
    /// At most this many IOs per second on each SSD.
    pub limit_iops: Option<u64>,
    /// At most this many bytes per second on each SSD.
    pub limit_rate: Option<ByteRate>,
    /// At least this many cost-weighted bytes per second on each SSD.
    pub reservation: Option<ByteRate>,
    /// What it is promised on each SSD whose scheduler is ReFlex.
    pub slo: Option<Slo>,
}

/// Bounds on what hosts may make the target hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// IO buffers of the whole target.
    pub memory: Bytes,
    /// IO buffers on behalf of one connection.
    pub memory_per_connection: Bytes,
    /// IO buffers on behalf of all connections of one host NQN; `None` is a quarter of `memory`. As `memory`, it is divided
    /// among the devices.
    pub memory_per_host: Option<Bytes>,
    /// Connections (queues of all hosts together).
    pub connections: u32,
    /// Connections of one host NQN.
    pub connections_per_host: u32,
    /// Connections that have not said Connect, beyond the others.
    pub connections_waiting: u32,
    /// Entries of a submission queue.
    pub queue_depth: u16,
    /// IO queues of one controller.
    pub io_queues: u16,
    /// The largest transfer of one command (MDTS), a power of two of at least 4 KiB.
    pub transfer_max: Bytes,
    /// From accept to the end of the host's ICReq.
    pub handshake_timeout: Nanos,
    /// From ICReq to the end of Connect. Hosts connect all their queues before they say Connect on the first.
    pub connect_timeout: Nanos,
    /// How long a host may leave its replies unread, or its announced data unsent, before it is disconnected.
    pub stall_timeout: Nanos,
    /// How long an IO may be on a device before the device is reported to hang.
    pub hang_after: Nanos,
    /// How long the end of the target may take: what is not answered then is given up.
    pub drain_timeout: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory: Bytes::mib(512),
            memory_per_connection: Bytes::mib(32),
            memory_per_host: None,
            connections: 1024,
            connections_per_host: 512,
            connections_waiting: 1024,
            queue_depth: 1024,
            io_queues: 64,
            transfer_max: Bytes::mib(1),
            handshake_timeout: Nanos::secs(10),
            connect_timeout: Nanos::secs(30),
            stall_timeout: Nanos::secs(30),
            hang_after: Nanos::secs(10),
            drain_timeout: Nanos::secs(30),
        }
    }
}

/// One part of so many of `memory` is one host's, unless the configuration says otherwise.
const HOST_PART: u64 = 4;

impl Limits {
    /// What `memory_per_host` comes to.
    pub(crate) fn host_memory(&self) -> Bytes {
        self.memory_per_host.unwrap_or(Bytes(self.memory.get() / HOST_PART))
    }
}

impl Config {
    /// One subsystem with one namespace that is the whole of `device`, open to every host.
    pub fn simple(device: DeviceKind, listen: SocketAddr) -> Config {
        Config {
            listen: vec![listen],
            backend: BackendChoice::Auto,
            spin: None,
            devices: vec![DeviceConfig {
                name: "ssd".to_owned(),
                kind: device,
                scheduler: SchedulerConfig::default(),
                faults: Vec::new(),
            }],
            subsystems: vec![SubsystemConfig {
                nqn: DEFAULT_NQN.to_owned(),
                serial: None,
                model: DEFAULT_MODEL.to_owned(),
                hosts: AllowedHosts::Any,
                namespaces: vec![NamespaceConfig::whole(1, "ssd")],
            }],
            tenants: Vec::new(),
            limits: Limits::default(),
            log: LogConfig::default(),
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or is wrong: then with every problem of it.
    pub fn load(file: &Path) -> Result<Config, ConfigError> {
        Config::load_with_lines(file).map(|(config, _)| config)
    }

    /// As [`Config::load`], remembering where in the file everything stands.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with_lines(file: &Path) -> Result<(Config, Lines), ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
        parse_with_lines(&text)
            .map_err(|problems| ConfigError::Wrong { file: Some(file.to_owned()), problems })
    }

    /// Reads and checks a text, which [`Config::load`] takes from a file.
    ///
    /// # Errors
    /// Every problem of it, in the order of the text.
    pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
        parse_with_lines(text).map(|(config, _)| config)
    }

    /// Checks what must hold between the fields of a configuration that a program made.
    ///
    /// # Errors
    /// Every problem of it.
    pub fn check(&self) -> Result<(), ConfigError> {
        let problems = check::problems(self);
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Wrong { file: None, problems }) }
    }

    /// The subsystem of that name.
    pub(crate) fn subsystem(&self, nqn: &str) -> Option<&SubsystemConfig> {
        self.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)
    }

    /// What is allowed but hardly meant for daily use: one line each, for whoever starts or checks this.
    pub fn warnings(&self) -> Vec<String> {
        let faulty = self.devices.iter().filter(|device| !device.faults.is_empty());
        faulty
            .map(|device| {
                format!(
                    "device {:?} is made to fail on purpose ({} [[device.fault]]): for tests only",
                    device.name,
                    device.faults.len()
                )
            })
            .collect()
    }

    /// The device called `name`, as an index of [`Config::devices`].
    pub(crate) fn device_index(&self, name: &str) -> Option<usize> {
        self.devices.iter().position(|device| device.name == name)
    }
}

fn parse_with_lines(text: &str) -> Result<(Config, Lines), Vec<Problem>> {
    let read::Reading { config, mut problems, lines, is_toml } = read::read(text);
    if !is_toml {
        return Err(problems);
    }
    // Fields that could not be read hold defaults: what the check says about those is not the user's doing.
    let unread: Vec<String> = problems.iter().map(|problem| problem.field.clone()).collect();
    let found = check::problems(&config).into_iter().filter(|found| !unread.contains(&found.field));
    problems.extend(found.map(|found| Problem { line: lines.of(&found.field), ..found }));
    if problems.is_empty() {
        return Ok((config, lines));
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

/// The model number of a subsystem that names none.
pub const DEFAULT_MODEL: &str = "Gimbal";

/// The block size of a namespace that names none.
pub const DEFAULT_BLOCK_SIZE: u32 = 4096;

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
        }
    }
}

impl PolicyKind {
    /// All, the default first.
    pub const ALL: [PolicyKind; 6] = [
        PolicyKind::Gimbal,
        PolicyKind::GimbalNext,
        PolicyKind::GimbalPaper,
        PolicyKind::Reflex,
        PolicyKind::Flashfq,
        PolicyKind::None,
    ];

    /// As configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Gimbal => "gimbal",
            PolicyKind::GimbalNext => "gimbal-next",
            PolicyKind::GimbalPaper => "gimbal-paper",
            PolicyKind::Reflex => "reflex",
            PolicyKind::Flashfq => "flashfq",
            PolicyKind::None => "none",
        }
    }

    /// Whether it goes by what was measured of the device beforehand.
    pub const fn needs_calibration(self) -> bool {
        matches!(self, PolicyKind::GimbalNext | PolicyKind::Reflex | PolicyKind::Flashfq)
    }
}

impl TenantConfig {
    /// An equal share, without limits.
    pub fn equal(host: &str) -> TenantConfig {
        TenantConfig {
            host: host.to_owned(),
            weight: 1,
            limit_iops: None,
            limit_rate: None,
            reservation: None,
            slo: None,
        }
    }
}

impl EmulatedConfig {
    /// A clean DCT983 of `size` in real time, in memory.
    pub fn new(size: Bytes) -> EmulatedConfig {
        EmulatedConfig {
            profile: "dct983".to_owned(),
            condition: Condition::Clean,
            speed: Speed::REAL_TIME,
            backing: Backing::Ram,
            size,
            seed: 1,
        }
    }
}

/// The address of a target that names none: this machine only.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), NVME_TCP_PORT);
