//! A node with fakes for the programs that it runs (`tests/fakes.sh`).

use super::{Driver, NODE, driver};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The programs that have fakes.
const FAKES: [&str; 10] = [
    "nvme",
    "mount",
    "umount",
    "findmnt",
    "blkid",
    "mkfs.ext4",
    "mkfs.xfs",
    "resize2fs",
    "xfs_growfs",
    "blockdev",
];

/// See the module.
pub struct FakeNode {
    pub driver: Driver,
    /// State of the fakes: devices, mounts, file systems, and calls.
    pub folder: PathBuf,
}

impl FakeNode {
    /// A node of a test that needs no target.
    pub fn new(name: &str) -> FakeNode {
        FakeNode::start(folder(name), true)
    }

    /// The same, on a machine with none of the programs.
    pub fn without_programs(name: &str) -> FakeNode {
        FakeNode::start(folder(name), false)
    }

    pub(super) fn start(folder: PathBuf, has_programs: bool) -> FakeNode {
        let (bin, by_id) = (folder.join("bin"), folder.join("by-id"));
        for folder in [&bin, &by_id] {
            fs::create_dir_all(folder).expect("ours");
        }
        let mut path = bin.clone().into_os_string();
        if has_programs {
            for name in FAKES {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fakes.sh");
                symlink(script, bin.join(name)).expect("it is not there yet");
            }
            path.push(":");
            path.push(std::env::var_os("PATH").expect("it is set"));
        }
        fs::write(folder.join("hostnqn"), format!("{NODE}\n")).expect("ours");
        let mut command = driver();
        command.arg("node").arg("--nvme-config").arg(&folder).arg("--by-id").arg(&by_id);
        command.env("FAKES", &folder).env("PATH", path);
        FakeNode { driver: Driver::start(command, folder.join("node.sock")), folder }
    }

    /// Writes a file that the fakes or the driver read.
    pub fn set(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), format!("{text}\n")).expect("ours");
    }

    /// The programs that were run, with their arguments, a line each.
    pub fn calls(&self) -> String {
        fs::read_to_string(self.folder.join("calls")).unwrap_or_default()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("node-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}
