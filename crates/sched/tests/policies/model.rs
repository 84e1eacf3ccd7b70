//! A scheduler and a naive model of it in the same random world: every answer is the same.

use crate::world::{Dice, Event, World, is_withdrawn};
use sched::{Done, Io, Mark, Next, Outcome, Policy};
use units::{Instant, Nanos, TenantId};

/// A scheduler's decisions, done the obvious way.
pub(crate) trait Model {
    fn on_arrival(&mut self, now: Instant, io: Io);
    fn on_completion(&mut self, now: Instant, io: &Io, latency: Option<Nanos>);
    fn next(&mut self, now: Instant) -> Next;
    /// Withdraws what [`is_withdrawn`] of the tenant's queue.
    fn withdraw(&mut self, tenant: TenantId);
    fn on_overdue(&mut self, tenant: TenantId);
}

/// A mark is the scheduler's own.
fn unmarked(next: Next) -> Next {
    match next {
        Next::Submit(io) => Next::Submit(Io { mark: Mark::default(), ..io }),
        next => next,
    }
}

/// Runs both through the world and compares every answer.
pub(crate) fn compare(world: World, mut policy: impl Policy, mut model: impl Model) {
    let mut dice = Dice::new(!world.seed);
    let mut events = world.events();
    let (mut now, mut in_flight) = (Instant::ZERO, Vec::new());
    for step in 0..world.steps {
        if dice.roll(50) == 0 {
            let tenant = TenantId(dice.roll(u64::from(world.tenants)) as u32);
            policy.on_overdue(now, tenant);
            model.on_overdue(tenant);
        }
        match events.next(in_flight.len()) {
            Event::Wait(span) => now += span,
            Event::Arrival(io) => {
                policy.on_arrival(now, io);
                model.on_arrival(now, io);
            }
            Event::Withdraw(tenant) => {
                policy.withdraw(now, tenant, &mut is_withdrawn);
                model.withdraw(tenant);
            }
            Event::Completion { index, latency } => {
                let io: Io = in_flight.swap_remove(index);
                let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
                policy.on_completion(now, Done { io, outcome });
                model.on_completion(now, &io, latency);
            }
        }
        loop {
            let (ours, theirs) = (policy.next(now), model.next(now));
            assert_eq!(unmarked(ours), theirs, "at step {step}");
            let Next::Submit(io) = ours else { break };
            in_flight.push(io);
        }
    }
}
