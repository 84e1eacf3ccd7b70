//! The Debian package: its content, and what Debian's own judges say of it. The binary in it is the one under test.
//!
//! Elsewhere: `package_guest.rs` installs it; `tests/reproducible-package.sh` builds it twice.

mod process;

use process::gimbal;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run make test-deps"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{error}", output.status);
    text
}

/// Packs the binary, and unpacks it. Returns the package and the folder of its files.
fn package() -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let _ = fs::remove_dir_all(&folder);
    let script = format!("{ROOT}/packaging/deb.sh");
    let printed = said(
        Command::new(script)
            .arg(env!("CARGO_BIN_EXE_gimbal"))
            .envs([("GIMBAL_DIST", folder.as_os_str()), ("GIMBAL_DEB_LEVEL", "0".as_ref())]),
    );
    let (package, files) = (PathBuf::from(printed.trim()), folder.join("files"));
    said(Command::new("dpkg-deb").arg("--extract").args([&package, &files]));
    (package, files)
}

/// The names of all commands, as those of their pages: `gimbal-ctl-get`.
fn commands(words: &[&str], found: &mut BTreeSet<String>) {
    let help = said(gimbal().args(&words[1..]).arg("--help"));
    found.insert(words.join("-"));
    let listed = help.split("Commands:\n").nth(1).into_iter().flat_map(str::lines);
    let names = listed.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        commands(&[words, &[name]].concat(), found);
    }
}

#[test]
fn the_package_has_a_page_of_every_command_and_a_configuration_that_is_valid() {
    let (package, files) = package();
    let sum = fs::read_to_string(package.with_added_extension("sha256")).expect("it is beside the package");
    assert!(said(Command::new("sha256sum").arg(&package)).starts_with(&sum[..64]));

    let mut names = BTreeSet::new();
    commands(&["gimbal"], &mut names);
    assert!(names.len() > 40 && names.contains("gimbal-ctl-get"), "{names:?}");
    for name in &names {
        let page = files.join(format!("usr/share/man/man1/{name}.1.gz"));
        let page = said(Command::new("gzip").args(["-d", "-c"]).arg(&page));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    let pages = fs::read_dir(files.join("usr/share/man/man1")).expect("unpacked").count();
    assert_eq!(pages, names.len(), "each page is of a command");
    for script in [
        "bash-completion/completions/gimbal",
        "zsh/vendor-completions/_gimbal",
        "fish/vendor_completions.d/gimbal.fish",
    ] {
        let script = fs::read_to_string(files.join("usr/share").join(script)).expect("unpacked");
        assert!(script.contains("serve") && script.contains("state"), "{script}");
    }
    said(gimbal().args(["config", "check"]).arg(files.join("etc/gimbal/gimbal.toml")));
    let listens = said(gimbal().args(["config", "show", "--json"]).arg(files.join("etc/gimbal/gimbal.toml")));
    assert!(listens.contains("\"127.0.0.1:4420\"") && !listens.contains("0.0.0.0"), "{listens}");
    let agent = files.join("usr/lib/ocf/resource.d/gimbal/gimbal-group");
    assert!(said(Command::new(agent).arg("meta-data")).contains("name=\"gimbal-group\""));
    said(Command::new("promtool").args(["check", "rules"]).arg(files.join("usr/share/gimbal/alerts.yml")));

    // Errors only: a warning is a matter of taste. It leaves temporary files.
    let mut judge = Command::new("lintian");
    said(judge.args(["--allow-root", "--fail-on", "error"]).arg(&package).env("TMPDIR", files));
}

#[test]
fn the_unit_is_understood_and_exposes_little() {
    let unit = format!("{ROOT}/packaging/gimbal.service");
    let mut exposure = Command::new("systemd-analyze");
    // 3.0 of 10.
    said(exposure.args(["security", "--no-pager", "--offline=true", "--threshold=30", &unit]));
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no", &unit]).output();
    let verified = String::from_utf8(verified.expect("systemd-analyze is there").stderr).expect("text");
    // The program is not installed here; every other complaint is of the unit.
    let complaints =
        verified.lines().filter(|line| line.contains("gimbal") && !line.contains("is not executable"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
}
