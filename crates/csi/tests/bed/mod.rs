//! A target with a directory on an XFS of its own, and drivers for it. It needs root and loop devices.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub, unused_imports)]

mod client;
#[path = "../../../gimbal/tests/disk/mod.rs"]
mod disk;
mod fake_node;
#[path = "../../../gimbal/tests/process/mod.rs"]
mod process;
mod sanity;

pub use client::{Client, writer};
pub use fake_node::FakeNode;
pub use sanity::csi_sanity;

use csi::messages::*;
use disk::Disk;
use process::{Process, gimbal};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const NODE: &str = "nqn.2014-08.org.nvmexpress:uuid:6d5f1b5e-8a43-4f39-9a1b-2f7a4bd0a111";
pub const OTHER_NODE: &str = "nqn.2014-08.org.nvmexpress:uuid:6d5f1b5e-8a43-4f39-9a1b-2f7a4bd0a222";

/// A target with one directory.
pub struct Bed {
    // Ends before its disk.
    target: Process,
    pub folder: PathBuf,
    disk: Disk,
}

impl Bed {
    pub fn new(name: &str) -> Bed {
        Bed::with(name, "")
    }

    /// A target with an admin API at an address of this machine, too; its token is in `token`.
    pub fn remote(name: &str) -> Bed {
        Bed::with(name, "[admin]\nlisten = \"127.0.0.1:0\"\nadmin_token = \"TOKEN\"\n")
    }

    fn with(name: &str, more: &str) -> Bed {
        let mut disk = Disk::new(&format!("csi-{name}"), 16 << 10);
        let device = disk.device.clone();
        disk.mount_as("xfs", &device);
        let folder = disk.folder.clone();
        for name in ["keys", "state"] {
            fs::create_dir_all(folder.join(name)).expect("ours");
        }
        let token = folder.join("token");
        fs::write(&token, "a".repeat(32)).expect("ours");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("ours");
        let more = more.replace("TOKEN", &token.display().to_string());
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nstate_dir = {:?}\n{more}[[device]]\nname = \"pool\"\nkind = \"directory\"\n\
             path = {:?}\ncreate = true\nreserve = \"64M\"\n",
            folder.join("state"),
            disk.mount_point(),
        );
        fs::write(folder.join("gimbal.toml"), text).expect("ours");
        let target = serve(&folder);
        Bed { target, folder, disk }
    }

    /// The address at which hosts reach the target.
    pub fn address(&self) -> SocketAddr {
        self.target.address()
    }

    /// The address of the admin API of a remote one.
    pub fn admin_address(&self) -> SocketAddr {
        let log = fs::read_to_string(self.folder.join("target.log")).expect("it is there");
        let line = log.lines().find(|line| line.contains("the admin API can be reached with a token"));
        let address = line.and_then(|line| line.split("address=").nth(1)?.split_whitespace().next());
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address:\n{log}"))
    }

    pub fn admin(&self) -> PathBuf {
        self.folder.join("admin")
    }

    /// Leaves this much of the file system free.
    pub fn fill(&self, left: u64) {
        let file = fs::File::create(self.disk.folder.join("mount/ballast")).expect("ours");
        let facts = rustix::fs::fstatvfs(&file).expect("a file system");
        let length = facts.f_bavail * facts.f_frsize - left;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length).expect("there is room");
    }

    /// Makes the key of a node.
    pub fn make_key(&self, node: &str) {
        let file = self.folder.join("keys").join(format!("{node}.dhchap"));
        let made = gimbal().args(["key", "gen"]).arg(file).output().expect("it was built");
        assert!(made.status.success(), "{made:?}");
    }

    pub fn signal_target(&self, name: &str) {
        self.target.signal(name);
    }

    /// The configuration as it is in the file.
    pub fn text(&self) -> String {
        fs::read_to_string(self.folder.join("gimbal.toml")).expect("it is there")
    }

    /// The files of namespaces and snapshots in the directory.
    pub fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.disk.mount_point()).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
        names.filter(|name| name != "gimbal-pool.json").collect()
    }

    /// The files that the configuration has.
    pub fn files_wanted(&self) -> BTreeSet<String> {
        let text = self.text();
        let lines = text.lines().filter_map(|line| line.strip_prefix("uuid = "));
        lines.map(|uuid| uuid.trim_matches('"').to_owned()).collect()
    }

    /// A controller whose requests go to this admin socket.
    pub fn controller(&self, name: &str, admin: &Path) -> Driver {
        let keys = self.folder.join("keys");
        let mut command = driver();
        command.arg("controller").arg("--socket").arg(admin).arg("--keys").arg(keys);
        command.args(["--portal", &self.target.address().to_string()]);
        Driver::start(command, self.folder.join(name))
    }

    /// A node with fakes for the programs that it runs.
    pub fn node(&self) -> FakeNode {
        FakeNode::start(self.folder.join("fakes"), true)
    }
}

fn serve(folder: &Path) -> Process {
    let mut command = gimbal();
    command.arg("serve").arg("-c").arg(folder.join("gimbal.toml"));
    command.arg("--admin-socket").arg(folder.join("admin"));
    command.stderr(fs::File::create(folder.join("target.log")).expect("ours"));
    Process::start(&mut command)
}

fn driver() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gimbal-csi"))
}

/// A driver in its own process, which ends with the test.
pub struct Driver {
    child: Child,
    pub socket: PathBuf,
}

impl Driver {
    /// Starts it, and returns once it listens at `socket`.
    fn start(mut command: Command, socket: PathBuf) -> Driver {
        command.arg("--endpoint").arg(format!("unix://{}", socket.display()));
        let log = fs::File::create(socket.with_extension("log")).expect("ours");
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("it was built");
        let driver = Driver { child, socket };
        let began = Instant::now();
        while std::os::unix::net::UnixStream::connect(&driver.socket).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the driver does not listen");
            thread::sleep(Duration::from_millis(2));
        }
        driver
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.socket)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pairs as parameters.
pub fn named(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A volume of 64 MiB.
pub fn volume(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 64 << 20, limit_bytes: 0 }),
        volume_capabilities: vec![writer()],
        ..Default::default()
    }
}
