//! Every decision of the switch is that of a naive one, over whole random worlds.

mod naive;
mod world;

use naive::{Constants, Naive};
use proptest::prelude::*;
use sched::{Done, Gimbal, LevelCalibrated, MonitorView, Next, Outcome, Policy, Share};
use units::{Instant, Nanos, TenantId};
use world::{Config, Dice, Event, Variant, World, is_withdrawn};

/// Runs both through the same world and compares every answer.
fn compare(world: World, weights_differ: bool) {
    match world.config() {
        Config::Gimbal(config) => compare_with(Gimbal::new(config), world, weights_differ),
        Config::LevelCalibrated(config) => compare_with(LevelCalibrated::new(config), world, weights_differ),
    }
}

fn compare_with(mut switch: impl Policy, world: World, weights_differ: bool) {
    let mut dice = Dice::new(!world.seed);
    let weight = |_| if weights_differ { 1 + dice.roll(5) as u32 } else { 1 };
    let weights: Vec<u32> = (0..world.tenants).map(weight).collect();
    let mut naive = Naive::new(Constants::of(&world.config()), &weights);
    for (tenant, &weight) in weights.iter().enumerate() {
        switch.set_share(Instant::ZERO, TenantId(tenant as u32), Share { weight, ..Share::EQUAL });
    }
    let mut events = world.events();
    let mut now = Instant::ZERO;
    let mut in_flight = Vec::new();
    for step in 0..world.steps {
        match events.next(in_flight.len()) {
            Event::Wait(span) => now += span,
            Event::Arrival(io) => {
                switch.on_arrival(now, io);
                naive.on_arrival(now, io);
            }
            Event::Withdraw(tenant) => {
                switch.withdraw(now, tenant, &mut is_withdrawn);
                naive.withdraw(now, tenant.0, is_withdrawn);
            }
            Event::Completion { index, latency } => {
                let io = in_flight.swap_remove(index);
                let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
                switch.on_completion(now, Done { io, outcome });
                naive.on_completion(now, &io, latency);
            }
        }
        loop {
            let (ours, theirs) = (switch.next(now), naive.next(now));
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
        compare_measures(&switch, &naive, now, step);
        for tenant in 0..world.tenants {
            if let Some(view) = switch.tenant_view(TenantId(tenant)) {
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

/// The switch's findings about the SSD equal those of the naive one.
fn compare_measures(switch: &impl Policy, naive: &Naive, now: Instant, step: u32) {
    let view = switch.ssd_view(now).expect("it measures the SSD");
    let measures = &naive.measures;
    for (monitor, latency) in [(view.reads, &measures.reads), (view.writes, &measures.writes)] {
        let whole = |fine: u128| Nanos((fine >> 16) as u64);
        let (ewma, threshold) = (latency.average.map(whole), whole(latency.threshold));
        assert_eq!(monitor, MonitorView { ewma, threshold, state: latency.state }, "at step {step}");
    }
    assert_eq!(view.write_cost, measures.write_cost(), "at step {step}");
    assert_eq!(view.active_tenants, naive.active_tenants(), "at step {step}");
    if let Some(fragmentation) = view.fragmentation {
        // A whole number of parts of 2¹⁶.
        let parts = (fragmentation.as_f64() * 65_536.0) as u128;
        assert_eq!(parts, measures.fragmentation(), "the fragmentation at step {step}");
    }
    if let Some(time) = view.time_in_flight {
        assert_eq!(time.limit.0, measures.limit(), "the limit on the device time at step {step}");
        assert_eq!(time.in_flight.0, naive.charged(), "the device time in flight at step {step}");
    }
    if let Some(pacing) = view.pacing {
        assert_eq!(pacing.target_rate.0, measures.target_rate(), "the target rate at step {step}");
        let completion_rate = pacing.completion_rate.map(|rate| rate.0);
        assert_eq!(completion_rate, measures.completion_rate(), "the completion rate at step {step}");
        let tokens = [pacing.read_tokens.0, pacing.write_tokens.0];
        assert_eq!(tokens, naive.tokens(now), "tokens at step {step}");
    }
    assert!(view.pacing.is_some() != view.time_in_flight.is_some(), "{view:?}");
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
