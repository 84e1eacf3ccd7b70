//! ReFlex as a polling loop, as it was published: every microsecond it goes through all tenants. It does in rounds the
//! work that ours does at named instants, so both have served the same, except for tokens that fit into a round or are
//! still being saved.

use crate::reflex::{slo, small_device};
use crate::world::Dice;
use proptest::prelude::*;
use sched::{Io, IoId, IoKind, Mark, Next, Policy, Priority, Reflex, ReflexConfig, Share};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, TenantId};

/// Billionths of a thousandth of a token.
const TOKEN: i128 = 1_000_000_000_000;
const ROUND: Nanos = Nanos::micros(1);

#[derive(Default)]
struct Tenant {
    /// Tokens per second × 1000 that are reserved; zero for best effort.
    reserved: u64,
    queue: VecDeque<Io>,
    tokens: i128,
    spent: i128,
}

struct Polling {
    config: ReflexConfig,
    tenants: Vec<Tenant>,
    supply: u64,
    turn: usize,
}

impl Polling {
    fn cost(&self, io: &Io) -> i128 {
        i128::from(self.config.cost(io.kind, io.length).0) * (TOKEN / 1000)
    }

    fn round(&mut self) {
        let span = i128::from(ROUND.0);
        let mut bucket = 0;
        for index in 0..self.tenants.len() {
            if self.tenants[index].reserved == 0 {
                continue;
            }
            let earned = i128::from(self.tenants[index].reserved) * span;
            self.tenants[index].tokens += earned;
            while let Some(io) = self.tenants[index].queue.front().copied()
                && self.tenants[index].tokens > -50 * TOKEN
            {
                self.pay(index, &io);
            }
            if self.tenants[index].tokens > 3 * earned {
                let gift = self.tenants[index].tokens * 9 / 10;
                self.tenants[index].tokens -= gift;
                bucket += gift;
            }
        }
        let reserved: u64 = self.tenants.iter().map(|tenant| tenant.reserved).sum();
        bucket += i128::from(self.supply - reserved) * span;
        let waiting: Vec<usize> = (0..self.tenants.len())
            .filter(|&index| self.tenants[index].reserved == 0 && !self.tenants[index].queue.is_empty())
            .collect();
        self.turn += 1;
        for place in 0..waiting.len() {
            let index = waiting[(place + self.turn) % waiting.len()];
            // An equal part of the rest; tokens that this tenant does not need go to the next ones.
            let part = bucket / (waiting.len() - place) as i128;
            bucket -= part;
            self.tenants[index].tokens += part;
            while let Some(io) = self.tenants[index].queue.front().copied()
                && self.tenants[index].tokens >= self.cost(&io)
            {
                self.pay(index, &io);
            }
            if self.tenants[index].queue.is_empty() {
                bucket += std::mem::take(&mut self.tenants[index].tokens);
            }
        }
        // The rest in the bucket is emptied.
    }

    fn pay(&mut self, index: usize, io: &Io) {
        let cost = self.cost(io);
        let tenant = &mut self.tenants[index];
        tenant.queue.pop_front();
        tenant.tokens -= cost;
        tenant.spent += cost;
    }
}

/// Runs both on the same arrivals and compares the tokens that each tenant has spent, every microsecond.
fn compare(seed: u64, critical: u32, best_effort: u32) {
    let mut dice = Dice::new(seed);
    let config = ReflexConfig { round: ROUND, ..small_device() };
    let mut reflex = Reflex::new(config.clone());
    let mut tenants: Vec<Tenant> = (0..critical + best_effort).map(|_| Tenant::default()).collect();
    for tenant in 0..critical + best_effort {
        let share = if tenant < critical { slo(1_000 + dice.roll(30_000), 100, 1000) } else { Share::EQUAL };
        reflex.set_share(Instant::ZERO, TenantId(tenant), share);
        tenants[tenant as usize].reserved = reflex.reserved(TenantId(tenant)).map_or(0, |rate| rate.0);
    }
    let supply = reflex.supply().0;
    let mut polling = Polling { config, tenants, supply, turn: 0 };
    let mut spent = vec![0i128; polling.tenants.len()];
    // Probability of an IO in any microsecond, per thousand; moves about, so that queues fill and drain.
    let mut load = 20;
    for round in 0..20_000u64 {
        let now = Instant::ZERO + Nanos(round * ROUND.0);
        if dice.roll(500) == 0 {
            load = dice.pick(&[0, 10, 40, 150]);
        }
        if dice.roll(1000) < load {
            let tenant = TenantId(dice.roll(polling.tenants.len() as u64) as u32);
            let (kind, priority) =
                (dice.pick(&[IoKind::Read, IoKind::Read, IoKind::Write]), Priority::default());
            let length = Bytes::kib(dice.pick(&[4, 4, 8, 16]));
            let io = Io { id: IoId(round), tenant, priority, kind, length, mark: Mark::default() };
            reflex.on_arrival(now, io);
            polling.tenants[tenant.index()].queue.push_back(io);
        }
        polling.round();
        // The round at this instant stands for the microsecond that ends with it.
        loop {
            match reflex.next(now) {
                Next::Submit(io) => spent[io.tenant.index()] += polling.cost(&io),
                Next::Extra(read) => panic!("{read:?}, though it measures nothing"),
                Next::WakeAt(moment) if moment == now => panic!("woken at {now:?} for nothing"),
                Next::WakeAt(_) | Next::Idle => break,
            }
        }
        for (tenant, (ours, theirs)) in spent.iter().zip(&polling.tenants).enumerate() {
            let apart = (ours - theirs.spent).abs();
            // The largest IO is 12 tokens; one may be out here and be about to go out there.
            assert!(apart <= 13 * TOKEN, "tenant {tenant}: {} apart at {now:?}", apart / TOKEN);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn everybody_spends_what_the_polling_loop_gives(seed in any::<u64>(), critical in 0..3u32, best_effort in 1..5u32) {
        compare(seed, critical, best_effort);
    }
}
