//! Compare and Write: two fused commands that are one atomic operation. No other command of the namespace
//! runs in between.
//!
//! Hosts use it for locks in a shared namespace; ESXi locks the metadata of shared file systems with it. The
//! transport has found that the two commands belong together. Here they are checked as two commands and
//! passed on as one IO.
//!
//!   first   Compare  its own status, or Failed Fused Command if the Write is refused
//!   second  Write    its own status, or Failed Fused Command if the Compare is refused or finds a difference
//!
//! Only one block is allowed: a power failure does not tear a single block, and ACWU promises that as well.
//!
//! Holds: a pair is passed on only if each command alone would be (`a_pair_is_accepted_only_if_each_half_would_be`
//!        in `tests/controller/fused.rs`).
//! NVM Command Set Specification: "Fused Operation"; Base Specification: "Fused Operations".

use super::action::{Action, FusedAction, IoCommand, IoOp, QueueKey};
use super::health::FailedCommand;
use super::{Queue, Subsystem};
use crate::spec::opcode::nvm;
use crate::spec::sqe::FLAGS_FUSE_MASK;
use crate::spec::{Cqe, Sqe, Status};
use units::Bytes;

/// Most blocks of a Compare and Write. ACWU and NACWU are this number minus one.
const BLOCKS_MAX: u32 = 1;
/// ACWU and NACWU.
pub(super) const ATOMIC_COMPARE_AND_WRITE_UNIT: u16 = BLOCKS_MAX as u16 - 1;

impl Subsystem {
    /// Two fused commands of an IO queue, each with its data as in `on_command`.
    pub fn on_fused_commands(
        &mut self,
        key: QueueKey,
        sqes: [&Sqe; 2],
        data: [Option<&[u8]>; 2],
    ) -> FusedAction {
        let Some(&Queue { controller: Some(slot), queue_id, .. }) = self.queue(key) else {
            return refusal(sqes, [Status::COMMAND_SEQUENCE_ERROR; 2]);
        };
        let statuses = match self.check_fused(key, slot, queue_id, sqes, data) {
            Ok(command) => return FusedAction::Io(command),
            Err(statuses) => statuses,
        };
        for (sqe, status) in sqes.into_iter().zip(statuses) {
            self.controller_mut(slot).health.on_failure(FailedCommand::new(queue_id, sqe), status);
        }
        refusal(sqes, statuses)
    }

    fn check_fused(
        &mut self,
        key: QueueKey,
        slot: usize,
        queue_id: u16,
        [first, second]: [&Sqe; 2],
        [compared, written]: [Option<&[u8]>; 2],
    ) -> Result<IoCommand, [Status; 2]> {
        let is_known = (first.opcode(), second.opcode()) == (nvm::COMPARE, nvm::WRITE) && queue_id != 0;
        let range = |sqe: &Sqe| (sqe.nsid(), sqe.cdw10_11(), sqe.cdw12() & 0xffff);
        if !is_known || !self.config.commands.compare || range(first) != range(second) {
            return Err([Status::INVALID_FIELD; 2]);
        }
        if first.cdw12() & 0xffff >= BLOCKS_MAX {
            return Err([Status::ATOMIC_WRITE_UNIT_EXCEEDED; 2]);
        }
        let alone = |sqe: &Sqe| sqe.with_flags(sqe.flags() & !FLAGS_FUSE_MASK);
        let compare = self.on_io_command(key, slot, &alone(first), compared);
        compare.map_err(|status| [status, Status::FAILED_FUSED])?;
        match self.on_io_command(key, slot, &alone(second), written) {
            Ok(Action::Io(write)) => Ok(IoCommand { op: IoOp::CompareAndWrite, ..write }),
            Ok(other) => unreachable!("a Write gave {other:?} instead of an IO"),
            Err(status) => Err([Status::FAILED_FUSED, status]),
        }
    }

    /// The `FusedAction::Io` of commands `cids` has ended with these statuses; see `on_io_completed`.
    pub fn on_fused_completed(
        &mut self,
        key: QueueKey,
        cids: [u16; 2],
        command: &IoCommand,
        statuses: [Status; 2],
    ) {
        let Some(&Queue { controller: Some(slot), queue_id, .. }) = self.queue(key) else { return };
        let shift = self.namespaces.get(command.nsid).map_or(0, |namespace| namespace.block_shift);
        let bytes = Bytes(u64::from(command.blocks) << shift);
        let health = &mut self.controller_mut(slot).health;
        for (cid, status) in cids.into_iter().zip(statuses).filter(|(_, status)| !status.is_success()) {
            let failed = FailedCommand { queue_id, cid, nsid: command.nsid, lba: command.lba.0 };
            health.on_failure(failed, status);
        }
        if statuses[0].is_success() {
            health.on_read(bytes);
        }
        if statuses[1].is_success() {
            health.on_write(bytes);
        }
    }
}

fn refusal([first, second]: [&Sqe; 2], statuses: [Status; 2]) -> FusedAction {
    FusedAction::Reply([Cqe::new(first.cid(), statuses[0]), Cqe::new(second.cid(), statuses[1])])
}
