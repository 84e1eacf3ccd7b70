//! The name of what a device contains, by which notes in the state directory and logs belong to it.
//!
//! It is another one if other contents are at the same place: a file has its number in it, a partition its disk and its number.

use super::identity::disk_number;
use crate::config::{Backing, DeviceConfig, DeviceKind, DirectoryConfig, EmulatedConfig};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of the contents of a device; `None` if it does not have them again after a restart.
pub(crate) fn contents_name(device: &DeviceConfig) -> Option<String> {
    keeps_contents(device).then(|| identity(device))
}

/// Whether a device has its contents again after a restart.
pub(super) fn keeps_contents(device: &DeviceConfig) -> bool {
    match &device.kind {
        DeviceKind::Block { .. }
        | DeviceKind::File { .. }
        | DeviceKind::Directory(_)
        | DeviceKind::NvmeTcp(_) => true,
        DeviceKind::Emulated(emulated) => matches!(emulated.backing, Backing::File(_)),
        DeviceKind::Null { .. } => false,
    }
}

/// A name that no other SSD has.
pub(super) fn identity(device: &DeviceConfig) -> String {
    let of_file = |path: &Path| {
        let number = fs::metadata(path).map_or(0, |metadata| metadata.ino());
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        format!("file {number} {}", path.display())
    };
    let mut identity = match &device.kind {
        DeviceKind::Block { path, .. } => of_disk(path).unwrap_or_else(|| of_file(path)),
        DeviceKind::File { path, .. }
        | DeviceKind::Directory(DirectoryConfig { path, .. })
        | DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), .. }) => of_file(path),
        DeviceKind::NvmeTcp(back_end) => format!("namespace {} of {}", back_end.nsid, back_end.subsystem),
        DeviceKind::Emulated(_) | DeviceKind::Null { .. } => format!("device {}", device.name),
    };
    let most = (0..=ais::IDENTITY_MAX).rev().find(|end| identity.is_char_boundary(*end));
    identity.truncate(most.expect("zero is one"));
    identity
}

/// The world-wide name or serial number of a block device.
fn of_disk(path: &Path) -> Option<String> {
    let number = disk_number(&fs::metadata(path).ok()?)?;
    let (major, minor) = (libc::major(number), libc::minor(number));
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    // A partition has these of its disk.
    let names = ["wwid", "../wwid", "device/wwid", "../device/wwid", "device/serial", "../device/serial"];
    let name = names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok())?;
    let partition = fs::read_to_string(folder.join("partition")).unwrap_or_default();
    Some(format!("disk {} {}", name.trim(), partition.trim()).trim().to_owned())
}
