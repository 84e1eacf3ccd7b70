//! An etcd server (Debian's etcd-server), which ends with the test.

// Each test binary uses a part of this.
#![allow(dead_code)]

use blob::store::Store;
use blob_meta::Etcd;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server with its own directory and ports.
pub(crate) struct Server {
    child: Child,
    directory: PathBuf,
    ports: [u16; 2],
}

impl Server {
    /// Starts the server, and waits until it responds.
    pub(crate) fn start(name: &str) -> Server {
        let directory =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        // etcd does not report the port that it got, so free ones are looked up; if another program takes one, others
        // are tried.
        for _ in 0..20 {
            let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
            let ports = listeners.map(|listener| listener.local_addr().expect("bound").port());
            let mut server =
                Server { child: Server::spawn(&directory, ports), directory: directory.clone(), ports };
            if server.is_ready() {
                return server;
            }
        }
        panic!("etcd does not start; see {}", directory.display());
    }

    fn spawn(directory: &PathBuf, [client, peer]: [u16; 2]) -> Child {
        let url = |port| format!("http://127.0.0.1:{port}");
        std::fs::create_dir_all(directory).expect("made");
        let log = std::fs::File::create(directory.join("log")).expect("made");
        Command::new("etcd")
            .args(["--name", "one", "--data-dir"])
            .arg(directory.join("data"))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("one={}", url(peer))])
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
        while began.elapsed() < Duration::from_secs(60) {
            if store.get("ready").is_ok() {
                return true;
            }
            if self.child.try_wait().expect("it is ours").is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// A connection to the server.
    pub(crate) fn connect(&self) -> Etcd {
        Etcd::new(&format!("127.0.0.1:{}", self.ports[0])).expect("a good endpoint")
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts the server again in the same place, after a kill.
    pub(crate) fn start_again(&mut self) {
        self.child = Server::spawn(&self.directory, self.ports);
        assert!(self.is_ready(), "etcd does not start again");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
