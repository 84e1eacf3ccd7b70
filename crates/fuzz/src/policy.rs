//! Schedulers, driven by a [`Station`]: every operation in every order that it allows, with any constants that
//! pass their check, any shares, and a scheduler that is replaced under load.
//!
//! Holds: no IO is lost, repeated, changed, or submitted out of order within its tenant and class, even across
//!        a change of schedulers; a scheduler is kept exactly until its last IO has ended; the steps of one
//!        decision are bounded by the number of queued IOs, and extra reads are bounded; a wake-up time is in
//!        the future; a credit is never zero; a forgotten tenant leaves no state; when time passes and the IOs
//!        in flight complete, all IOs end, all slots are free, and nothing is left.

use crate::input::Input;
use crate::peers;
use sched::{
    Action, Backlog, CalibratedConfig, Cost, Credit, DeviceConstants, DeviceCosts, Done, GimbalConfig,
    GimbalOrder, Halvings, InFlightLimits, Io, IoId, IoKind, Mark, Order, Outcome, PapersDrive, Percentile,
    Policy, Priority, Reading, RoundConfig, Scheduler, Setup, Share, Slo, Station, Ticket, Turn,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

const TENANTS: u32 = 6;
/// The longest transfer of one command that a target can be configured to take.
const LENGTH_MAX: u64 = 16 << 20;
/// Costs are at most this, and quanta at least: the scheduler goes around the tenants once per quantum until
/// the most expensive IO is affordable.
const COST_MAX: u32 = 64;
const QUANTUM_MIN: u64 = 32 << 10;
/// Latencies are at most an hour, because no device is waited for longer.
pub(crate) const LATENCY_MAX: u64 = 3_600_000_000_000;
/// Most wake-ups without anything to submit, before all IOs must have ended.
const IDLE_WAKES_MAX: u32 = 20_000;

/// IOs of a steady load, this far apart: 150 ms, several periods in which a scheduler decides whether to measure.
const LOAD_ROUNDS: u32 = 1500;
const LOAD_INTERVAL: Nanos = Nanos::micros(100);
/// A steady load adds IOs only while fewer are queued.
const LOAD_QUEUED_MAX: usize = 64;

/// No machine runs for longer.
const CENTURY: Instant = Instant(3_200_000_000_000_000_000);

/// The most extra reads of one scheduler at once.
const EXTRA_READS_MAX: usize = 1024;

/// The longest extra read that is done; longer ones are refused.
const EXTRA_LENGTH_MAX: Bytes = Bytes::kib(512);

/// The drive that the usual constants are of.
static DRIVE: LazyLock<PapersDrive> = LazyLock::new(PapersDrive::new);

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let setup = any_setup(&mut input);
    if setup.check().is_err() {
        return;
    }
    let mut run = Run {
        station: Station::new(setup.build(), 0, EXTRA_LENGTH_MAX, Share::EQUAL.second),
        now: Instant(input.below(2000).into()),
        queued: BTreeMap::new(),
        tickets: BTreeMap::new(),
        in_flight: Vec::new(),
        extra_reads: Vec::new(),
        read_end: 0,
        arrived: 0,
        ended: 0,
    };
    while !input.is_empty() {
        run.step(&mut input);
        run.decide();
        run.check_books();
    }
    run.drain();
}

/// Any scheduler; its constants need not pass their check.
fn any_setup(input: &mut Input<'_>) -> Setup {
    let row = input.pick(&Scheduler::ALL);
    let usual = row.set_up(&DRIVE.facts()).expect("everything is known of the drive");
    if input.one_in(4) { usual } else { peers::any(row, input).unwrap_or(usual) }
}

/// Constants of every size, most often sensible ones.
fn any_device(input: &mut Input<'_>) -> DeviceConstants {
    DeviceConstants {
        thresh_min: Nanos(any_number(input, 250_000)),
        thresh_max: Nanos(any_number(input, 1_500_000)),
        write_cost_best: any_cost(input, 5),
        write_cost_worst: any_cost(input, 9),
        slots: any_number(input, 8) as u32,
        rate_min: ByteRate(any_number(input, 50 << 20)),
        rate_max: ByteRate(any_number(input, 4 << 30)),
    }
}

fn any_round(input: &mut Input<'_>) -> RoundConfig {
    RoundConfig {
        quantum: Bytes(any_number(input, 128 << 10).max(QUANTUM_MIN)),
        class_quotas: [0; 4].map(|_| any_number(input, 4) as u32),
        limit_burst: Nanos(any_number(input, 1_000_000)),
        reservation_burst: Nanos(any_number(input, 1_000_000)),
    }
}

pub(crate) fn gimbal(input: &mut Input<'_>) -> GimbalConfig {
    let device = any_device(input);
    GimbalConfig {
        device,
        rate_start: ByteRate(any_number(input, 1 << 30).max(device.rate_min.0).min(device.rate_max.0.max(1))),
        latency_weight: Halvings(input.below(18)),
        threshold_weight: input.flag().then(|| Halvings(input.below(18))),
        underutilised_growth: any_number(input, 8),
        completion_window: Bytes(any_number(input, 16 << 20)),
        completion_idle_max: Nanos(any_number(input, 10_000_000)),
        order: input.pick(&[GimbalOrder::Text, GimbalOrder::Release]),
        bucket_depth: Bytes(any_number(input, 256 << 10)),
        write_cost_step: any_cost(input, 1),
        write_cost_period: Nanos(any_number(input, 100_000_000)),
        slot_size: Bytes(any_number(input, 128 << 10)),
        slot_ios_initial: any_number(input, 32) as u32,
        round: any_round(input),
    }
}

pub(crate) fn level_calibrated(input: &mut Input<'_>) -> CalibratedConfig {
    CalibratedConfig {
        device: any_device(input),
        costs: any_costs(input),
        in_flight: any_limits(input),
        lag_max: Bytes(any_number(input, 1 << 20)),
        lag_catch_up: Bytes(any_number(input, 128 << 10)),
        round: any_round(input),
    }
}

/// Mostly sound ones.
fn any_limits(input: &mut Input<'_>) -> InFlightLimits {
    let uniform = Bytes(any_number(input, 1 << 20));
    InFlightLimits {
        uniform,
        mixed: Bytes(any_number(input, 2 << 20)).max(uniform),
        alone: Bytes(any_number(input, 4 << 20)).max(uniform),
        io_min: Bytes(any_number(input, 16 << 10)),
    }
}

/// The costs of a DCT983, with one cost and the rate changed.
fn any_costs(input: &mut Input<'_>) -> DeviceCosts {
    let mut costs = DeviceCosts::DCT983;
    costs.rate = ByteRate(any_number(input, costs.rate.0));
    let curve = match input.below(4) {
        0 => &mut costs.clean.reads,
        1 => &mut costs.clean.writes,
        2 => &mut costs.fragmented.reads,
        _ => &mut costs.fragmented.writes,
    };
    let cost = &mut curve.0[input.below(7) as usize];
    *cost = Bytes(any_number(input, cost.0));
    costs
}

/// `common`, a related number, a very small one, or any number.
pub(crate) fn any_number(input: &mut Input<'_>, common: u64) -> u64 {
    match input.below(16) {
        0 => 1,
        1 => u64::from(input.byte()),
        2 => u64::from(input.word()),
        3 => input.long(),
        4 => common / 16,
        5 => common.saturating_mul(64),
        _ => common,
    }
}

fn any_cost(input: &mut Input<'_>, common: u32) -> Cost {
    match input.below(8) {
        0 => Cost::ratio(u32::from(input.half()) % COST_MAX, 1),
        1 => Cost::ratio(input.half().into(), 1000),
        2 => Cost::ONE,
        _ => Cost::ratio(common, 1),
    }
}

/// An IO on the SSD, and the generation of the scheduler that gave it out.
struct Given {
    generation: u32,
    io: Io,
}

/// A station, and the expected state of every IO passed to it.
struct Run {
    station: Station,
    now: Instant,
    /// Arrived and not submitted, by tenant and line, in order.
    queued: BTreeMap<(TenantId, usize), VecDeque<Io>>,
    tickets: BTreeMap<IoId, Ticket>,
    in_flight: Vec<Given>,
    /// On the SSD, each with the generation of the scheduler that wants it.
    extra_reads: Vec<(u32, Reading)>,
    /// The furthest end of a tenant's read: no extra read ends beyond it.
    read_end: u64,
    arrived: u64,
    ended: u64,
}

impl Run {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(32) {
            0..=11 => self.arrive(input),
            12..=21 => self.complete_one(input),
            22..=25 => {
                let longest = input.pick(&[1_000, 100_000, 10_000_000, 1_000_000_000, 1 << 42]);
                self.now += Nanos(input.long() % longest);
            }
            26 => {
                // Exactly the time the scheduler named, or one nanosecond before it; a share may be so small that it never comes.
                if let Action::WakeAt(moment) = self.ask(&mut Turn::new())
                    && moment < CENTURY
                {
                    let early = Nanos(input.below(2).into());
                    self.now = self.now.max(Instant(moment.0 - early.0));
                }
            }
            27 => self.withdraw(input),
            28 | 29 => self.share(input),
            30 => self.forget(input),
            _ => match input.below(8) {
                0..=3 => self.replace(input),
                4 => self.overdue(input),
                5 => self.load(input),
                _ => {
                    let tenant = TenantId(input.below(TENANTS));
                    assert!(self.policy().credit(tenant) > Credit(0));
                    let _ = self.policy().ssd_view(self.now);
                    let _ = self.station.busy(self.now);
                }
            },
        }
    }

    fn policy(&self) -> &dyn Policy {
        self.station.policy()
    }

    fn arrive(&mut self, input: &mut Input<'_>) {
        for _ in 0..input.pick(&[1, 1, 1, 2, 9]) {
            let kind =
                input.pick(&[IoKind::Read, IoKind::Read, IoKind::Write, IoKind::Write, IoKind::Management]);
            let length = any_number(input, 4096).clamp(1, LENGTH_MAX);
            let tenant = TenantId(input.below(TENANTS));
            let priority = Priority::new(input.byte() % 4).expect("there are four");
            self.arrive_one(tenant, priority, kind, Bytes(length));
        }
    }

    fn arrive_one(&mut self, tenant: TenantId, priority: Priority, kind: IoKind, length: Bytes) {
        self.arrived += 1;
        let io = Io { id: IoId(self.arrived), tenant, priority, kind, length, mark: Mark::default() };
        self.queued.entry((tenant, self.policy().order().line(&io))).or_default().push_back(io);
        let ticket = self.station.arrive(self.now, io);
        self.tickets.insert(io.id, ticket);
    }

    /// Two tenants with steady work of two kinds: schedulers that measure the SSD begin to.
    fn load(&mut self, input: &mut Input<'_>) {
        let [reader, writer] = [0, 1].map(|_| TenantId(input.below(TENANTS)));
        let length = Bytes(input.pick(&[4, 16, 128]) << 10);
        for round in 0..LOAD_ROUNDS {
            let (tenant, kind) =
                if round % 2 == 0 { (reader, IoKind::Read) } else { (writer, IoKind::Write) };
            if self.backlog().queued < LOAD_QUEUED_MAX {
                self.arrive_one(tenant, Priority::default(), kind, length);
                self.arrive_one(tenant, Priority::default(), kind, length);
            }
            self.decide();
            self.now += LOAD_INTERVAL;
            let outcome = Outcome::Success { latency: LOAD_INTERVAL };
            if !self.in_flight.is_empty() {
                let given = self.in_flight.swap_remove(0);
                self.complete(given, outcome);
            }
            if let Some((_, read)) = self.extra_reads.pop() {
                self.station.on_read(self.now, read.tag, outcome);
            }
        }
    }

    fn complete_one(&mut self, input: &mut Input<'_>) {
        let all = self.in_flight.len() + self.extra_reads.len();
        if all == 0 {
            return;
        }
        let index = input.below(all as u32) as usize;
        let outcome = match input.below(16) {
            0 => Outcome::Failed,
            1 => Outcome::Success { latency: Nanos(input.long() % LATENCY_MAX) },
            2 => Outcome::Success { latency: Nanos(0) },
            _ => Outcome::Success { latency: Nanos(input.below(4_000_000).into()) },
        };
        match index.checked_sub(self.in_flight.len()) {
            None => {
                let given = self.in_flight.swap_remove(index);
                self.complete(given, outcome);
            }
            Some(index) => {
                let (_, read) = self.extra_reads.swap_remove(index);
                self.station.on_read(self.now, read.tag, outcome);
            }
        }
    }

    fn complete(&mut self, Given { generation, io }: Given, outcome: Outcome) {
        self.ended += 1;
        let credit = self.station.on_done(self.now, generation, Done { io, outcome });
        assert!(credit > Credit(0), "the credit of {} is zero", io.tenant);
        assert_eq!(credit, self.policy().credit(io.tenant));
    }

    /// Takes queued IOs of a tenant back from their places in the queue: all, or some of them.
    fn withdraw(&mut self, input: &mut Input<'_>) {
        let tenant = TenantId(input.below(TENANTS));
        let (modulus, all) = (u64::from(input.byte() % 3 + 2), input.flag());
        let is_gone = |io: &Io| all || io.id.0.is_multiple_of(modulus);
        for (_, queue) in self.queued.iter_mut().filter(|((id, _), _)| *id == tenant) {
            let (gone, kept): (VecDeque<Io>, VecDeque<Io>) = queue.drain(..).partition(is_gone);
            *queue = kept;
            for io in gone {
                let ticket = self.tickets[&io.id];
                assert_eq!(self.station.withdraw(self.now, tenant, ticket), io);
                self.ended += 1;
            }
        }
    }

    fn share(&mut self, input: &mut Input<'_>) {
        let tenant = TenantId(input.below(TENANTS));
        let share = Share {
            weight: any_number(input, 2).clamp(1, u32::MAX.into()) as u32,
            limit_iops: input.one_in(3).then(|| any_number(input, 10_000).max(1)),
            limit_rate: input.one_in(3).then(|| ByteRate(any_number(input, 100 << 20).max(1))),
            reservation: input.one_in(3).then(|| ByteRate(any_number(input, 50 << 20))),
            slo: input.one_in(3).then(|| any_objective(input)),
            ..Share::EQUAL
        };
        let is_equal = share == Share::EQUAL;
        // A refusal is an answer like another.
        let _ = self.station.set_share(self.now, tenant, share);
        assert_eq!(self.station.shares().iter().any(|(other, _)| *other == tenant), !is_equal);
    }

    fn forget(&mut self, input: &mut Input<'_>) {
        let tenant = TenantId(input.below(TENANTS));
        let has_queued = self.queued.iter().any(|((id, _), queue)| *id == tenant && !queue.is_empty());
        if has_queued || self.in_flight.iter().any(|given| given.io.tenant == tenant) {
            return;
        }
        self.station.forget(self.now, tenant);
    }

    /// Reports IOs of a tenant as overdue, if it has any on the SSD.
    fn overdue(&mut self, input: &mut Input<'_>) {
        let tenant = TenantId(input.below(TENANTS));
        if self.in_flight.iter().any(|given| given.io.tenant == tenant) {
            self.station.on_overdue(self.now, tenant);
        }
    }

    /// Puts another scheduler in charge, which may have an order of its own.
    fn replace(&mut self, input: &mut Input<'_>) {
        let setup = any_setup(input);
        if setup.check().is_err() {
            return;
        }
        let mut queued: Vec<Io> = core::mem::take(&mut self.queued).into_values().flatten().collect();
        queued.sort_unstable_by_key(|io| io.id);
        let mut moved = Vec::new();
        let answers = self.station.replace(self.now, setup.build(), &queued, |io, ticket| {
            self.tickets.insert(io.id, ticket);
            moved.push(io);
        });
        assert_eq!(moved, queued, "queued IOs move over in order of arrival");
        let promised = self.station.shares().iter().filter(|(_, share)| share.slo.is_some());
        let answered = answers.iter().map(|(tenant, _)| tenant);
        assert!(promised.map(|(tenant, _)| tenant).eq(answered), "every objective has an answer");
        let order = self.policy().order();
        for io in queued {
            self.queued.entry((io.tenant, order.line(&io))).or_default().push_back(io);
        }
    }

    fn ask(&mut self, turn: &mut Turn) -> Action {
        let action = self.station.next(self.now, turn);
        match action {
            Action::Submit(io) => self.on_submit(io),
            Action::Read(read) => {
                assert!(read.length > Bytes::ZERO, "{read:?}");
                assert!(read.length <= EXTRA_LENGTH_MAX, "{read:?}");
                assert!(read.offset + read.length.0 <= self.read_end, "{read:?}");
                let present = self.station.generation();
                self.extra_reads.push((present, read));
                let its_own = self.extra_reads.iter().filter(|(generation, _)| *generation == present);
                assert!(its_own.count() <= EXTRA_READS_MAX, "extra reads without end");
            }
            Action::WakeAt(moment) => {
                assert!(moment > self.now, "wake-up at {moment:?}, but it is already {:?}", self.now)
            }
            Action::Idle | Action::Pause => {}
        }
        action
    }

    fn on_submit(&mut self, io: Io) {
        let order = self.policy().order();
        let queue = self.queued.get_mut(&(io.tenant, order.line(&io)));
        let place = queue.as_ref().and_then(|queue| queue.iter().position(|other| other.id == io.id));
        let place = place.unwrap_or_else(|| panic!("{io:?} is lost or repeated"));
        assert!(place == 0 || order == Order::None, "{io:?} is out of order");
        let arrived = queue.and_then(|queue| queue.remove(place));
        assert_eq!(arrived, Some(Io { mark: Mark::default(), ..io }), "changed");
        if io.kind == IoKind::Read {
            // An extra read that is longer than all before this end is refused.
            let end = io.length.0 * (1 + io.id.0 % 64);
            self.read_end = self.read_end.max(end);
            self.station.on_read_submitted(io.tenant, end);
        }
        self.in_flight.push(Given { generation: self.station.generation(), io });
    }

    /// Submits everything that may be submitted now.
    fn decide(&mut self) {
        let mut left = self.backlog().queued;
        let turns = (left + EXTRA_READS_MAX) / Turn::STEPS_MAX + 1;
        for _ in 0..turns {
            let mut turn = Turn::new();
            loop {
                match self.ask(&mut turn) {
                    Action::Submit(_) => {
                        left = left.checked_sub(1).expect("no more is submitted than was queued")
                    }
                    Action::Read(_) => {}
                    Action::Pause => break,
                    Action::WakeAt(_) | Action::Idle => return,
                }
            }
        }
        panic!("more than {turns} turns at one instant, with {:?}", self.backlog());
    }

    fn backlog(&self) -> Backlog {
        Backlog { queued: self.queued.values().map(VecDeque::len).sum(), in_flight: self.in_flight.len() }
    }

    fn check_books(&self) {
        assert_eq!(self.station.backlog(), self.backlog());
        let arrived = self.ended + (self.backlog().queued + self.in_flight.len()) as u64;
        assert_eq!(arrived, self.arrived, "IOs ended, queued and in flight = arrived");
        let present = self.station.generation();
        let generations: BTreeSet<u32> = self.in_flight.iter().map(|given| given.generation).collect();
        let retired = generations.iter().filter(|generation| **generation != present).count();
        assert_eq!(self.station.retired(), retired, "schedulers that wait for their last IO");
        assert_eq!(self.station.extra_reads(), self.extra_reads.len());
        for tenant in (0..TENANTS).map(TenantId) {
            let Some(view) = self.policy().tenant_view(tenant) else { continue };
            let queued: usize =
                self.queued.iter().filter(|((id, _), _)| *id == tenant).map(|(_, queue)| queue.len()).sum();
            let is_its_own = |given: &&Given| given.generation == present && given.io.tenant == tenant;
            let in_flight = self.in_flight.iter().filter(is_its_own).count();
            assert_eq!((view.queued, view.in_flight), (queued, in_flight), "{tenant}");
            // Under Gimbal what waits aside for tokens has its slot.
            let in_slots = if self.policy().order() == Order::None { in_flight + queued } else { in_flight };
            assert!(view.slots_busy as usize <= in_slots, "{view:?}");
            assert!(view.credit > Credit(0), "{view:?}");
        }
    }

    /// Time passes and the IOs in flight complete: then all IOs must end.
    fn drain(mut self) {
        // A share may be so small that its tenant would wait for a century.
        for tenant in (0..TENANTS).map(TenantId) {
            assert!(self.station.set_share(self.now, tenant, Share::EQUAL).is_ok());
        }
        let mut idle_wakes = 0;
        loop {
            self.decide();
            let outcome = Outcome::Success { latency: Nanos(300_000) };
            if let Some(given) = self.in_flight.pop() {
                self.now += Nanos(1);
                self.complete(given, outcome);
                continue;
            }
            if let Some((_, read)) = self.extra_reads.pop() {
                self.now += Nanos::millis(1);
                self.station.on_read(self.now, read.tag, outcome);
                continue;
            }
            match self.ask(&mut Turn::new()) {
                Action::Submit(_) | Action::Read(_) | Action::Pause => {}
                Action::Idle => break,
                Action::WakeAt(moment) => {
                    idle_wakes += 1;
                    assert!(idle_wakes < IDLE_WAKES_MAX, "{:?}: these IOs never end", self.backlog());
                    self.now = moment;
                }
            }
        }
        assert_eq!(self.backlog(), Backlog::default(), "idle with IOs queued and none in flight");
        self.check_books();
        for tenant in (0..TENANTS).map(TenantId) {
            if let Some(view) = self.policy().tenant_view(tenant) {
                assert_eq!((view.queued, view.in_flight, view.slots_busy), (0, 0, 0), "{tenant}");
            }
            self.station.forget(self.now, tenant);
        }
        if let Some(view) = self.policy().ssd_view(self.now) {
            assert_eq!(view.active_tenants, 0);
            assert!(view.time_in_flight.is_none_or(|time| time.in_flight == Bytes::ZERO), "{view:?}");
        }
    }
}

/// Any objective that a configuration may name.
fn any_objective(input: &mut Input<'_>) -> Slo {
    Slo {
        iops: any_number(input, 10_000).max(1),
        read_percent: input.byte() % 101,
        percentile: input.pick(&[Percentile::P95, Percentile::P99]),
        latency: Nanos(any_number(input, 1_000_000).clamp(1, LATENCY_MAX)),
    }
}
