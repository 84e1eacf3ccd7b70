//! Extra reads ([`sched::ExtraReads`]) before a simulated SSD, in its slots. They pass an auxiliary store by, unlike those of the product: what they read does not matter.

use sched::{ExtraRead, Outcome};
use ssd::{Command, CommandKind, SLOT_BYTES};
use units::{Instant, TenantId};

/// Those of one SSD.
pub struct ExtraReads {
    reads: sched::ExtraReads<Instant>,
}

impl ExtraReads {
    /// None yet. Where they go follows from the seed.
    pub fn new(seed: u64) -> ExtraReads {
        ExtraReads { reads: sched::ExtraReads::new(seed) }
    }

    /// A read of a tenant goes to the SSD.
    pub fn on_read(&mut self, tenant: TenantId, slot: u32, slots: u32) {
        self.reads.on_read(tenant, (u64::from(slot) + u64::from(slots)) * SLOT_BYTES);
    }

    /// How many the SSD has.
    pub fn in_flight(&self) -> usize {
        self.reads.in_flight()
    }

    /// The command for a read that the scheduler wants; `None` if it cannot be done.
    pub fn begin(&mut self, now: Instant, read: ExtraRead) -> Option<Command> {
        let place = self.reads.place(read)?;
        let [slot, slots] = [place, read.length.0].map(|bytes| (bytes / SLOT_BYTES) as u32);
        Some(Command { tag: self.reads.begin(read, now), kind: CommandKind::Read, slot, slots })
    }

    /// The read whose command has ended at `at`, and what to tell of it; `None` if the command was another's.
    pub fn end(&mut self, tag: u64, at: Instant) -> Option<(ExtraRead, Outcome)> {
        if !sched::ExtraReads::<Instant>::has(tag) {
            return None;
        }
        let (read, begun) = self.reads.end(tag);
        Some((read, Outcome::Success { latency: at.since(begun) }))
    }
}
