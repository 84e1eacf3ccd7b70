//! `make counts` and the phase "counts" of `make test`: instructions of deterministic work, against the saved counts.
//!
//! ```text
//!   counts                 counts everything and compares with counts.txt: fails if one differs by more than 2 %, three times in a row
//!   counts --keep          counts everything and writes counts.txt
//!   counts --profile NAME  leaves callgrind's files of one work, to see where its instructions are
//! ```
//!
//! `callgrind` runs this program once more, under valgrind, for each work of the list in `counts::works`; `kept` is the file.
//! docs/instruction-counts.md lists the counted work and the steps to take when a count changes.

mod callgrind;
mod kept;

use anyhow::{Context, Result, bail};
use clap::Parser;
use counts::{Work, works};
use kept::{Counts, Line, TOLERANCE_PERCENT};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The compiler that built this.
const COMPILER: &str = env!("COUNTS_COMPILER");

/// Maximum number of counts of a work before it is reported as changed: sometimes two threads meet in an unusual order.
const TRIES: u32 = 3;

/// The cost of one unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    instructions: u64,
    calls_tenths: u64,
}

/// Counts instructions with callgrind and compares them with those that are kept.
#[derive(Parser)]
#[command(name = "counts")]
struct Arguments {
    /// Where the counts are kept
    #[arg(long, value_name = "FILE", default_value = "crates/counts/counts.txt")]
    file: PathBuf,
    /// Write the file instead of comparing with it
    #[arg(long)]
    keep: bool,
    /// Only run this work under callgrind and leave its files for callgrind_annotate
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Where callgrind's files go
    #[arg(long, value_name = "FOLDER", default_value = "target/counts")]
    folder: PathBuf,
    /// Do this work, here and now, and measure nothing
    #[arg(long, value_name = "NAME", requires = "units")]
    work: Option<String>,
    /// How many units of it
    #[arg(long, value_name = "N")]
    units: Option<u32>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("counts: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let (Some(name), Some(units)) = (&arguments.work, arguments.units) {
        named(name)?.run(units);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &arguments.profile {
        let files = callgrind::profile(&named(name)?, &arguments.folder.join(name))?;
        for file in files {
            println!("callgrind_annotate --auto=no {}", file.display());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let works = works();
    let lines = count_all(&works, &arguments.folder)?;
    let mut found = Counts { compiler: COMPILER.to_owned(), lines };
    let file = &arguments.file;
    if arguments.keep {
        let text = found.to_text();
        fs::write(file, &text).with_context(|| format!("{}: cannot be written", file.display()))?;
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let kept = Counts::parse(&text).with_context(|| format!("{}", file.display()))?;
    let tries = if kept.compiler == COMPILER { TRIES } else { 1 };
    for _ in 1..tries {
        let again = works.iter().filter(|work| work.names().any(|name| !kept.allows(&found, &name)));
        found.replace(count_all(again, &arguments.folder)?);
    }
    let Some(complaint) = kept.complaint(&found) else {
        println!("{} counts, each within {TOLERANCE_PERCENT} % of {}", found.lines.len(), file.display());
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("counts: these are not within {TOLERANCE_PERCENT} % of {}:\n{complaint}", file.display());
    eprintln!("{}", advice(&kept.compiler));
    // With another compiler the counts say nothing about the change.
    Ok(if kept.compiler == COMPILER { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn advice(kept_with: &str) -> String {
    if kept_with != COMPILER {
        return format!(
            "ANOTHER COMPILER: NOT JUDGED. These counts cannot be compared.\n  kept with  {kept_with}\n  built with {COMPILER}\n\
             Build with the compiler that the file names to have them judged. To move to another one, run `make counts` before\n\
             any other change, and commit the file alone."
        );
    }
    "What is it that costs more? `target/release/counts --profile NAME` (NAME without .host, .target or .ssd) leaves callgrind's\n\
     files; run it on the commit before, too. If it is meant, or if a count shrank: run `make counts`, commit\n\
     the file with the change, and say in the commit what the instructions are spent on."
        .to_owned()
}

fn named(name: &str) -> Result<Work> {
    match works().into_iter().find(|work| work.name == name) {
        Some(work) => Ok(work),
        None => {
            let names: Vec<String> = works().into_iter().map(|work| work.name).collect();
            bail!("no work is called {name:?}; there are {}", names.join(", "))
        }
    }
}

/// Counts works, as many at a time as there are processors.
fn count_all<'w>(works: impl IntoIterator<Item = &'w Work>, folder: &Path) -> Result<Vec<Line>> {
    let works: Vec<&Work> = works.into_iter().collect();
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let count_some = || -> Result<()> {
        while let Some(work) = works.get(next.fetch_add(1, Ordering::Relaxed)) {
            let counts = callgrind::count(work, &folder.join(&work.name))?;
            let found = counts.into_iter().map(|(side, count)| Line {
                name: work.name_of(side),
                count,
                about: work.about.to_owned(),
            });
            lines.lock().expect("nobody panics with it").extend(found);
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(count_some)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("counting does not panic"))
    })?;
    let mut lines = lines.into_inner().expect("nobody panics with it");
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(lines)
}
