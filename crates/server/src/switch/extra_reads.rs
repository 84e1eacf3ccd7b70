//! The reads of a scheduler's own ([`ExtraRead`]) on their way through the device: what comes is thrown away.
//!
//! They are nobody's IOs: they have no slot, no region (they change nothing), and no part in what is counted and promised. Their buffers
//! come from the pool, and if there is none, or somebody waits for one, an extra read is not done. The scheduler bounds how many there are.
//!
//! Holds: an extra read is like the tenant's last one and nowhere else than up to 128 MiB before it, and ends once, with its buffer
//!        (`extra_reads_are_like_the_last_read_and_end_once`).

use super::ByteRange;
use crate::slab::{Key, Slab};
use crate::stats::ExtraReadStats;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sched::ExtraRead;
use units::TenantId;

/// Marks their tags. No key of an IO has this bit (`slab`), and those of the devices' own operations have another one.
const EXTRA: u64 = 1 << 62;

/// Those of one SSD.
pub(super) struct ExtraReads {
    /// Each tenant's last read.
    last: Vec<ByteRange>,
    /// Those on the device, with the number of the scheduler that wants them.
    under_way: Slab<(ExtraRead, u32)>,
    random: Xoshiro256PlusPlus,
    stats: ExtraReadStats,
}

impl ExtraReads {
    pub(super) fn new() -> ExtraReads {
        // Where they go need not be secret, only spread.
        let random = Xoshiro256PlusPlus::seed_from_u64(EXTRA);
        ExtraReads { last: Vec::new(), under_way: Slab::new(), random, stats: ExtraReadStats::default() }
    }

    pub(super) fn stats(&self) -> ExtraReadStats {
        self.stats
    }

    /// A read of a tenant goes to the device.
    #[inline]
    pub(super) fn on_read(&mut self, tenant: TenantId, range: ByteRange) {
        match self.last.get_mut(tenant.index()) {
            Some(last) => *last = range,
            None => self.on_first_read(tenant, range),
        }
    }

    #[cold]
    fn on_first_read(&mut self, tenant: TenantId, range: ByteRange) {
        self.last.resize(tenant.index() + 1, ByteRange { offset: 0, length: 0 });
        self.last[tenant.index()] = range;
    }

    /// Where to read; `None` if the tenant's last read was not like it.
    pub(super) fn place(&mut self, read: ExtraRead) -> Option<ByteRange> {
        let last = self.last.get(read.tenant.index()).filter(|last| last.length == read.length.0)?;
        Some(ByteRange { offset: read.place(last.offset, self.random.next_u64()), ..*last })
    }

    /// It goes to the device for scheduler `generation`, with this tag.
    pub(super) fn begin(&mut self, read: ExtraRead, generation: u32) -> u64 {
        self.stats.ios += 1;
        self.stats.bytes += read.length.0;
        EXTRA | self.under_way.insert((read, generation)).to_bits()
    }

    /// Whether this is the tag of an extra read.
    #[inline]
    pub(super) fn has(tag: u64) -> bool {
        tag & EXTRA != 0
    }

    /// What has ended under this tag, and for which scheduler.
    pub(super) fn end(&mut self, tag: u64) -> (ExtraRead, u32) {
        self.under_way.remove(Key::from_bits(tag & !EXTRA)).expect("the device finishes what it was given")
    }
}
