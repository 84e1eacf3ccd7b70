//! Namespaces and subsystems by the thousand: all are there, and one of them can change while the target runs.
//!
//! The long form prints how long each step takes, and the memory: `cargo test -p server --test scale -- --ignored --nocapture`.

mod common;

use common::*;
use nvme::spec::opcode::admin;
use nvme::spec::{Nqn, Sqe, Status};
use nvme::tcp::Transfer;
use server::config::{Config, DeviceConfig, DeviceKind, NamespaceConfig};
use std::io::Write;
use std::time::{Duration, Instant};
use units::Bytes;

const AMPLE: Duration = Duration::from_secs(60);
/// Bytes of a discovery log's header, and of each of its records.
const RECORD: usize = 1024;

fn namespaces(count: u32, first: u32) -> Vec<NamespaceConfig> {
    let namespace = |nsid: u32| NamespaceConfig {
        offset: Bytes::mib(u64::from(first + nsid)),
        size: Some(Bytes::mib(1)),
        ..NamespaceConfig::whole(nsid, "ssd")
    };
    (1..=count).map(namespace).collect()
}

fn nqn(number: u32) -> String {
    format!("nqn.2025-01.io.example:scale{number}")
}

/// `subsystems` with `each` namespaces.
fn config(subsystems: u32, each: u32) -> Config {
    let size = Bytes::mib(u64::from(subsystems * each + 2));
    Config {
        devices: vec![DeviceConfig::new("ssd", DeviceKind::Null { size })],
        subsystems: (0..subsystems)
            .map(|number| subsystem(&nqn(number), namespaces(each, number * each)))
            .collect(),
        ..simple(DeviceKind::Null { size }, any_port())
    }
}

/// The numbers of all namespaces, page by page.
fn active(host: &mut Client) -> Vec<u32> {
    let mut all = Vec::new();
    loop {
        let page = host.identify(0x02, all.last().copied().unwrap_or(0));
        let number = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
        let before = all.len();
        all.extend(page.chunks(4).map(number).take_while(|nsid| *nsid != 0));
        if all.len() < before + 1024 {
            return all;
        }
    }
}

/// The number of records that discovery has.
fn discovered(server: &server::ServerHandle) -> u64 {
    let options = Options { subsystem: Nqn::DISCOVERY.to_owned(), ..Options::default() };
    let mut queue = Queue::open(server.addresses()[0], 32, &options);
    assert!(queue.connect(0, 32, 0xffff, &options).status().is_success());
    enable(&mut queue);
    let dwords = [0x70 | (RECORD as u32 / 4 - 1) << 16, 0, 0, 0, 0, 0];
    let get = Sqe::new(admin::GET_LOG_PAGE).with_cdw10_15(dwords);
    let (cqe, data) = queue.command(get, Transfer::FromController(vec![0; RECORD], RECORD as u32));
    assert!(cqe.status().is_success());
    u64::from_le_bytes(data.expect("a page")[8..16].try_into().expect("eight bytes"))
}

fn memory() -> Bytes {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    Bytes::kib(line.split_whitespace().next().expect("a number").parse().expect("a number"))
}

/// Starts, asks for everything, and changes one thing. Returns how long each step took.
fn walk(subsystems: u32, each: u32) -> Vec<(&'static str, Duration)> {
    let mut steps = Vec::new();
    let mut began = Instant::now();
    let mut step = |name, steps: &mut Vec<(&'static str, Duration)>| {
        steps.push((name, began.elapsed()));
        began = Instant::now();
    };
    let mut now = config(subsystems, each);
    let mut server = start(now.clone());
    step("start", &mut steps);
    // Each subsystem, and discovery itself.
    assert_eq!(discovered(&server), u64::from(subsystems) + 1);
    step("discovery", &mut steps);
    let options = Options { subsystem: nqn(subsystems - 1), ..Options::default() };
    let mut host = Client::with(server.addresses()[0], &options);
    let all = active(&mut host);
    assert_eq!(all, (1..=each).collect::<Vec<_>>());
    for nsid in all {
        let blocks = u64::from_le_bytes(host.identify(0x00, nsid)[..8].try_into().expect("eight bytes"));
        assert_eq!(blocks, (1 << 20) / BLOCK as u64);
    }
    assert!(host.read(each, 0, 1).is_ok());
    step("identify all namespaces of one", &mut steps);
    now.subsystems.last_mut().expect("there is one").namespaces.pop();
    let changes = server.reload(now, AMPLE).expect("one namespace goes");
    assert_eq!(changes.len(), 1);
    assert_eq!(host.read(each, 0, 1), Err(Status::INVALID_NAMESPACE));
    step("reload", &mut steps);
    steps
}

#[test]
fn a_subsystem_has_4096_namespaces_and_a_target_1024_subsystems() {
    walk(1, 4096);
    walk(1024, 2);
}

#[test]
#[ignore = "prints figures"]
fn how_long_and_how_much() {
    for (subsystems, each) in [(1, 2), (1, 4096), (1024, 2), (1024, 4)] {
        let before = memory();
        let steps = walk(subsystems, each);
        let steps: Vec<String> = steps.iter().map(|(name, took)| format!("{name} {took:.3?}")).collect();
        let line =
            format!("{subsystems} × {each}: {}, {} before, {} after", steps.join(", "), before, memory());
        writeln!(std::io::stderr(), "{line}").expect("stderr");
    }
}
