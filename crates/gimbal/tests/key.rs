//! `gimbal key` from the operator's point of view; nvme-cli checks the keys that it makes.

mod process;

use process::gimbal;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A name in an empty folder of this test.
fn fresh(test: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("key-{test}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("cargo's folder for tests is writable");
    folder
}

fn run(arguments: &[&str]) -> Output {
    gimbal().arg("key").args(arguments).output().expect("the binary was built")
}

fn said(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).expect("text")
}

#[test]
fn nvme_cli_accepts_every_key_that_is_made() {
    let folder = fresh("made");
    let cases = [
        ("dhchap", "none", 32),
        ("dhchap", "sha256", 32),
        ("dhchap", "sha384", 48),
        ("dhchap", "sha512", 64),
        ("tls", "sha256", 32),
        ("tls", "sha384", 48),
    ];
    let mut fingerprints = Vec::new();
    for (kind, hash, bytes) in cases {
        let file = folder.join(format!("{kind}-{hash}"));
        let path = file.to_str().expect("UTF-8");
        let made = run(&["gen", "--kind", kind, "--hash", hash, path]);
        assert!(made.status.success(), "{}", said(&made));
        let key = std::fs::read_to_string(&file).expect("it was made");
        assert_eq!(file.metadata().expect("as above").permissions().mode() & 0o777, 0o600);
        let secret = key.trim().split(':').nth(2).expect("the third part");
        assert!(!said(&made).contains(secret), "a key is not printed");
        let check = if kind == "tls" { "check-tls-key" } else { "check-dhchap-key" };
        let judge = Command::new("nvme").args([check, "--key", key.trim()]).output();
        let judge = judge.expect("tests/install-deps.sh installs nvme-cli");
        assert!(judge.status.success() && said(&judge).contains("is valid"), "{path}: {}", said(&judge));
        assert!(run(&["check", path]).status.success());
        let shown = run(&["show", "--json", path]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        assert_eq!((shown["kind"].as_str(), shown["bytes"].as_u64()), (Some(kind), Some(bytes)));
        fingerprints.push(shown["fingerprint"].to_string());
    }
    fingerprints.sort();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), cases.len(), "no two keys are the same");
}

#[test]
fn a_key_of_nvme_cli_is_read() {
    let folder = fresh("read");
    for (arguments, kind) in [
        (&["gen-dhchap-key", "--hmac", "1", "--nqn", "nqn.2025-01.io.example:host"][..], "dhchap"),
        (&["gen-tls-key", "--hmac", "2"][..], "tls"),
    ] {
        let made = Command::new("nvme").args(arguments).output().expect("nvme-cli is there");
        assert!(made.status.success(), "{}", said(&made));
        let file = folder.join(kind);
        std::fs::write(&file, &made.stdout).expect("writable");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("ours");
        let checked = run(&["check", file.to_str().expect("UTF-8")]);
        assert!(checked.status.success(), "{kind}: {}", said(&checked));
    }
}

/// The digests were computed with Python's hmac and hashlib.
#[test]
fn the_identities_of_a_key_are_shown() {
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5f1c3c6e-0000-4000-8000-000000000001";
    const SUBSYSTEM: &str = "nqn.2024-01.test:a";
    let folder = fresh("identities");
    let [tls, dhchap] = ["tls", "dhchap"].map(|name| folder.join(name).to_str().expect("UTF-8").to_owned());
    std::fs::write(&tls, "NVMeTLSkey-1:01:BY/5vmy6krRk7078UG9eYtkcQks27dyGwup8ucusZOor8k6N:")
        .expect("writable");
    assert!(run(&["gen", &dhchap]).status.success());
    let names = ["--host", HOST, "--subsystem", SUBSYSTEM];
    let show = |more: &[&str]| run(&[&["show"], &names[..], more].concat());
    let shown = said(&show(&[&tls]));
    let expected = [
        format!("  identity of version 0: NVMe0R01 {HOST} {SUBSYSTEM}"),
        format!(
            "  identity of version 1: NVMe1R01 {HOST} {SUBSYSTEM} RpOJ9b1YgJpjVVIZsIhn13SIi7/Tz/l5P38MpmbAB4c="
        ),
        format!(
            "  identity of version 1, by libnvme before 1.16: NVMe1R01 {HOST} {SUBSYSTEM} fYQJdqoi5XBocMKqC2oHeO5rp6LIUr0ZEPFSJLRVGKk="
        ),
    ];
    assert_eq!(shown.lines().skip(1).collect::<Vec<_>>(), expected);
    let object: serde_json::Value = serde_json::from_slice(&show(&["--json", &tls]).stdout).expect("JSON");
    let texts: Vec<&str> = object["identities"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["identity"].as_str())
        .collect();
    assert!(
        texts.len() == 3 && texts.iter().zip(&expected).all(|(text, line)| line.ends_with(text)),
        "{object}"
    );
    let refused = show(&[&dhchap]);
    assert!(
        refused.status.code() == Some(1) && said(&refused).contains("only keys for TLS"),
        "{}",
        said(&refused)
    );
    let half = run(&["show", "--host", HOST, &tls]);
    assert!(!half.status.success() && said(&half).contains("--subsystem"), "{}", said(&half));
}

#[test]
fn nothing_is_replaced_and_every_wrong_file_is_named() {
    let folder = fresh("wrong");
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let good = path("good");
    assert!(run(&["gen", &good]).status.success());
    let before = std::fs::read(&good).expect("it was made");
    symlink(&good, path("link")).expect("a free name");
    for name in [&good, &path("link"), &folder.to_str().expect("UTF-8").to_owned()] {
        let again = run(&["gen", name]);
        assert_eq!(again.status.code(), Some(1));
        assert!(said(&again).contains("never replaced"), "{}", said(&again));
    }
    assert_eq!(std::fs::read(&good).expect("as before"), before);

    let text = String::from_utf8(before).expect("text");
    let secret = text.trim().split(':').nth(2).expect("the third part").to_owned();
    std::fs::write(path("cut"), &text[..text.len() / 2]).expect("writable");
    std::fs::write(
        path("typo"),
        text.replacen(&secret[..1], if secret.starts_with('A') { "B" } else { "A" }, 1),
    )
    .expect("writable");
    std::fs::write(path("open"), &text).expect("writable");
    std::fs::set_permissions(path("open"), PermissionsExt::from_mode(0o644)).expect("ours");
    let fifo = path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("coreutils").success());
    let names = ["cut", "typo", "open", "fifo", "gone"].map(path);
    let mut arguments = vec!["check"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.push(&good);
    let checked = run(&arguments);
    let messages = said(&checked);
    assert_eq!(checked.status.code(), Some(1));
    for (name, message) in names.iter().zip(["a key", "", "chmod 600", "only regular files", "No such file"])
    {
        let line = messages.lines().find(|line| line.starts_with(&format!("{name}: ")));
        assert!(line.is_some_and(|line| line.contains(message)), "{name}: {messages}");
    }
    assert!(messages.contains(&format!("{good}: a valid key for DH-HMAC-CHAP")), "the others are checked");
    assert!(!messages.contains(&secret[8..]), "no message has a key: {messages}");

    for (arguments, message) in [
        (&["gen", "--kind", "tls", "--hash", "sha512"][..], "sha256 or sha384"),
        (&["gen", "--hash", "none", "--length", "33"], "[32, 48, 64]"),
        (&["gen", "--hash", "sha256", "--length", "48"], "has 32 bytes"),
    ] {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-"]).collect();
        let refused = run(&arguments);
        assert!(refused.status.code() == Some(1) && said(&refused).contains(message), "{}", said(&refused));
    }
}
