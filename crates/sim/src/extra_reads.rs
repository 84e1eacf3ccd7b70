//! The reads of a scheduler's own, before a simulated SSD. They pass an auxiliary store by, unlike those of the product: what they read does not matter.

use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::ExtraRead;
use ssd::{Command, CommandKind, SLOT_BYTES};
use units::{Instant, Nanos, TenantId};

/// Set in the tags of their commands, and of no other.
const EXTRA: u64 = 1 << 62;

/// Those of one SSD.
pub struct ExtraReads {
    /// Where each tenant read last, and how much: slots.
    last: Vec<(u32, u32)>,
    /// By tag.
    under_way: Vec<Option<(ExtraRead, Instant)>>,
    free: Vec<usize>,
    random: Xoshiro256PlusPlus,
}

impl ExtraReads {
    /// None yet. Where they go follows from the seed.
    pub fn new(seed: u64) -> ExtraReads {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ EXTRA);
        ExtraReads { last: Vec::new(), under_way: Vec::new(), free: Vec::new(), random }
    }

    /// A read of a tenant goes to the SSD.
    pub fn on_read(&mut self, tenant: TenantId, slot: u32, slots: u32) {
        if self.last.len() <= tenant.index() {
            self.last.resize(tenant.index() + 1, (0, 0));
        }
        self.last[tenant.index()] = (slot, slots);
    }

    /// How many the SSD has.
    pub fn in_flight(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    /// The command for a read that the scheduler wants.
    ///
    /// # Panics
    /// If it is unlike the tenant's last read.
    pub fn begin(&mut self, now: Instant, read: ExtraRead) -> Command {
        let (slot, slots) = self.last[read.tenant.index()];
        assert_eq!(read.length.0, u64::from(slots) * SLOT_BYTES, "an extra read is like the tenant's last");
        let place = read.place(u64::from(slot) * SLOT_BYTES, self.random.next_u64());
        let index = self.free.pop().unwrap_or(self.under_way.len());
        if index == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[index] = Some((read, now));
        let slot = (place / SLOT_BYTES) as u32;
        Command { tag: EXTRA | index as u64, kind: CommandKind::Read, slot, slots }
    }

    /// The read whose command has ended at `at`, and how long it took; `None` if the command was another's.
    pub fn end(&mut self, tag: u64, at: Instant) -> Option<(ExtraRead, Nanos)> {
        let index = tag.checked_sub(EXTRA).and_then(|index| usize::try_from(index).ok())?;
        let (read, begun) = self.under_way.get_mut(index)?.take()?;
        self.free.push(index);
        Some((read, at.since(begun)))
    }
}
