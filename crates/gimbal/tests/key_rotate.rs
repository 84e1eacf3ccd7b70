//! `gimbal key rotate` on a running target: one key is replaced by another, and the host gets in all the time.

mod process;

use host::{Backend, Client, ControllerOptions, HostId, KeyFiles, Nqn, RetryPolicy};
use process::{Process, gimbal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use units::Bytes;

const SUBSYSTEM: &str = "nqn.2025-01.io.example:disk";
const HOST: &str = "nqn.2025-01.io.example:db1";

/// A target for which the host has a key of each kind.
struct Place {
    folder: PathBuf,
    target: Process,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("rotate-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        for (kind, file) in [("dhchap", "old"), ("dhchap", "new"), ("tls", "old.tls"), ("tls", "new.tls")] {
            let made = gimbal().args(["key", "gen", "--kind", kind]).arg(folder.join(file)).output();
            assert!(made.expect("it was built").status.success());
        }
        let file = |name: &str| folder.join(name);
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[security]\nauthentication = \"required\"\ntls = \"optional\"\n\
             [[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\
             [[subsystem]]\nnqn = {SUBSYSTEM:?}\nhosts = [{HOST:?}]\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\nsize = \"64M\"\n\
             [[host]]\nnqn = {HOST:?}\ndhchap_key = {:?}  # of the database\ntls_key = [{:?}]\n",
            file("old"),
            file("old.tls"),
        );
        fs::write(file("gimbal.toml"), text).expect("ours");
        let mut command = gimbal();
        command.arg("serve").arg("-c").arg(file("gimbal.toml")).arg("--admin-socket").arg(file("s"));
        Place { target: Process::start(&mut command), folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file("gimbal.toml")).expect("it is there")
    }

    /// Whether it is done, and all that it prints.
    fn rotate(&self, words: &[&str]) -> (bool, String) {
        let mut command = gimbal();
        command.args(["key", "rotate", "--socket"]).arg(self.file("s")).arg(HOST).args(words);
        let Output { status, stdout, stderr } = command.output().expect("it was built");
        (status.success(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    }

    fn done(&self, words: &[&str]) {
        let (is_done, said) = self.rotate(words);
        assert!(is_done, "{said}");
    }

    fn refused(&self, words: &[&str], why: &str) {
        let before = self.text();
        let (is_done, said) = self.rotate(words);
        assert!(!is_done && said.contains(why), "{said}");
        assert_eq!(self.text(), before);
    }

    /// Whether the host gets in.
    fn admits(&self, keys: KeyFiles) -> bool {
        let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
        let [subsystem, host] = [SUBSYSTEM, HOST].map(|name| Nqn::new(name).expect("valid"));
        let keys = keys.read().expect("keys");
        let options = ControllerOptions::new(self.target.address(), subsystem, host, HostId([7; 16]));
        client.connect(ControllerOptions { retry: RetryPolicy::Never, keys, ..options }).wait().is_ok()
    }

    fn admits_dhchap(&self, name: &str) -> bool {
        self.admits(KeyFiles { dhchap: Some(self.file(name)), ..KeyFiles::default() })
    }

    fn admits_tls(&self, name: &str) -> bool {
        self.admits(KeyFiles { tls: Some(self.file(name)), ..KeyFiles::default() })
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn an_old_key_goes_when_it_is_not_used_any_more() {
    let place = Place::new("dhchap");
    let new = place.file("new");
    place.refused(&[], "no rotation has begun");
    place.refused(&["--new", text(&place.file("none"))], "No such file");
    place.refused(&["--new", text(&place.file("new.tls"))], "this is a key for TLS; see --kind");
    place.refused(&["--new", text(&place.file("old"))], "is the same key as another one");
    assert!(place.admits_dhchap("old") && !place.admits_dhchap("new"));

    place.done(&["--new", text(&new)]);
    assert!(place.text().contains("dhchap_key_next") && place.text().contains("# of the database"));
    assert!(place.admits_dhchap("old") && place.admits_dhchap("new"), "both prove the host");
    place.refused(&["--new", text(&new)], "has begun: end it first");
    place.refused(&[], "and the new one 2 times");
    // Every queue has made a proof: the admin queue, and one for IOs.
    place.done(&["--unused-for", "1ns"]);
    assert!(!place.text().contains("dhchap_key_next"), "{}", place.text());
    assert!(place.admits_dhchap("new") && !place.admits_dhchap("old"));
}

#[test]
fn a_key_that_has_not_been_watched_for_long_enough_stays_unless_it_is_forced() {
    let place = Place::new("forced");
    let new = place.file("new");
    place.done(&["--new", text(&new)]);
    place.refused(&[], "the target has known both keys for");
    place.done(&["--now"]);
    assert!(place.admits_dhchap("new") && !place.admits_dhchap("old"));
}

#[test]
fn a_key_for_tls_is_rotated_in_the_same_way() {
    let place = Place::new("tls");
    let new = place.file("new.tls");
    place.refused(&["--kind", "tls"], "there is one tls_key");
    place.done(&["--kind", "tls", "--new", text(&new)]);
    assert!(place.admits_tls("old.tls") && place.admits_tls("new.tls"), "both prove the host");
    place.refused(&["--kind", "tls"], "and the new one 2 times");
    place.done(&["--kind", "tls", "--now"]);
    assert!(place.admits_tls("new.tls") && !place.admits_tls("old.tls"));
}

#[test]
fn a_host_without_a_table_and_a_target_that_is_away_are_named() {
    let mut place = Place::new("unknown");
    let mut command = gimbal();
    command
        .args(["key", "rotate", "--now", "--socket"])
        .arg(place.file("s"))
        .arg("nqn.2025-01.io.example:other");
    let output = command.output().expect("it was built");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.code() == Some(1) && said.contains("nqn.2025-01.io.example:db1"), "{said}");
    place.target.kill();
    let mut command = gimbal();
    command.args(["key", "rotate", "--now", "--socket"]).arg(place.file("s")).arg(HOST);
    assert_eq!(command.output().expect("it was built").status.code(), Some(3));
}
