//! The main loop: take the earliest event, handle it, ask the scheduler, repeat.
//!
//! Within one instant, the device comes first, then messages, then the scheduler. So a completion and an
//! arrival at the same nanosecond are both known to the decision.

use crate::auxiliary::{Auxiliary, Stored};
use crate::checkers::{Checkers, Violation};
use crate::client::Client;
use crate::drive::{Change, Drive};
use crate::followed::{Followed, ReadTime};
use crate::host::{Host, hosts};
use crate::queue::EventQueue;
use crate::results::{Results, Tally, TenantResults};
use crate::workload::{Arrival, Request};
use crate::world::{ClientChoice, LatencyScope, TenantSpec, World};
use ais::{HostIo, Op, Step};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{
    Action, BusyPeriod, Credit, Done, Io, IoId, IoKind, LatencySample, Mark, ObjectiveView, Outcome, Policy,
    Reading, Setup, SsdView, Station, Ticket, Turn,
};
use ssd::{Command, CommandKind, Image, SLOT_BYTES};
use std::hash::Hasher;
use units::{Bytes, Instant, Nanos, TenantId};

/// Runs a world to its end: everything requested is answered, or a checker reports a violation.
pub fn run(world: &World) -> Result<Results, Violation> {
    let image = Image::new(&world.profile, world.condition, world.seed);
    run_on(world, world.policy.build(&image)?, &image)
}

/// The same with a given scheduler instead of the world's.
pub fn run_with(world: &World, policy: Box<dyn Policy>) -> Result<Results, Violation> {
    run_on(world, policy, &Image::new(&world.profile, world.condition, world.seed))
}

/// Runs a world on a conditioned SSD. The profile and condition are those of `image`.
pub fn run_on(world: &World, policy: Box<dyn Policy>, image: &Image) -> Result<Results, Violation> {
    run_changing(world, policy, image, &[])
}

/// The same on an SSD that changes meanwhile.
pub fn run_changing(
    world: &World,
    policy: Box<dyn Policy>,
    image: &Image,
    changes: &[Change],
) -> Result<Results, Violation> {
    Engine::new(world, policy, Drive::new(image, changes), &[]).run()
}

/// The same on an SSD that does not change, without an auxiliary store. Also returns the parts of the time of each read of one slot of
/// `tenant` that was answered in the measured time.
///
/// # Panics
/// The world has an auxiliary store: it serves reads, too, and knows no parts.
pub fn run_following(
    world: &World,
    policy: Box<dyn Policy>,
    image: &Image,
    tenant: TenantId,
) -> Result<(Results, Vec<ReadTime>), Violation> {
    assert!(world.auxiliary.is_none(), "reads are only followed into an SSD");
    let mut engine = Engine::new(world, policy, Drive::new(image, &[]), &[]);
    engine.followed = Some(Followed::new(tenant));
    engine.run_to_end()?;
    let times = engine.followed.take().map(|followed| followed.times).unwrap_or_default();
    Ok((engine.into_results(), times))
}

/// Runs a world under an operator who changes schedulers, and hosts that take IOs back.
pub fn run_disturbed(
    world: &World,
    policy: Box<dyn Policy>,
    image: &Image,
    disturbances: &[(Instant, Disturbance)],
) -> Result<Results, Violation> {
    Engine::new(world, policy, Drive::new(image, &[]), disturbances).run()
}

/// Something that is done to a switch under load.
#[derive(Clone, Debug)]
pub enum Disturbance {
    /// Puts another scheduler in charge.
    Replace(Setup),
    /// Lets a tenant take back every second IO that waits in the switch.
    Withdraw(TenantId),
}

enum Event {
    /// The application of this tenant may request its next IO.
    Ask(TenantId),
    /// An IO reaches the switch.
    Arrive(IoId),
    /// Its completion reaches the client.
    Answer(IoId),
    /// The end of an interval, at which the scheduler's reports are recorded.
    Look,
    /// The end of a PARDA period.
    Period,
    /// The end of an operation of the auxiliary store.
    Stored(Stored),
    /// The disturbance of this number.
    Disturb(usize),
}

/// Tags of the SSD's commands that are the stage's own.
const OWN: u64 = 1 << 63;

/// One IO in progress.
#[derive(Clone, Copy)]
struct Flight {
    io: Io,
    /// The scheduler that gave it out.
    generation: u32,
    /// Its name while it is queued, and its place in the order of arrivals.
    queued: Option<(Ticket, u64)>,
    /// Whether it was taken back, and counts in no result.
    is_withdrawn: bool,
    request: Request,
    asked_at: Instant,
    sent_at: Instant,
    arrived_at: Instant,
    submitted_at: Instant,
    completed_at: Instant,
    credit: Credit,
}

/// The command for an extra read. Unlike one in the product it bypasses the auxiliary store: the data that it reads
/// does not matter.
pub fn command(read: Reading) -> Command {
    let [slot, slots] = [read.offset, read.length.0].map(|bytes| (bytes / SLOT_BYTES) as u32);
    Command { tag: read.tag, kind: CommandKind::Read, slot, slots }
}

struct Engine<'w> {
    world: &'w World,
    now: Instant,
    events: EventQueue<Event>,
    clients: Vec<Client>,
    hosts: Vec<Host>,
    station: Station,
    disturbances: &'w [(Instant, Disturbance)],
    arrivals: u64,
    wake_at: Option<Instant>,
    ssd: Drive<'w>,
    auxiliary: Option<Auxiliary>,
    flights: Vec<Option<Flight>>,
    free: Vec<u64>,
    checkers: Checkers,
    tenants: Vec<TenantResults>,
    fingerprint: Fnv,
    ios: u64,
    views: Vec<(Instant, SsdView)>,
    busy: Vec<(Instant, Option<BusyPeriod>)>,
    objectives: Vec<(Instant, TenantId, ObjectiveView)>,
    jitter: Xoshiro256PlusPlus,
    /// The reads of a tenant, if they are followed.
    followed: Option<Followed>,
}

impl<'w> Engine<'w> {
    fn new(
        world: &'w World,
        policy: Box<dyn Policy>,
        ssd: Drive<'w>,
        disturbances: &'w [(Instant, Disturbance)],
    ) -> Engine<'w> {
        let mut station = Station::new(policy, world.seed, Bytes(u64::MAX), Nanos::secs(1));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(world.seed);
        let mut clients = Vec::with_capacity(world.tenants.len());
        let mut events = EventQueue::new();
        for (index, spec) in world.tenants.iter().enumerate() {
            // One that is set aside is served as if it had no objective.
            _ = station.set_share(Instant::ZERO, TenantId(index as u32), spec.share);
        }
        let (hosts, places) = hosts(&world.clients, &world.tenants, |tenant| station.policy().credit(tenant));
        for (index, (spec, place)) in world.tenants.iter().zip(places).enumerate() {
            let tenant = TenantId(index as u32);
            let own = random.clone();
            random.jump();
            clients.push(Client::new(spec.clone(), world.end(), place, ssd.slots(), own));
            let asks_at_once = match spec.workload.arrival {
                Arrival::Closed { depth } => depth,
                Arrival::Open { .. } => 1,
            };
            for _ in 0..asks_at_once {
                events.push(spec.start, Event::Ask(tenant));
            }
        }
        events.push(Instant::ZERO + world.interval, Event::Look);
        if let ClientChoice::Parda { config, .. } = &world.clients {
            events.push(Instant::ZERO + config.period, Event::Period);
        }
        for (number, (at, _)) in disturbances.iter().enumerate() {
            events.push(*at, Event::Disturb(number));
        }
        let points = world.duration.0.div_ceil(world.interval.0) as usize;
        let order = station.policy().order();
        Engine {
            world,
            now: Instant::ZERO,
            events,
            clients,
            hosts,
            station,
            disturbances,
            arrivals: 0,
            wake_at: None,
            auxiliary: world.auxiliary.as_ref().map(|choice| Auxiliary::new(choice, ssd.capacity())),
            ssd,
            flights: Vec::new(),
            free: Vec::new(),
            checkers: Checkers::new(world.tenants.len(), order),
            tenants: world.tenants.iter().map(|spec| TenantResults::new(spec.name.clone(), points)).collect(),
            fingerprint: Fnv::default(),
            ios: 0,
            views: Vec::new(),
            busy: Vec::new(),
            objectives: Vec::new(),
            jitter: random,
            followed: None,
        }
    }

    fn run(mut self) -> Result<Results, Violation> {
        self.run_to_end()?;
        Ok(self.into_results())
    }

    fn run_to_end(&mut self) -> Result<(), Violation> {
        let mut completions = Vec::new();
        while let Some(at) = self.next_instant()? {
            self.now = at;
            self.ssd.advance(at, &mut |completion| completions.push(completion));
            if let Some(followed) = &mut self.followed {
                followed.in_ssd.extend(self.ssd.followed());
            }
            for completion in completions.drain(..) {
                if Station::is_extra(completion.tag) {
                    let latency = completion.at.since(self.station.began(completion.tag));
                    self.station.on_read(self.now, completion.tag, Outcome::Success { latency });
                    continue;
                }
                match &mut self.auxiliary {
                    None => self.on_completed(IoId(completion.tag), completion.at)?,
                    Some(auxiliary) if completion.tag & OWN != 0 => {
                        auxiliary.stage.on_done(at, completion.tag & !OWN, true);
                    }
                    Some(auxiliary) => auxiliary.stage.on_driven(at, completion.tag, true),
                }
            }
            while let Some(event) = self.events.pop_due(self.now) {
                match event {
                    Event::Ask(tenant) => self.on_ask(tenant)?,
                    Event::Arrive(id) => self.on_arrived(id)?,
                    Event::Answer(id) => self.on_answered(id)?,
                    Event::Look => self.look(),
                    Event::Period => self.on_period()?,
                    Event::Stored(stored) => self.on_stored(stored)?,
                    Event::Disturb(number) => self.disturb(number)?,
                }
            }
            if let Some(auxiliary) = &mut self.auxiliary {
                auxiliary.stage.poll(at);
                self.carry_out()?;
            }
            self.decide()?;
        }
        self.checkers.on_end(self.station.backlog())
    }

    fn into_results(self) -> Results {
        Results {
            tenants: self.tenants,
            duration: self.world.duration,
            interval: self.world.interval,
            fingerprint: self.fingerprint.finish(),
            ios: self.ios,
            learnt: self.station.policy().learnt(),
            views: self.views,
            busy: self.busy,
            objectives: self.objectives,
            windows: self.hosts.into_iter().map(Host::into_windows).collect(),
        }
    }

    /// The time of the earliest event; `None` at the end of the run.
    fn next_instant(&self) -> Result<Option<Instant>, Violation> {
        let outstanding = self.flights.len() - self.free.len();
        let messages = self.events.next_at();
        if outstanding == 0 && messages.is_none() {
            return Ok(None);
        }
        // An idle device still collects garbage. If no IO is outstanding, it need not run.
        let backlog = self.station.backlog();
        let in_flight = backlog.in_flight + self.station.extra_reads();
        let busy = in_flight > 0 || self.auxiliary.is_some() && !self.ssd.is_idle();
        let device = if busy { self.ssd.next_event() } else { None };
        let own = self.auxiliary.as_ref().and_then(|auxiliary| auxiliary.stage.next_wake(self.now));
        match [messages, self.wake_at, device, own].into_iter().flatten().min() {
            Some(at) => Ok(Some(at.max(self.now))),
            None => Err(Violation::Stuck { now: self.now, backlog }),
        }
    }

    fn on_ask(&mut self, tenant: TenantId) -> Result<(), Violation> {
        let client = &mut self.clients[tenant.index()];
        if self.now >= client.stop {
            return Ok(());
        }
        let may_ask_at = client.may_ask_at(self.now);
        if may_ask_at > self.now {
            self.events.push(may_ask_at, Event::Ask(tenant));
            return Ok(());
        }
        client.ask(self.now);
        let place = client.place;
        if let Some(gap) = client.open_gap() {
            self.events.push(self.now + gap, Event::Ask(tenant));
        }
        self.hosts[place.host].on_ask(self.now, place.vm);
        self.send(place.host)
    }

    /// Sends the IOs that a host's window allows.
    fn send(&mut self, host: usize) -> Result<(), Violation> {
        while let Some(tenant) = self.hosts[host].next() {
            let waiting = self.clients[tenant.index()].send();
            let id = IoId(self.free.pop().unwrap_or(self.flights.len() as u64));
            let request = waiting.request;
            let kind = if request.is_read() { IoKind::Read } else { IoKind::Write };
            let io = Io {
                id,
                tenant,
                priority: request.priority,
                kind,
                length: request.length(),
                mark: Mark::default(),
            };
            let flight = Flight {
                io,
                generation: 0,
                queued: None,
                is_withdrawn: false,
                request,
                asked_at: waiting.asked_at,
                sent_at: self.now,
                arrived_at: self.now,
                submitted_at: self.now,
                completed_at: self.now,
                credit: Credit(0),
            };
            match self.flights.get_mut(id.0 as usize) {
                Some(place) => *place = Some(flight),
                None => self.flights.push(Some(flight)),
            }
            self.checkers.on_sent(id)?;
            let link = &mut self.hosts[host].to_switch;
            let at = link.send(&self.world.network, self.now, request.bytes_out(), &mut self.jitter);
            self.events.push(at, Event::Arrive(id));
        }
        Ok(())
    }

    /// Records the reports of the switch and its scheduler, until the workloads have stopped.
    fn look(&mut self) {
        self.busy.push((self.now, self.station.busy(self.now)));
        self.views.extend(self.station.policy().ssd_view(self.now).map(|view| (self.now, view)));
        let with = |(_, spec): &(usize, &TenantSpec)| spec.share.slo.is_some();
        for (index, _) in self.world.tenants.iter().enumerate().filter(with) {
            let tenant = TenantId(index as u32);
            let objective = self.station.policy().tenant_view(tenant).and_then(|view| view.objective);
            self.objectives.extend(objective.map(|view| (self.now, tenant, view)));
        }
        let next = self.now + self.world.interval;
        if next <= self.world.end() {
            self.events.push(next, Event::Look);
        }
    }

    fn on_arrived(&mut self, id: IoId) -> Result<(), Violation> {
        let io = self.flight(id).io;
        self.checkers.on_arrived(&io)?;
        let ticket = self.station.arrive(self.now, io);
        let flight = self.flights[id.0 as usize].as_mut().expect("it is on its way");
        (flight.arrived_at, flight.queued) = (self.now, Some((ticket, self.arrivals)));
        self.arrivals += 1;
        Ok(())
    }

    /// IOs that wait in the switch, in order of arrival.
    fn queued(&self) -> Vec<(Io, Ticket)> {
        let flights = self.flights.iter().flatten();
        let mut queued: Vec<(u64, Io, Ticket)> = flights
            .filter_map(|flight| flight.queued.map(|(ticket, arrival)| (arrival, flight.io, ticket)))
            .collect();
        queued.sort_unstable_by_key(|(arrival, ..)| *arrival);
        queued.into_iter().map(|(_, io, ticket)| (io, ticket)).collect()
    }

    fn disturb(&mut self, number: usize) -> Result<(), Violation> {
        let disturbances = self.disturbances;
        let (_, disturbance) = &disturbances[number];
        match disturbance {
            Disturbance::Replace(setup) => {
                let queued: Vec<Io> = self.queued().into_iter().map(|(io, _)| io).collect();
                let flights = &mut self.flights;
                self.station.replace(self.now, setup.build(), &queued, |io, ticket| {
                    let flight = flights[io.id.0 as usize].as_mut().expect("it waits");
                    flight.queued = flight.queued.map(|(_, arrival)| (ticket, arrival));
                });
                self.checkers.on_replaced(self.station.policy().order(), &queued);
                Ok(())
            }
            Disturbance::Withdraw(tenant) => {
                let own = self.queued().into_iter().filter(|(io, _)| io.tenant == *tenant);
                own.step_by(2).try_for_each(|(io, ticket)| self.withdraw(io, ticket))
            }
        }
    }

    fn withdraw(&mut self, io: Io, ticket: Ticket) -> Result<(), Violation> {
        let taken = self.station.withdraw(self.now, io.tenant, ticket);
        if taken.id != io.id {
            return Err(Violation::Altered { io: taken });
        }
        self.checkers.on_withdrawn(&io)?;
        let flight = self.flights[io.id.0 as usize].as_mut().expect("it waits");
        (flight.queued, flight.is_withdrawn, flight.completed_at) = (None, true, self.now);
        flight.credit = self.station.policy().credit(io.tenant);
        let host = self.clients[io.tenant.index()].place.host;
        let link = &mut self.hosts[host].from_switch;
        let at = link.send(&self.world.network, self.now, flight.request.bytes_back(), &mut self.jitter);
        self.events.push(at, Event::Answer(io.id));
        Ok(())
    }

    fn decide(&mut self) -> Result<(), Violation> {
        let mut turn = Turn::new();
        loop {
            match self.station.next(self.now, &mut turn) {
                Action::Submit(io) => {
                    let generation = self.station.generation();
                    let flight = self.flights.get_mut(io.id.0 as usize).and_then(Option::as_mut);
                    let arrived_as = flight.as_ref().map(|flight| flight.io);
                    self.checkers.on_submitted(&io, arrived_as.as_ref())?;
                    let flight = flight.expect("the checker knows the IO");
                    (flight.io, flight.generation, flight.queued) = (io, generation, None);
                    flight.submitted_at = self.now;
                    let Request { kind, slot, slots, .. } = flight.request;
                    if kind == CommandKind::Read {
                        self.station
                            .on_read_submitted(io.tenant, (u64::from(slot) + u64::from(slots)) * SLOT_BYTES);
                    }
                    self.fingerprint.add(&[self.now.0, io.id.0, 0]);
                    if self.auxiliary.is_some() {
                        self.pass_stage(io.id, kind, (slot, slots))?;
                    } else {
                        let command = Command { tag: io.id.0, kind, slot, slots };
                        let is_followed =
                            self.followed.as_ref().is_some_and(|followed| followed.tenant == io.tenant);
                        if is_followed && kind == CommandKind::Read && slots == 1 {
                            self.ssd.submit_followed(self.now, command);
                        } else {
                            self.ssd.submit(self.now, command);
                        }
                    }
                }
                Action::Read(read) => self.ssd.submit(self.now, command(read)),
                Action::WakeAt(at) if at <= self.now => {
                    return Err(Violation::LateWake { now: self.now, at });
                }
                Action::WakeAt(at) => {
                    self.wake_at = Some(at);
                    break;
                }
                Action::Idle => {
                    self.wake_at = None;
                    break;
                }
                // Nothing ends within a submission here, so the next turn is at once.
                Action::Pause => turn = Turn::new(),
            }
        }
        self.checkers.on_step(self.station.backlog())
    }

    /// Passes an IO that the scheduler has given out to the stage before the SSD.
    fn pass_stage(
        &mut self,
        id: IoId,
        kind: CommandKind,
        (slot, slots): (u32, u32),
    ) -> Result<(), Violation> {
        let op = if kind == CommandKind::Read { Op::Read } else { Op::Write { durable: false } };
        let (offset, length) = (u64::from(slot) * SLOT_BYTES, u64::from(slots) * SLOT_BYTES);
        let auxiliary = self.auxiliary.as_mut().expect("asked for only with one");
        auxiliary.stage.submit(self.now, HostIo { tag: id.0, op, offset, length });
        self.carry_out()
    }

    fn on_stored(&mut self, stored: Stored) -> Result<(), Violation> {
        let stage = &mut self.auxiliary.as_mut().expect("only a store stores").stage;
        match stored {
            Stored::Served(tag) => self.on_completed(IoId(tag), self.now)?,
            Stored::Kept(sequence) => stage.on_kept(self.now, sequence, true),
            Stored::Job(job) => stage.on_done(self.now, job, true),
        }
        self.carry_out()
    }

    /// Carries out the steps that the stage requests.
    fn carry_out(&mut self) -> Result<(), Violation> {
        loop {
            let auxiliary = self.auxiliary.as_mut().expect("asked for only with one");
            let Some(step) = auxiliary.stage.next_step() else { return Ok(()) };
            let length = |tag: u64| {
                let flight = self.flights[tag as usize].as_ref().expect("the IO is in progress");
                flight.request.length().get()
            };
            if let Some((at, stored)) = auxiliary.store(self.now, &step, length) {
                self.events.push(at, Event::Stored(stored));
                continue;
            }
            let command = match step {
                Step::Drive { tag, .. } => {
                    let Request { kind, slot, slots, .. } = self.flight(IoId(tag)).request;
                    Command { tag, kind, slot, slots }
                }
                Step::WriteBack { job, offset, length, .. } => {
                    let (slot, slots) = ((offset / SLOT_BYTES) as u32, (length / SLOT_BYTES) as u32);
                    Command { tag: OWN | job, kind: CommandKind::Write, slot, slots }
                }
                Step::FlushDrive { job } => {
                    Command { tag: OWN | job, kind: CommandKind::Flush, slot: 0, slots: 0 }
                }
                Step::Finish { tag, .. } => {
                    self.on_completed(IoId(tag), self.now)?;
                    continue;
                }
                Step::Forget { .. } => continue,
                Step::Serve { .. }
                | Step::Keep { .. }
                | Step::FlushStore { .. }
                | Step::WriteStore { .. } => {
                    unreachable!("the store's")
                }
            };
            self.ssd.submit(self.now, command);
        }
    }

    fn on_completed(&mut self, id: IoId, at: Instant) -> Result<(), Violation> {
        self.checkers.on_completed(id)?;
        self.fingerprint.add(&[at.0, id.0, 1]);
        let flight = self.flights[id.0 as usize].as_mut().expect("the checker knows the IO");
        let latency = at.since(flight.submitted_at);
        flight.completed_at = at;
        let outcome = Outcome::Success { latency };
        let done = Done { io: flight.io, outcome };
        flight.credit = self.station.on_done(self.now, flight.generation, done);
        let host = self.clients[flight.io.tenant.index()].place.host;
        let link = &mut self.hosts[host].from_switch;
        let answers_at = link.send(&self.world.network, at, flight.request.bytes_back(), &mut self.jitter);
        self.events.push(answers_at, Event::Answer(id));
        Ok(())
    }

    fn on_answered(&mut self, id: IoId) -> Result<(), Violation> {
        let flight = self.flights[id.0 as usize].take().expect("an answer is on the way once");
        self.free.push(id.0);
        self.checkers.on_answered(id, &flight.request)?;
        self.ios += 1;
        self.record(&flight);
        let tenant = flight.io.tenant;
        let client = &self.clients[tenant.index()];
        let place = client.place;
        let latency = self.now.since(flight.sent_at);
        self.hosts[place.host].on_answer(self.now, place.vm, flight.credit, latency);
        if matches!(client.spec.workload.arrival, Arrival::Closed { .. }) {
            self.on_ask(tenant)?;
        }
        self.send(place.host)
    }

    /// The hosts exchange their latencies and set their windows. There is no further period after the
    /// workloads have stopped: any window is large enough for the rest.
    fn on_period(&mut self) -> Result<(), Violation> {
        let ClientChoice::Parda { config, scope } = &self.world.clients else { return Ok(()) };
        let samples: Vec<LatencySample> = self.hosts.iter_mut().map(Host::publish).collect();
        let all = samples.iter().fold(LatencySample::default(), |sum, sample| sum.with(*sample));
        for (host, own) in samples.into_iter().enumerate() {
            let seen = match scope {
                LatencyScope::AllHosts => all,
                LatencyScope::OwnHost => own,
            };
            self.hosts[host].on_period(self.now, seen);
            self.send(host)?;
        }
        let next = self.now + config.period;
        if next <= self.world.end() {
            self.events.push(next, Event::Period);
        }
        Ok(())
    }

    fn record(&mut self, flight: &Flight) {
        let ssd = self.followed.as_mut().and_then(|followed| followed.in_ssd.remove(&flight.io.id.0));
        let begin = Instant::ZERO + self.world.warm_up;
        if flight.is_withdrawn || self.now < begin || self.now >= self.world.end() {
            return;
        }
        let tenant = &mut self.tenants[flight.io.tenant.index()];
        let point = &mut tenant.series[(self.now.since(begin).0 / self.world.interval.0) as usize];
        let (direction, tally) = if flight.request.is_read() {
            (&mut tenant.read, &mut point.read)
        } else {
            (&mut tenant.write, &mut point.write)
        };
        let device = flight.completed_at.since(flight.submitted_at);
        let network = self.now.since(flight.sent_at);
        if let (Some(followed), Some(ssd)) = (&mut self.followed, ssd) {
            let switch = flight.submitted_at.since(flight.arrived_at);
            followed.times.push(ReadTime { whole: network, switch, ssd });
        }
        tally.add(Tally {
            ios: 1,
            bytes: flight.io.length,
            device_latency: device,
            network_latency: network,
        });
        direction.ios += 1;
        direction.bytes += flight.io.length;
        direction.latency.record(device, network, self.now.since(flight.asked_at));
    }

    fn flight(&self, id: IoId) -> &Flight {
        self.flights[id.0 as usize].as_ref().expect("the IO is in progress")
    }
}

/// FNV-1a, 64 bits: the same on every machine, unlike the standard library's hasher.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Fnv {
    fn add(&mut self, words: &[u64]) {
        for word in words {
            self.write(&word.to_le_bytes());
        }
    }
}
