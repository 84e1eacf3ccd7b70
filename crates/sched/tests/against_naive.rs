//! Every decision of the switch is that of a naive one, over whole random worlds.

mod naive;
mod world;

use naive::Naive;
use proptest::prelude::*;
use sched::{Congestion, Done, Gimbal, IoKind, Next, Outcome, Policy, Share};
use units::{Instant, TenantId};
use world::{Dice, Event, Variant, World, is_withdrawn};

/// Runs both through the same world and compares every answer.
fn compare(world: World, weights_differ: bool) {
    let mut dice = Dice::new(!world.seed);
    let weight = |_| if weights_differ { 1 + dice.roll(5) as u32 } else { 1 };
    let weights: Vec<u32> = (0..world.tenants).map(weight).collect();
    let mut gimbal = Gimbal::new(world.config());
    let mut naive = Naive::new(world.config(), &weights);
    for (tenant, &weight) in weights.iter().enumerate() {
        gimbal.set_share(Instant::ZERO, TenantId(tenant as u32), Share { weight, ..Share::EQUAL });
    }
    let mut events = world.events();
    let mut now = Instant::ZERO;
    let mut in_flight = Vec::new();
    for step in 0..world.steps {
        match events.next(in_flight.len()) {
            Event::Wait(span) => now += span,
            Event::Arrival(io) => {
                gimbal.on_arrival(now, io);
                naive.on_arrival(now, io);
            }
            Event::Withdraw(tenant) => {
                gimbal.withdraw(now, tenant, &mut is_withdrawn);
                naive.withdraw(now, tenant.0, is_withdrawn);
            }
            Event::Completion { index, latency } => {
                let io = in_flight.swap_remove(index);
                let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
                gimbal.on_completion(now, Done { io, outcome });
                let view = gimbal.ssd_view(now).expect("Gimbal measures the SSD");
                let state = match (io.kind, latency) {
                    (IoKind::Read, Some(_)) => view.reads.state,
                    (IoKind::Write, Some(_)) => view.writes.state,
                    _ => None,
                };
                let overloaded = state == Some(Congestion::Overloaded);
                naive.on_completion(
                    now,
                    &io,
                    latency.is_some(),
                    (view.target_rate.0, view.write_cost),
                    (view.wear, view.window.map(|window| window.size)),
                    overloaded,
                );
            }
        }
        loop {
            let (ours, theirs) = (gimbal.next(now), naive.next(now));
            match (ours, theirs) {
                (Next::Submit(io), Next::Submit(expected)) => {
                    assert_eq!(io.id, expected.id, "at step {step}");
                    in_flight.push(io);
                }
                _ => {
                    assert_eq!(ours, theirs, "at step {step}");
                    break;
                }
            }
        }
        for tenant in 0..world.tenants {
            if let Some(view) = gimbal.tenant_view(TenantId(tenant)) {
                let (busy, allotted) = (naive.busy(tenant), naive.allotment(tenant));
                assert_eq!(
                    (view.slots_busy, view.slots_allotted),
                    (busy, allotted),
                    "tenant {tenant}, step {step}"
                );
            }
        }
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let variant = prop::sample::select(Variant::ALL.to_vec());
    (any::<u64>(), 1..14u32, 1..1500u32, 1..20u32, variant)
        .prop_map(|(seed, tenants, steps, slots, variant)| World { seed, tenants, steps, slots, variant })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_decision_is_the_naive_models(world in worlds()) {
        compare(world, false);
    }

    #[test]
    fn every_decision_is_the_naive_models_with_weights(world in worlds()) {
        compare(world, true);
    }
}
