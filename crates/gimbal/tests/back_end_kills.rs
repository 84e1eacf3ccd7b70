//! A target whose device is a namespace of another target (`kind = "nvme-tcp"`), while the process of the other one is killed under load.

#![cfg(target_os = "linux")]

#[path = "../../server/tests/common/mod.rs"]
mod common;
mod process;

use common::{BLOCK, Client, Folder, pattern, until};
use nvme::spec::Status;
use process::{Process, gimbal};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const BLOCKS: u64 = 4096;
const SHELF: &str = "nqn.2026-01.com.example:shelf";
const KILLS: u32 = 5;

fn serve(file: &std::path::Path) -> Command {
    let mut command = gimbal();
    command.args(["serve", "--log", "warn", "-c"]).arg(file);
    command
}

/// The file of a target with one subsystem for every host, with one namespace on one device.
fn text(listen: &str, nqn: &str, device: &str) -> String {
    format!(
        "listen = [\"{listen}\"]\nthreads = 1\n\n[[device]]\nname = \"ssd\"\n{device}\n\n[[subsystem]]\nnqn = \"{nqn}\"\n\
         allow_any_host = true\n\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"ssd\"\n"
    )
}

#[test]
fn nothing_that_was_answered_is_lost_when_the_other_targets_process_is_killed_under_load() {
    let folder = Folder::new("back-end-kills");
    let image = folder.0.join("image");
    let device =
        format!("kind = \"file\"\npath = {image:?}\nsize = \"{}\"\ncreate = true", BLOCKS * BLOCK as u64);
    let first = folder.write("first.toml", &text("127.0.0.1:0", SHELF, &device));
    let mut behind = Process::start(&mut serve(&first));
    let address = behind.address();
    let again = folder.write("again.toml", &text(&address.to_string(), SHELF, &device));
    let back_end = format!(
        "kind = \"nvme-tcp\"\naddress = \"{address}\"\nsubsystem = \"{SHELF}\"\nhost = \"nqn.2026-01.com.example:middle\""
    );
    let front = folder.write("front.toml", &text("127.0.0.1:0", common::NEAR, &back_end));
    let target = Process::start(&mut serve(&front));
    let front = target.address();
    let (answered, has_ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (answered, has_ended) = (Arc::clone(&answered), Arc::clone(&has_ended));
        thread::spawn(move || {
            let mut client = Client::connect(front);
            let mut number = 0;
            while !has_ended.load(Ordering::Relaxed) {
                let written = client.write(1, number % BLOCKS, &pattern(number, BLOCK));
                assert_eq!(written, Status::SUCCESS, "write {number}");
                number += 1;
                answered.store(number, Ordering::Relaxed);
            }
            number
        })
    };
    for _ in 0..KILLS {
        let before = answered.load(Ordering::Relaxed);
        until(|| writer.is_finished() || answered.load(Ordering::Relaxed) > before + 50);
        behind.kill();
        behind = Process::start(&mut serve(&again));
    }
    has_ended.store(true, Ordering::Relaxed);
    let written = writer.join().expect("every write succeeds");
    // By the other path to the same blocks: what was answered here is there.
    let mut direct = Client::with(
        behind.address(),
        &common::Options { subsystem: SHELF.to_owned(), ..common::Options::default() },
    );
    for number in written.saturating_sub(BLOCKS)..written {
        let read = direct.read(1, number % BLOCKS, 1).expect("readable");
        assert!(read == pattern(number, BLOCK), "write {number} of {written}");
    }
}
