//! Volumes on real targets, which are processes of their own: written, read, killed, repaired.
//!
//! The client that is killed is this binary, started again (`the_client_that_others_kill`). It prints each promise that
//! it has received, one per line, so its killer knows which data must be there afterwards.

#![cfg(target_os = "linux")]

mod process;
mod rack;

use blob::{Outcome, Request};
use blob_client::Mount;
use process::{Process, gimbal};
use rack::scratch::Scratch;
use rack::{Rack, Target, VOLUME, check, content, done, mount, opened};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A file is closed, and the next one begun, when it is longer than this.
const FILE_MAX: u64 = 200_000;
/// Older files are removed.
const FILES: usize = 5;
/// The variable that passes the place of the store to the client that is killed.
const STORE: &str = "GIMBAL_TEST_STORE";

/// Appends to one file after the other, and records which data must be there.
struct Writer {
    random: Xoshiro256PlusPlus,
    number: u64,
    handle: u64,
    size: u64,
    files: VecDeque<u64>,
}

impl Writer {
    fn new(mount: &Mount, seed: u64, number: u64, files: VecDeque<u64>) -> Writer {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut writer = Writer { random, number, handle: 0, size: 0, files };
        writer.begin(mount);
        writer
    }

    fn begin(&mut self, mount: &Mount) {
        self.handle = opened(mount, Request::Create { path: format!("f{}", self.number) }).0;
        self.size = 0;
        self.files.push_back(self.number);
    }

    /// Appends some bytes, flushed or synced. Reports to `say` which data is promised now.
    fn step(&mut self, mount: &Mount, say: &mut dyn FnMut(String)) {
        let length = self.random.random_range(1..20_000);
        let bytes = content(self.number, self.size, length);
        let handle = self.handle;
        done(mount, Request::Append { handle, bytes });
        self.size += length;
        let is_sync = self.random.random_ratio(1, 3);
        done(mount, if is_sync { Request::Sync { handle } } else { Request::Flush { handle } });
        say(format!("has {} {}", self.number, self.size));
        if is_sync {
            say(format!("synced {} {}", self.number, self.size));
        }
        if self.size > FILE_MAX {
            done(mount, Request::Close { handle });
            self.number += 1;
            self.begin(mount);
            if self.files.len() > FILES {
                let oldest = self.files.pop_front().expect("there are some");
                say(format!("removes {oldest} 0"));
                done(mount, Request::Unlink { path: format!("f{oldest}") });
            }
        }
    }
}

#[test]
fn a_volume_lies_on_targets_that_ask_for_proofs() {
    let rack = Rack::with_keys("volume-keys", 2);
    rack.create();
    let mount = rack.mount_with_keys();
    let (handle, _) = opened(&mount, Request::Create { path: "file".into() });
    let bytes = content(1, 0, 100_000);
    done(&mount, Request::Append { handle, bytes });
    done(&mount, Request::Sync { handle });
    done(&mount, Request::Close { handle });
    mount.unmount().expect("in order");
    let [own, ctrl] = rack.key_files().map(|file| file.to_str().expect("a plain path").to_owned());
    let scrubbed =
        rack.ask(&["volume", "scrub", VOLUME, "--dhchap-key-file", &own, "--dhchap-ctrl-key-file", &ctrl]);
    assert!(scrubbed.contains("0 corrupt"), "{scrubbed}");
}

#[test]
fn targets_register_their_ssds_and_a_volume_on_them_keeps_what_is_written() {
    let mut rack = Rack::new("volume-kept", 2);
    let listed = rack.ask(&["targets"]);
    assert_eq!(listed.matches("live").count(), 2, "{listed}");
    rack.create();
    let mount = rack.mount();
    done(&mount, Request::MakeDir { path: "old".to_owned() });
    for number in 0..3 {
        let (handle, _) = opened(&mount, Request::Create { path: format!("f{number}") });
        for piece in 0..4 {
            let bytes = content(number, piece * 100_001, 100_001);
            done(&mount, Request::Append { handle, bytes });
        }
        done(&mount, Request::Sync { handle });
        done(&mount, Request::Close { handle });
    }
    done(&mount, Request::Rename { from: "f2".to_owned(), to: "f1".to_owned() });
    mount.unmount().expect("unmounted");

    let mount = rack.mount();
    assert_eq!(check(&mount, 0), 400_004);
    let Outcome::Names(names) = done(&mount, Request::List { path: String::new() }) else {
        panic!("no names")
    };
    assert_eq!(names, ["f0", "f1", "old"]);
    mount.unmount().expect("unmounted");

    let shown = rack.ask(&["volume", "show", VOLUME]);
    assert!(shown.contains("target-0") && shown.contains("target-1"), "{shown}");
    let scrubbed = rack.ask(&["volume", "scrub", VOLUME]);
    assert!(scrubbed.contains(" 0 corrupt"), "{scrubbed}");

    rack.targets[0].stop();
    let listed = rack.ask(&["targets"]);
    assert_eq!((listed.matches("live").count(), listed.matches("away").count()), (1, 1), "{listed}");
    assert!(
        !rack.run(&["volume", "create", "other", "--mega", "16M"]).status.success(),
        "one target is too few"
    );
    rack.ask(&["volume", "rm", VOLUME]);
}

#[test]
fn a_store_that_does_not_work_disturbs_no_host() {
    let wrong = Scratch::new("volume-wrong-store");
    std::fs::write(wrong.file("text"), "no metadata store").expect("writable");
    let path = wrong.file("text").to_str().expect("a plain path").to_owned();
    for (name, store) in [("away", "etcd://127.0.0.1:1"), ("wrong-type", path.as_str())] {
        let mut rack = Rack::without_store(&format!("volume-store-{name}"), store);
        let address = rack.targets[0].address().to_string();
        let bench = ["bench", "--addr", &address, "--rw", "randread", "--size", "1m"];
        let output = rack.run(&bench);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let listed = gimbal().args(["targets", "--store", store]).output().expect("the binary was built");
        assert!(!listed.status.success() && !listed.stderr.is_empty(), "{name}: {listed:?}");
        rack.targets[0].stop();
    }
    assert_eq!(std::fs::read_to_string(wrong.file("text")).expect("still there"), "no metadata store");
}

#[test]
fn a_target_with_a_copied_configuration_takes_nothing_over_and_both_say_so() {
    let mut rack = Rack::new("volume-copied", 1);
    rack.targets[0].stop();
    let [config, copy] = rack.copied();
    let start = |config: &std::path::Path| {
        let mut command = gimbal();
        Process::start_with_log(command.args(["serve", "--listen", "127.0.0.1:0", "-c"]).arg(config))
    };
    let (mut first, mut of_first) = start(&config);
    of_first.await_line("the SSDs are registered for volumes");
    let (second, mut of_second) = start(&copy);
    of_second.await_line("has registered an SSD with the same UUID and is alive");
    of_first.await_line("wants to register SSDs of this target");
    let listed = rack.ask(&["targets"]);
    assert!(listed.contains(&first.address().to_string()), "{listed}");
    // A target that starts at the first one's address would be taken for the first one; the second target is not.
    first.signal("-TERM");
    assert!(first.wait().success());
    of_second.await_line("the SSDs are registered for volumes");
    let listed = rack.ask(&["targets"]);
    assert!(listed.contains(&second.address().to_string()), "{listed}");
}

#[test]
fn a_damaged_store_disturbs_no_host() {
    let rack = Rack::new("volume-damaged", 1);
    let whole = std::fs::read(rack.store()).expect("the store is a file");
    drop(rack);
    let scratch = Scratch::new("volume-damaged-store");
    let store = scratch.file("store");
    // Searches for damages with which the database library cannot open the store.
    let mut state = 7u64;
    let mut damaged = 0;
    while damaged < 2 {
        let mut bytes = whole.clone();
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (state >> 33) as usize % bytes.len();
            bytes[place] ^= 1 << (state >> 61);
        }
        std::fs::write(&store, &bytes).expect("writable");
        let opened = blob_meta::Embedded::open(&store);
        let text = opened.err().unwrap_or_default();
        if !text.contains("the database gave up on it") {
            continue;
        }
        std::fs::write(&store, &bytes).expect("writable");
        damaged += 1;
        let path = store.to_str().expect("a plain path");
        let mut rack = Rack::without_store(&format!("volume-damaged-{damaged}"), path);
        let address = rack.targets[0].address().to_string();
        let output = rack.run(&["bench", "--addr", &address, "--rw", "randread", "--size", "1m"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        rack.targets[0].stop();
    }
}

#[test]
fn the_ssds_of_a_killed_target_are_away_when_its_lease_is_over_and_back_when_it_is() {
    let mut rack = Rack::new("volume-lease", 2);
    let states = |rack: &Rack| -> Vec<(u64, String, bool)> {
        let listed = rack.ask(&["targets", "--json"]);
        let ssds =
            listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("an object"));
        let state = |ssd: serde_json::Value| {
            let uuid = ssd["uuid"].as_str().expect("a text").to_owned();
            (ssd["ssd"].as_u64().expect("a number"), uuid, ssd["live"].as_bool().expect("yes or no"))
        };
        ssds.map(state).collect()
    };
    let before = states(&rack);
    assert!(before.len() == 2 && before.iter().all(|(_, _, is_live)| *is_live), "{before:?}");
    rack.targets[1].kill();
    // The lease ends by the clock of the store.
    while states(&rack).iter().all(|(_, _, is_live)| *is_live) {}
    assert_eq!(
        states(&rack).iter().filter(|(_, _, is_live)| *is_live).count(),
        1,
        "the other one renews its lease"
    );
    rack.targets[1].restart();
    assert_eq!(states(&rack), before, "it has its old number");
}

/// Whether everything has two good copies and `ssds_up` SSDs are connected. A client tries to reconnect to a target
/// every two seconds.
fn is_whole(mount: &Mount, ssds_up: usize) -> bool {
    let Outcome::Shown(shown) = done(mount, Request::Show) else { panic!("not shown") };
    assert_eq!(shown.lost, 0, "no micro blob is without a good copy");
    shown.degraded == 0 && shown.metadata_copies == 2 && shown.ssds_up == ssds_up as u64
}

/// Kills a target under load, again and again, and then reads everything from either target alone.
fn kill_targets(mut rack: Rack, kills: u32, seed: u64) -> String {
    rack.create();
    let mount = rack.mount();
    let mut writer = Writer::new(&mount, seed, 0, VecDeque::new());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 1);
    let mut steps = 0_u64;
    let mut work = |writer: &mut Writer, count: u64| {
        for _ in 0..count {
            writer.step(&mount, &mut |_| {});
            check(&mount, writer.files[count as usize % writer.files.len()]);
            steps += 1;
        }
    };
    let began = Instant::now();
    for kill in 0..kills {
        work(&mut writer, random.random_range(0..20));
        let target = random.random_range(0..rack.targets.len());
        rack.targets[target].kill();
        work(&mut writer, random.random_range(1..30));
        if kill % 3 == 1 {
            rack.targets[target].restart_elsewhere();
        } else {
            rack.targets[target].restart();
        }
        // Repair runs while the target serves; a file that is being written is repaired when it is closed.
        loop {
            work(&mut writer, 1);
            if is_whole(&mount, rack.targets.len()) {
                break;
            }
        }
    }
    let Outcome::Shown(shown) = done(&mount, Request::Show) else { panic!("not shown") };
    done(&mount, Request::Close { handle: writer.handle });
    mount.unmount().expect("unmounted");
    let mut checked = 0;
    for target in 0..rack.targets.len() {
        rack.targets[target].kill();
        let mount = rack.mount();
        checked += writer.files.iter().map(|&number| check(&mount, number)).sum::<u64>();
        // The next target to be killed may have the only copy of the metadata that is current.
        while !is_whole(&mount, rack.targets.len() - 1) {}
        mount.unmount().expect("unmounted");
        rack.targets[target].restart();
    }
    let scrubbed = rack.ask(&["volume", "scrub", VOLUME]);
    assert!(scrubbed.contains(" 0 corrupt"), "{scrubbed}");
    format!(
        "{kills} kills of a target: {steps} appends flushed or synced, {} copies made anew, {checked} bytes read with one target \
         away, in {:.1?}",
        shown.counters.repaired_extents,
        began.elapsed(),
    )
}

#[test]
fn a_killed_target_is_done_without_and_repaired_when_it_is_back() {
    kill_targets(Rack::new("volume-targets", 3), 3, 1);
}

#[test]
fn a_target_that_lost_power_is_done_without_and_repaired_when_it_is_back() {
    kill_targets(Rack::volatile("volume-power", 3), 3, 3);
}

#[test]
#[ignore = "long: 50 kills of a target under load"]
fn fifty_killed_targets_are_done_without_and_repaired() {
    let figures = kill_targets(Rack::new("volume-targets-long", 3), 50, 2);
    writeln!(std::io::stderr(), "{figures}").expect("stderr");
}

#[test]
fn what_lay_on_a_target_that_is_gone_is_copied_to_a_third_one() {
    let mut rack = Rack::new("volume-gone", 3);
    rack.create();
    let mount = rack.mount();
    let writer = |number: u64| {
        let (handle, _) = opened(&mount, Request::Create { path: format!("f{number}") });
        done(&mount, Request::Append { handle, bytes: content(number, 0, 300_000) });
        done(&mount, Request::Sync { handle });
        done(&mount, Request::Close { handle });
    };
    (0..4).for_each(writer);
    mount.unmount().expect("unmounted");
    rack.targets[0].kill();
    // Without `--unreachable`, copies on the unreachable target count as good.
    let repaired = rack.ask(&["volume", "repair", VOLUME]);
    assert!(repaired.contains(" 0 copies made anew"), "{repaired}");
    assert!(repaired.contains("cannot be reached now"), "{repaired}");
    let repaired = rack.ask(&["volume", "repair", "--unreachable", VOLUME]);
    assert!(!repaired.contains(" 0 copies made anew"), "{repaired}");
    assert!(!repaired.contains("cannot be reached now"), "{repaired}");
    rack.targets[1].kill();
    let mount = rack.mount();
    (0..4).for_each(|number| assert_eq!(check(&mount, number), 300_000, "f{number}"));
    mount.unmount().expect("unmounted");
}

/// Not a test by itself: the process that other tests kill.
#[test]
#[ignore = "long: other tests start it, and kill it"]
fn the_client_that_others_kill() {
    let Ok(text) = std::env::var(STORE) else { return };
    let mut parts = text.splitn(3, ' ');
    let mut part = || parts.next().expect("seed, number, store");
    let (seed, number) = (part().parse().expect("a number"), part().parse().expect("a number"));
    let mount = mount(part());
    let Outcome::Names(names) = done(&mount, Request::List { path: String::new() }) else {
        panic!("no names")
    };
    let mut files: Vec<u64> = names.iter().map(|name| name[1..].parse().expect("f and a number")).collect();
    files.sort_unstable();
    let mut stdout = std::io::stdout().lock();
    let mut say = |line: String| writeln!(stdout, "{line}").expect("the killer reads");
    let mut writer = Writer::new(&mount, seed, number, files.into());
    // The test harness may have begun a line.
    say(format!("\nhas {number} 0"));
    loop {
        writer.step(&mount, &mut say);
    }
}

/// Kills the client at random points. Each time all data that it was promised must be there and be correct. With
/// `is_power`, the SSDs of all targets lose power with it.
fn kill_clients(mut rack: Rack, is_power: bool, kills: u64, seed: u64) -> String {
    rack.create();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // The files that must be there, with their least sizes.
    let mut promised: BTreeMap<u64, u64> = BTreeMap::new();
    // One file after this may have been created without a line.
    let mut newest = 0;
    let (mut lines, mut beyond, mut checked) = (0_u64, 0_u64, 0_u64);
    let began = Instant::now();
    for kill in 0..kills {
        let number = newest + 2;
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "the_client_that_others_kill", "--ignored", "--nocapture"])
            .env(STORE, format!("{} {number} {}", seed * 1_000_003 + kill, rack.store()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // Without targets, the client prints errors.
            .stderr(if is_power { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .expect("this test runs once more");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut take = |line: &str| {
            let mut words = line.split(' ');
            let word = words.next();
            let mut value = || words.next().and_then(|word| word.parse::<u64>().ok());
            match (word, value(), value()) {
                (Some("has"), Some(number), _) if is_power => newest = newest.max(number),
                (Some("has" | "synced"), Some(number), Some(size)) => {
                    newest = newest.max(number);
                    promised.insert(number, size);
                }
                (Some("removes"), Some(number), _) => drop(promised.remove(&number)),
                // Lines of the test harness.
                _ => return false,
            }
            true
        };
        // The kill comes at any point of the operation that follows.
        let mut left = random.random_range(1..40);
        while left > 0 {
            let line = stdout.next().expect("the client ended by itself").expect("readable");
            left -= u64::from(take(&line));
        }
        // The targets may be killed before the client.
        let goes_first = is_power && random.random_ratio(1, 2);
        if goes_first {
            rack.targets.iter_mut().for_each(Target::kill);
        }
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        if is_power && !goes_first {
            rack.targets.iter_mut().for_each(Target::kill);
        }
        for line in stdout {
            // A line that was cut off is not a promise.
            lines += u64::from(take(&line.expect("readable")));
        }
        if is_power {
            rack.targets.iter_mut().for_each(Target::restart);
        }
        let mount = rack.mount();
        for (&number, &size) in &promised {
            let found = check(&mount, number);
            assert!(found >= size, "kill {kill}: f{number} has {found} bytes, and {size} were promised");
            checked += found;
            beyond += u64::from(found > size);
        }
        for (number, size) in &mut promised {
            *size = check(&mount, *number);
        }
        mount.unmount().expect("unmounted");
    }
    let scrubbed = rack.ask(&["volume", "scrub", VOLUME]);
    assert!(scrubbed.contains(" 0 corrupt"), "{scrubbed}");
    format!(
        "{kills} kills of the client: {checked} bytes checked, {lines} promises in the last moment, {beyond} files longer than \
         promised, in {:.1?}",
        began.elapsed()
    )
}

#[test]
fn a_killed_client_loses_nothing_that_was_flushed() {
    kill_clients(Rack::new("volume-clients", 2), false, 4, 1);
}

#[test]
fn a_power_loss_of_everything_loses_nothing_that_was_synced() {
    kill_clients(Rack::volatile("volume-dark", 2), true, 4, 4);
}

#[test]
#[ignore = "long: 200 kills of a client"]
fn two_hundred_killed_clients_lose_nothing_that_was_flushed() {
    let figures = kill_clients(Rack::new("volume-clients-long", 2), false, 200, 2);
    writeln!(std::io::stderr(), "{figures}").expect("stderr");
}

#[test]
#[ignore = "long: 50 power losses of everything, and 20 of one target under load"]
fn seventy_power_losses_lose_nothing_that_was_synced() {
    let all = kill_clients(Rack::volatile("volume-dark-long", 2), true, 50, 5);
    let one = kill_targets(Rack::volatile("volume-power-long", 3), 20, 6);
    writeln!(std::io::stderr(), "{all}\n{one}").expect("stderr");
}
