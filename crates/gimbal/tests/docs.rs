//! Every command in README.md and docs/ is run, as it is shown or in a shorter form, so that no page shows a command
//! that does not work. Links are checked in `docs/links.rs`.
//!
//! `docs/commands.txt` has one entry for each command that is not run as it is shown: the command to run in its place,
//! or the reason to run none. All other commands are run as they are shown. The name of a command, like
//! `gimbal lab run`, must have a help. Targets of make must be in the Makefile, and packages of cargo in the workspace:
//! neither is built.

#[path = "docs/links.rs"]
mod links;
#[path = "docs/pages.rs"]
mod pages;
mod process;
#[path = "docs/shown.rs"]
mod shown;

use pages::{ROOT, pages, text};
use process::{Process, gimbal, serve};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

const ENTRIES: &str = include_str!("docs/commands.txt");

/// The way in which a command is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Run this command instead.
    Run(String),
    /// No command can be run here, for this reason.
    Excused(String),
}

/// The entries: a command as it is shown, and, indented, `run: …` or `not here: …`.
fn entries() -> BTreeMap<String, Way> {
    let lines: Vec<&str> =
        ENTRIES.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect();
    let entry = |pair: &[&str]| {
        let [shown, way] = pair else { panic!("an entry without a way: {pair:?}") };
        let way = match way.trim().split_once(": ") {
            Some(("run", command)) => Way::Run(command.to_owned()),
            Some(("not here", why)) => Way::Excused(why.to_owned()),
            _ => panic!("{shown}: no such way: {way:?}"),
        };
        ((*shown).to_owned(), way)
    };
    let all: BTreeMap<String, Way> = lines.chunks(2).map(entry).collect();
    assert_eq!(all.len() * 2, lines.len(), "a command has two entries");
    all
}

/// All commands, each once, with a page that shows it.
fn all_shown() -> BTreeMap<String, PathBuf> {
    pages()
        .into_iter()
        .flat_map(|page| shown::commands(&text(&page)).into_iter().map(move |shown| (shown, page.clone())))
        .collect()
}

/// A folder with the files that the pages mention.
fn folder(number: usize) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{number}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("my")).expect("a folder");
    let files = [
        ("crates/ssd/profiles/dct983.toml", "mine.toml"),
        ("calibrations/dct983.toml", "mine.calibration.toml"),
        ("calibrations/probed/consumer-slc.toml", "profile.toml"),
        ("examples/four-tenants.toml", "my/experiment.toml"),
        ("examples/gimbal.toml", "FILE"),
    ];
    for (from, to) in files {
        fs::copy(format!("{ROOT}/{from}"), folder.join(to)).expect("it is in the tree");
    }
    fs::write(folder.join("jobs.fio"), "[a]\nrw=randread\nbs=4k\n").expect("writable");
    std::os::unix::fs::symlink(format!("{ROOT}/examples"), folder.join("examples")).expect("a link");
    folder
}

fn run(command: &str, folder: &Path) -> Result<(), String> {
    let words = shown::words(command);
    // Missed goals are a valid result of a judge, and no failure of the command.
    let judges = words.get(2).is_some_and(|word| word == "judge");
    let said = |output: Output| {
        let is_verdict = judges && output.status.code() == Some(1) && output.stderr.is_empty();
        match output.status.success() || is_verdict {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let done = |command: &mut Command| said(command.current_dir(folder).output().expect("it can be started"));
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", ref arguments @ ..] => {
            done(Command::new("make").args(["--dry-run", "--directory", ROOT]).args(arguments))
        }
        ["cargo", ref arguments @ ..] => in_workspace(arguments),
        ["gimbal", "serve", ref arguments @ ..] => {
            Process::start(serve(arguments).current_dir(folder));
            Ok(())
        }
        // Runs against a target like the one that the page has started before.
        ["gimbal", "bench", ref arguments @ ..] if !arguments.contains(&"--help") => {
            let target = Process::start(
                serve(&["--device", "disk.img", "--create", "--size", "64m"]).current_dir(folder),
            );
            let address = target.address().to_string();
            done(gimbal().arg("bench").args(arguments).args(["--addr", &address]))
        }
        ["gimbal", ref arguments @ ..] => done(gimbal().args(arguments)),
        _ => Err("no program that can be run here: give a reason in docs/commands.txt".to_owned()),
    }
}

/// Whether the workspace has the packages, tests and examples that these arguments name.
fn in_workspace(arguments: &[&str]) -> Result<(), String> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(ROOT);
    let metadata = metadata.output().expect("cargo runs this test").stdout;
    let metadata: Value = serde_json::from_slice(&metadata).map_err(|error| error.to_string())?;
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let packages = list(&metadata, "packages");
    let named = |option: &str| -> Vec<&str> {
        arguments.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1]).collect()
    };
    let asked = named("-p");
    let find = |name: &&str| packages.iter().find(|package| package["name"] == **name);
    let absent = asked.iter().find(|name| find(name).is_none());
    let targets: Vec<Value> =
        asked.iter().filter_map(find).flat_map(|package| list(package, "targets")).collect();
    let has = |kind: &str, name: &str| {
        targets
            .iter()
            .any(|target| target["name"] == name && list(target, "kind").iter().any(|of| of == kind))
    };
    let missing = [("--test", "test"), ("--example", "example")]
        .into_iter()
        .flat_map(|(option, kind)| named(option).into_iter().map(move |name| (kind, name)))
        .find(|(kind, name)| !has(kind, name));
    match (absent, missing) {
        (Some(name), _) => Err(format!("the workspace has no package {name}")),
        (_, Some((kind, name))) => Err(format!("no {kind} is called {name}")),
        _ => Ok(()),
    }
}

/// Whether this is the name of a command of gimbal, which has a help.
fn is_name(command: &str) -> bool {
    let words = shown::words(command);
    let is_plain = |word: &String| word.chars().all(|of| of.is_ascii_lowercase());
    if words[0] != "gimbal" || !words.iter().all(is_plain) {
        return false;
    }
    let help = gimbal().args(&words[1..]).arg("--help").output().expect("the binary was built");
    let usage = format!("Usage: {} ", words.join(" "));
    help.status.success() && String::from_utf8_lossy(&help.stdout).contains(&usage)
}

#[test]
fn every_command_in_the_pages_runs() {
    let entries = entries();
    let mut tasks = Vec::new();
    for (shown, page) in all_shown() {
        match entries.get(&shown) {
            Some(Way::Run(command)) => tasks.push((shown, page, command.clone())),
            Some(Way::Excused(_)) => {}
            None if is_name(&shown) => {}
            None => tasks.push((shown.clone(), page, shown)),
        }
    }
    // Commands with the same shorter form are run once.
    let mut seen = BTreeSet::new();
    tasks.retain(|(.., command)| seen.insert(command.clone()));
    let (tasks, failed) = (Mutex::new(tasks.into_iter().enumerate()), Mutex::new(Vec::new()));
    let next = || tasks.lock().expect("no worker panics with it").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some((number, (shown, page, command))) = next() {
                    if let Err(why) = run(&command, &folder(number)) {
                        let page = page.file_name().expect("a page has a name").display().to_string();
                        let what = format!("{page} shows: {shown}\n  run: {command}\n  {}", why.trim_end());
                        failed.lock().expect("no worker panics with it").push(what);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no worker panics with it");
    assert!(failed.is_empty(), "{} commands fail:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_entry_is_of_a_command_in_the_pages() {
    let shown = all_shown();
    let stale: Vec<String> = entries().into_keys().filter(|entry| !shown.contains_key(entry)).collect();
    assert!(stale.is_empty(), "no page shows: {stale:#?}");
}
