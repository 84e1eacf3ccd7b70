//! Runs this program under callgrind, and reads its output.
//!
//! Counted are the instructions of this program itself, and its calls to other objects (the C library): the code of those objects
//! differs from machine to machine, and `memcpy` picks its code by the processor.
//!
//! callgrind writes one file for each thread. In it a line of costs belongs to the object and function that were named last
//! (`ob=`, `fn=`). A line `calls=` is followed by the costs of the call and all within it, which were counted where they arose.
//! Names are written once and then stand for themselves by number: `ob=(1) /path`, later `ob=(1)`.

use crate::Count;
use anyhow::{Context, Result, bail, ensure};
use counts::{Side, Work};
use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The cost of one unit of `work`, on each side: a run of twice as many units less a run, so that the work before and
/// after the units do not count.
pub(crate) fn count(work: &Work, folder: &Path) -> Result<Vec<(Side, Count)>> {
    let once = run(work, work.units, &folder.join("once"), &["--dump-line=no"])?;
    let twice = run(work, 2 * work.units, &folder.join("twice"), &["--dump-line=no"])?;
    let (once, twice) = (Threads::read(&once)?, Threads::read(&twice)?);
    let of_side = |side: &Side| {
        let (once, twice) = (once.of(*side), twice.of(*side));
        let units = u64::from(work.units);
        let more = |parts: u64, cost: fn(&Cost) -> u64| {
            let more = per_unit(parts, cost(&once), cost(&twice), units);
            more.with_context(|| format!("{}: twice the work took less: {once:?}, {twice:?}", work.name))
        };
        let instructions = more(1, |cost| cost.instructions)?;
        let calls_tenths = more(10, |cost| cost.calls)?;
        Ok((*side, Count { instructions, calls_tenths }))
    };
    work.sides.iter().map(of_side).collect()
}

/// The cost of one of `units` in `parts` of it, rounded; `None` where twice as many cost less by more than the rounding.
///
/// A unit may cost nothing, and the work before the units a call more or less: an allocator's, or the loader's.
fn per_unit(parts: u64, once: u64, twice: u64, units: u64) -> Option<u64> {
    let more = (parts * twice + units / 2).checked_sub(parts * once)?;
    Some(more / units)
}

/// Leaves what callgrind says of `work` in `folder`, by line, for callgrind_annotate: the files, by thread.
pub(crate) fn profile(work: &Work, folder: &Path) -> Result<Vec<PathBuf>> {
    run(work, 16 * work.units, folder, &["--dump-line=yes"])
}

fn run(work: &Work, units: u32, folder: &Path, options: &[&str]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    for file in files(folder)? {
        fs::remove_file(&file).with_context(|| format!("{}: cannot be removed", file.display()))?;
    }
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(folder.join("callgrind"));
    // A batch process does not interrupt another when it is woken. So the side that has just sent goes to sleep before the other
    // side runs, and finds its answer when it wakes up: on a busy machine it would find some of them a turn of its loop earlier.
    let output = Command::new("chrt")
        .args(["--batch", "0", "valgrind", "--tool=callgrind", "--separate-threads=yes", "--quiet"])
        .args(options)
        .arg(file)
        .arg(env::current_exe().context("this program cannot be found")?)
        .args(["--work", &work.name, "--units", &units.to_string()])
        // The same surroundings everywhere.
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .context("chrt cannot be run: tests/install-deps.sh installs it, and valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} under valgrind ended with {}: {said}", work.name, output.status);
    let files = files(folder)?;
    ensure!(!files.is_empty(), "{}: callgrind left nothing in {}: {said}", work.name, folder.display());
    Ok(files)
}

/// The files that callgrind wrote, first thread first.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || format!("{}: cannot be read", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        // The one without a number is empty: it would hold the sum.
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("callgrind-")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    instructions: u64,
    calls: u64,
    /// Whether it was in functions of an SSD's pipeline.
    is_of_ssd: bool,
    /// Whether it was in those of a volume.
    is_of_volume: bool,
}

/// Part of the names of functions that only the thread of an SSD runs.
const OF_SSD: &str = "server::pipeline::Pipeline";
/// The same for the thread of a volume.
const OF_VOLUME: &str = "blob::volume::mount::";

/// The cost of each thread of a run.
struct Threads(Vec<Cost>);

impl Threads {
    fn read(files: &[PathBuf]) -> Result<Threads> {
        let program = env::current_exe().context("this program cannot be found")?;
        let read = |file: &PathBuf| {
            let text =
                fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
            cost_of(&text, &program.to_string_lossy()).with_context(|| format!("{}", file.display()))
        };
        Ok(Threads(files.iter().map(read).collect::<Result<_>>()?))
    }

    fn of(&self, side: Side) -> Cost {
        let (host, target) = self.0.split_at(1);
        let counted = match side {
            Side::All | Side::Ssd => &self.0,
            Side::Host | Side::Caller => host,
            Side::Target | Side::Volume => target,
        };
        let counted = counted.iter().filter(|cost| match side {
            Side::Ssd => cost.is_of_ssd,
            Side::Volume => cost.is_of_volume,
            Side::All | Side::Host | Side::Target | Side::Caller => true,
        });
        counted.fold(Cost::default(), |sum, cost| Cost {
            instructions: sum.instructions + cost.instructions,
            calls: sum.calls + cost.calls,
            is_of_ssd: sum.is_of_ssd || cost.is_of_ssd,
            is_of_volume: sum.is_of_volume || cost.is_of_volume,
        })
    }
}

/// The cost of the object `program`, according to the file `text`.
fn cost_of(text: &str, program: &str) -> Result<Cost> {
    let (mut objects, mut functions) = (HashMap::new(), HashMap::new());
    let mut cost = Cost::default();
    let (mut is_ours, mut callee_is_ours) = (false, None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("ob=") {
            is_ours = name_of(name, &mut objects)? == program;
        } else if let Some(name) = line.strip_prefix("cob=") {
            callee_is_ours = Some(name_of(name, &mut objects)? == program);
        } else if let Some(name) = line.strip_prefix("fn=") {
            let name = name_of(name, &mut functions)?;
            cost.is_of_ssd |= name.contains(OF_SSD);
            cost.is_of_volume |= name.contains(OF_VOLUME);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            name_of(name, &mut functions)?;
        } else if let Some(call) = line.strip_prefix("calls=") {
            let times: u64 = number(call.split(' ').next())?;
            // A callee without an object is in that of the caller.
            if is_ours && callee_is_ours.take() == Some(false) {
                cost.calls += times;
            }
            callee_is_ours = None;
            ensure!(lines.next().is_some(), "a call has no costs");
        } else if is_ours && line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // A position, then instructions, unless there were none.
            if let Some(instructions) = line.split(' ').nth(1) {
                cost.instructions += number(Some(instructions))?;
            }
        }
    }
    ensure!(objects.values().any(|name| *name == program), "{program} is not in it");
    Ok(cost)
}

fn number(field: Option<&str>) -> Result<u64> {
    let number = field.and_then(|field| field.parse().ok());
    number.with_context(|| format!("{field:?} is no number"))
}

/// The name behind `(1) name`, or behind `(1)` once it is known.
fn name_of<'a>(field: &'a str, names: &mut HashMap<&'a str, &'a str>) -> Result<&'a str> {
    match field.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, name);
            Ok(name)
        }
        None => match names.get(field) {
            Some(name) => Ok(name),
            None => bail!("{field} was not named"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# callgrind format
version: 1
events: Ir
summary: 999

ob=(1) /bin/counts
fl=(1) ???
fn=(1) main
0 100
cob=(2) /lib/libc.so
cfn=(2) malloc
calls=3 0
0 300
cfn=(3) work
calls=5 0
0 500

fn=(3)
0 20
+1 5

ob=(2)
fn=(2)
0 60
cob=(1)
cfn=(3)
calls=1 0
0 7
totals: 185
";

    #[test]
    fn only_the_programs_own_instructions_count_and_its_calls_of_others() {
        assert_eq!(
            cost_of(FILE, "/bin/counts").unwrap(),
            Cost { instructions: 125, calls: 3, ..Cost::default() }
        );
        let of_libc = Cost { instructions: 60, calls: 1, ..Cost::default() };
        assert_eq!(cost_of(FILE, "/lib/libc.so").unwrap(), of_libc);
    }

    #[test]
    fn the_thread_of_an_ssd_is_known_by_what_it_runs() {
        let file =
            FILE.replace("work", "server::pipeline::turn::<impl server::pipeline::Pipeline>::take_turns");
        let other = cost_of(FILE, "/bin/counts").unwrap();
        let ssd = cost_of(&file, "/bin/counts").unwrap();
        let threads = Threads(vec![other, other, ssd]);
        assert_eq!(threads.of(Side::Ssd), ssd);
        assert_eq!(threads.of(Side::Target).instructions, 250);
    }

    #[test]
    fn one_call_less_around_the_units_is_none_of_theirs() {
        assert_eq!(per_unit(10, 1208, 1207, 1 << 14), Some(0));
        assert_eq!(per_unit(10, 1207, 1207 + (1 << 14), 1 << 14), Some(10));
        assert_eq!(per_unit(1, 6_000_000, 6_000_000 - (1 << 14), 1 << 14), None);
    }

    #[test]
    fn a_file_of_another_program_is_an_error() {
        assert!(cost_of(FILE, "/bin/other").is_err());
    }
}
