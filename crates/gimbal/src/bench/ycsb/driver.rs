//! Finds the program that drives RocksDB, and carries out a run with it, showing the progress. The protocol is
//! `ycsb::plan`.
//!
//! On a signal, the program's standard input is closed. The program then ends the run early and reports the operations
//! done until then.

use crate::interrupt::Interrupt;
use anyhow::{Context, Result, anyhow, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;
use ycsb::plan::{Message, Phase, Plan, Report};

const NAME: &str = "gimbal-ycsb";
const VARIABLE: &str = "GIMBAL_YCSB";

/// The program.
pub(super) struct Driver(PathBuf);

impl Driver {
    /// Finds the program: the path of the flag, else of the variable, else next to this program.
    pub(super) fn find(flag: Option<&Path>) -> Result<Driver> {
        let named = flag.map(Path::to_owned).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
        let path = match named {
            Some(path) => path,
            None => env::current_exe().context("where this program lies")?.with_file_name(NAME),
        };
        ensure!(
            path.is_file(),
            "the program {NAME}, which drives RocksDB, is not at {}: build it with `cargo build --release -p {NAME}` (needs \
             librocksdb-dev, pkg-config and a C++ compiler), or say where it is with --driver or {VARIABLE}",
            path.display()
        );
        Ok(Driver(path))
    }

    /// Carries out a plan. `on_operations` is called once the databases are loaded and their operations begin.
    pub(super) fn run(
        &self,
        plan: &Plan,
        title: &str,
        interrupt: &Interrupt,
        on_operations: impl FnOnce(),
    ) -> Result<Report> {
        let about = || format!("{} cannot be started", self.0.display());
        // In its own process group, so that control-C reaches only this program.
        let mut child = Command::new(&self.0)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(about)?;
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut running = Running { child, input: Some(input), bar: Bar::new(title) };
        let mut line = serde_json::to_string(plan).context("the plan as JSON")?;
        line.push('\n');
        // An error means that the program has ended already; its output gives the reason.
        let _ = running.input.as_mut().expect("open until the end").write_all(line.as_bytes());
        let mut on_operations = Some(on_operations);
        for line in output.lines() {
            let line = line.context("what the driver says")?;
            let message = serde_json::from_str(&line)
                .map_err(|error| anyhow!("the driver says what is no message ({error}): {line}"))?;
            match message {
                Message::Progress { phase, done, of } => {
                    if matches!(phase, Phase::Ramp | Phase::Running)
                        && let Some(begin) = on_operations.take()
                    {
                        begin();
                    }
                    running.bar.show(phase, done, of);
                }
                Message::Report(report) => return Ok(*report),
                Message::Failed(why) => bail!(why),
            }
            if interrupt.is_set() {
                running.input = None;
            }
        }
        let status = running.child.wait().context("the driver's end")?;
        bail!("{} has ended without a report: {status}", self.0.display())
    }
}

/// The program while it runs.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    bar: Bar,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.bar.0.finish_and_clear();
        self.input = None;
        // It closes its databases and unmounts their volumes.
        let _ = self.child.wait();
    }
}

/// Progress bar; hidden if there is no terminal.
struct Bar(ProgressBar, Option<(Phase, Instant)>);

impl Bar {
    fn new(title: &str) -> Bar {
        let style = ProgressStyle::with_template("{prefix}: {msg}").expect("the template is a constant");
        let bar = ProgressBar::new_spinner().with_style(style).with_prefix(title.to_owned());
        Bar(bar, None)
    }

    fn show(&mut self, phase: Phase, done: u64, of: Option<u64>) {
        let begun = match self.1 {
            Some((same, begun)) if same == phase => begun,
            _ => {
                self.1 = Some((phase, Instant::now()));
                Instant::now()
            }
        };
        let what = match phase {
            Phase::Opening => "opening databases",
            Phase::Loading => "loading records",
            Phase::Ramp => "operations, not measured yet",
            Phase::Running => "operations",
        };
        let of = of.map_or(String::new(), |of| format!(" of {of}"));
        self.0.set_message(format!("{what} {done}{of}, {} s", begun.elapsed().as_secs()));
        self.0.tick();
    }
}
