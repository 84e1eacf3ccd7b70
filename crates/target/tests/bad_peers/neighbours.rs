//! What well-behaved hosts notice of bad ones: nothing.
//!
//! The SSD is emulated and slowed down so much that neither the processor nor the network is what limits anybody; its own clock
//! is what rates are measured by. Two good hosts keep a few reads outstanding, alone and beside each kind of bad host.
//!
//! What is due to them beside a bad host that does IO is what they have beside one that does the same IO and behaves
//! (`Misbehaviour::stand_in`): an SSD that is shared is slower for everybody, and that is no misbehaviour's doing.

use crate::common::{BLOCK, Client, HOST, Options, any_port, rw, start};
use crate::misbehaviour::Misbehaviour;
use nvme::connection::host::Transfer;
use nvme::spec::opcode::nvm;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex};
use std::thread::Scope;
use std::time::{Duration, Instant};
use target::ServerHandle;
use target::config::{Config, DeviceKind, EmulatedConfig, Limits, Speed};
use units::{ByteRate, Bytes, Nanos};

/// The good hosts.
const GOOD: [&str; 2] = [HOST, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"];

/// What the scheduler's rate is held to. It finds its way from anywhere, by so much for each byte that is done; but on an SSD that
/// is slowed down that takes minutes, and who is looked at later would fare better.
const RATE: ByteRate = ByteRate::mib_per_sec(2500);

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

/// What the good hosts of a target do.
struct Good {
    address: SocketAddr,
    /// Reads that each keeps outstanding.
    depth: usize,
    /// How long their reads took, of those that ended since somebody began to measure.
    latencies: Mutex<Vec<Duration>>,
    /// Another one ended.
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
        let mut config = Config { limits: limits(), ..Config::simple(device, any_port()) };
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

    /// Lets the good hosts read until the answer is dropped.
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

    /// The next `count` reads of the good hosts.
    fn reads(&self, count: usize) -> Vec<Duration> {
        let latencies = || self.good.latencies.lock().expect("nobody panics");
        latencies().clear();
        self.good.more.wait_while(latencies(), |all| all.len() < count).expect("nobody panics").clone()
    }

    /// How the good hosts fare over their next `count` reads but for those that had begun before.
    fn fare(&self, count: usize) -> Fared {
        self.reads(GOOD.len() * self.good.depth);
        let began = self.clock();
        let mut latencies = self.reads(count);
        let took = self.clock() - began;
        let rate = latencies.len() as f64 / took;
        latencies.sort();
        Fared { rate, p99: latencies[latencies.len() * 99 / 100] }
    }

    /// As `fare`, while another host is at it, if one is named.
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

/// How the good hosts fared for a while.
struct Fared {
    /// Reads per second of the SSD's clock.
    rate: f64,
    p99: Duration,
}

/// The best of several rounds: what a bad host does to the others it does in every round, what the machine does in some. So rounds
/// are short, and many.
fn best(rounds: &[Fared]) -> Fared {
    let rate = rounds.iter().map(|round| round.rate).fold(0.0, f64::max);
    Fared { rate, p99: rounds.iter().map(|round| round.p99).min().expect("there are rounds") }
}

#[test]
fn good_hosts_are_served_next_to_every_kind_of_bad_host() {
    // Reads take 80 ms and more: what the machine is late by hardly counts.
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

/// What changes for the good hosts between what is due and what they find, as parts of what is due.
struct Change {
    rate: f64,
    p99: f64,
}

impl Change {
    /// The most that a bad host may change.
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

/// What was measured beside each host, and beside none.
type Rounds = HashMap<Option<Misbehaviour>, Vec<Fared>>;

/// What the good hosts are due beside `bad`, and what they find, over the same rounds.
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
        "| beside | due beside | reads/s due | found | f-Util | p99 due (ms) | found | change | rounds |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for bad in Misbehaviour::ALL {
        let (due, found, change) = compare(rounds, bad);
        let stand_in = bad.stand_in().map_or("nobody".to_owned(), |stand_in| format!("{stand_in:?}"));
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
    /// Rounds for all; and how many those get beside whom the machine, or they, have spoilt every round.
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
