//! FlashFQ's decisions, done the obvious way: every question is answered by looking at every tenant, in exact fractions.

use crate::flashfq::small_device;
use crate::model::{self, Model};
use crate::world::{Dice, World, is_withdrawn};
use proptest::prelude::*;
use sched::{Flashfq, FlashfqConfig, Io, Next, Policy, Share};
use std::collections::VecDeque;
use units::{Instant, Nanos, TenantId};

/// Parts of a nanosecond in which virtual time is kept.
const PARTS: i128 = 1 << 16;

#[derive(Clone, Debug, Default)]
struct Tenant {
    weight: i128,
    queue: VecDeque<Io>,
    in_flight: usize,
    start: i128,
    /// When its last IO ended, if nothing has come since and it did not leave by itself.
    expected_since: Option<Instant>,
    overdue: bool,
    /// When it last became the one to be asked, for ties.
    turn: u64,
}

#[derive(Clone, Debug)]
struct Naive {
    config: FlashfqConfig,
    tenants: Vec<Tenant>,
    latest: i128,
    turns: u64,
}

impl Naive {
    fn anticipation_end(&self, tenant: &Tenant) -> Option<Instant> {
        tenant.expected_since.map(|since| since + self.config.anticipation)
    }

    fn is_busy(tenant: &Tenant) -> bool {
        !tenant.overdue && (tenant.in_flight > 0 || !tenant.queue.is_empty())
    }

    fn is_expected(&self, tenant: &Tenant, now: Instant) -> bool {
        self.anticipation_end(tenant).is_some_and(|end| end > now)
    }

    /// Where the tenant's next IO would start.
    fn progress(&self, tenant: &Tenant, now: Instant) -> i128 {
        let waited = match (tenant.expected_since, self.anticipation_end(tenant)) {
            (Some(since), Some(end)) => now.min(end).since(since).0,
            _ => 0,
        };
        tenant.start + i128::from(waited) * PARTS
    }

    fn settle(&mut self, now: Instant) {
        for index in 0..self.tenants.len() {
            let progress = self.progress(&self.tenants[index], now);
            let gone =
                self.tenants[index].expected_since.is_some() && !self.is_expected(&self.tenants[index], now);
            if gone {
                let tenant = &mut self.tenants[index];
                (tenant.start, tenant.expected_since) = (progress, None);
            }
            if !self.tenants[index].overdue {
                self.latest = self.latest.max(progress);
            }
        }
    }

    fn virtual_time(&self, now: Instant) -> i128 {
        let active =
            self.tenants.iter().filter(|tenant| Self::is_busy(tenant) || self.is_expected(tenant, now));
        active.map(|tenant| self.progress(tenant, now)).min().unwrap_or(self.latest)
    }

    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

impl Model for Naive {
    fn on_arrival(&mut self, now: Instant, io: Io) {
        self.settle(now);
        let index = io.tenant.index();
        let (start, time) = (self.progress(&self.tenants[index], now), self.virtual_time(now));
        let (turn, tenant) = (self.turn(), &self.tenants[index]);
        let was_active = Self::is_busy(tenant) || self.is_expected(tenant, now);
        let tenant = &mut self.tenants[index];
        tenant.start = if was_active || tenant.overdue { start } else { start.max(time) };
        tenant.expected_since = None;
        if tenant.queue.is_empty() {
            tenant.turn = turn;
        }
        tenant.queue.push_back(io);
    }

    fn on_completion(&mut self, now: Instant, io: &Io, _latency: Option<Nanos>) {
        self.settle(now);
        let time = self.virtual_time(now);
        let tenant = &mut self.tenants[io.tenant.index()];
        tenant.in_flight -= 1;
        if tenant.overdue {
            tenant.overdue = false;
            tenant.start = tenant.start.max(time);
        }
        if tenant.in_flight == 0 && tenant.queue.is_empty() {
            tenant.expected_since = Some(now);
        }
    }

    fn withdraw(&mut self, tenant: TenantId) {
        self.tenants[tenant.index()].queue.retain(|io| !is_withdrawn(io));
    }

    fn on_overdue(&mut self, tenant: TenantId) {
        let tenant = &mut self.tenants[tenant.index()];
        tenant.overdue |= tenant.in_flight > 0;
    }

    fn next(&mut self, now: Instant) -> Next {
        self.settle(now);
        let inside: usize =
            self.tenants.iter().filter(|tenant| !tenant.overdue).map(|tenant| tenant.in_flight).sum();
        let backlogged = (0..self.tenants.len()).filter(|&index| !self.tenants[index].queue.is_empty());
        let head = backlogged.min_by_key(|&index| (self.tenants[index].start, self.tenants[index].turn));
        let Some(index) = head else { return Next::Idle };
        if inside >= self.config.depth as usize {
            return Next::Idle;
        }
        let limit = self.tenants[index].start - i128::from(self.config.throttle.0) * PARTS;
        let is_behind = |tenant: &&Tenant, at: Instant| self.progress(tenant, at) < limit;
        if self.tenants.iter().any(|tenant| Self::is_busy(tenant) && is_behind(&tenant, now)) {
            return Next::Idle;
        }
        // It waits for each that is behind until that one has caught up or its anticipation ends.
        let expected = self.tenants.iter().filter(|tenant| self.is_expected(tenant, now));
        let waits = expected.filter(|tenant| is_behind(tenant, now)).map(|tenant| {
            let way = (limit - self.progress(tenant, now) + PARTS - 1) / PARTS;
            (now + Nanos(way as u64)).min(self.anticipation_end(tenant).expect("it is expected"))
        });
        if let Some(moment) = waits.max() {
            return Next::WakeAt(moment);
        }
        let turn = self.turn();
        let tenant = &mut self.tenants[index];
        let io = tenant.queue.pop_front().expect("it is backlogged");
        let cost = i128::from(self.config.cost(io.kind, io.length).0) * PARTS;
        tenant.start += (cost + tenant.weight - 1) / tenant.weight;
        tenant.in_flight += 1;
        tenant.turn = turn;
        Next::Submit(io)
    }
}

/// Runs both through the same world, with tenants of different weights.
fn compare(world: World, config: FlashfqConfig) {
    let mut dice = Dice::new(!world.seed);
    let mut flashfq = Flashfq::new(config);
    let mut naive = Naive { config, tenants: Vec::new(), latest: 0, turns: 0 };
    for tenant in 0..world.tenants {
        let weight = 1 + dice.roll(4) as u32;
        flashfq.set_share(Instant::ZERO, TenantId(tenant), Share { weight, ..Share::EQUAL });
        naive.tenants.push(Tenant { weight: i128::from(weight), ..Tenant::default() });
    }
    model::compare(world, flashfq, naive);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_decision_is_the_naive_models(
        world in crate::every::worlds(),
        depth in 1..40u32,
        throttle in 0..1000u64,
        anticipation in 0..2000u64,
    ) {
        compare(world, small_device(depth, Nanos::micros(throttle), Nanos::micros(anticipation)));
    }
}
