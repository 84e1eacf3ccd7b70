//! `gimbal serve` in its own process, with a medium that survives it.

use super::Scratch;
use super::process::{Process, gimbal};
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The subsystem that every target here serves.
pub(crate) const NQN: &str = "nqn.2024-06.io.gimbal:tested";
/// The system chooses the port.
const ANY_PORT: &str = "127.0.0.1:0";

/// The device of the namespaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Medium {
    /// A file, with direct IO if the file system supports it.
    File,
    /// A modelled SSD in real time, its data in memory.
    Emulated,
}

/// A target that serves namespace 1 (4 KiB blocks) and namespace 2 (512 B blocks), 64 MiB each, under Gimbal.
pub(crate) struct Target {
    process: Process,
    config: PathBuf,
    log: PathBuf,
}

impl Target {
    /// Starts a target; its files are in `scratch`.
    pub(crate) fn start(scratch: &Scratch, medium: Medium) -> Target {
        Target::with(scratch, medium, "")
    }

    /// The same, with `more` at the end of the configuration, after the namespaces.
    pub(crate) fn with(scratch: &Scratch, medium: Medium, more: &str) -> Target {
        Target::listening(scratch, medium, more, 1)
    }

    /// The same, with this many addresses.
    pub(crate) fn listening(scratch: &Scratch, medium: Medium, more: &str, addresses: usize) -> Target {
        Target::named(scratch, medium, NQN, more, addresses)
    }

    /// The same, of another subsystem.
    pub(crate) fn named(
        scratch: &Scratch,
        medium: Medium,
        nqn: &str,
        more: &str,
        addresses: usize,
    ) -> Target {
        let device = match medium {
            Medium::File => {
                format!(
                    "kind = \"file\"\npath = {:?}\nsize = \"128M\"\ncreate = true",
                    scratch.file("medium")
                )
            }
            Medium::Emulated => "kind = \"emulated\"\nprofile = \"dct983\"\nsize = \"16G\"".to_owned(),
        };
        let config = scratch.file("target.toml");
        let state = scratch.file("state");
        let text = format!(
            r#"
state_dir = {state:?}

[[device]]
name = "ssd"
{device}

[[subsystem]]
nqn = "{nqn}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
device = "ssd"
size = "64M"

[[subsystem.namespace]]
nsid = 2
device = "ssd"
offset = "64M"
size = "64M"
block_size = 512

{more}"#
        );
        std::fs::write(&config, text).expect("the scratch folder is writable");
        let log = scratch.file("target.log");
        let process = serve(&config, &log, &vec![ANY_PORT.to_owned(); addresses]);
        Target { process, config, log }
    }

    /// The address on which the target listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// All addresses on which it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        self.process.addresses()
    }

    /// Stops it in order (SIGTERM).
    pub(crate) fn stop(&mut self) {
        self.process.signal("-TERM");
        let status = self.process.wait();
        assert!(status.success(), "gimbal serve ended with {status}\n{}", self.log());
    }

    /// Kills it (SIGKILL): nothing in its memory survives.
    pub(crate) fn kill(&mut self) {
        let status = self.process.kill();
        assert!(!status.success(), "it was killed, and not gone before\n{}", self.log());
    }

    /// Starts it again at the same address, over the same medium.
    pub(crate) fn restart(&mut self) {
        let addresses = self.addresses().to_vec();
        let listen: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        self.process = serve(&self.config, &self.log, &listen);
        assert_eq!(self.addresses(), addresses);
    }

    /// Edits its configuration and reloads it (SIGHUP). The log has the result.
    pub(crate) fn reload(&self, edit: impl FnOnce(String) -> String) {
        let text = std::fs::read_to_string(&self.config).expect("written before");
        std::fs::write(&self.config, edit(text)).expect("the scratch folder is writable");
        self.process.signal("-HUP");
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the target's log:\n{}", self.log());
        }
    }
}

fn serve(config: &PathBuf, log: &PathBuf, listen: &[String]) -> Process {
    let log = File::options().create(true).append(true).open(log).expect("the scratch folder is writable");
    let mut command = gimbal();
    command.args(["serve", "--log", "debug"]);
    for address in listen {
        command.args(["--listen", address]);
    }
    Process::start_at(command.arg("-c").arg(config).stderr(log), listen.len())
}
