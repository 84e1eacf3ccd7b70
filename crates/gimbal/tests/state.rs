//! `gimbal state` says of a directory what a start says, and changes nothing.

mod process;

use process::{Process, gimbal, serve};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn state(command: &[&str], directory: &Path) -> Output {
    gimbal()
        .arg("state")
        .args(command)
        .arg("--state-dir")
        .arg(directory)
        .output()
        .expect("the binary was built")
}

/// The only line on stderr of a command that must fail.
fn sentence(output: Output) -> String {
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    said.trim().to_owned()
}

fn everything_in(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("ours") {
            let path = entry.expect("ours").path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((path.clone(), fs::read(path).expect("ours"))),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_check_finds_what_a_start_finds_and_changes_nothing() {
    let directory = fresh("state-check");
    let absent = state(&["check"], &directory);
    assert!(absent.status.success() && !directory.exists(), "{absent:?}");

    let name = directory.to_str().expect("text");
    let flags = ["--log", "warn", "--device", "null", "--state-dir", name];
    let mut target = Process::start(&mut serve(&flags));
    let running = everything_in(&directory);
    let said = String::from_utf8(state(&["check"], &directory).stdout).expect("text");
    assert!(said.contains("valid (version 2, reservations of 0 namespaces"), "{said}");
    assert_eq!(everything_in(&directory), running);
    target.signal("-TERM");
    assert!(target.wait().success());

    fs::write(directory.join("VERSION"), "gimbal-state 3\nwritten by gimbal 7.0.0\n").expect("ours");
    let before = everything_in(&directory);
    let checked = sentence(state(&["check"], &directory));
    let started = sentence(serve(&flags).output().expect("the binary was built"));
    assert!(checked.contains("has version 3, written by gimbal 7.0.0"), "{checked}");
    assert_eq!(started, format!("gimbal: {checked}"));
    assert_eq!(everything_in(&directory), before);
}

#[test]
fn every_damaged_file_is_named_and_the_rest_is_shown() {
    let directory = fresh("state-damaged");
    for folder in ["reservations", "logs", "wipes", "learnt"] {
        fs::create_dir_all(directory.join(folder)).expect("cargo's folder is writable");
    }
    fs::write(directory.join("reservations/a.json"), "gimbal-res").expect("ours");
    fs::write(directory.join("logs/b.toml"), "ssd = ").expect("ours");
    fs::write(directory.join("learnt/c.toml"), "").expect("ours");
    fs::write(directory.join("wipes/d.json"), "gimbal-wipes").expect("ours");
    let shown = state(&["show", "--json"], &directory);
    assert_eq!(shown.status.code(), Some(1));
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&shown["version"], &shown["learnt"]), (&1.into(), &1.into()));
    let problems = shown["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].as_str().is_some_and(|text| text.contains("a.json are damaged")), "{problems:?}");
    assert!(problems[1].as_str().is_some_and(|text| text.contains("d.json")), "{problems:?}");
    assert!(problems[2].as_str().is_some_and(|text| text.contains("b.toml")), "{problems:?}");
}

#[test]
fn the_directory_of_a_configuration_is_found() {
    let directory = fresh("state-config");
    let file = directory.with_extension("toml");
    let config = format!(
        "state_dir = {directory:?}\n[[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n[[subsystem]]\nnqn = \"nqn.2025-01.io.example:a\"\n\
         allow_any_host = true\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\n"
    );
    fs::write(&file, config).expect("cargo's folder is writable");
    let said = gimbal().args(["state", "show", "-c"]).arg(&file).output().expect("the binary was built");
    let said = String::from_utf8(said.stdout).expect("text");
    assert!(said.starts_with(directory.to_str().expect("text")), "{said}");
}
