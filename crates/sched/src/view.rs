//! What a scheduler shows to people and monitors: plain values, copied out, never read back by a decision.

use crate::{Cost, Credit, Fragmentation};
use units::{ByteRate, Bytes, Nanos};

/// How loaded one kind of IO finds the SSD (Gimbal §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// Latency is below the lower threshold: there is room.
    Underutilised,
    /// Latency is between the lower and the current threshold: grow with care.
    Avoidance,
    /// Latency has passed the current threshold: queues are building up.
    Congested,
    /// Latency has passed the upper threshold: more was submitted than the SSD can do.
    Overloaded,
}

/// One latency monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorView {
    /// Moving average of the device latency; `None` before the first completion.
    pub ewma: Option<Nanos>,
    /// The current threshold.
    pub threshold: Nanos,
    /// The state after the last completion; `None` before the first.
    pub state: Option<Congestion>,
}

/// One SSD as its scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdView {
    /// Latency of reads.
    pub reads: MonitorView,
    /// Latency of writes.
    pub writes: MonitorView,
    /// Price of a written byte.
    pub write_cost: Cost,
    /// Tenants with backlog or IOs in flight.
    pub active_tenants: usize,
    /// How IOs are paced; `None` if they are not.
    pub pacing: Option<PacingView>,
    /// How fragmented the flash is found to be; `None` unless IOs are charged what they take of the SSD.
    pub fragmentation: Option<Fragmentation>,
    /// How much device time is in flight; `None` if that is not bounded.
    pub time_in_flight: Option<TimeInFlightView>,
}

/// A rate, and the token buckets that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingView {
    /// The rate at which IOs are let through.
    pub target_rate: ByteRate,
    /// The rate at which IOs completed when it was last measured; `None` while unknown.
    pub completion_rate: Option<ByteRate>,
    /// What the read bucket could pay now (zero while it is in debt).
    pub read_tokens: Bytes,
    /// What the write bucket could pay now (zero while it is in debt).
    pub write_tokens: Bytes,
}

/// The device time in flight, counted in bytes as costs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeInFlightView {
    /// As soon as this much is in flight, no IO goes.
    pub limit: Bytes,
    /// So much is in flight.
    pub in_flight: Bytes,
}

/// One tenant of one SSD as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantView {
    /// IOs that wait for submission.
    pub queued: usize,
    /// IOs submitted and not yet ended.
    pub in_flight: usize,
    /// Virtual slots with an IO in flight; zero under a scheduler without slots.
    pub slots_busy: u32,
    /// Virtual slots the tenant may use now; zero under a scheduler without slots.
    pub slots_allotted: u32,
    /// IOs the tenant may have outstanding.
    pub credit: Credit,
    /// How far the least-served tenant with backlog lags behind this one, in weighted bytes / weight. Always zero where the lag is
    /// not bounded.
    pub service_lag: Bytes,
}
