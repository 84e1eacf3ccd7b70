//! Checks of things that a configuration names: profiles, calibrations, files and devices.
//!
//! This is the half of the check that looks at the machine. It reads the files that schedulers need and makes each scheduler once,
//! so that `gimbal config check` already reports, with its line, everything in them that `gimbal serve` would refuse. Of devices it looks
//! only at their names: whether two names mean the same device. It opens nothing that is shared, and binds no address.
//!
//! A missing device is only a warning: the file may be checked on another machine.
//!
//! Holds: a configuration refused here is refused by `gimbal serve` too. The reverse is true except for errors that only opening a device or an
//!        address shows (`the_check_and_the_start_refuse_the_same` in `crates/gimbal/tests/judgement.rs`).
//! Elsewhere: rules between the fields are `config`'s `check`.

use crate::config::{
    Backing, Config, DeviceConfig, DeviceKind, DirectoryConfig, EmulatedConfig, NamespaceConfig, Overcommit,
    Problem, ShareConfig, TenantKind, Transport,
};
use crate::device::{self, Identity};
use crate::policy::{self, PolicyError};
use crate::proof::KeyRing;
use crate::tenants::TenantName;
use reactor::Clock;
use reactor::rdma::Rdma;
use sched::{DeviceConstants, Percentile, Scheduler};
use std::path::PathBuf;
use units::ByteRate;

/// Every problem with what `config` names, with fields but without lines.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut identities: Vec<(&str, Identity)> = Vec::new();
    let mut stores: Vec<(String, &PathBuf, Identity)> = Vec::new();
    for (index, device) in config.devices.iter().enumerate() {
        let field = |name: &str| format!("device[{index}].{name}");
        if let DeviceKind::Emulated(emulated) = &device.kind
            && let Err(error) = device::load_profile(&emulated.profile)
        {
            problems.push(Problem::new(field("profile"), error.to_string(), ""));
        } else {
            problems.extend(scheduler(field, device));
        }
        if let Some(ais) = &device.ais {
            // `check` reports one that is not named.
            let is_named = !ais.profile.as_os_str().is_empty();
            if let Some(error) = device::load_drive(&ais.profile).err().filter(|_| is_named) {
                problems.push(Problem::new(field("ais.profile"), error.to_string(), ""));
            }
            if let Some(path) = ais.path()
                && let Some(identity) = Identity::of(path)
            {
                stores.push((field("ais.store"), path, identity));
            }
        }
        let Some((name, path)) = path_of(&device.kind) else { continue };
        let Some(identity) = Identity::of(path) else { continue };
        let other = identities.iter().find(|(_, other)| other.overlaps(&identity));
        if let Some((other, _)) = other
            && config.devices.iter().all(|before| before.name != *other || !is_same_path(before, device))
        {
            let what = format!("{} is device {other:?} too, or a part of it", path.display());
            problems.push(Problem::new(field(name), what, "share it once, with several namespaces"));
        }
        identities.push((&device.name, identity));
    }
    for (position, (field, path, store)) in stores.iter().enumerate() {
        let device = identities.iter().find(|(_, other)| other.overlaps(store)).map(|(name, _)| *name);
        let is_shared =
            stores[..position].iter().any(|(_, other, identity)| other != path && identity.overlaps(store));
        if device.is_some_and(|name| !has_path(config, name, path)) || is_shared {
            let what = match device {
                Some(name) => format!("{} is device {name:?}, or a part of it", path.display()),
                None => format!("{} is another auxiliary store, too", path.display()),
            };
            problems.push(Problem::new(field.clone(), what, "give it a file or device of its own"));
        }
    }
    problems.extend(promises(config));
    problems.extend(KeyRing::read(Clock.now(), config).err().into_iter().flatten());
    problems
}

/// Missing devices and libraries, files that do not fit, blocks that a power failure may tear, and settings that have no effect.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(listen) = config.listen.iter().find(|listen| listen.transport == Transport::Rdma)
        && let Err(error) = Rdma::load().and_then(Rdma::devices)
    {
        warnings.push(format!("listen {listen}: {error}: a target cannot start with this here"));
    }
    for device in &config.devices {
        let name = &device.name;
        let may_be_made = match &device.kind {
            DeviceKind::File { create, .. } => *create,
            DeviceKind::Emulated(emulated) => emulated.create,
            DeviceKind::Block { .. }
            | DeviceKind::Directory(_)
            | DeviceKind::NvmeTcp(_)
            | DeviceKind::Null { .. } => false,
        };
        if let Some((_, path)) = path_of(&device.kind)
            && !may_be_made
            && let Err(error) = path.metadata()
        {
            warnings.push(format!(
                "device {name:?}: {}: {error}: a target cannot start with this here",
                path.display()
            ));
        }
        let scheduler = &device.scheduler;
        if let Some(file) = scheduler.calibration.as_ref().filter(|_| !scheduler.policy.needs_calibration()) {
            let policy = scheduler.policy.name;
            warnings.push(format!("device {name:?}: {policy} does not read calibration {}", file.display()));
        }
        let promised = promised_on(config, device);
        let reserving = promised.iter().filter(|it| it.share.reservation.is_some()).count();
        if reserving > 0 && !scheduler.policy.keeps_reservations {
            let policy = scheduler.policy.name;
            warnings.push(format!(
                "device {name:?}: {policy} keeps no reservations, and {reserving} are written"
            ));
        }
        for (tenant, slo) in promised.iter().filter_map(|it| Some((&it.tenant, it.share.slo?))) {
            let policy = scheduler.policy.name;
            if !scheduler.policy.keeps_objectives {
                warnings
                    .push(format!("device {name:?}: {policy} keeps to no objective, and {tenant} has one"));
            } else if scheduler.policy == Scheduler::REFLEX && slo.percentile != Percentile::P95 {
                warnings.push(format!(
                    "device {name:?}: {policy} keeps to no objective but latency_p95, and {tenant} has another"
                ));
            }
        }
    }
    warnings.extend(keys(config));
    warnings.extend(device::torn_blocks(config));
    for (device, shortage) in device::shortages(config) {
        let name = &device.name;
        warnings.push(match device.overcommit {
            Overcommit::Refuse => {
                format!("device {name:?}: {shortage}; overcommit = \"refuse\": a target cannot start with this here")
            }
            Overcommit::Warn => format!("device {name:?}: {shortage}"),
        });
    }
    warnings
}

/// Keys that others can read, that two hosts have, or that are easily recorded and guessed at.
fn keys(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut seen: Vec<(&PathBuf, &str)> = Vec::new();
    for host in &config.hosts {
        for (name, file) in host.keys() {
            if let Ok(Some(problem)) = files::open_to_others(file) {
                warnings.push(format!("host {}: {name}: {}: {problem}", host.nqn, file.display()));
            }
        }
        let own = [&host.dhchap_key, &host.dhchap_key_next].into_iter().flatten();
        for file in own.chain(&host.tls_key) {
            if let Some((_, other)) = seen.iter().find(|(seen, nqn)| *seen == file && *nqn != host.nqn) {
                let nqn = &host.nqn;
                warnings.push(format!(
                    "host {nqn}: it has the key of {other}, {}: each of them can prove to be the other",
                    file.display()
                ));
            }
            seen.push((file, &host.nqn));
        }
    }
    if config.security.dhchap_group.contains(&None) {
        warnings.push(
            "security.dhchap_group has \"null\": whoever records an exchange can test guesses of the key"
                .to_owned(),
        );
    }
    warnings
}

/// Where the contents of a device are, and the field that says so.
fn path_of(kind: &DeviceKind) -> Option<(&'static str, &PathBuf)> {
    match kind {
        DeviceKind::File { path, .. }
        | DeviceKind::Block { path, .. }
        | DeviceKind::Directory(DirectoryConfig { path, .. }) => Some(("path", path)),
        DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), .. }) => Some(("backing", path)),
        DeviceKind::NvmeTcp(_) | DeviceKind::Emulated(_) | DeviceKind::Null { .. } => None,
    }
}

/// A case that `check` reports.
fn has_path(config: &Config, name: &str, path: &PathBuf) -> bool {
    let device = config.devices.iter().find(|device| device.name == name);
    device.and_then(|device| path_of(&device.kind)).is_some_and(|(_, other)| other == path)
}

/// A case that `check` reports.
fn is_same_path(one: &DeviceConfig, other: &DeviceConfig) -> bool {
    path_of(&one.kind).map(|(_, path)| path) == path_of(&other.kind).map(|(_, path)| path)
}

/// Why the scheduler of a device cannot be made.
fn scheduler(field: impl Fn(&str) -> String, device: &DeviceConfig) -> Option<Problem> {
    let scheduler = &device.scheduler;
    let error = policy::policy(scheduler.policy, device, None).err()?;
    let problem = |name: &str, what: String, advice: &str| Some(Problem::new(field(name), what, advice));
    match error {
        PolicyError::Profile(error) => problem("scheduler.profile", error.to_string(), ""),
        PolicyError::Constants(wrong) => {
            let what = format!("the constants do not fit together: {wrong}");
            problem("scheduler", what, "change those of [device.scheduler]; the others are the profile's")
        }
        PolicyError::Prior(error) => {
            problem("scheduler.prior", error.to_string(), "gimbal ssdtest DEVICE writes one")
        }
        PolicyError::Calibration(error) => {
            let advice = "gimbal lab calibrate writes one";
            problem("scheduler.calibration", error.to_string(), advice)
        }
        // `check` reports a calibration that is not named.
        PolicyError::Uncalibrated(kind) => scheduler.calibration.as_ref().and_then(|file| {
            let what = format!("{} has no table [{}]", file.display(), kind.name);
            problem("scheduler.calibration", what, "name a calibration that has one")
        }),
    }
}

/// Promises that may count on a device.
struct Promised<'c> {
    /// The table that has them.
    field: String,
    tenant: TenantName,
    share: &'c ShareConfig,
}

fn promised_on<'c>(config: &'c Config, device: &DeviceConfig) -> Vec<Promised<'c>> {
    let of_hosts = config.tenants.iter().enumerate().map(|(index, tenant)| Promised {
        field: format!("tenant[{index}]"),
        tenant: TenantName::Host(tenant.host.as_str().into()),
        share: &tenant.share,
    });
    let of_namespaces = config.namespace_tenants().filter(|it| it.namespace.device == device.name);
    let of_namespaces = of_namespaces.filter_map(|it| {
        let [index, place] = it.places;
        Some(Promised {
            field: format!("subsystem[{index}].namespace[{place}]"),
            tenant: TenantName::of_namespace(&it.subsystem.nqn, it.namespace.nsid),
            share: it.namespace.share.as_ref()?,
        })
    });
    of_hosts.chain(of_namespaces).collect()
}

/// The promises to the tenants of a device do not exceed what its scheduler can give.
fn promises(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for device in &config.devices {
        let Some(most) = policy::rate_max(device) else { continue };
        // A host that counts as itself on this device.
        let may_use = |host: &str| {
            config.subsystems.iter().any(|subsystem| {
                let is_here = |namespace: &NamespaceConfig| {
                    namespace.device == device.name && subsystem.tenant_of(namespace) == TenantKind::Host
                };
                subsystem.hosts.allows(host) && subsystem.namespaces.iter().any(is_here)
            })
        };
        // `bounds` reports one that is more than any device can do.
        let is_sane = |rate: &ByteRate| *rate <= DeviceConstants::RATE_MAX;
        let promised: Vec<(String, u64)> = promised_on(config, device)
            .into_iter()
            .filter(|it| it.tenant.host().is_none_or(may_use))
            .filter_map(|it| Some((it.field, it.share.reservation.filter(is_sane)?.0)))
            .collect();
        let all = promised.iter().fold(0u64, |sum, (_, rate)| sum.saturating_add(*rate));
        let largest = promised.iter().max_by_key(|(_, rate)| *rate);
        if let Some((field, _)) = largest.filter(|_| all > most.0) {
            let what = format!(
                "the reservations on device {:?} come to {}, and its scheduler gives out at most {most}",
                device.name,
                ByteRate(all)
            );
            let advice = "lower them, or raise rate_max in [device.scheduler] if the device can do more";
            problems.push(Problem::new(format!("{field}.reservation"), what, advice));
        }
    }
    problems
}
