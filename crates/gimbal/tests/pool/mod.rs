//! A target with a directory on XFS, and commands of `gimbal ctl` for it. The file system is on a loop device, which needs root.

// Each test binary uses a part of this.
#![allow(dead_code)]

use crate::disk::Disk;
use crate::process::gimbal;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The subsystem.
pub(crate) const NQN: &str = "nqn.2025-01.io.example:disk";

/// A directory, and the files of a target that has it.
pub(crate) struct Place {
    disk: Disk,
    file: PathBuf,
    socket: PathBuf,
}

/// The UUID of a namespace, as text.
pub(crate) fn uuid(nsid: u32) -> String {
    format!("5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a{nsid:04x}")
}

impl Place {
    /// A directory with room for eight namespaces of `mib` MiB, and the configuration of namespace 1.
    pub(crate) fn new(name: &str, mib: u64) -> Place {
        let mut disk = Disk::new(&format!("directory-{name}"), 8 * mib);
        let device = disk.device.clone();
        disk.mount_as("xfs", &device);
        let (pool, first) = (disk.mount_point(), uuid(1));
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n\n[[device]]\nname = \"pool\"\nkind = \"directory\"\npath = {pool:?}\ncreate = true\n\n\
             [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"pool\"\nsize = \"{mib}M\"\nuuid = {first:?}\n"
        );
        let place = Place { file: disk.folder.join("gimbal.toml"), socket: disk.folder.join("s"), disk };
        fs::write(&place.file, text).expect("ours");
        place
    }

    /// `gimbal serve` with the directory.
    pub(crate) fn command(&self) -> Command {
        let mut command = gimbal();
        command.arg("serve").arg("-c").arg(&self.file).arg("--admin-socket").arg(&self.socket);
        command.arg("--state-dir").arg(self.disk.folder.join("state"));
        command
    }

    /// `gimbal ctl` with these words.
    pub(crate) fn ctl_command(&self, words: &[String]) -> Command {
        let mut command = gimbal();
        command.arg("ctl").arg("--socket").arg(&self.socket).args(words);
        command
    }

    /// Whether `gimbal ctl` with these words succeeded, and what it said.
    pub(crate) fn ctl(&self, words: &str) -> (bool, String) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let Output { status, stdout, stderr } = self.ctl_command(&words).output().expect("it was built");
        (status.success(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    }

    /// The answer of `gimbal ctl` with these words, which must succeed.
    pub(crate) fn done(&self, words: &str) -> String {
        let (is_done, said) = self.ctl(words);
        assert!(is_done, "{words}: {said}");
        said
    }

    /// Fills the file system, to the last block that can be had in pieces of one byte; returns the file.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = PathBuf::from(self.disk.mount_point()).join("filler");
        let mut file = File::create(&path).expect("there is room");
        for size in [1 << 20, 4096, 1] {
            let piece = vec![7; size];
            while file.write_all(&piece).and_then(|()| file.sync_data()).is_ok() {}
        }
        path
    }

    /// The names in the directory.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.disk.mount_point()).expect("mounted");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    /// Whether the configuration has a namespace.
    pub(crate) fn configured(&self, nsid: u32) -> bool {
        fs::read_to_string(&self.file).expect("it is there").contains(&uuid(nsid))
    }
}
