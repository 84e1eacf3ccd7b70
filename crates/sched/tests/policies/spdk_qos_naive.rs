//! SPDK's limits, done tick by tick.

use crate::model::{self, Model};
use crate::peers::shares;
use crate::world::{World, is_withdrawn};
use proptest::prelude::*;
use sched::{Io, Next, SpdkQos};
use std::collections::VecDeque;
use units::{ByteRate, Instant, Nanos, TenantId};

const TICK: u64 = 1_000_000;
/// Of an IO or byte.
const PARTS: i128 = 1_000_000_000;

#[derive(Clone)]
struct Limit {
    /// A tick's allowance, and the rest of this tick's.
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
}

impl Model for Naive {
    fn on_arrival(&mut self, _now: Instant, io: Io) {
        self.queues[io.tenant.index()].push_back(io);
    }

    /// Only what begins is limited.
    fn on_completion(&mut self, _now: Instant, _io: &Io, _latency: Option<Nanos>) {}

    fn withdraw(&mut self, tenant: TenantId) {
        self.queues[tenant.index()].retain(|io| !is_withdrawn(io));
    }

    fn on_overdue(&mut self, _tenant: TenantId) {}

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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn every_decision_is_the_naive_models(world in crate::every::worlds(), megabytes in 0..300u64) {
        let rate = (megabytes > 0).then(|| ByteRate(megabytes * 1_000_000));
        let qos = crate::peers::with_shares(SpdkQos::new(rate), &world);
        let naive = Naive::new(&world, rate);
        model::compare(world, qos, naive);
    }
}
