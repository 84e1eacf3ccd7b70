//! `gimbal bench ycsb`: the workloads of YCSB on real RocksDB databases, on volumes or in local directories.
//!
//! ```text
//!   workload, places ─► per scheduler and policy: rack of our own ─► gimbal-ycsb (RocksDB, plug-in) ─► report
//! ```
//!
//! RocksDB is in a separate program (`driver`), so this command builds with cargo alone.

mod driver;
mod neighbours;
mod rack;
mod show;

use crate::beside::Beside;
use crate::interrupt::Interrupt;
use crate::output;
use crate::serve::{FlashCondition, Schedulers, speed};
use anyhow::{Context, Result, bail, ensure};
use blob::steer::Policy;
use driver::Driver;
use neighbours::Neighbours;
use rack::{Rack, Tenants};
use sched::Scheduler;
use server::config::Speed;
use show::Run;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use units::{Bytes, Nanos};
use ycsb::plan::{Place, Plan};
use ycsb::{Properties, Workload};

/// Runs a core workload of YCSB on several RocksDB databases at the same time, and measures throughput and latency.
///
/// The databases lie on volumes over targets that this command starts (--compare), on volumes of a rack (--uri), or in a local
/// directory (--dir); --compare and --dir may be combined. Needs the program gimbal-ycsb: `cargo build --release -p gimbal-ycsb`.
/// docs/ycsb.md describes the measurements.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A core workload of YCSB (A to F), or a property file
    #[arg(long, short = 'P', value_name = "A-F|FILE", default_value = "A")]
    workload: String,
    /// A property of YCSB, over those of the workload; may be repeated
    #[arg(long = "property", short = 'p', value_name = "KEY=VALUE")]
    properties: Vec<String>,
    /// Records of each database (the property recordcount)
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Operations on each database (the property operationcount); 0: until --runtime is over
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Measure for this long at most
    #[arg(long, value_name = "TIME")]
    runtime: Option<Nanos>,
    /// Carry the workload out for this long before measuring
    #[arg(long, value_name = "TIME", default_value = "0s")]
    ramp: Nanos,
    /// Bytes of a record, in fields of equal length (the property fieldlength)
    #[arg(long, value_name = "BYTES")]
    value_size: Option<Bytes>,
    /// Threads of each database
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Number of databases, with --compare and --dir
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    instances: u32,
    /// Where the choices of the workload come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start targets with each of these schedulers, and compare them
    #[arg(long, value_name = "SCHEDULER,...", value_delimiter = ',', value_parser = Schedulers)]
    compare: Vec<&'static Scheduler>,
    /// Which copy is read, with --compare: each of these is run; `primary` is without load balancing
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_value = "adaptive", value_parser = policy)]
    policy: Vec<&'static str>,
    /// A volume, as the plug-in takes it (gimbal://VOLUME?store=STORE); one for each database
    #[arg(long, value_name = "URI", conflicts_with_all = ["compare", "dir"])]
    uri: Vec<String>,
    /// A local directory, which gets a directory for each database
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
    /// Use databases that exist and are loaded, with --uri and --dir
    #[arg(long, conflicts_with = "compare")]
    no_load: bool,
    #[command(flatten)]
    ssds: Ssds,
    #[command(flatten)]
    beside: Beside,
    /// Sync each write
    #[arg(long)]
    sync: bool,
    /// RocksDB's options, as its option strings; the default is for small databases
    #[arg(long, value_name = "TEXT", default_value = OPTIONS)]
    db_options: String,
    /// Path of the program gimbal-ycsb [default: the variable GIMBAL_YCSB, else next to this program]
    #[arg(long, value_name = "FILE")]
    driver: Option<PathBuf>,
    /// Write the results as JSON to this file (`-`: to standard output, instead of the tables)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The targets of --compare.
#[derive(clap::Args)]
pub(super) struct Ssds {
    /// Targets to start, with an emulated SSD each
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=16))]
    targets: u32,
    /// Profile of the emulated SSDs
    #[arg(long, value_name = "NAME", default_value = "dct983")]
    profile: String,
    /// State of their flash at the start
    #[arg(long, value_enum, default_value = "fragmented")]
    condition: FlashCondition,
    /// Their speed relative to real ones; slower than one, so that they and not this machine's processors are the limit
    #[arg(long, default_value = "0.02", value_parser = speed)]
    speed: Speed,
    /// Their size; written data is kept in memory
    #[arg(long, value_name = "BYTES", default_value = "8G")]
    size: Bytes,
}

/// Small memtables and caches, so that a database of some hundred megabytes has several levels and most reads reach the
/// SSDs.
const OPTIONS: &str = "write_buffer_size=8M;target_file_size_base=8M;max_bytes_for_level_base=32M;compression=kNoCompression;\
block_based_table_factory={block_cache=8M;filter_policy=bloomfilter:10:false}";

const EXAMPLES: &str = "\
Examples:
  gimbal bench ycsb --workload B --records 10000 --runtime 20s --compare none,level --policy adaptive,primary
  gimbal bench ycsb --workload F --records 50000 --operations 20000 --dir /var/tmp/ycsb
  gimbal bench ycsb -P workloads/workloada -p recordcount=100000 --uri 'gimbal://a?store=S' --uri 'gimbal://b?store=S'";

fn policy(text: &str) -> Result<&'static str, String> {
    let found = Policy::ALL.iter().map(|(name, _)| *name).find(|name| *name == text);
    let names = || Policy::ALL.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("there is no such policy: there are {}", names()))
}

/// Runs the command. The exit code is 0 if no record was lost or damaged.
pub(crate) fn run_command(args: &Args) -> Result<ExitCode> {
    ensure!(
        !args.compare.is_empty() || !args.uri.is_empty() || args.dir.is_some(),
        "where are the databases? Give --compare SCHEDULER,… (targets of this command), --uri (volumes) or --dir"
    );
    ensure!(
        !args.beside.is_given() || !args.compare.is_empty(),
        "--neighbour and --objective are for the targets of this command: give --compare SCHEDULER,…, too"
    );
    let (properties, workload) = workload(args)?;
    ensure!(
        workload.operations > 0 || args.runtime.is_some(),
        "the run would not end: give --operations or --runtime"
    );
    let works = args.beside.neighbours();
    let tenants = Tenants {
        databases: args.instances,
        objective: args.beside.objective()?,
        neighbours: u32::try_from(works.len()).context("--neighbour: there are too many")?,
    };
    let driver = Driver::find(args.driver.as_deref())?;
    if let Some(path) = args.json.as_deref().filter(|path| !output::is_stdout(path)) {
        output::check_writable(path)?;
    }
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    let mut runs = Vec::new();
    if let Some(dir) = &args.dir {
        let plan = plan(args, &properties, in_directory(dir, args.instances)?);
        runs.push(Run::new("local directory", "", driver.run(&plan, "local directory", &interrupt, || ())?));
    }
    if !args.uri.is_empty() {
        let places = args.uri.iter().zip(1..).map(|(uri, number)| on_volume(number, uri.clone()));
        let plan = plan(args, &properties, places.collect());
        runs.push(Run::new("volumes", "", driver.run(&plan, "volumes", &interrupt, || ())?));
    }
    for scheduler in &args.compare {
        for policy in args.policy.iter().filter(|_| !interrupt.is_set()) {
            let title = format!("{}, reads by {policy}", scheduler.name);
            let run = || -> Result<_> {
                let rack = Rack::start(&args.ssds, scheduler, &tenants)?;
                let places = (1..=args.instances).map(|number| on_volume(number, rack.uri(number, policy)));
                let plan = plan(args, &properties, places.collect());
                let mut neighbours = None;
                let report = driver.run(&plan, &title, &interrupt, || {
                    if !works.is_empty() {
                        neighbours = Some(Neighbours::start(works, rack.addresses(), args.ramp));
                    }
                })?;
                let done = neighbours.map(Neighbours::end).transpose()?.unwrap_or_default();
                rack.end()?;
                Ok(Run::beside(scheduler.name, policy, report, done))
            };
            runs.push(run().with_context(|| format!("the run with {title}"))?);
        }
    }
    show::show(&runs, &properties, args.json.as_deref())?;
    if interrupt.is_set() {
        output::note("interrupted: the results show what was done until then");
        return Ok(interrupt.exit_code());
    }
    Ok(verdict(&runs, &workload))
}

/// The workload, and its properties in the form that the driver reads.
fn workload(args: &Args) -> Result<(Properties, Workload)> {
    let mut properties = match args.workload.as_bytes() {
        [name] => Properties::core(char::from(*name))?,
        _ => {
            let path = Path::new(&args.workload);
            let about = || format!("the workload {}", path.display());
            let file = File::open(path).with_context(about)?;
            let mut properties = Properties::default();
            properties.add(file).with_context(about)?;
            properties
        }
    };
    for (key, value) in [("recordcount", args.records), ("operationcount", args.operations)] {
        if let Some(value) = value {
            properties.put(key, value);
        }
    }
    if args.operations.is_none() && args.runtime.is_some() {
        // No limit of operations: the run ends after --runtime.
        properties.put("operationcount", 0);
    }
    args.properties.iter().try_for_each(|text| properties.set(text))?;
    if let Some(size) = args.value_size {
        let fields = Workload::new(&properties)?.fields;
        let length = size.0 / u64::from(fields);
        ensure!(
            length > 0 && length * u64::from(fields) == size.0,
            "--value-size {size}: the {fields} fields of a record cannot all have the same length; change one of them, or -p fieldcount=1"
        );
        properties.put("fieldlength", length);
    }
    let workload = Workload::new(&properties)?;
    let unknown = Workload::unknown(&properties);
    if !unknown.is_empty() {
        output::note(format_args!(
            "these properties have no effect here (docs/ycsb.md): {}",
            unknown.join(", ")
        ));
    }
    Ok((properties, workload))
}

fn plan(args: &Args, properties: &Properties, places: Vec<Place>) -> Plan {
    let text = |name: &str| (name.to_owned(), properties.text(name).unwrap_or_default().to_owned());
    let millis = |span: Nanos| span.get() / 1_000_000;
    Plan {
        places,
        properties: properties.names().map(text).collect(),
        threads: args.threads,
        seed: args.seed,
        options: args.db_options.clone(),
        is_synced: args.sync,
        is_loaded: !args.no_load,
        runtime: args.runtime.map(millis),
        ramp: millis(args.ramp),
    }
}

fn on_volume(number: u32, uri: String) -> Place {
    Place { name: database(number), uri: Some(uri), path: "/ycsb".to_owned() }
}

fn in_directory(dir: &Path, instances: u32) -> Result<Vec<Place>> {
    let place = |number| {
        let path = dir.join(database(number)).into_os_string().into_string();
        let Ok(path) = path else { bail!("--dir: {} is not UTF-8, as RocksDB needs it", dir.display()) };
        Ok(Place { name: database(number), uri: None, path })
    };
    (1..=instances).map(place).collect()
}

/// Name of a database and of its volume.
fn database(number: u32) -> String {
    format!("db-{number}")
}

/// Fails if records were lost or damaged. A workload on a part of the records may ask for records that were never
/// loaded; their absence is no failure.
fn verdict(runs: &[Run], workload: &Workload) -> ExitCode {
    let (missing, wrong) = runs.iter().fold((0, 0), |(missing, wrong), run| {
        (missing + run.report.total.missing, wrong + run.report.total.wrong)
    });
    if wrong > 0 {
        output::note(format_args!("{wrong} records were not as they were written"));
    }
    if missing > 0 {
        output::note(format_args!("{missing} records were asked for and not found"));
    }
    let is_whole = workload.insert_count == workload.records;
    if wrong > 0 || (missing > 0 && is_whole) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
