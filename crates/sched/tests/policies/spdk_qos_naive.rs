//! SPDK's limits, done tick by tick.

use crate::peers::shares;
use crate::world::{Event, World, is_withdrawn};
use proptest::prelude::*;
use sched::{Done, Io, Next, Outcome, Policy, SpdkQos};
use std::collections::VecDeque;
use units::{ByteRate, Instant, Nanos, TenantId};

const TICK: u64 = 1_000_000;
/// Of an IO or byte.
const PARTS: i128 = 1_000_000_000;

#[derive(Clone)]
struct Limit {
    /// A tick's allowance, and what is left of this one's.
    each: i128,
    left: i128,
}

#[derive(Clone, Default)]
struct Tenant {
    ios: Option<Limit>,
    bytes: Option<Limit>,
}

impl Tenant {
    fn limits(&mut self) -> impl Iterator<Item = &mut Limit> {
        self.ios.iter_mut().chain(&mut self.bytes)
    }

    fn tick(&mut self) {
        self.limits().for_each(|limit| limit.left = limit.left.min(0) + limit.each);
    }

    fn may_go(&mut self) -> bool {
        self.limits().all(|limit| limit.left > 0)
    }
}

struct Naive {
    tenants: Vec<Tenant>,
    queues: Vec<VecDeque<Io>>,
    ticks: u64,
    turn: usize,
}

impl Naive {
    fn new(world: &World, rate: Option<ByteRate>) -> Naive {
        let shares = shares(world);
        let weights: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
        let limit = |per_second: u64| {
            let each = (i128::from(per_second) * i128::from(TICK)).max(1);
            Limit { each, left: each }
        };
        let tenants = shares.iter().map(|share| {
            let has_own = share.limit_iops.is_some() || share.limit_rate.is_some();
            let part = rate.filter(|_| !has_own).map(|rate| rate.0 * u64::from(share.weight) / weights);
            Tenant {
                ios: share.limit_iops.map(limit),
                bytes: share.limit_rate.map(|rate| rate.0).or(part).map(limit),
            }
        });
        Naive { tenants: tenants.collect(), queues: vec![VecDeque::new(); shares.len()], ticks: 0, turn: 0 }
    }

    fn next(&mut self, now: Instant) -> Next {
        while self.ticks < now.0 / TICK {
            self.ticks += 1;
            self.tenants.iter_mut().for_each(Tenant::tick);
        }
        let count = self.tenants.len();
        let order = (0..count).map(|step| (self.turn + step) % count);
        let waiting: Vec<usize> = order.filter(|&index| !self.queues[index].is_empty()).collect();
        if let Some(&index) = waiting.iter().find(|&&index| self.tenants[index].may_go()) {
            let io = self.queues[index].pop_front().expect("it waits");
            let tenant = &mut self.tenants[index];
            tenant.ios.iter_mut().for_each(|limit| limit.left -= PARTS);
            tenant.bytes.iter_mut().for_each(|limit| limit.left -= i128::from(io.length.0) * PARTS);
            self.turn = (index + 1) % count;
            return Next::Submit(io);
        }
        let ticks = waiting.into_iter().map(|index| {
            let mut tenant = self.tenants[index].clone();
            (1..).find(|_| {
                tenant.tick();
                tenant.may_go()
            })
        });
        let first = ticks.flatten().min();
        first.map_or(Next::Idle, |ticks: u64| Next::WakeAt(Instant((self.ticks + ticks) * TICK)))
    }
}

/// Runs both through the same world and compares every answer.
fn compare(world: World, rate: Option<ByteRate>) {
    let mut qos = crate::peers::with_shares(SpdkQos::new(rate), &world);
    let mut naive = Naive::new(&world, rate);
    let mut events = world.events();
    let (mut now, mut in_flight) = (Instant::ZERO, Vec::new());
    for step in 0..world.steps {
        match events.next(in_flight.len()) {
            Event::Wait(span) => now += span,
            Event::Arrival(io) => {
                qos.on_arrival(now, io);
                naive.queues[io.tenant.index()].push_back(io);
            }
            Event::Withdraw(TenantId(tenant)) => {
                qos.withdraw(now, TenantId(tenant), &mut is_withdrawn);
                naive.queues[tenant as usize].retain(|io| !is_withdrawn(io));
            }
            Event::Completion { index, latency } => {
                let io: Io = in_flight.swap_remove(index);
                let outcome = latency.map_or(Outcome::Failed, |latency: Nanos| Outcome::Success { latency });
                qos.on_completion(now, Done { io, outcome });
            }
        }
        loop {
            let (ours, theirs) = (qos.next(now), naive.next(now));
            assert_eq!(ours, theirs, "at step {step}");
            let Next::Submit(io) = ours else { break };
            in_flight.push(io);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn every_decision_is_the_naive_models(world in crate::every::worlds(), megabytes in 0..300u64) {
        compare(world, (megabytes > 0).then(|| ByteRate(megabytes * 1_000_000)));
    }
}
