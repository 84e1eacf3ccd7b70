//! mClock's decisions, done the obvious way: every question is answered by looking at every tenant.

use crate::model::{self, Model};
use crate::peers::shares;
use crate::world::{World, is_withdrawn};
use proptest::prelude::*;
use sched::{Io, Mclock, MclockConfig, Next, Share};
use std::collections::VecDeque;
use units::{Instant, Nanos, TenantId};

/// Parts of a nanosecond.
const PARTS: i128 = 1 << 16;
const SECOND: i128 = 1_000_000_000 * PARTS;

struct Tenant {
    share: Share,
    queue: VecDeque<(Io, Instant)>,
    in_flight: usize,
    /// The tags of the last IO.
    reservation: i128,
    limit: i128,
    weight: i128,
    /// The weight tag of the first IO that is queued, as it was when it became the first, and as it was shifted since.
    first: Option<i128>,
}

struct Naive {
    config: MclockConfig,
    tenants: Vec<Tenant>,
}

/// The tags of a tenant's first IO.
struct Tags {
    reservation: Option<i128>,
    spacing: i128,
    limit: i128,
    weight: i128,
}

fn parts(at: Instant) -> i128 {
    i128::from(at.0) * PARTS
}

fn up(amount: i128, by: i128) -> i128 {
    (amount + by - 1) / by
}

impl Naive {
    fn tags(&self, index: usize) -> Option<Tags> {
        let tenant = &self.tenants[index];
        let (io, arrival) = tenant.queue.front()?;
        let (arrival, length) = (parts(*arrival), i128::from(io.length.0));
        let by_rate = |rate: u64| up(SECOND * length, i128::from(rate));
        let spacing = tenant.share.reservation.map(|rate| by_rate(rate.0));
        let by_ios = tenant.share.limit_iops.map(|iops| up(SECOND, i128::from(iops)));
        let apart = by_ios.max(tenant.share.limit_rate.map(|rate| by_rate(rate.0)));
        Some(Tags {
            reservation: spacing.map(|spacing| arrival.max(tenant.reservation + spacing)),
            spacing: spacing.unwrap_or(0),
            limit: apart.map_or(0, |apart| arrival.max(tenant.limit + apart)),
            weight: tenant.first.expect("the first IO has its tag"),
        })
    }

    fn all(&self) -> impl Iterator<Item = (usize, Tags)> {
        (0..self.tenants.len()).filter_map(|index| Some((index, self.tags(index)?)))
    }

    /// Gives the first IO of a tenant its weight tag, if it has none.
    fn give(&mut self, index: usize) {
        let base = i128::from(self.config.size_base.0);
        let tenant = &mut self.tenants[index];
        let Some((io, arrival)) = tenant.queue.front() else { return tenant.first = None };
        let cost = up(SECOND * (base + i128::from(io.length.0)), base * i128::from(tenant.share.weight));
        tenant.first = tenant.first.or(Some(parts(*arrival).max(tenant.weight + cost)));
    }
}

impl Model for Naive {
    fn on_arrival(&mut self, now: Instant, io: Io) {
        let own = &self.tenants[io.tenant.index()];
        let is_idle = own.queue.is_empty() && own.in_flight == 0;
        let least = self.all().map(|(_, tags)| tags.weight).min();
        if let Some(least) = least.filter(|_| is_idle) {
            // So that the smallest is now.
            for tenant in &mut self.tenants {
                tenant.weight -= least - parts(now);
                tenant.first = tenant.first.map(|first| first - (least - parts(now)));
            }
        }
        self.tenants[io.tenant.index()].queue.push_back((io, now));
        self.give(io.tenant.index());
    }

    fn on_completion(&mut self, _now: Instant, io: &Io, _latency: Option<Nanos>) {
        self.tenants[io.tenant.index()].in_flight -= 1;
    }

    fn withdraw(&mut self, tenant: TenantId) {
        let queue = &mut self.tenants[tenant.index()].queue;
        let head = queue.front().copied();
        queue.retain(|(io, _)| !is_withdrawn(io));
        if queue.front().copied() != head {
            self.tenants[tenant.index()].first = None;
        }
        self.give(tenant.index());
    }

    /// An IO counts until it ends, however late.
    fn on_overdue(&mut self, _tenant: TenantId) {}

    fn next(&mut self, now: Instant) -> Next {
        let inside: usize = self.tenants.iter().map(|tenant| tenant.in_flight).sum();
        if inside >= self.config.depth as usize {
            return Next::Idle;
        }
        let reserved = self.all().filter_map(|(index, tags)| Some((tags.reservation?, index))).min();
        let by_reservation = reserved.filter(|(tag, _)| *tag <= parts(now)).map(|(_, index)| index);
        let ready = self.all().filter(|(_, tags)| tags.limit <= parts(now));
        let by_weight = ready.map(|(index, tags)| (tags.weight, index)).min().map(|(_, index)| index);
        if let Some(index) = by_reservation.or(by_weight) {
            let tags = self.tags(index).expect("it has an IO");
            let tenant = &mut self.tenants[index];
            let moved = if by_reservation.is_none() { tags.spacing } else { 0 };
            tenant.reservation = tags.reservation.map_or(tenant.reservation, |tag| tag - moved);
            (tenant.limit, tenant.weight) = (tags.limit, tags.weight);
            tenant.in_flight += 1;
            let (io, _) = tenant.queue.pop_front().expect("it has an IO");
            tenant.first = None;
            self.give(index);
            return Next::Submit(io);
        }
        let limits = self.all().map(|(_, tags)| tags.limit);
        let first = limits.chain(reserved.map(|(tag, _)| tag)).min();
        first.map_or(Next::Idle, |tag| Next::WakeAt(Instant(up(tag, PARTS) as u64)))
    }
}

/// Runs both through the same world.
fn compare(world: World, depth: u32) {
    let config = MclockConfig { depth, ..MclockConfig::STANDARD };
    let mclock = crate::peers::with_shares(Mclock::new(config), &world);
    let tenant = |share| Tenant {
        share,
        queue: VecDeque::new(),
        in_flight: 0,
        reservation: 0,
        limit: 0,
        weight: 0,
        first: None,
    };
    let naive = Naive { config, tenants: shares(&world).into_iter().map(tenant).collect() };
    model::compare(world, mclock, naive);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_decision_is_the_naive_models(world in crate::every::worlds(), depth in 1..40u32) {
        compare(world, depth);
    }
}
