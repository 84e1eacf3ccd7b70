//! Rules for every world: random tenants with random shares, failures and withdrawals, all from one seed.

mod books;
mod world;

use books::Books;
use proptest::prelude::*;
use sched::{Backlog, Done, Gimbal, Io, LevelCalibrated, Next, Outcome, Policy, Share, TimeInFlightView};
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};
use world::{Config, Dice, Event, Variant, World};

/// Promises of a switch, by its constants.
#[derive(Clone, Copy)]
struct Bounds {
    bucket_depth: u64,
    slots: u32,
    lag_max: Option<Bytes>,
    charge_min: Bytes,
}

impl Bounds {
    fn of(config: &Config) -> Bounds {
        let none = Bounds { bucket_depth: 0, slots: 0, lag_max: None, charge_min: Bytes::ZERO };
        match config {
            Config::Gimbal(config) => {
                Bounds { bucket_depth: config.bucket_depth.0, slots: config.device.slots, ..none }
            }
            Config::LevelCalibrated(config) => {
                Bounds { lag_max: Some(config.lag_max), charge_min: config.in_flight.io_min, ..none }
            }
        }
    }
}

/// A switch, and the expected state of every IO ever given to it.
struct Run<P> {
    world: World,
    bounds: Bounds,
    switch: P,
    now: Instant,
    shares: Vec<Share>,
    books: Books,
    slots_busy: Vec<u32>,
    /// Billionths of a byte: the amount that the target rate would have let through until now, and the amount that went
    /// through.
    supplied: u128,
    submitted: u128,
    length_max: u64,
}

impl<P: Policy + Clone> Run<P> {
    fn new(world: World, mut switch: P, shares: Vec<Share>) -> Run<P> {
        for (tenant, &share) in shares.iter().enumerate() {
            switch.set_share(Instant::ZERO, TenantId(tenant as u32), share);
        }
        let books = Books::keeping(switch.order());
        Run {
            world,
            bounds: Bounds::of(&world.config()),
            switch,
            now: Instant::ZERO,
            slots_busy: vec![0; shares.len()],
            shares,
            books,
            supplied: 0,
            submitted: 0,
            length_max: 0,
        }
    }

    fn wait(&mut self, span: Nanos) {
        let view = self.switch.ssd_view(self.now).expect("it measures the SSD");
        let rate = view.pacing.map_or(0, |pacing| pacing.target_rate.0);
        self.supplied += u128::from(rate) * u128::from(span.0);
        self.now += span;
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Wait(span) => self.wait(span),
            Event::Arrival(io) => {
                self.books.on_arrival(&io);
                self.switch.on_arrival(self.now, io);
            }
            Event::Withdraw(tenant) => self.books.withdraw(&mut self.switch, self.now, tenant),
            Event::Completion { index, latency } => self.complete(index, latency),
        }
        self.submit_all();
    }

    fn complete(&mut self, index: usize, latency: Option<Nanos>) {
        let io = self.books.end(index);
        let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
        let credit = self.switch.on_completion(self.now, Done { io, outcome });
        assert!(credit.0 > 0, "{} is told to have nothing outstanding", io.tenant);
        assert_eq!(credit, self.switch.credit(io.tenant));
        self.slots_busy[io.tenant.index()] =
            self.switch.tenant_view(io.tenant).map_or(0, |view| view.slots_busy);
    }

    fn submit_all(&mut self) {
        loop {
            match self.switch.next(self.now) {
                Next::Submit(io) => self.on_submit(io),
                Next::Extra(read) => panic!("{read:?}, though it measures nothing"),
                Next::WakeAt(moment) => break self.check_wake(moment),
                Next::Idle => break self.check_idle(),
            }
        }
        assert_eq!(self.switch.backlog(), self.books.backlog());
        // An IO that waits for tokens outside its queue has its slot.
        (0..self.world.tenants).for_each(|tenant| self.check_slots(TenantId(tenant)));
    }

    fn on_submit(&mut self, io: Io) {
        self.books.on_submit(io);
        self.submitted += u128::from(io.length.0) * 1_000_000_000;
        self.length_max = self.length_max.max(io.length.0);
        let depth = self.bounds.bucket_depth.max(self.length_max);
        let bound = 2 * u128::from(depth) * 1_000_000_000 + self.supplied;
        if let Some(time) = self.time_in_flight() {
            let charge = u64::from(io.mark.0);
            assert!(time.in_flight.0 - charge < time.limit.0, "{charge} for {io:?} into {time:?}");
            assert!(charge >= self.bounds.charge_min.0, "{charge} for {io:?}");
        } else {
            assert!(self.submitted <= bound, "{} submitted, bound {bound}", self.submitted);
        }
        self.check_slots(io.tenant);
    }

    /// No slot more becomes busy than the tenant may have.
    fn check_slots(&mut self, tenant: TenantId) {
        let Some(view) = self.switch.tenant_view(tenant) else { return };
        let (before, busy, allotted) =
            (self.slots_busy[tenant.index()], view.slots_busy, view.slots_allotted);
        let is_reserved = self.shares[tenant.index()].reservation.is_some();
        let bound = if is_reserved { allotted.max(self.bounds.slots) } else { allotted };
        assert!(busy <= bound.max(before), "{tenant}: {before} slots busy, now {busy} of {bound}");
        self.slots_busy[tenant.index()] = busy;
    }

    fn time_in_flight(&self) -> Option<TimeInFlightView> {
        self.switch.ssd_view(self.now).expect("it measures the SSD").time_in_flight
    }

    /// A named instant is the first at which anything can go; only a share may make it a mere change of the order.
    fn check_wake(&self, moment: Instant) {
        assert!(moment > self.now, "to be woken at {moment:?}, which is not after {:?}", self.now);
        let before = moment - Nanos(1);
        if before > self.now {
            let early = self.switch.clone().next(before);
            assert_eq!(early, Next::WakeAt(moment), "one nanosecond early");
        }
        if self.shares.iter().all(|share| *share == Share::EQUAL) {
            let there = self.switch.clone().next(moment);
            assert!(matches!(there, Next::Submit(_)), "{there:?} at the instant that was named");
        }
    }

    /// Without a named instant, every tenant with backlog has no slot or is ahead of others; the least-served is never
    /// ahead. Or all of the device time is in flight, or the tenant waits for the end of its own IOs in flight.
    fn check_idle(&self) {
        let time = self.time_in_flight();
        let is_full = time.is_some_and(|TimeInFlightView { limit, in_flight }| in_flight >= limit);
        for tenant in self.books.backlogged() {
            let view = self.switch.tenant_view(tenant).expect("the tenant has been seen");
            let is_ahead = self.bounds.lag_max.is_some_and(|lag_max| view.service_lag > lag_max);
            assert!(
                if time.is_some() {
                    is_full || is_ahead || view.in_flight > 0
                } else {
                    view.slots_busy >= view.slots_allotted || is_ahead
                },
                "idle, though {tenant} has backlog and a slot: {view:?}"
            );
        }
    }

    /// Lets everything end and checks that all books are empty.
    fn drain(mut self) {
        let mut rounds = 0;
        while self.switch.backlog() != Backlog::default() {
            rounds += 1;
            assert!(rounds < 100_000, "{:?} never ends", self.switch.backlog());
            if self.books.in_flight.is_empty() {
                let Next::WakeAt(moment) = self.switch.next(self.now) else {
                    panic!("nothing in flight, yet no instant is named: {:?}", self.switch.backlog());
                };
                self.wait(moment.since(self.now));
            } else {
                self.complete(0, Some(Nanos::micros(300)));
            }
            self.submit_all();
        }
        self.books.assert_settled();
        for tenant in (0..self.world.tenants).map(TenantId) {
            if let Some(view) = self.switch.tenant_view(tenant) {
                assert_eq!((view.queued, view.in_flight, view.slots_busy), (0, 0, 0), "{tenant}");
                self.switch.forget(self.now, tenant);
            }
        }
        let view = self.switch.ssd_view(self.now).expect("it measures the SSD");
        assert_eq!(view.active_tenants, 0);
        assert!(view.time_in_flight.is_none_or(|time| time.in_flight == Bytes::ZERO), "{view:?}");
        assert_eq!(self.switch.next(self.now), Next::Idle);
    }
}

fn run(world: World, shares: Vec<Share>) {
    match world.config() {
        Config::Gimbal(config) => run_with(Gimbal::new(config), world, shares),
        Config::LevelCalibrated(config) => run_with(LevelCalibrated::new(config), world, shares),
    }
}

fn run_with(switch: impl Policy + Clone, world: World, shares: Vec<Share>) {
    let mut run = Run::new(world, switch, shares);
    let mut events = world.events();
    for _ in 0..world.steps {
        let event = events.next(run.books.in_flight.len());
        run.apply(event);
    }
    run.drain();
}

/// A share of every sort.
fn any_share(dice: &mut Dice) -> Share {
    Share {
        weight: 1 + dice.roll(4) as u32,
        limit_iops: (dice.roll(4) == 0).then(|| 500 + dice.roll(20_000)),
        limit_rate: (dice.roll(4) == 0).then(|| ByteRate::mib_per_sec(1 + dice.roll(200))),
        reservation: (dice.roll(4) == 0).then(|| ByteRate::mib_per_sec(1 + dice.roll(50))),
        ..Share::EQUAL
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let variant = prop::sample::select(Variant::ALL.to_vec());
    (any::<u64>(), 1..14u32, 1..1500u32, 1..20u32, variant)
        .prop_map(|(seed, tenants, steps, slots, variant)| World { seed, tenants, steps, slots, variant })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn equal_tenants_are_served_without_loss_and_never_without_reason(world in worlds()) {
        run(world, vec![Share::EQUAL; world.tenants as usize]);
    }

    #[test]
    fn tenants_with_shares_are_served_without_loss_and_never_without_reason(world in worlds()) {
        let mut dice = Dice::new(!world.seed);
        run(world, (0..world.tenants).map(|_| any_share(&mut dice)).collect());
    }
}
