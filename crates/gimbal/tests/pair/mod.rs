//! Two targets before one back-end, which is a third one: each in its own process. Both have its namespace on a fenced device, and serve it in one
//! subsystem.
//!
//! ```text
//!   hosts ──► left ──► Link ──┐
//!        └──► right ─► Link ──┴──► shelf: a modelled SSD
//! ```

// Each test binary uses a part of this.
#![allow(dead_code)]

mod link;

use crate::Scratch;
use crate::process::{Process, gimbal};
use link::Link;
use serde_json::Value;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The subsystem of both.
pub(crate) const NQN: &str = "nqn.2024-06.io.gimbal:pair";
/// The group of its namespace.
pub(crate) const GROUP: &str = "shelf";
/// The subsystem of the back-end.
pub(crate) const SHELF: &str = "nqn.2024-06.io.gimbal:shelf";
/// The system chooses the port.
const ANY_PORT: &str = "127.0.0.1:0";

/// See the module.
pub(crate) struct Pair {
    pub(crate) left: Front,
    pub(crate) right: Front,
    shelf: Process,
    scratch: Scratch,
}

impl Pair {
    /// Nobody holds the group. The files of a test are in a folder of its name.
    pub(crate) fn new(name: &str) -> Pair {
        let scratch = Scratch::new(name);
        let config = scratch.file("shelf.toml");
        let state = scratch.file("shelf-state");
        // In memory: every write of a target before a back-end is durable, and the disk of a busy machine makes them take seconds.
        let text = format!(
            "threads = 1\nstate_dir = {state:?}\n\n[[device]]\nname = \"ssd\"\nkind = \"emulated\"\nprofile = \"dct983\"\nsize = \"16G\"\n\n\
             [[subsystem]]\nnqn = \"{SHELF}\"\nallow_any_host = true\n\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"ssd\"\nsize = \"64M\"\n"
        );
        fs::write(&config, text).expect("the scratch folder is writable");
        let shelf = serve(&config, &scratch.file("shelf.log"), &scratch.file("shelf.sock"), ANY_PORT);
        let front = |side, ids| Front::start(&scratch, side, ids, shelf.address());
        let (left, right) = (front("left", "1-32767"), front("right", "32768-65519"));
        Pair { left, right, shelf, scratch }
    }

    /// The address of the back-end.
    pub(crate) fn back_end(&self) -> SocketAddr {
        self.shelf.address()
    }
}

/// One of the two.
pub(crate) struct Front {
    /// Its way to the back-end.
    pub(crate) link: Link,
    process: Process,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Front {
    fn start(scratch: &Scratch, side: &str, ids: &str, shelf: SocketAddr) -> Front {
        let link = Link::to(shelf);
        let file = |kind: &str| scratch.file(&format!("{side}{kind}"));
        let (config, socket, log, state) = (file(".toml"), file(".sock"), file(".log"), file("-state"));
        let text = format!(
            "threads = 1\nstate_dir = {state:?}\n\n[[device]]\nname = \"far\"\nkind = \"nvme-tcp\"\naddress = \"{}\"\nsubsystem = \"{SHELF}\"\n\
             host = \"nqn.2024-06.io.gimbal:{side}\"\ntimeout = \"3s\"\nfenced = true\n\n\
             [[group]]\nname = \"{GROUP}\"\nstate = \"inaccessible\"\n\n\
             [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\ncntlid = \"{ids}\"\n\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"far\"\ngroup = \"{GROUP}\"\n",
            link.address()
        );
        fs::write(&config, text).expect("the scratch folder is writable");
        let process = serve(&config, &log, &socket, ANY_PORT);
        Front { link, process, config, socket, log }
    }

    /// The address for hosts.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Its admin socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal, such as `-STOP`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        assert!(!self.process.kill().success(), "it was killed, and not gone before\n{}", self.log());
    }

    /// Starts it again at the same address.
    pub(crate) fn restart(&mut self) {
        self.process = serve(&self.config, &self.log, &self.socket, &self.address().to_string());
    }

    /// `gimbal ctl` with these words.
    pub(crate) fn ctl(&self, words: &[&str]) -> Output {
        let mut command = gimbal();
        command.arg("ctl").arg("--socket").arg(&self.socket).args(words).output().expect("it was built")
    }

    /// As `ctl`; it must succeed. Returns what it prints.
    fn done(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.ctl(words);
        let (said, complaint) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "gimbal ctl {words:?}: {said}{complaint}\n{}", self.log());
        said.into_owned()
    }

    /// Takes the group over.
    pub(crate) fn take_over(&self, generation: u64) {
        self.done(&["takeover", GROUP, "--generation", &generation.to_string()]);
    }

    /// Releases the group.
    pub(crate) fn release(&self) {
        self.done(&["release", GROUP]);
    }

    /// The generation by which it holds the group, if it does.
    pub(crate) fn held(&self) -> Option<u64> {
        let said = self.done(&["takeover", GROUP, "--status", "--json"]);
        let status: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(status["group"], GROUP);
        match status["held"].as_bool() {
            Some(is_held) => status["generation"].as_u64().filter(|_| is_held),
            None => panic!("{said}"),
        }
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("left:\n{}\nright:\n{}", self.left.log(), self.right.log());
        }
    }
}

fn serve(config: &Path, log: &Path, socket: &Path, listen: &str) -> Process {
    let log = File::options().create(true).append(true).open(log).expect("the scratch folder is writable");
    let mut command: Command = gimbal();
    command.args(["serve", "--log", "info", "--listen", listen, "-c"]).arg(config);
    Process::start(command.arg("--admin-socket").arg(socket).stderr(log))
}
