//! A target with a directory on an XFS of its own, and drivers for it. It needs root and loop devices.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../gimbal/tests/disk/mod.rs"]
mod disk;
#[path = "../../../gimbal/tests/process/mod.rs"]
mod process;

use csi::messages::*;
use disk::Disk;
use hyper_util::rt::TokioIo;
use process::{Process, gimbal};
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

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
        let mut disk = Disk::new(&format!("csi-{name}"), 16 << 10);
        let device = disk.device.clone();
        disk.mount_as("xfs", &device);
        let folder = disk.folder.clone();
        let keys = folder.join("keys");
        fs::create_dir_all(&keys).expect("ours");
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nstate_dir = {:?}\n[[device]]\nname = \"pool\"\nkind = \"directory\"\n\
             path = {:?}\ncreate = true\nreserve = \"64M\"\n",
            folder.join("state"),
            disk.mount_point(),
        );
        fs::create_dir_all(folder.join("state")).expect("ours");
        fs::write(folder.join("gimbal.toml"), text).expect("ours");
        let target = serve(&folder);
        Bed { target, folder, disk }
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
    pub fn node(&self) -> Driver {
        let fakes = self.folder.join("fakes");
        let (bin, by_id) = (fakes.join("bin"), fakes.join("by-id"));
        for folder in [&bin, &by_id] {
            fs::create_dir_all(folder).expect("ours");
        }
        for name in FAKES {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fakes.sh");
            symlink(script, bin.join(name)).expect("it is not there yet");
        }
        fs::write(fakes.join("hostnqn"), format!("{NODE}\n")).expect("ours");
        let path = std::env::var("PATH").expect("text");
        let mut command = driver();
        command.arg("node").arg("--nvme-config").arg(&fakes).arg("--by-id").arg(&by_id);
        command.env("FAKES", &fakes).env("PATH", format!("{}:{path}", bin.display()));
        Driver::start(command, self.folder.join("node.sock"))
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

/// A client of a driver.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
}

impl Client {
    pub fn new(socket: &Path) -> Client {
        let runtime = Runtime::new().expect("a runtime");
        let socket = socket.to_owned();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = {
            let _inside = runtime.enter();
            Endpoint::from_static("http://driver").connect_with_connector_lazy(connect)
        };
        Client { runtime, channel }
    }

    /// Calls a procedure of the controller.
    pub fn call<Q, A>(&self, procedure: &str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/csi.v1.Controller/{procedure}").parse().expect("a path");
        self.runtime.block_on(async {
            let mut grpc = tonic::client::Grpc::new(self.channel.clone());
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(tonic::Request::new(request), path, codec).await;
            answer.map(tonic::Response::into_inner)
        })
    }

    pub fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer: CreateVolumeResponse = self.call("CreateVolume", request)?;
        Ok(answer.volume.expect("an answer has a volume"))
    }

    pub fn delete(&self, volume_id: &str) -> Result<DeleteVolumeResponse, Status> {
        self.call("DeleteVolume", DeleteVolumeRequest { volume_id: volume_id.to_owned() })
    }

    pub fn publish(&self, volume_id: &str, node_id: &str) -> Result<ControllerPublishVolumeResponse, Status> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let volume_capability = Some(writer());
        let request =
            ControllerPublishVolumeRequest { volume_id, node_id, volume_capability, readonly: false };
        self.call("ControllerPublishVolume", request)
    }

    pub fn unpublish(&self, volume_id: &str, node_id: &str) -> Result<(), Status> {
        let (volume_id, node_id) = (volume_id.to_owned(), node_id.to_owned());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id };
        self.call("ControllerUnpublishVolume", request).map(|_: ControllerUnpublishVolumeResponse| ())
    }

    pub fn snapshot(&self, volume_id: &str, name: &str) -> Result<Snapshot, Status> {
        let (source_volume_id, name) = (volume_id.to_owned(), name.to_owned());
        let request = CreateSnapshotRequest { source_volume_id, name, ..Default::default() };
        let answer: CreateSnapshotResponse = self.call("CreateSnapshot", request)?;
        Ok(answer.snapshot.expect("an answer has a snapshot"))
    }

    pub fn delete_snapshot(&self, snapshot_id: &str) -> Result<DeleteSnapshotResponse, Status> {
        self.call("DeleteSnapshot", DeleteSnapshotRequest { snapshot_id: snapshot_id.to_owned() })
    }
}

/// A file system that one node writes.
pub fn writer() -> VolumeCapability {
    VolumeCapability {
        mount: Some(MountVolume::default()),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        ..Default::default()
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
