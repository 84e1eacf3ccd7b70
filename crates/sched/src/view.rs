//! Views of a scheduler for display and monitors: plain values, copied out, never read back by a decision.

use crate::{Cost, Credit, Fragmentation, Refused};
use units::{ByteRate, Bytes, Nanos};

/// Load of the SSD as one kind of IO finds it (Gimbal §3.2).
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
    /// Pacing of IOs; `None` if they are not.
    pub pacing: Option<PacingView>,
    /// Estimated fragmentation of the flash; `None` unless IOs are charged by device time and the state of the flash.
    pub fragmentation: Option<Fragmentation>,
    /// Device time in flight; `None` if that is not bounded.
    pub time_in_flight: Option<TimeInFlightView>,
}

/// A rate, and the token buckets that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingView {
    /// The rate at which IOs are let through.
    pub target_rate: ByteRate,
    /// The rate at which IOs completed when it was last measured; `None` while unknown.
    pub completion_rate: Option<ByteRate>,
    /// Bytes that the read bucket could pay now (zero while it is in debt).
    pub read_tokens: Bytes,
    /// Bytes that the write bucket could pay now (zero while it is in debt).
    pub write_tokens: Bytes,
}

/// The device time in flight, counted in bytes as costs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeInFlightView {
    /// As soon as this much is in flight, no IO goes.
    pub limit: Bytes,
    /// Device time in flight.
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
    /// Lag of the least-served tenant with backlog behind this one, in weighted bytes / weight. Always zero where the lag is
    /// not bounded.
    pub service_lag: Bytes,
    /// Why the next of its IOs has not been submitted yet; `None` if none waits.
    pub waits_for: Option<Wait>,
    /// State of its objective; `None` without one, or if the scheduler keeps no such records.
    pub objective: Option<ObjectiveView>,
}

impl TenantView {
    /// Whether it has as many IOs outstanding as its credit allows: a host that keeps to credits sends no more.
    pub fn has_used_up_its_credit(&self) -> bool {
        let Credit(credit) = self.credit;
        credit > 0 && self.queued + self.in_flight >= credit as usize
    }
}

/// The reason why a tenant's next IO waits in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A limit of the tenant's own forbids it.
    Limit,
    /// Others have their turns, or the tenant has its share of the SSD in flight.
    Share,
    /// The SSD has as much as it can take, and no other tenant uses it.
    Device,
}

/// State of a tenant's objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectiveView {
    /// Whether it is kept.
    pub state: ObjectiveState,
    /// The percentile of latency that the objective is about, over the last IOs for which it holds (a thousand at most), in the
    /// tenant's time; `None` before the first.
    pub latency: Option<Nanos>,
    /// IOs of the last five seconds or so for which it holds, and how many of them took longer than the bound.
    pub ios: u64,
    /// See `ios`.
    pub late: u64,
    /// Part of the SSD's time that is left to tenants without an objective, per cent: those that read, and those that write. 100
    /// is all they can get.
    pub left_to_others: [u8; 2],
}

/// Whether an objective is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveState {
    /// Too little was seen of the SSD, or of the tenant, to say.
    Unknown,
    /// It is kept.
    Kept,
    /// It was not kept in the last seconds; the limits on others are being lowered.
    Missed,
    /// It cannot be kept even with others at their least, so the limits on others are lifted. It is tried again later.
    Lost,
    /// It was refused.
    Refused(Refused),
}

impl ObjectiveView {
    /// Of an objective that was refused.
    pub(crate) fn refused(why: Refused) -> ObjectiveView {
        let state = ObjectiveState::Refused(why);
        ObjectiveView { state, latency: None, ios: 0, late: 0, left_to_others: [100; 2] }
    }
}
