//! A server process: started on the server's core, measured, and ended on drop.

use crate::machine::{self, Cores, Used};
use crate::quota::Quota;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A null device, shared with every host.
const NULL_TARGET: &str = r#"
listen = ["127.0.0.1:0"]
[[device]]
name = "ssd"
kind = "null"
size = "1T"
[[subsystem]]
nqn = "nqn.2025-01.io.gimbal:ssd"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
device = "ssd"
"#;

/// The configuration in addition to a null device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings<'t> {
    /// Fields of the top level.
    pub(crate) top: &'t str,
    /// Tables.
    pub(crate) tables: &'t str,
}

/// The programs that are measured; they are in the folder of this program.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    gimbal: PathBuf,
    floor: PathBuf,
}

impl Programs {
    /// Finds them in the folder of this program.
    pub(crate) fn find() -> Result<Programs> {
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        let folder = own.parent().unwrap_or(Path::new("."));
        let programs = Programs { gimbal: folder.join("gimbal"), floor: folder.join("examples/floor") };
        for program in [&programs.gimbal, &programs.floor] {
            if !program.exists() {
                bail!("{} does not exist; `make bench` builds it", program.display());
            }
        }
        Ok(programs)
    }

    /// The floor on `backend`, which polls for `spin` before it sleeps.
    pub(crate) fn floor(&self, cores: Cores, backend: &str, spin: Duration) -> Result<Server> {
        Server::start(cores, Command::new(&self.floor).arg(backend).arg(spin.as_micros().to_string()))
    }

    /// `gimbal serve` with these arguments, on a port that the system chooses.
    pub(crate) fn target(&self, cores: Cores, arguments: &[&str]) -> Result<Server> {
        let mut command = Command::new(&self.gimbal);
        Server::start(
            cores,
            command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"]).args(arguments),
        )
    }

    /// `gimbal serve` with a null device for every host and `more` settings, from a configuration file in `folder`, which is removed
    /// when the target has read it.
    pub(crate) fn null_target_with(
        &self,
        cores: Cores,
        folder: &Path,
        more: &Settings<'_>,
    ) -> Result<Server> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join(format!("bench-{}.toml", std::process::id()));
        fs::write(&file, [more.top, NULL_TARGET, more.tables].concat())
            .with_context(|| format!("writing {}", file.display()))?;
        let server = file
            .to_str()
            .with_context(|| format!("the name of {} is not UTF-8", file.display()))
            .and_then(|name| self.target(cores, &["-c", name]));
        fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        server
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Its part of a CPU, if that is limited. Dropped after the process has ended.
    quota: Option<Quota>,
}

impl Server {
    fn start(cores: Cores, command: &mut Command) -> Result<Server> {
        let child = cores.start_server(|| command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn())?;
        let mut child = child.with_context(|| format!("cannot start {command:?}"))?;
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).context("cannot read the first line of a server")?;
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        match address {
            Some(address) => Ok(Server { child, address, quota: None }),
            None => {
                child.kill().ok();
                child.wait().ok();
                bail!("{command:?} printed {line:?} instead of the address that it listens on")
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, it gets only this many percent of a CPU.
    pub(crate) fn limit(&mut self, percent: u32) -> Result<()> {
        let quota = Quota::new(percent)?;
        quota.hold(self.child.id())?;
        self.quota = Some(quota);
        Ok(())
    }

    /// Fails if its limit has limited nothing.
    pub(crate) fn check_limit(&self) -> Result<()> {
        self.quota.as_ref().map_or(Ok(()), Quota::check_it_limits)
    }

    /// CPU time it has used.
    pub(crate) fn processor_time(&self) -> Result<Used> {
        machine::process_time(self.child.id())
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        machine::resident(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This fails if it has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
