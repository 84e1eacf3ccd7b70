//! Rules between the fields of a configuration, from a file or from a program.

use super::problem::Problem;
use super::*;
use crate::identity;
use limits::REPLIES_LEAST;
use sched::{Cost, Scheduler};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Length of a qualified name (Base specification, NVMe Qualified Names).
const NQN_LENGTH_MAX: usize = 223;
/// Bytes of a serial number in Identify Controller.
const SERIAL_LENGTH_MAX: usize = 20;
/// Bytes of a model number in Identify Controller.
const MODEL_LENGTH_MAX: usize = 40;
/// The well-known name of the discovery subsystem.
const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Devices and namespaces are laid out in these units, which every block size divides and direct IO accepts.
const LAYOUT_UNIT: Bytes = Bytes::kib(4);
/// The largest MDTS offered.
const TRANSFER_MAX: Bytes = Bytes::mib(16);
/// Beyond this, busy polling only wastes processor time: a sleep costs microseconds.
const SPIN_MAX: Nanos = Nanos::millis(10);
/// More threads than the machines have processors that this is made for.
const THREADS_MAX: u32 = 256;

/// Every problem of `config`, with fields but without lines.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let mut check = Check { config, problems: Vec::new() };
    check.listen();
    check.spin();
    check.threads();
    check.state_dir();
    check.devices();
    check.subsystems();
    check.ranges();
    check.problems.extend(group::problems(config));
    check.tenants();
    check.limits();
    check.log();
    check.problems.extend(security::problems(config));
    check.problems.extend(admin::problems(&config.admin));
    check.problems.extend(admin::problem_of_metrics(&config.metrics));
    check.problems.extend(rack::problems(config));
    check.problems.extend(bounds::problems(config));
    check.problems
}

struct Check<'c> {
    config: &'c Config,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn report(&mut self, field: String, what: impl Into<String>, advice: &str) {
        self.problems.push(Problem::new(field, what, advice));
    }

    fn listen(&mut self) {
        if self.config.listen.is_empty() {
            self.report("listen".into(), "no address to listen on", "write listen = [\"0.0.0.0:4420\"]");
        }
        let addresses = &self.config.listen;
        for (index, address) in addresses.iter().enumerate() {
            if let Some(other) = addresses[..index].iter().find(|other| is_same_place(other, address)) {
                let what = if other == address {
                    format!("{address} is there twice")
                } else {
                    format!(
                        "{address} and {other} cannot both be listened on, as one is all addresses of that port"
                    )
                };
                self.report("listen".into(), what, "keep one of them");
            }
        }
    }

    fn spin(&mut self) {
        if self.config.spin.is_some_and(|spin| spin > SPIN_MAX) {
            self.report("spin".into(), "is longer than 10ms", "write \"50us\", or \"0us\" for never");
        }
    }

    fn threads(&mut self) {
        if self.config.threads.is_some_and(|threads| threads == 0 || threads > THREADS_MAX) {
            let what = format!("is not from 1 to {THREADS_MAX}");
            self.report("threads".into(), what, "write the number of processors that the target may use");
        }
    }

    fn state_dir(&mut self) {
        if self.config.state_dir.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            self.report(
                "state_dir".into(),
                "the path is empty",
                "write a directory such as \"/var/lib/gimbal\"",
            );
        }
    }

    fn devices(&mut self) {
        if self.config.devices.is_empty() {
            self.report("device".into(), "there is no device to share", "write a [[device]] table");
        }
        let mut names = HashSet::new();
        let mut paths = HashSet::new();
        for (index, device) in self.config.devices.iter().enumerate() {
            let field = |name: &str| format!("device[{index}].{name}");
            if device.name.is_empty() {
                self.report(field("name"), "the name is empty", "give the device a name");
            } else if !names.insert(&device.name) {
                self.report(
                    field("name"),
                    format!("two devices are called {:?}", device.name),
                    "rename one of them",
                );
            }
            let (path, size, may_be_absent) = match &device.kind {
                DeviceKind::File { path, size, .. } => (Some(path), *size, true),
                DeviceKind::Block { path, .. } | DeviceKind::Directory(DirectoryConfig { path, .. }) => {
                    (Some(path), None, true)
                }
                DeviceKind::NvmeTcp(_) => (None, None, true),
                DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), size, .. }) => {
                    (Some(path), Some(*size), false)
                }
                DeviceKind::Emulated(EmulatedConfig { size, .. }) | DeviceKind::Null { size } => {
                    (None, Some(*size), false)
                }
            };
            if path.is_some_and(|path| !path.as_os_str().is_empty() && !paths.insert(path)) {
                self.report(
                    field("path"),
                    "two devices have this path",
                    "share it once, with several namespaces",
                );
            }
            match size {
                Some(size) if size == Bytes::ZERO || !is_multiple(size, LAYOUT_UNIT) => {
                    let what = format!("{size} is not a multiple of {LAYOUT_UNIT} above zero");
                    self.report(field("size"), what, "round it");
                }
                None if !may_be_absent => self.report(field("size"), "is missing", "write size = \"16G\""),
                _ => {}
            }
            self.access(index, &device.kind);
            if let DeviceKind::NvmeTcp(back_end) = &device.kind {
                self.nqn(field("subsystem"), &back_end.subsystem);
                self.nqn(field("host"), &back_end.host);
                self.problems.extend(back_end::problems(self.config, index, back_end));
            }
            self.calibration(index, &device.scheduler);
            self.unread_constants(index, &device.scheduler);
            self.scheduler(index, &device.scheduler.overrides);
            if let Some(ais) = &device.ais {
                self.problems.extend(ais.problems(&device.kind, |name| field(&format!("ais.{name}"))));
                for (number, fault) in ais.faults.iter().enumerate() {
                    let field = |name: &str| format!("device[{index}].ais.fault[{number}].{name}");
                    self.problems.extend(fault.problems(field));
                }
                if ais.path().is_some_and(|path| !path.as_os_str().is_empty() && !paths.insert(path)) {
                    let advice = "give it one of its own";
                    self.report(field("ais.store"), "something else has this path", advice);
                }
            }
            for (number, fault) in device.faults.iter().enumerate() {
                let field = |name: &str| format!("device[{index}].fault[{number}].{name}");
                self.problems.extend(fault.problems(field));
            }
        }
    }

    /// Polling and NVMe commands are io_uring's, and nothing is polled for in the page cache.
    fn access(&mut self, index: usize, kind: &DeviceKind) {
        let DeviceKind::Block { direct, access: BlockAccess { passthrough, polled }, .. } = *kind else {
            return;
        };
        let field = |name: &str| format!("device[{index}].{name}");
        if polled && !direct {
            let what = "a device is polled for direct IO only";
            self.report(field("polled"), what, "write direct = true, or polled = false");
        }
        if self.config.backend == BackendChoice::Epoll && (polled || passthrough) {
            let (name, what) = match passthrough {
                true => ("kind", "NVMe commands need io_uring"),
                false => ("polled", "polling needs io_uring"),
            };
            self.report(field(name), what, "write backend = \"auto\" or \"io_uring\"");
        }
    }

    fn calibration(&mut self, index: usize, scheduler: &SchedulerConfig) {
        if scheduler.policy.needs_calibration() && scheduler.calibration.is_none() {
            let what = format!("{} needs a calibration of the device", scheduler.policy.name);
            let advice = "write calibration = \"FILE\" in [device.scheduler]";
            self.report(format!("device[{index}].scheduler.calibration"), what, advice);
        }
        if scheduler.prior.is_some() && !scheduler.policy.learns {
            let what = format!("{} learns nothing and reads no prior", scheduler.policy.name);
            let advice = "remove it, or write policy = \"level\"";
            self.report(format!("device[{index}].scheduler.prior"), what, advice);
        }
        if scheduler.policy == Scheduler::LEVEL && scheduler.calibration.is_some() {
            let advice = "leave the calibration out, or choose level-calibrated";
            let what = "level measures the device by itself and reads no calibration";
            self.report(format!("device[{index}].scheduler"), what, advice);
        }
    }

    /// Whoever writes a constant expects it to do something.
    fn unread_constants(&mut self, index: usize, scheduler: &SchedulerConfig) {
        let policy = scheduler.policy;
        for name in scheduler.overrides.given().into_iter().filter(|name| !policy.reads(name)) {
            let what = format!("the scheduler {:?} does not read it", policy.name);
            let readers: Vec<&str> = offered().filter(|one| one.reads(name)).map(|one| one.name).collect();
            let advice = format!("remove it, or choose {}", readers.join(" or "));
            self.report(format!("device[{index}].scheduler.{name}"), what, &advice);
        }
    }

    fn scheduler(&mut self, index: usize, overrides: &SchedulerOverrides) {
        let field = |name: &str| format!("device[{index}].scheduler.{name}");
        if let (Some(min), Some(max)) = (overrides.thresh_min, overrides.thresh_max)
            && min >= max
        {
            let what = format!("{min} is not below thresh_max, {max}");
            self.report(field("thresh_min"), what, "exchange them?");
        }
        if let (Some(min), Some(max)) = (overrides.rate_min, overrides.rate_max)
            && min >= max
        {
            let what = format!("{min} is not below rate_max, {max}");
            self.report(field("rate_min"), what, "exchange them?");
        }
        if overrides.slots == Some(0) {
            self.report(field("slots"), "zero lets nothing through", "write 1 or more");
        }
        for (name, value) in
            [("write_cost_best", overrides.write_cost_best), ("write_cost_worst", overrides.write_cost_worst)]
        {
            if value.is_some_and(|cost| cost < Cost::ONE) {
                self.report(field(name), "a written byte costs no less than a read one", "write 1 or more");
            }
        }
        for (name, value) in [("rate_min", overrides.rate_min), ("rate_max", overrides.rate_max)] {
            if value == Some(ByteRate(0)) {
                self.report(field(name), "zero lets nothing through", "write a rate above zero");
            }
        }
    }

    fn subsystems(&mut self) {
        // In a directory namespaces come and go, and at first there is none.
        let has_directory =
            self.config.devices.iter().any(|device| matches!(device.kind, DeviceKind::Directory(_)));
        if self.config.subsystems.is_empty() && !has_directory {
            let advice = "write a [[subsystem]] table with a [[subsystem.namespace]]";
            self.report("subsystem".into(), "there is no subsystem to connect to", advice);
        }
        let mut nqns = HashSet::new();
        let mut serials: HashMap<String, &String> = HashMap::new();
        for (index, subsystem) in self.config.subsystems.iter().enumerate() {
            let field = |name: &str| format!("subsystem[{index}].{name}");
            self.nqn(field("nqn"), &subsystem.nqn);
            if subsystem.nqn == DISCOVERY_NQN {
                self.report(field("nqn"), "this is the name of the discovery service", "choose another name");
            } else if !nqns.insert(&subsystem.nqn) {
                self.report(field("nqn"), "two subsystems have this name", "rename one of them");
            }
            if let Some(serial) = &subsystem.serial {
                self.ascii(field("serial"), serial, SERIAL_LENGTH_MAX);
            }
            // Hosts pad serial numbers with spaces, and tell drives apart by them.
            let serial = subsystem.serial.clone().unwrap_or_else(|| identity::serial(&subsystem.nqn));
            let serial = serial.trim().to_owned();
            if serial.is_empty() {
                let advice =
                    "write one that no other subsystem has, or leave it out: it is then made of the NQN";
                self.report(field("serial"), "the serial number is blank", advice);
            } else if let Some(other) = serials.insert(serial.clone(), &subsystem.nqn)
                && *other != subsystem.nqn
            {
                let what = format!("subsystem {other:?} has the serial number {serial:?} too");
                let advice = "write another one, or leave it out: it is then made of the NQN";
                self.report(field("serial"), what, advice);
            }
            self.ascii(field("model"), &subsystem.model, MODEL_LENGTH_MAX);
            if let AllowedHosts::Only(hosts) = &subsystem.hosts {
                for host in hosts {
                    self.nqn(field("hosts"), host);
                }
            }
            self.namespaces(index, subsystem);
        }
    }

    fn namespaces(&mut self, subsystem_index: usize, subsystem: &SubsystemConfig) {
        if subsystem.namespaces.is_empty() {
            let field = format!("subsystem[{subsystem_index}].namespace");
            self.report(field, "the subsystem has no namespace", "write a [[subsystem.namespace]] table");
        }
        let mut nsids = HashSet::new();
        let (mut beyond, mut beyond_count) = (None, 0);
        for (index, namespace) in subsystem.namespaces.iter().enumerate() {
            let field = |name: &str| format!("subsystem[{subsystem_index}].namespace[{index}].{name}");
            if namespace.nsid == 0 {
                self.report(field("nsid"), "0 is not a namespace number", "count from 1");
            } else if namespace.nsid > NSID_MAX {
                beyond.get_or_insert((field("nsid"), namespace.nsid));
                beyond_count += 1;
            } else if !nsids.insert(namespace.nsid) {
                let what = format!("two namespaces have number {}", namespace.nsid);
                self.report(field("nsid"), what, "write nsid = 1, 2, 3, …");
            }
            if self.config.device_index(&namespace.device).is_none() {
                let known: Vec<&str> =
                    self.config.devices.iter().map(|device| device.name.as_str()).collect();
                let what = format!("no device is called {:?}", namespace.device);
                self.report(field("device"), what, &format!("known: {}", known.join(", ")));
            }
            if ![512, 4096].contains(&namespace.block_size) {
                let what = format!("blocks of {} bytes are not possible", namespace.block_size);
                self.report(field("block_size"), what, "write 512 or 4096");
            }
            if !is_multiple(namespace.offset, LAYOUT_UNIT) {
                let what = format!("{} is not a multiple of {LAYOUT_UNIT}", namespace.offset);
                self.report(field("offset"), what, "round it");
            }
            if let Some(size) = namespace.size
                && (size == Bytes::ZERO || !is_multiple(size, LAYOUT_UNIT))
            {
                let what = format!("{size} is not a multiple of {LAYOUT_UNIT} above zero");
                self.report(field("size"), what, "round it");
            }
            self.problems.extend(directory::problems(self.config, subsystem, namespace, field));
        }
        if let Some((field, nsid)) = beyond {
            let what = match beyond_count {
                1 => format!("{nsid} is beyond the largest namespace number, {NSID_MAX}"),
                count => {
                    format!(
                        "{nsid} and {} more are beyond the largest namespace number, {NSID_MAX}",
                        count - 1
                    )
                }
            };
            let advice =
                format!("write numbers from 1 to {NSID_MAX}, and put the others into another subsystem");
            self.report(field, what, &advice);
        }
    }

    /// Namespaces lie within their devices and do not overlap: two namespaces over the same blocks would each believe
    /// their own reservations and sizes.
    fn ranges(&mut self) {
        // By device and start: the end, and the namespace. Those that overlap an earlier one are left out, so no two of a device overlap.
        let mut ranges: BTreeMap<(usize, u64), (u64, [usize; 2])> = BTreeMap::new();
        for (subsystem_index, subsystem) in self.config.subsystems.iter().enumerate() {
            for (index, namespace) in subsystem.namespaces.iter().enumerate() {
                let Some(device) = self.config.device_index(&namespace.device) else { continue };
                // Each has a file of its own.
                if matches!(self.config.devices[device].kind, DeviceKind::Directory(_)) {
                    continue;
                }
                let field = |name: &str| format!("subsystem[{subsystem_index}].namespace[{index}].{name}");
                let start = namespace.offset.get();
                let end = namespace.size.map_or(u64::MAX, |size| start.saturating_add(size.get()));
                if let Some(size) = known_size(&self.config.devices[device].kind) {
                    let needed = namespace.offset.saturating_add(namespace.size.unwrap_or(LAYOUT_UNIT));
                    if needed > size {
                        let what = format!(
                            "the namespace ends at {needed}, device {:?} at {size}",
                            namespace.device
                        );
                        self.report(field("size"), what, "make it smaller, or the device larger");
                    }
                }
                // The only one that can overlap: the last that starts before the end.
                let other = ranges.range((device, 0)..(device, end)).next_back();
                match other.filter(|(_, (to, _))| start < *to) {
                    Some((_, (_, [subsystem, index]))) => {
                        let what = format!(
                            "the blocks overlap with those of subsystem[{subsystem}].namespace[{index}]"
                        );
                        let advice = "give each namespace an offset and a size of its own";
                        self.report(field("offset"), what, advice);
                    }
                    None if start < end => {
                        ranges.insert((device, start), (end, [subsystem_index, index]));
                    }
                    // Without a block it overlaps nothing.
                    None => {}
                }
            }
        }
    }

    fn tenants(&mut self) {
        let mut hosts = HashSet::new();
        for (index, tenant) in self.config.tenants.iter().enumerate() {
            let field = |name: &str| format!("tenant[{index}].{name}");
            self.nqn(field("host"), &tenant.host);
            if !hosts.insert(&tenant.host) {
                self.report(field("host"), "two tenants are this host", "keep one of them");
            }
            self.problems.extend(tenant.share.problems(field));
        }
        self.problems.extend(tenant::problems_of_namespaces(self.config));
    }

    fn limits(&mut self) {
        let limits = &self.config.limits;
        let field = |name: &str| format!("limits.{name}");
        if !limits.transfer_max.get().is_power_of_two()
            || limits.transfer_max < LAYOUT_UNIT
            || limits.transfer_max > TRANSFER_MAX
        {
            let what =
                format!("{} is not a power of two from {LAYOUT_UNIT} to {TRANSFER_MAX}", limits.transfer_max);
            self.report(field("transfer_max"), what, "write \"1M\"");
        }
        if limits.memory_per_connection < limits.transfer_max {
            let what = format!("{} do not hold one transfer of transfer_max", limits.memory_per_connection);
            self.report(field("memory_per_connection"), what, "raise it, or lower transfer_max");
        }
        if let Some(memory) = limits.memory_per_host
            && memory < limits.transfer_max
        {
            let what = format!("{memory} do not hold one transfer of transfer_max");
            self.report(field("memory_per_host"), what, "raise it, or lower transfer_max");
        }
        let least = Bytes(limits.transfer_max.get().saturating_mul(MEMORY_IN_TRANSFERS));
        // Threads by default do not divide memory into parts that are too small.
        let threads = self.config.devices.len().max(1) + self.config.connection_threads(1);
        if limits.memory.get() / (threads as u64) < least.get() {
            let (memory, of) =
                (limits.memory, if threads > self.config.devices.len() { "thread" } else { "device" });
            let what = format!("{memory} do not hold {MEMORY_IN_TRANSFERS} transfers for each {of}");
            self.report(field("memory"), what, "raise it, or lower transfer_max");
        }
        let named = self.config.named_hosts().len();
        if named as u64 * 2 > u64::from(limits.connections) {
            let what = format!(
                "{} places are too few to keep one for each of {named} named hosts",
                limits.connections
            );
            self.report(field("connections"), what, "write at least twice as many as there are named hosts");
        }
        let devices = self.config.devices.len().max(1) as u64;
        if limits.reply_memory.get() / devices < REPLIES_LEAST.get() {
            let what = format!("{} do not hold {REPLIES_LEAST} for each device", limits.reply_memory);
            self.report(field("reply_memory"), what, "write \"16M\"");
        }
        self.problems.extend(schema::problems(limits::FIELDS, limits, field));
    }

    fn log(&mut self) {
        if let Err(what) = self.config.log.filter() {
            self.report("log.level".into(), what, "write \"info\", or such as \"warn,server=debug\"");
        }
    }

    fn nqn(&mut self, field: String, nqn: &str) {
        if let Some(what) = nqn_problem(nqn) {
            self.report(field, what, "write \"nqn.2025-01.com.example:name\", at most 223 bytes");
        }
    }

    fn ascii(&mut self, field: String, text: &str, length_max: usize) {
        if text.len() > length_max || !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            let what = format!("{text:?} does not fit {length_max} characters of ASCII");
            self.report(field, what, "shorten it");
        }
    }
}

/// The problem of a qualified name, if it has one.
pub(super) fn nqn_problem(nqn: &str) -> Option<String> {
    let is_wrong = !nqn.starts_with("nqn.") || nqn.len() > NQN_LENGTH_MAX || nqn.contains(char::is_control);
    is_wrong.then(|| format!("{nqn:?} is not an NVMe qualified name"))
}

/// Whether the system refuses to listen on both. A port that it chooses is another one each time.
fn is_same_place(one: &Listen, other: &Listen) -> bool {
    if one.transport != other.transport {
        return false;
    }
    let (one, other) = (one.address, other.address);
    let is_either_all = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_same_address = one == other || (is_either_all && one.is_ipv4() == other.is_ipv4());
    one.port() != 0 && one.port() == other.port() && is_same_address
}

/// The largest namespace number, the default of the `nvme` crate: hosts read the list of active namespaces (CNS 02h) in pages of 1024.
const NSID_MAX: u32 = 4096;
/// Reads and writes each need room for one transfer, and one more of each keeps the SSD busy meanwhile.
const MEMORY_IN_TRANSFERS: u64 = 4;

fn known_size(kind: &DeviceKind) -> Option<Bytes> {
    match kind {
        DeviceKind::File { size, .. } => *size,
        DeviceKind::Block { .. } | DeviceKind::Directory(_) | DeviceKind::NvmeTcp(_) => None,
        DeviceKind::Emulated(emulated) => Some(emulated.size),
        DeviceKind::Null { size } => Some(*size),
    }
}

fn is_multiple(bytes: Bytes, unit: Bytes) -> bool {
    bytes.get().is_multiple_of(unit.get())
}
