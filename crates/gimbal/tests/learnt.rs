//! The model of the SSD that `gimbal serve` starts with: a profile, the model from an earlier run, or none.

#![cfg(target_os = "linux")]

mod process;

use process::{Process, serve};
use std::fs;
use std::path::{Path, PathBuf};

/// A device profile as `gimbal ssdtest` writes it, with only the required fields.
const PROFILE: &str = "version = 1\n[device]\nname = \"a drive\"\ncapacity_mib = 16384\nquick = true\nread_only = false\n\
                       written_mib = 10\ntook_s = 1.5\n\
                       [[cost]]\nkind = \"random-read\"\nsize_kib = 4\nns = 2400.0\nin_4_kib_reads = 1.0\n\
                       [[cost]]\nkind = \"sequential-write\"\nsize_kib = 128\nns = 98000.0\nin_4_kib_reads = 40.8\n";
const BEGINS: &str = "the scheduler begins with what was learnt of the SSD before";

fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("cargo's folder for tests is writable");
    path
}

/// Runs a target, stops it in order, and returns its log.
fn log_of(arguments: &[&str], state: &Path) -> String {
    let state = state.to_str().expect("text");
    let mut command = serve(&["--device", "emulated", "--size", "1G", "--state-dir", state]);
    let (mut target, mut log) = Process::start_with_log(command.args(arguments));
    target.signal("-TERM");
    log.await_end();
    assert!(target.wait().success());
    log.saying("").join("")
}

#[test]
fn a_profile_is_believed_and_what_is_believed_survives_a_restart() {
    let folder = fresh("learnt");
    let (profile, state) = (folder.join("profile.toml"), folder.join("state"));
    fs::write(&profile, PROFILE).expect("writable");
    let nothing = log_of(&[], &state);
    assert!(!nothing.contains(BEGINS), "{nothing}");
    let files = || {
        fs::read_dir(state.join("learnt"))
            .expect("made at the start")
            .map(|file| file.expect("readable").path())
    };
    assert_eq!(files().count(), 0, "nobody has learnt anything");
    log_of(&["--prior", profile.to_str().expect("text")], &state);
    let kept: Vec<PathBuf> = files().collect();
    let text = fs::read_to_string(kept.first().expect("it was told something")).expect("readable");
    assert!(text.contains("ssd = \"emulated dct983 clean\""), "{text}");
    assert!(text.contains("reads = \"all\"\nsize = 4096\n"), "{text}");
    assert!(log_of(&[], &state).contains(BEGINS));
    let other = log_of(&["--condition", "fragmented"], &state);
    assert!(!other.contains(BEGINS), "it is another SSD: {other}");

    fs::write(&kept[0], text.replace("time_ns", "time")).expect("writable");
    let damaged = log_of(&[], &state);
    assert!(damaged.contains("is not valid") && damaged.contains("the SSD is measured again"), "{damaged}");
    let _ = fs::remove_dir_all(folder);
}

#[test]
fn a_prior_that_no_probe_wrote_is_refused() {
    let folder = fresh("prior");
    let profile = folder.join("profile.toml");
    fs::write(&profile, PROFILE.replace("ns = 2400.0", "ns = -1.0")).expect("writable");
    let path = profile.to_str().expect("text");
    for (arguments, words) in [
        (vec!["--prior", path], ["--prior: device profile ", "probe the device again"]),
        (
            vec!["--prior", "/nonexistent/p.toml"],
            ["--prior: device profile /nonexistent/p.toml cannot be read", "gimbal ssdtest"],
        ),
        (
            vec!["--prior", path, "--scheduler", "none"],
            ["--prior: none learns nothing and reads no prior", ""],
        ),
    ] {
        let refused =
            serve(&["--device", "emulated"]).args(&arguments).output().expect("the binary was built");
        let said = String::from_utf8(refused.stderr).expect("text");
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
    let _ = fs::remove_dir_all(folder);
}
