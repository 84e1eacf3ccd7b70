//! Random worlds: everything that a world can be, drawn from one seed.
//!
//! They are small (a few dozen milliseconds of virtual time) and odd on purpose: tenants that start and stop,
//! sizes that do not match a slot, clients that ignore their credit, tight limits next to none, links with
//! jitter.

use crate::network::Network;
use crate::workload::{Arrival, Pattern, SizeMix, Workload};
use crate::world::{ClientChoice, LatencyScope, PolicyChoice, TenantSpec, World};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{
    CalibratedConfig, DeviceConstants, DeviceCosts, FlashfqConfig, GimbalConfig, Learnt, LinearCost,
    Millitokens, PardaConfig, Percentile, Priority, ReadOnlyLoad, ReflexConfig, Share, Slo, SupplyPoint,
    TokenRate,
};
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
        auxiliary: None,
        clients: clients(&mut random),
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

/// A DCT983 small enough to be created a few hundred times: a quarter of the dies, so that the spare flash is
/// still enough.
fn profile() -> Profile {
    let mut profile = Profile::default();
    profile.geometry.capacity = Bytes::gib(1);
    profile.geometry.never_written = Bytes::gib(1);
    profile.geometry.dies_per_channel = 1;
    profile
}

fn policy(random: &mut Xoshiro256PlusPlus) -> PolicyChoice {
    match random.random_range(0..9) {
        0 => PolicyChoice::none(),
        1 | 2 => PolicyChoice::from(reflex(random)),
        3 | 4 => PolicyChoice::from(flashfq(random)),
        8 => PolicyChoice::from(Learnt::default()),
        _ => gimbal_or_level(random),
    }
}

/// Not a calibration: any allowed value.
fn reflex(random: &mut Xoshiro256PlusPlus) -> ReflexConfig {
    let rate: u64 = random.random_range(20_000..600_000);
    let point = |micros, percent| SupplyPoint {
        latency_p95: Nanos::micros(micros),
        mixed: TokenRate::tokens_per_sec(rate * percent / 100),
        read_only: TokenRate::tokens_per_sec(rate * percent / 60),
    };
    let supply = vec![point(200, 30), point(500, 70), point(2000, 100)];
    let write_cost = Millitokens(random.random_range(1_000..20_000));
    let mut config = ReflexConfig::new(Millitokens(random.random_range(300..=1000)), write_cost, supply);
    if random.random_ratio(1, 2) {
        config.read_only_load = ReadOnlyLoad::Declared;
    }
    config.round = Nanos::micros(random.random_range(1..200));
    config
}

/// Not a calibration: any allowed value.
fn flashfq(random: &mut Xoshiro256PlusPlus) -> FlashfqConfig {
    let mut cost = |most: u64| LinearCost {
        base: Nanos(random.random_range(100..most)),
        per_kib: Nanos(random.random_range(1..2000)),
    };
    FlashfqConfig {
        reads: cost(10_000),
        writes: cost(100_000),
        depth: random.random_range(1..=64),
        throttle: Nanos::micros(random.random_range(0..5_000)),
        anticipation: Nanos::micros(*[0, 50, 500, 5_000].choose(random).expect("not empty")),
    }
}

fn clients(random: &mut Xoshiro256PlusPlus) -> ClientChoice {
    if random.random_ratio(2, 3) {
        return ClientChoice::Credits;
    }
    let threshold = Nanos::micros(random.random_range(100..5_000));
    let period = Nanos::micros(random.random_range(200..10_000));
    let config =
        PardaConfig { window_max: random.random_range(1..=128), ..PardaConfig::new(threshold, period) };
    let scope = if random.random_ratio(3, 4) { LatencyScope::AllHosts } else { LatencyScope::OwnHost };
    ClientChoice::Parda { config, scope }
}

/// Gimbal or level-calibrated.
fn gimbal_or_level(random: &mut Xoshiro256PlusPlus) -> PolicyChoice {
    let variant = random.random_range(0..8);
    let device = DeviceConstants { slots: random.random_range(1..=16), ..DeviceConstants::DCT983 };
    let bucket_depth = Bytes::kib(*[4, 64, 256, 1024].choose(random).expect("not empty"));
    let write_cost_period = Nanos::millis(random.random_range(1..100));
    let varied = |config| GimbalConfig { bucket_depth, write_cost_period, ..config };
    match variant {
        0 => PolicyChoice::from(CalibratedConfig::new(device, DeviceCosts::DCT983)),
        1..4 => PolicyChoice::from(varied(GimbalConfig::as_written(device))),
        _ => PolicyChoice::from(varied(GimbalConfig::published(device))),
    }
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
        bursts: None,
        rate_max: random.random_ratio(1, 4).then(|| ByteRate::mib_per_sec(random.random_range(1..500))),
    };
    let share = match random.random_range(0..5) {
        0 => Share { weight: random.random_range(1..8), ..Share::EQUAL },
        1 => Share { limit_iops: Some(random.random_range(50..5_000)), ..Share::EQUAL },
        2 => Share {
            limit_rate: Some(ByteRate::mib_per_sec(random.random_range(1..400))),
            reservation: Some(ByteRate::mib_per_sec(random.random_range(1..100))),
            ..Share::EQUAL
        },
        3 => Share {
            slo: Some(Slo {
                iops: random.random_range(100..20_000),
                read_percent: random.random_range(0..=100),
                percentile: if random.random() { Percentile::P95 } else { Percentile::P99 },
                latency: Nanos::micros(random.random_range(100..3_000)),
            }),
            ..Share::EQUAL
        },
        _ => Share::EQUAL,
    };
    let start = if random.random_ratio(1, 3) { random.random_range(0..duration.0) } else { 0 };
    TenantSpec {
        share,
        obeys_credit: random.random_ratio(3, 4),
        host: random.random_ratio(1, 2).then(|| random.random_range(0..3)),
        start: Instant(start),
        stop: if random.random_ratio(1, 3) { Instant(start + duration.0 / 3) } else { Instant::FAR_FUTURE },
        ..TenantSpec::new(format!("tenant-{n}"), workload)
    }
}
