//! Tests the checkers: a scheduler with one fault is caught, by the right checker.

use sched::{Backlog, Credit, Done, Fifo, Io, Next, Policy, Share, Ticket};
use sim::checkers::Violation;
use units::{Instant, Nanos, TenantId};

/// The fault of the scheduler.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Loses,
    Repeats,
    Overtakes,
    Alters,
    Miscounts,
    WakesInThePast,
    NeverDecides,
}

/// A FIFO that goes wrong after a number of decisions.
struct Faulty {
    fault: Fault,
    honest: Fifo,
    decisions: u32,
    last: Option<Io>,
    /// Held back until there are two to swap.
    held: Vec<Io>,
}

const HONEST_DECISIONS: u32 = 50;

impl Policy for Faulty {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        let wrong = self.decisions > HONEST_DECISIONS;
        if wrong && self.fault == Fault::Loses {
            return Ticket(u32::MAX);
        }
        if wrong && self.fault == Fault::Overtakes {
            self.held.push(io);
            if self.held.len() == 2 {
                self.held.drain(..).rev().for_each(|io| _ = self.honest.on_arrival(now, io));
            }
            return Ticket(u32::MAX);
        }
        self.honest.on_arrival(now, io)
    }

    fn next(&mut self, now: Instant) -> Next {
        self.decisions += 1;
        let wrong = self.decisions > HONEST_DECISIONS;
        match (self.fault, self.last) {
            (Fault::WakesInThePast, _) if wrong => return Next::WakeAt(now - Nanos(1)),
            (Fault::NeverDecides, _) if wrong => return Next::Idle,
            (Fault::Repeats, Some(io)) if wrong => return Next::Submit(io),
            _ => {}
        }
        match self.honest.next(now) {
            Next::Submit(io) => {
                self.last = Some(io);
                let length =
                    if wrong && self.fault == Fault::Alters { io.length + io.length } else { io.length };
                Next::Submit(Io { length, ..io })
            }
            other => other,
        }
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.honest.on_completion(now, done)
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.honest.withdraw_one(now, tenant, ticket)
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.honest.withdraw(now, tenant, gone);
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.honest.forget(now, tenant);
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        self.honest.set_share(now, tenant, share);
    }

    fn credit(&self, tenant: TenantId) -> Credit {
        self.honest.credit(tenant)
    }

    fn backlog(&self) -> Backlog {
        let truth = self.honest.backlog();
        let extra = usize::from(self.fault == Fault::Miscounts && self.decisions > HONEST_DECISIONS);
        Backlog { queued: truth.queued + self.held.len() + extra, ..truth }
    }
}

fn caught(fault: Fault) -> Violation {
    let mut world = sim::random::world(3);
    world.tenants.truncate(1);
    world.tenants[0] = sim::TenantSpec::new(
        "only",
        sim::Workload::closed(8, units::Bytes::kib(4), 100, sim::Pattern::Random),
    );
    let faulty = Faulty { fault, honest: Fifo::default(), decisions: 0, last: None, held: Vec::new() };
    let Err(violation) = sim::run_with(&world, Box::new(faulty)) else {
        panic!("no checker noticed the fault")
    };
    violation
}

#[test]
fn a_lost_io_is_seen() {
    assert!(matches!(caught(Fault::Loses), Violation::Miscounted { .. }));
}

#[test]
fn an_io_done_twice_is_seen() {
    assert!(matches!(caught(Fault::Repeats), Violation::OutOfTurn { .. }));
}

#[test]
fn an_io_that_overtakes_is_seen() {
    assert!(matches!(caught(Fault::Overtakes), Violation::Overtaken { .. }));
}

#[test]
fn an_altered_io_is_seen() {
    assert!(matches!(caught(Fault::Alters), Violation::Altered { .. }));
}

#[test]
fn a_miscount_is_seen() {
    assert!(matches!(caught(Fault::Miscounts), Violation::Miscounted { .. }));
}

#[test]
fn a_wake_up_in_the_past_is_seen() {
    assert!(matches!(caught(Fault::WakesInThePast), Violation::LateWake { .. }));
}

#[test]
fn a_scheduler_that_stops_is_seen() {
    assert!(matches!(caught(Fault::NeverDecides), Violation::Stuck { .. }));
}
