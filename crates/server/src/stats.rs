//! Statistics of a running target: plain values, copied out.

use crate::histogram::Histogram;
use crate::proof::RefusalCounts;
use sched::{BusyPeriod, IoKind, SsdView, TenantView};
use units::{Bytes, Instant, Nanos};

/// All statistics. Those of one SSD are of one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// In the order of the configuration.
    pub ssds: Vec<SsdStats>,
    /// SSDs whose threads did not reply in time: a device hangs in the kernel.
    pub silent: Vec<SilentSsd>,
    /// Threads that carry connections and have no SSD.
    pub threads: Vec<ThreadStats>,
    /// Hosts that did not prove who they are, by reason.
    pub refusals: RefusalCounts,
}

/// An SSD whose thread did not reply.
#[derive(Clone, Debug)]
pub struct SilentSsd {
    /// The device's name.
    pub device: String,
    /// Its last statistics; `None` if none were asked for since the target started or was reloaded.
    pub last: Option<SsdStats>,
}

/// A thread that carries connections and has no SSD.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStats {
    /// Its connections. They also count as connections of their SSDs.
    pub connections: usize,
    /// Memory in use for data that arrives by its connections.
    pub memory: Bytes,
}

/// One SSD.
#[derive(Clone, Debug)]
pub struct SsdStats {
    /// The device's name.
    pub device: String,
    /// The moment, on the device's clock (an emulated SSD can run slower or faster than real time).
    pub at: Instant,
    /// The measurements of its scheduler; `None` if it measures nothing.
    pub view: Option<SsdView>,
    /// The SSD is slow now, whatever its scheduler; `None` if it is as usual. On the device's clock.
    pub busy: Option<BusyPeriod>,
    /// IOs that wait in the scheduler.
    pub queued: usize,
    /// IOs on the device.
    pub in_flight: usize,
    /// IOs that have been on the device for longer than `limits.hang_after`.
    pub hung: usize,
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
    /// All tenants that have used it, in no particular order.
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

/// One tenant of one SSD. Counters only grow.
#[derive(Clone, Debug)]
pub struct TenantStats {
    /// The host's NQN.
    pub host: String,
    /// Its state in the scheduler; `None` if the scheduler keeps none.
    pub view: Option<TenantView>,
    /// Its IOs.
    pub counters: Counters,
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
    /// Time on the device, on the device's clock.
    pub device_latency: Histogram,
    /// Time in the switch and on the device, on the machine's clock.
    pub total_latency: Histogram,
}

impl Counters {
    /// Counts a completed IO.
    pub(crate) fn record(&mut self, kind: IoKind, length: Bytes, device: Nanos, total: Nanos) {
        let transferred = match kind {
            IoKind::Read => &mut self.reads,
            IoKind::Write => &mut self.writes,
            IoKind::Management => {
                self.others += 1;
                return;
            }
        };
        transferred.ios += 1;
        transferred.bytes += length.get();
        transferred.device_latency.record(device);
        transferred.total_latency.record(total);
    }
}
