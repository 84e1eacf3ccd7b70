//! Runs a few hundred random worlds with all checkers on. `GIMBAL_SEED=n` replays one, `GIMBAL_WORLDS=n` runs
//! more.

use sched::{Needs, PapersDrive, Scheduler};
use sim::{Disturbance, PolicyChoice};
use ssd::Image;
use std::env;
use std::thread;
use units::{Instant, Nanos, TenantId};

/// Number of worlds by default.
const WORLDS: u64 = 300;
/// Number of worlds for each scheduler.
const WORLDS_EACH: u64 = 12;
/// Time between two disturbances.
const EVERY: Nanos = Nanos::micros(700);

fn from_env(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a whole number")))
}

fn run(seed: u64) -> u64 {
    let world = sim::random::world(seed);
    match sim::run(&world) {
        Ok(results) => results.fingerprint,
        Err(violation) => panic!(
            "world {seed}: {violation}\nreplay: GIMBAL_SEED={seed} cargo test -p sim --test random_worlds -- --nocapture"
        ),
    }
}

#[test]
fn nothing_goes_wrong_in_any_world() {
    if let Some(seed) = from_env("GIMBAL_SEED") {
        println!("{:#?}", sim::random::world(seed));
        run(seed);
        return;
    }
    let worlds = from_env("GIMBAL_WORLDS").unwrap_or(WORLDS);
    let workers = thread::available_parallelism().map_or(1, |n| n.get()) as u64;
    thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || (worker..worlds).step_by(workers as usize).for_each(|seed| _ = run(seed)));
        }
    });
}

#[test]
fn one_seed_gives_the_same_run_every_time() {
    for seed in 0..8 {
        assert_eq!(run(seed), run(seed), "world {seed} differs from itself");
    }
}

#[test]
fn the_points_of_a_series_add_up_to_the_whole() {
    for seed in 0..20 {
        let world = sim::random::world(seed);
        let results = sim::run(&world).unwrap_or_else(|violation| panic!("world {seed}: {violation}"));
        for tenant in &results.tenants {
            let mut all = sim::Point::default();
            for point in &tenant.series {
                all.read.add(point.read);
                all.write.add(point.write);
            }
            let whole = [(tenant.read.ios, tenant.read.bytes), (tenant.write.ios, tenant.write.bytes)];
            assert_eq!(
                [(all.read.ios, all.read.bytes), (all.write.ios, all.write.bytes)],
                whole,
                "world {seed}"
            );
        }
        let shown = results.views.iter().map(|(at, _)| at.since(units::Instant::ZERO).0 % world.interval.0);
        assert!(
            shown.clone().all(|beyond| beyond == 0),
            "world {seed}: a report that is not at the end of an interval"
        );
        let row = world.policy.scheduler();
        let gimbal =
            [Scheduler::GIMBAL, Scheduler::GIMBAL_TEXT, Scheduler::LEVEL_CALIBRATED, Scheduler::LEVEL]
                .contains(&row);
        assert_eq!(
            shown.len() > 0,
            gimbal,
            "world {seed}: only Gimbal and LevelCalibrated report their state"
        );
    }
}

/// Random tenants before each scheduler of the table, with the constants of the paper's drive.
#[test]
fn random_worlds_hold_before_every_scheduler() {
    let drive = PapersDrive::new();
    for row in Scheduler::ALL {
        let policy = match row.needs {
            Needs::Rates => PolicyChoice::Measured(row),
            Needs::Nothing | Needs::Calibration => {
                PolicyChoice::Ready(row.set_up(&drive.facts()).expect("all is known of the drive"))
            }
        };
        for seed in 0..WORLDS_EACH {
            let world = sim::World { policy: policy.clone(), ..sim::random::world(seed) };
            if let Err(violation) = sim::run(&world) {
                panic!("world {seed} before {}: {violation}", row.name);
            }
        }
    }
}

/// Schedulers are exchanged under load, each for the next of the table, and tenants take IOs back.
#[test]
fn random_worlds_hold_while_schedulers_change_and_ios_are_taken_back() {
    let drive = PapersDrive::new();
    let set_up = |row: &Scheduler| row.set_up(&drive.facts()).expect("all is known of the drive");
    for (first, row) in Scheduler::ALL.into_iter().enumerate() {
        for seed in 0..WORLDS_EACH {
            let world = sim::random::world(seed);
            let next = Scheduler::ALL.into_iter().cycle().skip(first + 1);
            let tenants = (0..world.tenants.len() as u32).map(TenantId).cycle();
            let disturbances: Vec<(Instant, Disturbance)> = (1..40)
                .zip(next.zip(tenants))
                .map(|(number, (next, tenant))| {
                    let disturbance = match number % 3 {
                        0 => Disturbance::Replace(set_up(next)),
                        _ => Disturbance::Withdraw(tenant),
                    };
                    (Instant(number * EVERY.0), disturbance)
                })
                .collect();
            let image = Image::new(&world.profile, world.condition, world.seed);
            if let Err(violation) = sim::run_disturbed(&world, set_up(row).build(), &image, &disturbances) {
                panic!("world {seed}, at first before {}: {violation}", row.name);
            }
        }
    }
}
