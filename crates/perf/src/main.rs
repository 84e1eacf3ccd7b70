//! `make bench`: what the switch costs on this machine, compared with goals.
//!
//! A machine may be fast or slow, busy or idle, so figures of two days cannot be compared. So every measure is a ratio (or a cost in
//! CPU time), and both sides of a ratio are measured in turns in one run. The report says when the machine was too noisy.
//!
//! ```text
//!   wire         the target, compared with a floor that only moves bytes       contest · server · client · stream · bringup
//!   remote       connection and SSD on two threads, compared with one thread
//!   limited      the target and the floor with less than a CPU                 quota
//!   secured      proofs of identity, and TLS, compared with neither
//!   digest       data digests, compared with what CRC32C leaves
//!   accuracy     an emulated SSD, compared with the model in virtual time      open_loop
//!   file         the target on a file, compared with fio on the same file
//!   decision     the scheduler alone
//!   simulated    the SSD model alone
//!   idle         the cost of idle connections
//!   scraped      the cost of a scrape of all metrics every second
//!   withdrawal   the cost of hosts that disconnect
//!   report       table and target/bench.jsonl                                  measure · rounds
//!   machine      cores, CPU time, load by others
//! ```
//!
//! Explanation of the table and of each line: `docs/benchmarks.md`.

mod accuracy;
mod bringup;
mod client;
mod contest;
mod decision;
mod digest;
mod file;
mod idle;
mod limited;
mod machine;
mod measure;
mod open_loop;
mod quota;
mod remote;
mod report;
mod rounds;
mod scraped;
mod secured;
mod server;
mod simulated;
mod stream;
mod wire;
mod withdrawal;

use anyhow::{Result, ensure};
use clap::Parser;
use machine::{Cores, Watch};
use measure::{Bench, Measure};
use report::Entry;
use server::Programs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// All measures, in the order of the table.
const MEASURES: [&Measure; 22] = [
    &wire::CPU_PER_READ,
    &wire::RTT,
    &wire::CONNECTIONS,
    &wire::BULK_READ,
    &wire::BULK_WRITE,
    &wire::POLICY_COST,
    &digest::DIGEST_COST,
    &secured::TLS,
    &secured::AUTH_CONNECT,
    &limited::LIMITED,
    &remote::REMOTE_COST,
    &remote::SSD_THREAD,
    &remote::REMOTE_RTT,
    &decision::DECISION,
    &simulated::READS,
    &accuracy::ACCURACY,
    &file::FILE_VS_RAW,
    &file::DIRECTORY_VS_FILE,
    &idle::IDLE_CPU,
    &idle::MEM_PER_CONNECTION,
    &scraped::SCRAPE,
    &withdrawal::WITHDRAWAL,
];

/// Measures what the switch costs on this machine. Prints a table, and writes a file with one JSON object per line.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Run only measures whose name contains NAME; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Number of turns of each contestant
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Length of a turn, in seconds
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// File for the JSON lines
    #[arg(long, value_name = "FILE", default_value = "target/bench.jsonl")]
    json: PathBuf,
    /// List all measures and exit
    #[arg(long)]
    list: bool,
    /// Exit with status 1 if a goal is missed or a measure fails
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let wanted = |measure: &&&Measure| {
        let named = |only: &String| measure.lines.iter().any(|line| line.name.contains(only.as_str()));
        arguments.only.is_empty() || arguments.only.iter().any(named)
    };
    let measures: Vec<&Measure> = MEASURES.iter().filter(wanted).copied().collect();
    ensure!(!measures.is_empty(), "no measure is named {}; --list shows all", arguments.only.join(", "));
    if arguments.list {
        for measure in measures {
            println!("{:45} {}", measure.names(), measure.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(arguments.seconds.is_finite() && arguments.seconds >= 0.01, "--seconds must be at least 0.01");
    let bench = Bench {
        cores: Cores::choose()?,
        programs: Programs::find()?,
        rounds: usize::from(arguments.rounds),
        span: Duration::from_secs_f64(arguments.seconds),
        folder: arguments.json.parent().unwrap_or(Path::new("")).to_owned(),
    };
    bench.cores.pin_client()?;
    machine::allow_many_sockets()?;
    let Cores { client, server, .. } = bench.cores;
    eprintln!("client on CPU {client}, servers on CPU {server}");
    if client == server {
        eprintln!("only one CPU may be used: client and server share it, so latencies mean little");
    }
    let mut entries = Vec::new();
    for (number, measure) in measures.iter().enumerate() {
        eprint!("{:2}/{} {}: {} ... ", number + 1, measures.len(), measure.names(), measure.about);
        let began = Instant::now();
        entries.extend(measured(measure, &bench)?);
        eprintln!("{:.0} s", began.elapsed().as_secs_f64());
    }
    report::write(&arguments.json, &entries)?;
    println!("{}", report::table(&entries));
    let failed = entries.iter().any(|entry| entry.holds() != Some(true));
    Ok(if arguments.check && failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs a measure, and records the load by others. A measure that fails does not stop the others.
fn measured(measure: &Measure, bench: &Bench) -> Result<Vec<Entry>> {
    let watch = Watch::start()?;
    let outcome = (measure.run)(bench);
    let others = watch.others()?;
    let found: Vec<_> = match outcome {
        Ok(readings) => readings.into_iter().map(Ok).collect(),
        Err(error) => measure.lines.iter().map(|_| Err(format!("{error:#}"))).collect(),
    };
    assert_eq!(found.len(), measure.lines.len(), "{} lines of {}", found.len(), measure.names());
    let entry = |(&line, found)| Entry { line, found, others, disturbed: measure.disturbed };
    Ok(measure.lines.iter().zip(found).map(entry).collect())
}
