//! Claims about files on a rack without faults: what POSIX and RocksDB expect.

mod world;

use blob::{Class, Fault, Outcome, Request, Stat};
use std::collections::BTreeMap;
use units::Nanos;
use world::{World, calm, settings};

fn text(path: &str) -> String {
    path.to_owned()
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn stat(world: &mut World, client: usize, path: &str) -> Stat {
    match world.call(client, Request::Stat { path: text(path) }) {
        Outcome::Stat(stat) => stat,
        other => panic!("{path}: {other:?}"),
    }
}

fn names(world: &mut World, client: usize, path: &str) -> Vec<String> {
    match world.call(client, Request::List { path: text(path) }) {
        Outcome::Names(names) => names,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn what_was_appended_is_read_at_once() {
    let (mut world, client) = calm(1);
    let handle = world.create(client, "f");
    let all = bytes(5000, 1);
    let (reader, _) = world.open(client, "f");
    let mut appended = 0;
    for length in [1, 79, 80, 81, 0, 500, 3, 4000] {
        world.done(client, Request::Append { handle, bytes: all[appended..appended + length].to_vec() });
        appended += length;
        assert_eq!(world.call(client, Request::Size { handle }), Outcome::Size(appended as u64));
        let read = world
            .call(client, Request::Read { handle: reader, offset: 0, length: 10_000, class: Class::Normal });
        assert_eq!(read, Outcome::Bytes(all[..appended].to_vec()));
    }
    for (offset, length) in [(0, 1), (79, 2), (80, 80), (4743, 1), (4000, 9000), (5000, 1)] {
        let read = world.call(client, Request::Read { handle: reader, offset, length, class: Class::Normal });
        let from = (offset as usize).min(appended);
        let upto = (from + length as usize).min(appended);
        assert_eq!(read, Outcome::Bytes(all[from..upto].to_vec()), "{length} bytes at {offset}");
    }
}

#[test]
fn a_new_file_takes_the_name_and_readers_keep_the_old_one() {
    let (mut world, client) = calm(2);
    let old = world.create(client, "f");
    world.done(client, Request::Append { handle: old, bytes: bytes(300, 1) });
    world.done(client, Request::Close { handle: old });
    let (reader, _) = world.open(client, "f");
    let new = world.create(client, "f");
    world.done(client, Request::Append { handle: new, bytes: bytes(200, 2) });
    world.done(client, Request::Close { handle: new });
    world.run_for(Nanos::millis(50));
    let read =
        world.call(client, Request::Read { handle: reader, offset: 0, length: 999, class: Class::Normal });
    assert_eq!(read, Outcome::Bytes(bytes(300, 1)));
    assert_eq!(world.contents(client, "f"), bytes(200, 2));
}

#[test]
fn a_rename_replaces_and_links_count() {
    let (mut world, client) = calm(3);
    world.done(client, Request::MakeDir { path: text("/db/") });
    for (name, seed) in [("db/a", 1), ("db/b", 2)] {
        let handle = world.create(client, name);
        world.done(client, Request::Append { handle, bytes: bytes(100, seed) });
        world.done(client, Request::Close { handle });
    }
    world.done(client, Request::Link { from: text("db/a"), to: text("db/c") });
    assert_eq!(stat(&mut world, client, "db/a").links, 2);
    assert_eq!(stat(&mut world, client, "db/a").file, stat(&mut world, client, "db/c").file);
    world.done(client, Request::Rename { from: text("db/b"), to: text("db/a") });
    assert_eq!(names(&mut world, client, "db"), ["a", "c"]);
    assert_eq!(world.contents(client, "db/a"), bytes(100, 2));
    assert_eq!(world.contents(client, "db/c"), bytes(100, 1));
    assert_eq!(stat(&mut world, client, "db/c").links, 1);
    let failures = [
        (Request::Unlink { path: text("db/none") }, Fault::NotFound),
        (Request::Unlink { path: text("db") }, Fault::WrongKind),
        (Request::RemoveDir { path: text("db") }, Fault::NotEmpty),
        (Request::MakeDir { path: text("db") }, Fault::Exists),
        (Request::Create { path: text("none/x") }, Fault::NotFound),
        (Request::Create { path: text("db/a/x") }, Fault::WrongKind),
        (Request::Link { from: text("db/a"), to: text("db/c") }, Fault::Exists),
        (Request::Rename { from: text("db"), to: text("db/below") }, Fault::Invalid),
        (Request::List { path: text("none") }, Fault::NotFound),
    ];
    for (request, fault) in failures {
        let shown = format!("{request:?}");
        assert_eq!(world.call(client, request), Outcome::Failed(fault), "{shown}");
    }
}

#[test]
fn a_file_can_be_cut_and_appended_to_again() {
    let (mut world, client) = calm(4);
    let handle = world.create(client, "f");
    world.done(client, Request::Append { handle, bytes: bytes(1000, 1) });
    world.done(client, Request::Truncate { handle, size: 333 });
    world.done(client, Request::Append { handle, bytes: bytes(50, 9) });
    world.done(client, Request::Close { handle });
    let expected = [&bytes(1000, 1)[..333], &bytes(50, 9)].concat();
    assert_eq!(world.contents(client, "f"), expected);
    world.run_for(Nanos::millis(20));
    let Outcome::Opened { handle, size } = world.call(client, Request::Reopen { path: text("f") }) else {
        panic!("not reopened")
    };
    assert_eq!(size, 383);
    world.done(client, Request::Append { handle, bytes: bytes(5, 3) });
    world.done(client, Request::Truncate { handle, size: 500 });
    let expected = [expected, bytes(5, 3), vec![0; 112]].concat();
    assert_eq!(world.contents(client, "f"), expected);
}

#[test]
fn the_end_of_a_file_can_be_written_again() {
    let (mut world, client) = calm(5);
    let handle = world.create(client, "f");
    let all = bytes(2000, 1);
    let mut page = vec![0; 256];
    for step in 0..7 {
        let upto = step * 256 + 100;
        page[..100].copy_from_slice(&all[step * 256..upto]);
        world.done(client, Request::WriteAt { handle, offset: step as u64 * 256, bytes: page.clone() });
        world.done(client, Request::Sync { handle });
        let rest = all[step * 256..step * 256 + 256].to_vec();
        world.done(client, Request::WriteAt { handle, offset: step as u64 * 256, bytes: rest });
    }
    assert_eq!(world.contents(client, "f"), all[..7 * 256]);
    let inside = Request::WriteAt { handle, offset: 0, bytes: vec![1] };
    assert_eq!(world.call(client, inside), Outcome::Failed(Fault::Invalid));
}

#[test]
fn everything_is_there_after_the_next_mount() {
    let (mut world, client) = calm(6);
    world.done(client, Request::MakeDir { path: text("db") });
    for n in 0..10u8 {
        let handle = world.create(client, &format!("db/{n}"));
        world.done(client, Request::Append { handle, bytes: bytes(n as usize * 150, n) });
        if n % 2 == 0 {
            world.done(client, Request::Close { handle });
        }
    }
    world.done(client, Request::Unmount);
    assert_eq!(world.call(client, Request::List { path: text("db") }), Outcome::Failed(Fault::NotMounted));
    let next = world.add_client(settings("second"));
    world.done(next, Request::Mount);
    for n in 0..10u8 {
        assert_eq!(world.contents(next, &format!("db/{n}")), bytes(n as usize * 150, n));
    }
    assert_eq!(names(&mut world, next, "db").len(), 10);
}

#[test]
fn space_of_removed_files_is_used_again() {
    let (mut world, client) = calm(7);
    // Six times the space of all SSDs.
    for round in 0..96u8 {
        let handle = world.create(client, "big");
        world.done(client, Request::Append { handle, bytes: bytes(60_000, round) });
        world.done(client, Request::Sync { handle });
        world.done(client, Request::Close { handle });
        assert_eq!(world.contents(client, "big"), bytes(60_000, round));
    }
}

#[test]
fn what_is_asked_for_after_appends_finds_them_in_order_though_they_wait_for_room() {
    for (seed, is_sync) in [(20, false), (21, true)] {
        let (mut world, client) = calm(seed);
        let handle = world.create(client, "f");
        let all = bytes(10_000, 7);
        // The first append exceeds the window, so the others have to wait.
        let cuts = [0, 9000, 9001, 9600, 10_000];
        let pieces = cuts.windows(2).map(|cut| all[cut[0]..cut[1]].to_vec());
        let appends: Vec<_> =
            pieces.map(|bytes| world.submit(client, Request::Append { handle, bytes })).collect();
        let size = world.submit(client, Request::Size { handle });
        let stat = world.submit(client, Request::Stat { path: text("f") });
        let read =
            world.submit(client, Request::Read { handle, offset: 8990, length: 2000, class: Class::Normal });
        world.done(client, if is_sync { Request::Sync { handle } } else { Request::Flush { handle } });
        assert_eq!(world.wait(client, size), Outcome::Size(10_000));
        assert!(matches!(world.wait(client, stat), Outcome::Stat(stat) if stat.size == 10_000));
        assert_eq!(world.wait(client, read), Outcome::Bytes(all[8990..].to_vec()));
        for append in appends {
            assert_eq!(world.wait(client, append), Outcome::Done);
        }
        world.kill(client);
        world.run_for(Nanos::secs(10));
        let next = world.add_client(settings("next"));
        world.done(next, Request::Mount);
        assert_eq!(world.contents(next, "f"), all);
    }
}

#[test]
fn a_full_volume_says_so_and_goes_on_when_there_is_space() {
    let mut world = World::new(8, 2, 1, 5);
    let client = world.add_client(settings("first"));
    world.done(client, Request::Mount);
    let handle = world.create(client, "big");
    let free = |world: &mut World| match world.call(client, Request::Free) {
        Outcome::Size(free) => free,
        other => panic!("{other:?}"),
    };
    let (promised, mut appended) = (free(&mut world), 0);
    let fault = loop {
        world.done(client, Request::Append { handle, bytes: bytes(2000, 0) });
        match world.call(client, Request::Flush { handle }) {
            Outcome::Done => appended += 2000,
            Outcome::Failed(fault) => break fault,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault, Fault::NoSpace);
    assert!(appended > 240_000, "only {appended} of 4 × 128 KiB could be used");
    assert!((appended..appended + 10_000).contains(&promised), "{promised} promised, {appended} appended");
    assert_eq!(free(&mut world), 0);
    world.call(client, Request::Close { handle });
    let other = world.create(client, "other");
    world.done(client, Request::Unlink { path: text("big") });
    world.done(client, Request::Append { handle: other, bytes: bytes(20_000, 4) });
    world.done(client, Request::Sync { handle: other });
    assert_eq!(world.contents(client, "other"), bytes(20_000, 4));
    world.run_for(Nanos::secs(60));
    let left = free(&mut world) + 20_000;
    assert!((promised - 10_000..=promised).contains(&left), "{left} of {promised} free after removal");
    // All of it is usable at once, including mega blobs that the volume has given back to the store meanwhile.
    let third = world.create(client, "third");
    for piece in 0..(left - 30_000) / 6000 {
        world.done(client, Request::Append { handle: third, bytes: bytes(6000, piece as u8) });
    }
    world.done(client, Request::Flush { handle: third });
}

/// The counts of `Disk` over all SSDs.
#[derive(Clone, Copy, Debug)]
struct Counts {
    writes: u64,
    durable: u64,
    flushes: u64,
}

const ROUNDS: u64 = 400;
/// Allowance for records, which take writes and flushes too: on each copy one for each micro blob, which has four
/// blocks here (64 by default), and a few more.
const RECORDS: u64 = ROUNDS / 4 * 2 + 100;

/// The IOs of `ROUNDS` rounds, each an append of a few bytes to a log followed by these requests, once the file is
/// known to be a log.
fn count(then: &[fn(u64) -> Request]) -> Counts {
    let (mut world, client) = calm(9);
    let handle = world.create(client, "log");
    let append = |world: &mut World, then: &[fn(u64) -> Request]| {
        world.done(client, Request::Append { handle, bytes: bytes(20, 0) });
        then.iter().for_each(|request| world.done(client, request(handle)));
    };
    (0..8).for_each(|_| append(&mut world, &[SYNC]));
    world.run_for(Nanos::millis(20));
    let sum = |world: &World| {
        let sum = |count: fn(&world::disk::Disk) -> u64| world.disks.values().map(count).sum::<u64>();
        Counts {
            writes: sum(|disk| disk.writes),
            durable: sum(|disk| disk.durable),
            flushes: sum(|disk| disk.flushes),
        }
    };
    let before = sum(&world);
    (0..ROUNDS).for_each(|_| append(&mut world, then));
    let after = sum(&world);
    Counts {
        writes: after.writes - before.writes,
        durable: after.durable - before.durable,
        flushes: after.flushes - before.flushes,
    }
}

const FLUSH: fn(u64) -> Request = |handle| Request::Flush { handle };
const APPEND: fn(u64) -> Request = |handle| Request::Append { handle, bytes: vec![7; 20] };
const SYNC: fn(u64) -> Request = |handle| Request::Sync { handle };

#[test]
fn a_sync_of_a_log_needs_one_durable_write_on_each_copy_and_no_flush() {
    for then in [&[SYNC][..], &[FLUSH, SYNC]] {
        let found = count(then);
        assert_eq!(found.durable, ROUNDS * 2, "{found:?}");
        assert!(found.writes <= found.durable + RECORDS && found.flushes <= RECORDS, "{found:?}");
    }
}

#[test]
fn a_flush_is_durable_only_where_a_sync_followed_the_last_time() {
    let found = count(&[FLUSH]);
    assert_eq!(found.durable, 2, "the first one, behind the syncs: {found:?}");
    assert!(found.writes >= ROUNDS * 2, "{found:?}");
    let found = count(&[FLUSH, APPEND, FLUSH, SYNC]);
    assert_eq!(
        found.durable,
        ROUNDS * 2,
        "the first flush; the second leaves its write for the sync to flush: {found:?}"
    );
    assert!(found.flushes >= ROUNDS * 2, "{found:?}");
}

/// The reads and writes of this work, by class.
fn classes(world: &mut World, work: impl FnOnce(&mut World)) -> [BTreeMap<Class, u64>; 2] {
    world.run_for(Nanos::millis(20));
    world.reads.clear();
    world.writes.clear();
    work(world);
    [world.reads.clone(), world.writes.clone()]
}

#[test]
fn a_log_is_urgent_and_a_table_is_background() {
    let (mut world, client) = calm(12);
    let (log, table) = (world.create(client, "log"), world.create(client, "table"));
    // The bytes before the last flush decide the class of each file. The limit is 384 bytes here, the maximum of one
    // write.
    for (handle, length) in [(log, 300), (table, 1500)] {
        world.done(client, Request::Append { handle, bytes: bytes(length, 1) });
        world.done(client, Request::Flush { handle });
    }
    let [reads, writes] = classes(&mut world, |world| {
        for _ in 0..100 {
            world.done(client, Request::Append { handle: log, bytes: bytes(300, 1) });
            world.done(client, Request::Flush { handle: log });
        }
    });
    assert!(reads.is_empty(), "{reads:?}");
    assert!(writes[&Class::Urgent] >= 200 && writes.len() == 1, "the journal's are urgent, too: {writes:?}");
    let [_, writes] = classes(&mut world, |world| {
        for _ in 0..40 {
            world.done(client, Request::Append { handle: table, bytes: bytes(1500, 1) });
            world.done(client, Request::Flush { handle: table });
        }
    });
    let [urgent, background] =
        [Class::Urgent, Class::Background].map(|class| writes.get(&class).copied().unwrap_or(0));
    assert!(background >= 40 * 2 * 4, "1500 bytes in four writes to each copy: {writes:?}");
    // Those of the journal: at most one for each micro blob of 320 bytes on each copy, and a few more.
    assert!(urgent <= 40 * 1500 / 320 * 2 + 20, "{writes:?}");
    let [reads, writes] = classes(&mut world, |world| drop(world.contents(client, "log")));
    assert!(reads[&Class::Normal] > 0 && reads.len() == 1 && writes.is_empty(), "{reads:?}, {writes:?}");
    let [reads, _] = classes(&mut world, |world| drop(world.call(client, Request::Scrub)));
    assert!(reads[&Class::Background] > 0 && reads.len() == 1, "{reads:?}");
}
