//! An etcd server (Debian's etcd-server), which ends with the test.

// Each test binary uses a part of this.
#![allow(dead_code, unused_imports)]

mod administrator;
mod certificates;
mod ssds;

pub(crate) use administrator::{Administrator, PASSWORD, USER};
pub(crate) use certificates::{Authority, Certificate};
pub(crate) use ssds::record;

use blob::store::Store;
use blob::store::conformance::Bed;
use blob_meta::{Etcd, EtcdFiles};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of everything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A folder for the files of a test, removed with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("made");
        Scratch(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, text).expect("the folder is writable");
        file
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The way a server is started, and how its tests reach it.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// Arguments, without those for places and names.
    pub(crate) arguments: Vec<String>,
    /// With TLS.
    pub(crate) certificate: Option<Certificate>,
    /// The files with which `connect` connects.
    pub(crate) files: EtcdFiles,
    /// The user as whom `connect` connects.
    pub(crate) user: Option<String>,
}

/// A server with its own directory and ports.
pub(crate) struct Server {
    child: Child,
    directory: Scratch,
    ports: [u16; 2],
    pub(crate) setup: Setup,
}

impl Server {
    /// Starts a server without TLS and users, and waits until it responds.
    pub(crate) fn start(name: &str) -> Server {
        Server::start_as(name, &Setup::default())
    }

    /// Starts a server, and waits until it responds.
    pub(crate) fn start_as(name: &str, setup: &Setup) -> Server {
        // etcd does not report the port that it got, so free ones are looked up; if another program takes one, others
        // are tried.
        for round in 0..20 {
            let directory = Scratch::new(&format!("{name}-{round}"));
            let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
            let ports = listeners.map(|listener| listener.local_addr().expect("bound").port());
            let child = Server::spawn(directory.path(), ports, setup);
            let mut server = Server { child, directory, ports, setup: setup.clone() };
            if server.is_ready() {
                return server;
            }
        }
        panic!("etcd does not start: {name}");
    }

    fn spawn(directory: &Path, [client, peer]: [u16; 2], setup: &Setup) -> Child {
        let of_peer = format!("http://127.0.0.1:{peer}");
        let scheme = if setup.certificate.is_some() { "https" } else { "http" };
        let of_client = format!("{scheme}://127.0.0.1:{client}");
        let log = std::fs::File::create(directory.join("log")).expect("made");
        let mut command = Command::new("etcd");
        command
            .args(["--name", "one", "--data-dir"])
            .arg(directory.join("data"))
            .args(["--listen-client-urls", &of_client, "--advertise-client-urls", &of_client])
            .args(["--listen-peer-urls", &of_peer, "--initial-advertise-peer-urls", &of_peer])
            .args(["--initial-cluster", &format!("one={of_peer}")])
            .args(&setup.arguments);
        if let Some(Certificate { cert, key }) = &setup.certificate {
            command.arg("--cert-file").arg(cert).arg("--key-file").arg(key);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is installed (Debian: etcd-server)")
    }

    /// Waits until the server responds, or has ended.
    fn is_ready(&mut self) -> bool {
        let began = Instant::now();
        let mut store = self.connect();
        while began.elapsed() < LIMIT {
            match store.get("ready") {
                Ok(_) => return true,
                Err(error) if began.elapsed() + PAUSE * 2 >= LIMIT => panic!("{error}\n{}", self.log()),
                Err(_) => {}
            }
            if self.child.try_wait().expect("it is ours").is_some() {
                return false;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// The server's host and port.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// The name of the store, with the user of the setup.
    pub(crate) fn name(&self) -> String {
        let scheme = if self.setup.certificate.is_some() { "etcds" } else { "etcd" };
        let user = self.setup.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("{scheme}://{user}{}", self.address())
    }

    /// A connection to the server.
    pub(crate) fn connect(&self) -> Etcd {
        Etcd::open(&self.name(), &self.setup.files).expect("a good name")
    }

    /// The administrator of its users.
    pub(crate) fn administrator(&self) -> Administrator {
        let scheme = if self.setup.certificate.is_some() { "https" } else { "http" };
        Administrator::new(&format!("{scheme}://{}", self.address()))
    }

    /// The server's log of its current run.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).expect("it is there")
    }

    /// Waits until the log has a line with this part `count` times.
    pub(crate) fn await_log(&self, part: &str, count: usize) {
        let began = Instant::now();
        while self.log().matches(part).count() < count {
            assert!(began.elapsed() < LIMIT, "no {part:?} in the log:\n{}", self.log());
            thread::sleep(PAUSE);
        }
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts the server again in the same place, after a kill.
    pub(crate) fn start_again(&mut self) {
        self.child = Server::spawn(self.directory.path(), self.ports, &self.setup);
        assert!(self.is_ready(), "etcd does not start again:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bed for Server {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    /// Leases live in real time.
    fn pass_time(&mut self) {
        thread::sleep(Duration::from_millis(50));
    }
}
