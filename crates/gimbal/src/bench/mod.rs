//! `gimbal bench`: the load generator as a command, and `gimbal bench ycsb`.

mod progress;
mod ycsb;

use crate::address::resolve;
use crate::host_keys::KeyFlags;
use crate::interrupt::Interrupt;
use crate::output;
use crate::transport_flag::TransportFlag;
use anyhow::{Context, Result};
use host::Backend;
use loadgen::{Collected, Flags, JobResult, Options, Results, Target, collect, run};
use progress::Progress;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use units::Nanos;

/// Generates load on a target over NVMe/TCP or NVMe/RDMA and measures bandwidth and latency. Works with any target: ours, Linux's, SPDK's.
///
/// Job options have fio's names and meaning; docs/bench.md lists them and says where they differ. For several tenants in one run,
/// use a fio job file, or one --job for each. Flags change every job of a file; a --job overrides flags.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// fio job files (INI): [global] and one section per tenant
    #[arg(value_name = "JOBFILE")]
    files: Vec<PathBuf>,
    /// Another way to give a job file
    #[arg(short, long, value_name = "JOBFILE")]
    config: Option<PathBuf>,
    /// One tenant, for example 'name=a,rw=randread,bs=4k,iodepth=32'; may be repeated
    #[arg(long = "job", value_name = "OPTIONS")]
    jobs: Vec<String>,
    /// Address of the target
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4420")]
    addr: String,
    #[command(flatten)]
    transport: TransportFlag,
    /// Run each job alone first and report f-Util = bandwidth / (bandwidth alone / number of jobs)
    #[arg(long)]
    standalone: bool,
    /// Number of threads; the jobs are divided among them
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
    #[command(flatten)]
    keys: KeyFlags,
    /// Kernel interface for the network
    #[arg(long, value_enum, default_value_t = BackendName::Auto)]
    backend: BackendName,
    /// Length of an interval of the time series
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = loadgen::time)]
    interval: Nanos,
    /// Write the results as JSON to this file (`-`: to standard output, instead of the table)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// Loads that are not fio's.
#[derive(clap::Subcommand)]
enum Other {
    /// Run the workloads of YCSB on RocksDB databases, on volumes or in local directories
    Ycsb(Box<ycsb::Args>),
}

const EXAMPLES: &str = "\
Examples:
  gimbal bench --rw randread --bs 4k --iodepth 32
  gimbal bench --rw write --bs 128k --iodepth 4 --size 1g --verify
  gimbal bench --rw randwrite --bssplit 4k/60:64k/40 --random_distribution zipf:1.1 --runtime 30 --time_based
  gimbal bench jobs.fio --runtime 60
  gimbal bench --standalone --job 'name=small,rw=randread,bs=4k,iodepth=32' --job 'name=large,rw=read,bs=128k,iodepth=4'";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendName {
    /// io_uring if the kernel allows it, else epoll
    Auto,
    /// io_uring
    #[value(name = "io_uring")]
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

/// Runs the command. The exit code is 0 if every IO succeeded, everything verified is right, and every job did IO.
pub(crate) fn run_command(args: Args) -> Result<ExitCode> {
    if let Some(Other::Ycsb(args)) = &args.other {
        return ycsb::run_command(args);
    }
    let settings = &args.flags.0;
    let files: Vec<PathBuf> = args.files.into_iter().chain(args.config).collect();
    let Collected { jobs, without_effect } = collect(settings, &files, &args.jobs)?;
    if !without_effect.is_empty() {
        output::note(format_args!(
            "these options have no effect over NVMe/TCP or NVMe/RDMA (see docs/bench.md): {}",
            without_effect.join(", ")
        ));
    }
    let target = Target {
        address: resolve(&args.addr, "--addr")?,
        transport: args.transport.get(),
        nqn: settings.get("nqn")?,
    };
    if let Some(path) = args.json.as_deref().filter(|path| !output::is_stdout(path)) {
        output::check_writable(path)?;
    }
    let options = Options {
        runtime: None,
        interval: args.interval.max(Nanos::millis(1)),
        threads: usize::from(args.threads),
        backend: args.backend.into(),
        standalone: args.standalone,
        header_digest: args.hdr_digest,
        data_digest: args.data_digest,
        credits: !args.no_credits,
        keys: args.keys.read()?,
        ..Options::default()
    };
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    let mut progress = Progress::new(&jobs, interrupt.clone());
    let results = run(&jobs, &target, &options, &mut progress);
    progress.finish();
    let results = results?;
    let is_good = results.is_clean() && results.jobs.iter().all(JobResult::did_something);
    for job in &results.jobs {
        for (direction, reached, least) in job.below_minimum() {
            output::note(format_args!(
                "job {}: {} reached {:.1} MB/s, less than the {:.1} MB/s of rate_min",
                job.job.name,
                direction.name(),
                reached / 1e6,
                least as f64 / 1e6
            ));
        }
    }
    let results = results.grouped();
    show(&results, args.json.as_deref())?;
    match results.fatal {
        Some(error) => Err(error).context("the run ended early; the results show what was done until then"),
        None if results.is_stopped => {
            output::note("interrupted: the results show what was done until then");
            Ok(interrupt.exit_code())
        }
        None if is_good => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::FAILURE),
    }
}

/// Prints the results, or writes them.
fn show(results: &Results, json: Option<&Path>) -> Result<()> {
    let Some(path) = json else { return output::line(loadgen::to_table(results)) };
    let text = serde_json::to_string_pretty(&loadgen::to_json(results))
        .context("cannot make JSON of the results")?;
    if output::is_stdout(path) {
        return output::line(text);
    }
    output::write_file(path, format!("{text}\n").as_bytes())?;
    output::line(loadgen::to_table(results))
}
