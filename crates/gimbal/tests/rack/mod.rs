//! A rack: targets that register in one metadata store, each in its own process, and clients of a volume on them.

// Each test binary uses a part of this.
#![allow(dead_code)]

#[path = "../linux/scratch.rs"]
pub(crate) mod scratch;

use crate::process::{Log, Process, gimbal};
use blob::{Class, Outcome, Request, Settings};
use blob_client::{Mount, Options, unique_name};
use host::{Backend, HostId, KeyFiles, Keys, Nqn, TransportType};
use scratch::Scratch;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;
use std::thread;
use units::{Bytes, Nanos};

/// The volume.
pub(crate) const VOLUME: &str = "db";
/// The host that mounts it.
const HOST: &str = "nqn.2025-01.io.gimbal:volume:test";
/// Time for which the volume stays locked after its client was killed.
const TTL: Nanos = Nanos::millis(1500);

/// The line that a target logs when its SSDs are in the store.
const REGISTERED: &str = "registered for volumes";

/// One target, over a file.
pub(crate) struct Target {
    process: Process,
    config: PathBuf,
}

pub(crate) struct Rack {
    pub(crate) targets: Vec<Target>,
    scratch: Scratch,
}

/// The properties in which a target differs from the default.
#[derive(Clone, Copy, Default)]
struct Special {
    /// Address for clients, if it differs from the one on which the target listens.
    address: Option<SocketAddr>,
    /// Whether a kill of the target makes its SSD lose all unflushed data, or half of it.
    is_volatile: bool,
    /// Whether hosts have to prove that they have the key of the rack.
    has_keys: bool,
}

/// The configuration of a target with one SSD, in a file.
fn write_config(scratch: &Scratch, number: u32, store: &str, special: Special) -> PathBuf {
    let config = scratch.file(&format!("target-{number}.toml"));
    let (medium, state) =
        (scratch.file(&format!("medium-{number}")), scratch.file(&format!("state-{number}")));
    let volatile = "[[device.fault]]\nkind = \"volatile\"\nchance = 0.5";
    let fault = if special.is_volatile { volatile } else { "" };
    let keys = if special.has_keys { keys(scratch) } else { String::new() };
    let address = special.address.map(|address| format!("address = \"{address}\"")).unwrap_or_default();
    let text = format!(
        r#"
state_dir = {state:?}

[rack]
store = {store:?}
name = "target-{number}"
subsystems = ["nqn.2025-01.io.gimbal:rack{number}"]
mega = "16M"
ttl = "5s"
{address}

[[device]]
name = "ssd"
kind = "file"
path = {medium:?}
size = "256M"
create = true
{fault}

[[subsystem]]
nqn = "nqn.2025-01.io.gimbal:rack{number}"
allow_any_host = true

[[subsystem.namespace]]
nsid = 1
device = "ssd"

{keys}"#
    );
    std::fs::write(&config, text).expect("the scratch folder is writable");
    config
}

/// Tables by which the hosts of these tests prove that they have the key of the rack.
fn keys(scratch: &Scratch) -> String {
    let [own, ctrl] = ["key", "ctrl-key"].map(|name| {
        let file = scratch.file(name);
        if !file.exists() {
            let made = gimbal().args(["key", "gen"]).arg(&file).status().expect("the binary was built");
            assert!(made.success());
        }
        file
    });
    let (of_commands, _) = blob_client::identity();
    let host =
        |nqn: &str| format!("[[host]]\nnqn = {nqn:?}\ndhchap_key = {own:?}\ndhchap_ctrl_key = {ctrl:?}\n");
    let tables = [HOST, of_commands.as_str()].map(host).concat();
    format!("[security]\nauthentication = \"required\"\n{tables}")
}

/// Starts a target, and waits for this line in its log.
fn serve(config: &PathBuf, listen: &str, line: &str) -> Process {
    let mut command = gimbal();
    let (process, mut log) =
        Process::start_with_log(command.args(["serve", "--listen", listen, "-c"]).arg(config));
    log.await_line(line);
    // A full pipe would stop the target.
    thread::spawn(move || Log::await_end(&mut log));
    process
}

impl Target {
    /// The address on which the target listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        assert!(!self.process.kill().success(), "it was killed, and not gone before");
    }

    /// Starts the target again at the same address, over the same file. Returns when it has registered its SSD.
    pub(crate) fn restart(&mut self) {
        self.process = serve(&self.config, &self.process.address().to_string(), REGISTERED);
    }

    /// Does the same at another address.
    pub(crate) fn restart_elsewhere(&mut self) {
        let before = self.process.address();
        self.process = serve(&self.config, "127.0.0.2:0", REGISTERED);
        assert_ne!(self.process.address(), before);
    }

    /// Stops it in order.
    pub(crate) fn stop(&mut self) {
        self.process.signal("-TERM");
        assert!(self.process.wait().success(), "the target did not stop in order");
    }
}

impl Rack {
    /// Targets with an SSD of 256 MiB each, registered in one store.
    pub(crate) fn new(name: &str, targets: u32) -> Rack {
        Rack::of(name, &vec![Special::default(); targets as usize])
    }

    /// Does the same with volatile SSDs: killing a target is a power loss for its SSD.
    pub(crate) fn volatile(name: &str, targets: u32) -> Rack {
        Rack::of(name, &vec![Special { is_volatile: true, ..Special::default() }; targets as usize])
    }

    /// Does the same with targets that ask for a proof, and prove themselves.
    pub(crate) fn with_keys(name: &str, targets: u32) -> Rack {
        Rack::of(name, &vec![Special { has_keys: true, ..Special::default() }; targets as usize])
    }

    /// The files with the key of the hosts and the one of the targets.
    pub(crate) fn key_files(&self) -> [PathBuf; 2] {
        ["key", "ctrl-key"].map(|name| self.scratch.file(name))
    }

    /// Does the same with one target behind each of these addresses.
    pub(crate) fn behind(name: &str, addresses: &[SocketAddr]) -> Rack {
        let behind = |address: &SocketAddr| Special { address: Some(*address), ..Special::default() };
        Rack::of(name, &addresses.iter().map(behind).collect::<Vec<_>>())
    }

    fn of(name: &str, targets: &[Special]) -> Rack {
        let scratch = Scratch::new(name);
        let store = scratch.file("store");
        let targets = (0..).zip(targets).map(|(number, special)| {
            let config = write_config(&scratch, number, store.to_str().expect("a plain path"), *special);
            Target { process: serve(&config, "127.0.0.1:0", REGISTERED), config }
        });
        Rack { targets: targets.collect(), scratch }
    }

    /// A target whose store does not work, once it has logged this.
    pub(crate) fn without_store(name: &str, store: &str) -> Rack {
        let scratch = Scratch::new(name);
        let config = write_config(&scratch, 0, store, Special::default());
        let line = "SSDs are not registered for volumes";
        let targets = vec![Target { process: serve(&config, "127.0.0.1:0", line), config }];
        Rack { targets, scratch }
    }

    /// The configuration of the first target, and a copy of it with an SSD and a state directory of its own, as if for another machine.
    pub(crate) fn copied(&self) -> [PathBuf; 2] {
        let config = &self.targets[0].config;
        let text = std::fs::read_to_string(config).expect("written before");
        let copy = self.scratch.file("copy.toml");
        let text = text.replace("medium-", "copied-medium-").replace("state-", "copied-state-");
        std::fs::write(&copy, text).expect("the scratch folder is writable");
        [config.clone(), copy]
    }

    /// The metadata store, as flags and variables name it.
    pub(crate) fn store(&self) -> String {
        self.scratch.file("store").to_str().expect("a plain path").to_owned()
    }

    /// Runs `gimbal` with the store.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        gimbal().args(arguments).env("GIMBAL_STORE", self.store()).output().expect("the binary was built")
    }

    /// Like `run` for a command that must succeed; returns its output.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = |bytes| String::from_utf8(bytes).expect("gimbal writes UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "gimbal {arguments:?}: {stdout}{stderr}");
        stdout
    }

    /// Creates the volume.
    pub(crate) fn create(&self) {
        self.ask(&["volume", "create", VOLUME, "--mega", "16M", "--micro", "64K", "--slots", "4"]);
    }

    pub(crate) fn mount(&self) -> Mount {
        mount(&self.store())
    }

    /// Mounts the volume with the keys of the rack.
    pub(crate) fn mount_with_keys(&self) -> Mount {
        let [own, ctrl] = self.key_files();
        mount_with(
            &self.store(),
            KeyFiles { dhchap: Some(own), dhchap_ctrl: Some(ctrl), ..KeyFiles::default() }
                .read()
                .expect("they were made"),
        )
    }
}

/// Mounts the volume, also if its last client was killed a moment ago.
pub(crate) fn mount(store: &str) -> Mount {
    mount_with(store, Keys::default())
}

fn mount_with(store: &str, keys: Keys) -> Mount {
    let host = Nqn::new(HOST).expect("a name");
    let settings = Settings {
        ttl: TTL,
        lock_patience: Nanos::secs(60),
        quarantine: Nanos::secs(3),
        repair_delay: Nanos::millis(10),
        ..Settings::new(VOLUME, &unique_name())
    };
    let options = Options {
        settings,
        host,
        host_id: HostId([7; 16]),
        transport: TransportType::Tcp,
        keys,
        backend: Backend::Auto,
        memory: Bytes::mib(64),
        io_timeout: Nanos::secs(2),
        spin: None,
    };
    let store = blob_meta::open(store, &blob_meta::EtcdFiles::default()).expect("the store is there");
    Mount::open(options, store).unwrap_or_else(|error| panic!("the volume cannot be mounted: {error}"))
}

/// Carries out a request that must succeed.
pub(crate) fn done(mount: &Mount, request: Request) -> Outcome {
    let text = format!("{request:?}");
    match mount.call(request) {
        Outcome::Failed(fault) => panic!("{}: {fault}", text.chars().take(120).collect::<String>()),
        outcome => outcome,
    }
}

/// The handle and the size of a file that is opened by `request`.
pub(crate) fn opened(mount: &Mount, request: Request) -> (u64, u64) {
    match done(mount, request) {
        Outcome::Opened { handle, size } => (handle, size),
        other => panic!("not opened: {other:?}"),
    }
}

/// Bytes `from..from + length` of file `number`.
pub(crate) fn content(number: u64, from: u64, length: u64) -> Vec<u8> {
    let byte = |at: u64| {
        let mixed = (number ^ 0x9e37_79b9_7f4a_7c15).wrapping_add(at / 8).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> (8 * (at % 8))) as u8
    };
    (from..from + length).map(byte).collect()
}

/// Reads a whole file and checks its contents. Returns its size.
pub(crate) fn check(mount: &Mount, number: u64) -> u64 {
    let path = format!("f{number}");
    let (handle, size) = opened(mount, Request::Open { path: path.clone() });
    let Outcome::Bytes(bytes) =
        done(mount, Request::Read { handle, offset: 0, length: size, class: Class::Normal })
    else {
        panic!("{path} was not read")
    };
    done(mount, Request::Close { handle });
    let wanted = content(number, 0, size);
    assert_eq!(bytes.len(), wanted.len(), "{path} is shorter than its size");
    let wrong = bytes.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
    assert_eq!(wrong, None, "{path}: the first wrong byte");
    size
}
