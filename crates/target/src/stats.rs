//! What a running target shows of itself: plain values, copied out.

use crate::histogram::Histogram;
use crate::switch::Measured;
use sched::{IoKind, SsdView, TenantView};
use units::{Bytes, Instant};

/// Everything, at one moment per SSD.
#[derive(Clone, Debug)]
pub struct Stats {
    /// In the order of the configuration.
    pub ssds: Vec<SsdStats>,
    /// Threads that carry connections and have no SSD.
    pub threads: Vec<ThreadStats>,
}

/// A thread that carries connections and has no SSD.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStats {
    /// Connections that it carries; they count as connections of their SSDs, too.
    pub connections: usize,
    /// Memory of data that arrives by them.
    pub memory: Bytes,
}

/// One SSD.
#[derive(Clone, Debug)]
pub struct SsdStats {
    /// The device's name.
    pub device: String,
    /// When, on the device's clock (an emulated SSD may run slower or faster than real time).
    pub at: Instant,
    /// What its scheduler knows about it; `None` if it measures nothing.
    pub view: Option<SsdView>,
    /// IOs that wait in the scheduler.
    pub queued: usize,
    /// IOs on the device.
    pub in_flight: usize,
    /// How many of these have been there for longer than `limits.hang_after`.
    pub hung: usize,
    /// How late IOs were known to be over, on the device's clock. An emulated SSD that is often late runs on a machine that does
    /// not keep up with it; a real one is never late.
    pub late: Histogram,
    /// Connections of subsystems at home on this SSD, whichever threads carry them.
    pub connections: usize,
    /// Memory that its thread has lent: data that was read, and data that arrives by the connections that it carries itself.
    pub memory: Bytes,
    /// Everybody who has used it, in no particular order.
    pub tenants: Vec<TenantStats>,
}

/// One tenant of one SSD. Counters only grow.
#[derive(Clone, Debug)]
pub struct TenantStats {
    /// The host's NQN.
    pub host: String,
    /// Where it stands in the scheduler; `None` if no such books are kept.
    pub view: Option<TenantView>,
    /// What was done for it.
    pub counters: Counters,
}

/// What was done for a tenant.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// IOs that read, and the bytes they moved.
    pub reads: Transferred,
    /// IOs that wrote, and the bytes they moved.
    pub writes: Transferred,
    /// Other IOs: flush, deallocate, write zeroes.
    pub others: u64,
    /// IOs of any kind that the device failed.
    pub errors: u64,
}

/// IOs of one kind.
#[derive(Clone, Debug, Default)]
pub struct Transferred {
    /// How many.
    pub ios: u64,
    /// How much.
    pub bytes: u64,
    /// Time on the device, on the device's clock.
    pub device_latency: Histogram,
    /// Time in the switch and on the device, on the machine's clock.
    pub total_latency: Histogram,
}

impl Counters {
    /// Counts an IO that was done.
    pub(crate) fn record(&mut self, measured: &Measured) {
        let transferred = match measured.io.kind {
            IoKind::Read => &mut self.reads,
            IoKind::Write => &mut self.writes,
            IoKind::Management => {
                self.others += 1;
                return;
            }
        };
        transferred.ios += 1;
        transferred.bytes += measured.io.length.get();
        transferred.device_latency.record(measured.device);
        transferred.total_latency.record(measured.total);
    }
}
