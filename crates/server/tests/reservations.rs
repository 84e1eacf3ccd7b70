//! Persistent reservations: what is there after a restart, and what happens when the state directory cannot be written.
//!
//! `crates/gimbal/tests/reservations.rs` tests with a process that is killed.

mod common;

use common::*;
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use server::config::{Config, DeviceKind, NamespaceConfig, TenantConfig};
use server::{Server, ServerHandle, Shutdown};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use units::Bytes;

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
/// CPTPL, as Linux sets it.
const PERSIST: u32 = 3 << 30;
const WRITE_EXCLUSIVE: u32 = 1 << 8;
/// Longer than any step of these tests.
const AMPLE: Duration = Duration::from_secs(120);

/// A state directory that is removed after the test.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> State {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        State(path)
    }

    fn config(&self) -> Config {
        let null = DeviceKind::Null { size: Bytes::gib(1) };
        Config { state_dir: Some(self.0.clone()), ..simple(null, any_port()) }
    }

    fn serve(&self) -> ServerHandle {
        start(self.config())
    }

    /// With the holder named in a [[tenant]].
    fn serve_named(&self) -> ServerHandle {
        start(Config { tenants: vec![TenantConfig::equal(HOST)], ..self.config() })
    }

    /// The only file with reservations.
    fn file(&self) -> PathBuf {
        let entries = fs::read_dir(self.0.join("reservations")).expect("the target has made it");
        let files: Vec<PathBuf> = entries
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn reserve(client: &mut Client, opcode: u8, dword10: u32, keys: [u64; 2]) -> Status {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let length = if opcode == nvm::RESERVATION_RELEASE { 8 } else { 16 };
    let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    client.io.command(sqe, Transfer::ToController(data[..length].to_vec(), length as u32)).0.status()
}

/// GEN, RTYPE, registrants, PTPLS and the first key.
fn report(client: &mut Client) -> (u32, u8, u8, u8, u64) {
    let sqe = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([1023, 1, 0, 0, 0, 0]);
    let (cqe, page) = client.io.command(sqe, Transfer::FromController(vec![0; 4096], 4096));
    assert!(cqe.status().is_success());
    let page = page.expect("a report");
    let number = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let key = u64::from_le_bytes(page[72..80].try_into().expect("eight bytes"));
    (number(0), page[4], page[5], page[9], key)
}

fn holder(server: &ServerHandle) -> Client {
    Client::connect(server.addresses()[0])
}

fn other(server: &ServerHandle) -> Client {
    Client::with(server.addresses()[0], &Options { host: OTHER, ..Options::default() })
}

/// The holder registers with key 7 and acquires a reservation that forbids others to write.
fn hold(server: &ServerHandle) -> Client {
    let mut client = holder(server);
    assert_eq!(reserve(&mut client, nvm::RESERVATION_REGISTER, PERSIST, [0, 7]), Status::SUCCESS);
    assert_eq!(reserve(&mut client, nvm::RESERVATION_ACQUIRE, WRITE_EXCLUSIVE, [7, 0]), Status::SUCCESS);
    client
}

fn refusal(config: Config) -> String {
    match Server::start(config) {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn only_persistent_reservations_survive_a_restart() {
    let state = State::new("restart");
    let server = state.serve();
    let before = report(&mut hold(&server));
    assert_eq!(before, (1, 1, 1, 1, 7));
    drop(server);

    let server = state.serve();
    let mut stranger = other(&server);
    assert_eq!(report(&mut stranger), before, "as it was, and before the holder is back");
    assert_eq!(stranger.write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    let mut holder = holder(&server);
    assert_eq!(holder.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    // From now on they are not persistent (CPTPL 10b), but still in force.
    assert_eq!(reserve(&mut holder, nvm::RESERVATION_REGISTER, 2 << 30, [0, 7]), Status::SUCCESS);
    assert_eq!(stranger.write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);

    let server = state.serve();
    assert_eq!(report(&mut other(&server)), (0, 0, 0, 0, 0));
}

/// HOSTIDs are no secret: a stranger registers the one of a named host, for ever, and leaves.
#[test]
fn a_named_host_comes_in_and_registers_after_a_stranger_has_registered_its_identifier() {
    const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-9000-000000000001";
    let state = State::new("stranger");
    let as_stranger = Options { host: STRANGER, ..Options::default() };
    let identifier = |host: &str| host[host.len() - 16..].to_owned();
    assert_eq!(identifier(STRANGER), identifier(HOST), "the client's HOSTID is the end of its name");
    let server = state.serve_named();
    let mut stranger = Client::with(server.addresses()[0], &as_stranger);
    assert_eq!(reserve(&mut stranger, nvm::RESERVATION_REGISTER, PERSIST, [0, 9]), Status::SUCCESS);
    let while_it_stays = holder(&server);
    drop((stranger, while_it_stays));
    drop(holder(&server));
    drop(server);

    let server = state.serve_named();
    let mut holder = hold(&server);
    assert_eq!(report(&mut holder), (2, 1, 2, 1, 7), "both are registrants, each with its key");
    assert_eq!(holder.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    drop(server);

    // What was stored names the holder by both.
    let server = state.serve_named();
    let mut holder = self::holder(&server);
    assert_eq!(report(&mut holder), (2, 1, 2, 1, 7));
    assert_eq!(holder.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
}

#[test]
fn a_directory_that_cannot_be_written_fails_the_command_and_changes_nothing() {
    let state = State::new("gone");
    let server = state.serve();
    let mut client = hold(&server);
    let before = report(&mut client);
    // The disk is gone, or full, or hidden by a mount.
    let (directory, away) = (state.0.join("reservations"), state.0.join("away"));
    fs::rename(&directory, &away).expect("both are in the same folder");
    assert_eq!(
        reserve(&mut client, nvm::RESERVATION_RELEASE, WRITE_EXCLUSIVE, [7, 0]),
        Status::INTERNAL_ERROR
    );
    assert_eq!(report(&mut client), before);
    assert_eq!(other(&server).write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(client.write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS, "IO is not concerned");
    fs::rename(&away, &directory).expect("it was just moved");
    assert_eq!(reserve(&mut client, nvm::RESERVATION_RELEASE, WRITE_EXCLUSIVE, [7, 0]), Status::SUCCESS);
    assert_eq!(other(&server).write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
}

#[test]
fn a_damaged_file_prevents_the_start_and_the_error_says_what_to_do() {
    let state = State::new("damaged");
    hold(&state.serve());
    let file = state.file();
    let whole = fs::read(&file).expect("just written");
    let mut flipped = whole.clone();
    *flipped.last_mut().expect("it is not empty") ^= 1;
    for damaged in [&whole[..whole.len() - 1], &whole[..0], &flipped] {
        fs::write(&file, damaged).expect("writable");
        let said = refusal(state.config());
        assert!(said.contains(&file.display().to_string()), "{said}");
        assert!(
            said.contains("damaged") && said.contains("put the file back from a backup, or remove it"),
            "{said}"
        );
        assert_eq!(fs::read(&file).expect("still there"), damaged, "nothing was touched");
    }
    fs::write(&file, whole).expect("writable");
    assert_eq!(report(&mut other(&state.serve())).4, 7, "put back, it is the same again");
}

#[test]
fn two_targets_do_not_share_a_namespaces_reservations() {
    let state = State::new("shared");
    let server = state.serve();
    hold(&server);
    let said = refusal(state.config());
    assert!(said.contains("another target uses"), "{said}");
    // Another subsystem has its own file.
    let mut config = state.config();
    config.subsystems[0].nqn = "nqn.2025-01.io.gimbal:other".to_owned();
    let _beside = start(config);
    drop(server);
    state.serve();
}

#[test]
fn a_namespace_removed_and_added_by_reloads_keeps_its_reservations() {
    let state = State::new("reload");
    let mut now = state.config();
    now.subsystems[0].namespaces[0].size = Some(Bytes::mib(64));
    let second = NamespaceConfig {
        offset: Bytes::mib(64),
        size: Some(Bytes::mib(64)),
        ..NamespaceConfig::whole(2, "ssd")
    };
    let (first, mut server) = (now.subsystems[0].namespaces[0].clone(), start(now.clone()));
    let mut client = hold(&server);
    now.subsystems[0].namespaces = vec![second.clone()];
    server.reload(now.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(client.write(1, 0, &pattern(1, BLOCK)), Status::INVALID_NAMESPACE);
    now.subsystems[0].namespaces = vec![first, second];
    server.reload(now.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report(&mut client), (1, 1, 1, 1, 7));
    assert_eq!(other(&server).write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    now.state_dir = None;
    let refused = server.reload(now, AMPLE).expect_err("it takes a restart").to_string();
    assert!(refused.contains("state_dir: cannot change while the target runs"), "{refused}");
}

#[test]
fn every_command_that_changes_reservations_is_answered_before_the_target_ends() {
    let state = State::new("drain");
    let server = state.serve();
    let mut clients: Vec<Client> = vec![holder(&server), other(&server)];
    for (key, client) in (1u64..).zip(&mut clients) {
        let data = [[0; 8], key.to_le_bytes()].concat();
        let sqe = Sqe::new(nvm::RESERVATION_REGISTER).with_nsid(1).with_cdw10_15([PERSIST, 0, 0, 0, 0, 0]);
        client.io.submit(sqe, Transfer::ToController(data, 16));
    }
    // A round trip on the same connection: the command has arrived.
    for client in &mut clients {
        let features = Sqe::new(admin::GET_FEATURES).with_nsid(1).with_cdw10_15([0x83, 0, 0, 0, 0, 0]);
        client.admin.command(features, Transfer::None);
    }
    let answered: Vec<Status> =
        clients.iter_mut().map(|client| client.io.next().expect("an answer").0.status()).collect();
    assert_eq!(answered, [Status::SUCCESS; 2]);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    assert_eq!(report(&mut other(&state.serve())).2, 2);
}

#[test]
fn without_a_state_directory_hosts_see_that_nothing_persists() {
    let server = serve(DeviceKind::Null { size: Bytes::gib(1) });
    let mut client = holder(&server);
    assert_eq!(client.identify(0x00, 1)[31], 0xfe, "RESCAP: all but persistence");
    assert_eq!(reserve(&mut client, nvm::RESERVATION_REGISTER, PERSIST, [0, 7]), Status::INVALID_FIELD);
    assert_eq!(reserve(&mut client, nvm::RESERVATION_REGISTER, 0, [0, 7]), Status::SUCCESS);
}
