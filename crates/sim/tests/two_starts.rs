//! Level on a drive that stalls in bursts and serves each of many tenants only now and then: two starts of it end alike, as far as prices
//! that are measured in a few hundred milliseconds of such a drive can be alike.

use sched::Learnt;
use sim::{ClientChoice, Network, Pattern, PolicyChoice, TenantResults, TenantSpec, Workload, World};
use ssd::{Condition, Profile};
use std::thread;
use units::{Bytes, Nanos};

/// Tenants of each kind.
const TENANTS: usize = 16;
const INTERVAL: Nanos = Nanos::secs(10);
/// Points at the end that count.
const COUNTED: usize = 2;
/// The most that starts may differ: the measured prices of this drive vary by a few per cent, and over 16 starts readers end 1.12 and writers
/// 1.16 apart.
const APART: f64 = 1.25;

fn world(seed: u64) -> World {
    let tenant = |name: &str, reads| TenantSpec {
        obeys_credit: false,
        ..TenantSpec::new(name, Workload::closed(4, Bytes::kib(128), reads, Pattern::Random))
    };
    let readers = (0..TENANTS).map(|_| tenant("reader", 100));
    let writers = (0..TENANTS).map(|_| tenant("writer", 0));
    World {
        seed,
        profile: Profile::named("consumer-qlc").expect("it comes with gimbal"),
        condition: Condition::Fragmented,
        policy: PolicyChoice::from(Learnt::default()),
        auxiliary: None,
        clients: ClientChoice::Credits,
        network: Network::RDMA_100G,
        tenants: readers.chain(writers).collect(),
        warm_up: Nanos::ZERO,
        duration: Nanos(INTERVAL.0 * 9),
        interval: INTERVAL,
    }
}

/// MB/s of readers and of writers at the end.
fn end(seed: u64) -> [f64; 2] {
    let results = sim::run(&world(seed)).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    let bytes = |tenant: &TenantResults| -> u64 {
        let last = tenant.series.iter().rev().take(COUNTED);
        last.map(|point| point.read.bytes.0 + point.write.bytes.0).sum()
    };
    let all = |tenants: &[TenantResults]| tenants.iter().map(bytes).sum::<u64>() as f64;
    let (readers, writers) = results.tenants.split_at(TENANTS);
    [readers, writers].map(|tenants| all(tenants) * 1e3 / (COUNTED as u64 * INTERVAL.0) as f64)
}

#[test]
fn two_starts_of_one_drive_end_alike() {
    let ends: Vec<[f64; 2]> = thread::scope(|scope| {
        let starts: Vec<_> = (1..=4).map(|seed| scope.spawn(move || end(seed))).collect();
        starts.into_iter().map(|start| start.join().expect("it runs to its end")).collect()
    });
    for way in 0..2 {
        let rates = || ends.iter().map(|rates| rates[way]);
        let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
        assert!(most <= least * APART, "readers and writers, MB/s: {ends:.0?}");
    }
}
