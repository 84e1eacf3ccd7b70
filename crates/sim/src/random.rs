//! Random worlds: everything that a world can be, drawn from one seed.
//!
//! They are small (a few dozen milliseconds of virtual time) and odd on purpose: tenants that come and go, sizes that do not
//! fit a slot, clients that ignore their credit, tight limits next to none, links with jitter.

use crate::network::Network;
use crate::workload::{Arrival, Pattern, SizeMix, Workload};
use crate::world::{PolicyChoice, TenantSpec, World};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{DeviceConstants, GimbalConfig, Priority, Share};
use ssd::{Condition, Profile};
use units::{ByteRate, Bytes, Instant, Nanos};

/// The world of this seed.
pub fn world(seed: u64) -> World {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let duration = Nanos::millis(random.random_range(5..40));
    let tenants = (0..random.random_range(1..=12)).map(|n| tenant(n, duration, &mut random)).collect();
    World {
        seed,
        profile: profile(),
        condition: if random.random_ratio(1, 2) { Condition::Clean } else { Condition::Fragmented },
        policy: policy(&mut random),
        network: Network {
            delay: Nanos::micros(random.random_range(0..100)),
            jitter: Nanos::micros(*[0, 0, 5, 200].choose(&mut random).expect("not empty")),
            rate: ByteRate(*[12_500_000_000, 1_250_000_000].choose(&mut random).expect("not empty")),
        },
        tenants,
        warm_up: Nanos::millis(2),
        duration,
        interval: Nanos::millis(1),
    }
}

/// A DCT983 small enough to be made a few hundred times: a quarter of the dies, so that the spare still suffices.
fn profile() -> Profile {
    let mut profile = Profile::default();
    profile.geometry.capacity = Bytes::gib(1);
    profile.geometry.never_written = Bytes::gib(1);
    profile.geometry.dies_per_channel = 1;
    profile
}

fn policy(random: &mut Xoshiro256PlusPlus) -> PolicyChoice {
    if random.random_ratio(1, 8) {
        return PolicyChoice::None;
    }
    let device = DeviceConstants::DCT983;
    let mut config =
        if random.random_ratio(3, 4) { GimbalConfig::paper(device) } else { GimbalConfig::fair(device) };
    config.device.slots = random.random_range(1..=16);
    config.slots_per_tenant_min = random.random_range(1..=3);
    config.bucket_depth = Bytes::kib(*[4, 64, 256, 1024].choose(random).expect("not empty"));
    config.write_cost_period = Nanos::millis(random.random_range(1..100));
    PolicyChoice::Gimbal(config)
}

fn tenant(n: usize, duration: Nanos, random: &mut Xoshiro256PlusPlus) -> TenantSpec {
    let arrival = if random.random_ratio(3, 4) {
        Arrival::Closed { depth: *[1, 2, 7, 32, 128].choose(random).expect("not empty") }
    } else {
        Arrival::Open { iops: random.random_range(100..20_000) }
    };
    let kib = [4, 4, 8, 12, 64, 128, 256, 1024];
    let sizes = (0..random.random_range(1..=3))
        .map(|_| (Bytes::kib(*kib.choose(random).expect("not empty")), random.random_range(1..10)))
        .collect();
    let workload = Workload {
        arrival,
        read_percent: *[0, 30, 70, 100, 100].choose(random).expect("not empty"),
        pattern: if random.random_ratio(2, 3) { Pattern::Random } else { Pattern::Sequential },
        sizes: SizeMix::new(sizes),
        region: None,
        priorities: (0..random.random_range(1..=4))
            .map(|_| Priority::new(random.random_range(0..4)).expect("there are four classes"))
            .collect(),
        rate_max: random.random_ratio(1, 4).then(|| ByteRate::mib_per_sec(random.random_range(1..500))),
    };
    let share = match random.random_range(0..4) {
        0 => Share { weight: random.random_range(1..8), ..Share::EQUAL },
        1 => Share { limit_iops: Some(random.random_range(50..5_000)), ..Share::EQUAL },
        2 => Share {
            limit_rate: Some(ByteRate::mib_per_sec(random.random_range(1..400))),
            reservation: Some(ByteRate::mib_per_sec(random.random_range(1..100))),
            ..Share::EQUAL
        },
        _ => Share::EQUAL,
    };
    let start = if random.random_ratio(1, 3) { random.random_range(0..duration.0) } else { 0 };
    TenantSpec {
        share,
        obeys_credit: random.random_ratio(3, 4),
        start: Instant(start),
        stop: if random.random_ratio(1, 3) { Instant(start + duration.0 / 3) } else { Instant::FAR_FUTURE },
        ..TenantSpec::new(format!("tenant-{n}"), workload)
    }
}
