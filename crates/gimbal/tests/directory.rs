//! A directory as a device, by the admin API and `gimbal ctl`: namespaces and snapshots, and what a kill at any moment leaves.

mod disk;
mod process;

use disk::Disk;
use process::{Process, gimbal};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const NQN: &str = "nqn.2025-01.io.example:disk";

/// A target with a directory on XFS, and namespace 1.
struct Place {
    disk: Disk,
    file: PathBuf,
    socket: PathBuf,
}

fn uuid(nsid: u32) -> String {
    format!("5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a{nsid:04x}")
}

impl Place {
    fn new(name: &str) -> Place {
        let mut disk = Disk::new(&format!("directory-{name}"), 512);
        let device = disk.device.clone();
        disk.mount_as("xfs", &device);
        let (pool, first) = (disk.mount_point(), uuid(1));
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n\n[[device]]\nname = \"pool\"\nkind = \"directory\"\npath = {pool:?}\ncreate = true\n\n\
             [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"pool\"\nsize = \"64M\"\nuuid = {first:?}\n"
        );
        let place = Place { file: disk.folder.join("gimbal.toml"), socket: disk.folder.join("s"), disk };
        fs::write(&place.file, text).expect("ours");
        place
    }

    fn command(&self) -> Command {
        let mut command = gimbal();
        command.arg("serve").arg("-c").arg(&self.file).arg("--admin-socket").arg(&self.socket);
        command.arg("--state-dir").arg(self.disk.folder.join("state"));
        command
    }

    fn ctl_command(&self, words: &[String]) -> Command {
        let mut command = gimbal();
        command.arg("ctl").arg("--socket").arg(&self.socket).args(words);
        command
    }

    fn ctl(&self, words: &str) -> (bool, String) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let Output { status, stdout, stderr } = self.ctl_command(&words).output().expect("it was built");
        (status.success(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    }

    /// The names in the directory.
    fn names(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.disk.mount_point()).expect("mounted");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    }

    fn configured(&self, nsid: u32) -> bool {
        fs::read_to_string(&self.file).expect("it is there").contains(&uuid(nsid))
    }
}

#[test]
fn snapshots_are_taken_listed_used_and_deleted_by_ctl() {
    let place = Place::new("ctl");
    let _target = Process::start(&mut place.command());
    let done = |words: &str| {
        let (is_done, said) = place.ctl(words);
        assert!(is_done, "{words}: {said}");
        said
    };
    let refused = |words: &str| {
        let (is_done, said) = place.ctl(words);
        assert!(!is_done, "{words}: {said}");
        said
    };
    assert!(done(&format!("snapshot create first {NQN} 1 --dry-run")).contains("is possible"));
    assert_eq!(done("snapshot list pool"), "\n", "a dry run takes none");
    assert!(done(&format!("snapshot create first {NQN} 1")).contains("writes have waited for"));
    assert!(done("snapshot list pool").contains(&format!("first of {}, 64 MiB", uuid(1))));
    assert!(refused(&format!("snapshot create first {NQN} 1")).contains("already"));
    assert!(refused(&format!("snapshot create a/b {NQN} 1")).contains("is not a name"));
    assert!(refused(&format!("snapshot create other {NQN} 7")).contains("there is no"));
    assert!(refused("snapshot list ssd").contains("no device \"ssd\""));
    done(&format!("add namespace {NQN} 2 device=pool size=64M uuid={} origin=first", uuid(2)));
    assert!(place.names().contains(&uuid(2)));
    assert!(refused("snapshot delete pool second").contains("there is no snapshot"));
    done("snapshot delete pool first --dry-run");
    done("snapshot delete pool first");
    assert!(!place.names().iter().any(|name| name.contains(".snapshot")));
    // Refusals name the field.
    for (fields, said) in [
        ("device=pool", "size"),
        ("device=pool size=64M offset=4K", "offset"),
        ("device=pool size=64M origin=../x", "origin"),
        ("device=pool size=100T", "size"),
    ] {
        let words = format!("add namespace {NQN} 3 {fields}");
        assert!(refused(&words).contains(&format!("].{said}: ")), "{words}");
    }
    assert!(done(&format!("remove namespace {NQN} 2")).contains("namespace"));
    assert!(place.names().contains(&uuid(2)), "its data is kept");
}

/// Kills a target while it does `rounds` random things, and compares the directory with the configuration after each restart.
fn kills(name: &str, rounds: u64) {
    let place = Place::new(name);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(rounds);
    let mut target = Process::start(&mut place.command());
    for round in 0..rounds {
        let nsid = 2 + (random.next_u64() % 3) as u32;
        let snapshot = format!("s{}", random.next_u64() % 3);
        let words = match (random.next_u64() % 4, place.configured(nsid)) {
            (0 | 1, false) => {
                let origin = place.names().contains(&format!("{snapshot}.snapshot"));
                let origin = if origin { snapshot } else { uuid(1) };
                format!(
                    "add namespace {NQN} {nsid} device=pool size=64M uuid={} wipe_on_remove=true origin={origin}",
                    uuid(nsid)
                )
            }
            (0 | 1, true) => format!("remove namespace {NQN} {nsid}"),
            (2, _) => format!("snapshot create {snapshot} {NQN} 1"),
            (_, _) => format!("snapshot delete pool {snapshot}"),
        };
        let before = place.names();
        let asked: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut ctl = place.ctl_command(&asked);
        let mut ctl = ctl.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it was built");
        thread::sleep(Duration::from_micros(random.next_u64() % 60_000));
        target.kill();
        let was_done = ctl.wait().expect("it ends").success();
        target = Process::start(&mut place.command());
        let names = place.names();
        for nsid in 1..5 {
            assert_eq!(
                names.contains(&uuid(nsid)),
                place.configured(nsid),
                "round {round}, {words}: {names:?}"
            );
        }
        assert!(!names.iter().any(|name| name.ends_with(".new")), "round {round}, {words}: {names:?}");
        for number in 0..3 {
            let (data, description) = (format!("s{number}.snapshot"), format!("s{number}.snapshot.json"));
            assert_eq!(
                names.contains(&data),
                names.contains(&description),
                "round {round}, {words}: {names:?}"
            );
        }
        if was_done && words.starts_with("snapshot") {
            let name = format!("{}.snapshot", asked[if asked[1] == "create" { 2 } else { 3 }]);
            assert_eq!(
                names.contains(&name),
                asked[1] == "create",
                "round {round}, {words}, from {before:?}"
            );
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_file_that_nobody_has() {
    kills("kills", 12);
}

#[test]
#[ignore = "300 kills, half a minute; run by make test-long"]
fn many_kills_leave_no_file_that_nobody_has() {
    kills("many-kills", 300);
}
