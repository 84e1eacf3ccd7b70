//! What well-behaved hosts notice of bad ones: nothing.
//!
//! The SSD is emulated and slowed down so much that neither the processor nor the network is what limits anybody; its own clock
//! is what rates are measured by. Two good hosts keep a few reads outstanding, alone and beside each kind of bad host.

use crate::common::{BLOCK, Client, HOST, Options, rw, until};
use crate::misbehaviour::Misbehaviour;
use crate::slowed_with;
use nvme::connection::host::Transfer;
use nvme::spec::opcode::nvm;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use target::ServerHandle;
use target::config::Limits;
use units::Nanos;

/// The good hosts.
const GOOD: [&str; 2] = [HOST, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"];

/// Bounds such that a bad host meets some of them within a run.
fn limits() -> Limits {
    Limits { stall_timeout: Nanos::secs(1), handshake_timeout: Nanos::secs(1), ..Limits::default() }
}

/// Ends what runs beside, also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Keeps `depth` random 4 KiB reads outstanding; latencies of those that end while somebody wants them go to `latencies`.
fn read_on(
    address: SocketAddr,
    host: &'static str,
    depth: usize,
    stop: &AtomicBool,
    latencies: &Mutex<Option<Vec<Duration>>>,
) {
    let mut client = Client::with(address, &Options { host, ..Options::default() });
    let mut lba = 1_u64;
    let mut began = std::collections::HashMap::new();
    let mut submit = |client: &mut Client| {
        lba = lba.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
        client.io.submit(rw(nvm::READ, 1, (lba >> 33) % 200_000, 1), transfer)
    };
    for _ in 0..depth {
        began.insert(submit(&mut client), Instant::now());
    }
    while !stop.load(Ordering::Relaxed) {
        let (cqe, _) = client.io.next().expect("a good host is served");
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
        let taken = began.remove(&cqe.cid()).expect("its own command").elapsed();
        if let Some(latencies) = latencies.lock().expect("nobody panics").as_mut() {
            latencies.push(taken);
        }
        began.insert(submit(&mut client), Instant::now());
    }
}

/// Reads that the good hosts have had, and the SSD's clock, in seconds.
fn served(server: &ServerHandle) -> (u64, f64) {
    let ssd = &server.stats().ssds[0];
    let good = ssd.tenants.iter().filter(|tenant| GOOD.contains(&tenant.host.as_str()));
    (good.map(|tenant| tenant.counters.reads.ios).sum(), ssd.at.as_secs_f64())
}

/// Reads per second of the SSD's clock that the good hosts have, over the next `count` of them.
fn rate(server: &ServerHandle, count: u64) -> f64 {
    let (from, began) = served(server);
    let mut now = (from, began);
    until(|| {
        now = served(server);
        now.0 >= from + count
    });
    (now.0 - from) as f64 / (now.1 - began)
}

#[test]
fn good_hosts_are_served_beside_every_kind_of_bad_host() {
    // Reads take 80 ms and more: what the machine is late by hardly counts.
    const SPEED_THOUSANDTHS: u32 = 1;
    const DEPTH: usize = 8;
    const COUNT: u64 = 200;
    let server = slowed_with(SPEED_THOUSANDTHS, limits());
    let address = server.addresses()[0];
    let (stop, latencies) = (AtomicBool::new(false), Mutex::new(None));
    std::thread::scope(|scope| {
        let _end = Stop(&stop);
        for host in GOOD {
            scope.spawn(|| read_on(address, host, DEPTH, &stop, &latencies));
        }
        rate(&server, COUNT);
        let alone = rate(&server, COUNT);
        let shared = beside(&server, Misbehaviour::Busy, || rate(&server, COUNT));
        for bad in Misbehaviour::ALL {
            let found = beside(&server, bad, || rate(&server, COUNT));
            let (due, least) = if bad.does_io() { (shared, 0.5) } else { (alone, 0.7) };
            assert!(found >= least * due, "{bad:?}: {found:.0} reads per second, {due:.0} are due");
        }
    });
}

/// Measures while a bad host is at it.
fn beside<T>(server: &ServerHandle, bad: Misbehaviour, measure: impl FnOnce() -> T) -> T {
    let (begun, enough) = (AtomicBool::new(false), AtomicBool::new(false));
    let address = server.addresses()[0];
    std::thread::scope(|scope| {
        let _end = Stop(&enough);
        scope.spawn(|| bad.run(address, &begun, &enough));
        until(|| {
            served(server);
            begun.load(Ordering::Relaxed)
        });
        measure()
    })
}

/// How the good hosts fared for a while.
struct Fared {
    rate: f64,
    p99: Duration,
}

fn fare(server: &ServerHandle, latencies: &Mutex<Option<Vec<Duration>>>, count: u64) -> Fared {
    *latencies.lock().expect("nobody panics") = Some(Vec::new());
    let rate = rate(server, count);
    let mut all = latencies.lock().expect("nobody panics").take().expect("put there above");
    all.sort();
    Fared { rate, p99: all[all.len() * 99 / 100] }
}

/// The round in which the machine disturbed least: what a bad host does to the others, it does in every round.
fn best(rounds: &[Fared]) -> (f64, f64) {
    let rate = rounds.iter().map(|round| round.rate).fold(0.0, f64::max);
    let p99 = rounds.iter().map(|round| round.p99).min().expect("there are rounds");
    (rate, p99.as_secs_f64() * 1e3)
}

#[test]
#[ignore = "measures for minutes; run by `make test-long`, alone on the machine"]
fn the_utilisation_and_the_tail_of_good_hosts_change_by_a_tenth_at_most() {
    const SPEED_THOUSANDTHS: u32 = 2;
    const DEPTH: usize = 8;
    const COUNT: u64 = 2000;
    const ROUNDS: usize = 3;
    const CHANGE_MAX: f64 = 0.1;
    let mut table = String::from(
        "| beside | reads/s due | reads/s beside | f-Util | p99 due (ms) | p99 beside (ms) | change |\n|---|---|---|---|---|---|---|\n",
    );
    let mut beyond = Vec::new();
    for bad in Misbehaviour::ALL {
        let server = slowed_with(SPEED_THOUSANDTHS, limits());
        let address = server.addresses()[0];
        let (stop, latencies) = (AtomicBool::new(false), Mutex::new(None));
        let (due, found) = std::thread::scope(|scope| {
            let _end = Stop(&stop);
            for host in GOOD {
                scope.spawn(|| read_on(address, host, DEPTH, &stop, &latencies));
            }
            rate(&server, COUNT / 4);
            let (mut due, mut found) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                due.push(match bad.does_io() {
                    true => beside(&server, Misbehaviour::Busy, || fare(&server, &latencies, COUNT)),
                    false => fare(&server, &latencies, COUNT),
                });
                found.push(beside(&server, bad, || fare(&server, &latencies, COUNT)));
            }
            (due, found)
        });
        let ((alone, p99_alone), (beside, p99_beside)) = (best(&due), best(&found));
        // What is due to the good hosts: all they ask for, as that is below their fair share of the SSD; and beside somebody who
        // keeps it busy, what they have beside a busy host that behaves.
        let (utilisation, tail) = (beside / alone - 1.0, p99_beside / p99_alone - 1.0);
        writeln!(
            table,
            "| {bad:?} | {alone:.0} | {beside:.0} | {:.2} | {p99_alone:.1} | {p99_beside:.1} | {:+.1} % |",
            beside / alone,
            tail * 100.0
        )
        .expect("a string grows");
        if utilisation < -CHANGE_MAX || tail > CHANGE_MAX {
            beyond.push(bad);
        }
    }
    println!("{table}");
    assert!(beyond.is_empty(), "beyond a tenth: {beyond:?}\n{table}");
}
