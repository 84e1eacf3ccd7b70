//! Fields of a configuration that cannot change while the target runs.
//!
//! Things are recognised by name: a device by its `name`, a subsystem by its `nqn`, a namespace by its `nsid`. Properties that hosts rely
//! on under a name (the place of a namespace, its block size, its UUID) stay the same as long as the name does; properties that they
//! learn only when they connect (queue sizes, transfer limit) stay until the target is started again.

use super::problem::Problem;
use super::*;

const AT_START: &str = "it takes effect when the target is started again: put the old value back until then";

/// Everything in `new` that a target running by `old` cannot do, with fields but without lines. `home_of` returns the device
/// that serves a subsystem's connections.
pub(crate) fn problems(old: &Config, new: &Config, home_of: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field: String, what: String, advice: &str| {
        problems.push(Problem::new(field, what, advice));
    };
    if old.backend != new.backend {
        report("backend".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.spin != new.spin {
        report("spin".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.threads != new.threads {
        report("threads".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.state_dir != new.state_dir {
        report("state_dir".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.log.format != new.log.format {
        report("log.format".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.admin != new.admin {
        report("admin".into(), "cannot change while the target runs".into(), AT_START);
    }
    if old.metrics != new.metrics {
        report("metrics".into(), "cannot change while the target runs".into(), AT_START);
    }
    for row in limits::FIELDS.iter().filter(|row| !row.is_live) {
        if row.differs(&old.limits, &new.limits) {
            let what = "cannot change while hosts are connected, as they were told".to_owned();
            report(format!("limits.{}", row.name), what, AT_START);
        }
    }
    for (index, device) in new.devices.iter().enumerate() {
        let field = |name: &str| format!("device[{index}].{name}");
        let Some(before) = old.devices.iter().find(|other| other.name == device.name) else {
            if let Some(other) = old.devices.iter().find(|other| is_same_file(&other.kind, &device.kind)) {
                let what = format!("the file is that of device {:?}, which has it open", other.name);
                report(field("path"), what, "keep the name, or remove the other and reload first");
            }
            continue;
        };
        match (&before.kind, &device.kind) {
            (DeviceKind::File { size: Some(from), .. }, DeviceKind::File { size: Some(to), .. })
                if to < from =>
            {
                let what = format!("{to} is less than the {from} there are, and a file is never cut");
                report(field("size"), what, "make its namespaces smaller instead");
            }
            (before, now) if but_for_its_size(before) != but_for_its_size(now) => {
                let what = format!("{:?} cannot become another device while it is shared", device.name);
                report(format!("device[{index}]"), what, "give the other device another name");
            }
            _ => {}
        }
        if before.ais != device.ais {
            report(field("ais"), "cannot change while the device is shared".into(), AT_START);
        }
        if before.read_only != device.read_only {
            let advice = "set read_only of its namespaces, which can change; or put the old value back until the target is started again";
            report(field("read_only"), "cannot change while the device is shared".into(), advice);
        }
        if before.faults != device.faults {
            report(field("fault"), "cannot change while the device is shared".into(), AT_START);
        }
    }
    for (index, subsystem) in new.subsystems.iter().enumerate() {
        let field = |name: &str| format!("subsystem[{index}].{name}");
        let Some(before) = old.subsystems.iter().find(|other| other.nqn == subsystem.nqn) else { continue };
        for (name, is_same) in [
            ("serial", before.serial == subsystem.serial),
            ("model", before.model == subsystem.model),
            ("cntlid", before.cntlid == subsystem.cntlid),
        ] {
            if !is_same {
                report(field(name), "cannot change under a host that is connected".into(), AT_START);
            }
        }
        if let Some(home) = home_of(&subsystem.nqn)
            && new.device_index(&home).is_none()
        {
            let what = format!("device {home:?} is gone, but its thread has the subsystem's connections");
            report(field("nqn"), what, "keep the device, or remove the subsystem too and add it again later");
        }
        for (position, namespace) in subsystem.namespaces.iter().enumerate() {
            let same = |other: &&NamespaceConfig| other.nsid == namespace.nsid;
            let Some(before) = before.namespaces.iter().find(same) else { continue };
            for (name, is_same) in [
                ("device", before.device == namespace.device),
                ("offset", before.offset == namespace.offset),
                ("block_size", before.block_size == namespace.block_size),
                ("uuid", before.uuid == namespace.uuid),
                ("nguid", before.nguid == namespace.nguid),
                ("eui64", before.eui64 == namespace.eui64),
            ] {
                if !is_same {
                    let what = format!("namespace {} cannot become another one", namespace.nsid);
                    let advice = "use another nsid, or remove it, reload, and add it again";
                    report(field(&format!("namespace[{position}].{name}")), what, advice);
                }
            }
        }
    }
    problems
}

/// The device, if only its size may differ.
fn but_for_its_size(kind: &DeviceKind) -> DeviceKind {
    match kind {
        // Whether the file was made at the start is of no interest any more.
        DeviceKind::File { path, direct, .. } => {
            DeviceKind::File { path: path.clone(), size: None, create: true, direct: *direct }
        }
        DeviceKind::Directory(directory) => {
            DeviceKind::Directory(DirectoryConfig { create: true, ..directory.clone() })
        }
        DeviceKind::Null { .. } => DeviceKind::Null { size: Bytes::ZERO },
        DeviceKind::Block { .. } | DeviceKind::NvmeTcp(_) | DeviceKind::Emulated(_) => kind.clone(),
    }
}

fn is_same_file(one: &DeviceKind, other: &DeviceKind) -> bool {
    let path = |kind: &DeviceKind| match kind {
        DeviceKind::File { path, .. } | DeviceKind::Block { path, .. } => Some(path.clone()),
        DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), .. }) => Some(path.clone()),
        DeviceKind::Directory(directory) => Some(directory.path.clone()),
        DeviceKind::NvmeTcp(_) | DeviceKind::Emulated(_) | DeviceKind::Null { .. } => None,
    };
    path(one).is_some_and(|path_of_one| path(other) == Some(path_of_one))
}
