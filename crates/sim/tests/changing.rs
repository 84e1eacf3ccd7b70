//! A drive that changes while it is used is afterwards as fast as one that was always in the new state.

use sim::{Change, Network, Pattern, PolicyChoice, Results, TenantSpec, Workload, World};
use ssd::{Condition, Image, Profile};
use units::{Bytes, Instant, Nanos};

/// The seed of the drive: one that writes more slowly when it is fragmented.
const SEED: u64 = 1;
const PHASE: Nanos = Nanos::millis(400);
const POINT: Nanos = Nanos::millis(100);

fn writers(condition: Condition, phases: u64) -> World {
    let workload = Workload::closed(64, Bytes::kib(16), 0, Pattern::Random);
    World {
        seed: SEED,
        profile: Profile::random(SEED),
        condition,
        policy: PolicyChoice::none(),
        auxiliary: None,
        clients: sim::ClientChoice::Credits,
        network: Network::RDMA_100G,
        tenants: vec![TenantSpec::new("writer", workload)],
        warm_up: Nanos::ZERO,
        duration: Nanos(PHASE.0 * phases),
        interval: POINT,
    }
}

/// Bytes in the second half of each phase: by then buffers are full.
fn by_phase(results: &Results) -> Vec<u64> {
    let points = (PHASE.0 / POINT.0) as usize;
    let late = |phase: &[sim::Point]| phase[points / 2..].iter().map(|point| point.write.bytes.0).sum();
    results.tenants[0].series.chunks(points).map(late).collect()
}

fn image(condition: Condition) -> Image {
    Image::new(&Profile::random(SEED), condition, SEED)
}

fn changing() -> Results {
    let world = writers(Condition::Clean, 3);
    let change = |phase: u64, condition| Change {
        at: Instant::ZERO + Nanos(PHASE.0 * phase),
        image: image(condition),
    };
    let changes = [change(1, Condition::Fragmented), change(2, Condition::Clean)];
    let image = image(Condition::Clean);
    let scheduler = world.policy.build(&image).expect("nothing is measured");
    sim::run_changing(&world, scheduler, &image, &changes).unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn after_a_change_the_drive_is_as_fast_as_one_that_was_always_so() {
    let always = |condition| {
        let results = sim::run(&writers(condition, 1)).unwrap_or_else(|violation| panic!("{violation}"));
        by_phase(&results)[0] as f64
    };
    let (clean, fragmented) = (always(Condition::Clean), always(Condition::Fragmented));
    assert!(fragmented < clean / 1.5, "the states differ: {clean} bytes and {fragmented}");
    let found = by_phase(&changing());
    for (phase, expected) in [clean, fragmented, clean].into_iter().enumerate() {
        let is = found[phase] as f64 / expected;
        assert!((is - 1.0).abs() < 0.05, "phase {phase}: {is:.3} times a drive that was always so");
    }
}

#[test]
fn a_run_on_a_changing_drive_repeats() {
    assert_eq!(changing().fingerprint, changing().fingerprint);
}
