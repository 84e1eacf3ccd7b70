//! The driver of one SSD's scheduler: the loop around a [`Policy`], in one place.
//!
//! ```text
//!   arrive ──► present scheduler ──next──► Submit │ Read │ WakeAt │ Idle │ Pause
//!                   ▲    │ replace: queued IOs move over, those on the SSD stay with who gave them out
//!   on_done ────────┤    ▼
//!                   └─ retired schedulers
//! ```
//!
//! It holds the scheduler and those that were replaced while they had IOs on the SSD, the extra reads, the shares of
//! the tenants, and whether the SSD is slow. It has no device, no buffers and no clock: the switch, the simulators,
//! instruction counts and fuzzers add these. Times are those of the clock that the scheduler runs on.
//!
//! A [`Turn`] bounds the work before the driver looks at something else: a device may end everything within its
//! submission, so that there is always a next IO.
//!
//! Holds: an IO ends in the books of the scheduler that gave it out (`an_io_ends_where_it_was_given_out`); queued IOs keep their order when the scheduler
//!        changes (`queued_ios_move_over_in_order_of_arrival`); a turn has an end (`a_turn_has_an_end`).

use crate::{
    Admitted, Backlog, BusyDetector, BusyPeriod, Credit, Done, ExtraRead, ExtraReads, Io, Mark, Next,
    Outcome, Policy, Refused, Share, Ticket,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use units::{Bytes, Instant, Nanos, TenantId};

/// A scheduler and its place in the order of schedulers.
struct Generation {
    number: u32,
    policy: Box<dyn Policy>,
}

/// A read that the scheduler wants for itself. It is no tenant's IO; its data are thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Names it: no IO of a tenant has such a tag.
    pub tag: u64,
    /// The first byte.
    pub offset: u64,
    /// Its length.
    pub length: Bytes,
}

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit this IO to the SSD; it ends through [`Station::on_done`], with the [`Station::generation`] of now.
    Submit(Io),
    /// Read this from the SSD; it ends through [`Station::on_read`], at once if it cannot be done.
    Read(Reading),
    /// Nothing before this instant, unless something arrives or ends.
    WakeAt(Instant),
    /// Nothing until something arrives or ends.
    Idle,
    /// The turn is over; there may be more to do in the next one.
    Pause,
}

/// Number of steps left before something else has its turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    left: usize,
}

impl Turn {
    /// Most steps of a turn: IOs given out, ends of IOs, and reads that are not possible.
    pub const STEPS_MAX: usize = 64;

    /// A new one.
    pub const fn new() -> Turn {
        Turn { left: Turn::STEPS_MAX }
    }

    /// Steps that are left.
    pub const fn left(self) -> usize {
        self.left
    }

    /// Takes a step, if one is left.
    #[inline]
    pub const fn step(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}

impl Default for Turn {
    fn default() -> Turn {
        Turn::new()
    }
}

/// Note on an extra read on the SSD.
struct Wish {
    generation: u32,
    begun: Instant,
}

/// One SSD's scheduler, driven.
pub struct Station {
    present: Generation,
    /// Schedulers that still have IOs on the SSD.
    retired: Vec<Generation>,
    extra_reads: ExtraReads<Wish>,
    /// The longest extra read that the driver can do.
    extra_length_max: Bytes,
    /// Shares other than equal, by tenant.
    shares: Vec<(TenantId, Share)>,
    /// A second of the tenants on this clock.
    second: Nanos,
    /// Whether the SSD is slow.
    busy: BusyDetector,
}

impl Station {
    /// A station before an SSD with nothing in flight. The places of extra reads follow from the seed; none is longer
    /// than `extra_length_max`. A second of the tenants takes `second`.
    pub fn new(policy: Box<dyn Policy>, seed: u64, extra_length_max: Bytes, second: Nanos) -> Station {
        Station {
            present: Generation { number: 0, policy },
            retired: Vec::new(),
            extra_reads: ExtraReads::new(seed),
            extra_length_max,
            shares: Vec::new(),
            second,
            busy: BusyDetector::default(),
        }
    }

    /// The scheduler, to look at.
    #[inline]
    pub fn policy(&self) -> &dyn Policy {
        &*self.present.policy
    }

    /// Tenants with a share other than equal.
    pub fn shares(&self) -> &[(TenantId, Share)] {
        &self.shares
    }

    /// IOs that are queued, and IOs that were given out and have not ended, whichever scheduler gave them out.
    pub fn backlog(&self) -> Backlog {
        let Backlog { queued, in_flight } = self.present.policy.backlog();
        let retired: usize = self.retired.iter().map(|retired| retired.policy.backlog().in_flight).sum();
        Backlog { queued, in_flight: in_flight + retired }
    }

    /// Number of schedulers that were replaced and still have IOs on the SSD.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Extra reads that have not ended.
    pub fn extra_reads(&self) -> usize {
        self.extra_reads.in_flight()
    }

    /// Takes an IO that arrives. The returned ticket names it until it is given out.
    #[inline]
    pub fn arrive(&mut self, now: Instant, io: Io) -> Ticket {
        self.present.policy.on_arrival(now, io)
    }

    /// Decides the next step. Each IO given out is a step of `turn`.
    // Otherwise the IO is copied once more on its way.
    #[inline(always)]
    pub fn next(&mut self, now: Instant, turn: &mut Turn) -> Action {
        while turn.left() > 0 {
            match self.present.policy.next(now) {
                Next::Submit(io) => {
                    turn.step();
                    self.busy.on_submit(now);
                    return Action::Submit(io);
                }
                Next::Extra(read) => {
                    turn.step();
                    match self.place(now, read) {
                        Some(reading) => return Action::Read(reading),
                        None => self.present.policy.on_extra_read(now, read, Outcome::Failed),
                    }
                }
                Next::WakeAt(at) => return Action::WakeAt(at),
                Next::Idle => return Action::Idle,
            }
        }
        Action::Pause
    }

    /// The place of an extra read; `None` if it cannot be done.
    #[cold]
    fn place(&mut self, now: Instant, read: ExtraRead) -> Option<Reading> {
        if read.length > self.extra_length_max {
            return None;
        }
        let offset = self.extra_reads.place(read)?;
        let tag = self.extra_reads.begin(read, Wish { generation: self.present.number, begun: now });
        Some(Reading { tag, offset, length: read.length })
    }

    /// Notes that a read of a tenant that was given out ends at this byte of the SSD: extra reads are near it.
    #[inline]
    pub fn on_read_submitted(&mut self, tenant: TenantId, end: u64) {
        self.extra_reads.on_read(tenant, end);
    }

    /// Whether this is the tag of an extra read.
    #[inline]
    pub fn is_extra(tag: u64) -> bool {
        ExtraReads::<Wish>::has(tag)
    }

    /// When the extra read of this tag was asked for.
    ///
    /// # Panics
    /// If it has ended, or never begun.
    pub fn began(&self, tag: u64) -> Instant {
        self.extra_reads.note(tag).begun
    }

    /// Ends an extra read that has ended, or could not be done. A scheduler that was retired no longer wants it.
    #[cold]
    pub fn on_read(&mut self, now: Instant, tag: u64, outcome: Outcome) {
        let (read, Wish { generation, .. }) = self.extra_reads.end(tag);
        if generation == self.present.number {
            self.present.policy.on_extra_read(now, read, outcome);
        }
    }

    /// The number of the present scheduler, which gives out IOs now.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.present.number
    }

    /// Ends an IO that the scheduler of this number has given out. Returns how many the tenant may have outstanding.
    #[inline]
    pub fn on_done(&mut self, now: Instant, generation: u32, done: Done) -> Credit {
        self.busy.on_end(now, done.io.kind, done.io.length, done.outcome);
        if generation == self.present.number {
            return self.present.policy.on_completion(now, done);
        }
        self.end_in_retired(now, generation, done);
        self.present.policy.credit(done.io.tenant)
    }

    #[cold]
    fn end_in_retired(&mut self, now: Instant, generation: u32, done: Done) {
        let index = self.retired.iter().position(|retired| retired.number == generation);
        let index = index.expect("a scheduler is kept until its last IO has ended");
        let policy = &mut self.retired[index].policy;
        policy.on_completion(now, done);
        if policy.backlog().in_flight == 0 {
            self.retired.swap_remove(index);
        }
    }

    /// The busy period of the SSD, if it is slow now.
    #[inline]
    pub fn busy(&self, now: Instant) -> Option<BusyPeriod> {
        self.busy.period(now)
    }

    /// Takes back a queued IO.
    ///
    /// # Panics
    /// If it is not queued.
    pub fn withdraw(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.present.policy.withdraw_one(now, tenant, ticket)
    }

    /// Forgets a tenant that will not come back. Its IOs must have ended.
    pub fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.shares.retain(|(other, _)| *other != tenant);
        self.present.policy.forget(now, tenant);
        self.retired.iter_mut().for_each(|retired| retired.policy.forget(now, tenant));
    }

    /// Sets a tenant's share; its rates and objective are in the tenant's time.
    ///
    /// # Errors
    /// The scheduler sets the tenant's objective aside, for this reason (in the tenant's time, too).
    pub fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) -> Result<Admitted, Refused> {
        let share = Share { second: self.second, ..share };
        self.shares.retain(|(other, _)| *other != tenant);
        if share != (Share { second: self.second, ..Share::EQUAL }) {
            self.shares.push((tenant, share));
        }
        let admission = self.present.policy.admission(tenant, &share);
        self.present.policy.set_share(now, tenant, share);
        admission
    }

    /// Notes that IOs of this tenant have been on the SSD so long that others should not wait for it.
    pub fn on_overdue(&mut self, now: Instant, tenant: TenantId) {
        self.present.policy.on_overdue(now, tenant);
    }

    /// Puts another scheduler in charge. `queued` are the IOs that were not given out, in order of arrival; `moved` gets each with its new ticket.
    /// Returns the new scheduler's answers to objectives.
    pub fn replace(
        &mut self,
        now: Instant,
        policy: Box<dyn Policy>,
        queued: &[Io],
        mut moved: impl FnMut(Io, Ticket),
    ) -> Vec<(TenantId, Result<Admitted, Refused>)> {
        let number = self.present.number + 1;
        let mut old = core::mem::replace(&mut self.present, Generation { number, policy });
        let mut answers = Vec::new();
        for &(tenant, share) in &self.shares {
            if share.slo.is_some() {
                answers.push((tenant, self.present.policy.admission(tenant, &share)));
            }
            self.present.policy.set_share(now, tenant, share);
        }
        let mut tenants: Vec<TenantId> = queued.iter().map(|io| io.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        for tenant in tenants {
            old.policy.withdraw(now, tenant, &mut |_| true);
        }
        for io in queued {
            let io = Io { mark: Mark::default(), ..*io };
            moved(io, self.present.policy.on_arrival(now, io));
        }
        if old.policy.backlog().in_flight > 0 {
            self.retired.push(old);
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Fifo, IoId, IoKind, PapersDrive, Priority, Scheduler};

    const NOW: Instant = Instant(1);

    fn station(policy: Box<dyn Policy>) -> Station {
        Station::new(policy, 1, Bytes::mib(1), Nanos::secs(1))
    }

    fn io(id: u64, tenant: u32) -> Io {
        let (tenant, priority, mark) = (TenantId(tenant), Priority::default(), Mark::default());
        Io { id: IoId(id), tenant, priority, kind: IoKind::Read, length: Bytes::kib(4), mark }
    }

    /// The next IO that goes, when its time has come.
    fn next(station: &mut Station, now: &mut Instant) -> (u32, Io) {
        loop {
            match station.next(*now, &mut Turn::new()) {
                Action::Submit(io) => return (station.generation(), io),
                Action::WakeAt(at) => *now = at,
                other => panic!("an IO waits, and this is {other:?}"),
            }
        }
    }

    /// All that goes at once.
    fn given(station: &mut Station) -> Vec<Io> {
        let mut turn = Turn::new();
        let mut given = Vec::new();
        while let Action::Submit(one) = station.next(NOW, &mut turn) {
            given.push(one);
        }
        given
    }

    #[test]
    fn an_io_ends_where_it_was_given_out() {
        let outcome = Outcome::Success { latency: Nanos::micros(90) };
        for row in Scheduler::ALL {
            let new = || row.set_up(&PapersDrive::new().facts()).expect("all is known of the drive").build();
            let (mut station, mut now) = (station(new()), NOW);
            station.arrive(now, io(0, 0));
            let first = next(&mut station, &mut now);
            station.replace(now, new(), &[], |_, _| panic!("nothing is queued"));
            station.arrive(now, io(1, 0));
            let second = next(&mut station, &mut now);
            assert_eq!(station.backlog().in_flight, 2);
            station.on_done(now, second.0, Done { io: second.1, outcome });
            assert_eq!((station.policy().backlog(), station.backlog().in_flight), (Backlog::default(), 1));
            station.on_done(now, first.0, Done { io: first.1, outcome });
            assert_eq!((station.retired.len(), station.backlog()), (0, Backlog::default()), "{}", row.name);
            station.forget(now, TenantId(0));
        }
    }

    #[test]
    fn queued_ios_move_over_in_order_of_arrival() {
        let mut station = station(Box::new(Fifo::default()));
        let queued: Vec<Io> = (0..20).map(|id| io(id, id as u32 % 3)).collect();
        queued.iter().for_each(|io| _ = station.arrive(NOW, *io));
        let mut tickets = Vec::new();
        station.replace(NOW, Box::new(Fifo::default()), &queued, |io, ticket| tickets.push((io, ticket)));
        let (taken, ticket) = tickets[7];
        assert_eq!(station.withdraw(NOW, taken.tenant, ticket), taken);
        let ids: Vec<u64> = given(&mut station).iter().map(|io| io.id.0).collect();
        let expected: Vec<u64> = (0..20).filter(|id| *id != 7).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn a_turn_has_an_end() {
        let mut station = station(Box::new(Fifo::default()));
        (0..100).for_each(|id| _ = station.arrive(NOW, io(id, 0)));
        assert_eq!(given(&mut station).len(), Turn::STEPS_MAX);
        assert_eq!(given(&mut station).len(), 100 - Turn::STEPS_MAX);
        let mut over = Turn { left: 0 };
        assert_eq!(station.next(NOW, &mut over), Action::Pause);
    }
}
