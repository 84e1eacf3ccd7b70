//! Reservations of `gimbal serve` survive kills; the place where they are stored. The clients are those of the target's
//! own tests.

#![cfg(target_os = "linux")]

#[path = "../../server/tests/common/mod.rs"]
mod common;
mod process;

use common::{BLOCK, Client, Options, pattern};
use nvme::spec::opcode::nvm;
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use process::{Process, gimbal, serve};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const PERSIST: u32 = 3 << 30;
const WRITE_EXCLUSIVE: u32 = 1 << 8;

/// The path of a folder that does not exist yet.
fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    path
}

fn reserve(client: &mut Client, opcode: u8, dword10: u32, keys: [u64; 2]) -> Status {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    client.io.command(sqe, Transfer::ToController(data, 16)).0.status()
}

/// GEN, RTYPE, PTPLS.
fn report(client: &mut Client) -> (u32, u8, u8) {
    let sqe = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([31, 1, 0, 0, 0, 0]);
    let page = client.io.command(sqe, Transfer::FromController(vec![0; 128], 128)).1.expect("a report");
    (u32::from_le_bytes(page[..4].try_into().expect("four bytes")), page[4], page[9])
}

fn other(address: SocketAddr) -> Client {
    Client::with(address, &Options { host: OTHER, ..Options::default() })
}

/// A kill follows each change, so every change with a response must be on the disk.
#[test]
fn answered_changes_survive_every_kill() {
    let directory = fresh("killed-state");
    let state = directory.to_str().expect("text");
    let start = || Process::start(&mut serve(&["--log", "warn", "--device", "null", "--state-dir", state]));
    let mut target = start();
    let mut holder = Client::connect(target.address());
    assert_eq!(reserve(&mut holder, nvm::RESERVATION_REGISTER, PERSIST, [0, 1]), Status::SUCCESS);
    for round in 1..=6u64 {
        target.kill();
        target = start();
        assert_eq!(report(&mut other(target.address())).0, round as u32, "GEN counts every change");
        let mut holder = Client::connect(target.address());
        // Replacing the key needs the old one, so each round depends on the one before.
        assert_eq!(reserve(&mut holder, nvm::RESERVATION_REGISTER, 2, [round, round + 1]), Status::SUCCESS);
        if round == 3 {
            let acquired = reserve(&mut holder, nvm::RESERVATION_ACQUIRE, WRITE_EXCLUSIVE, [round + 1, 0]);
            assert_eq!(acquired, Status::SUCCESS);
        }
    }
    target.kill();
    target = start();
    let mut stranger = other(target.address());
    assert_eq!(report(&mut stranger), (7, 1, 1));
    assert_eq!(stranger.write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(Client::connect(target.address()).write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    target.kill();

    // Half of the file is lost.
    let files = fs::read_dir(directory.join("reservations")).expect("it is there");
    let mut files = files.map(|entry| entry.expect("readable").path());
    let file = files.find(|path| path.extension().is_some_and(|ext| ext == "json")).expect("it was written");
    let bytes = fs::read(&file).expect("readable");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("writable");
    let refused = serve(&["--device", "null", "--state-dir", state]).output().expect("the binary was built");
    let said = String::from_utf8(refused.stderr).expect("text");
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("are damaged") && said.contains("hosts have to register again"), "{said}");
    fs::remove_file(&file).expect("writable");
    let target = start();
    assert_eq!(report(&mut other(target.address())), (0, 0, 0), "gone because the operator removed the file");
    drop(target);
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn the_state_directory_is_that_of_the_service_or_of_the_user() {
    let directory = fresh("default-state");
    let unit = format!("{}:/nonexistent/second", directory.join("unit").display());
    let mut by_unit = serve(&["--log", "warn", "--device", "null"]);
    let target = Process::start(by_unit.env("STATE_DIRECTORY", unit));
    let mut client = Client::connect(target.address());
    assert_eq!(reserve(&mut client, nvm::RESERVATION_REGISTER, PERSIST, [0, 1]), Status::SUCCESS);
    assert!(directory.join("unit/reservations").is_dir());
    drop(target);

    // A file is in the place of the directory, so reservations cannot be read.
    fs::write(directory.join("file"), "").expect("writable");
    for arguments in [&["--state-dir"][..], &[]] {
        let path = directory.join("file");
        let mut command = gimbal();
        command.args(["serve", "--device", "null"]).args(arguments);
        match arguments {
            [] => command.env("STATE_DIRECTORY", &path),
            _ => command.arg(&path),
        };
        let refused = command.output().expect("the binary was built");
        let said = String::from_utf8(refused.stderr).expect("text");
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("name another state directory"), "{said}");
    }
    let _ = fs::remove_dir_all(directory);
}
