//! The rack that a target belongs to: which SSDs it offers to volumes, and where it says so.
//!
//! A client that mounts a volume writes to every SSD that is offered, so nothing is offered unless the file names its subsystem.
//! The check refuses devices that lose written data.
//!
//! Holds: `only_what_keeps_data_is_offered_to_volumes`, `clients_reach_a_rack_over_each_transport_that_it_listens_on` in `config/tests.rs`.
//! Elsewhere: volumes are `docs/blob-store.md`; the thread that registers the SSDs is in `gimbal serve`.

use super::problem::Problem;
use super::{Backing, Config, DeviceKind, EmulatedConfig, Listen, Transport};
use std::net::SocketAddr;
use units::{Bytes, Nanos};

/// The default size of a mega blob, the paper's.
const MEGA: Bytes = Bytes::gib(4);
/// A mega blob is a whole number of these, and at most `MEGA_MAX`.
const MEGA_UNIT: Bytes = Bytes::mib(1);
const MEGA_MAX: Bytes = Bytes::gib(1024);
/// Default time that the SSDs count as live after the target has died.
const TTL: Nanos = Nanos::secs(10);
const TTL_MIN: Nanos = Nanos::secs(1);
const TTL_MAX: Nanos = Nanos::secs(600);
/// The longest name of a target.
const NAME_LENGTH_MAX: usize = 64;

/// The offer of a target to volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RackConfig {
    /// The metadata store: `etcd://HOST:PORT[,HOST:PORT...]`, with TLS `etcds://`, with a user `USER@` before the hosts; or the path of a
    /// file.
    pub store: String,
    /// The name of this target. The copies of a block lie on SSDs of targets with different names.
    pub name: String,
    /// NQNs of the subsystems with offered namespaces.
    pub subsystems: Vec<String>,
    /// The address at which clients reach this target over NVMe/TCP; `None`: the first one of them that it listens on.
    pub address: Option<SocketAddr>,
    /// The same over NVMe/RDMA.
    pub rdma_address: Option<SocketAddr>,
    /// The piece of an SSD that a volume takes at a time.
    pub mega: Bytes,
    /// Time that the SSDs count as live after the target has died.
    pub ttl: Nanos,
}

impl RackConfig {
    /// With the default sizes.
    pub fn new(store: &str, name: &str, subsystems: &[&str]) -> RackConfig {
        RackConfig {
            store: store.to_owned(),
            name: name.to_owned(),
            subsystems: subsystems.iter().map(|&nqn| nqn.to_owned()).collect(),
            address: None,
            rdma_address: None,
            mega: MEGA,
            ttl: TTL,
        }
    }
}

impl RackConfig {
    /// The address at which clients reach a target that listens on these, by a transport.
    pub fn reached(&self, listening: &[Listen], transport: Transport) -> Option<SocketAddr> {
        let mut addresses = listening.iter().filter(|listen| listen.transport == transport);
        self.configured(transport).or_else(|| addresses.next().map(|listen| listen.address))
    }

    fn configured(&self, transport: Transport) -> Option<SocketAddr> {
        match transport {
            Transport::Tcp => self.address,
            Transport::Rdma => self.rdma_address,
        }
    }
}

/// Every problem of the table `[rack]`.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let Some(rack) = &config.rack else { return Vec::new() };
    let mut problems = Vec::new();
    let mut report = |name: &str, what: String, advice: &str| {
        problems.push(Problem::new(format!("rack.{name}"), what, advice));
    };
    let advice =
        "write \"etcd://HOST:2379\", with TLS and a user \"etcds://USER@HOST:2379\", or the path of a file";
    if rack.store.is_empty() {
        report("store", "is empty".to_owned(), advice);
    }
    // The rest is not shown: there may be a password in it.
    if let Some((scheme, rest)) = rack.store.split_once("://") {
        if !["etcd", "etcds"].contains(&scheme) {
            report("store", format!("{scheme:?} is no kind of metadata store"), advice);
        } else if rest.split_once('@').is_some_and(|(user, _)| user.contains(':')) {
            let advice = "remove it, and name its file by GIMBAL_ETCD_PASSWORD_FILE";
            report("store", "there is a password in it".to_owned(), advice);
        }
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if rack.name.is_empty() || rack.name.len() > NAME_LENGTH_MAX || !rack.name.chars().all(is_plain) {
        let what =
            format!("{:?} is no name of 1 to {NAME_LENGTH_MAX} letters, digits, '-', '_', '.'", rack.name);
        report("name", what, "write a name that no other target of the rack has");
    }
    for (transport, name, shown) in
        [(Transport::Tcp, "address", "TCP"), (Transport::Rdma, "rdma_address", "RDMA")]
    {
        let is_open = |address: &SocketAddr| address.ip().is_unspecified();
        match rack.configured(transport) {
            Some(address) if is_open(&address) || address.port() == 0 => {
                report(name, "is no address to connect to".to_owned(), "write \"ADDRESS:PORT\"");
            }
            Some(_) if !config.listen.iter().any(|listen| listen.transport == transport) => {
                let what = format!("is there, but `listen` has no address over {shown}");
                report(name, what, "add one to `listen`, or remove it here");
            }
            None if rack.reached(&config.listen, transport).is_some_and(|address| is_open(&address)) => {
                let what = "is missing: clients cannot connect to the address 0.0.0.0".to_owned();
                report(name, what, "write the address of this machine that clients use");
            }
            Some(_) | None => {}
        }
    }
    if rack.mega < MEGA_UNIT || rack.mega > MEGA_MAX || !rack.mega.get().is_multiple_of(MEGA_UNIT.get()) {
        let what = format!("{} is not a multiple of {MEGA_UNIT}, at most {MEGA_MAX}", rack.mega);
        report("mega", what, "write \"4G\"");
    }
    if rack.ttl < TTL_MIN || rack.ttl > TTL_MAX {
        report("ttl", format!("{} is not from {TTL_MIN} to {TTL_MAX}", rack.ttl), "write \"10s\"");
    }
    if rack.subsystems.is_empty() {
        report("subsystems", "no SSD is offered".to_owned(), "list the NQNs of subsystems, or remove [rack]");
    }
    for nqn in &rack.subsystems {
        let Some(subsystem) = config.subsystem(nqn) else {
            report("subsystems", format!("there is no subsystem {nqn:?}"), "list NQNs of this file");
            continue;
        };
        for namespace in &subsystem.namespaces {
            let device = config.devices.iter().find(|device| device.name == namespace.device);
            if device.is_some_and(|device| forgets(&device.kind)) {
                let what = format!("device {:?} of {nqn:?} forgets what is written to it", namespace.device);
                report("subsystems", what, "offer devices that keep their data");
            }
        }
    }
    problems
}

fn forgets(kind: &DeviceKind) -> bool {
    matches!(
        kind,
        DeviceKind::Null { .. } | DeviceKind::Emulated(EmulatedConfig { backing: Backing::None, .. })
    )
}
