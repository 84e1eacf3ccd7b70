//! The largest write of a device that a power failure cannot tear: after it, either all or nothing of the write is stored.
//!
//! NVMe cannot express less than one block (AWUPF counts from one). So a namespace with blocks of 4,096 bytes promises that they are
//! never torn. A block device keeps this promise if Linux says that its physical blocks are that large; for NVMe SSDs, Linux considers
//! AWUPF of the SSD. A file keeps it if the blocks of its file system and of the device below are that large. If Linux does not say
//! (btrfs, overlay, tmpfs, network file systems: they are on no device of their own), only a sector is certain.

use super::identity::disk_number;
use super::offload::sysfs;
use crate::config::{Backing, Config, DeviceConfig, DeviceKind, DirectoryConfig, EmulatedConfig};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Every device writes at least this much without tearing.
const SECTOR: u32 = 512;

/// Warnings about namespaces whose blocks a power failure may tear, each with advice.
pub(crate) fn torn_blocks(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    for subsystem in &config.subsystems {
        for namespace in &subsystem.namespaces {
            let device = config.devices.iter().find(|device| device.name == namespace.device);
            let Some((path, unit)) = device.and_then(unit_of) else { continue };
            if namespace.block_size <= unit.unwrap_or(SECTOR) {
                continue;
            }
            let why = match unit {
                Some(unit) => format!("writes only {unit} bytes at once"),
                None => "does not say how much it writes at once".to_owned(),
            };
            warnings.push(format!(
                "subsystem {}, namespace {}: a power failure may tear its blocks of {} bytes: device {:?} ({}) {why}; \
                 for a new namespace write block_size = {SECTOR} (not for one that has data: that changes what hosts see)",
                subsystem.nqn,
                namespace.nsid,
                namespace.block_size,
                namespace.device,
                path.display(),
            ));
        }
    }
    warnings
}

/// The path of a device whose contents survive a power failure, and its untorn write size, if Linux says it. Also `None` if the path
/// does not exist: that is reported elsewhere.
fn unit_of(device: &DeviceConfig) -> Option<(&Path, Option<u32>)> {
    let (path, may_be_made) = match &device.kind {
        DeviceKind::File { path, create, .. } => (path, *create),
        DeviceKind::Emulated(EmulatedConfig { backing: Backing::File(path), create, .. }) => (path, *create),
        DeviceKind::Block { path, .. } | DeviceKind::Directory(DirectoryConfig { path, .. }) => (path, false),
        // Over fabrics, the other target has seen to it.
        DeviceKind::NvmeTcp(_) | DeviceKind::Emulated(_) | DeviceKind::Null { .. } => return None,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // It will be created in its folder.
        Err(_) if may_be_made => fs::metadata(folder).ok()?,
        Err(_) => return None,
    };
    let (number, file_block) = match disk_number(&metadata) {
        Some(number) => (number, u32::MAX),
        None => (metadata.dev(), u32::try_from(metadata.blksize()).unwrap_or(u32::MAX)),
    };
    let unit = of_block_device(&sysfs(number)).map(|unit| unit.min(file_block));
    Some((path, unit))
}

/// The untorn write size of the block device with this sysfs folder. A partition has that of its device if it begins at a physical
/// block.
fn of_block_device(folder: &Path) -> Option<u32> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let queues = [folder.join("queue"), folder.join("..").join("queue")];
    let queue = queues.iter().find(|queue| queue.is_dir())?;
    if number(&folder.join("alignment_offset")).is_some_and(|offset| offset != 0) {
        return number(&queue.join("logical_block_size")).and_then(|size| u32::try_from(size).ok());
    }
    let size =
        number(&queue.join("physical_block_size")).or_else(|| number(&queue.join("logical_block_size")));
    size.and_then(|size| u32::try_from(size).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_begins_within_a_physical_block_tears_it() {
        let folder = std::env::temp_dir().join(format!("gimbal-atomic-{}", std::process::id()));
        for place in ["queue", "one", "two"] {
            fs::create_dir_all(folder.join(place)).expect("a folder");
        }
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        assert_eq!(of_block_device(&folder), None, "Linux says nothing");
        write("queue/logical_block_size", "512\n");
        assert_eq!(of_block_device(&folder), Some(512));
        write("queue/physical_block_size", "4096\n");
        write("one/alignment_offset", "0\n");
        write("two/alignment_offset", "3584\n");
        let found = ["", "one", "two"].map(|place| of_block_device(&folder.join(place)));
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!(found, [Some(4096), Some(4096), Some(512)]);
    }

    #[test]
    fn only_blocks_larger_than_the_untorn_write_size_get_a_warning() {
        let warnings = |kind: DeviceKind, block_size: u32| {
            let mut config = Config::simple(kind, ([127, 0, 0, 1], 0).into());
            config.subsystems[0].namespaces[0].block_size = block_size;
            torn_blocks(&config)
        };
        // No device of its own, so Linux does not say.
        let file =
            |path: &str| DeviceKind::File { path: path.into(), size: None, create: false, direct: false };
        let said = warnings(file("/proc/self/status"), 4096);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("namespace 1") && said[0].contains("block_size = 512"), "{said:?}");
        assert_eq!(warnings(file("/proc/self/status"), 512), [""; 0]);
        assert_eq!(warnings(DeviceKind::Null { size: units::Bytes::gib(1) }, 4096), [""; 0], "keeps nothing");
    }
}
