//! Makes the subsystems that hosts see, from the configuration and the devices.

use crate::config::{self, AllowedHosts, Config, GROUP_MAX, Listen, NamespaceConfig, SubsystemConfig, Tls};
use crate::device::{self, Allocation, FILE_MAX, Facts, Usage};
use crate::home::{Home, Placement};
use crate::identity::{self, Identifiers};
use crate::state::NamespaceName;
use nvme::rdma::{OpenQueue, RdmaLimits};
use nvme::spec::Nqn;
use nvme::spec::connect::CNTLID_MAX;
use nvme::spec::discovery::{SecureChannel, SubsystemType, TransportType};
use nvme::subsystem::{
    BlockSize, ConnectBounds, DiscoveryAddress, DiscoveryRecord, HostAccess, Limits, NamespaceInfo, Role,
    Subsystem,
};
use nvme::tcp::TargetLimits;
use std::collections::HashMap;
use std::sync::Arc;
use units::{Bytes, Nanos};

/// In-capsule data of admin and IO queues, in bytes. A 4 KiB write and a Dataset Management command need no round trip. Linux expects
/// at least this for admin commands.
pub(crate) const IN_CAPSULE_MAX: u32 = 8192;

/// Why a subsystem cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SubsystemError {
    /// The namespace does not fit its device.
    #[error("namespace {nsid} ends at {end}, its device at {size}; make one smaller or the other larger")]
    TooLarge {
        /// The namespace's number.
        nsid: u32,
        /// Its end.
        end: Bytes,
        /// The size of the device.
        size: Bytes,
    },
    /// The device has larger blocks than the namespace.
    #[error(
        "namespace {nsid} has blocks of {asked} bytes, its device at least {least}; write block_size = {least}"
    )]
    BlockSize {
        /// The namespace's number.
        nsid: u32,
        /// The block size of the namespace.
        asked: u32,
        /// The smallest block size of the device.
        least: u32,
    },
    /// The namespace is to be erased when it is removed, and its device cannot be written.
    #[error("namespace {nsid} has wipe_on_remove = true, and its device is read-only; remove one of the two")]
    CannotWipe {
        /// The namespace's number.
        nsid: u32,
    },
    /// The `nvme` crate refuses the configuration.
    #[error("{0}")]
    Refused(nvme::subsystem::ConfigError),
    /// A name that is not an NQN.
    #[error("{0:?} is not an NVMe qualified name; write \"nqn.…\"")]
    Name(String),
}

/// The limits of every transport.
pub(crate) fn transport_limits(config: &Config) -> TargetLimits {
    let transfer_max =
        u32::try_from(config.limits.transfer_max.get()).expect("the check bounds transfer_max");
    TargetLimits { in_capsule_max: IN_CAPSULE_MAX, transfer_max, maxh2cdata: transfer_max, cpda: 0 }
}

/// The limits of a queue pair that a host has asked for, with this many reads of its memory in flight.
pub(crate) fn rdma_limits(limits: &config::Limits, open: &OpenQueue, reads: u8) -> RdmaLimits {
    RdmaLimits {
        entries: open.entries,
        transfer_max: u32::try_from(limits.transfer_max.get()).expect("the check bounds transfer_max"),
        reads_max: u32::from(reads),
        zeroes: reactor::rdma::ZEROES as u32,
    }
}

/// All devices by name: the slot of the pipeline, and the properties.
pub(crate) type Devices<'c> = HashMap<&'c str, (usize, Facts)>;

/// Makes the subsystem of the configuration `subsystem` on `devices`.
pub(crate) fn home(
    config: &Config,
    subsystem: &SubsystemConfig,
    devices: &Devices<'_>,
) -> Result<Home, SubsystemError> {
    let nqn = parse_nqn(&subsystem.nqn)?;
    let serial = subsystem.serial.clone().unwrap_or_else(|| identity::serial(&subsystem.nqn));
    let mut described = nvme::subsystem::SubsystemConfig::io(nqn, &serial);
    described.model.clone_from(&subsystem.model);
    described.hosts = access(&subsystem.hosts)?;
    let bounds = connect_bounds(&config.limits);
    described.limits = Limits {
        transfer_max: config.limits.transfer_max,
        in_capsule_max: IN_CAPSULE_MAX,
        io_queues_max: bounds.io_queues_max,
        queue_entries_max: bounds.queue_entries_max,
        keep_alive_max: bounds.keep_alive_max,
        controller_ids: subsystem.cntlid,
        ana_groups_max: GROUP_MAX,
        ..Limits::default()
    };
    described.persistence = config.state_dir.is_some();
    let mut placed = Vec::new();
    for namespace in &subsystem.namespaces {
        let (info, placement) = place(config, &subsystem.nqn, namespace, devices)?;
        placed.push((namespace.nsid, placement, usage(&subsystem.nqn, namespace, &info, devices)));
        described.namespaces.insert(namespace.nsid, info);
    }
    let access = config.access(subsystem);
    let subsystem = Subsystem::new(described).map_err(SubsystemError::Refused)?;
    let mut home = Home::new(subsystem);
    home.set_access(&access).map_err(SubsystemError::Refused)?;
    placed.into_iter().for_each(|(nsid, placement, usage)| home.place(nsid, placement, usage));
    Ok(home)
}

/// The bounds of a Connect to any subsystem.
pub(crate) fn connect_bounds(limits: &config::Limits) -> ConnectBounds {
    ConnectBounds {
        io_queues_max: limits.io_queues,
        queue_entries_max: limits.queue_depth,
        keep_alive_max: millis(limits.keep_alive_max),
    }
}

/// The name of a namespace of subsystem `nqn` in the state directory.
pub(crate) fn name_of(nqn: &str, namespace: &NamespaceConfig) -> NamespaceName {
    NamespaceName { subsystem: nqn.to_owned(), uuid: Identifiers::of(nqn, namespace).uuid }
}

/// A namespace of subsystem `nqn`, and its place on a device.
pub(crate) fn place(
    config: &Config,
    nqn: &str,
    namespace: &NamespaceConfig,
    devices: &Devices<'_>,
) -> Result<(NamespaceInfo, Placement), SubsystemError> {
    let (slot, device) = devices.get(&*namespace.device).expect("the check has found every device");
    let nsid = namespace.nsid;
    if namespace.block_size < device.block_size_min {
        let (asked, least) = (namespace.block_size, device.block_size_min);
        return Err(SubsystemError::BlockSize { nsid, asked, least });
    }
    if namespace.wipe_on_remove && device.read_only {
        return Err(SubsystemError::CannotWipe { nsid });
    }
    let block_size =
        if namespace.block_size == BlockSize::B512.bytes() { BlockSize::B512 } else { BlockSize::B4096 };
    let file = file_of(nqn, namespace, device);
    let room = if file.is_some() { FILE_MAX } else { device.size.saturating_sub(namespace.offset) };
    let size = namespace.size.unwrap_or(room);
    if size > room || size == Bytes::ZERO {
        let end = namespace.offset.saturating_add(size);
        return Err(SubsystemError::TooLarge { nsid, end, size: device.size });
    }
    let mut info = NamespaceInfo::new(block_size, size.get() >> block_size.log2());
    let ids = Identifiers::of(nqn, namespace);
    (info.uuid, info.nguid, info.eui64) = (Some(ids.uuid), Some(ids.nguid), Some(ids.eui64));
    info.zeroes_after_deallocate = device.discard_zeroes;
    info.thin = device.thin;
    info.read_only = namespace.read_only || device.read_only;
    info.ana_group = config.group_of(namespace);
    // Reservations of hosts would be left behind by a takeover.
    info.reservable = device.fence.is_none();
    let offset = file.map_or(namespace.offset.get(), |(slot, _)| device::offset_of(slot));
    Ok((info, Placement { device: *slot, offset, block_log2: block_size.log2() }))
}

/// In a directory: the slot of the file of a namespace of subsystem `nqn`, and the counter of its blocks.
fn file_of(nqn: &str, namespace: &NamespaceConfig, device: &Facts) -> Option<(usize, Arc<Allocation>)> {
    let pool = device.pool.as_ref()?;
    let member = pool.member(&Identifiers::of(nqn, namespace).uuid);
    Some(member.expect("a namespace in a directory has its file before it is placed"))
}

/// Counts the allocated blocks of a namespace, if its device is thin.
pub(crate) fn usage(
    nqn: &str,
    namespace: &NamespaceConfig,
    info: &NamespaceInfo,
    devices: &Devices<'_>,
) -> Option<Arc<Usage>> {
    let (_, device) = devices.get(&*namespace.device)?;
    let of_file = file_of(nqn, namespace, device).map(|(_, allocation)| allocation);
    let allocation = of_file.or_else(|| device.allocation.clone())?;
    let length = info.blocks << info.block_size.log2();
    Some(Arc::new(Usage::new(allocation, namespace.offset.get(), length)))
}

/// The discovery subsystem, without records.
pub(crate) fn discovery(limits: &config::Limits) -> Result<Subsystem, SubsystemError> {
    let mut described =
        nvme::subsystem::SubsystemConfig::io(Nqn::discovery(), &identity::serial(Nqn::DISCOVERY));
    described.role = Role::Discovery;
    described.limits.keep_alive_max = millis(limits.keep_alive_max);
    // The acceptor limits connections before they get here.
    described.limits.controllers_max = CNTLID_MAX;
    described.limits.controllers_per_host_max = CNTLID_MAX;
    Subsystem::new(described).map_err(SubsystemError::Refused)
}

/// The records of discovery: every subsystem at every address, and discovery itself, which hosts with a persistent discovery connection
/// expect.
pub(crate) fn discovery_records(
    config: &Config,
    addresses: &[Listen],
) -> Result<Vec<DiscoveryRecord>, SubsystemError> {
    let as_told = |Listen { address, .. }: &Listen| match address.ip().is_unspecified() {
        true => DiscoveryAddress::AsReached { is_ipv6: address.is_ipv6(), port: address.port() },
        false => DiscoveryAddress::At(*address),
    };
    let itself = |listen: &Listen| DiscoveryRecord {
        subsystem: Nqn::discovery(),
        kind: SubsystemType::CurrentDiscovery,
        transport: transport_type(listen.transport),
        address: as_told(listen),
        hosts: HostAccess::Any,
        secure: secure_channel(config.security.demand_of_discovery().tls, listen.transport),
    };
    // A host that has to use TLS does not get in by RDMA.
    let is_open =
        |tls: Tls| move |listen: &&Listen| listen.transport == config::Transport::Tcp || tls != Tls::Required;
    let of_discovery = addresses.iter().filter(is_open(config.security.demand_of_discovery().tls));
    let mut records: Vec<DiscoveryRecord> = of_discovery.map(itself).collect();
    for subsystem in &config.subsystems {
        let tls = config.security.demand(subsystem.security).tls;
        for listen in addresses.iter().filter(is_open(tls)) {
            let (nqn, hosts) = (parse_nqn(&subsystem.nqn)?, access(&subsystem.hosts)?);
            records.push(DiscoveryRecord {
                subsystem: nqn,
                kind: SubsystemType::Nvm,
                transport: transport_type(listen.transport),
                address: as_told(listen),
                hosts,
                secure: secure_channel(tls, listen.transport),
            });
        }
    }
    Ok(records)
}

/// The transport of an address, as the `nvme` crate expects it.
fn transport_type(transport: config::Transport) -> TransportType {
    match transport {
        config::Transport::Tcp => TransportType::Tcp,
        config::Transport::Rdma => TransportType::Rdma,
    }
}

/// Whether connections have TLS, as the `nvme` crate expects it.
fn secure_channel(tls: Tls, transport: config::Transport) -> SecureChannel {
    match (transport, tls) {
        (config::Transport::Rdma, _) | (_, Tls::Off) => SecureChannel::Without,
        (_, Tls::Optional) => SecureChannel::Optional,
        (_, Tls::Required) => SecureChannel::Required,
    }
}

/// The hosts that may connect, as the `nvme` crate expects them.
pub(crate) fn access(hosts: &AllowedHosts) -> Result<HostAccess, SubsystemError> {
    match hosts {
        AllowedHosts::Any => Ok(HostAccess::Any),
        AllowedHosts::Only(hosts) => {
            Ok(HostAccess::Only(hosts.iter().map(|nqn| parse_nqn(nqn)).collect::<Result<_, _>>()?))
        }
    }
}

/// A keep-alive time-out in milliseconds, as NVMe counts it.
pub(crate) fn millis(span: Nanos) -> u32 {
    u32::try_from(span.get() / Nanos::millis(1).get()).unwrap_or(u32::MAX)
}

fn parse_nqn(nqn: &str) -> Result<Nqn, SubsystemError> {
    Nqn::new(nqn).map_err(|_| SubsystemError::Name(nqn.to_owned()))
}
