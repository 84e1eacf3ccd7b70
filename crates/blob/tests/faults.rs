//! Claims about single faults: a dead target, a corrupt block, a full repair, a store that is away.

mod world;

use blob::{Class, Fault, Outcome, Request, Settings, SsdId, catalog};
use rand::Rng;
use units::Nanos;
use world::{World, calm, settings};

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(13).wrapping_add(seed)).collect()
}

fn write(world: &mut World, client: usize, path: &str, contents: &[u8]) {
    let handle = world.create(client, path);
    world.done(client, Request::Append { handle, bytes: contents.to_vec() });
    world.done(client, Request::Sync { handle });
    world.done(client, Request::Close { handle });
    world.run_for(Nanos::millis(5));
}

fn shown(world: &mut World, client: usize) -> blob::volume::Shown {
    match world.call(client, Request::Show) {
        Outcome::Shown(shown) => *shown,
        other => panic!("{other:?}"),
    }
}

fn report(world: &mut World, client: usize, request: Request) -> blob::volume::Report {
    match world.call(client, request) {
        Outcome::Report(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dead_target_stops_neither_reads_nor_writes() {
    let (mut world, client) = calm(1);
    write(&mut world, client, "before", &bytes(5000, 1));
    world.set_up(1, false);
    assert_eq!(world.contents(client, "before"), bytes(5000, 1));
    write(&mut world, client, "during", &bytes(5000, 2));
    assert_eq!(world.contents(client, "during"), bytes(5000, 2));
    let now = shown(&mut world, client);
    assert!(now.degraded > 0 && now.metadata_copies == 1, "{now:?}");
    world.set_up(1, true);
    world.run_for(Nanos::millis(200));
    let now = shown(&mut world, client);
    assert_eq!((now.degraded, now.lost, now.metadata_copies), (0, 0, 2), "{now:?}");
    world.set_up(0, false);
    assert_eq!(world.contents(client, "during"), bytes(5000, 2), "the repaired copy is read");
    assert_eq!(world.contents(client, "before"), bytes(5000, 1));
}

#[test]
fn a_volume_mounts_after_one_target_died_and_the_repair_was_done() {
    for dead in 0..2 {
        let (mut world, client) = calm(2 + dead as u64);
        world.set_up(dead, false);
        write(&mut world, client, "f", &bytes(3000, 2));
        world.set_up(dead, true);
        world.run_for(Nanos::millis(300));
        world.kill(client);
        world.set_up(1 - dead, false);
        world.run_for(Nanos::millis(50));
        let next = world.add_client(settings("second"));
        world.done(next, Request::Mount);
        assert_eq!(world.contents(next, "f"), bytes(3000, 2));
    }
}

/// A world in which only the SSD that missed the file `new` can be reached, and the client that wrote it is dead.
fn only_the_outdated_copy() -> World {
    let (mut world, client) = calm(4);
    write(&mut world, client, "old", &bytes(10, 1));
    world.set_up(1, false);
    write(&mut world, client, "new", &bytes(10, 2));
    world.kill(client);
    world.set_up(1, true);
    world.set_up(0, false);
    world.run_for(Nanos::millis(50));
    world
}

#[test]
fn an_outdated_copy_of_the_metadata_is_never_taken() {
    let mut world = only_the_outdated_copy();
    let next = world.add_client(settings("second"));
    assert_eq!(world.call(next, Request::Mount), Outcome::Failed(Fault::Unreachable));
    world.kill(next);
    world.set_up(0, true);
    world.run_for(Nanos::millis(50));
    let next = world.add_client(settings("third"));
    world.done(next, Request::Mount);
    assert_eq!(world.contents(next, "new"), bytes(10, 2));
}

#[test]
fn a_mount_waits_for_the_copy_that_missed_nothing() {
    let mut world = only_the_outdated_copy();
    let next = world.add_client(settings("second"));
    let op = world.submit(next, Request::Mount);
    world.run_for(Nanos::millis(100));
    world.set_up(0, true);
    assert_eq!(world.wait(next, op), Outcome::Done);
    assert_eq!(world.contents(next, "new"), bytes(10, 2));
}

#[test]
fn what_stays_open_is_repaired_as_well() {
    for synced in [true, false] {
        let (mut world, client) = calm(5);
        let handle = world.create(client, "log");
        let add = |world: &mut World, seed: u8| {
            world.done(client, Request::Append { handle, bytes: bytes(150, seed) });
            let end = if synced { Request::Sync { handle } } else { Request::Flush { handle } };
            world.done(client, end);
        };
        add(&mut world, 1);
        world.set_up(1, false);
        add(&mut world, 2);
        world.set_up(1, true);
        world.run_for(Nanos::millis(200));
        let now = shown(&mut world, client);
        assert_eq!((now.degraded, now.lost), (0, 0), "{now:?}");
        world.set_up(0, false);
        add(&mut world, 3);
        let all: Vec<u8> = (1..=3).flat_map(|seed| bytes(150, seed)).collect();
        assert_eq!(world.contents(client, "log"), all);
        // It is the same after a crash, with the copy that was made.
        world.kill(client);
        world.run_for(Nanos::millis(50));
        let next = world.add_client(settings("second"));
        world.done(next, Request::Mount);
        assert_eq!(world.contents(next, "log"), all);
    }
}

#[test]
fn a_read_waits_for_an_ssd_that_comes_back() {
    for back in 0..2 {
        let (mut world, client) = calm(5);
        write(&mut world, client, "f", &bytes(500, 1));
        let (handle, length) = world.open(client, "f");
        world.set_up(0, false);
        world.set_up(1, false);
        let op = world.submit(client, Request::Read { handle, offset: 0, length, class: Class::Normal });
        world.run_for(Nanos::millis(100));
        world.set_up(back, true);
        assert_eq!(world.wait(client, op), Outcome::Bytes(bytes(500, 1)));
    }
}

#[test]
fn without_any_copy_a_read_fails() {
    let (mut world, client) = calm(5);
    write(&mut world, client, "f", &bytes(500, 1));
    let (handle, size) = world.open(client, "f");
    world.set_up(0, false);
    world.set_up(1, false);
    let read = Request::Read { handle, offset: 0, length: size, class: Class::Normal };
    assert_eq!(world.call(client, read.clone()), Outcome::Failed(Fault::Unreachable));
    world.set_up(0, true);
    world.run_for(Nanos::millis(5));
    assert_eq!(world.call(client, read), Outcome::Bytes(bytes(500, 1)));
}

/// Flips a bit in every block of one target that contains these bytes.
fn corrupt(world: &mut World, target: usize, pattern: &[u8]) -> u64 {
    let mut count = 0;
    for ssd in world.targets[target].ssds.clone() {
        let disk = world.disks.get_mut(&ssd).expect("it exists");
        for block in disk.blocks() {
            let contents = disk.read(block * 128, 128);
            if contents[..8] != [0; 8] && contents.windows(pattern.len()).any(|part| part == pattern) {
                assert!(disk.corrupt(block, 48 * 8 + 5));
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_scrub_finds_and_repairs_every_corrupt_block() {
    let (mut world, client) = calm(6);
    write(&mut world, client, "f", &[7; 2000]);
    let count = corrupt(&mut world, 0, &[7; 20]);
    assert!(count >= 25, "{count} blocks");
    let found = report(&mut world, client, Request::Scrub);
    assert_eq!((found.corrupt, found.lost, found.left), (count, 0, 0), "{found:?}");
    assert!(found.repaired > 0);
    world.set_up(1, false);
    assert_eq!(world.contents(client, "f"), [7; 2000]);
    world.set_up(1, true);
    world.run_for(Nanos::millis(20));
    let again = report(&mut world, client, Request::Scrub);
    assert_eq!((again.corrupt, again.repaired), (0, 0), "{again:?}");
}

#[test]
fn a_scrub_says_what_it_could_not_see() {
    let (mut world, client) = calm(61);
    write(&mut world, client, "f", &[7; 2000]);
    let whole = report(&mut world, client, Request::Scrub);
    assert!(whole.checked > 0 && whole.checked.is_multiple_of(2) && whole.away == 0, "{whole:?}");
    world.set_up(1, false);
    let found = report(&mut world, client, Request::Scrub);
    assert_eq!((found.checked, found.corrupt, found.lost), (whole.checked / 2, 0, 0), "{found:?}");
    assert!(found.away > 0, "{found:?}");
    world.set_up(1, true);
    world.run_for(Nanos::millis(50));
    assert_eq!(report(&mut world, client, Request::Scrub), whole);
}

#[test]
fn a_read_serves_the_other_copy_of_a_corrupt_block() {
    let (mut world, client) = calm(7);
    write(&mut world, client, "f", &[9; 2000]);
    corrupt(&mut world, 0, &[9; 20]);
    for _ in 0..4 {
        assert_eq!(world.contents(client, "f"), [9; 2000]);
    }
    world.run_for(Nanos::millis(100));
    let now = shown(&mut world, client);
    assert!(now.counters.corrupt_blocks > 0 && now.degraded == 0, "{now:?}");
}

#[test]
fn both_copies_corrupt_is_an_error_and_not_data() {
    let (mut world, client) = calm(8);
    write(&mut world, client, "f", &[9; 2000]);
    corrupt(&mut world, 0, &[9; 20]);
    corrupt(&mut world, 1, &[9; 20]);
    let (handle, size) = world.open(client, "f");
    let read = Request::Read { handle, offset: 0, length: size, class: Class::Normal };
    assert_eq!(world.call(client, read), Outcome::Failed(Fault::Corrupt));
    let found = report(&mut world, client, Request::Scrub);
    assert!(found.lost > 0, "{found:?}");
}

#[test]
fn a_power_loss_between_write_and_sync_marks_the_copy_stale() {
    let (mut world, client) = calm(9);
    let handle = world.create(client, "f");
    world.done(client, Request::Append { handle, bytes: bytes(5000, 3) });
    world.done(client, Request::Flush { handle });
    world.lose_power(0);
    world.run_for(Nanos::millis(1));
    world.done(client, Request::Sync { handle });
    assert!(shown(&mut world, client).counters.stale_copies > 0);
    world.done(client, Request::Close { handle });
    world.run_for(Nanos::millis(200));
    assert_eq!(shown(&mut world, client).degraded, 0);
    world.set_up(1, false);
    assert_eq!(world.contents(client, "f"), bytes(5000, 3));
}

#[test]
fn a_store_that_is_away_for_less_than_the_lease_is_not_noticed() {
    let (mut world, client) = calm(10);
    // Allow everything but new mega blobs, which come from the store.
    write(&mut world, client, "e", &bytes(100, 1));
    world.clients[client].is_store_cut = true;
    world.run_for(Nanos::millis(10));
    write(&mut world, client, "f", &bytes(100, 1));
    world.clients[client].is_store_cut = false;
    world.run_for(Nanos::millis(100));
    write(&mut world, client, "g", &bytes(100, 1));
}

#[test]
fn after_the_lease_ran_out_a_client_goes_on_if_no_other_came() {
    let (mut world, client) = calm(11);
    world.clients[client].is_store_cut = true;
    world.run_for(Nanos::millis(100));
    let op = world.submit(client, Request::MakeDir { path: "d".to_owned() });
    world.run_for(Nanos::millis(50));
    assert!(!world.clients[client].outcomes.contains_key(&op), "acknowledged without a lease");
    world.clients[client].is_store_cut = false;
    assert_eq!(world.wait(client, op), Outcome::Done);
}

#[test]
fn a_client_that_cannot_reach_the_store_gives_up_in_time() {
    let (mut world, client) = calm(12);
    world.clients[client].is_store_cut = true;
    world.run_for(Nanos::millis(60));
    let began = world.now;
    let outcome = world.call(client, Request::MakeDir { path: "d".to_owned() });
    assert_eq!(outcome, Outcome::Failed(Fault::LeaseUnsure));
    assert!(world.now.since(began) <= Nanos::millis(210), "{}", world.now.since(began));
}

#[test]
fn a_volume_in_use_is_not_mounted_again_and_an_absent_one_not_at_all() {
    let (mut world, _) = calm(13);
    let other = world.add_client(settings("second"));
    assert_eq!(world.call(other, Request::Mount), Outcome::Failed(Fault::InUse));
    let absent = world.add_client(blob::Settings { name: "none".to_owned(), ..settings("third") });
    assert_eq!(world.call(absent, Request::Mount), Outcome::Failed(Fault::NoVolume));
}

#[test]
fn copies_of_a_block_lie_on_two_targets() {
    let (mut world, client) = calm(14);
    write(&mut world, client, "f", &[5; 4000]);
    for target in 0..2 {
        let ssds: Vec<SsdId> = world.targets[target].ssds.clone();
        let count: usize = ssds
            .iter()
            .map(|ssd| {
                let disk = &world.disks[ssd];
                disk.blocks().iter().filter(|&&block| disk.read(block * 128, 128)[48..68] == [5; 20]).count()
            })
            .sum();
        assert_eq!(count, 4000 / 80, "blocks of the file on target {target}");
    }
}

/// A mount finds the end of a file that was not closed by reading until a block is missing. So a replaced copy must
/// also have the blocks whose bytes were written again elsewhere.
#[test]
fn a_repaired_copy_alone_has_all_of_a_file_that_was_partly_written_again() {
    for dead in 0..2 {
        let (mut world, client) = calm(20 + dead as u64);
        world.set_up(dead, false);
        let handle = world.create(client, "f");
        // 80 bytes in a block, four blocks in a micro blob. The second writing replaces blocks 1 to 3.
        world.done(client, Request::Append { handle, bytes: bytes(320, 1) });
        world.done(client, Request::Flush { handle });
        world.done(client, Request::WriteAt { handle, offset: 80, bytes: bytes(320, 1)[80..].to_vec() });
        world.done(client, Request::Append { handle, bytes: bytes(1000, 3) });
        world.done(client, Request::Flush { handle });
        world.set_up(dead, true);
        world.run_for(Nanos::millis(300));
        // A micro blob that is being written to is repaired when the file continues in the next one.
        world.done(client, Request::Append { handle, bytes: bytes(1000, 4) });
        world.done(client, Request::Flush { handle });
        world.run_for(Nanos::millis(300));
        assert_eq!(report(&mut world, client, Request::Repair).left, 0);
        world.kill(client);
        world.set_up(1 - dead, false);
        world.run_for(Nanos::millis(50));
        let next = world.add_client(settings("second"));
        world.done(next, Request::Mount);
        assert_eq!(world.contents(next, "f"), [bytes(320, 1), bytes(1000, 3), bytes(1000, 4)].concat());
    }
}

/// A crash may leave blocks behind the end of a file. Their micro blob is released, and may come back to the same file
/// at the same place. A later mount must not take those old blocks for new ones.
#[test]
fn old_blocks_in_a_micro_blob_that_came_back_are_not_found_again() {
    let mut came_back = 0;
    for seed in 0..300 {
        let mut world = World::new(seed, 2, 1, 4);
        world.ignores_trims = true;
        let client = world.add_client(settings("first"));
        world.done(client, Request::Mount);
        let handle = world.create(client, "f");
        world.stray_odds = 3;
        // Short blocks in flight at the same time. Some writes have not arrived when the client dies and the targets
        // are cut off.
        for n in 0..16 {
            world.submit(client, Request::Append { handle, bytes: vec![n; 30] });
            world.submit(client, Request::Sync { handle });
        }
        for _ in 0..world.random.random_range(40..160) {
            world.step();
        }
        world.kill(client);
        world.stray_odds = 0;
        (0..2).for_each(|target| world.set_up(target, false));
        world.run_for(Nanos::millis(100));
        (0..2).for_each(|target| world.set_up(target, true));

        let second = world.add_client(settings("second"));
        world.done(second, Request::Mount);
        let begin = world.contents(second, "f");
        assert!(
            (0..16).flat_map(|n| vec![n; 30]).zip(&begin).all(|(wrote, found)| wrote == *found),
            "seed {seed}"
        );
        // Wait until the space that the first mount did not use is free.
        world.run_for(Nanos::millis(100));
        let Outcome::Opened { handle, .. } = world.call(second, Request::Reopen { path: "f".to_owned() })
        else {
            panic!("the file is there")
        };
        world.done(second, Request::Append { handle, bytes: vec![99; 70] });
        world.done(second, Request::Flush { handle });
        came_back += u64::from(begin.len() < 16 * 30);
        world.kill(second);
        world.run_for(Nanos::millis(100));

        let third = world.add_client(settings("third"));
        world.done(third, Request::Mount);
        let found = world.contents(third, "f");
        assert_eq!(found, [begin, vec![99; 70]].concat(), "seed {seed}");
    }
    assert!(came_back > 50, "{came_back} of the worlds had lost something");
}

#[test]
fn a_volume_that_holds_the_last_free_space_uses_it_for_its_metadata() {
    for dead in 0..3 {
        // Two mega blobs on each of three SSDs: metadata and data on two of them, data and a free one on the third.
        let mut world = World::new(20 + dead as u64, 3, 1, 2);
        let client = world.add_client(settings("first"));
        world.done(client, Request::Mount);
        write(&mut world, client, "small", &bytes(3000, 1));
        let handle = world.create(client, "large");
        let append = Request::Append { handle, bytes: bytes(6000, 2) };
        while world.call(client, append.clone()) == Outcome::Done {}
        world.call(client, Request::Close { handle });
        world.done(client, Request::Unlink { path: "large".to_owned() });
        world.run_for(Nanos::millis(200));
        world.set_up(dead, false);
        // A missing copy of the metadata is noticed when a change is recorded.
        write(&mut world, client, "during", &bytes(1000, 3));
        world.run_for(Nanos::millis(500));
        let now = shown(&mut world, client);
        assert_eq!(
            (now.degraded, now.lost, now.metadata_copies),
            (0, 0, 2),
            "without target {dead}: {now:?}"
        );
        assert_eq!(world.contents(client, "small"), bytes(3000, 1));
        world.kill(client);
        let next = world.add_client(Settings { lock_patience: Nanos::secs(1), ..settings("next") });
        world.done(next, Request::Mount);
        assert_eq!(world.contents(next, "small"), bytes(3000, 1));
    }
}

#[test]
fn a_mount_gives_back_what_the_one_before_has_left_empty() {
    let mut world = World::new(31, 2, 1, 8);
    let client = world.add_client(settings("first"));
    world.done(client, Request::Mount);
    write(&mut world, client, "large", &bytes(200_000, 2));
    world.done(client, Request::Unlink { path: "large".to_owned() });
    let used = |world: &mut World| -> Vec<u32> {
        let ssds = catalog::ssds(&mut world.store).expect("the model answers");
        ssds.iter().map(|ssd| ssd.used).collect()
    };
    assert!(used(&mut world).iter().all(|used| *used >= 4), "three for data, one for metadata");
    world.kill(client);
    let next = world.add_client(Settings { lock_patience: Nanos::secs(1), ..settings("next") });
    world.done(next, Request::Mount);
    world.run_for(Nanos::millis(500));
    assert_eq!(used(&mut world), [2, 2], "the metadata, and one for the next data");
}

#[test]
fn what_lay_on_a_target_that_does_not_come_back_gets_another_second_copy() {
    for (dead, then) in [(0, 1), (1, 2), (2, 0)] {
        let mut world = World::new(40 + dead as u64, 3, 1, 8);
        let client = world.add_client(settings("first"));
        world.done(client, Request::Mount);
        write(&mut world, client, "f", &bytes(20_000, 1));
        world.set_up(dead, false);
        write(&mut world, client, "g", &bytes(3000, 2));
        world.run_for(Nanos::millis(40));
        let now = shown(&mut world, client);
        assert_eq!((now.degraded, now.counters.repaired_extents), (0, 0), "it may come back soon: {now:?}");
        world.run_for(Nanos::millis(400));
        let now = shown(&mut world, client);
        assert!(
            now.degraded == 0 && now.counters.repaired_extents > 0 && now.metadata_copies == 2,
            "{now:?}"
        );
        // Now another target may fail.
        world.set_up(then, false);
        assert_eq!(world.contents(client, "f"), bytes(20_000, 1));
        assert_eq!(world.contents(client, "g"), bytes(3000, 2));
        world.set_up(then, true);
        world.set_up(dead, true);
        world.run_for(Nanos::millis(200));
        let report = report(&mut world, client, Request::Scrub);
        assert_eq!((report.corrupt, report.lost, report.left), (0, 0, 0));
    }
}

#[test]
fn with_two_targets_one_that_is_away_keeps_its_copies() {
    let (mut world, client) = calm(5);
    write(&mut world, client, "f", &bytes(20_000, 1));
    world.set_up(1, false);
    world.run_for(Nanos::secs(2));
    let now = shown(&mut world, client);
    assert_eq!((now.degraded, now.counters.repaired_extents), (0, 0), "there is nowhere to copy to: {now:?}");
    world.set_up(1, true);
    world.run_for(Nanos::millis(20));
    world.set_up(0, false);
    assert_eq!(world.contents(client, "f"), bytes(20_000, 1));
}
