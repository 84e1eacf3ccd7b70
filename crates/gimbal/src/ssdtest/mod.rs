//! `gimbal ssdtest`: measures from the outside the performance of an SSD, and writes it as a device profile.
//!
//! ```text
//!  DEVICE ─► tested: simulated, local, remote ─► guard ─► Prober (crate probe) ─► profile.toml, report.html, loads.csv, summary
//!                                                    │ after each task
//!                                                 journal.jsonl ──► --resume
//! ```
//!
//! Holds: nothing is written before the checks, and before the announcement of the writes (`tests/ssdtest.rs`).
//! Elsewhere: the crate `probe` decides which IOs are done (docs/probe.md).

mod contents;
mod guard;
mod journal;
mod local;
mod name;
mod plots;
mod progress;
mod real;
mod remote;
mod report;
mod signature;
mod simulated;
mod stop;
mod summary;
mod tested;
mod watch;

use crate::host_keys::KeyFlags;
use crate::output;
use anyhow::{Context, Result, bail};
use journal::{Begin, Journal};
use name::DeviceName;
use probe::{Config, Prober, Profile, drive};
use progress::Progress;
use server::LocalOptions;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stop::{Interrupted, Stop};
use tested::{Facts, Storage, Tested};
use units::{Bytes, Nanos};

/// Granularity of sizes: the smallest IO.
const BLOCK: u64 = 4096;

/// Probes an SSD from the outside: limits, write buffer and its recovery, interference, latency against load. DESTROYS ITS DATA.
///
/// Without --read-only, everything on DEVICE is overwritten. A device that is in use or carries a file system, a
/// partition table or a similar structure is refused. The result is a device profile (TOML) in the folder that --out
/// names.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A block device, a file, nvme://HOST:PORT/NQN[/NSID], or simulated:PROFILE (a built-in SSD or the path of a TOML file)
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Less than two minutes of device time, at most 64 GiB of writes; otherwise at most an hour and 1 TiB
    #[arg(long)]
    quick: bool,
    /// Write nothing; measures nothing about writes
    #[arg(long)]
    read_only: bool,
    /// Probe the device although it is in use or has contents; they are destroyed
    #[arg(long)]
    force: bool,
    /// Use only this much, from the beginning of the device; a file that does not exist is created with this size, and
    /// stays
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Write at most this much
    #[arg(long, value_name = "SIZE", conflicts_with = "read_only")]
    writes: Option<Bytes>,
    /// Keep the device busy for at most this long
    #[arg(long, value_name = "TIME")]
    time: Option<Nanos>,
    /// NQN of this host, for targets
    #[arg(long, value_name = "NQN", default_value = "nqn.2025-01.io.gimbal:ssdtest")]
    host_nqn: String,
    #[command(flatten)]
    keys: KeyFlags,
    /// Folder for the results [default: ssdtest-DEVICE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Continue an interrupted probe; needs the options of its start
    #[arg(long)]
    resume: bool,
}

const EXAMPLES: &str = "\
Examples:
  gimbal ssdtest simulated:consumer-slc --quick          (virtual time, nothing real is touched)
  gimbal ssdtest /dev/nvme0n1 --quick                    (destroys what is on it)
  gimbal ssdtest /dev/nvme0n1 --read-only
  gimbal ssdtest /mnt/disk/probe.bin --size 8G --quick   (through a file system)
  gimbal ssdtest nvme://10.0.0.5:4420/nqn.2025-01.io.gimbal:ssd --quick
  gimbal ssdtest nvme+rdma://10.0.0.5:4420/nqn.2025-01.io.gimbal:ssd --quick

Signals:
  SIGTERM, SIGINT, SIGHUP  stop; what was found is kept, and --resume continues; a second signal, a second later, stops at once";

/// The files with the results.
struct Files {
    profile: PathBuf,
    report: PathBuf,
    /// Latency against load, for spreadsheets.
    loads: PathBuf,
    journal: PathBuf,
}

impl Files {
    /// Creates the folder, and checks that the files can be written.
    fn prepare(folder: &Path) -> Result<Files> {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let files = Files {
            profile: folder.join("profile.toml"),
            report: folder.join("report.html"),
            loads: folder.join("loads.csv"),
            journal: folder.join("journal.jsonl"),
        };
        for file in [&files.profile, &files.report, &files.loads] {
            output::check_writable(file)?;
        }
        Ok(files)
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let name: DeviceName = args.device.parse()?;
    let stop = Stop::on_signals()?;
    let create = args.size.filter(|_| !args.read_only);
    let options = LocalOptions { force: args.force, read_only: args.read_only, create };
    if let Some(size) = args.size {
        // Checked before a file is created.
        configuration(&args, size, BLOCK as u32)?;
    }
    let (mut device, facts) = Tested::open(&name, options, (&args.host_nqn, args.keys.read()?), &stop)?;
    let config = configuration(&args, facts.size.min(args.size.unwrap_or(facts.size)), facts.block_size)?;
    if args.size.is_some_and(|size| size > facts.size) {
        bail!("{}: has only {}, less than --size", name.shown(), facts.size);
    }
    if let Some(real) = device.as_real()
        && config.writes()
        && let Some(contents) = guard::contents(real, &facts)?
    {
        if !args.force {
            bail!("{}: {contents}, which this would destroy; to overwrite it: --force", name.shown());
        }
        output::note(format_args!("{}: {contents}, which is destroyed now, as --force says", name.shown()));
    }
    let folder = args.out.clone().unwrap_or_else(|| name.folder());
    let files = Files::prepare(&folder)?;
    let begin = Begin::new(facts.identity.clone(), config.clone());
    let (journal, mut prober) = if args.resume {
        let (journal, entries) = Journal::resume(&files.journal, &begin)?;
        (
            journal,
            Prober::resume(config.clone(), entries).with_context(|| files.journal.display().to_string())?,
        )
    } else {
        (Journal::create(&files.journal, begin)?, Prober::new(config.clone())?)
    };
    announce(&name, &facts, &config);
    let outcome = probe(&mut prober, &mut device, journal, &config, &facts);
    if let Err(error) = outcome {
        let done = prober.journal().len();
        let again = format!(
            "{done} tasks are done and kept in {}; the same command with --resume continues",
            files.journal.display()
        );
        if error.is::<Interrupted>() {
            output::note(format_args!("interrupted: {again}"));
            return Ok(stop.exit_code());
        }
        return Err(error.context(format!("{}: the probe ended early ({again})", name.shown())));
    }
    let notes = outcome.expect("an error has returned");
    let mut profile = prober.profile().expect("the probe is finished").clone();
    profile.device.name = name.shown();
    profile.device.notes.splice(0..0, notes);
    if let Some(metrics) = &mut profile.metrics
        && config.writes()
        && !args.resume
    {
        // After a continuation, the device only knows the writes since then.
        metrics.write_amplification = device.write_amplification().map(|share| (share * 1e3).round() / 1e3);
    }
    show(&profile, &files, args.json)
}

/// The configuration of the probe that the user asks for.
fn configuration(args: &Args, size: Bytes, block_size: u32) -> Result<Config> {
    let size = Bytes(size.get() / BLOCK * BLOCK);
    let mut config =
        if args.quick { Config::quick(size, block_size) } else { Config::thorough(size, block_size) };
    if args.read_only {
        config = config.read_only();
    }
    if let Some(most) = args.writes {
        config = config.with_writes_most(most);
    }
    if let Some(most) = args.time {
        config = config.with_time_most(most);
    }
    config.check().with_context(|| format!("{} cannot be probed", args.device))?;
    Ok(config)
}

/// Announces the probe, before it starts.
fn announce(name: &DeviceName, facts: &Facts, config: &Config) {
    let name = name.shown();
    output::note(format_args!("{name}: {}", facts.about));
    output::note(format_args!("this probe {config}"));
    if facts.storage == Storage::None || !config.writes() {
        return;
    }
    if facts.needs_filling() {
        output::note(format_args!(
            "before, {} of the file are written once, as parts of it were never written",
            config.size()
        ));
    }
    output::note(format_args!("ALL DATA ON {name} IS DESTROYED"));
}

/// Runs the probe to its end. Returns notes for the reader of the figures.
fn probe(
    prober: &mut Prober,
    device: &mut Tested,
    mut journal: Journal,
    config: &Config,
    facts: &Facts,
) -> Result<Vec<String>> {
    let progress = Progress::new(config);
    let mut notes = facts.notes.clone();
    if let Some(real) = device.as_real() {
        if config.writes() && facts.needs_filling() {
            let size = config.size().get();
            real.fill(size, |bytes| progress.on_filled(bytes, size))?;
        } else {
            notes.extend(guard::unwritten(real, facts)?);
        }
    }
    drive(prober, device, |prober, now| {
        journal.keep(prober.journal())?;
        if prober.profile().is_none() {
            progress.on_task(&now);
        }
        Ok(())
    })?;
    journal.end()?;
    Ok(notes)
}

/// Writes the files, and prints the result.
fn show(profile: &Profile, files: &Files, json: bool) -> Result<ExitCode> {
    output::write_file(&files.profile, profile.to_toml().as_bytes())?;
    output::write_file(&files.report, report::page(profile).as_bytes())?;
    output::write_file(&files.loads, report::loads(profile).as_bytes())?;
    if json {
        output::line(summary::json(profile, files)?)?;
    } else {
        output::line(summary::table(profile))?;
        output::line(format_args!("device profile: {}", files.profile.display()))?;
        output::line(format_args!("report: {}", files.report.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
