//! The scheduler alone: IOs pass through it before a device that costs nothing.
//!
//! Sixteen tenants keep IOs outstanding in virtual time; the device answers in order and always as fast as an idle one, so that
//! no threshold is reached. One IO is an arrival, the decisions until there is nothing more to submit, and a completion. Every
//! IO is decided on its own: nothing is saved by looking at several at once.

use sched::{
    Action, Done, Io, IoId, IoKind, Mark, Outcome, PapersDrive, Priority, Reading, Scheduler, Station, Turn,
};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos, TenantId};

/// Tenants that ask for something.
pub const ACTIVE: u32 = 16;
/// The latency of every IO: below the threshold of an idle SSD.
const LATENCY: Nanos = Nanos::micros(90);
/// Virtual time between completions where the SSD is the limit: 200 MB/s of 4 KiB, a fifth of the scheduler's initial rate.
const PACE: Nanos = Nanos::micros(20);
/// Where each read ends on the device: extra reads are near it.
const PLACE: u64 = 1 << 30;
const SMALL_READS: &[(IoKind, Bytes)] = &[(IoKind::Read, Bytes::kib(4))];

/// The load of the tenants.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Its name.
    pub name: &'static str,
    /// IOs that each tenant keeps outstanding. A tenant's slots hold 32 × 4 KiB each.
    depth: u32,
    /// Virtual time from one completion to the next.
    pace: Nanos,
    /// The IOs of tenant `n`, by `n` modulo the number of kinds.
    kinds: &'static [(IoKind, Bytes)],
}

/// Each IO leaves as soon as it arrives.
pub const LIGHT: Load = Load { name: "light", depth: 2, pace: PACE, kinds: SMALL_READS };
/// Tenants wait for their turn.
pub const BACKLOGGED: Load = Load { name: "backlogged", depth: 512, pace: PACE, kinds: SMALL_READS };
/// Small reads, small writes and larger reads wait for their turn.
pub const MIXED: Load = Load {
    name: "mixed",
    depth: 64,
    pace: PACE,
    kinds: &[(IoKind::Read, Bytes::kib(4)), (IoKind::Write, Bytes::kib(4)), (IoKind::Read, Bytes::kib(16))],
};
/// More than the rate lets through: where there are token buckets, every IO waits for its bucket.
pub const PACED: Load =
    Load { name: "paced", depth: 8, pace: Nanos::micros(1), kinds: &[(IoKind::Read, Bytes::kib(128))] };

/// A scheduler, the device behind it and the tenants in front of it.
pub struct Switch {
    station: Station,
    load: Load,
    now: Instant,
    wake_at: Option<Instant>,
    in_flight: VecDeque<Io>,
    extra_reads: VecDeque<Reading>,
    next_id: u64,
}

impl Switch {
    /// All `tenants` have done an IO; sixteen of them, far apart, keep the load up.
    pub fn new(scheduler: &Scheduler, tenants: u32, load: Load) -> Switch {
        let setup = scheduler.set_up(&PapersDrive::new().facts());
        let policy = setup.expect("everything is known of the drive").build();
        let mut switch = Switch {
            station: Station::new(policy, 0, Bytes(u64::MAX), Nanos::secs(1)),
            load,
            now: Instant::ZERO,
            wake_at: None,
            in_flight: VecDeque::with_capacity((ACTIVE * load.depth) as usize),
            extra_reads: VecDeque::new(),
            next_id: 0,
        };
        for tenant in 0..tenants {
            switch.arrive(TenantId(tenant));
            switch.complete();
        }
        for n in 0..ACTIVE * load.depth {
            switch.arrive(TenantId(n % ACTIVE * (tenants / ACTIVE)));
        }
        switch
    }

    /// Passes `ios` through.
    pub fn run(&mut self, ios: u32) {
        for _ in 0..ios {
            let tenant = self.complete();
            self.arrive(tenant);
        }
    }

    fn arrive(&mut self, tenant: TenantId) {
        let (kind, length) = self.load.kinds[tenant.index() % self.load.kinds.len()];
        let id = IoId(self.next_id);
        let io = Io { id, tenant, priority: Priority::default(), kind, length, mark: Mark::default() };
        self.next_id += 1;
        self.station.arrive(self.now, io);
        self.decide();
    }

    fn decide(&mut self) {
        let mut turn = Turn::new();
        self.wake_at = loop {
            match self.station.next(self.now, &mut turn) {
                Action::Submit(io) => {
                    if io.kind == IoKind::Read {
                        self.station.on_read_submitted(io.tenant, PLACE);
                    }
                    self.in_flight.push_back(io);
                }
                Action::Read(read) => self.extra_reads.push_back(read),
                Action::WakeAt(at) => break Some(at),
                Action::Idle => break None,
                Action::Pause => turn = Turn::new(),
            }
        };
    }

    /// Completes the oldest IO in flight, and the oldest extra read, and returns the IO's tenant.
    fn complete(&mut self) -> TenantId {
        let io = loop {
            if let Some(io) = self.in_flight.pop_front() {
                break io;
            }
            self.now = self.wake_at.expect("an IO is in flight or waits for its time");
            self.decide();
        };
        self.now += self.load.pace;
        let outcome = Outcome::Success { latency: LATENCY };
        self.station.on_done(self.now, self.station.generation(), Done { io, outcome });
        if let Some(read) = self.extra_reads.pop_front() {
            self.station.on_read(self.now, read.tag, outcome);
        }
        io.tenant
    }
}

/// Passes `ios` through a new scheduler.
pub(crate) fn run(scheduler: &Scheduler, load: Load, ios: u32) {
    Switch::new(scheduler, ACTIVE, load).run(ios);
}
