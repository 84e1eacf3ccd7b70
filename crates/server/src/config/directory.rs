//! Rules for namespaces in a directory, and for the fields that only they have.

use super::problem::Problem;
use super::{Config, DeviceKind, NamespaceConfig, SubsystemConfig};
use crate::device::FILE_MAX;
use crate::identity::{Identifiers, parse_uuid};
use units::Bytes;

/// Problems of a namespace of `subsystem`, with names of fields made by `field`.
pub(super) fn problems(
    config: &Config,
    subsystem: &SubsystemConfig,
    namespace: &NamespaceConfig,
    field: impl Fn(&str) -> String,
) -> Vec<Problem> {
    let Some(device) = config.device_index(&namespace.device) else { return Vec::new() };
    let name = &namespace.device;
    let mut problems = Vec::new();
    let mut report =
        |name: &str, what: String, advice: &str| problems.push(Problem::new(field(name), what, advice));
    if !matches!(config.devices[device].kind, DeviceKind::Directory(_)) {
        if namespace.origin.is_some() {
            let what =
                format!("device {name:?} is no directory, and only a file in a directory can be a copy");
            report("origin", what, "remove it");
        }
        return problems;
    }
    match namespace.size {
        None => {
            let what =
                format!("is missing: device {name:?} is a directory, where a namespace is a file of its own");
            report("size", what, "write size = \"100G\"");
        }
        Some(size) if size > FILE_MAX => {
            report(
                "size",
                format!("{size} is more than {FILE_MAX}, the largest file in a directory"),
                "make it smaller",
            );
        }
        Some(_) => {}
    }
    if namespace.offset != Bytes::ZERO {
        let what = format!("device {name:?} is a directory, where a namespace is a file of its own");
        report("offset", what, "remove it");
    }
    let uuid = Identifiers::of(&subsystem.nqn, namespace).uuid;
    match namespace.origin.as_deref().map(|origin| (origin, parse_uuid(origin))) {
        Some((origin, Some(of))) if of == uuid => {
            report("origin", format!("{origin} is this namespace"), "name another one, or a snapshot");
        }
        Some((origin, None)) => {
            if let Err(error) = crate::device::expect_snapshot_name(origin) {
                report("origin", error.to_string(), "gimbal ctl snapshot list has those that there are");
            }
        }
        _ => {}
    }
    problems
}
