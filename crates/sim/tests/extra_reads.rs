//! Tenants with reads of many sizes, so that they change their kind of work while Level does extra reads.

use sched::Learnt;
use sim::{ClientChoice, Network, Pattern, PolicyChoice, SizeMix, TenantSpec, Workload, World};
use ssd::{Condition, Profile};
use units::{Bytes, Nanos};

/// Sizes with a mean that spreads over 256 IOs more widely than a step between two kinds.
fn sizes() -> SizeMix {
    SizeMix::new(vec![(Bytes::kib(4), 40), (Bytes::kib(8), 40), (Bytes::kib(128), 3)])
}

fn world(seed: u64) -> World {
    let mut profile = Profile::default();
    profile.geometry.capacity = Bytes::gib(1);
    profile.geometry.never_written = Bytes::gib(1);
    profile.geometry.dies_per_channel = 1;
    let reader =
        |depth| Workload { sizes: sizes(), ..Workload::closed(depth, Bytes::kib(4), 100, Pattern::Random) };
    let writer = Workload::closed(16, Bytes::kib(32), 0, Pattern::Random);
    World {
        seed,
        profile,
        condition: Condition::Clean,
        policy: PolicyChoice::from(Learnt::default()),
        auxiliary: None,
        clients: ClientChoice::Credits,
        network: Network::RDMA_100G,
        tenants: vec![
            TenantSpec::new("reader of some", reader(3)),
            TenantSpec::new("reader of many", reader(4)),
            TenantSpec::new("writer", writer),
        ],
        warm_up: Nanos::ZERO,
        duration: Nanos::millis(900),
        interval: Nanos::millis(100),
    }
}

#[test]
fn tenants_that_change_their_kind_of_work_during_a_probe_disturb_nothing() {
    for seed in 0..24 {
        let results = sim::run(&world(seed)).unwrap_or_else(|violation| panic!("world {seed}: {violation}"));
        let served = results.tenants.iter().all(|tenant| tenant.read.ios + tenant.write.ios > 0);
        assert!(served, "world {seed}: a tenant had nothing");
    }
}
