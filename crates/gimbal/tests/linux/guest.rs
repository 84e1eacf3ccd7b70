//! A Linux guest that runs one walk, started by `tests/guest/guest.sh`.

use super::process::binary;
use super::{NQN, Scratch};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Time limit of a guest. A walk takes about 15 s; the rest is for a busy machine.
const LIMIT_SECONDS: u32 = 600;
/// That of a whole Debian, which takes two minutes to boot.
const DEBIAN_LIMIT_SECONDS: u32 = 3600;

/// Bytes of the disk that a target in a guest serves.
const RDMA_DISK: u64 = 256 << 20;

/// The subsystem that `nvmet.sh` serves.
pub(crate) const KERNEL_NQN: &str = "nqn.2024-06.io.gimbal:kernel";

/// The kernels that hosts are tested with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// Debian 12's, with nvme-cli 2.3.
    Linux6_1,
    /// Debian 13's, with nvme-cli 2.13.
    Linux6_12,
    /// The newest of Debian testing, which moves: for tests that are not run with every change.
    Newest,
}

impl Kernel {
    fn suite(self) -> &'static str {
        match self {
            Kernel::Linux6_1 => "bookworm",
            Kernel::Linux6_12 => "trixie",
            Kernel::Newest => "testing",
        }
    }
}

/// A script to run in a guest, with its arguments.
pub(crate) struct Walk {
    kernel: Kernel,
    script: PathBuf,
    arguments: Vec<String>,
    limit_seconds: u32,
}

impl Walk {
    /// The walk `tests/guest/walks/NAME.sh`, over the subsystem `nqn` at `address` on this machine's loopback.
    pub(crate) fn new(kernel: Kernel, name: &str, address: SocketAddr, nqn: &str) -> Walk {
        Walk::named(kernel, name).target(address, nqn)
    }

    /// The walk `tests/guest/walks/NAME.sh`.
    pub(crate) fn named(kernel: Kernel, name: &str) -> Walk {
        let walks = guest_folder().join("walks");
        Walk {
            kernel,
            script: walks.join(name).with_extension("sh"),
            arguments: Vec::new(),
            limit_seconds: LIMIT_SECONDS,
        }
        .file(&walks.join("lib.sh"), "/walks/lib.sh")
    }

    /// Names the subsystem `nqn` at `address` on this machine's loopback.
    pub(crate) fn target(self, address: SocketAddr, nqn: &str) -> Walk {
        assert!(address.ip().is_loopback(), "a guest reaches this machine's loopback only, not {address}");
        self.variable("PORT", address.port()).variable("NQN", nqn)
    }

    /// A walk that runs the binary under test in the guest: `/gimbal/gimbal`, which `$LOADER` loads.
    pub(crate) fn serving(kernel: Kernel, name: &str, scratch: &Scratch) -> Walk {
        let walk = Walk::named(kernel, name);
        walk.programs(&[&binary()], scratch)
    }

    /// A walk whose target is in the guest itself, on a disk of its own: host and target meet by RDMA, over a device of software.
    pub(crate) fn by_rdma(kernel: Kernel, name: &str, scratch: &Scratch) -> Walk {
        let disk = scratch.file("disk");
        let file = File::create(&disk).expect("the folder is there");
        file.set_len(RDMA_DISK).expect("a sparse file");
        let mut walk = Walk::serving(kernel, name, scratch).disk(&disk);
        walk.arguments.extend(["-r", "-m", "1024"].map(String::from));
        walk.variable("TRANSPORT", "rdma").variable("NQN", NQN)
    }

    /// Puts programs of this machine into the guest, below `/gimbal`. `$LOADER` loads them, with the libraries of this machine, as the guest's C
    /// library may be older.
    pub(crate) fn programs(mut self, programs: &[&Path], scratch: &Scratch) -> Walk {
        let mut libraries = BTreeSet::new();
        for program in programs {
            let name = program.file_name().expect("a file").to_string_lossy();
            let stripped = scratch.file(&name);
            let ended = Command::new("strip").arg("-o").arg(&stripped).arg(program).status();
            assert!(ended.expect("strip is there, as cc needs it").success(), "{name} can be stripped");
            let needed = Command::new("ldd").arg(&stripped).output().expect("ldd is there, as libc is");
            let needed = String::from_utf8(needed.stdout).expect("paths");
            let paths = needed.split_ascii_whitespace().filter(|word| word.starts_with('/'));
            libraries.extend(paths.map(PathBuf::from));
            self = self.file(&stripped, &format!("/gimbal/{name}"));
        }
        let mut loader = None;
        for path in libraries {
            let name = path.file_name().expect("a file").to_string_lossy();
            if name.starts_with("ld-linux") {
                loader = Some(name.to_string());
            }
            self = self.file(&path, &format!("/gimbal/{name}"));
        }
        let loader = loader.expect("the programs are loaded by something");
        self.variable("LOADER", format!("/gimbal/{loader}"))
    }

    /// The kernel's own target; see `tests/guest/nvmet.sh`.
    pub(crate) fn kernel_target(kernel: Kernel) -> Walk {
        let script = guest_folder().join("nvmet.sh");
        Walk { kernel, script, arguments: Vec::new(), limit_seconds: LIMIT_SECONDS }.forward(4420)
    }

    /// A walk in a whole Debian 12 with systemd, whose root file system is laid out on the file `root`.
    pub(crate) fn debian(name: &str, root: &Path) -> Walk {
        let archive =
            Command::new(guest_folder().join("guest.sh")).arg("root").output().expect("bash is there");
        assert!(archive.status.success(), "{}", String::from_utf8_lossy(&archive.stderr));
        let archive = String::from_utf8(archive.stdout).expect("a path");
        let mut walk = Walk::named(Kernel::Linux6_1, name).disk(root).disk(Path::new(archive.trim()));
        walk.limit_seconds = DEBIAN_LIMIT_SECONDS;
        walk.arguments.extend(["-m".into(), "2048".into()]);
        walk.file(&guest_folder().join("init-systemd"), "/init-systemd")
            .kernel_argument("rdinit=/init-systemd")
    }

    /// Sets a variable of the script.
    pub(crate) fn variable(mut self, name: &str, value: impl std::fmt::Display) -> Walk {
        self.arguments.extend(["-e".into(), format!("{name}={value}")]);
        self
    }

    /// Puts a file into the guest.
    pub(crate) fn file(mut self, from: &Path, to: &str) -> Walk {
        self.arguments.extend(["-x".into(), format!("{}:{to}", from.display())]);
        self
    }

    /// Gives the guest one more virtio disk: vda, vdb, ...
    pub(crate) fn disk(mut self, file: &Path) -> Walk {
        self.arguments.extend(["-d".into(), file.display().to_string()]);
        self
    }

    /// Gives the guest an NVMe SSD with one more namespace on a file, which QEMU's nvme-ns gets with these options.
    pub(crate) fn ssd(mut self, file: impl std::fmt::Display, options: &str) -> Walk {
        self.arguments.extend(["-n".into(), format!("{file}{options}")]);
        self
    }

    /// Lets this machine reach a port of the guest: a line `forward ADDRESS` says where.
    pub(crate) fn forward(mut self, port: u16) -> Walk {
        self.arguments.extend(["-f".into(), port.to_string()]);
        self
    }

    /// Gives the guest end 1 or 2 of a link between two guests, whose sockets are in a folder of their own.
    pub(crate) fn link(mut self, sockets: &Scratch, end: u8) -> Walk {
        self.arguments.extend(["-l".into(), sockets.file(&end.to_string()).display().to_string()]);
        self.variable("LINK", end)
    }

    /// Adds to the kernel's command line.
    pub(crate) fn kernel_argument(mut self, argument: &str) -> Walk {
        self.arguments.extend(["-a".into(), argument.into()]);
        self
    }

    /// Gives the guest more than one CPU, and so more than one IO queue.
    pub(crate) fn processors(mut self, count: u32) -> Walk {
        self.arguments.extend(["-c".into(), count.to_string()]);
        self
    }

    /// Sets another time limit.
    pub(crate) fn limit(mut self, limit: Duration) -> Walk {
        self.limit_seconds = limit.as_secs() as u32;
        self
    }

    /// Boots the guest.
    pub(crate) fn start(self) -> Guest {
        let mut child = Command::new(guest_folder().join("guest.sh"))
            .args(["run", "-g", self.kernel.suite(), "-t", &self.limit_seconds.to_string()])
            .args(&self.arguments)
            .arg(&self.script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tests/guest/guest.sh is executable and bash is there");
        let (to, lines) = channel();
        forward_lines(child.stdout.take().expect("piped"), to.clone());
        forward_lines(child.stderr.take().expect("piped"), to);
        let name = format!("{:?} {}", self.kernel, self.script.file_stem().unwrap_or_default().display());
        Guest { name, child, lines, transcript: Vec::new() }
    }

    /// Boots the guest and waits until the walk has succeeded.
    pub(crate) fn run(self) {
        self.start().finish();
    }
}

/// A running guest. Dropping it ends it; a test that fails then prints what the guest has printed.
pub(crate) struct Guest {
    name: String,
    child: Child,
    lines: Receiver<String>,
    transcript: Vec<String>,
}

impl Guest {
    /// Reads until a line starts with `mark`, and returns the rest of that line.
    pub(crate) fn wait_for(&mut self, mark: &str) -> String {
        while let Ok(line) = self.lines.recv() {
            let rest = line.strip_prefix(mark).map(|rest| rest.trim().to_owned());
            self.transcript.push(line);
            if let Some(rest) = rest {
                return rest;
            }
        }
        let transcript = std::mem::take(&mut self.transcript).join("\n");
        panic!("{}: ended before it printed {mark:?}\n{transcript}", self.name);
    }

    /// Waits for the end of the walk. If it failed, panics with everything it printed: the failure first, because a log
    /// of a long run is often cut.
    pub(crate) fn finish(mut self) {
        self.transcript.extend(self.lines.iter());
        let status = self.child.wait().expect("our own child");
        let transcript = std::mem::take(&mut self.transcript);
        let failed =
            transcript.iter().filter(|line| line.starts_with("FAILED: ") || line.starts_with("unexpected: "));
        let failed = failed.map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(status.success(), "{}: {status}\n{failed}\n\n{}", self.name, transcript.join("\n"));
    }

    /// Ends the guest like a power failure, and returns its output so far.
    pub(crate) fn cut_off(mut self) -> Vec<String> {
        self.end();
        self.transcript.extend(self.lines.iter());
        std::mem::take(&mut self.transcript)
    }

    /// guest.sh ends its QEMU and removes its files on SIGTERM.
    fn end(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.end();
        }
        self.transcript.extend(self.lines.iter());
        if thread::panicking() && !self.transcript.is_empty() {
            eprintln!("{}, until the test failed:\n{}", self.name, self.transcript.join("\n"));
        }
    }
}

/// Compiles the program of `tests/guest/SOURCE` statically, so that it runs with any C library.
pub(crate) fn static_program(source: &str, scratch: &Scratch) -> PathBuf {
    let program = scratch.file(source.trim_end_matches(".c"));
    let compiled = Command::new("cc")
        .args(["-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(guest_folder().join(source))
        .status();
    assert!(compiled.expect("cc is there, as cargo needs it").success(), "{source} compiles");
    program
}

fn guest_folder() -> PathBuf {
    let mut folders =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/guest"));
    folders.find(|folder| folder.join("guest.sh").exists()).expect("it is in this repository")
}

fn forward_lines(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            // This fails if the receiver was dropped with its guest.
            let _ = to.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
}
