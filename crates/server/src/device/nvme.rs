//! A namespace of an NVMe SSD, used by NVMe commands through its generic character device (`/dev/ng0n1`).
//!
//! The kernel protects only the block device of the namespace (`/dev/nvme0n1`) against a second user. So the block device is opened
//! exclusively, and held as long as the namespace is served: it cannot be mounted or added to LVM meanwhile, and a device in use is refused.
//!
//! Commands carry whole blocks of the NVM command set. A namespace that needs more is refused: metadata with every block, zones,
//! blocks larger than a page.
//!
//! Elsewhere: the commands themselves are in `reactor`; `pipeline::host_io` maps the device's status.

use super::error::DeviceError;
use super::offload::sysfs;
use reactor::{NvmeNamespace, nvme_identify, nvme_namespace_id};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use units::Bytes;

/// CNS values of Identify.
const CNS_NAMESPACE: u8 = 0x00;
const CNS_CONTROLLER: u8 = 0x01;
const CNS_NAMESPACE_DESCRIPTORS: u8 = 0x03;

/// Offsets in Identify Controller.
const MDTS: usize = 77;
const ONCS: usize = 520;
const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
const ONCS_WRITE_ZEROES: u16 = 1 << 3;
/// Offsets in Identify Namespace.
const NSZE: usize = 0;
const FLBAS: usize = 26;
const LBA_FORMATS: usize = 128;
const LBA_FORMAT_LENGTH: usize = 4;
/// The type of the descriptor with the command set.
const COMMAND_SET_DESCRIPTOR: u8 = 4;

/// The unit of MDTS is the controller's page size. It is at least this large; the real value cannot be read here.
const CONTROLLER_PAGE: u64 = 4096;
/// The smallest and largest logical blocks: a sector and a page.
const BLOCK_SIZE_LOG2: std::ops::RangeInclusive<u32> = 9..=12;

/// A namespace that can be served.
pub(super) struct Found {
    /// The character device.
    pub(super) file: File,
    /// Its commands: how to read and write it.
    pub(super) namespace: NvmeNamespace,
    /// Its size.
    pub(super) size: Bytes,
}

/// The block device of the namespace with a generic character device of this metadata. From sysfs.
pub(super) fn block_folder(metadata: &Metadata) -> Option<PathBuf> {
    if !metadata.file_type().is_char_device() {
        return None;
    }
    let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
    let generic = fs::canonicalize(format!("/sys/dev/char/{major}:{minor}")).ok()?;
    let block = generic.with_file_name(block_name(generic.file_name()?.to_str()?)?);
    block.is_dir().then_some(block)
}

/// The device number of that block device.
pub(super) fn block_number(metadata: &Metadata) -> Option<u64> {
    let text = fs::read_to_string(block_folder(metadata)?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// `nvme0n1` for `ng0n1`.
fn block_name(generic: &str) -> Option<String> {
    let rest =
        generic.strip_prefix("ng").filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))?;
    Some(format!("nvme{rest}"))
}

/// The path of the block device of a generic character device: it is in the same folder.
pub(super) fn block_path(path: &Path) -> Result<PathBuf, DeviceError> {
    let unusable = |why: &str| DeviceError::Unusable { path: path.to_owned(), why: why.to_owned() };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(unusable(
                "does not exist; `nvme list -v` and `ls /dev/ng*` show the namespaces there are",
            ));
        }
        Err(error) => return Err(DeviceError::System { path: path.to_owned(), step: "examined", error }),
    };
    if metadata.file_type().is_block_device() {
        return Err(unusable(
            "is a block device; write kind = \"block\", or name the generic device of the namespace, such as /dev/ng0n1",
        ));
    }
    let folder = block_folder(&metadata).ok_or_else(|| {
        unusable("is not the generic device of an NVMe namespace; those are called /dev/ng0n1 and so on")
    })?;
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let block = real.with_file_name(folder.file_name().unwrap_or_default());
    let is_it = fs::metadata(&block).is_ok_and(|other| {
        other.file_type().is_block_device() && Some(other.rdev()) == block_number(&metadata)
    });
    if !is_it {
        return Err(unusable(&format!(
            "its block device {} is missing; without it the kernel cannot tell whether somebody else uses the namespace",
            block.display()
        )));
    }
    Ok(block)
}

/// Opens a namespace and reads its Identify data. Its block device is held already.
pub(super) fn open(path: &Path, is_writable: bool) -> Result<Found, DeviceError> {
    let failed = |step: &'static str| move |error| DeviceError::System { path: path.to_owned(), step, error };
    let file = OpenOptions::new().read(true).write(is_writable).open(path).map_err(failed("opened"))?;
    let nsid = nvme_namespace_id(&file).map_err(failed("asked for its namespace"))?;
    let identify = |cns: u8| nvme_identify(&file, nsid, cns).map_err(failed("identified"));
    let (of_namespace, of_controller) = (identify(CNS_NAMESPACE)?, identify(CNS_CONTROLLER)?);
    // Controllers before NVMe 1.3 have no descriptors, and only the NVM command set.
    let descriptors = nvme_identify(&file, nsid, CNS_NAMESPACE_DESCRIPTORS).unwrap_or_default();
    let (namespace, size) = describe(nsid, &of_namespace, &of_controller, &descriptors)
        .map_err(|why| DeviceError::Unusable { path: path.to_owned(), why })?;
    Ok(Found { file, namespace, size })
}

/// Parses the Identify data structures. The error is the reason why the namespace cannot be served.
fn describe(
    nsid: u32,
    of_namespace: &[u8],
    of_controller: &[u8],
    descriptors: &[u8],
) -> Result<(NvmeNamespace, Bytes), String> {
    if let Some(set @ 1..) = command_set(descriptors) {
        let what = if set == 2 { " (zoned)".to_owned() } else { String::new() };
        return Err(format!(
            "its command set is number {set}{what}; only namespaces of the NVM command set can be shared"
        ));
    }
    let blocks = u64::from_le_bytes(of_namespace[NSZE..NSZE + 8].try_into().expect("eight bytes"));
    // The format number has two parts: the low four bits, and two more bits above two flags.
    let flbas = of_namespace[FLBAS];
    let format = LBA_FORMATS + LBA_FORMAT_LENGTH * usize::from(flbas & 0xf | (flbas >> 1) & 0x30);
    let metadata = u16::from_le_bytes([of_namespace[format], of_namespace[format + 1]]);
    let block_size_log2 = u32::from(of_namespace[format + 2]);
    if metadata != 0 {
        return Err(format!(
            "is formatted with {metadata} bytes of metadata for each block, which a host's reads and writes do not carry; write kind = \
             \"block\" with its block device, or format it without (this erases it): `nvme id-ns -H` lists the formats, `nvme format \
             --lbaf=` chooses one"
        ));
    }
    if !BLOCK_SIZE_LOG2.contains(&block_size_log2) {
        return Err(format!(
            "its blocks of 2^{block_size_log2} bytes cannot be shared; those of 512 to 4096 bytes can"
        ));
    }
    let transfer_max = match of_controller[MDTS] {
        0 => None,
        pages_log2 => Some(Bytes(CONTROLLER_PAGE << pages_log2.min(32))),
    };
    let oncs = u16::from_le_bytes([of_controller[ONCS], of_controller[ONCS + 1]]);
    let namespace = NvmeNamespace {
        nsid,
        block_size_log2,
        transfer_max,
        has_write_zeroes: oncs & ONCS_WRITE_ZEROES != 0,
        has_deallocate: oncs & ONCS_DATASET_MANAGEMENT != 0,
    };
    let size =
        blocks.checked_mul(1 << block_size_log2).ok_or("says that it is larger than a device can be")?;
    Ok((namespace, Bytes(size)))
}

/// The number of the command set, from the list of descriptors: type, length, two reserved bytes, then `length` bytes.
fn command_set(mut descriptors: &[u8]) -> Option<u8> {
    // The list ends with a descriptor of type zero.
    while let &[kind, length, _, _, ref rest @ ..] = descriptors
        && kind > 0
    {
        let (value, next) = rest.split_at_checked(usize::from(length))?;
        if kind == COMMAND_SET_DESCRIPTOR {
            return value.first().copied();
        }
        descriptors = next;
    }
    None
}

/// Whether a block device has polled queues. From sysfs; a partition uses the queues of its device.
pub(super) fn has_polled_queues(number: u64) -> bool {
    is_polled(&sysfs(number))
}

fn is_polled(folder: &Path) -> bool {
    let folders = [folder.join("queue"), folder.join("..").join("queue")];
    let texts = folders.iter().map(|folder| fs::read_to_string(folder.join("io_poll")));
    texts.flatten().next().is_some_and(|text| text.trim() == "1")
}

/// Why a device cannot be polled, and what to do.
pub(super) fn unpolled(path: &Path) -> DeviceError {
    DeviceError::Unusable {
        path: path.to_owned(),
        why: "has no polled queues (queue/io_poll in its folder of /sys/block is 0); for NVMe, give its driver some when it is loaded: \
              nvme.poll_queues=4 on the kernel's command line, or `options nvme poll_queues=4` in /etc/modprobe.d; or write polled = \
              false"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace of `blocks` in format `number`, which has blocks of 2^`log2` bytes and `metadata` bytes with each.
    fn namespace(blocks: u64, number: u8, log2: u8, metadata: u16) -> Vec<u8> {
        let mut data = vec![0; 4096];
        data[..8].copy_from_slice(&blocks.to_le_bytes());
        data[FLBAS] = number & 0xf | (number & 0x30) << 1;
        let at = LBA_FORMATS + 4 * usize::from(number);
        data[at..at + 2].copy_from_slice(&metadata.to_le_bytes());
        data[at + 2] = log2;
        data
    }

    fn controller(mdts: u8, oncs: u16) -> Vec<u8> {
        let mut data = vec![0; 4096];
        data[MDTS] = mdts;
        data[ONCS..ONCS + 2].copy_from_slice(&oncs.to_le_bytes());
        data
    }

    #[test]
    fn a_namespace_is_what_its_identify_says() {
        let (found, size) =
            describe(3, &namespace(1 << 20, 4, 12, 0), &controller(5, 0x0c), &[]).expect("usable");
        let expected = NvmeNamespace {
            nsid: 3,
            block_size_log2: 12,
            transfer_max: Some(Bytes::kib(128)),
            has_write_zeroes: true,
            has_deallocate: true,
        };
        assert_eq!((found, size), (expected, Bytes::gib(4)));
        // The seventeenth format: its number does not fit into four bits.
        let (found, _) = describe(1, &namespace(8, 17, 9, 0), &controller(0, 0), &[]).expect("usable");
        assert_eq!((found.block_size_log2, found.transfer_max), (9, None));
        assert!(!found.has_write_zeroes && !found.has_deallocate);
    }

    #[test]
    fn what_commands_of_whole_blocks_cannot_serve_is_refused_in_words() {
        let refused = |namespace: &[u8], descriptors: &[u8]| {
            describe(1, namespace, &controller(5, 0), descriptors).expect_err("not usable")
        };
        assert!(refused(&namespace(8, 0, 9, 8), &[]).contains("8 bytes of metadata"));
        assert!(refused(&namespace(8, 0, 16, 0), &[]).contains("2^16"));
        // A UUID, then the command set: zoned.
        let mut descriptors = vec![3, 16, 0, 0];
        descriptors.extend([7; 16]);
        descriptors.extend([4, 1, 0, 0, 2, 0, 0, 0]);
        assert!(refused(&namespace(8, 0, 9, 0), &descriptors).contains("zoned"));
        assert!(refused(&namespace(u64::MAX, 0, 9, 0), &[]).contains("larger than a device"));
        *descriptors.get_mut(24).expect("the set") = 0;
        assert!(describe(1, &namespace(8, 0, 9, 0), &controller(5, 0), &descriptors).is_ok());
        assert_eq!(command_set(&[3, 200, 0, 0, 1]), None, "cut off");
    }

    #[test]
    fn the_block_device_of_a_generic_one_is_called_alike() {
        assert_eq!(block_name("ng0n1").as_deref(), Some("nvme0n1"));
        assert_eq!((block_name("null"), block_name("nginx")), (None, None));
    }

    #[test]
    fn a_device_is_polled_only_if_sysfs_says_so() {
        let folder = std::env::temp_dir().join(format!("gimbal-polled-{}", std::process::id()));
        for place in ["queue", "part"] {
            fs::create_dir_all(folder.join(place)).expect("a folder");
        }
        assert!(!is_polled(&folder), "sysfs says nothing");
        for (text, expected) in [("1\n", true), ("0\n", false)] {
            fs::write(folder.join("queue/io_poll"), text).expect("a file");
            assert_eq!((is_polled(&folder), is_polled(&folder.join("part"))), (expected, expected));
        }
        fs::remove_dir_all(&folder).expect("made above");
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        for (path, why) in [("/dev/null", "not the generic device"), ("/dev/ng77n77", "does not exist")] {
            let error = block_path(Path::new(path)).expect_err("no namespace").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
