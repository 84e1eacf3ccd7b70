//! Rules for every scheduler in every world: nothing is lost, repeated or reordered, a wake-up is exact, and the books are
//! empty in the end.

use crate::books::Books;
use crate::world::{Config, Dice, Event, Variant, World};
use crate::{bfq, elevators, flashfq, io_cost, peers, reflex};
use proptest::prelude::*;
use sched::{
    Backlog, Bfq, Done, Fifo, Flashfq, Gimbal, IoCost, Kyber, LevelCalibrated, Mclock, MclockConfig,
    MqDeadline, Next, Outcome, Policy, ReadOnlyLoad, Reflex, ReflexConfig, Share, SpdkQos,
};
use units::{ByteRate, Instant, Nanos, TenantId};

/// Meaning of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Something goes at that instant.
    Exact,
    /// Something goes, or the scheduler looks at its measurements.
    OrLooks,
}

/// A scheduler, and the expected state of every IO ever given to it.
struct Run<P> {
    policy: P,
    wake: Wake,
    now: Instant,
    books: Books,
}

impl<P: Policy + Clone> Run<P> {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Wait(span) => self.now += span,
            Event::Arrival(io) => {
                self.books.on_arrival(&io);
                self.policy.on_arrival(self.now, io);
            }
            Event::Withdraw(tenant) => self.books.withdraw(&mut self.policy, self.now, tenant),
            Event::Completion { index, latency } => self.complete(index, latency),
        }
        self.submit_all();
    }

    fn complete(&mut self, index: usize, latency: Option<Nanos>) {
        let io = self.books.end(index);
        let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
        let credit = self.policy.on_completion(self.now, Done { io, outcome });
        assert!(credit.0 > 0, "{} is told to have nothing outstanding", io.tenant);
    }

    fn submit_all(&mut self) {
        loop {
            match self.policy.next(self.now) {
                Next::Submit(io) => self.books.on_submit(io),
                Next::Extra(read) => panic!("{read:?}, though it measures nothing"),
                Next::WakeAt(moment) => return self.check_wake(moment),
                Next::Idle => break,
            }
        }
        assert_eq!(self.policy.backlog(), self.books.backlog());
    }

    /// The named instant is the first at which something goes (or may go, after a look), and it does not depend on being asked in between.
    fn check_wake(&self, moment: Instant) {
        assert!(moment > self.now, "to be woken at {moment:?}, which is not after {:?}", self.now);
        let mut asked = self.policy.clone();
        let half_way = self.now + Nanos(moment.since(self.now).0 / 2);
        for early in [half_way, moment - Nanos(1)] {
            assert_eq!(asked.next(early), Next::WakeAt(moment), "asked at {early:?}");
        }
        let (asked, unasked) = (asked.next(moment), self.policy.clone().next(moment));
        let has_looked = self.wake == Wake::OrLooks && unasked != Next::WakeAt(moment);
        assert!(
            has_looked || matches!(unasked, Next::Submit(_)),
            "{unasked:?} at the instant that was named"
        );
        assert_eq!(asked, unasked);
    }

    /// Lets everything end and checks that all books are empty.
    fn drain(mut self, tenants: u32) {
        let mut rounds = 0;
        while self.policy.backlog() != Backlog::default() {
            rounds += 1;
            assert!(rounds < 100_000, "{:?} never ends", self.policy.backlog());
            if self.books.in_flight.is_empty() {
                let Next::WakeAt(moment) = self.policy.next(self.now) else {
                    let waiting: Vec<_> = self.books.backlogged().collect();
                    panic!("nothing in flight, yet no instant is named: {waiting:?} wait");
                };
                self.now = moment;
            } else {
                self.complete(0, Some(Nanos::micros(300)));
            }
            self.submit_all();
        }
        self.books.assert_settled();
        for tenant in (0..tenants).map(TenantId) {
            self.policy.forget(self.now, tenant);
        }
        assert_eq!(self.policy.next(self.now), Next::Idle);
    }
}

/// Runs a world before `policy`, which has been told of the tenants' shares.
pub(crate) fn run<P: Policy + Clone>(world: World, policy: P) {
    run_waking(world, policy, Wake::Exact);
}

/// The same with another meaning of wake-ups.
fn run_waking<P: Policy + Clone>(world: World, policy: P, wake: Wake) {
    let books = Books::keeping(policy.order());
    let mut run = Run { policy, wake, now: Instant::ZERO, books };
    let mut events = world.events();
    for _ in 0..world.steps {
        let event = events.next(run.books.in_flight.len());
        run.apply(event);
    }
    run.drain(world.tenants);
}

pub(crate) fn worlds() -> impl Strategy<Value = World> {
    let variant = prop::sample::select(Variant::ALL.to_vec());
    (any::<u64>(), 1..14u32, 1..1500u32, 1..20u32, variant)
        .prop_map(|(seed, tenants, steps, slots, variant)| World { seed, tenants, steps, slots, variant })
}

/// The schedulers with a test below. `level` measures, so its wake-ups and extra reads are tested where it is (`level/tests.rs`).
const TESTED: [&str; 13] = [
    "level",
    "gimbal",
    "gimbal-text",
    "level-calibrated",
    "reflex",
    "flashfq",
    "mclock",
    "spdk-qos",
    "io-cost",
    "mq-deadline",
    "kyber",
    "bfq",
    "none",
];

#[test]
fn every_scheduler_is_tested() {
    assert_eq!(
        sched::Scheduler::ALL.map(|row| row.name),
        TESTED,
        "a new one needs a test here, and a naive model"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn fifo_is_sound(world in worlds()) {
        run(world, Fifo::default());
    }

    #[test]
    fn gimbal_and_level_are_sound(world in worlds()) {
        match world.config() {
            Config::Gimbal(config) => run(world, Gimbal::new(config)),
            Config::LevelCalibrated(config) => run(world, LevelCalibrated::new(config)),
        }
    }

    #[test]
    fn flashfq_is_sound(world in worlds(), depth in 1..40u32, throttle in 0..2000u64, anticipation in 0..2000u64) {
        let config = flashfq::small_device(depth, Nanos::micros(throttle), Nanos::micros(anticipation));
        run(world, Flashfq::new(config));
    }

    #[test]
    fn mclock_is_sound(world in worlds(), depth in 1..40u32) {
        run(world, peers::with_shares(Mclock::new(MclockConfig { depth, ..MclockConfig::STANDARD }), &world));
    }

    #[test]
    fn spdk_qos_is_sound(world in worlds(), megabytes in 0..500u64) {
        let rate = (megabytes > 0).then(|| ByteRate(megabytes * 1_000_000));
        run(world, peers::with_shares(SpdkQos::new(rate), &world));
    }

    #[test]
    fn io_cost_is_sound(world in worlds(), config in io_cost::configs()) {
        run_waking(world, peers::with_shares(IoCost::new(config), &world), Wake::OrLooks);
    }

    #[test]
    fn bfq_is_sound(world in worlds(), config in bfq::configs()) {
        run(world, peers::with_shares(Bfq::new(config), &world));
    }

    #[test]
    fn mq_deadline_is_sound(world in worlds(), config in elevators::mq_deadlines()) {
        run(world, MqDeadline::new(config));
    }

    #[test]
    fn kyber_is_sound(world in worlds(), config in elevators::kybers()) {
        run_waking(world, Kyber::new(config), Wake::OrLooks);
    }

    #[test]
    fn reflex_is_sound(world in worlds(), critical in 0..6u32, declared in any::<bool>()) {
        let quiet = if declared { ReadOnlyLoad::Declared } else { ReadOnlyLoad::Observed(Nanos::micros(100)) };
        let mut policy = Reflex::new(ReflexConfig { read_only_load: quiet, ..reflex::small_device() });
        let mut dice = Dice::new(!world.seed);
        for tenant in 0..world.tenants {
            let weight = 1 + dice.roll(3) as u32;
            let share = match tenant < critical {
                true => reflex::slo(1_000 + dice.roll(40_000), dice.roll(101) as u8, 500 + dice.roll(1000)),
                false => Share { weight, ..Share::EQUAL },
            };
            policy.set_share(Instant::ZERO, TenantId(tenant), share);
        }
        run(world, policy);
    }
}
