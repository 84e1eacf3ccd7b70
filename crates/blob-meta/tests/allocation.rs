//! Several clients take all mega blobs of a rack from a real etcd server at the same time.
//!
//! Holds: each mega blob is allocated once, and all are. The long test does so with 100,000 of them, and prints the
//! speed (`cargo test --release -p blob-meta --test allocation -- --ignored --nocapture`).

mod server;

use blob::catalog::{self, Lock, Order, Reply, Standing, create, execute, register};
use blob::store::Store;
use blob::{Geometry, Mega, SsdId};
use blob_meta::Etcd;
use hdrhistogram::Histogram;
use server::{Server, record};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use units::Nanos;

/// Longer than the test takes.
const TTL: Nanos = Nanos::secs(3600);

/// A rack to be filled.
#[derive(Clone, Copy)]
struct Rack {
    ssds: u32,
    /// Number of mega blobs of each SSD.
    megas: u32,
    clients: u32,
}

impl Rack {
    fn all(self) -> u64 {
        u64::from(self.ssds) * u64::from(self.megas)
    }

    fn register(self, store: &mut dyn Store) -> Vec<SsdId> {
        let lease = store.grant(TTL).expect("it answers");
        (0..self.ssds)
            .map(|number| {
                register(store, &record(number, self.megas), lease, Standing::Started).expect("registered")
            })
            .collect()
    }
}

/// The results of one client.
struct Client {
    taken: Vec<Mega>,
    latencies: Histogram<u64>,
}

fn lock(store: &mut Etcd, name: &str) -> Lock {
    let order = Order::Acquire { name: name.to_owned(), who: name.to_owned(), ttl: TTL };
    match execute(store, &order) {
        Ok(Reply::Acquired(acquired)) => acquired.lock,
        other => panic!("{name} was not mounted: {other:?}"),
    }
}

/// Takes pairs on two different targets, until no two targets have any left.
fn take_all(store: &mut Etcd, rack: Rack, mut ssds: Vec<SsdId>, number: u32, taken: &AtomicU64) -> Client {
    let lock = lock(store, &format!("volume-{number}"));
    let mut client =
        Client { taken: Vec::new(), latencies: Histogram::new(3).expect("three digits are possible") };
    let mut turn = number as usize;
    // SSDs are numbered in the order of their registration.
    let domain = |ssd: SsdId, all: &[SsdId]| all.iter().position(|other| *other == ssd).map(|at| at / 4);
    let all = ssds.clone();
    loop {
        turn += 1;
        let Some(first) = ssds.get(turn % ssds.len().max(1)).copied() else { return client };
        let mut others = (1..ssds.len()).map(|step| ssds[(turn + step) % ssds.len()]);
        let Some(second) = others.find(|ssd| domain(*ssd, &all) != domain(first, &all)) else {
            return client;
        };
        let wanted = [first, second].map(|ssd| (ssd, rack.megas)).to_vec();
        let begun = Instant::now();
        match execute(store, &Order::Take { lock: lock.clone(), ssds: wanted }) {
            Ok(Reply::Taken(megas)) => {
                client.latencies.record(begun.elapsed().as_micros() as u64).expect("histograms grow");
                taken.fetch_add(megas.len() as u64, Ordering::Relaxed);
                client.taken.extend(megas);
            }
            Ok(Reply::Full(full)) => ssds.retain(|ssd| !full.contains(ssd)),
            other => panic!("client {number}: {other:?}"),
        }
    }
}

fn fill(name: &str, rack: Rack) {
    let server = Server::start(name);
    let mut store = server.connect();
    let ssds = rack.register(&mut store);
    for number in 0..rack.clients {
        create(&mut store, &format!("volume-{number}"), Geometry::default()).expect("created");
    }
    let taken = AtomicU64::new(0);
    let begun = Instant::now();
    let clients: Vec<Client> = thread::scope(|scope| {
        let client = |number| {
            let (mut store, ssds, taken) = (server.connect(), ssds.clone(), &taken);
            scope.spawn(move || take_all(&mut store, rack, ssds, number, taken))
        };
        let clients: Vec<_> = (0..rack.clients).map(client).collect();
        clients.into_iter().map(|client| client.join().expect("it ends well")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();

    let mut latencies = Histogram::<u64>::new(3).expect("three digits are possible");
    clients.iter().for_each(|client| latencies.add(&client.latencies).expect("histograms grow"));
    let millis = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "{} of {} mega blobs taken in pairs by {} clients in {seconds:.1} s: {:.0} per second; a pair takes {:.1} ms on \
         average, p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, at most {:.1} ms",
        taken.load(Ordering::Relaxed),
        rack.all(),
        rack.clients,
        taken.load(Ordering::Relaxed) as f64 / seconds,
        latencies.mean() / 1e3,
        millis(0.5),
        millis(0.99),
        millis(0.999),
        latencies.max() as f64 / 1e3,
    );

    let begun = Instant::now();
    let volumes = catalog::volumes(&mut store).expect("listed");
    println!("all volumes with their mega blobs are listed in {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    let mut owned = BTreeSet::new();
    for volume in &volumes {
        for mega in &volume.megas {
            assert!(owned.insert((mega.ssd, mega.index)), "{mega:?} has two owners");
        }
    }
    for client in &clients {
        assert!(client.taken.iter().all(|mega| owned.contains(&(mega.ssd, mega.index))));
    }
    let used: u64 = catalog::ssds(&mut store).expect("listed").iter().map(|ssd| u64::from(ssd.used)).sum();
    assert_eq!(used, owned.len() as u64, "used by nobody");
    // The last pairs may not fit, if all that is left is on one target.
    assert!(used <= rack.all() && used + u64::from(4 * rack.megas) > rack.all(), "{used} are used");
    assert!(used * 100 >= rack.all() * 95, "{used} of {} are used", rack.all());
}

#[test]
fn each_mega_blob_is_handed_out_once() {
    fill("etcd-few", Rack { ssds: 8, megas: 40, clients: 4 });
}

#[test]
#[ignore = "takes minutes; prints rate and latency"]
fn a_hundred_thousand_mega_blobs_are_handed_out_once() {
    fill("etcd-many", Rack { ssds: 20, megas: 5000, clients: 4 });
}
