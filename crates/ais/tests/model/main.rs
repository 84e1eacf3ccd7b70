//! A stage against a naive model: random IOs that overlap and end in any order, crashes at any point, failing devices.
//!
//! The model knows of each sector which values were written when, and which of them were answered and flushed. A seed that fails is in the
//! message.

mod history;
mod media;
mod world;

use ais::{LogError, OpenLog};
use world::{Plan, Seen, World};

const PLAN: Plan = Plan {
    seed: 0,
    has_log: true,
    store_fails: 0,
    store_recovers: false,
    drive_fails: 0,
    steps: 1500,
    depth: 8,
    flushes: 10,
};

/// Seeds from `from` on, whose worlds are all of the sorts that a test wants.
fn worlds(from: u64, count: u64, plan: impl Fn(Plan) -> Plan, lives: u32) -> Seen {
    let mut sum = Seen::default();
    for seed in from..from + count {
        let base =
            Plan { seed, depth: 1 + seed as usize % 16, flushes: [0, 3, 10, 60][seed as usize % 4], ..PLAN };
        let mut world = World::new(plan(base));
        for life in 0..lives {
            world.live();
            if life + 1 < lives {
                world.crash((seed + u64::from(life)).is_multiple_of(2));
            }
        }
        world.settle();
        sum.diverted += world.seen.diverted;
        sum.returned += world.seen.returned;
        sum.served += world.seen.served;
        sum.replayed += world.seen.replayed;
        sum.given_up += world.seen.given_up;
        sum.answered += world.seen.answered;
    }
    println!("{sum:?}");
    sum
}

fn with_a_log(from: u64, count: u64) {
    let seen = worlds(from, count, |plan| plan, 4);
    assert!(
        seen.diverted > 100 * count && seen.served > 10 * count && seen.replayed > 10 * count,
        "{seen:?}"
    );
}

fn in_memory(from: u64, count: u64) {
    let seen = worlds(from, count, |plan| Plan { has_log: false, flushes: plan.seed as u32 % 3, ..plan }, 3);
    assert!(seen.diverted > 10 * count && seen.returned > 0, "{seen:?}");
}

fn with_a_failing_store(from: u64, count: u64) {
    let plan = |plan: Plan| Plan {
        store_fails: [1, 4, 50][plan.seed as usize % 3],
        store_recovers: plan.seed % 5 < 2,
        ..plan
    };
    let seen = worlds(from, count, plan, 3);
    assert!(seen.given_up > count / 4, "{seen:?}");
}

fn with_a_failing_ssd(from: u64, count: u64) {
    worlds(from, count, |plan| Plan { drive_fails: 20, has_log: plan.seed % 2 == 0, ..plan }, 3);
}

#[test]
fn what_is_answered_stays_and_what_is_flushed_survives_with_a_log() {
    with_a_log(0, 60);
}

#[test]
fn what_is_answered_is_read_and_what_is_flushed_survives_with_memory() {
    in_memory(0, 40);
}

#[test]
fn a_failing_store_loses_nothing() {
    with_a_failing_store(0, 60);
}

#[test]
fn a_failing_ssd_does_not_confuse_what_is_promised() {
    with_a_failing_ssd(0, 24);
}

#[test]
#[ignore = "minutes: the four tests above with many more seeds"]
fn the_same_with_thousands_of_worlds() {
    with_a_log(1_000, 1_000);
    in_memory(1_000, 500);
    with_a_failing_store(1_000, 1_000);
    with_a_failing_ssd(1_000, 400);
}

#[test]
fn damage_in_a_durable_record_is_found() {
    // A flush at the end: everything in the log is durable.
    let mut found = 0;
    for seed in 0..3 {
        let mut world = World::new(Plan { seed, flushes: 0, ..PLAN });
        world.live();
        world.flush();
        let whole = world.store().clone();
        let log = OpenLog::open(&mut whole.clone(), &world::options([1; 16])).expect("it is whole");
        let durable: Vec<u64> = world.durable_blocks(&log);
        for at in durable.into_iter().step_by(5) {
            let mut damaged = whole.clone();
            damaged.current[at as usize] ^= 0x10;
            match OpenLog::open(&mut damaged, &world::options([1; 16])) {
                Err(LogError::Damaged { .. }) => found += 1,
                other => {
                    panic!("seed {seed}: byte {at} has changed, and: {:?}", other.map(|log| log.pending()))
                }
            }
        }
    }
    assert!(found > 100, "{found} changed bytes");
}

#[test]
fn a_log_of_another_ssd_is_refused_while_it_has_data() {
    let mut world = World::new(Plan { flushes: 0, ..PLAN });
    world.live();
    let other = ais::LogOptions { identity: "another".to_owned(), ..world::options([1; 16]) };
    let refused = OpenLog::open(&mut world.store().clone(), &other);
    assert!(matches!(refused, Err(LogError::OtherSsd { .. })), "{refused:?}");
    world.settle();
    let log = OpenLog::open(world.store(), &other).expect("it is empty");
    assert_eq!(log.pending(), 0);
}

#[test]
fn what_is_no_log_is_refused() {
    let mut device = media::Device::new(ais::SIZE_MIN as usize);
    device.write(5000, b"somebody's data", true);
    let refused = OpenLog::open(&mut device, &world::options([1; 16]));
    assert!(matches!(refused, Err(LogError::Foreign)), "{refused:?}");
}
