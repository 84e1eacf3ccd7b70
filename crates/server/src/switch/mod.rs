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
//! A scheduler may read for itself. Such a read is no tenant's IO, so it has no slot, no region (it changes nothing) and no part in promises.
//!
//! The scheduler runs on the device's clock; promises to tenants are in real time, and the switch gives the scheduler the ratio of the two
//! (`limits_are_in_real_time_whatever_the_devices_clock`). It can be exchanged while IOs are in flight ([`Station`]).
//!
//! Holds: every request is finished exactly once, under whatever changes of scheduler and withdrawals
//!        (`nothing_is_lost_when_the_scheduler_changes`, `a_withdrawn_io_never_reaches_the_device`);
//!        a withdrawal costs no more the more IOs there are (`a_withdrawal_costs_no_more_the_more_ios_there_are`);
//!        a run has an end whatever the device does (`a_run_ends_though_the_device_ends_everything_at_once`);
//!        no lock, no clock of its own.

mod copying;
mod erase;
mod regions;
mod slot;
mod step;
#[cfg(test)]
mod tests;
mod watch;
mod work;

pub(crate) use copying::Copying;
pub(crate) use slot::{IoSlot, State};
pub(crate) use work::{ByteRange, Failure, Halves, Spent, Work};

use crate::device::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, FileChange};
use crate::intrusive_list::{Links, List};
use crate::slab::{Key, Slab};
use crate::stats::{AuxiliaryStats, ExtraReadStats, FileStats};
use nvme::spec::Busy;
use reactor::{BufferPool, IoBuffer, Reactor, Token};
use regions::Regions;
use sched::{
    Action, Admitted, Backlog, BusyPeriod, Done, Io, IoId, Mark, Outcome, Policy, Reading, Refused, Share,
    Station, Turn,
};
use std::collections::VecDeque;
use std::io;
use step::After;
use units::{Bytes, Instant, Nanos, TenantId, earliest};
use watch::{Limit, Watch};

/// Scheduler, device and the slots of all IOs of the thread. `T` is the owner of an IO.
pub(crate) struct Switch<T> {
    /// The slots: also of IOs that have not arrived here yet, or are with another SSD.
    pub(crate) ios: Slab<IoSlot<T>>,
    /// The scheduler.
    station: Station,
    device: Box<dyn Device>,
    clock: DeviceClock,
    arrivals: u64,
    /// IOs that have arrived and not ended, and extra reads on the device.
    under_way: usize,
    extra_reads: ExtraReadStats,
    /// Dispatched IOs that wait for a buffer.
    waiting_for_memory: List,
    memory_links: Links,
    /// Dispatched IOs in order of dispatch.
    watch: Watch,
    /// Where the IOs on the device write.
    regions: Regions<(Key, DeviceIo)>,
    /// IOs that have ended and wait for their answer.
    ended: Vec<Key>,
    /// IOs that waited for a claim of another and may go to the device.
    freed: VecDeque<(Key, DeviceIo)>,
    /// Completions that were taken from the device and not looked at yet.
    done: VecDeque<DeviceDone>,
    /// Kept for its memory.
    finished: Vec<DeviceDone>,
    /// When the scheduler wants to be asked again, on the machine's clock.
    wake_at: Option<Instant>,
    /// When to look for memory again: a buffer that was sent by another thread comes back without a word.
    retry_at: Option<Instant>,
    /// Whether something has happened since the scheduler was asked last that may change its answer.
    wants_run: bool,
}

/// Longest time that dispatched IOs wait for memory before the next attempt.
const RETRY_AFTER: Nanos = Nanos::micros(500);

impl<T> Switch<T> {
    /// A switch with nothing in it.
    pub(crate) fn new(policy: Box<dyn Policy>, device: Box<dyn Device>) -> Switch<T> {
        let clock = device.clock();
        Switch {
            ios: Slab::new(),
            // A verify may be longer than any buffer, and an extra read like it is not possible. Where such reads go need not be secret.
            station: Station::new(policy, 0, Bytes(BufferPool::LENGTH_MAX as u64), clock.second()),
            device,
            clock,
            arrivals: 0,
            under_way: 0,
            extra_reads: ExtraReadStats::default(),
            waiting_for_memory: List::default(),
            memory_links: Links::default(),
            watch: Watch::default(),
            regions: Regions::new(),
            ended: Vec::new(),
            freed: VecDeque::new(),
            done: VecDeque::new(),
            finished: Vec::new(),
            wake_at: None,
            retry_at: None,
            wants_run: false,
        }
    }

    /// The scheduler, to look at.
    pub(crate) fn policy(&self) -> &dyn Policy {
        self.station.policy()
    }

    /// IOs that wait in the scheduler, and those on the device, whichever scheduler gave them out.
    pub(crate) fn backlog(&self) -> Backlog {
        self.station.backlog()
    }

    /// The tenants that are promised something of latency.
    pub(crate) fn objectives(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.station.shares().iter().filter(|(_, share)| share.slo.is_some()).map(|(tenant, _)| *tenant)
    }

    /// The device's clock.
    pub(crate) fn clock(&self) -> DeviceClock {
        self.clock
    }

    /// An IO arrives at the scheduler. It may be dispatched by the next [`Switch::run`].
    pub(crate) fn arrive(&mut self, now: Instant, key: Key) {
        self.wants_run = true;
        self.under_way += 1;
        let slot = self.ios.get_mut(key).expect("an IO that arrives has not ended");
        let (kind, length) = slot.progress.price(&slot.work, &*self.device);
        slot.io = Io { id: IoId(key.to_bits()), kind, length, ..slot.io };
        slot.arrived = now;
        slot.sequence = self.arrivals;
        self.arrivals += 1;
        slot.state = State::Queued(self.station.arrive(self.clock.to_device(now), slot.io));
    }

    /// A disk operation of the reactor has ended.
    pub(crate) fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        self.device.on_disk(now, file, tag, result, buffer);
    }

    /// Runs at most [`Turn::STEPS_MAX`] steps at `now`: collects from the device, and dispatches. Read buffers
    /// come from `pool`. [`Switch::take_ended`] returns the IOs that ended; [`Switch::wants_run`] says whether steps are left.
    pub(crate) fn run(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool) {
        self.device.poll(now, reactor);
        let mut turn = Turn::new();
        loop {
            let before = turn.left();
            self.submit_waiting(now, reactor, pool, &mut turn);
            self.collect(now, reactor, pool, &mut turn);
            self.give_out(now, reactor, pool, &mut turn);
            if turn.left() == before || turn.left() == 0 {
                break;
            }
        }
        self.wants_run = turn.left() == 0;
        self.retry_at = (!self.waiting_for_memory.is_empty()).then(|| now + RETRY_AFTER);
    }

    /// Submits what waited for a buffer or for another write and may go now.
    fn submit_waiting(
        &mut self,
        now: Instant,
        reactor: &mut Reactor,
        pool: &mut BufferPool,
        turn: &mut Turn,
    ) {
        while turn.left() > 0
            && let Some((_, io)) = self.freed.pop_front()
        {
            turn.step();
            self.device.submit(now, reactor, io);
        }
        while turn.left() > 0
            && let Some(key) = self.memory_links.first(&self.waiting_for_memory)
            && self.try_step(now, reactor, pool, key)
        {
            turn.step();
            self.memory_links.remove(&mut self.waiting_for_memory, key);
        }
    }

    /// Takes completions from the device.
    fn collect(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, turn: &mut Turn) {
        if self.done.is_empty() {
            self.device.take_finished(&mut self.finished);
            self.done.extend(self.finished.drain(..));
        }
        while turn.left() > 0
            && let Some(done) = self.done.pop_front()
        {
            turn.step();
            if Station::is_extra(done.tag) {
                self.on_extra_read(now, pool, done);
            } else {
                self.on_done(now, reactor, pool, done);
            }
        }
    }

    /// Asks the scheduler who goes next, until it has no answer.
    #[inline]
    fn give_out(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, turn: &mut Turn) {
        loop {
            match self.station.next(self.clock.to_device(now), turn) {
                Action::Submit(io) => self.dispatch(now, reactor, pool, io),
                Action::Read(read) => self.read_extra(now, reactor, pool, read),
                Action::WakeAt(at) => {
                    self.wake_at = Some(self.clock.to_real(at));
                    break;
                }
                Action::Idle => {
                    self.wake_at = None;
                    break;
                }
                Action::Pause => break,
            }
        }
    }

    /// Swaps `keys`, which is empty, for those of the IOs that have ended. Their slots are the caller's to free.
    pub(crate) fn take_ended(&mut self, keys: &mut Vec<Key>) {
        std::mem::swap(&mut self.ended, keys);
    }

    /// Whether [`Switch::run`] has something to do at once.
    pub(crate) fn wants_run(&self) -> bool {
        self.wants_run
    }

    /// Whether [`Switch::run`] may have something to do at `now`.
    pub(crate) fn has_work(&self, now: Instant) -> bool {
        self.wants_run || self.under_way > 0 || self.next_wake().is_some_and(|at| at <= now)
    }

    /// When [`Switch::run`] next has something to do by itself.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        earliest([self.wake_at, self.device.next_wake(), self.retry_at])
    }

    /// Whether dispatched IOs wait for a buffer.
    pub(crate) fn waits_for_memory(&self) -> bool {
        !self.waiting_for_memory.is_empty()
    }

    /// Whether there is any IO, queued or on the device.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way == 0
    }

    /// IOs that have been on the device for `limit` or longer, and the time since the oldest of all was given to it.
    pub(crate) fn hung(&mut self, now: Instant, limit: Nanos) -> (usize, Nanos) {
        self.watch.look(Limit::Hang, |at| now.saturating_since(at) >= limit);
        let longest = self.watch.oldest().map_or(Nanos::ZERO, |at| now.saturating_since(at));
        (self.watch.late(Limit::Hang), longest)
    }

    /// Reports the tenants of IOs that have been on the device for `patience` of the device's time or longer to the scheduler.
    pub(crate) fn note_overdue(&mut self, now: Instant, patience: Nanos) {
        let (clock, device_now) = (self.clock, self.clock.to_device(now));
        self.watch.look(Limit::Patience, |at| device_now.saturating_since(clock.to_device(at)) >= patience);
        for tenant in self.watch.overdue() {
            self.wants_run = true;
            self.station.on_overdue(device_now, tenant);
        }
    }

    /// The files of a directory change.
    pub(crate) fn change_files(&mut self, now: Instant, reactor: &mut Reactor, change: FileChange) {
        self.wants_run = true;
        self.device.change_files(now, reactor, change);
    }

    /// The end is near: the next flush leaves nothing in an auxiliary store.
    pub(crate) fn settle(&mut self) {
        self.device.settle();
    }

    /// The flush after [`Switch::settle`] has succeeded.
    pub(crate) fn on_settled(&mut self) {
        self.device.on_settled();
    }

    /// The busy period of the SSD, if it is slow now: on the device's clock.
    pub(crate) fn busy(&self, now: Instant) -> Option<BusyPeriod> {
        self.station.busy(self.clock.to_device(now))
    }

    /// The device's auxiliary store, if it has one.
    pub(crate) fn auxiliary(&self) -> Option<AuxiliaryStats> {
        self.device.auxiliary()
    }

    /// The device's files, if it is a directory.
    pub(crate) fn files(&self) -> Option<FileStats> {
        self.device.files()
    }

    /// Counters of the scheduler's own reads.
    pub(crate) fn extra_reads(&self) -> ExtraReadStats {
        self.extra_reads
    }

    /// Takes back an IO that has not reached the device. Returns true if it has ended by that, which [`Switch::take_ended`] does not return
    /// again. An IO that has reached the device ends as usual.
    ///
    /// # Panics
    /// If the IO has ended, or never arrived.
    pub(crate) fn withdraw(&mut self, now: Instant, key: Key) -> bool {
        self.wants_run = true;
        let slot = self.ios.get_mut(key).expect("an IO that is withdrawn has not ended");
        match slot.state {
            State::Queued(ticket) => {
                let io = self.station.withdraw(self.clock.to_device(now), slot.io.tenant, ticket);
                assert_eq!(io.id, IoId(key.to_bits()), "the scheduler gives back another IO");
            }
            State::OnDevice => {
                if !self.memory_links.remove(&mut self.waiting_for_memory, key) {
                    return false;
                }
            }
            state => panic!("an IO that is {state:?} is not the scheduler's to give back"),
        }
        slot.progress.result = Err(Failure::Withdrawn);
        self.end(now, key);
        true
    }

    /// Stops a multi-step IO on the device after its current step; it then ends as withdrawn. (One that cannot be
    /// cut there continues.)
    pub(crate) fn stop(&mut self, key: Key) {
        self.ios.get_mut(key).expect("an IO that is stopped has not ended").is_withdrawn = true;
    }

    /// Forgets a tenant that was removed. Its IOs must have ended.
    pub(crate) fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.station.forget(self.clock.to_device(now), tenant);
    }

    /// Sets a tenant's share. Its rates and objective are in real time, independent of the device's clock.
    ///
    /// # Errors
    /// The scheduler sets the tenant's objective aside, for this reason (in real time, too).
    pub(crate) fn set_share(
        &mut self,
        now: Instant,
        tenant: TenantId,
        share: Share,
    ) -> Result<Admitted, Refused> {
        self.wants_run = true;
        self.station.set_share(self.clock.to_device(now), tenant, share)
    }

    /// Replaces the scheduler. Queued IOs move over in the order in which they arrived. Returns the answers of the new one
    /// about objectives.
    pub(crate) fn replace_policy(
        &mut self,
        now: Instant,
        policy: Box<dyn Policy>,
    ) -> Vec<(TenantId, Result<Admitted, Refused>)> {
        self.wants_run = true;
        let ios = &mut self.ios;
        let queued = ios.iter().filter(|(_, slot)| matches!(slot.state, State::Queued(_)));
        let mut queued: Vec<(u64, Io)> = queued.map(|(_, slot)| (slot.sequence, slot.io)).collect();
        queued.sort_unstable_by_key(|(sequence, _)| *sequence);
        let queued: Vec<Io> = queued.into_iter().map(|(_, io)| io).collect();
        self.station.replace(self.clock.to_device(now), policy, &queued, |io, ticket| {
            let moved = ios.get_mut(Key::from_bits(io.id.0)).expect("a queued IO has its slot");
            moved.state = State::Queued(ticket);
        })
    }

    /// The scheduler has given an IO out.
    #[inline]
    fn dispatch(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, io: Io) {
        let generation = self.station.generation();
        let key = Key::from_bits(io.id.0);
        let slot = self.ios.get_mut(key).expect("the scheduler gives out what it was given");
        (slot.io, slot.generation, slot.state) = (io, generation, State::OnDevice);
        // For the scheduler this was a read (`Progress::price`).
        if let Work::Read(range) | Work::Verify(range) | Work::Compare { range, .. } = &slot.work {
            self.station.on_read_submitted(io.tenant, range.offset + range.length);
        }
        self.watch.on_submit(now, key, io.tenant);
        self.step(now, reactor, pool, key);
    }

    /// The scheduler wants a read of its own. Its buffer comes from the pool; if there is none, or an IO waits for one, it is not done.
    #[cold]
    fn read_extra(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, read: Reading) {
        let Reading { tag, offset, length: Bytes(length) } = read;
        let is_possible = self.waiting_for_memory.is_empty();
        let Some(buffer) = is_possible.then(|| step::take(pool, length)).flatten() else {
            return self.station.on_read(self.clock.to_device(now), tag, Outcome::Failed);
        };
        self.under_way += 1;
        self.extra_reads.ios += 1;
        self.extra_reads.bytes += length;
        self.device.submit(now, reactor, DeviceIo { tag, offset, length, op: DeviceOp::Read(buffer) });
    }

    /// An extra read has ended.
    #[cold]
    fn on_extra_read(&mut self, now: Instant, pool: &mut BufferPool, done: DeviceDone) {
        self.under_way -= 1;
        done.buffer.into_iter().for_each(|buffer| pool.give(buffer));
        let latency = done.latency;
        let outcome = done.result.map_or(Outcome::Failed, |()| Outcome::Success { latency });
        self.station.on_read(self.clock.to_device(now), done.tag, outcome);
    }

    /// Starts the next step of a dispatched IO, behind those that wait for memory if it needs some itself.
    #[inline]
    fn step(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, key: Key) {
        let waits = !self.waiting_for_memory.is_empty()
            && self.ios.get(key).is_some_and(|slot| slot.progress.needs_memory(&slot.work));
        if waits || !self.try_step(now, reactor, pool, key) {
            self.memory_links.push(&mut self.waiting_for_memory, key);
        }
    }

    /// Starts the next step of a dispatched IO; false if it needs memory and there is none.
    #[inline]
    fn try_step(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, key: Key) -> bool {
        let slot = self.ios.get_mut(key).expect("a dispatched IO has its slot");
        let Some(io) = slot.progress.next(&mut slot.work, key.to_bits(), pool) else {
            return false;
        };
        if !slot.has_entered && slot.work.writes() {
            slot.has_entered = true;
            if let Some((_, io)) = self.regions.enter((key, io), slot.work.footprint()) {
                self.device.submit(now, reactor, io);
            }
            return true;
        }
        self.device.submit(now, reactor, io);
        true
    }

    /// A step has ended: the next one, or the end of the IO.
    #[inline]
    fn on_done(&mut self, now: Instant, reactor: &mut Reactor, pool: &mut BufferPool, done: DeviceDone) {
        let key = Key::from_bits(done.tag);
        let slot = self.ios.get_mut(key).expect("the device finishes what it was given");
        let left = slot.has_entered.then(|| slot.work.footprint());
        let after = slot.progress.on_done(&mut slot.work, done, pool);
        let stops = slot.is_withdrawn;
        if after == After::Step && !(stops && slot.work.may_stop()) {
            return self.step(now, reactor, pool, key);
        }
        if after != After::End && stops {
            slot.progress.result = Err(Failure::Withdrawn);
        }
        if let Some(footprint) = left {
            slot.has_entered = false;
            self.regions.leave(footprint, &mut self.freed);
        }
        if after == After::Piece && !stops {
            return self.queue_again(now, key);
        }
        self.end(now, key);
        self.ended.push(key);
    }

    /// A piece of an IO is done: the scheduler decides when the next one is.
    fn queue_again(&mut self, now: Instant, key: Key) {
        let device_now = self.clock.to_device(now);
        let slot = self.ios.get_mut(key).expect("it has not ended");
        let io = slot.io;
        self.watch.on_end(key);
        let outcome = Outcome::Success { latency: std::mem::take(&mut slot.progress.latency) };
        let (generation, done) = (slot.generation, Done { io, outcome });
        let (kind, length) = slot.progress.price(&slot.work, &*self.device);
        slot.io = Io { kind, length, mark: Mark::default(), ..io };
        let next = slot.io;
        self.station.on_done(device_now, generation, done);
        slot.state = State::Queued(self.station.arrive(device_now, next));
    }

    /// Finishes the accounting of an IO whose result is known.
    fn end(&mut self, now: Instant, key: Key) {
        let device_now = self.clock.to_device(now);
        self.under_way -= 1;
        let slot = self.ios.get_mut(key).expect("an IO ends once");
        let was_given_out = slot.state == State::OnDevice;
        slot.state = State::Ended;
        if !was_given_out {
            slot.credit = self.station.policy().credit(slot.io.tenant);
            return;
        }
        self.watch.on_end(key);
        let latency = slot.progress.latency;
        let outcome = if slot.was_served() { Outcome::Success { latency } } else { Outcome::Failed };
        slot.credit = self.station.on_done(device_now, slot.generation, Done { io: slot.io, outcome });
        if let Some(period) = self.station.busy(device_now) {
            slot.busy = told(period, self.clock);
        }
    }
}

/// The announcement of a busy period in completions, in real time.
fn told(period: BusyPeriod, clock: DeviceClock) -> u32 {
    let BusyPeriod { reads, writes, for_about, .. } = period;
    Busy { reads, writes, rest: for_about.map(|rest| clock.to_real_span(rest)) }.to_dword()
}
