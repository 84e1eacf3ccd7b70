//! Whether a block device can zero ranges by itself. Linux says so in sysfs. If it cannot, the kernel writes the zeros.

use super::erase::{BYTES_PER_HOLE_BYTE, BYTES_PER_TABLE_BYTE, BYTES_PER_WRITTEN_BYTE, Erase};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that a file or block device erases in the time of one written byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortcuts {
    zero: u64,
    forget: u64,
}

impl Shortcuts {
    /// For a regular file: both operations make a hole.
    const REGULAR: Shortcuts = Shortcuts { zero: BYTES_PER_HOLE_BYTE, forget: BYTES_PER_HOLE_BYTE };

    /// For an open file or block device.
    pub(super) fn of(file: &File, is_regular: bool) -> Shortcuts {
        if is_regular {
            return Shortcuts::REGULAR;
        }
        let number = file.metadata().map(|facts| facts.rdev()).unwrap_or(0);
        Shortcuts::of_block_device(&sysfs(number))
    }

    /// For a namespace that gets NVMe commands.
    pub(super) fn of_namespace(has_write_zeroes: bool) -> Shortcuts {
        let zero = if has_write_zeroes { BYTES_PER_HOLE_BYTE } else { BYTES_PER_WRITTEN_BYTE };
        Shortcuts { zero, forget: BYTES_PER_TABLE_BYTE }
    }

    /// For the block device with this sysfs folder. A partition has the limits of its device.
    fn of_block_device(folder: &Path) -> Shortcuts {
        let folders = [folder.join("queue"), folder.join("..").join("queue")];
        let limits = folders.iter().map(|folder| fs::read_to_string(folder.join("write_zeroes_max_bytes")));
        let limit = limits.flatten().next().and_then(|text| text.trim().parse::<u64>().ok());
        // If it cannot be read, the more expensive case is assumed.
        let zeroes_by_itself = limit.is_some_and(|limit| limit > 0);
        Shortcuts {
            zero: if zeroes_by_itself { BYTES_PER_HOLE_BYTE } else { BYTES_PER_WRITTEN_BYTE },
            forget: BYTES_PER_TABLE_BYTE,
        }
    }

    /// Bytes erased per byte that could be written.
    pub(super) fn bytes_per_byte(self, erase: Erase) -> u64 {
        match erase {
            Erase::Zero => self.zero,
            Erase::Forget => self.forget,
        }
    }
}

/// The sysfs folder of the block device with this number.
pub(super) fn sysfs(number: u64) -> PathBuf {
    let (major, minor) = (libc::major(number), libc::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like that of a device and its first partition in sysfs. It is removed with the value.
    struct Described(PathBuf);

    impl Described {
        fn new(name: &str, limit: Option<&str>) -> Described {
            let folder = std::env::temp_dir().join(format!("gimbal-offload-{name}-{}", std::process::id()));
            for place in ["queue", "sda1"] {
                fs::create_dir_all(folder.join(place)).expect("a folder");
            }
            if let Some(limit) = limit {
                fs::write(folder.join("queue/write_zeroes_max_bytes"), limit).expect("a file");
            }
            Described(folder)
        }
    }

    impl Drop for Described {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it is there");
        }
    }

    #[test]
    fn a_device_that_cannot_zero_by_itself_is_charged_for_every_byte() {
        let cases = [
            ("none", Some("0\n"), 1),
            ("some", Some("2097152\n"), 16),
            ("old", None, 1),
            ("odd", Some("?"), 1),
        ];
        for (name, limit, zero) in cases {
            let Described(folder) = &Described::new(name, limit);
            for place in [folder.clone(), folder.join("sda1")] {
                let found = Shortcuts::of_block_device(&place);
                assert_eq!(found, Shortcuts { zero, forget: 256 }, "{} with {limit:?}", place.display());
            }
        }
    }

    #[test]
    fn a_regular_file_has_holes() {
        let program = std::env::current_exe().and_then(File::open).expect("this test is a file");
        assert_eq!(Shortcuts::of(&program, true), Shortcuts { zero: 16, forget: 16 });
    }
}
