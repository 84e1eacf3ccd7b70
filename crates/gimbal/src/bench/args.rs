//! `gimbal bench` as a command.

use super::job::{self, JobSpec};
use super::progress::Progress;
use super::run::{Options, Target, run};
use super::{json, table};
use crate::output;
use anyhow::{Context, Result};
use host::Backend;
use quantity::Span;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use units::Nanos;

/// What a run lasts if nothing says otherwise.
const RUNTIME: Nanos = Nanos::secs(10);

/// Loads a target over NVMe/TCP and measures what comes back. Works with any target: ours, Linux's, SPDK's.
///
/// Several tenants in one run: a job file (-c jobs.toml), or one --job for each. Flags set what jobs do not say themselves.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the target listens
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4420")]
    addr: String,
    #[command(flatten)]
    job: JobSpec,
    /// Job file (TOML): [global] and one [[job]] per tenant
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One tenant, for example 'name=a,rw=randread,bs=4k,iodepth=32'; may be repeated
    #[arg(long = "job", value_name = "FIELDS")]
    jobs: Vec<String>,
    /// How long to measure [default: 10s; with --verify: until everything is written once]
    #[arg(long, value_name = "TIME")]
    runtime: Option<Span>,
    /// How long to run before measuring
    #[arg(long, value_name = "TIME", default_value = "0")]
    ramp_time: Span,
    /// Run each job alone first and report f-Util = bandwidth / (bandwidth alone / number of jobs)
    #[arg(long)]
    standalone: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads among which the jobs are divided
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Protect PDU headers with CRC32C
    #[arg(long)]
    hdr_digest: bool,
    /// Protect data with CRC32C
    #[arg(long)]
    data_digest: bool,
    /// Do not ask the target for credits
    #[arg(long)]
    no_credits: bool,
    /// How to talk to the kernel
    #[arg(long, value_enum, default_value_t = BackendName::Auto)]
    backend: BackendName,
    /// Length of an interval of the time series
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Span,
    /// Write the results as JSON (`-`: to standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  gimbal bench --rw randread --bs 4k --iodepth 32
  gimbal bench --rw write --bs 128k --iodepth 4 --size 1g --verify
  gimbal bench --standalone --job 'name=small,rw=randread,bs=4k,iodepth=32' --job 'name=large,rw=read,bs=128k,iodepth=4'";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendName {
    /// io_uring if the kernel allows it, else epoll
    Auto,
    /// io_uring
    IoUring,
    /// epoll
    Epoll,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Backend {
        match name {
            BackendName::Auto => Backend::Auto,
            BackendName::IoUring => Backend::IoUring,
            BackendName::Epoll => Backend::Epoll,
        }
    }
}

/// Runs the command. The exit code says whether every IO succeeded and everything verified is right.
pub(crate) fn run_command(args: Args) -> Result<ExitCode> {
    let jobs = job::collect(&args.job, args.config.as_deref(), &args.jobs)?;
    let target = Target { address: resolve(&args.addr)?, nqn: args.job.nqn.clone() };
    if let Some(path) = args.json.as_deref().filter(|path| !output::is_stdout(path)) {
        output::check_writable(path)?;
    }
    let verifies = jobs.iter().any(|job| job.verify);
    let options = Options {
        runtime: args.runtime.map(|span| span.0).or((!verifies).then_some(RUNTIME)),
        ramp: args.ramp_time.0,
        interval: args.interval.0.max(Nanos::millis(1)),
        seed: args.seed,
        threads: usize::from(args.threads),
        backend: args.backend.into(),
        standalone: args.standalone,
        header_digest: args.hdr_digest,
        data_digest: args.data_digest,
        credits: !args.no_credits,
        ..Options::default()
    };
    let mut progress = Progress::new(&jobs);
    let results = run(&jobs, &target, &options, &mut progress);
    progress.finish();
    let results = results?;
    match args.json.as_deref() {
        Some(path) => {
            let text =
                serde_json::to_string_pretty(&json::render(&results)).context("the results are no JSON")?;
            if output::is_stdout(path) {
                output::line(text)?;
            } else {
                output::write_file(path, format!("{text}\n").as_bytes())?;
                output::line(table::render(&results))?;
            }
        }
        None => output::line(table::render(&results))?,
    }
    Ok(if results.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn resolve(text: &str) -> Result<SocketAddr> {
    let mut addresses =
        text.to_socket_addrs().with_context(|| format!("`{text}` is no address; write HOST:PORT"))?;
    addresses.next().with_context(|| format!("`{text}` has no address"))
}
