//! What goes in and out of a subsystem besides the structures of the specification.
//!
//! The caller owns sockets, devices and time. It hands every command over and does what the answer says: send a completion,
//! do an IO, or nothing yet. What the subsystem wants unasked comes out of `Subsystem::poll`.

use super::reservation_terms::SavedReservations;
use crate::spec::dataset::AccessLatency;
use crate::spec::{Cqe, HostId, Nqn};
use alloc::vec::Vec;
use units::Lba;

/// The caller's name for a connection, which is a queue once its Connect succeeded.
///
/// `slot` indexes a table, so that finding the queue of a command costs one load: give small numbers and reuse them, as a
/// slab does. `generation` tells apart the connections that have had the slot; the caller may leave it 0 if no call for a
/// closed connection can come after its slot was given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// Index in the caller's table of connections.
    pub slot: u32,
    /// Which of the connections that had this index.
    pub generation: u32,
}

/// A Connect that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The answer to send.
    pub cqe: Cqe,
    /// The controller the queue belongs to.
    pub controller_id: u16,
    /// 0 is the admin queue.
    pub queue_id: u16,
    /// Entries of the queue: the commands that may be outstanding.
    pub entries: u32,
    /// Whether the host asked for no submission queue flow control (SQHD means nothing then).
    pub flow_control_disabled: bool,
    /// Who it is.
    pub host_nqn: Nqn,
    /// Who it is, in 128 bits.
    pub host_id: HostId,
    /// Whether completions on this queue carry credits from the start (an IO queue of a host that asked before).
    pub credits: bool,
}

/// What to do about a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Reply {
        /// The completion.
        cqe: Cqe,
        /// The data before it, never more than the command's descriptor takes. Where it ends before, zeroes follow, which nobody has
        /// to hold: a host may ask for a megabyte of a page that has 64 bytes.
        data: Option<Vec<u8>>,
    },
    /// Do this IO, answer the command when it is done, and tell `Subsystem::on_io_completed`.
    Io(IoCommand),
    /// Credits were switched on or off for all queues of this controller, or asked for: put the tenant's current credit
    /// into dword 0 of the completion (leave it 0 if `enabled` is false) and send it.
    Credits {
        /// Whether completions carry credits from now on.
        enabled: bool,
        /// The completion.
        cqe: Cqe,
    },
    /// Another host was preempted with abort: of the commands on `queues` in namespace `nsid`, answer those that have not
    /// reached a device with `Status::PREEMPTED_AND_ABORTED`, wait for the others to end, and only then send `cqe`. The
    /// host that asked relies on no write of the preempted host coming after it.
    Fence {
        /// The namespace.
        nsid: u32,
        /// IO queues of the preempted hosts.
        queues: Vec<QueueKey>,
        /// The completion.
        cqe: Cqe,
    },
    /// The host wants this IO aborted: if it can still be kept from its device, answer it with `Status::ABORT_REQUESTED` and
    /// then send `cqe`; if not, or if there is none, send `cqe` with `abort_failed`.
    Abort {
        /// The IO's queue.
        queue: QueueKey,
        /// The IO's identifier.
        cid: u16,
        /// The completion of the Abort.
        cqe: Cqe,
    },
    /// Nothing now; the completion comes out of `Subsystem::poll` when there is something to tell.
    Pending,
    /// Nothing now; the completion comes out of `Subsystem::poll` when the reservations that it changes are stored.
    Storing,
}

/// What to do about two commands that are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FusedAction {
    /// Send these, the first command's first.
    Reply([Cqe; 2]),
    /// Do this IO, answer both commands when it is done, and tell `Subsystem::on_fused_completed`.
    Io(IoCommand),
}

/// What the subsystem wants without a command having asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this completion of a command that was `Action::Pending` or `Action::Storing`.
    Complete {
        /// On this queue.
        queue: QueueKey,
        /// The completion.
        cqe: Cqe,
    },
    /// As `Action::Fence`, for a command that was `Action::Storing`. Its queue may be gone; the fence is to be raised all the
    /// same.
    Fence {
        /// The queue of the command.
        queue: QueueKey,
        /// The namespace.
        nsid: u32,
        /// IO queues of the preempted hosts.
        queues: Vec<QueueKey>,
        /// The completion.
        cqe: Cqe,
    },
    /// Bring a namespace's reservations to stable storage, in place of what is stored of them, and call `Subsystem::on_stored`.
    Store {
        /// The namespace.
        nsid: u32,
        /// To be told to `on_stored`.
        ticket: u64,
        /// What to store; nothing is to be stored of them any more if `None`.
        saved: Option<SavedReservations>,
    },
    /// Forget this command, which was `Action::Pending`: a reset has taken it back, and it is not answered.
    Forget {
        /// On this queue.
        queue: QueueKey,
        /// The command.
        cid: u16,
    },
    /// Close this connection, and call `Subsystem::on_disconnect` for it when no command of it is on a device any more.
    CloseQueue {
        /// The connection.
        queue: QueueKey,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The host reset the controller; its IO queues end, its admin queue stays.
    ControllerReset,
    /// Nothing was heard from the host for its keep-alive timeout.
    KeepAliveTimeout,
    /// The controller's admin queue is gone.
    AdminQueueClosed,
    /// The host may not use the subsystem any more.
    AccessRevoked,
}

/// An IO that was checked: the namespace exists, the blocks are in it, the data has the right length, no reservation and no
/// access state forbids it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoCommand {
    /// The namespace.
    pub nsid: u32,
    /// What to do.
    pub op: IoOp,
    /// First block; the lowest one of a Deallocate, 0 of a Flush, the first of the destination of a Copy.
    pub lba: Lba,
    /// Blocks; the sum (at most `u32::MAX`) of a Deallocate, 0 of a Flush.
    pub blocks: u32,
    /// Must be on stable media when it completes.
    pub fua: bool,
    /// How urgent it is among this host's commands.
    pub priority: PriorityClass,
}

/// What an IO does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Reads into the reply's data.
    Read,
    /// Writes the command's data.
    Write,
    /// Makes all completed writes of the namespace stable.
    Flush,
    /// Writes zeroes.
    WriteZeroes {
        /// Deallocating the blocks will do, if they then read as zeroes.
        deallocate: bool,
    },
    /// Compares with the command's data; `Status::COMPARE_FAILURE` if it differs.
    Compare,
    /// Compares with the first command's data and writes the second one's if they are the same, with no other write to these
    /// blocks between the two.
    CompareAndWrite,
    /// Reads without moving data.
    Verify,
    /// Writes the blocks of these ranges, one after the other, from `lba` on. At least one range; none is empty, none of them
    /// overlaps what is written.
    Copy(Vec<BlockRange>),
    /// The blocks are no longer needed. At least one range; none is empty.
    Deallocate(Vec<BlockRange>),
}

/// A range of blocks of a Deallocate or Copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// First block.
    pub lba: Lba,
    /// Blocks; not zero.
    pub blocks: u32,
}

/// A host's own ordering of its IOs: class 0 is the most urgent of four.
///
/// It travels in the Access Latency bits (5:4) of the dataset management field of Read and Write: low is class 0, none
/// given is class 1, normal is class 2, idle is class 3. These bits are standard, hosts that do not know of classes leave
/// them 0 (Linux does, even in read-ahead), and nothing vendor specific has to be agreed upon. Commands without that field
/// are class 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriorityClass(u8);

impl PriorityClass {
    /// Of commands that say nothing.
    pub const UNSPECIFIED: PriorityClass = PriorityClass(1);

    /// The number, 0 to 3.
    pub const fn index(self) -> u8 {
        self.0
    }
}

impl From<AccessLatency> for PriorityClass {
    fn from(latency: AccessLatency) -> PriorityClass {
        PriorityClass(match latency {
            AccessLatency::Low => 0,
            AccessLatency::Unspecified => 1,
            AccessLatency::Normal => 2,
            AccessLatency::Idle => 3,
        })
    }
}
