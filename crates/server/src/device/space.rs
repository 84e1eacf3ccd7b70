//! Whether the file system has room for what sparse files can grow to.
//!
//! A new file of 100 GiB takes no space; each block takes space when it is first written. When the file system is full, writes to new
//! blocks fail (hosts see Capacity Exceeded). So the holes of all served files are added up per file system and compared with its free
//! space, when a device is added or grows.
//!
//! Holds: two files that fit one by one but not together cause a warning
//!        (`sparse_files_that_fit_only_one_at_a_time_get_a_warning` in `crates/gimbal/tests/devices.rs`).

use super::directory::file_name;
use super::error::Shortage;
use super::usage::allocated;
use crate::config::{Backing, Config, DeviceConfig, DeviceKind, EmulatedConfig, Overcommit};
use crate::identity::Identifiers;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use units::Bytes;

/// The regular file of a device, if it has one.
fn file(device: &DeviceConfig) -> Option<&Path> {
    match &device.kind {
        DeviceKind::File { path, .. }
        | DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), .. }) => Some(path),
        DeviceKind::Block { .. }
        | DeviceKind::Directory(_)
        | DeviceKind::NvmeTcp(_)
        | DeviceKind::Emulated(_)
        | DeviceKind::Null { .. } => None,
    }
}

/// A file system, and the files of devices on it.
struct FileSystem<'c> {
    free: Bytes,
    /// Each with the size of its holes.
    files: Vec<(&'c DeviceConfig, &'c Path, Bytes)>,
}

/// The devices of `config` with holes larger than the free space of their file system, and the message about each. A file that cannot be examined is
/// skipped: opening it reports the error.
pub(crate) fn shortages(config: &Config) -> Vec<(&DeviceConfig, Shortage)> {
    let mut file_systems: HashMap<u64, FileSystem<'_>> = HashMap::new();
    for device in &config.devices {
        if let DeviceKind::Directory(directory) = &device.kind {
            let path = &directory.path;
            let (Ok(metadata), Ok(free)) = (path.metadata(), free_at(path)) else { continue };
            let free = free.saturating_sub(directory.reserve);
            let missing = missing_in(config, &device.name, path);
            let new = || FileSystem { free, files: Vec::new() };
            let file_system = file_systems.entry(metadata.dev()).or_insert_with(new);
            file_system.free = file_system.free.min(free);
            file_system.files.push((device, path, missing));
            continue;
        }
        let Some(path) = file(device) else { continue };
        let (Ok(metadata), Ok(free)) = (path.metadata(), free_at(path)) else { continue };
        let missing = Bytes(metadata.len().saturating_sub(allocated(&metadata)));
        let new = || FileSystem { free, files: Vec::new() };
        file_systems.entry(metadata.dev()).or_insert_with(new).files.push((device, path, missing));
    }
    let mut shortages = Vec::new();
    for FileSystem { free, files } in file_systems.into_values() {
        let all_missing = files.iter().fold(Bytes::ZERO, |sum, (.., missing)| sum.saturating_add(*missing));
        for (device, path, missing) in files.into_iter().filter(|(.., missing)| *missing > Bytes::ZERO) {
            if all_missing > free {
                shortages.push((device, Shortage { path: path.to_owned(), missing, all_missing, free }));
            }
        }
    }
    shortages.sort_by_key(|(device, _)| {
        (device.overcommit != Overcommit::Refuse, config.device_index(&device.name))
    });
    shortages
}

/// The space that the namespaces in a directory need in addition to that of their files.
fn missing_in(config: &Config, device: &str, path: &Path) -> Bytes {
    let all = config.subsystems.iter().flat_map(|subsystem| {
        subsystem.namespaces.iter().filter(|namespace| namespace.device == device).map(|namespace| {
            let name = file_name(&Identifiers::of(&subsystem.nqn, namespace).uuid);
            let has = path.join(name).metadata().map_or(0, |metadata| allocated(&metadata));
            namespace.size.unwrap_or_default().saturating_sub(Bytes(has))
        })
    });
    all.fold(Bytes::ZERO, Bytes::saturating_add)
}

/// The free space of the file system of `path` for users other than root.
fn free_at(path: &Path) -> rustix::io::Result<Bytes> {
    rustix::fs::statvfs(path).map(|stat| Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}
