//! Finds other users of a block device or a file, so that a disk with a file system in use is not served to hosts.
//!
//! For block devices the kernel helps: an open with `O_EXCL` fails (`EBUSY`) while the device or one of its partitions is mounted, is
//! swap, belongs to LVM, md or multipath, or is open with `O_EXCL` elsewhere. This module finds the user, because "device busy" alone
//! does not help. It also finds users that the kernel does not refuse: loop devices on the disk or file, and swap files.
//!
//! A mount in another container or mount namespace is refused like the rest, but cannot be named from here.
//!
//! Holds: each of these users is found and named (`tests/in_use.rs` of the crate `gimbal`).

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A user of a device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A file system on it, or on a partition of it, is mounted: the device and the mount point.
    Mounted(String, PathBuf),
    /// It, or a partition of it, is swap: which.
    Swap(PathBuf),
    /// Another block device uses it, or a partition of it: LVM, md, multipath. Its name.
    Holder(String),
    /// A loop device reads and writes it.
    Loop(String),
    /// An open handle of a process.
    Process {
        /// Its number.
        id: u32,
        /// The name of its program.
        name: String,
    },
}

impl User {
    /// Whether it may be a killed process that the kernel still cleans up.
    pub(super) fn may_go(&self) -> bool {
        matches!(self, User::Process { .. })
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mounted(device, at) => write!(f, "{device} is mounted on {}", at.display()),
            User::Swap(path) => write!(f, "{} is swap", path.display()),
            User::Holder(name) => write!(f, "it is part of {name}"),
            User::Loop(name) => write!(f, "it backs /dev/{name}"),
            User::Process { id, name } => write!(f, "process {id} ({name}) has it open"),
        }
    }
}

/// A block device, as the kernel knows it: with its partitions.
pub(crate) struct Disk {
    /// Major and minor number, as `1:2`, and name of the disk and each partition.
    parts: Vec<(String, String)>,
    /// Their folders in sysfs.
    folders: Vec<PathBuf>,
}

impl Disk {
    /// The block device of that number.
    pub(super) fn of(device: u64) -> Disk {
        let number = number(device);
        let folder = Path::new("/sys/dev/block").join(&number);
        let name = |folder: &Path| {
            let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let mut disk = Disk { parts: vec![(number, name(&folder))], folders: vec![folder.clone()] };
        for entry in entries(&folder).filter(|entry| entry.join("partition").exists()) {
            if let Some(number) = first_line(&entry.join("dev")) {
                disk.parts.push((number, name(&entry)));
                disk.folders.push(entry);
            }
        }
        disk
    }

    fn name_of(&self, number: &str) -> Option<String> {
        self.parts.iter().find(|(other, _)| other == number).map(|(_, name)| format!("/dev/{name}"))
    }

    /// Whether two devices have blocks in common: they are the same, or one is a partition of the other.
    pub(super) fn overlaps(&self, other: &Disk) -> bool {
        let is_part_of =
            |one: &Disk, whole: &Disk| whole.parts.iter().any(|(part, _)| *part == one.parts[0].0);
        is_part_of(self, other) || is_part_of(other, self)
    }

    /// Whether `path` is it or a partition of it.
    fn has(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|other| {
            other.file_type().is_block_device() && self.name_of(&number(other.rdev())).is_some()
        })
    }
}

/// The users of the block device of `metadata`.
pub(super) fn users_of_disk(metadata: &Metadata) -> Vec<User> {
    let disk = Disk::of(metadata.rdev());
    let mut users = Vec::new();
    for mount in mounts() {
        let by_number = disk.name_of(&mount.number);
        // A file system on several disks has a device number of its own.
        let by_source = || disk.has(&mount.source).then(|| mount.source.display().to_string());
        users.extend(by_number.or_else(by_source).map(|device| User::Mounted(device, mount.at)));
    }
    users.extend(swaps().into_iter().filter(|path| disk.has(path)).map(User::Swap));
    users.extend(holders(&disk.folders));
    users.extend(loops().into_iter().filter(|(_, file)| disk.has(file)).map(|(name, _)| User::Loop(name)));
    users
}

/// The users of the regular file of `metadata`.
pub(super) fn users_of_file(metadata: &Metadata) -> Vec<User> {
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    let loops = loops().into_iter().filter(|(_, file)| is_it(file)).map(|(name, _)| User::Loop(name));
    loops.chain(swaps().into_iter().filter(|path| is_it(path)).map(User::Swap)).collect()
}

/// Processes other than this one that have the block device open. Looks at every process: for an error only.
pub(super) fn processes_with(metadata: &Metadata) -> Vec<User> {
    let disk = Disk::of(metadata.rdev());
    let mut users = Vec::new();
    for process in entries(Path::new("/proc")) {
        let id = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        let Some(id) = id.filter(|id| *id != std::process::id()) else { continue };
        if entries(&process.join("fd")).any(|file| disk.has(&file)) {
            users.push(User::Process { id, name: first_line(&process.join("comm")).unwrap_or_default() });
        }
    }
    users
}

fn number(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// The entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn first_line(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()?.lines().next().map(str::to_owned)
}

/// The devices that use those in `folders`, by their usual names.
fn holders(folders: &[PathBuf]) -> Vec<User> {
    let name = |holder: PathBuf| match first_line(&holder.join("dm/name")) {
        Some(mapped) => format!("/dev/mapper/{mapped}"),
        None => format!("/dev/{}", holder.file_name().unwrap_or_default().to_string_lossy()),
    };
    folders.iter().flat_map(|folder| entries(&folder.join("holders"))).map(name).map(User::Holder).collect()
}

struct Mount {
    number: String,
    at: PathBuf,
    source: PathBuf,
}

fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`: any number of fields stand before the dash.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let number = String::from_utf8(fields.get(2)?.to_vec()).ok()?;
    Some(Mount { number, at: unescaped(fields.get(4)?), source: unescaped(fields.get(dash + 2)?) })
}

fn swaps() -> Vec<PathBuf> {
    let text = fs::read("/proc/swaps").unwrap_or_default();
    // The first line is a heading.
    let lines = text.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.map(|line| line.split(u8::is_ascii_whitespace).next().unwrap_or_default());
    paths.filter(|path| !path.is_empty()).map(unescaped).collect()
}

/// Loop devices and the file or device behind each.
fn loops() -> Vec<(String, PathBuf)> {
    let backing = |device: PathBuf| {
        let mut file = fs::read(device.join("loop/backing_file")).ok()?;
        file.truncate(file.trim_ascii_end().len());
        let name = device.file_name()?.to_string_lossy().into_owned();
        Some((name, PathBuf::from(std::ffi::OsStr::from_bytes(&file))))
    };
    entries(Path::new("/sys/block")).filter_map(backing).collect()
}

/// The kernel writes spaces, line ends and backslashes of paths in octal: `\040`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        if *first == b'\\'
            && let Some(byte) = tail.get(..3).and_then(octal)
        {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_whatever_the_mount_point_is_called() {
        let line =
            br"36 35 98:0 /mnt1 /mnt/a\040b\134c rw,noatime master:1 shared:2 - ext3 /dev/my\040disk rw";
        let mount = mount(line).expect("a mount");
        assert_eq!((&*mount.number, mount.at), ("98:0", PathBuf::from(r"/mnt/a b\c")));
        assert_eq!(mount.source, PathBuf::from("/dev/my disk"));
        assert!(super::mount(b"").is_none());
    }

    #[test]
    fn a_device_made_of_a_disk_or_of_its_partition_is_named() {
        let sys = std::env::temp_dir().join(format!("gimbal-sys-{}", std::process::id()));
        let (disk, partition) = (sys.join("sda"), sys.join("sda/sda1"));
        // As in /sys: a holder is a link to the folder of the device that is made of this one.
        for (holder, name) in
            [(disk.join("holders/md0"), None), (partition.join("holders/dm-0"), Some("vg-root"))]
        {
            fs::create_dir_all(holder.join("dm")).expect("a folder");
            if let Some(name) = name {
                fs::write(holder.join("dm/name"), format!("{name}\n")).expect("a file");
            }
        }
        let found = holders(&[disk, partition]);
        fs::remove_dir_all(sys).expect("made above");
        let expected = ["/dev/md0", "/dev/mapper/vg-root"].map(|name| User::Holder(name.to_owned()));
        assert_eq!(found, expected);
    }

    #[test]
    fn this_machine_has_a_root_that_is_mounted() {
        assert!(mounts().iter().any(|mount| mount.at == Path::new("/")));
    }
}
