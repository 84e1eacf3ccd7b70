//! `gimbal config check` and `gimbal serve` find the same problems of a configuration, and name the line or flag that the user wrote.

mod process;

use process::gimbal;
use std::path::PathBuf;
use std::process::Output;

const SUBSYSTEM: &str = "[[subsystem]]\nnqn = \"nqn.2025-01.io.example:a\"\nallow_any_host = true\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\n";
const NULL: &str = "[[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn output(arguments: &[&str]) -> Output {
    gimbal().args(arguments).output().expect("the binary was built")
}

/// The error of a command that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = output(arguments);
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    said
}

/// The error of `config check` and `serve` for a file that both refuse.
fn both_refuse(name: &str, text: &str) -> String {
    let file = folder().join(format!("judged-{name}.toml"));
    std::fs::write(&file, text).expect("cargo's folder for tests is writable");
    let file = file.to_str().expect("text");
    let checked = refused(&["config", "check", file]);
    let served = refused(&["serve", "-c", file]);
    assert_eq!(served, format!("gimbal: {checked}"), "{name}: the two differ");
    checked.replace(file, "g.toml")
}

#[test]
fn the_check_and_the_start_refuse_the_same() {
    let disk = folder().join("judged-disk");
    std::fs::write(&disk, vec![0; 8192]).expect("cargo's folder for tests is writable");
    let [link, hard_link] = ["judged-link", "judged-hard-link"].map(|name| folder().join(name));
    for name in [&link, &hard_link] {
        let _ = std::fs::remove_file(name);
    }
    std::os::unix::fs::symlink(&disk, &link).expect("a link");
    std::fs::hard_link(&disk, &hard_link).expect("a link");
    let file = |name: &str, path: &PathBuf| {
        format!("[[device]]\nname = {name:?}\nkind = \"file\"\npath = {path:?}\n")
    };
    let with = |line: &str| format!("{NULL}{line}\n{SUBSYSTEM}");
    let tenant =
        |line: &str| format!("{NULL}{SUBSYSTEM}[[tenant]]\nhost = \"nqn.2025-01.io.example:h\"\n{line}\n");
    let emulated = |line: &str| with(line).replace("\"null\"", "\"emulated\"");
    let broken = folder().join("judged-broken.toml");
    std::fs::write(&broken, "what = [").expect("cargo's folder for tests is writable");
    let with_broken = format!("scheduler = {{ policy = \"reflex\", calibration = {broken:?} }}");
    for (name, text, expected) in [
        (
            "listen-twice",
            format!("listen = [\"127.0.0.1:4420\", \"127.0.0.1:4420\"]\n{}", with("")),
            "g.toml:1: listen: 127.0.0.1:4420 is there twice",
        ),
        (
            "listen-all",
            format!("listen = [\"0.0.0.0:4420\", \"127.0.0.1:4420\"]\n{}", with("")),
            "g.toml:1: listen: 127.0.0.1:4420 and 0.0.0.0:4420 cannot both be listened on",
        ),
        (
            "write-cost",
            emulated("scheduler = { policy = \"gimbal\", write_cost_best = 9, write_cost_worst = 2 }"),
            "g.toml:5: device[0].scheduler: the constants do not fit together: ",
        ),
        (
            "calibration-missing",
            with("scheduler = { policy = \"level-calibrated\", calibration = \"/nonexistent/c.toml\" }"),
            "g.toml:5: device[0].scheduler.calibration: calibration /nonexistent/c.toml cannot be read: ",
        ),
        ("calibration-broken", with(&with_broken), "g.toml:5: device[0].scheduler.calibration: "),
        ("profile-missing", emulated("profile = \"/nonexistent/p.toml\""), "g.toml:5: device[0].profile: "),
        (
            "profile-of-scheduler",
            with("scheduler = { policy = \"gimbal\", profile = \"nothing-like-it\" }"),
            "g.toml:5: device[0].scheduler.profile: ",
        ),
        (
            "constants-unread",
            with("scheduler = { policy = \"none\", slots = 3 }"),
            "g.toml:5: device[0].scheduler.slots: the scheduler \"none\" does not read it; remove it, or",
        ),
        ("symbolic-link", file("a", &disk) + &file("b", &link) + SUBSYSTEM, "g.toml:8: device[1].path: "),
        (
            "hard-link",
            file("a", &disk) + &file("b", &hard_link) + SUBSYSTEM,
            "is device \"a\" too, or a part of it",
        ),
        (
            "same-path",
            file("a", &disk) + &file("b", &disk) + SUBSYSTEM,
            "g.toml:8: device[1].path: two devices have this path",
        ),
        (
            "above-limit",
            tenant("limit_rate = \"10M\"\nreservation = \"20M\""),
            "g.toml:14: tenant[0].reservation: 21.0 MB/s are promised to a tenant that is limited to 10.5 MB/s",
        ),
        ("absurd", tenant("reservation = \"100T\""), "tenant[0].reservation: 109951162.8 MB/s is more than"),
        (
            "too-many-promises",
            // A scheduler whose constants contain the highest rate of the SSD; the default scheduler has no such
            // constant.
            tenant("reservation = \"100G\"").replace("\"null\"", "\"emulated\"\nscheduler = \"gimbal\""),
            "tenant[0].reservation: the reservations on device \"a\" come to 107374.2 MB/s",
        ),
    ] {
        let said = both_refuse(name, &text);
        assert!(said.contains(expected), "{name}: {expected:?} is not in:\n{said}");
        assert_eq!(said.lines().count(), 1, "{name}: one problem, one line:\n{said}");
    }
}

#[test]
fn a_file_in_another_encoding_says_where_it_is_not_utf8() {
    let file = folder().join("judged-latin1.toml");
    std::fs::write(&file, b"# one\n# caf\xe9\n").expect("cargo's folder for tests is writable");
    let said = refused(&["config", "check", file.to_str().expect("text")]);
    assert!(
        said.contains(":2: byte 0xe9 is not UTF-8, which TOML is written in; save the file as UTF-8"),
        "{said}"
    );
}

#[test]
fn a_device_that_is_not_here_is_a_warning_of_the_check() {
    let file = folder().join("judged-absent.toml");
    let device = "[[device]]\nname = \"a\"\nkind = \"block\"\npath = \"/dev/nonexistent9\"\n";
    std::fs::write(&file, format!("{device}{SUBSYSTEM}")).expect("cargo's folder for tests is writable");
    let checked = output(&["config", "check", file.to_str().expect("text")]);
    assert!(checked.status.success());
    let said = String::from_utf8(checked.stderr).expect("text");
    assert!(said.contains("warning: device \"a\": /dev/nonexistent9: No such file or directory"), "{said}");
}

#[test]
fn a_problem_of_a_flag_names_the_flag() {
    for (arguments, expected) in [
        (&["--device", "null", "--size", "10001"][..], "gimbal: --size: 10001 B is not a multiple of 4 KiB"),
        (
            &["--device", "null", "--nqn", "example"],
            "gimbal: --nqn: \"example\" is not an NVMe qualified name",
        ),
        (&["--device", "null", "--log", "a=loud"], "gimbal: --log: \"a=loud\" is not a log filter: "),
        (&["--device", "null", "--spin", "1s"], "gimbal: --spin: is longer than 10ms"),
        (
            &["--device", "null", "--scheduler", "reflex"],
            "gimbal: --calibration: reflex needs a calibration of the device; give --calibration FILE",
        ),
        (&["--device", "emulated:nothing"], "gimbal: --device: "),
        (&["--device", "emulated", "--speed", "1000"], "gimbal: --speed: 1000 is more than 100"),
        (
            &["--device", "null", "--create", "--size", "1G"],
            "--create works only with a file, and \"null\" is none; leave it out",
        ),
        (
            &["--device", "null", "--force"],
            "--force works only with a file or a block device, and \"null\" is none; leave it out",
        ),
        (
            &["--device", "null", "--listen", "127.0.0.1:4420", "--listen", "127.0.0.1:4420"],
            "gimbal: --listen: 127.0.0.1:4420 is there twice",
        ),
        (
            &["--device", "null", "--listen", "192.0.2.1:4420"],
            "; no interface of this machine has this address",
        ),
    ] {
        let said = refused(&[&["serve"], arguments].concat());
        assert!(said.contains(expected), "{arguments:?}: {expected:?} is not in:\n{said}");
        assert!(!said.contains("device[0]"), "{said}");
    }
}
