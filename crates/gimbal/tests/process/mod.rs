//! `gimbal serve` in its own process, which ends with the test.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The path of the binary. Cargo does not give it to the tests of another package; these have it built next to their
/// folder.
pub fn binary() -> PathBuf {
    match option_env!("CARGO_BIN_EXE_gimbal") {
        Some(path) => path.into(),
        None => std::env::current_exe().expect("this test").with_file_name("../gimbal"),
    }
}

/// The binary under test.
pub fn gimbal() -> Command {
    let mut command = Command::new(binary());
    // Do not use the state or the admin socket of another target on this machine.
    command.env("STATE_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("run-{}-{run}", std::process::id());
    command.env("RUNTIME_DIRECTORY", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
    command
}

/// A target at a port that the system chooses.
pub fn serve(arguments: &[&str]) -> Command {
    let mut command = gimbal();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    command
}

/// A running target.
pub struct Process {
    child: Child,
    addresses: Vec<SocketAddr>,
}

impl Process {
    /// Starts the process, and returns once it has printed its address.
    pub fn start(command: &mut Command) -> Process {
        Process::start_at(command, 1)
    }

    /// As `start`, with this many addresses.
    pub fn start_at(command: &mut Command, addresses: usize) -> Process {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary was built");
        // From here on the process is killed on drop.
        let mut process = Process { child, addresses: Vec::new() };
        let mut stdout = BufReader::new(process.child.stdout.take().expect("piped"));
        for _ in 0..addresses {
            let mut line = String::new();
            stdout.read_line(&mut line).expect("readable");
            let address = line.trim().strip_prefix("listening on ");
            let address = address.unwrap_or_else(|| panic!("printed {line:?}"));
            process.addresses.push(address.parse().expect("an address"));
        }
        process
    }

    /// As `start`, and returns the log.
    pub fn start_with_log(command: &mut Command) -> (Process, Log) {
        let mut process = Process::start(command.stderr(Stdio::piped()));
        let stderr = process.child.stderr.take().expect("piped");
        (process, Log { stderr: BufReader::new(stderr), lines: Vec::new() })
    }

    /// As `start_with_log`, but with another stdout: returns at once, without an address.
    pub fn start_unheard(command: &mut Command) -> (Process, Log) {
        let child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built");
        let mut process = Process { child, addresses: Vec::new() };
        let stderr = process.child.stderr.take().expect("piped");
        (process, Log { stderr: BufReader::new(stderr), lines: Vec::new() })
    }

    /// The address on which the target listens; the first, if there are several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// All addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `-TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(sent.expect("kill(1) is everywhere").success());
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("our own child")
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("our own child");
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The log of a target.
pub struct Log {
    stderr: BufReader<ChildStderr>,
    lines: Vec<String>,
}

impl Log {
    /// Waits until a line contains `text`.
    pub fn await_line(&mut self, text: &str) {
        while !self.lines.last().is_some_and(|line| line.contains(text)) {
            assert!(self.read_line(), "the target ended without saying {text:?}:\n{}", self.lines.join("\n"));
        }
    }

    /// Waits until another line contains `text`, whatever the last one said.
    pub fn await_next(&mut self, text: &str) {
        assert!(self.read_line(), "the target ended without saying {text:?}:\n{}", self.lines.join("\n"));
        self.await_line(text);
    }

    /// Waits until the target has closed its log.
    pub fn await_end(&mut self) {
        while self.read_line() {}
    }

    /// The lines so far that contain `text`.
    pub fn saying(&self, text: &str) -> Vec<&str> {
        self.lines.iter().map(String::as_str).filter(|line| line.contains(text)).collect()
    }

    fn read_line(&mut self) -> bool {
        let mut line = String::new();
        let length = self.stderr.read_line(&mut line).expect("readable");
        self.lines.push(line);
        length > 0
    }
}
