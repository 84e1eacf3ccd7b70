//! What the statistics say of an auxiliary store.

mod common;

use common::*;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::ServerHandle;
use server::config::{AisConfig, AisStore, DeviceConfig, DeviceKind, EmulatedConfig, SchedulerConfig, Speed};
use units::Bytes;

/// Blocks of a write.
const BLOCKS: usize = 16;
const WRITES: u64 = 48;

/// A thousandth of the speed of an SSD, so that its writes wait for each other, and a profile that says that it has a buffer of 1 MiB and writes 1 MB/s
/// without it.
fn serve(with_store: bool) -> ServerHandle {
    let text = include_str!("../../../calibrations/probed/consumer-small.toml");
    let mut profile = probe::Profile::parse(text, "built in").expect("a profile");
    let buffer = profile.buffer.as_mut().expect("it has one");
    (buffer.size_mib, buffer.exhausted_mb_per_s, buffer.steady_mb_per_s) = (1.0, 1.0, 1.0);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("auxiliary-{}-{with_store}.toml", std::process::id()));
    std::fs::write(&path, profile.to_toml()).expect("cargo's folder for tests is writable");
    let speed = Speed::from_thousandths(1).expect("above zero");
    let kind = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let store = AisConfig {
        profile: path.clone(),
        store: AisStore::Ram,
        size: Bytes::mib(16),
        create: false,
        faults: Vec::new(),
    };
    let device = DeviceConfig {
        scheduler: SchedulerConfig { policy: Scheduler::NONE, ..SchedulerConfig::default() },
        ais: with_store.then_some(store),
        ..DeviceConfig::new("ssd", kind.clone())
    };
    let server = start(server::config::Config { devices: vec![device], ..simple(kind, any_port()) });
    std::fs::remove_file(path).expect("it was read");
    server
}

#[test]
fn statistics_say_what_was_diverted_what_the_ssd_does_not_have_and_what_was_predicted() {
    let server = serve(true);
    let before = server.stats().ssds[0].auxiliary.expect("it has a store");
    assert_eq!((before.counters, before.foresight), Default::default());
    assert!(!before.is_exhausted && before.room == Bytes::mib(1), "{before:?}");
    let mut client = Client::connect(server.addresses()[0]);
    let data = vec![7; BLOCKS * BLOCK];
    for number in 0..WRITES {
        let sqe = rw(nvm::WRITE, 1, number * BLOCKS as u64, BLOCKS);
        client.io.submit(sqe, Transfer::ToController(data.clone(), data.len() as u32));
    }
    for _ in 0..WRITES {
        let (cqe, _) = client.io.next().expect("an answer");
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
    }
    let after = server.stats().ssds[0].auxiliary.expect("it has a store");
    let counters = after.counters;
    // 1 MiB went into the buffer, less a margin; the rest was more than the SSD takes.
    assert!((1..=WRITES - 15).contains(&counters.diverted) && after.is_exhausted, "{after:?}");
    assert_eq!(counters.diverted_bytes, counters.diverted * data.len() as u64);
    assert_eq!(counters.pending_bytes, counters.diverted_bytes - counters.returned_bytes);
    assert!(!after.has_failed);
    until(|| server.stats().ssds[0].auxiliary.is_some_and(|now| now.counters.pending_bytes == 0));
    let end = server.stats().ssds[0].auxiliary.expect("it has a store");
    assert_eq!(end.counters.returned_bytes, end.counters.diverted_bytes);
}

#[test]
fn an_ssd_without_a_store_has_no_statistics_of_one() {
    assert_eq!(serve(false).stats().ssds[0].auxiliary, None);
}
