//! Whole worlds by seed: clients that crash, targets that lose power, networks that break, a store that fails, and a
//! fencer that takes the volume from a client that has not noticed it.
//!
//! A failure prints its seed; `BLOB_SEED=n cargo test -p blob --test worlds one_world` replays it.

mod world;

use blob::{Fault, Outcome, Request};
use rand::Rng;
use units::Nanos;
use world::thread::Thread;
use world::{World, settings};

/// The plan of a world.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    /// Crashes of the client, one after the other.
    crashes: u64,
}

/// The final state of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    now: u64,
    random: u64,
    handled: u64,
    operations: u64,
    crashes: u64,
    fenced: u64,
    power_losses: u64,
    degraded: u64,
}

struct Run {
    world: World,
    threads: Vec<Thread>,
    client: usize,
    /// Whether power was lost since the last complete check.
    lost_power: bool,
    mounts: u64,
    end: End,
}

impl Run {
    fn new(seed: u64) -> Run {
        let (targets, ssds) = [(2, 1), (2, 2), (3, 1), (3, 2)][(seed % 4) as usize];
        let mut world = World::new(seed, targets, ssds, 24);
        world.store_odds = [0, 200, 40][(seed / 4 % 3) as usize];
        world.stray_odds = [0, 500, 50][(seed / 12 % 3) as usize];
        let threads = (0..1 + seed % 3).map(Thread::new).collect();
        let mut run = Run { world, threads, client: 0, lost_power: false, mounts: 0, end: End::default() };
        run.mount();
        run
    }

    /// Mounts by a new client, with as many tries as it takes.
    fn mount(&mut self) {
        loop {
            self.mounts += 1;
            assert!(self.mounts < 10_000, "the volume cannot be mounted");
            let client = self.world.add_client(settings(&format!("client-{}", self.mounts)));
            match self.world.call(client, Request::Mount) {
                Outcome::Done => {
                    self.client = client;
                    return;
                }
                Outcome::Failed(Fault::InUse | Fault::Unreachable | Fault::LeaseUnsure | Fault::Fenced) => {
                    self.world.kill(client);
                    self.world.run_for(Nanos::millis(11));
                }
                other => panic!("the mount failed: {other:?}"),
            }
        }
    }

    fn all_up(&mut self) {
        for target in 0..self.world.targets.len() {
            self.world.set_up(target, true);
            self.world.cut(self.client, target, false);
        }
        self.world.clients[self.client].is_store_cut = false;
    }

    /// Lets the threads work for a number of turns, with trouble.
    fn work(&mut self, turns: u64) {
        for _ in 0..turns {
            self.trouble();
            for thread in &mut self.threads {
                thread.turn(&mut self.world, self.client, self.lost_power);
            }
            for _ in 0..self.world.random.random_range(1..20) {
                self.world.step();
            }
        }
    }

    fn trouble(&mut self) {
        let count = self.world.targets.len();
        let target = self.world.random.random_range(0..count);
        match self.world.random.random_range(0..2000) {
            0..6 => {
                self.lost_power = true;
                self.end.power_losses += 1;
                self.world.lose_power(target);
            }
            6..12 => self.world.set_up(target, false),
            12..18 => self.world.cut(self.client, target, true),
            18..48 => {
                self.world.set_up(target, true);
                self.world.cut(self.client, target, false);
            }
            48..50 => self.world.clients[self.client].is_store_cut = true,
            50..70 => self.world.clients[self.client].is_store_cut = false,
            _ => {}
        }
    }

    /// Kills the client; perhaps some targets lose power at the same moment, or are away for a while.
    fn crash(&mut self) {
        self.end.crashes += 1;
        self.count_degraded();
        self.world.kill(self.client);
        for target in 0..self.world.targets.len() {
            match self.world.random.random_range(0..8) {
                0 => {
                    self.lost_power = true;
                    self.end.power_losses += 1;
                    self.world.lose_power(target);
                }
                1 => self.world.set_up(target, false),
                _ => self.world.set_up(target, true),
            }
        }
        if self.world.random.random() {
            // IOs in flight may arrive before the next client reads, or after.
            self.world.run_for(Nanos::millis(5));
        }
        // One target must be reachable for the check.
        let target = self.world.random.random_range(0..self.world.targets.len());
        self.world.set_up(target, true);
        let mut tries = 0;
        self.mounts += 1;
        loop {
            let client = self.world.add_client(settings(&format!("client-{}", self.mounts)));
            self.mounts += 1;
            match self.world.call(client, Request::Mount) {
                Outcome::Done => {
                    self.client = client;
                    break;
                }
                Outcome::Failed(Fault::InUse | Fault::Unreachable | Fault::LeaseUnsure | Fault::Fenced) => {
                    self.world.kill(client);
                    tries += 1;
                    if tries > 8 {
                        (0..self.world.targets.len()).for_each(|target| self.world.set_up(target, true));
                    }
                    assert!(tries < 100, "the volume cannot be mounted");
                    self.world.run_for(Nanos::millis(7));
                }
                other => panic!("the mount failed: {other:?}"),
            }
        }
    }

    /// Lets another client take the volume while the old one is paused, or cut off from the store.
    fn fence(&mut self) {
        let old = self.client;
        self.end.fenced += 1;
        let is_paused = self.world.random.random();
        if is_paused {
            self.world.pause(old);
        } else {
            self.world.clients[old].is_store_cut = true;
            self.work(40);
            self.world.clients[old].is_store_cut = true;
        }
        (0..self.world.targets.len()).for_each(|target| self.world.set_up(target, true));
        self.mount();
        let mut ops = Vec::new();
        self.world.resume(old);
        self.world.clients[old].is_store_cut = false;
        for n in 0..4 {
            let path = format!("late-{n}");
            ops.push(self.world.submit(old, Request::MakeDir { path }));
        }
        ops.push(self.world.submit(old, Request::SyncNames));
        for op in ops {
            let outcome = self.world.wait(old, op);
            assert!(matches!(outcome, Outcome::Failed(_)), "the old client was let: {outcome:?}");
        }
        self.world.kill(old);
    }

    /// Counts the missing copies before the client is gone.
    fn count_degraded(&mut self) {
        let op = self.world.submit(self.client, Request::Show);
        if let Some(Outcome::Shown(shown)) = self.world.clients[self.client].outcomes.remove(&op) {
            self.end.degraded += shown.counters.stale_copies + shown.counters.degraded_extents;
        }
    }

    /// Compares everything with the oracles.
    fn check(&mut self) {
        for thread in &mut self.threads {
            let mut tries = 0;
            let found = loop {
                if let Some(found) = thread.look(&mut self.world, self.client) {
                    break found;
                }
                tries += 1;
                assert!(tries < 100, "files cannot be reached");
                (0..self.world.targets.len()).for_each(|target| self.world.set_up(target, true));
                self.world.run_for(Nanos::millis(10));
            };
            match thread.oracle.check(&found, self.lost_power) {
                Ok(names) => thread.oracle.rebase(names, &found),
                Err(reason) => panic!("{}: {reason}", thread.directory),
            }
            thread.restart();
        }
        self.lost_power = false;
    }

    fn finish(mut self) -> End {
        self.count_degraded();
        self.end.now = self.world.now.0;
        self.end.random = self.world.random.random();
        self.end.handled = self.world.handled;
        self.end.operations = self.threads.iter().map(|thread| thread.done).sum();
        self.end
    }
}

fn run(plan: Plan) -> End {
    let mut run = Run::new(plan.seed);
    for _ in 0..plan.crashes {
        let turns = run.world.random.random_range(1..200);
        run.work(turns);
        if run.world.random.random_ratio(1, 6) {
            run.fence()
        } else {
            run.crash()
        }
        run.check();
        run.all_up();
    }
    run.finish()
}

/// Runs worlds, and prints which one failed.
fn run_all(seeds: std::ops::Range<u64>, crashes: u64) -> End {
    let mut sum = End::default();
    for seed in seeds {
        let end = std::panic::catch_unwind(|| run(Plan { seed, crashes })).unwrap_or_else(|_| {
            panic!(
                "replay: BLOB_SEED={seed} BLOB_CRASHES={crashes} cargo test -p blob --test worlds one_world"
            )
        });
        sum.operations += end.operations;
        sum.crashes += end.crashes;
        sum.fenced += end.fenced;
        sum.power_losses += end.power_losses;
        sum.degraded += end.degraded;
        sum.handled += end.handled;
    }
    sum
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_made_up() {
    let end = run_all(0..36, 4);
    assert!(end.crashes > 80 && end.fenced > 5 && end.power_losses > 20 && end.degraded > 0, "{end:?}");
}

#[test]
#[ignore = "long: 12,000 crash points"]
fn twelve_thousand_crash_points() {
    let end = run_all(1000..1600, 24);
    println!("{end:?}");
    assert!(end.crashes + end.fenced >= 12_000, "{end:?}");
}

/// Regressions: old blocks of a micro blob that came back were taken for new ones (1184); a mega blob was given back
/// twice, the second time after the metadata had got it (1205, 5213); the retry of a failed write undid a later one
/// (5074, 5128); a write counted although the only copy that had it was already stale (5178).
#[test]
fn worlds_that_once_failed_pass() {
    for seed in [1184, 1205, 5074, 5128, 5178, 5213] {
        run_all(seed..seed + 1, 24);
    }
}

#[test]
fn a_seed_replays_its_world() {
    for seed in [5, 23, 31] {
        let plan = Plan { seed, crashes: 3 };
        assert_eq!(run(plan), run(plan), "seed {seed}");
    }
}

#[test]
fn one_world() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    println!("{:?}", run(Plan { seed: number("BLOB_SEED", 1), crashes: number("BLOB_CRASHES", 2) }));
}
