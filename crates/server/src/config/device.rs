//! A device: its kind, and, for a model of an SSD, its state and speed.

use super::ais::AisConfig;
use super::fault::FaultConfig;
use super::scheduler::SchedulerConfig;
use host::KeyFiles;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Bytes, Nanos};

/// One SSD and its scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceConfig {
    /// Its name in namespaces and messages.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Share it although something else uses it: a mount, swap, LVM, another process.
    pub force: bool,
    /// Whether hosts may only read it; `None`: if it cannot be written.
    pub read_only: Option<bool>,
    /// The reaction to a file with holes larger than the free space of its file system.
    pub overcommit: Overcommit,
    /// The scheduler of its IOs.
    pub scheduler: SchedulerConfig,
    /// An auxiliary store for bursts of writes.
    pub ais: Option<AisConfig>,
    /// Faults for tests; a device in use has none.
    pub faults: Vec<FaultConfig>,
}

/// The reaction to a sparse file with holes larger than the free space of its file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overcommit {
    /// Say so in the log.
    #[default]
    Warn,
    /// Not share it.
    Refuse,
}

impl DeviceConfig {
    /// A device with the scheduler that devices have, and nothing special about it.
    pub fn new(name: &str, kind: DeviceKind) -> DeviceConfig {
        DeviceConfig {
            name: name.to_owned(),
            kind,
            force: false,
            read_only: None,
            overcommit: Overcommit::default(),
            scheduler: SchedulerConfig::default(),
            ais: None,
            faults: Vec::new(),
        }
    }
}

/// The kind of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// A regular file.
    File {
        /// Where it is.
        path: PathBuf,
        /// Its size; `None` takes the file as it is. A file of another size is refused, unless the size grows while the target runs:
        /// then the file is extended, sparse. It is never cut.
        size: Option<Bytes>,
        /// Make the file, sparse, if it does not exist or is empty (needs `size`).
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
        /// Past the block layer, or without interrupts.
        access: BlockAccess,
    },
    /// A directory in which each namespace is a file.
    Directory(DirectoryConfig),
    /// A namespace of another target, over NVMe/TCP.
    NvmeTcp(BackEndConfig),
    /// The SSD model in real time over memory or a sparse file.
    Emulated(EmulatedConfig),
    /// Reads zeroes, forgets writes, completes at once: measures everything but the device.
    Null {
        /// How large it says it is.
        size: Bytes,
    },
}

/// A directory that is a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Where it is.
    pub path: PathBuf,
    /// Make a pool in it if it has none.
    pub create: bool,
    /// Bypass the page cache.
    pub direct: bool,
    /// The free space of its file system that new namespaces, growth and snapshots leave.
    pub reserve: Bytes,
}

/// A namespace of another target that is a device here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEndConfig {
    /// Where the other target listens.
    pub address: SocketAddr,
    /// Its subsystem.
    pub subsystem: String,
    /// The namespace in it.
    pub nsid: u32,
    /// The host NQN by which this target connects there.
    pub host: String,
    /// Time that IOs wait for a lost connection, and for the answer to a command.
    pub timeout: Nanos,
    /// Whether headers and data have checksums.
    pub digests: bool,
    /// Whether it is used only between a takeover of its group and the loss or release of it.
    pub fenced: bool,
    /// The keys of this target as a host.
    pub keys: KeyFiles,
}

impl BackEndConfig {
    /// The default of `timeout`.
    pub const TIMEOUT: Nanos = Nanos::secs(30);
}

/// The way of reading and writing a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockAccess {
    /// By NVMe commands (`kind = "nvme"`): the path is the generic character device of a namespace, such as `/dev/ng0n1`.
    pub passthrough: bool,
    /// The device is asked whether it is done instead of interrupting: for devices with polled queues.
    pub polled: bool,
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
    /// Make the file of the contents if it does not exist or is empty.
    pub create: bool,
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
    /// In a sparse file of the device's size.
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
        Speed::from_thousandths(u32::try_from(units::thousandths(text).ok()?).ok()?)
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

impl EmulatedConfig {
    /// A clean DCT983 of `size` in real time, in memory.
    pub fn new(size: Bytes) -> EmulatedConfig {
        EmulatedConfig {
            profile: "dct983".to_owned(),
            condition: Condition::Clean,
            speed: Speed::REAL_TIME,
            backing: Backing::Ram,
            create: false,
            size,
            seed: 1,
        }
    }
}
