//! Statistics of a running target: plain values, copied out.
//!
//! Elsewhere: `board` has the numbers of one SSD while its thread writes them, `beat` says whether a thread goes on.

pub(crate) mod beat;
pub(crate) mod board;
pub(crate) mod slow;

pub use board::TenantDetail;
pub use slow::{SLOW_MAX, SlowIo, SlowIos};

use crate::config::AccessState;
use crate::proof::RefusalCounts;
use crate::tenants::TenantName;
use measures::{Counter, Gauge, Histogram};
use sched::{BusyPeriod, SsdView, TenantView};
use std::collections::HashSet;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos};

/// All statistics. They are read while IOs go on, so two numbers may be of different moments, some microseconds apart.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// In the order of the configuration.
    pub ssds: Vec<SsdStats>,
    /// Threads that carry connections and have no SSD.
    pub threads: Vec<ThreadStats>,
    /// The thread that hosts reach first.
    pub acceptor: AcceptorStats,
    /// Hosts that did not prove who they are, by reason.
    pub refusals: RefusalCounts,
    /// The hosts that the configuration names.
    pub named: Arc<HashSet<String>>,
    /// The groups of namespaces that the configuration names, with their access states.
    pub groups: Arc<[(String, AccessState)]>,
    /// Whether the target is drained for maintenance.
    pub is_drained: bool,
}

/// A thread that carries connections and has no SSD.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStats {
    /// The time that its present turn has taken so far; see [`SsdStats::turn`].
    pub turn: Nanos,
    /// Its connections. They also count as connections of their SSDs.
    pub connections: usize,
    /// Memory in use for data that arrives by its connections.
    pub memory: Bytes,
}

/// The thread that accepts connections, and has them until their hosts have said what they want.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptorStats {
    /// The time that its present turn has taken so far; see [`SsdStats::turn`].
    pub turn: Nanos,
    /// Connections whose hosts are known, on all threads.
    pub connections: u64,
    /// Connections whose hosts are not known yet.
    pub handshakes: u64,
    /// Connections that were accepted since the start.
    pub accepted: u64,
}

/// The numbers of the acceptor while it runs.
#[derive(Debug, Default)]
pub(crate) struct AcceptorBoard {
    pub(crate) connections: Gauge,
    pub(crate) handshakes: Gauge,
    pub(crate) accepted: Counter,
}

impl AcceptorBoard {
    /// A copy; `turn` is the time that the present turn has taken so far.
    pub(crate) fn stats(&self, turn: Nanos) -> AcceptorStats {
        AcceptorStats {
            turn,
            connections: self.connections.get(),
            handshakes: self.handshakes.get(),
            accepted: self.accepted.get(),
        }
    }
}

/// One SSD.
#[derive(Clone, Debug, Default)]
pub struct SsdStats {
    /// The device's name.
    pub device: String,
    /// The moment, on the device's clock (an emulated SSD can run slower or faster than real time).
    pub at: Instant,
    /// The time that the present turn of its thread has taken so far, on the machine's clock; zero if the thread waits for something to do.
    /// A turn takes less than a millisecond; if this grows to seconds, the device hangs in a system call.
    pub turn: Nanos,
    /// Whether nothing has happened since the state was published: then all numbers are final.
    pub is_current: bool,
    /// The measurements of its scheduler; `None` if it measures nothing. This, the other fields that are no counts of IOs, and the tenants' views are at
    /// most 100 ms old, with more than 64 tenants up to a few seconds.
    pub view: Option<SsdView>,
    /// The SSD is slow now, whatever its scheduler; `None` if it is as usual. On the device's clock.
    pub busy: Option<BusyPeriod>,
    /// IOs that wait in the scheduler.
    pub queued: usize,
    /// IOs on the device.
    pub in_flight: usize,
    /// IOs that have been on the device for longer than `limits.hang_after`.
    pub hung: usize,
    /// Whether a flush has failed since the device was opened: what was written before may be lost.
    pub flush_failed: bool,
    /// How late completions were noticed, on the device's clock. An emulated SSD that is often late runs on a machine that is too slow
    /// for it; a real SSD is never late.
    pub late: Histogram,
    /// Connections of the subsystems that this SSD's thread serves, on any thread.
    pub connections: usize,
    /// Memory in use of its thread: for data that was read, and for data that arrives by its own connections.
    pub memory: Bytes,
    /// The scheduler's own reads, which measure the SSD. They belong to no tenant, and are in no other number here.
    pub extra_reads: ExtraReadStats,
    /// Turns of its thread that had more to do at once than one turn may.
    pub turns: TurnStats,
    /// Its auxiliary store; `None` if it has none.
    pub auxiliary: Option<AuxiliaryStats>,
    /// Its files; `None` if it is no directory.
    pub files: Option<FileStats>,
    /// The IOs of all tenants there ever were.
    pub all: Counters,
    /// All hosts that have connected since the target started, but for those whose place was needed for another one, and the namespaces that are tenants, in no
    /// particular order.
    pub tenants: Vec<TenantStats>,
}

/// The reads of a scheduler's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraReadStats {
    /// Given to the SSD.
    pub ios: u64,
    /// Their length.
    pub bytes: u64,
}

/// Turns of a thread that ended though there was more to do: connections are served in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnStats {
    /// Their number.
    pub cut: u64,
    /// The time of the longest.
    pub longest: Nanos,
}

/// The auxiliary store of an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxiliaryStats {
    /// Counters of its operations, and of data that the SSD does not have.
    pub counters: ais::Counters,
    /// Whether its device has failed: then nothing is diverted any more.
    pub has_failed: bool,
    /// The predicted bytes that the SSD's write buffer takes fast.
    pub room: Bytes,
    /// Whether the next 128 KiB are predicted to meet an exhausted buffer.
    pub is_exhausted: bool,
    /// The accuracy of such predictions.
    pub foresight: ais::Foresight,
}

/// The files of a directory. Counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Files in use.
    pub files: usize,
    /// Times that writes of a file have waited for a snapshot.
    pub holds: u64,
    /// Of these, those that have ended by their time limit.
    pub expired: u64,
    /// The time in which writes have waited.
    pub held: Nanos,
}

/// One tenant of one SSD. Counters only grow.
#[derive(Clone, Debug)]
pub struct TenantStats {
    /// The tenant: a host, or a namespace.
    pub tenant: TenantName,
    /// Its state in the scheduler; `None` if the scheduler keeps none.
    pub view: Option<TenantView>,
    /// Its IOs.
    pub counters: Counters,
    /// The time in which it waited.
    pub waits: Waits,
}

/// The time in which at least one IO of a tenant waited, by reason, on the machine's clock. It is sampled: the reason that holds when the tenant is looked
/// at counts until the next look. Several reasons can hold at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Others had their turns, or the tenant had its share of the SSD in flight.
    pub share: Nanos,
    /// A limit of its own.
    pub limit: Nanos,
    /// The SSD had as much as it can take, and no other tenant used it.
    pub device: Nanos,
    /// Memory for data that is read.
    pub memory: Nanos,
    /// It had as many IOs outstanding as its credit allows: a host that keeps to credits sends no more.
    pub credit: Nanos,
}

/// The IOs of a tenant.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Reads.
    pub reads: Transferred,
    /// Writes.
    pub writes: Transferred,
    /// Other IOs: flush, deallocate, write zeroes.
    pub others: u64,
    /// IOs of any kind that the device failed.
    pub errors: u64,
}

/// IOs of one kind.
#[derive(Clone, Debug, Default)]
pub struct Transferred {
    /// Their number.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time on the device, on the device's clock. By tenant it is empty unless [`TenantDetail::Device`] is asked for.
    pub device_latency: Histogram,
    /// Time in the switch and on the device, on the machine's clock.
    pub total_latency: Histogram,
}

impl Counters {
    /// Adds the IOs of another tenant.
    pub fn add(&mut self, other: &Counters) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.others += other.others;
        self.errors += other.errors;
    }
}

impl Transferred {
    fn add(&mut self, other: &Transferred) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.device_latency.add(&other.device_latency);
        self.total_latency.add(&other.total_latency);
    }
}

/// The numbers of a thread that carries connections and has no SSD, while it runs.
#[derive(Debug, Default)]
pub(crate) struct ThreadBoard {
    pub(crate) connections: Gauge,
    pub(crate) memory: Gauge,
}

impl ThreadBoard {
    /// A copy; `turn` is the time that the present turn has taken so far.
    pub(crate) fn stats(&self, turn: Nanos) -> ThreadStats {
        let (connections, memory) = (self.connections.get() as usize, Bytes(self.memory.get()));
        ThreadStats { turn, connections, memory }
    }
}
