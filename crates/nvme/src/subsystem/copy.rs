//! Copy: copies blocks inside a namespace without moving them to the host.
//!
//! Only descriptor format 0: sources in the same namespace, no protection information. The transfer limit
//! bounds how much one command may copy, so it costs other hosts no more than a write of that length.
//!
//! Source and destination may not overlap. The copy is done piece by piece, so a later piece would read what
//! an earlier piece has written.
//!
//! Holds: a Copy that is passed on reads and writes within its namespace, copies at most MCL blocks, and never
//!        writes blocks that it reads (`a_copy_is_within_its_limits` in `tests/controller/copy.rs`).
//! NVM Command Set Specification: "Copy command".

use super::action::{Action, BlockRange, IoCommand, IoOp, PriorityClass};
use super::config::Limits;
use super::io::{admit, check_range};
use super::reservation_terms::Access;
use super::{Subsystem, write_data};
use crate::spec::copy::{CopyCommand, SOURCE_RANGE_SIZE, SourceRange};
use crate::spec::{Sqe, Status};
use alloc::vec::Vec;
use units::Lba;
use zerocopy::FromBytes;

/// Most ranges of one command (MSRC): their descriptors take 4 KiB.
pub(super) const RANGES_MAX: usize = 128;

/// MCL: most blocks of one command.
pub(super) fn blocks_max(limits: &Limits, block_shift: u8) -> u32 {
    u32::try_from(limits.transfer_max.get() >> block_shift).unwrap_or(u32::MAX)
}

/// MSSRL: most blocks of one range.
pub(super) fn range_blocks_max(limits: &Limits, block_shift: u8) -> u16 {
    u16::try_from(blocks_max(limits, block_shift)).unwrap_or(u16::MAX)
}

impl Subsystem {
    pub(super) fn copy(&self, slot: usize, sqe: &Sqe, data: Option<&[u8]>) -> Result<Action, Status> {
        let namespace = self.namespaces.get(sqe.nsid()).ok_or(Status::INVALID_NAMESPACE)?;
        let host = self.controller(slot).identity();
        admit(namespace, host, Access::Read)?;
        admit(namespace, host, Access::Write)?;
        if namespace.read_only {
            return Err(Status::WRITE_PROTECTED);
        }
        let command = CopyCommand::parse(sqe);
        if command.format != 0 {
            return Err(Status::INVALID_FIELD);
        }
        if command.ranges > RANGES_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        let (limits, shift) = (&self.config.limits, namespace.block_shift);
        let bytes = write_data(sqe, data, command.ranges * SOURCE_RANGE_SIZE)?;
        let sources = <[SourceRange]>::ref_from_bytes(bytes).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let mut blocks = 0;
        for source in sources {
            if source.block_count() > u32::from(range_blocks_max(limits, shift)) {
                return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
            }
            check_range(namespace, source.lba.get(), source.block_count())?;
            blocks += source.block_count();
        }
        if blocks > blocks_max(limits, shift) {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED);
        }
        check_range(namespace, command.destination, blocks)?;
        let end = command.destination + u64::from(blocks);
        let overlaps = |source: &SourceRange| {
            let (lba, count) = (source.lba.get(), u64::from(source.block_count()));
            lba < end && command.destination < lba + count
        };
        if sources.iter().any(overlaps) {
            return Err(Status::OVERLAPPING_IO_RANGE);
        }
        let ranges: Vec<BlockRange> = sources
            .iter()
            .map(|source| BlockRange { lba: Lba(source.lba.get()), blocks: source.block_count() })
            .collect();
        let writes_through = !self.controller(slot).features.write_cache;
        Ok(Action::Io(IoCommand {
            nsid: sqe.nsid(),
            op: IoOp::Copy(ranges),
            lba: Lba(command.destination),
            blocks,
            fua: command.force_unit_access || writes_through,
            priority: PriorityClass::UNSPECIFIED,
        }))
    }
}
