//! Taking back queued IOs under every scheduler: its cost, and the state that it leaves behind.

extern crate std;

use crate::lines::touched;
use crate::{Done, Io, IoId, IoKind, Mark, Next, Outcome, PapersDrive, Policy, Priority, Scheduler, Ticket};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;
use units::{Bytes, Instant, Nanos, TenantId};

const TENANTS: u64 = 3;

/// Every scheduler, new.
fn every() -> Vec<(&'static str, Box<dyn Policy>)> {
    let drive = PapersDrive::new();
    let new = |row: &'static Scheduler| {
        let setup = row.set_up(&drive.facts()).expect("everything is known of the drive");
        (row.name, setup.build())
    };
    Scheduler::ALL.into_iter().map(new).collect()
}

fn io(id: u64, dice: u64) -> Io {
    Io {
        id: IoId(id),
        tenant: TenantId((dice % TENANTS) as u32),
        priority: Priority::new((dice / TENANTS % 4) as u8).expect("there are four"),
        kind: [IoKind::Read, IoKind::Write, IoKind::Management][(dice / 12 % 3) as usize],
        length: Bytes::kib(4 << (dice / 36 % 4)),
        mark: Mark::default(),
    }
}

#[test]
fn a_withdrawal_costs_no_more_the_more_are_queued() {
    for (index, (name, _)) in every().into_iter().enumerate() {
        let most_of = |ios: u64| {
            let mut policy = every().swap_remove(index).1;
            let mut queued: Vec<(Ticket, Io)> = Vec::new();
            for id in 0..ios {
                let io = io(id, id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
                queued.push((policy.on_arrival(Instant::ZERO, io), io));
            }
            // Neither in order of arrival nor against it.
            queued.sort_by_key(|(_, io)| io.id.0.wrapping_mul(0x2545_f491_4f6c_dd1d));
            let mut most = 0;
            for (ticket, io) in queued {
                let before = touched::so_far();
                assert_eq!(policy.withdraw_one(Instant::ZERO, io.tenant, ticket), io, "{name}");
                most = most.max(touched::so_far() - before);
            }
            assert_eq!(policy.backlog().queued, 0, "{name}");
            most
        };
        let (few, many) = (most_of(1 << 10), most_of(1 << 17));
        assert!(few <= 4 && many <= few, "{name}: {few} spots are touched among 1 K, {many} among 128 K");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(u64),
    /// This much time passes, and everything that may go goes.
    Wait(u64),
    /// The oldest in flight ends.
    End,
    /// A tenant takes back every n-th of its IOs.
    Withdraw(u32, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..10_000u64).prop_map(Step::Arrive),
        3 => (0..400u64).prop_map(Step::Wait),
        3 => Just(Step::End),
        2 => (0..TENANTS as u32, 1..4u64).prop_map(|(tenant, modulus)| Step::Withdraw(tenant, modulus)),
    ]
}

/// A scheduler with tenants that take back one IO at a time, or all at once.
struct Run {
    policy: Box<dyn Policy>,
    one_by_one: bool,
    now: Instant,
    queued: Vec<(Ticket, Io)>,
    in_flight: VecDeque<Io>,
    said: Vec<Next>,
}

impl Run {
    fn apply(&mut self, id: u64, step: &Step) {
        match *step {
            Step::Arrive(dice) => {
                let io = io(id, dice);
                self.queued.push((self.policy.on_arrival(self.now, io), io));
            }
            Step::Wait(micros) => {
                self.now += Nanos::micros(micros);
                self.submit();
            }
            Step::End => {
                if let Some(io) = self.in_flight.pop_front() {
                    let outcome = Outcome::Success { latency: Nanos::micros(100) };
                    self.policy.on_completion(self.now, Done { io, outcome });
                }
            }
            Step::Withdraw(tenant, modulus) => self.withdraw(TenantId(tenant), modulus),
        }
    }

    fn withdraw(&mut self, tenant: TenantId, modulus: u64) {
        let is_gone = |io: &Io| io.tenant == tenant && io.id.0.is_multiple_of(modulus);
        if self.one_by_one {
            for (ticket, io) in self.queued.iter().filter(|(_, io)| is_gone(io)) {
                assert_eq!(self.policy.withdraw_one(self.now, tenant, *ticket), *io);
            }
        } else if self.queued.iter().any(|(_, io)| is_gone(io)) {
            self.policy.withdraw(self.now, tenant, &mut |io| is_gone(io));
        }
        self.queued.retain(|(_, io)| !is_gone(io));
    }

    fn submit(&mut self) {
        loop {
            let next = self.policy.next(self.now);
            self.said.push(next);
            let Next::Submit(io) = next else { return };
            self.queued.retain(|(_, queued)| queued.id != io.id);
            self.in_flight.push_back(io);
        }
    }
}

proptest! {
    #![proptest_config(crate::random_cases(60))]

    #[test]
    fn what_is_taken_back_one_by_one_leaves_nothing_behind(steps in prop::collection::vec(step(), 0..150)) {
        for (index, (name, _)) in every().into_iter().enumerate() {
            let [one_by_one, at_once] = [true, false].map(|one_by_one| {
                let policy = every().swap_remove(index).1;
                let (queued, in_flight, said) = (Vec::new(), VecDeque::new(), Vec::new());
                let mut run = Run { policy, one_by_one, now: Instant::ZERO, queued, in_flight, said };
                (0..).zip(&steps).for_each(|(id, step)| run.apply(id, step));
                run.submit();
                prop_assert_eq!(run.policy.backlog().queued, run.queued.len(), "{}", name);
                Ok(run.said)
            });
            prop_assert_eq!(one_by_one?, at_once?, "{}", name);
        }
        // A tenant that has taken back its whole queue, and has nothing on the device, can be forgotten.
        for (name, mut policy) in every() {
            let tickets: Vec<(Ticket, Io)> =
                (0..20).map(|id| io(id, id)).map(|io| (policy.on_arrival(Instant::ZERO, io), io)).collect();
            tickets.iter().for_each(|(ticket, io)| _ = policy.withdraw_one(Instant::ZERO, io.tenant, *ticket));
            (0..TENANTS as u32).for_each(|tenant| policy.forget(Instant::ZERO, TenantId(tenant)));
            prop_assert_eq!(policy.next(Instant::ZERO), Next::Idle, "{}", name);
        }
    }
}
