//! Kyber, done the obvious way: latencies are kept as they are, and sorted when a percentile is asked for.

use crate::elevators::kybers;
use crate::model::{self, Model};
use crate::world::is_withdrawn;
use proptest::prelude::*;
use sched::{Io, IoId, IoKind, Kyber, KyberConfig, Next};
use std::collections::BTreeMap;
use units::{Instant, Nanos, TenantId};

const MILLISECOND: u64 = 1_000_000;

#[derive(Default)]
struct Domain {
    tokens: u32,
    in_flight: u32,
    device: Vec<u64>,
    whole: Vec<u64>,
    /// When patience ends.
    until: Option<u64>,
    last_p99: Option<f64>,
}

struct Naive {
    config: KyberConfig,
    domains: [Domain; 3],
    /// In order of arrival; with the moment of the request.
    waiting: Vec<(Io, Option<Instant>)>,
    sent: BTreeMap<IoId, Instant>,
    now: Instant,
    turn: usize,
    batched: usize,
    look: Option<u64>,
}

fn number(io: &Io) -> usize {
    [IoKind::Read, IoKind::Write, IoKind::Management]
        .iter()
        .position(|kind| *kind == io.kind)
        .expect("one of three")
}

/// A percentile in quarters of the target: 1 is a quarter at most, 5 is late, 8 is the highest class.
fn quarters(
    samples: &mut Vec<u64>,
    per_cent: usize,
    target: Nanos,
    now: u64,
    until: &mut Option<u64>,
) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let patience = *until.get_or_insert(now + 1000 * MILLISECOND);
    if samples.len() < 500 && now < patience {
        return None;
    }
    *until = None;
    samples.sort_unstable();
    let sample = samples[(samples.len() * per_cent).div_ceil(100) - 1];
    samples.clear();
    Some((sample as f64 / (target.0 / 4) as f64).ceil().clamp(1.0, 8.0))
}

impl Naive {
    fn give_requests(&mut self) {
        let given = self.waiting.iter().filter(|(_, request)| request.is_some()).count() + self.sent.len();
        let left = (self.config.nr_requests as usize).saturating_sub(given);
        let now = self.now;
        self.waiting
            .iter_mut()
            .filter(|(_, request)| request.is_none())
            .take(left)
            .for_each(|one| one.1 = Some(now));
    }

    fn look(&mut self, now: Instant) {
        self.now = now;
        let Some(at) = self.look.filter(|at| *at <= now.0) else { return };
        self.look = None;
        let targets = [self.config.read_target, self.config.write_target];
        let mut is_congested = false;
        for (domain, target) in self.domains.iter_mut().zip(targets) {
            let p90 = quarters(&mut domain.device, 90, target, at, &mut domain.until);
            is_congested |= p90.is_some_and(|quarters| quarters > 4.0);
        }
        for ((domain, target), most) in self.domains.iter_mut().zip(targets).zip(self.config.tokens) {
            let p99 = quarters(&mut domain.whole, 99, target, at, &mut domain.until);
            let known = p99.or(if is_congested { domain.last_p99 } else { None });
            domain.last_p99 = if is_congested { None } else { p99.or(domain.last_p99) };
            if let Some(quarters) = known
                && (is_congested || quarters > 4.0)
            {
                let tokens = (f64::from(domain.tokens) * quarters / 4.0).floor() as u32;
                domain.tokens = tokens.clamp(1, most);
            }
        }
    }

    /// The place of the first that may go, of one domain.
    fn first(&self, domain: usize) -> Option<usize> {
        let has_token = self.domains[domain].in_flight < self.domains[domain].tokens;
        let first = self.waiting.iter().position(|(io, request)| request.is_some() && number(io) == domain);
        first.filter(|_| has_token)
    }
}

impl Model for Naive {
    fn on_arrival(&mut self, now: Instant, io: Io) {
        self.look(now);
        self.waiting.push((io, None));
        self.give_requests();
    }

    fn on_completion(&mut self, now: Instant, io: &Io, latency: Option<Nanos>) {
        self.look(now);
        let since = self.sent.remove(&io.id).expect("it was sent");
        let domain = &mut self.domains[number(io)];
        domain.in_flight -= 1;
        if let Some(latency) = latency
            && io.kind != IoKind::Management
        {
            domain.device.push(latency.0);
            domain.whole.push(now.since(since).0);
            self.look = self.look.or(Some(now.0 + 100 * MILLISECOND));
        }
        self.give_requests();
    }

    fn withdraw(&mut self, tenant: TenantId) {
        self.waiting.retain(|(io, _)| io.tenant != tenant || !is_withdrawn(io));
        self.give_requests();
    }

    /// An IO keeps its token until it ends.
    fn on_overdue(&mut self, _tenant: TenantId) {}

    fn next(&mut self, now: Instant) -> Next {
        self.look(now);
        if self.sent.len() >= self.config.depth as usize {
            return Next::Idle;
        }
        let goes_on = self.batched < [16, 8, 1][self.turn];
        let same = self.first(self.turn).filter(|_| goes_on);
        if same.is_none() {
            self.batched = 0;
            let turns = [1, 2, 3].map(|step| (self.turn + step) % 3);
            let Some(turn) = turns.into_iter().find(|turn| self.first(*turn).is_some()) else {
                let waits = self.waiting.iter().any(|(_, request)| request.is_some());
                return self.look.filter(|_| waits).map_or(Next::Idle, |at| Next::WakeAt(Instant(at)));
            };
            self.turn = turn;
        }
        let place = self.first(self.turn).expect("it was seen");
        let (io, since) = self.waiting.remove(place);
        self.sent.insert(io.id, since.expect("it has a request"));
        self.domains[self.turn].in_flight += 1;
        self.batched += 1;
        Next::Submit(io)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_decision_is_the_naive_models(world in crate::every::worlds(), config in kybers(), longer in 1..20u32) {
        // Long enough for a second to pass now and then.
        let world = crate::world::World { steps: world.steps * longer, ..world };
        let naive = Naive {
            config,
            domains: config.tokens.map(|tokens| Domain { tokens, ..Domain::default() }),
            waiting: Vec::new(),
            sent: BTreeMap::new(),
            now: Instant::ZERO,
            turn: 0,
            batched: 0,
            look: None,
        };
        model::compare(world, Kyber::new(config), naive);
    }
}
