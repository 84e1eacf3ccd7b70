//! Bad hosts do not disturb good hosts.
//!
//! The SSD is emulated, and so slow that neither the processor nor the network is the limit. Rates are measured by its own clock. Two
//! good hosts keep a few reads outstanding, alone and next to each kind of bad host.
//!
//! A shared SSD is slower for everybody, without any misbehaviour. So next to a bad host that does IO, good hosts must get what they get
//! next to a good host with the same IO (`Misbehaviour::stand_in`).

use crate::common::{BLOCK, Client, HOST, Options, any_port, rw, simple, start};
use crate::misbehaviour::Misbehaviour;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::ServerHandle;
use server::config::{Config, DeviceKind, EmulatedConfig, Limits, Speed};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex};
use std::thread::Scope;
use std::time::{Duration, Instant};
use units::{ByteRate, Bytes, Nanos};

/// The good hosts.
const GOOD: [&str; 2] = [HOST, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"];

/// The fixed rate of the scheduler. It would find the rate by itself, but on a slow SSD that takes minutes, and hosts that are measured
/// later would get more.
const RATE: ByteRate = ByteRate::mib_per_sec(2500);

/// Limits that a bad host reaches during a run.
fn limits() -> Limits {
    Limits { stall_timeout: Nanos::secs(1), handshake_timeout: Nanos::secs(1), ..Limits::default() }
}

/// Ends the background load, also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The load of the good hosts.
struct Good {
    address: SocketAddr,
    /// Outstanding reads of each host.
    depth: usize,
    /// The latencies of the reads that ended since the measurement began.
    latencies: Mutex<Vec<Duration>>,
    /// Signals that a read has ended.
    more: Condvar,
    stop: AtomicBool,
}

impl Good {
    /// Keeps `depth` random 4 KiB reads outstanding.
    fn read_on(&self, host: &'static str) {
        let mut client = Client::with(self.address, &Options { host, ..Options::default() });
        let mut lba = 1_u64;
        let mut began = HashMap::new();
        let mut submit = |client: &mut Client| {
            lba = lba.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
            client.io.submit(rw(nvm::READ, 1, (lba >> 33) % 200_000, 1), transfer)
        };
        for _ in 0..self.depth {
            began.insert(submit(&mut client), Instant::now());
        }
        while !self.stop.load(Ordering::Relaxed) {
            let (cqe, _) = client.io.next().expect("a good host is served");
            assert!(cqe.status().is_success(), "{:?}", cqe.status());
            let taken = began.remove(&cqe.cid()).expect("its own command").elapsed();
            self.latencies.lock().expect("nobody panics").push(taken);
            self.more.notify_one();
            began.insert(submit(&mut client), Instant::now());
        }
    }
}

/// A target and its good hosts.
struct Bed {
    server: ServerHandle,
    good: Good,
}

impl Bed {
    fn new(speed_thousandths: u32, depth: usize) -> Bed {
        crate::log::capture();
        let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
        let device = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
        let mut config = Config { limits: limits(), ..simple(device, any_port()) };
        config.devices[0].scheduler.policy = Scheduler::GIMBAL;
        let constants = &mut config.devices[0].scheduler.overrides;
        (constants.rate_min, constants.rate_max) = (Some(RATE), Some(ByteRate(RATE.get() + 1)));
        let server = start(config);
        let good = Good {
            address: server.addresses()[0],
            depth,
            latencies: Mutex::default(),
            more: Condvar::new(),
            stop: AtomicBool::new(false),
        };
        Bed { server, good }
    }

    /// Starts the good hosts. They read until the returned value is dropped.
    fn occupy<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Stop<'scope> {
        for host in GOOD {
            let good = &self.good;
            scope.spawn(move || good.read_on(host));
        }
        Stop(&self.good.stop)
    }

    /// The SSD's clock, in seconds.
    fn clock(&self) -> f64 {
        self.server.stats().ssds[0].at.as_secs_f64()
    }

    /// Measures the next `count` reads of the good hosts.
    fn reads(&self, count: usize) -> Vec<Duration> {
        let latencies = || self.good.latencies.lock().expect("nobody panics");
        latencies().clear();
        self.good.more.wait_while(latencies(), |all| all.len() < count).expect("nobody panics").clone()
    }

    /// Measures the next `count` reads of the good hosts, without those that were outstanding before.
    fn fare(&self, count: usize) -> Fared {
        self.reads(GOOD.len() * self.good.depth);
        let began = self.clock();
        let mut latencies = self.reads(count);
        let took = self.clock() - began;
        let rate = latencies.len() as f64 / took;
        latencies.sort();
        Fared { rate, p99: latencies[latencies.len() * 99 / 100] }
    }

    /// As `fare`, with the load of another host, if one is given.
    fn fare_beside(&self, other: Option<Misbehaviour>, count: usize) -> Fared {
        let Some(other) = other else { return self.fare(count) };
        let enough = AtomicBool::new(false);
        let (begun, is_begun) = sync_channel(1);
        std::thread::scope(|scope| {
            let _end = Stop(&enough);
            let (address, enough) = (self.good.address, &enough);
            scope.spawn(move || other.run(address, &begun, enough));
            is_begun.recv().expect("the other host begins");
            self.fare(count)
        })
    }
}

/// The rate and latency of the good hosts.
struct Fared {
    /// Reads per second of the SSD's clock.
    rate: f64,
    p99: Duration,
}

/// The best of several rounds. A bad host disturbs every round; the machine disturbs only some. So there are many short rounds.
fn best(rounds: &[Fared]) -> Fared {
    let rate = rounds.iter().map(|round| round.rate).fold(0.0, f64::max);
    Fared { rate, p99: rounds.iter().map(|round| round.p99).min().expect("there are rounds") }
}

#[test]
fn good_hosts_are_served_next_to_every_kind_of_bad_host() {
    // Reads take 80 ms or more, so delays of the machine hardly matter.
    const SPEED_THOUSANDTHS: u32 = 1;
    const DEPTH: usize = 8;
    const COUNT: usize = 200;
    const PART_MIN: f64 = 0.5;
    let bed = Bed::new(SPEED_THOUSANDTHS, DEPTH);
    let mut due = HashMap::new();
    std::thread::scope(|scope| {
        let _end = bed.occupy(scope);
        bed.fare(COUNT);
        for bad in Misbehaviour::ALL {
            let stand_in = bad.stand_in();
            let due = *due.entry(stand_in).or_insert_with(|| bed.fare_beside(stand_in, COUNT).rate);
            let found = bed.fare_beside(Some(bad), COUNT).rate;
            assert!(found >= PART_MIN * due, "{bad:?}: {found:.0} reads per second, {due:.0} are due");
        }
    });
}

/// The difference between what the good hosts must get and what they get, relative to the former.
struct Change {
    rate: f64,
    p99: f64,
}

impl Change {
    /// The largest difference that is allowed.
    const MAX: f64 = 0.1;

    fn between(due: &Fared, found: &Fared) -> Change {
        Change {
            rate: found.rate / due.rate - 1.0,
            p99: found.p99.as_secs_f64() / due.p99.as_secs_f64() - 1.0,
        }
    }

    fn is_beyond(&self) -> bool {
        self.rate < -Change::MAX || self.p99 > Change::MAX
    }
}

/// The measurements next to each host, and without one.
type Rounds = HashMap<Option<Misbehaviour>, Vec<Fared>>;

/// What the good hosts must get next to `bad`, and what they get, over the same number of rounds.
fn compare(rounds: &Rounds, bad: Misbehaviour) -> (Fared, Fared, Change) {
    let found = &rounds[&Some(bad)];
    let due = &rounds[&bad.stand_in()][..found.len()];
    let (due, found) = (best(due), best(found));
    let change = Change::between(&due, &found);
    (due, found, change)
}

/// One row for each bad host.
fn table(rounds: &Rounds) -> String {
    let mut table = String::from(
        "| next to | reference | reads/s due | found | f-Util | p99 due (ms) | found | change | rounds |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for bad in Misbehaviour::ALL {
        let (due, found, change) = compare(rounds, bad);
        let stand_in = bad.stand_in().map_or("none".to_owned(), |stand_in| format!("{stand_in:?}"));
        let [p99_due, p99_found] = [&due, &found].map(|fared| fared.p99.as_secs_f64() * 1e3);
        writeln!(
            table,
            "| {bad:?} | {stand_in} | {:.0} | {:.0} | {:.2} | {p99_due:.1} | {p99_found:.1} | {:+.1} % | {} |",
            due.rate,
            found.rate,
            1.0 + change.rate,
            change.p99 * 100.0,
            rounds[&Some(bad)].len(),
        )
        .expect("a string grows");
    }
    table
}

#[test]
#[ignore = "measures for minutes; run by `make test-long`"]
fn the_utilisation_and_the_tail_of_good_hosts_change_by_a_tenth_at_most() {
    const SPEED_THOUSANDTHS: u32 = 1;
    const DEPTH: usize = 32;
    const COUNT: usize = 600;
    /// Rounds for all bad hosts; and the most rounds for one where every round was disturbed, by the machine or by the host.
    const ROUNDS: usize = 6;
    const ROUNDS_MAX: usize = 16;
    let bed = Bed::new(SPEED_THOUSANDTHS, DEPTH);
    let mut rounds = Rounds::new();
    let mut open = Misbehaviour::ALL.to_vec();
    std::thread::scope(|scope| {
        let _end = bed.occupy(scope);
        bed.fare(COUNT);
        for round in 1..=ROUNDS_MAX {
            let stand_ins: HashSet<_> = open.iter().map(|bad| bad.stand_in()).collect();
            for beside in stand_ins.into_iter().chain(open.iter().copied().map(Some)) {
                rounds.entry(beside).or_default().push(bed.fare_beside(beside, COUNT));
            }
            if round >= ROUNDS {
                open.retain(|bad| compare(&rounds, *bad).2.is_beyond());
            }
        }
    });
    let table = table(&rounds);
    println!("{table}");
    assert!(open.is_empty(), "beyond a tenth: {open:?}\n{table}");
}
