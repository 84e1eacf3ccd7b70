//! What the next owner of blocks finds in them, with and without `wipe_on_remove`.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use server::config::{
    Config, DeviceConfig, DeviceKind, FaultConfig, FaultError, FaultKind, FaultOp, FaultRelease,
    NamespaceConfig,
};
use server::{ReloadError, ServerHandle, Shutdown};
use std::path::PathBuf;
use std::time::Duration;
use units::{Bytes, Nanos};

/// Long enough for everything that ends.
const AMPLE: Duration = Duration::from_secs(60);
const ONE: &str = "nqn.2025-01.io.example:one";
const TWO: &str = "nqn.2025-01.io.example:two";
/// A second host.
const FRIEND: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000f";
/// The last block of a namespace of 64 MiB.
const LAST: u64 = (64 << 20) / BLOCK as u64 - 1;

fn part(nsid: u32, offset_mib: u64, size_mib: u64, wipe_on_remove: bool) -> NamespaceConfig {
    let (offset, size) = (Bytes::mib(offset_mib), Some(Bytes::mib(size_mib)));
    NamespaceConfig { offset, size, wipe_on_remove, ..NamespaceConfig::whole(nsid, "a") }
}

/// Namespace 1 stays. Namespace 2, in the next 64 MiB, will be removed.
fn config(kind: DeviceKind, faults: Vec<FaultConfig>, wipe_on_remove: bool) -> Config {
    let namespaces = vec![part(1, 0, 64, false), part(2, 64, 64, wipe_on_remove)];
    Config {
        devices: vec![DeviceConfig { faults, ..DeviceConfig::new("a", kind) }],
        subsystems: vec![subsystem(ONE, namespaces)],
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

/// As `now`, with namespace 3 on the blocks of namespace 2.
fn with_next_owner(now: &Config) -> Config {
    let mut next = now.clone();
    next.subsystems[0].namespaces[1] = part(3, 64, 64, false);
    next
}

fn client(server: &ServerHandle, nqn: &str, host: &'static str) -> Client {
    let options = Options { subsystem: nqn.to_owned(), host, ..Options::default() };
    Client::with(server.addresses()[0], &options)
}

fn reload(server: &mut ServerHandle, config: &Config) {
    server.reload(config.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
}

/// Asserts that the reload is refused because blocks are not erased, and returns why.
fn refused(server: &mut ServerHandle, config: &Config, limit: Duration) -> String {
    let error = server.reload(config.clone(), limit).expect_err("the blocks are not erased");
    assert!(matches!(error, ReloadError::NotErased { .. }), "{error}");
    error.to_string()
}

/// Writes what others must not see to both ends of a namespace.
fn fill(host: &mut Client, nsid: u32) {
    for lba in [0, LAST] {
        assert_eq!(host.write(nsid, lba, &pattern(lba + 1, BLOCK)), Status::SUCCESS);
    }
}

fn assert_zero(host: &mut Client, nsid: u32) {
    for lba in [0, LAST] {
        assert!(host.read(nsid, lba, 1).expect("readable") == [0; BLOCK], "block {lba} shows what was there");
    }
}

fn assert_filled(host: &mut Client, nsid: u32) {
    for lba in [0, LAST] {
        assert!(host.read(nsid, lba, 1).expect("readable") == pattern(lba + 1, BLOCK), "block {lba}");
    }
}

/// A fault of erasing operations.
fn fault(kind: FaultKind, count: u64) -> FaultConfig {
    FaultConfig { op: FaultOp::WriteZeroes, count: Some(count), ..FaultConfig::new(kind) }
}

#[test]
fn a_namespace_is_erased_before_its_blocks_get_another_owner() {
    for backend in backends() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("wipe-{backend:?}"));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("image");
        let file = DeviceKind::File { path, size: Some(Bytes::mib(256)), create: true, direct: false };
        for kind in [fast_ssd(), file] {
            let mut now = Config { backend, ..config(kind, Vec::new(), true) };
            let mut server = start(now.clone());
            let mut old = client(&server, ONE, HOST);
            fill(&mut old, 1);
            fill(&mut old, 2);

            // By the same reload.
            now.subsystems[0].namespaces[1] = part(3, 64, 64, true);
            reload(&mut server, &now);
            let mut new = client(&server, ONE, FRIEND);
            assert_zero(&mut new, 3);

            // By a later one.
            fill(&mut new, 3);
            now.subsystems[0].namespaces.pop();
            reload(&mut server, &now);
            now.subsystems.push(subsystem(TWO, vec![part(1, 64, 64, true)]));
            reload(&mut server, &now);
            let mut third = client(&server, TWO, HOST);
            assert_zero(&mut third, 1);

            // With its subsystem.
            fill(&mut third, 1);
            now.subsystems.pop();
            now.subsystems[0].namespaces.push(part(4, 64, 64, true));
            reload(&mut server, &now);
            assert_zero(&mut new, 4);

            // The end of it.
            fill(&mut new, 4);
            now.subsystems[0].namespaces[1].size = Some(Bytes::mib(32));
            now.subsystems[0].namespaces.push(part(5, 96, 32, false));
            reload(&mut server, &now);
            assert_eq!(new.read(5, LAST / 2, 1), Ok(vec![0; BLOCK]), "what was behind the new end is erased");
            assert!(new.read(4, 0, 1).expect("readable") == pattern(1, BLOCK), "what stays is not");

            assert_filled(&mut old, 1);
            assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
        }
    }
}

#[test]
fn without_wipe_on_remove_blocks_keep_their_contents() {
    let now = config(fast_ssd(), Vec::new(), false);
    let mut server = start(now.clone());
    let mut host = client(&server, ONE, HOST);
    fill(&mut host, 2);
    reload(&mut server, &with_next_owner(&now));
    assert_filled(&mut host, 3);
}

#[test]
fn a_late_write_of_the_old_owner_is_erased_too() {
    // The first write hangs until the device gets its 16th IO.
    let hang = FaultKind::Hang(FaultRelease::AtIo(16));
    let late = FaultConfig { op: FaultOp::Write, count: Some(1), ..FaultConfig::new(hang) };
    let now = config(fast_ssd(), vec![late], true);
    let mut server = start(now.clone());
    let mut old = client(&server, ONE, HOST);
    old.io.submit(rw(nvm::WRITE, 2, 7, 1), Transfer::ToController(pattern(7, BLOCK), BLOCK as u32));
    until(|| server.stats().ssds[0].in_flight == 1);
    let next = with_next_owner(&now);
    let error = server.reload(next.clone(), Duration::ZERO).expect_err("the write is under way");
    assert!(matches!(error, ReloadError::Stuck { .. }), "{error}");
    let mut new = client(&server, ONE, FRIEND);
    assert_eq!(new.read(3, 7, 1), Err(Status::INVALID_NAMESPACE));
    for lba in 0..15 {
        assert_eq!(new.read(1, lba, 1), Ok(vec![0; BLOCK]));
    }
    assert!(old.io.next().expect("an answer").0.status().is_success(), "it has reached the device");
    reload(&mut server, &next);
    assert_eq!(new.read(3, 7, 1), Ok(vec![0; BLOCK]));
}

#[test]
fn blocks_that_cannot_be_erased_are_not_served() {
    let faults = vec![fault(FaultKind::Error(FaultError::Medium), 2)];
    let now = config(fast_ssd(), faults, true);
    let mut server = start(now.clone());
    let mut host = client(&server, ONE, HOST);
    fill(&mut host, 1);
    fill(&mut host, 2);
    let next = with_next_owner(&now);
    for _ in 0..2 {
        let why = refused(&mut server, &next, AMPLE);
        let needed = format!("namespace 3 of {ONE} cannot have them");
        assert!(why.contains(&format!("namespace 2 of {ONE}")) && why.contains(&needed), "{why}");
        assert_eq!(host.read(3, 0, 1), Err(Status::INVALID_NAMESPACE));
        assert_filled(&mut host, 1);
    }
    // The device has recovered.
    reload(&mut server, &next);
    assert_zero(&mut host, 3);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
}

#[test]
fn the_old_owner_does_not_get_blocks_back_that_are_being_erased() {
    let hang = FaultKind::Hang(FaultRelease::AtIo(16));
    let before = config(fast_ssd(), vec![fault(hang, 1)], true);
    let mut server = start(before.clone());
    let mut host = client(&server, ONE, HOST);
    fill(&mut host, 2);
    let mut without = before.clone();
    without.subsystems[0].namespaces.pop();
    reload(&mut server, &without);
    let why = refused(&mut server, &before, Duration::ZERO);
    assert!(why.contains("and continues"), "{why}");
    for lba in 0..16 {
        assert_eq!(host.read(1, lba, 1), Ok(vec![0; BLOCK]));
    }
    reload(&mut server, &before);
    assert_zero(&mut host, 2);
}

#[test]
fn a_target_that_ends_does_not_wait_until_all_is_erased() {
    // The first step of the erasing ends soon, the next one never.
    let soon = fault(FaultKind::Hang(FaultRelease::After(Nanos::secs(10))), 1);
    let never = fault(FaultKind::Hang(FaultRelease::Never), 1);
    let mut now = config(fast_ssd(), vec![soon, never], true);
    now.subsystems[0].namespaces[1].size = Some(Bytes::mib(960));
    let mut server = start(now.clone());
    now.subsystems[0].namespaces.pop();
    reload(&mut server, &now);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
}

#[test]
fn a_device_is_removed_when_its_blocks_are_erased() {
    let hang = FaultKind::Hang(FaultRelease::After(Nanos::secs(10)));
    let mut now = config(fast_ssd(), Vec::new(), true);
    now.devices.push(DeviceConfig { faults: vec![fault(hang, 1)], ..DeviceConfig::new("b", fast_ssd()) });
    let namespace = NamespaceConfig { wipe_on_remove: true, ..NamespaceConfig::whole(1, "b") };
    now.subsystems.push(subsystem(TWO, vec![namespace]));
    let mut server = start(now.clone());
    now.devices.pop();
    now.subsystems.pop();
    let why = refused(&mut server, &now, Duration::ZERO);
    assert!(why.contains("device b cannot go"), "{why}");
    reload(&mut server, &now);
    assert_eq!(server.stats().ssds.len(), 1);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
}

/// A target over a file, whose memory of wipes outlives it.
struct Lasting {
    folder: Folder,
    now: Config,
}

impl Lasting {
    fn new(name: &str) -> Lasting {
        let folder = Folder::new(&format!("wipe-{name}"));
        let path = folder.0.join("image");
        let file = DeviceKind::File { path, size: Some(Bytes::mib(256)), create: true, direct: false };
        let now = Config { state_dir: Some(folder.0.join("state")), ..config(file, Vec::new(), true) };
        Lasting { folder, now }
    }

    /// Starts it, has namespace 2 filled and removed, and ends it before anything is erased.
    fn cut_off(&self) {
        let mut now = self.now.clone();
        now.devices[0].faults = vec![fault(FaultKind::Hang(FaultRelease::Never), 1)];
        let mut server = start(now.clone());
        let mut host = client(&server, ONE, HOST);
        fill(&mut host, 1);
        fill(&mut host, 2);
        now.subsystems[0].namespaces.pop();
        reload(&mut server, &now);
        server.remote().stop();
        drop(server);
        assert_eq!(self.notes().len(), 1, "the state directory remembers");
    }

    fn notes(&self) -> Vec<PathBuf> {
        let notes = std::fs::read_dir(self.folder.0.join("state/wipes")).expect("a folder");
        notes.map(|entry| entry.expect("an entry").path()).collect()
    }
}

#[test]
fn a_start_goes_on_with_what_was_not_erased_and_serves_nothing_on_it() {
    let lasting = Lasting::new("restart");
    lasting.cut_off();
    // The blocks have a new owner in the file, and the device another name.
    let mut next = with_next_owner(&lasting.now);
    next.devices[0].name = "renamed".to_owned();
    next.subsystems[0].namespaces.iter_mut().for_each(|namespace| namespace.device = "renamed".to_owned());
    let mut server = start(next.clone());
    let mut host = client(&server, ONE, HOST);
    assert_filled(&mut host, 1);
    assert_eq!(host.read(3, 0, 1), Err(Status::INVALID_NAMESPACE), "not before it is erased");
    reload(&mut server, &next);
    assert_zero(&mut host, 3);
    assert_eq!(lasting.notes(), [] as [PathBuf; 0], "and forgotten before they had a new owner");
    fill(&mut host, 3);
    drop(server);
    let server = start(next);
    assert_filled(&mut client(&server, ONE, HOST), 3);
}

#[test]
fn a_removal_that_was_not_done_is_undone_if_the_file_still_has_the_namespace() {
    let lasting = Lasting::new("undone");
    lasting.cut_off();
    // As before hosts lost the namespace.
    let note = lasting.notes().remove(0);
    let text = std::fs::read_to_string(&note).expect("text");
    let (_, body) = text.split_once('\n').expect("two lines and more");
    let body = body.replace("\"is_due\": true", "\"is_due\": false");
    let crc = nvme::tcp::pdu::crc32c(body.as_bytes());
    std::fs::write(&note, format!("gimbal-wipes 1 crc32c={crc:08x} bytes={}\n{body}", body.len()))
        .expect("ours");
    let next = with_next_owner(&lasting.now);
    let saved = std::fs::read(&note).expect("just written");
    let server = start(lasting.now.clone());
    assert_filled(&mut client(&server, ONE, HOST), 2);
    assert_eq!(lasting.notes(), [] as [PathBuf; 0]);
    drop(server);
    // The file has it no more: the removal goes on.
    std::fs::write(&note, saved).expect("ours");
    let mut server = start(next.clone());
    reload(&mut server, &next);
    assert_zero(&mut client(&server, ONE, HOST), 3);
}

#[test]
fn blocks_that_are_gone_need_not_be_erased() {
    let lasting = Lasting::new("smaller");
    lasting.cut_off();
    let image =
        std::fs::File::options().write(true).open(lasting.folder.0.join("image")).expect("it is there");
    image.set_len(64 << 20).expect("a file can be cut");
    let mut now = lasting.now.clone();
    now.devices[0].kind =
        DeviceKind::File { path: lasting.folder.0.join("image"), size: None, create: false, direct: false };
    now.subsystems[0].namespaces.pop();
    let server = start(now);
    assert_filled(&mut client(&server, ONE, HOST), 1);
    until(|| lasting.notes().is_empty());
}

#[test]
fn nothing_is_removed_if_it_cannot_be_noted() {
    let lasting = Lasting::new("full");
    let mut server = start(lasting.now.clone());
    let mut host = client(&server, ONE, HOST);
    fill(&mut host, 2);
    let folder = lasting.folder.0.join("state/wipes");
    std::fs::remove_dir(&folder).expect("it is empty");
    let next = with_next_owner(&lasting.now);
    let refused = server.reload(next.clone(), AMPLE).expect_err("there is no place for the note");
    assert!(
        matches!(&refused, ReloadError::New(_)) && refused.to_string().contains("have to be erased in"),
        "{refused}"
    );
    assert_filled(&mut host, 2);
    std::fs::create_dir(&folder).expect("it is gone");
    reload(&mut server, &next);
    assert_zero(&mut host, 3);
}

#[test]
fn a_note_that_cannot_be_read_keeps_the_target_from_starting() {
    let lasting = Lasting::new("damaged");
    lasting.cut_off();
    let note = lasting.notes().remove(0);
    let whole = std::fs::read(&note).expect("a file");
    for bytes in [&whole[..whole.len() - 1], b"gimbal-wipes 9 crc32c=00000000 bytes=0\n"] {
        std::fs::write(&note, bytes).expect("ours");
        let refused =
            server::Server::start(lasting.now.clone()).err().expect("a note is damaged").to_string();
        assert!(refused.contains(&note.display().to_string()) && refused.contains("by hand"), "{refused}");
    }
    assert_eq!(std::fs::read(&note).expect("it stays"), b"gimbal-wipes 9 crc32c=00000000 bytes=0\n");
}
