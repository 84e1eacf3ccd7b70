//! mq-deadline, done the obvious way: one list of all that wait, and every question is answered by walking it.

use crate::elevators::mq_deadlines;
use crate::model::{self, Model};
use crate::world::is_withdrawn;
use proptest::prelude::*;
use sched::{Io, IoKind, MqDeadline, MqDeadlineConfig, Next};
use units::{Instant, Nanos, TenantId};

struct Waiting {
    io: Io,
    number: u64,
    /// When it got a request.
    request: Option<Instant>,
}

struct Naive {
    config: MqDeadlineConfig,
    /// In order of arrival.
    waiting: Vec<Waiting>,
    in_flight: u32,
    arrived: u64,
    now: Instant,
    /// Of reads and of writes: the tenant in whose region the sweep is, and the number of arrivals when it got there.
    sweeps: [Option<(TenantId, u64)>; 2],
    writes: bool,
    batched: u32,
    starved: u32,
}

impl Naive {
    fn give_requests(&mut self) {
        let given = self.waiting.iter().filter(|one| one.request.is_some()).count();
        let left = (self.config.nr_requests as usize).saturating_sub(given + self.in_flight as usize);
        let now = self.now;
        self.waiting
            .iter_mut()
            .filter(|one| one.request.is_none())
            .take(left)
            .for_each(|one| one.request = Some(now));
    }

    /// The places of IOs of one direction that have a request.
    fn known(&self, writes: bool) -> Vec<usize> {
        let all = self.waiting.iter().enumerate();
        let known = all.filter(|(_, one)| one.request.is_some() && (one.io.kind != IoKind::Read) == writes);
        known.map(|(place, _)| place).collect()
    }

    /// The place of the next one upwards.
    fn upwards(&self, writes: bool) -> Option<usize> {
        let (tenant, entered) = self.sweeps[usize::from(writes)]?;
        let known = self.known(writes);
        let ahead = known.into_iter().filter(|&place| {
            let Waiting { io, number, .. } = &self.waiting[place];
            io.tenant > tenant || (io.tenant == tenant && *number < entered)
        });
        ahead.min_by_key(|&place| (self.waiting[place].io.tenant, self.waiting[place].number))
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        if self.batched < self.config.batch
            && let Some(place) = self.upwards(self.writes)
        {
            return Some(place);
        }
        let (reads, writes) = (self.known(false), self.known(true));
        if reads.is_empty() && writes.is_empty() {
            return None;
        }
        let are_starved =
            !reads.is_empty() && !writes.is_empty() && self.starved >= self.config.writes_starved;
        let goes_writes = reads.is_empty() || are_starved;
        if goes_writes {
            self.starved = 0;
        } else if !writes.is_empty() {
            self.starved += 1;
        }
        (self.writes, self.batched) = (goes_writes, 0);
        let oldest = if goes_writes { writes[0] } else { reads[0] };
        let expire = if goes_writes { self.config.write_expire } else { self.config.read_expire };
        let since = self.waiting[oldest].request.expect("it is known");
        if now >= since + expire {
            self.sweeps[usize::from(goes_writes)] = None;
            return Some(oldest);
        }
        let upwards = self.upwards(goes_writes);
        if upwards.is_none() {
            self.sweeps[usize::from(goes_writes)] = None;
        }
        upwards.or(Some(oldest))
    }
}

impl Model for Naive {
    fn on_arrival(&mut self, now: Instant, io: Io) {
        self.now = now;
        self.waiting.push(Waiting { io, number: self.arrived, request: None });
        self.arrived += 1;
        self.give_requests();
    }

    fn on_completion(&mut self, now: Instant, _io: &Io, _latency: Option<Nanos>) {
        self.now = now;
        self.in_flight -= 1;
        self.give_requests();
    }

    fn withdraw(&mut self, tenant: TenantId) {
        self.waiting.retain(|one| one.io.tenant != tenant || !is_withdrawn(&one.io));
        self.give_requests();
    }

    /// An IO keeps its request until it ends.
    fn on_overdue(&mut self, _tenant: TenantId) {}

    fn next(&mut self, now: Instant) -> Next {
        self.now = now;
        if self.in_flight >= self.config.depth {
            return Next::Idle;
        }
        let Some(place) = self.choose(now) else { return Next::Idle };
        let Waiting { io, .. } = self.waiting.remove(place);
        let sweep = &mut self.sweeps[usize::from(self.writes)];
        if sweep.is_none_or(|(tenant, _)| tenant != io.tenant) {
            *sweep = Some((io.tenant, self.arrived));
        }
        self.batched += 1;
        self.in_flight += 1;
        Next::Submit(io)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn every_decision_is_the_naive_models(world in crate::every::worlds(), config in mq_deadlines()) {
        let naive = Naive {
            config,
            waiting: Vec::new(),
            in_flight: 0,
            arrived: 0,
            now: Instant::ZERO,
            sweeps: [None; 2],
            writes: true,
            batched: 0,
            starved: 0,
        };
        model::compare(world, MqDeadline::new(config), naive);
    }
}
