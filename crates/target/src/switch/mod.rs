//! One SSD's switch: its scheduler, its device, and the IOs between them.
//!
//! ```text
//!   arrive(request) ──► Policy ──next() = Submit──► steps ──► Device
//!                         ▲                                     │
//!   finished ◄── credit ──┴──────────── done, with latency ◄────┘
//! ```
//!
//! An IO is one or more *steps* on the device: a deallocate is one step per range, a verify one per 128 KiB, a forced write of
//! zeros ends with a flush, a compare-and-write reads and then writes. Steps of one IO follow each other; a copy queues up
//! again after each of its pieces (`copying`), and so does what erases much (`erase`). No other write comes between the steps of a compare-and-write (`regions`).
//! A read needs a buffer only from its dispatch on, so IOs that
//! wait in the scheduler hold no memory; a dispatched read that finds the pool dry waits for the next buffer that comes back.
//!
//! The scheduler runs on the device's clock; what a tenant is promised is in real time, and the scheduler is told how the two compare
//! (`limits_are_in_real_time_whatever_the_devices_clock`). It can be exchanged while IOs are in flight: what is queued moves over in order
//! of arrival, what is in flight ends in the books of the scheduler that submitted it.
//!
//! Holds: every request is finished exactly once, under whatever changes of scheduler and withdrawals
//!        (`nothing_is_lost_when_the_scheduler_changes`, `a_withdrawn_io_never_reaches_the_device`);
//!        a withdrawal costs no more the more IOs there are (`a_withdrawal_costs_no_more_the_more_ios_there_are`);
//!        no lock, no clock of its own.

mod copying;
mod erase;
mod regions;
mod request;
mod step;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use copying::Copying;
pub(crate) use request::{ByteRange, Failure, Finished, Halves, Request, Spent, Work};

use crate::chain::{Chain, Chains};
use crate::device::{Device, DeviceClock, DeviceDone, DeviceIo};
use crate::slab::{Key, Slab};
use reactor::{BufferPool, IoBuffer, Reactor};
use regions::{Footprint, Regions};
use sched::{Done, Io, IoId, Mark, Next, Outcome, Policy, Refused, Share, Ticket};
use std::io;
use step::{After, Progress};
use units::{Instant, Nanos, TenantId};
use watch::{Limit, Watch};

/// An IO in the switch's care.
struct Pending<T> {
    request: Request<T>,
    /// When it arrived, on the machine's clock.
    arrived: Instant,
    /// Its place in the order of arrivals.
    sequence: u64,
    /// Which scheduler has it: the present one, or one that was retired.
    generation: u32,
    /// As the scheduler gave it out; `None` while it is queued.
    submitted: Option<Io>,
    /// Its place in the scheduler's queue, until then.
    ticket: Ticket,
    /// It was taken back while a step of it was on the device: that is its last.
    is_withdrawn: bool,
    /// It has entered its regions: it is on the device, or waits there for a claim.
    has_entered: bool,
    progress: Progress,
}

/// A scheduler and its place in the order of schedulers.
struct Generation {
    number: u32,
    policy: Box<dyn Policy>,
}

/// What the switch reports about an IO that has ended well, for statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Whose it was.
    pub(crate) tenant: TenantId,
    /// As the scheduler saw it.
    pub(crate) io: Io,
    /// On the device, on the device's clock.
    pub(crate) device: Nanos,
    /// How late it was known to be over, on the device's clock.
    pub(crate) late: Nanos,
    /// In the switch and on the device, on the machine's clock.
    pub(crate) total: Nanos,
}

/// Scheduler, device and the IOs between them. `T` names an IO to the caller.
pub(crate) struct Switch<T> {
    present: Generation,
    /// Schedulers that still have IOs in flight.
    retired: Vec<Generation>,
    device: Box<dyn Device>,
    clock: DeviceClock,
    pending: Slab<Pending<T>>,
    arrivals: u64,
    /// Dispatched IOs that wait for a buffer.
    starved: Chain,
    starved_links: Chains,
    /// Dispatched IOs in order of dispatch.
    watch: Watch,
    /// Where the IOs on the device write.
    regions: Regions<(Key, DeviceIo)>,
    /// Kept for its memory.
    free: Vec<(Key, DeviceIo)>,
    /// Shares other than equal, by tenant.
    shares: Vec<(TenantId, Share)>,
    /// When the scheduler wants to be asked again, on the machine's clock.
    wake_at: Option<Instant>,
    /// When to look for memory again: a buffer that was sent by another pipeline comes back without a word.
    retry_at: Option<Instant>,
    /// Whether something has happened since the scheduler was asked last that may change its answer.
    wants_run: bool,
}

/// How long dispatched IOs wait for memory before they look for it unasked.
const RETRY_AFTER: Nanos = Nanos::micros(500);

impl<T: Copy> Switch<T> {
    /// A switch with nothing in it.
    pub(crate) fn new(policy: Box<dyn Policy>, device: Box<dyn Device>) -> Switch<T> {
        let clock = device.clock();
        Switch {
            present: Generation { number: 0, policy },
            retired: Vec::new(),
            device,
            clock,
            pending: Slab::new(),
            arrivals: 0,
            starved: Chain::default(),
            starved_links: Chains::default(),
            watch: Watch::default(),
            regions: Regions::new(),
            free: Vec::new(),
            shares: Vec::new(),
            wake_at: None,
            retry_at: None,
            wants_run: false,
        }
    }

    /// The scheduler, to look at.
    pub(crate) fn policy(&self) -> &dyn Policy {
        &*self.present.policy
    }

    /// The device's clock.
    pub(crate) fn clock(&self) -> DeviceClock {
        self.clock
    }

    /// An IO has arrived. It may be dispatched by the next [`Switch::run`]. Answers its name until it has ended.
    pub(crate) fn arrive(&mut self, now: Instant, request: Request<T>) -> Key {
        self.wants_run = true;
        let mut progress = Progress::default();
        let (kind, length) = progress.price(&request.work, &*self.device);
        let (tenant, priority) = (request.tenant, request.priority);
        let sequence = self.arrivals;
        self.arrivals += 1;
        let key = self.pending.insert(Pending {
            request,
            arrived: now,
            sequence,
            generation: self.present.number,
            submitted: None,
            ticket: Ticket(0),
            is_withdrawn: false,
            has_entered: false,
            progress,
        });
        let io = Io { id: IoId(key.to_bits()), tenant, priority, kind, length, mark: Mark::default() };
        let ticket = self.present.policy.on_arrival(self.clock.to_device(now), io);
        self.pending.get_mut(key).expect("just inserted").ticket = ticket;
        key
    }

    /// A disk operation of the reactor has ended.
    pub(crate) fn on_disk(
        &mut self,
        now: Instant,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        self.device.on_disk(now, tag, result, buffer);
    }

    /// Does all that can be done at `now`: collects from the device, dispatches, and tells what has ended. Read buffers come
    /// from `pool`.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        reactor: &mut Reactor,
        pool: &mut BufferPool,
        mut on_finished: impl FnMut(Finished<T>, Option<Measured>),
    ) {
        self.device.poll(now, reactor);
        loop {
            let mut moved = false;
            while let Some(key) = self.starved_links.first(&self.starved)
                && self.try_step(now, reactor, pool, key)
            {
                self.starved_links.remove(&mut self.starved, key);
            }
            while let Some(done) = self.device.finished() {
                moved = true;
                self.on_done(now, reactor, pool, done, &mut on_finished);
            }
            loop {
                match self.present.policy.next(self.clock.to_device(now)) {
                    Next::Submit(io) => {
                        moved = true;
                        let key = Key::from_bits(io.id.0);
                        let pending = self.pending.get_mut(key);
                        let pending = pending.expect("the scheduler gives out what it was given");
                        pending.submitted = Some(io);
                        self.watch.on_submit(now, key, io.tenant);
                        self.step(now, reactor, pool, key);
                    }
                    Next::WakeAt(at) => {
                        self.wake_at = Some(self.clock.to_real(at));
                        break;
                    }
                    Next::Idle => {
                        self.wake_at = None;
                        break;
                    }
                }
            }
            if !moved {
                break;
            }
        }
        self.wants_run = false;
        self.retry_at = (!self.starved.is_empty()).then(|| now + RETRY_AFTER);
    }

    /// Whether [`Switch::run`] has something to do at once.
    pub(crate) fn wants_run(&self) -> bool {
        self.wants_run
    }

    /// When [`Switch::run`] next has something to do by itself.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        [self.wake_at, self.device.next_wake(), self.retry_at].into_iter().flatten().min()
    }

    /// Whether there is any IO, queued or on the device.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.len() == 0
    }

    /// IOs that have been on the device for `limit` or longer, and the time since the oldest of all was given to it.
    pub(crate) fn hung(&mut self, now: Instant, limit: Nanos) -> (usize, Nanos) {
        self.watch.look(Limit::Hang, |at| now.saturating_since(at) >= limit);
        let longest = self.watch.oldest().map_or(Nanos::ZERO, |at| now.saturating_since(at));
        (self.watch.late(Limit::Hang), longest)
    }

    /// Tells the scheduler whose IOs have been on the device for `patience` of the device's time or longer.
    pub(crate) fn note_overdue(&mut self, now: Instant, patience: Nanos) {
        let (clock, device_now) = (self.clock, self.clock.to_device(now));
        self.watch.look(Limit::Patience, |at| device_now.saturating_since(clock.to_device(at)) >= patience);
        for tenant in self.watch.overdue() {
            self.wants_run = true;
            self.present.policy.on_overdue(device_now, tenant);
        }
    }

    /// Takes back an IO that has not reached the device; one that has ends by itself.
    ///
    /// # Panics
    /// If the IO has ended.
    pub(crate) fn withdraw(&mut self, now: Instant, key: Key) -> Option<Finished<T>> {
        self.wants_run = true;
        let pending = self.pending.get_mut(key).expect("an IO that is withdrawn has not ended");
        if pending.submitted.is_none() {
            let (tenant, ticket) = (pending.request.tenant, pending.ticket);
            let io = self.present.policy.withdraw_one(self.clock.to_device(now), tenant, ticket);
            assert_eq!(io.id, IoId(key.to_bits()), "the scheduler gives back another IO");
        } else if !self.starved_links.remove(&mut self.starved, key) {
            return None;
        }
        Some(self.end(now, key, Err(Failure::Withdrawn), None).0)
    }

    /// Has an IO on the device end with the step that is there now, as taken back, if there would be another. (One that cannot be
    /// cut there goes on.)
    pub(crate) fn stop(&mut self, key: Key) {
        self.pending.get_mut(key).expect("an IO that is stopped has not ended").is_withdrawn = true;
    }

    /// Forgets a tenant that has gone for good. Its IOs must have ended.
    pub(crate) fn forget(&mut self, now: Instant, tenant: TenantId) {
        let now = self.clock.to_device(now);
        self.shares.retain(|(other, _)| *other != tenant);
        self.present.policy.forget(now, tenant);
        self.retired.iter_mut().for_each(|retired| retired.policy.forget(now, tenant));
    }

    /// Sets a tenant's share, whose rates and objective are in real time whatever the device's clock.
    ///
    /// # Errors
    /// The scheduler sets the tenant's objective aside, for this reason (in real time, too).
    pub(crate) fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) -> Result<(), Refused> {
        self.wants_run = true;
        let share = Share { second: self.clock.second(), ..share };
        self.shares.retain(|(other, _)| *other != tenant);
        if share != (Share { second: share.second, ..Share::EQUAL }) {
            self.shares.push((tenant, share));
        }
        let admission = self.present.policy.admission(tenant, &share);
        self.present.policy.set_share(self.clock.to_device(now), tenant, share);
        admission
    }

    /// Puts another scheduler in charge. Queued IOs move over in the order in which they arrived. Answers whose objectives the
    /// new one sets aside.
    pub(crate) fn replace_policy(
        &mut self,
        now: Instant,
        policy: Box<dyn Policy>,
    ) -> Vec<(TenantId, Refused)> {
        let device_now = self.clock.to_device(now);
        self.wants_run = true;
        let number = self.present.number + 1;
        let mut old = std::mem::replace(&mut self.present, Generation { number, policy });
        let mut refusals = Vec::new();
        for &(tenant, share) in &self.shares {
            refusals
                .extend(self.present.policy.admission(tenant, &share).err().map(|refused| (tenant, refused)));
            self.present.policy.set_share(device_now, tenant, share);
        }
        let queued = self.pending.iter().filter(|(_, io)| io.submitted.is_none());
        let mut tenants: Vec<TenantId> = queued.map(|(_, io)| io.request.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        let mut moving = Vec::new();
        for tenant in tenants {
            old.policy.withdraw(device_now, tenant, &mut |io| {
                moving.push(*io);
                true
            });
        }
        let pending = &mut self.pending;
        moving.sort_by_key(|io| pending.get(Key::from_bits(io.id.0)).map(|io| io.sequence));
        for io in moving {
            let ticket = self.present.policy.on_arrival(device_now, Io { mark: Mark::default(), ..io });
            let moved = pending.get_mut(Key::from_bits(io.id.0)).expect("queued IOs are pending");
            (moved.generation, moved.ticket) = (number, ticket);
        }
        if old.policy.backlog().in_flight > 0 {
            self.retired.push(old);
        }
        refusals
    }

    /// Starts the next step of a dispatched IO, behind those that wait for memory if it needs some itself.
    fn step(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, key: Key) {
        let waits = !self.starved.is_empty()
            && self
                .pending
                .get(key)
                .is_some_and(|pending| pending.progress.needs_memory(&pending.request.work));
        if waits || !self.try_step(now, reactor, pool, key) {
            self.starved_links.push(&mut self.starved, key);
        }
    }

    /// Starts the next step of a dispatched IO; false if it needs memory and there is none.
    fn try_step(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, key: Key) -> bool {
        let pending = self.pending.get_mut(key).expect("a dispatched IO is pending");
        let Some(io) = pending.progress.next(&mut pending.request.work, key.to_bits(), pool) else {
            return false;
        };
        let footprint = pending.request.work.footprint();
        if pending.has_entered || footprint == Footprint::Nothing {
            self.device.submit(now, reactor, io);
            return true;
        }
        pending.has_entered = true;
        if let Some((_, io)) = self.regions.enter((key, io), footprint) {
            self.device.submit(now, reactor, io);
        }
        true
    }

    /// A step has ended: the next one, or the end of the IO.
    fn on_done(
        &mut self,
        now: Instant,
        reactor: &mut Reactor,
        pool: &mut BufferPool,
        done: DeviceDone,
        on_finished: &mut impl FnMut(Finished<T>, Option<Measured>),
    ) {
        let key = Key::from_bits(done.tag);
        let pending = self.pending.get_mut(key).expect("the device finishes what it was given");
        let left = pending.has_entered.then(|| pending.request.work.footprint());
        let after = pending.progress.on_done(&mut pending.request.work, done, pool);
        let stops = pending.is_withdrawn;
        if matches!(after, After::Step) && !(stops && pending.request.work.may_stop()) {
            return self.step(now, reactor, pool, key);
        }
        if let Some(footprint) = left {
            pending.has_entered = false;
            self.leave(now, reactor, footprint);
        }
        match after {
            After::Piece if !stops => self.queue_again(now, key),
            After::Step | After::Piece => {
                let (finished, measured) = self.end(now, key, Err(Failure::Withdrawn), None);
                on_finished(finished, measured);
            }
            After::End((result, read)) => {
                let (finished, measured) = self.end(now, key, result, read);
                on_finished(finished, measured);
            }
        }
    }

    /// A write is over: those that waited for it go to the device.
    #[inline]
    fn leave(&mut self, now: Instant, reactor: &mut Reactor, footprint: Footprint) {
        self.regions.leave(footprint, &mut self.free);
        for (_, io) in self.free.drain(..) {
            self.device.submit(now, reactor, io);
        }
    }

    /// A piece of an IO is done: the scheduler decides when the next one is.
    fn queue_again(&mut self, now: Instant, key: Key) {
        let device_now = self.clock.to_device(now);
        let pending = self.pending.get_mut(key).expect("it has not ended");
        let io = pending.submitted.take().expect("it was given out");
        self.watch.on_end(key);
        let outcome = Outcome::Success { latency: std::mem::take(&mut pending.progress.latency) };
        let generation = std::mem::replace(&mut pending.generation, self.present.number);
        let (kind, length) = pending.progress.price(&pending.request.work, &*self.device);
        let next = Io { kind, length, mark: Mark::default(), ..io };
        let done = Done { io, outcome };
        if generation == self.present.number {
            self.present.policy.on_completion(device_now, done);
        } else {
            self.end_in_retired(device_now, generation, done);
        }
        let ticket = self.present.policy.on_arrival(device_now, next);
        self.pending.get_mut(key).expect("it has not ended").ticket = ticket;
    }

    /// Closes the books on an IO.
    fn end(
        &mut self,
        now: Instant,
        key: Key,
        result: Result<(), Failure>,
        read: Option<IoBuffer>,
    ) -> (Finished<T>, Option<Measured>) {
        let pending = self.pending.remove(key).expect("an IO ends once");
        let Pending { request, arrived, generation, submitted, progress, .. } = pending;
        let Request { tag, tenant, work, .. } = request;
        let device_now = self.clock.to_device(now);
        let mut credit = None;
        let mut measured = None;
        if let Some(io) = submitted {
            self.watch.on_end(key);
            // A comparison that found a difference was a read like any other.
            let was_served = matches!(result, Ok(()) | Err(Failure::Miscompare));
            let outcome =
                if was_served { Outcome::Success { latency: progress.latency } } else { Outcome::Failed };
            let done = Done { io, outcome };
            if generation == self.present.number {
                credit = Some(self.present.policy.on_completion(device_now, done));
            } else {
                self.end_in_retired(device_now, generation, done);
            }
            let total = now.saturating_since(arrived);
            let (device, late) = (progress.latency, progress.late);
            let io = match &work {
                Work::Copy(copying) => Io { length: copying.charged(), ..io },
                _ => io,
            };
            measured = was_served.then_some(Measured { tenant, io, device, late, total });
        }
        let spent = work.into_buffers();
        let credit = credit.unwrap_or_else(|| self.present.policy.credit(tenant));
        (Finished { tag, tenant, result, read, spent, credit }, measured)
    }

    fn end_in_retired(&mut self, now: Instant, generation: u32, done: Done) {
        let index = self.retired.iter().position(|retired| retired.number == generation);
        let index = index.expect("a scheduler is kept until its last IO has ended");
        let policy = &mut self.retired[index].policy;
        policy.on_completion(now, done);
        if policy.backlog().in_flight == 0 {
            self.retired.swap_remove(index);
        }
    }
}
