//! The reads of a scheduler's own ([`sched::ExtraReads`]) on their way through the device: what comes is thrown away.
//!
//! They are nobody's IOs: they have no slot, no region (they change nothing), and no part in what is counted and promised. Their buffers
//! come from the pool, and if there is none, or somebody waits for one, an extra read is not done. The scheduler bounds how many there are.
//!
//! Holds: an extra read is near the tenant's last one and nowhere else than up to 128 MiB before it, and ends once, with its buffer
//!        (`extra_reads_are_near_the_last_read_and_end_once`).

use super::{ByteRange, Work};
use crate::stats::ExtraReadStats;
use reactor::BufferPool;
use sched::ExtraRead;
use units::TenantId;

/// Where they go need not be secret, only spread.
const SEED: u64 = 0;

/// Those of one SSD.
pub(super) struct ExtraReads {
    /// Those on the device, with the number of the scheduler that wants them.
    reads: sched::ExtraReads<u32>,
    stats: ExtraReadStats,
}

impl ExtraReads {
    pub(super) fn new() -> ExtraReads {
        ExtraReads { reads: sched::ExtraReads::new(SEED), stats: ExtraReadStats::default() }
    }

    pub(super) fn stats(&self) -> ExtraReadStats {
        self.stats
    }

    /// A tenant's IO goes to the device.
    #[inline]
    pub(super) fn on_dispatch(&mut self, tenant: TenantId, work: &Work) {
        // All that the scheduler was told is a read (`Progress::price`).
        if let Work::Read(range) | Work::Verify(range) | Work::Compare { range, .. } = work {
            self.reads.on_read(tenant, range.offset + range.length);
        }
    }

    /// Where to read; `None` if that cannot be done.
    pub(super) fn place(&mut self, read: ExtraRead) -> Option<ByteRange> {
        // A verify may be longer than any buffer.
        let length = Some(read.length.0).filter(|length| *length <= BufferPool::LENGTH_MAX as u64)?;
        Some(ByteRange { offset: self.reads.place(read)?, length })
    }

    /// It goes to the device for scheduler `generation`, with this tag.
    pub(super) fn begin(&mut self, read: ExtraRead, generation: u32) -> u64 {
        self.stats.ios += 1;
        self.stats.bytes += read.length.0;
        self.reads.begin(read, generation)
    }

    /// Whether this is the tag of an extra read. No key of an IO has its bit (`slab`), and those of the devices' own operations have another one.
    #[inline]
    pub(super) fn has(tag: u64) -> bool {
        sched::ExtraReads::<u32>::has(tag)
    }

    /// What has ended under this tag, and for which scheduler.
    pub(super) fn end(&mut self, tag: u64) -> (ExtraRead, u32) {
        self.reads.end(tag)
    }
}
