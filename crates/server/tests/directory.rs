//! Namespaces in a directory, on file systems of loop devices: they come, grow, fill up, go, and are copied at a point in time.

mod common;
#[path = "../../gimbal/tests/disk/mod.rs"]
mod disk;

use common::*;
use disk::{Disk, run};
use nvme::spec::Status;
use nvme::spec::identify::cns;
use server::config::{
    Config, DeviceConfig, DeviceKind, DirectoryConfig, NamespaceConfig, SchedulerConfig, offered,
};
use server::{Server, ServerHandle, Shutdown, Snapshot};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use units::Bytes;

const AMPLE: Duration = Duration::from_secs(60);
const ONE: &str = "nqn.2025-01.io.example:one";
const MIB: u64 = 1 << 20;

/// Kinds of file systems, and whether they can clone files.
const KINDS: [(&str, bool); 3] = [("xfs", true), ("btrfs", true), ("ext4", false)];

fn uuid(number: u8) -> [u8; 16] {
    let mut uuid = [0x5a; 16];
    uuid[15] = number;
    uuid
}

fn file_name(number: u8) -> String {
    format!("5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a{number:02x}")
}

/// A file system of `mib` MiB on a loop device.
fn mounted(name: &str, kind: &str, mib: u64) -> Disk {
    let mut disk = Disk::new(&format!("directory-{name}-{kind}"), mib);
    let device = disk.device.clone();
    disk.mount_as(kind, &device);
    disk
}

fn directory(path: &Path) -> DirectoryConfig {
    DirectoryConfig { path: path.to_owned(), create: true, direct: true, reserve: Bytes::ZERO }
}

fn namespace(number: u8, mib: u64) -> NamespaceConfig {
    let size = Some(Bytes::mib(mib));
    NamespaceConfig { size, uuid: Some(uuid(number)), ..NamespaceConfig::whole(number.into(), "pool") }
}

fn config(directory: DirectoryConfig, namespaces: Vec<NamespaceConfig>) -> Config {
    Config {
        devices: vec![DeviceConfig::new("pool", DeviceKind::Directory(directory))],
        subsystems: vec![subsystem(ONE, namespaces)],
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

fn client(server: &ServerHandle) -> Client {
    let options = Options { subsystem: ONE.to_owned(), ..Options::default() };
    Client::with(server.addresses()[0], &options)
}

fn reload(server: &mut ServerHandle, config: &Config) {
    server.reload(config.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
}

/// Why a target does not start.
fn refused(config: &Config) -> String {
    match Server::start(config.clone()) {
        Ok(_) => panic!("the target starts"),
        Err(error) => error.to_string(),
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.retain(|name| name != "lost+found");
    names.sort();
    names
}

fn block(seed: u64) -> Vec<u8> {
    pattern(seed, BLOCK)
}

/// Blocks of a namespace, and those that have storage.
fn blocks(client: &mut Client, nsid: u32) -> (u64, u64) {
    let page = client.identify(u32::from(cns::NAMESPACE), nsid);
    let field = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    (field(0), field(16))
}

#[test]
fn namespaces_are_files_that_come_grow_and_go() {
    for (kind, _) in KINDS {
        for backend in backends() {
            let disk = mounted(&format!("life-{backend:?}"), kind, 512);
            let path = PathBuf::from(disk.mount_point());
            let mut now = Config { backend, ..config(directory(&path), vec![namespace(1, 64)]) };
            let mut server = start(now.clone());
            let mut host = client(&server);
            assert_eq!(host.read(1, 5, 1), Ok(vec![0; BLOCK]), "new blocks are zeros");
            assert_eq!(host.write(1, 5, &block(5)), Status::SUCCESS);
            assert_eq!(host.flush(1), Status::SUCCESS);

            // Another one comes; each has its own blocks.
            now.subsystems[0].namespaces.push(namespace(2, 32));
            reload(&mut server, &now);
            assert_eq!(host.read(2, 5, 1), Ok(vec![0; BLOCK]));
            assert_eq!(host.write(2, 5, &block(6)), Status::SUCCESS);
            assert!(host.read(1, 5, 1).expect("readable") == block(5));

            // It grows, and only its own blocks count.
            now.subsystems[0].namespaces[0].size = Some(Bytes::mib(128));
            reload(&mut server, &now);
            let last = 128 * MIB / BLOCK as u64 - 1;
            assert_eq!(host.read(1, last, 1), Ok(vec![0; BLOCK]));
            assert_eq!(host.write(1, last, &block(7)), Status::SUCCESS);
            until(|| (1..=64).contains(&blocks(&mut host, 1).1));
            assert_eq!(blocks(&mut host, 1).0, last + 1);
            assert_eq!(fs::metadata(path.join(file_name(1))).expect("a file").len(), 128 * MIB);

            // Deallocated blocks are zeros and have no storage.
            assert_eq!(host.deallocate(1, &[(0, 16)]), Status::SUCCESS);
            assert_eq!(host.read(1, 5, 1), Ok(vec![0; BLOCK]));
            assert_eq!(host.simple(nvme::spec::opcode::nvm::WRITE_ZEROES, 1, last, 1), Status::SUCCESS);
            assert_eq!(host.read(1, last, 1), Ok(vec![0; BLOCK]));

            // One goes, and its data is there again when it comes back; with `wipe_on_remove` it is not.
            let removed = now.subsystems[0].namespaces.pop().expect("two");
            reload(&mut server, &now);
            assert_eq!(names_in(&path), [&file_name(1), &file_name(2), "gimbal-pool.json"]);
            now.subsystems[0].namespaces.push(NamespaceConfig { wipe_on_remove: true, ..removed });
            reload(&mut server, &now);
            assert!(host.read(2, 5, 1).expect("readable") == block(6), "its data was kept");
            now.subsystems[0].namespaces.pop();
            reload(&mut server, &now);
            assert_eq!(names_in(&path), [&file_name(1), "gimbal-pool.json"]);
            now.subsystems[0].namespaces.push(namespace(2, 32));
            reload(&mut server, &now);
            assert_eq!(host.read(2, 5, 1), Ok(vec![0; BLOCK]), "it is another one");
            assert_eq!(host.write(1, 1, &block(8)), Status::SUCCESS);
            drop(host);
            assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);

            let server = start(now.clone());
            let mut host = client(&server);
            assert!(host.read(1, 1, 1).expect("readable") == block(8), "it is there after a restart");
        }
    }
}

#[test]
fn the_end_of_a_namespace_is_erased_as_configured() {
    let disk = mounted("shrink", "xfs", 512);
    let path = PathBuf::from(disk.mount_point());
    for wipe_on_remove in [false, true] {
        let of = |mib| NamespaceConfig { wipe_on_remove, ..namespace(1, mib) };
        let mut now = config(directory(&path), vec![of(64), namespace(2, 4)]);
        let mut server = start(now.clone());
        let mut host = client(&server);
        let last = 64 * MIB / BLOCK as u64 - 1;
        assert_eq!(host.write(1, last, &block(1)), Status::SUCCESS);
        for size in [32, 64] {
            now.subsystems[0].namespaces[0] = of(size);
            reload(&mut server, &now);
        }
        let expected = if wipe_on_remove { vec![0; BLOCK] } else { block(1) };
        assert!(host.read(1, last, 1).expect("readable") == expected, "wiped: {wipe_on_remove}");
        assert_eq!(host.write(1, last, &block(2)), Status::SUCCESS);
    }
}

#[test]
fn a_full_file_system_is_capacity_exceeded_for_whoever_needs_blocks() {
    for (kind, _) in KINDS {
        let disk = mounted("full", kind, 320);
        let path = PathBuf::from(disk.mount_point());
        let mut now = config(directory(&path), vec![namespace(1, 1024), namespace(2, 16)]);
        let mut server = start(now.clone());
        let mut host = client(&server);
        assert_eq!(host.write(2, 0, &block(1)), Status::SUCCESS);
        let written = (0..2048u64).take_while(|piece| {
            let status = host.write(1, piece * 64, &pattern(*piece, 64 * BLOCK));
            assert!([Status::SUCCESS, Status::CAPACITY_EXCEEDED].contains(&status), "{status:?} on {kind}");
            status == Status::SUCCESS
        });
        let written = written.count() as u64;
        assert!((64..2048).contains(&written), "{written} pieces on {kind}");
        for piece in [0, written / 2, written - 1] {
            let found = host.read(1, piece * 64, 64).expect("readable");
            assert!(found == pattern(piece, 64 * BLOCK), "piece {piece} on {kind}");
        }
        assert!(host.read(2, 0, 1).expect("readable") == block(1));
        // The reserve is in the way of new ones.
        let DeviceKind::Directory(of) = now.devices[0].kind.clone() else { unreachable!() };
        now.subsystems[0].namespaces.push(namespace(3, 16));
        drop(host);
        drop(server);
        now.devices[0].kind = DeviceKind::Directory(DirectoryConfig { reserve: Bytes::mib(300), ..of });
        let why = refused(&now);
        assert!(why.contains("reserve = 300 MiB"), "{why}");
        now.subsystems[0].namespaces.pop();
        server = start(now.clone());
        // Room that is given back can be used again.
        let mut host = client(&server);
        let count = u32::try_from(written * 64).expect("few");
        assert_eq!(host.deallocate(1, &[(0, count)]), Status::SUCCESS);
        assert_eq!(host.flush(1), Status::SUCCESS);
        until(|| host.write(1, 0, &pattern(9, 64 * BLOCK)) == Status::SUCCESS);
    }
}

#[test]
fn what_is_not_the_directory_or_the_file_of_yesterday_is_refused() {
    let mut disk = mounted("other", "xfs", 320);
    let path = PathBuf::from(disk.mount_point());
    let now = config(directory(&path), vec![namespace(1, 64), namespace(2, 64)]);
    let server = start(now.clone());
    let mut host = client(&server);
    assert_eq!(host.write(1, 3, &block(3)), Status::SUCCESS);
    let why = refused(&now);
    assert!(why.contains("is locked by another process"), "{why}");
    drop(host);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);

    let file = path.join(file_name(2));
    // Cut, linked, replaced by something else, or gone.
    fs::File::options().write(true).open(&file).and_then(|file| file.set_len(MIB)).expect("it can be cut");
    let why = refused(&now);
    assert!(why.contains("was cut to 1 MiB"), "{why}");
    fs::File::options().write(true).open(&file).and_then(|file| file.set_len(64 * MIB)).expect("it grows");
    fs::hard_link(&file, path.join("second")).expect("a link");
    let why = refused(&now);
    assert!(why.contains("has another name"), "{why}");
    fs::remove_file(path.join("second")).expect("it is there");
    fs::rename(&file, path.join("kept")).expect("it is there");
    let why = refused(&now);
    assert!(why.contains("does not exist any more"), "{why}");
    std::os::unix::fs::symlink("kept", &file).expect("a link");
    let why = refused(&now);
    assert!(why.contains("is a symbolic link"), "{why}");
    fs::remove_file(&file).expect("it is there");
    run("mkfifo", &[file.to_str().expect("text")]);
    let why = refused(&now);
    assert!(why.contains("is a FIFO"), "{why}");
    fs::remove_file(&file).expect("it is there");
    fs::rename(path.join("kept"), &file).expect("it is there");

    // Not mounted: there is no pool, and without `create` none is made.
    let DeviceKind::Directory(of) = now.devices[0].kind.clone() else { unreachable!() };
    let mut settled = now.clone();
    settled.devices[0].kind = DeviceKind::Directory(DirectoryConfig { create: false, ..of });
    disk.undo_last();
    let why = refused(&settled);
    assert!(why.contains("has no pool") && why.contains("is its file system mounted?"), "{why}");
    // The same files on a file system of another kind.
    let device = disk.device.clone();
    run("mount", &[&device, path.to_str().expect("text")]);
    let copy = disk.folder.join("copy");
    run("cp", &["-a", "--sparse=always", path.to_str().expect("text"), copy.to_str().expect("text")]);
    let mut elsewhere = settled.clone();
    elsewhere.devices[0].kind = DeviceKind::Directory(directory(&copy));
    let why = refused(&elsewhere);
    assert!(why.contains("is on the file system") && why.contains("was made on xfs"), "{why}");
    disk.undo("umount", &[path.to_str().expect("text")]);

    let server = start(settled);
    assert!(client(&server).read(1, 3, 1).expect("readable") == block(3), "the real one is served");
}

/// Also with `create = true`, and where the file system has no number that lasts.
#[test]
fn an_unmounted_directory_never_becomes_a_new_pool() {
    let mut disk = mounted("remembered", "xfs", 320);
    let path = PathBuf::from(disk.mount_point());
    let mut now = config(directory(&path), vec![namespace(1, 64)]);
    now.state_dir = Some(disk.folder.join("state"));
    let server = start(now.clone());
    assert_eq!(client(&server).write(1, 3, &block(3)), Status::SUCCESS);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);

    disk.undo_last();
    let why = refused(&now);
    assert!(why.contains("has no pool") && why.contains("is its file system mounted?"), "{why}");
    assert!(names_in(&path).is_empty(), "nothing is made in the mount point");
    // Another XFS, with a pool of its own.
    let mut other = mounted("remembered-other", "xfs", 320);
    let there = PathBuf::from(other.mount_point());
    let served = start(config(directory(&there), vec![namespace(1, 64)]));
    assert_eq!(served.shutdown(AMPLE), Shutdown::Complete);
    other.undo_last();
    let mount = path.to_str().expect("text");
    run("mount", &[&other.device, mount]);
    let why = refused(&now);
    assert!(why.contains("when it was served last: is another file system mounted there?"), "{why}");
    run("umount", &[mount]);

    let device = disk.device.clone();
    run("mount", &[&device, mount]);
    disk.undo("umount", &[mount]);
    let server = start(now.clone());
    assert!(client(&server).read(1, 3, 1).expect("readable") == block(3), "the real one is served");
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);

    // The advice of the error gives the old pool up.
    disk.undo_last();
    let why = refused(&now);
    let note = why.rsplit("remove ").next().expect("the last words name it");
    fs::remove_file(note).expect("it is there");
    let server = start(now);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    assert!(names_in(&path).contains(&file_name(1)), "a new pool was made");
}

#[test]
fn a_file_that_is_removed_or_cut_behind_our_back_concerns_its_namespace_only() {
    let disk = mounted("behind", "ext4", 320);
    let path = PathBuf::from(disk.mount_point());
    let now = config(directory(&path), vec![namespace(1, 64), namespace(2, 64), namespace(3, 64)]);
    let mut server = start(now.clone());
    let mut host = client(&server);
    for nsid in 1..=3 {
        assert_eq!(host.write(nsid, 9000, &block(nsid.into())), Status::SUCCESS);
    }
    fs::remove_file(path.join(file_name(2))).expect("it is there");
    let cut = fs::File::options().write(true).open(path.join(file_name(3))).expect("it is there");
    cut.set_len(MIB).expect("it can be cut");
    assert!(host.read(2, 9000, 1).expect("it is still open") == block(2));
    assert!(host.read(3, 9000, 1).is_err());
    assert_ne!(host.write(3, 9000, &block(4)), Status::SUCCESS);
    assert_eq!(host.write(1, 9000, &block(5)), Status::SUCCESS);
    assert_eq!(host.flush(1), Status::SUCCESS);
    let why = server.reload(now, AMPLE).expect_err("a file has no name").to_string();
    assert!(why.contains(&file_name(2)) && why.contains("no longer exists"), "{why}");
    assert!(host.read(1, 9000, 1).expect("readable") == block(5));
}

#[test]
fn what_a_kill_has_left_half_made_is_removed_and_nothing_else() {
    let disk = mounted("halves", "xfs", 320);
    let path = PathBuf::from(disk.mount_point());
    let now = config(directory(&path), vec![namespace(1, 64)]);
    let mut server = start(now.clone());
    assert_eq!(client(&server).write(1, 0, &block(1)), Status::SUCCESS);
    server.take_snapshot("pool", "whole", uuid(1), AMPLE).expect("a snapshot");
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    let expected = names_in(&path);
    let touch = |name: &str| fs::write(path.join(name), b"{").expect("it can be written");
    // A kill while a namespace, the register, a snapshot or its description is written, and while a snapshot is deleted.
    for left in [
        &[&*format!("{}.new", file_name(7))][..],
        &["gimbal-pool.json.new"],
        &["a.snapshot.new"],
        &["a.snapshot.new", "a.snapshot.json.new"],
        &["a.snapshot.new", "a.snapshot.json"],
        &["a.snapshot.json"],
    ] {
        left.iter().for_each(|name| touch(name));
        drop(start(now.clone()));
        assert_eq!(names_in(&path), expected, "after {left:?}");
    }
    // Files of others there are theirs.
    touch("notes.new");
    let server = start(now);
    assert!(names_in(&path).contains(&"notes.new".to_owned()));
    assert_eq!(server.snapshots("pool").expect("readable").len(), 1);
}

#[test]
fn a_namespace_is_made_of_a_snapshot_or_of_another_namespace() {
    for (kind, clones) in KINDS {
        let disk = mounted("copies", kind, 512);
        let path = PathBuf::from(disk.mount_point());
        let mut now = config(directory(&path), vec![namespace(1, 64)]);
        let mut server = start(now.clone());
        let mut host = client(&server);
        assert_eq!(host.write(1, 7, &block(1)), Status::SUCCESS);
        let taken = server.take_snapshot("pool", "first", uuid(1), AMPLE);
        if !clones {
            let why = taken.expect_err("no clones").to_string();
            assert!(why.contains("snapshots and copies need XFS or btrfs"), "{why}");
            assert_eq!(names_in(&path), [&file_name(1), "gimbal-pool.json"], "nothing is left of it");
            continue;
        }
        let taken = taken.expect("a snapshot");
        assert!(taken.pause.get() > 0 && taken.pause.get() < 5_000_000_000, "{:?}", taken.pause);
        assert_eq!(host.write(1, 7, &block(2)), Status::SUCCESS);
        let copies = [("first", 2, 1), ("5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a01", 3, 2)];
        for (origin, number, seed) in copies {
            let copy = NamespaceConfig { origin: Some(origin.to_owned()), ..namespace(number, 80) };
            now.subsystems[0].namespaces.push(copy);
            reload(&mut server, &now);
            assert!(host.read(number.into(), 7, 1).expect("readable") == block(seed), "{origin} on {kind}");
            assert_eq!(host.read(number.into(), 80 * 256 - 1, 1), Ok(vec![0; BLOCK]), "the rest is zeros");
        }
        // Each goes its own way.
        assert_eq!(host.write(2, 7, &block(3)), Status::SUCCESS);
        assert!(host.read(1, 7, 1).expect("readable") == block(2));
        // A change that is refused leaves no file.
        for (origin, size, expected) in
            [("second", 64, "has no snapshot \"second\""), ("first", 32, "make that as large")]
        {
            let mut wrong = now.clone();
            let copy = NamespaceConfig { origin: Some(origin.to_owned()), ..namespace(4, size) };
            wrong.subsystems[0].namespaces.push(copy);
            let why = server.reload(wrong, AMPLE).expect_err("wrong").to_string();
            assert!(why.contains(expected), "{why}");
            assert!(!names_in(&path).iter().any(|name| name.contains(&file_name(4))));
        }
        let refused =
            |result: Result<server::Taken, server::SnapshotError>| result.expect_err("refused").to_string();
        assert!(refused(server.take_snapshot("pool", "first", uuid(1), AMPLE)).contains("already"));
        assert!(refused(server.take_snapshot("pool", "../x", uuid(1), AMPLE)).contains("is not a name"));
        assert!(refused(server.take_snapshot("pool", "x", uuid(9), AMPLE)).contains("no namespace"));
        assert!(refused(server.take_snapshot("ssd", "x", uuid(1), AMPLE)).contains("no device"));
        server.delete_snapshot("pool", "first").expect("it is there");
        assert_eq!(server.snapshots("pool").expect("readable"), Vec::<Snapshot>::new());
        assert!(host.read(2, 7, 1).expect("readable") == block(3), "its copies stay");
        drop(host);
        drop(server);
        drop(start(now));
    }
}

/// Rounds of snapshots while a host writes numbers to a namespace. Returns the longest pause.
fn snapshots_under_load(kind: &str, threads: u32, scheduler: SchedulerConfig, rounds: u64) -> Duration {
    let disk = mounted(&format!("load-{threads}-{}", scheduler.policy.name), kind, 1024);
    let path = PathBuf::from(disk.mount_point());
    let mut now = config(directory(&path), vec![namespace(1, 64), namespace(2, 64)]);
    now.threads = Some(threads);
    now.devices[0].scheduler = scheduler;
    let mut server = start(now);
    let places = 64;
    // The number of the last write of each place that was begun, and that was answered.
    let begun: Vec<AtomicU64> = (0..places).map(|_| AtomicU64::new(0)).collect();
    let answered: Vec<AtomicU64> = (0..places).map(|_| AtomicU64::new(0)).collect();
    let ends = AtomicBool::new(false);
    let mut longest = Duration::ZERO;
    std::thread::scope(|scope| {
        for writer in 0..4u64 {
            let (mut host, begun, answered, ends) = (client(&server), &begun, &answered, &ends);
            scope.spawn(move || {
                let mut number = 0;
                while !ends.load(Ordering::Relaxed) {
                    number += 1;
                    for place in (writer..places).step_by(4) {
                        let at = place as usize;
                        begun[at].store(number, Ordering::SeqCst);
                        assert_eq!(
                            host.write(1, place * 8, &number.to_le_bytes().repeat(BLOCK / 8)),
                            Status::SUCCESS
                        );
                        answered[at].store(number, Ordering::SeqCst);
                    }
                    if number % 8 == 0 {
                        assert_eq!(host.flush(1), Status::SUCCESS);
                    }
                }
            });
        }
        for round in 0..rounds {
            std::thread::sleep(Duration::from_millis(20 + round * 7 % 50));
            let name = format!("round{round}");
            let least: Vec<u64> = answered.iter().map(|number| number.load(Ordering::SeqCst)).collect();
            let taken = server.take_snapshot("pool", &name, uuid(1), AMPLE).expect("a snapshot");
            let most: Vec<u64> = begun.iter().map(|number| number.load(Ordering::SeqCst)).collect();
            longest = longest.max(Duration::from_nanos(taken.pause.get()));
            let copy = fs::File::open(path.join(format!("{name}.snapshot"))).expect("a file");
            for place in 0..places as usize {
                let mut found = vec![0; BLOCK];
                copy.read_exact_at(&mut found, place as u64 * 8 * BLOCK as u64)
                    .expect("as long as the namespace");
                let number = u64::from_le_bytes(found[..8].try_into().expect("8 bytes"));
                assert!(found == number.to_le_bytes().repeat(BLOCK / 8), "a torn block in round {round}");
                assert!(
                    (least[place]..=most[place]).contains(&number),
                    "round {round}, place {place}: {number} is not from {} to {}",
                    least[place],
                    most[place]
                );
            }
            server.delete_snapshot("pool", &name).expect("it is there");
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    longest
}

#[test]
fn a_snapshot_under_load_is_a_point_in_time() {
    for (kind, threads) in [("xfs", 1), ("btrfs", 4)] {
        let longest = snapshots_under_load(kind, threads, SchedulerConfig::default(), 5);
        println!("{kind}: writes waited for {longest:?} at most");
    }
}

#[test]
#[ignore = "240 snapshots under load, minutes; run by make test-long"]
fn many_snapshots_under_load_are_points_in_time() {
    for (kind, threads) in [("xfs", 1), ("xfs", 4), ("btrfs", 1), ("btrfs", 4)] {
        let longest = snapshots_under_load(kind, threads, SchedulerConfig::default(), 60);
        println!("{kind} with {threads} threads: writes waited for {longest:?} at most");
    }
}

#[test]
fn every_scheduler_serves_a_directory() {
    let disk = mounted("schedulers", "xfs", 320);
    let path = PathBuf::from(disk.mount_point());
    let calibration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../calibrations/dct983.toml");
    for policy in offered() {
        let mut now = config(directory(&path), vec![namespace(1, 16), namespace(2, 16)]);
        now.devices[0].scheduler.policy = policy;
        now.devices[0].scheduler.calibration = policy.needs_calibration().then(|| calibration.clone());
        let mut server = start(now.clone());
        let mut host = client(&server);
        for nsid in [1, 2] {
            assert_eq!(host.write(nsid, 1, &block(nsid.into())), Status::SUCCESS, "{}", policy.name);
            assert!(host.read(nsid, 1, 1).expect("readable") == block(nsid.into()), "{}", policy.name);
            assert_eq!(host.flush(nsid), Status::SUCCESS, "{}", policy.name);
        }
        server
            .take_snapshot("pool", policy.name, uuid(1), AMPLE)
            .unwrap_or_else(|error| panic!("{}: {error}", policy.name));
        let inode = |name: &str| fs::metadata(path.join(name)).expect("a file").ino();
        assert_ne!(inode(&file_name(1)), inode(&format!("{}.snapshot", policy.name)));
        now.subsystems[0].namespaces.pop();
        reload(&mut server, &now);
    }
}
