//! Input and output of a subsystem, other than the structures of the specification.
//!
//! The caller owns sockets, devices and time. It passes in every command and carries out the returned action:
//! send a completion, do an IO, or nothing yet. `Subsystem::poll` returns actions that no command has caused.

use super::reservation_terms::SavedReservations;
use crate::spec::dataset::AccessLatency;
use crate::spec::{AuthenticationCommand, Cqe, HostId, Nqn};
use alloc::vec::Vec;
use units::Lba;

/// The caller's identifier of a connection. The connection is a queue once its Connect has succeeded.
///
/// `slot` is an index into a table, so finding the queue of a command costs one load. Use small numbers and
/// reuse them, as a slab does. `generation` distinguishes connections that used the same slot one after the
/// other. It may stay 0 if the caller makes no call for a closed connection after its slot was reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueKey {
    /// Index in the caller's table of connections.
    pub slot: u32,
    /// Distinguishes connections that used the same slot.
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
    /// Entries of the queue: the most commands that may be outstanding.
    pub entries: u32,
    /// Whether the host turned submission queue flow control off; SQHD is then not used.
    pub flow_control_disabled: bool,
    /// The host's NQN.
    pub host_nqn: Nqn,
    /// The host's 128-bit identifier.
    pub host_id: HostId,
    /// Whether completions on this queue carry credits from the start: an IO queue of a host that has enabled
    /// credits.
    pub credits: bool,
}

/// The action to take for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this.
    Reply {
        /// The completion.
        cqe: Cqe,
        /// The data to send before it, never longer than the length in the command's descriptor. If it is
        /// shorter, zeroes follow. They are not stored: a host may request a megabyte of a page that has 64
        /// bytes.
        data: Option<Vec<u8>>,
    },
    /// Do this IO, complete the command when it is done, and call `Subsystem::on_io_completed`.
    Io(IoCommand),
    /// The host enabled or disabled credits for all queues of this controller, or read the setting. Put the
    /// tenant's current credit into dword 0 of the completion (leave it 0 if `enabled` is false) and send it.
    Credits {
        /// Whether completions carry credits from now on.
        enabled: bool,
        /// The completion.
        cqe: Cqe,
    },
    /// The host asks how many IO queues this controller may have. Find out how many fit, at least one and at
    /// most `queues`; pass the number to `Subsystem::on_queues_granted`, and send the completion that it
    /// returns.
    GrantQueues {
        /// Most that it may have.
        queues: u16,
        /// The completion.
        cqe: Cqe,
    },
    /// The host authenticates this queue anew. The data of a Send came with the command; a Receive is replied to with data. A caller
    /// that knows no key of the host refuses it with `Status::INVALID_OPCODE`.
    Authenticate(AuthenticationCommand),
    /// Another host was preempted with Preempt and Abort. Among the commands on `queues` for namespace
    /// `nsid`, complete those that have not reached a device with `Status::PREEMPTED_AND_ABORTED`, and wait
    /// for the others to end. Only then send `cqe`: the preempting host relies on it that no write of the
    /// preempted host follows.
    Fence {
        /// The namespace.
        nsid: u32,
        /// IO queues of the preempted hosts.
        queues: Vec<QueueKey>,
        /// The completion.
        cqe: Cqe,
    },
    /// The host wants this IO aborted. If it has not reached its device, complete it with
    /// `Status::ABORT_REQUESTED` and then send `cqe`. If it has, or if there is no such IO, send `cqe` with
    /// `abort_failed`.
    Abort {
        /// The IO's queue.
        queue: QueueKey,
        /// The IO's identifier.
        cid: u16,
        /// The completion of the Abort.
        cqe: Cqe,
    },
    /// Nothing now. `Subsystem::poll` returns the completion when there is an event to report.
    Pending,
    /// Nothing now. `Subsystem::poll` returns the completion when the changed reservations are stored.
    Storing,
}

/// The action to take for the two commands of a fused operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FusedAction {
    /// Send these two, the completion of the first command first.
    Reply([Cqe; 2]),
    /// Do this IO, complete both commands when it is done, and call `Subsystem::on_fused_completed`.
    Io(IoCommand),
}

/// An action that no command has caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this completion of a command that was `Action::Pending` or `Action::Storing`.
    Complete {
        /// The queue.
        queue: QueueKey,
        /// The completion.
        cqe: Cqe,
    },
    /// Like `Action::Fence`, for a command that was `Action::Storing`. Fence even if the command's queue no
    /// longer exists.
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
    /// Bring the reservations of a namespace to stable storage, replacing the stored ones, and call
    /// `Subsystem::on_stored`.
    Store {
        /// The namespace.
        nsid: u32,
        /// Pass it to `on_stored`.
        ticket: u64,
        /// The reservations to store. `None`: delete the stored ones.
        saved: Option<SavedReservations>,
    },
    /// Drop this command, which was `Action::Pending`, without a completion: a reset took it back.
    Forget {
        /// The queue.
        queue: QueueKey,
        /// The command.
        cid: u16,
    },
    /// Close this connection. Call `Subsystem::on_disconnect` when none of its commands is on a device any
    /// more.
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
    /// The host reset the controller. Its IO queues are closed, its admin queue stays.
    ControllerReset,
    /// The host sent nothing for its keep-alive timeout.
    KeepAliveTimeout,
    /// The controller's admin queue was closed.
    AdminQueueClosed,
    /// The host no longer has access to the subsystem.
    AccessRevoked,
}

/// An IO that passed all checks: the namespace exists, the blocks are in range, the data length is right, and
/// neither a reservation nor the access state forbids it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoCommand {
    /// The namespace.
    pub nsid: u32,
    /// The operation.
    pub op: IoOp,
    /// First block. Deallocate: the lowest block. Flush: 0. Copy: the first block of the destination.
    pub lba: Lba,
    /// Blocks. Deallocate: the sum, at most `u32::MAX`. Flush: 0.
    pub blocks: u32,
    /// The data must be on stable media when the command completes.
    pub fua: bool,
    /// Its priority among this host's commands.
    pub priority: PriorityClass,
}

/// The operation of an IO.
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
        /// Whether the blocks may be deallocated instead, if they then read as zeroes.
        deallocate: bool,
    },
    /// Compares with the command's data; fails with `Status::COMPARE_FAILURE` if it differs.
    Compare,
    /// Compares with the data of the first command. If equal, writes the data of the second. No other write
    /// to these blocks may happen in between.
    CompareAndWrite,
    /// Reads without transferring data to the host.
    Verify,
    /// Writes the blocks of these ranges, one after the other, starting at `lba`. At least one range. No
    /// range is empty or overlaps the destination.
    Copy(Vec<BlockRange>),
    /// Deallocates these ranges. At least one range; none is empty.
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

/// The host's priority for one of its IOs. There are four classes; class 0 is the most urgent.
///
/// The class comes from the Access Latency bits (5:4) of the dataset management field of Read and Write: low
/// is class 0, no hint is class 1, normal is class 2, idle is class 3. These bits are standard, so no vendor
/// specific agreement is needed. A host that does not use them leaves them 0 (Linux does, even for
/// read-ahead). Commands without that field are class 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PriorityClass(u8);

impl PriorityClass {
    /// Class of a command without a hint.
    pub const UNSPECIFIED: PriorityClass = PriorityClass(1);

    /// The class, 0 to 3.
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
