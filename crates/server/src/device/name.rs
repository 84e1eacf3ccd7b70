//! The name by which an SSD is known again after a restart, whatever its path is by then.
//!
//! A block device has the worldwide name or serial number that it reports; a partition is as fast as its disk, so it has the disk's. A device with
//! neither (a loop device) is known by the file behind it, and a file by its path. An emulated SSD is what its profile and condition say.

use crate::config::{Condition, DeviceKind, DirectoryConfig, EmulatedConfig};
use crate::device::identity::disk_number;
use std::fs;
use std::path::Path;

/// Where the kernel describes block devices, by number.
const DEVICES: &str = "/sys/dev/block";
/// Files in a disk's folder that distinguish it from other disks, best first.
const MARKS: [&str; 5] = ["wwid", "device/wwid", "device/serial", "serial", "loop/backing_file"];

/// The name; `None` if the device cannot be distinguished from others, or has no model to learn.
pub(crate) fn lasting_name(kind: &DeviceKind) -> Option<String> {
    match kind {
        DeviceKind::Block { path, .. } => name_of_disk(path),
        DeviceKind::File { path, .. } => Some(format!("file {}", fs::canonicalize(path).ok()?.display())),
        DeviceKind::Directory(DirectoryConfig { path, .. }) => {
            Some(format!("directory {}", fs::canonicalize(path).ok()?.display()))
        }
        DeviceKind::Emulated(EmulatedConfig { profile, condition, .. }) => {
            let condition = match condition {
                Condition::Clean => "clean",
                Condition::Fragmented => "fragmented",
            };
            Some(format!("emulated {profile} {condition}"))
        }
        DeviceKind::NvmeTcp(back_end) => {
            Some(format!("namespace {} of {}", back_end.nsid, back_end.subsystem))
        }
        DeviceKind::Null { .. } => None,
    }
}

fn name_of_disk(path: &Path) -> Option<String> {
    let number = disk_number(&fs::metadata(path).ok()?)?;
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = fs::canonicalize(Path::new(DEVICES).join(format!("{major}:{minor}"))).ok()?;
    let disk = if folder.join("partition").exists() { folder.parent()?.to_owned() } else { folder };
    name_in(&disk)
}

/// The name in the folder of a disk.
fn name_in(disk: &Path) -> Option<String> {
    MARKS.into_iter().find_map(|mark| {
        let text = fs::read_to_string(disk.join(mark)).ok()?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then(|| format!("{} {text}", mark.rsplit('/').next().unwrap_or(mark)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use units::Bytes;

    #[test]
    fn a_disk_is_known_by_its_worldwide_name_or_else_its_serial_number() {
        let disk = std::env::temp_dir().join(format!("gimbal-disk-{}", std::process::id()));
        fs::create_dir_all(disk.join("device")).expect("temporary files can be written");
        let write = |name: &str, text: &str| fs::write(disk.join(name), text).expect("the folder is there");
        assert_eq!(name_in(&disk), None);
        write("serial", " \n");
        assert_eq!(name_in(&disk), None, "an empty one tells nothing");
        write("device/serial", "S4NPNF0M  \n");
        assert_eq!(name_in(&disk).as_deref(), Some("serial S4NPNF0M"));
        write("wwid", "eui.0025388b01\n");
        assert_eq!(name_in(&disk).as_deref(), Some("wwid eui.0025388b01"));
        fs::remove_dir_all(&disk).expect("it is ours");
    }

    #[test]
    fn models_are_known_by_profile_and_condition_and_a_null_device_not_at_all() {
        let model = EmulatedConfig::new(Bytes::gib(1));
        let of = |model: &EmulatedConfig| lasting_name(&DeviceKind::Emulated(model.clone())).expect("a name");
        let fragmented = EmulatedConfig { condition: Condition::Fragmented, ..model.clone() };
        assert_ne!(of(&model), of(&fragmented));
        assert_eq!(lasting_name(&DeviceKind::Null { size: Bytes::gib(1) }), None);
        let missing = PathBuf::from("/nonexistent/image");
        let (size, create, direct) = (None, false, false);
        assert_eq!(lasting_name(&DeviceKind::File { path: missing, size, create, direct }), None);
    }
}
