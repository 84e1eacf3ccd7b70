//! A directory as a device, by the admin API and `gimbal ctl`: namespaces and snapshots, and what a kill at any moment leaves.

mod disk;
mod pool;
mod process;

use pool::{NQN, Place, uuid};
use process::Process;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

#[test]
fn snapshots_are_taken_listed_used_and_deleted_by_ctl() {
    let place = Place::new("ctl", 64);
    let _target = Process::start(&mut place.command());
    let done = |words: &str| place.done(words);
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

/// Somebody else has filled the file system: no snapshot and no half of one, and the target goes on.
#[test]
fn a_full_file_system_has_no_half_of_a_snapshot() {
    let place = Place::new("full", 64);
    let _target = Process::start(&mut place.command());
    place.done(&format!("snapshot create before {NQN} 1"));
    let filler = place.fill();
    let before = place.names();
    for name in ["first", "second"] {
        let (is_done, said) = place.ctl(&format!("snapshot create {name} {NQN} 1"));
        assert!(!is_done && said.contains("No space left on device"), "{said}");
    }
    let fields = format!("device=pool size=64M uuid={} origin=before", uuid(2));
    let (is_done, said) = place.ctl(&format!("add namespace {NQN} 2 {fields}"));
    assert!(!is_done && said.contains("No space left on device"), "{said}");
    assert_eq!(place.names(), before, "nothing is half-made");
    // A snapshot that is deleted needs no room, and makes some.
    place.done("snapshot delete pool before");
    std::fs::remove_file(filler).expect("it was made");
    place.done(&format!("snapshot create first {NQN} 1"));
    place.done(&format!("add namespace {NQN} 2 device=pool size=64M uuid={} origin=first", uuid(2)));
}

/// Kills a target while it does `rounds` random things, and compares the directory with the configuration after each restart.
fn kills(name: &str, rounds: u64) {
    let place = Place::new(name, 64);
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
