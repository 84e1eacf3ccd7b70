//! One IO, from its command to its answer.
//!
//! ```text
//!   Received ─┬─► WaitingForMemory ─┬─► Queued ─► OnDevice (step k of n) ─► Ended ─► answered, the slot is free
//!             ├─► Held ─────────────┤     ▲           │
//!             │                     │     └───────────┘ next piece of a copy or an erasure
//!             └─────────────────────┴─► Remote (on another SSD's thread) ─► Ended
//! ```
//!
//! A thread has one table of slots, and an IO stays in its slot: lists and queues hold the key of the slot, which is also the
//! scheduler's identifier and the device's tag. `T` is the owner of the IO (in a worker: the command that it came with).
//!
//! Holds: an IO is in one state at a time, and a key that is used after the end finds nothing (`slab`).

use super::step::Progress;
use super::{Failure, Work};
use crate::slab::Key;
use reactor::IoBuffer;
use sched::{Credit, Io, IoId, IoKind, Mark, Priority, Ticket};
use units::{Bytes, Instant, Nanos, TenantId};

/// Where an IO is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In the hands of the code that runs.
    Received,
    /// A read that waits for room in the memory account of its connection.
    WaitingForMemory,
    /// Waits for IOs of an earlier connection of its host on the device.
    Held,
    /// With another SSD's thread, or on its way there: this is its key in the window of that SSD while it waits to be sent.
    Remote(Key),
    /// In the scheduler, which knows it by this ticket.
    Queued(Ticket),
    /// Given out by the scheduler: on the device, or waiting for a buffer or for another write.
    OnDevice,
    /// Over, with its result.
    Ended,
}

/// See the module.
pub(crate) struct IoSlot<T> {
    /// The owner.
    pub(crate) owner: T,
    pub(crate) state: State,
    /// The work, with the buffers that came with it.
    pub(crate) work: Work,
    /// As the scheduler sees it.
    pub(super) io: Io,
    /// When it arrived at the scheduler, on the machine's clock; before that, when it began to wait for memory.
    pub(super) arrived: Instant,
    /// Its place in the order of arrivals.
    pub(super) sequence: u64,
    /// The generation of the scheduler that has it: the present one, or one that was retired.
    pub(super) generation: u32,
    /// It was taken back while a step of it was on the device: that step is the last.
    pub(super) is_withdrawn: bool,
    /// It has entered its regions: it is on the device, or waits there for a claim.
    pub(super) has_entered: bool,
    pub(super) progress: Progress,
    /// The number of IOs that the tenant may have outstanding from now on.
    pub(crate) credit: Credit,
    /// The announcement of a busy period of the SSD for its completion ([`nvme::spec::Busy`]).
    pub(crate) busy: u32,
}

impl<T> IoSlot<T> {
    /// An IO of `tenant` that has just come.
    #[inline]
    pub(crate) fn new(tenant: TenantId, priority: Priority, work: Work, owner: T) -> IoSlot<T> {
        // Its identifier and its price are known when it arrives at the scheduler.
        let (id, kind, length, mark) = (IoId(0), IoKind::Management, Bytes::ZERO, Mark::default());
        IoSlot {
            owner,
            state: State::Received,
            work,
            io: Io { id, tenant, priority, kind, length, mark },
            arrived: Instant::ZERO,
            sequence: 0,
            generation: 0,
            is_withdrawn: false,
            has_entered: false,
            progress: Progress::default(),
            credit: Credit(0),
            busy: 0,
        }
    }

    pub(crate) fn tenant(&self) -> TenantId {
        self.io.tenant
    }

    /// The tenant's own class.
    pub(crate) fn priority(&self) -> Priority {
        self.io.priority
    }

    /// Whether it was done, once it has ended.
    pub(crate) fn result(&self) -> &Result<(), Failure> {
        &self.progress.result
    }

    /// Sets the result, with the data of a read.
    pub(crate) fn set_outcome(&mut self, result: Result<(), Failure>, read: Option<IoBuffer>) {
        (self.progress.result, self.progress.read) = (result, read);
    }

    /// The data of a successful read.
    pub(crate) fn take_read(&mut self) -> Option<IoBuffer> {
        self.progress.read.take()
    }

    /// Takes the result out.
    pub(crate) fn take_result(&mut self) -> Result<(), Failure> {
        std::mem::replace(&mut self.progress.result, Ok(()))
    }

    /// Whether the device did the work. A comparison that found a difference was a read like any other.
    pub(crate) fn was_served(&self) -> bool {
        matches!(self.progress.result, Ok(()) | Err(Failure::Miscompare))
    }

    /// The charge for all steps.
    pub(crate) fn charged(&self) -> (IoKind, Bytes) {
        match &self.work {
            Work::Copy(copying) => (self.io.kind, copying.charged()),
            _ => (self.io.kind, self.io.length),
        }
    }

    /// Time on the device, on the device's clock.
    pub(crate) fn latency(&self) -> Nanos {
        self.progress.latency
    }

    /// How late it was known to be over, on the device's clock.
    pub(crate) fn late(&self) -> Nanos {
        self.progress.late
    }

    /// It waits for memory from now on.
    pub(crate) fn begin_waiting_for_memory(&mut self, now: Instant) {
        self.state = State::WaitingForMemory;
        self.arrived = now;
    }

    /// Time in the scheduler and on the device, on the machine's clock; before the arrival at the scheduler, that for which it waits for memory.
    pub(crate) fn total(&self, now: Instant) -> Nanos {
        now.saturating_since(self.arrived)
    }
}
