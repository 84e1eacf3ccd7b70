//! Every constant of the switch, with its source.
//!
//! Three kinds: what belongs to the *device* ([`DeviceConstants`] from a profile file, [`DeviceCosts`] from a calibration), what
//! the paper or the authors' released prototype fixes, and what is ours. [`GimbalConfig::paper`] is the algorithm as published;
//! [`GimbalConfig::fair`] is what the product runs: it differs in a few named ways, each with its reason and its measured
//! effect. [`GimbalConfig::next`] goes further, for an SSD that was calibrated.

use super::costs::DeviceCosts;
use super::window::WindowSizes;
use crate::Cost;
use units::{ByteRate, Bytes, Nanos};

/// What must be known about an SSD. Plain values, so that any profile format can fill them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConstants {
    /// Latency at or below which the SSD is under-utilised.
    pub thresh_min: Nanos,
    /// Latency above which the SSD is overloaded.
    pub thresh_max: Nanos,
    /// Cost of a written byte at its best. Paper §3.4: 1 ([`GimbalConfig::paper`] puts that in its place), as if the flash behind the buffer were never in the way of reads.
    /// Ours: the bandwidth of sequential reads / that of sequential writes.
    pub write_cost_best: Cost,
    /// Cost of a written byte when the SSD's buffer absorbs nothing: random-read IOPS / random-write IOPS.
    pub write_cost_worst: Cost,
    /// Virtual slots: the fewest 128 KiB sequential reads in flight that reach the SSD's full bandwidth.
    pub slots: u32,
    /// `target_rate` never falls below this.
    pub rate_min: ByteRate,
    /// `target_rate` never rises above this.
    pub rate_max: ByteRate,
}

impl DeviceConstants {
    /// Samsung DCT983: thresholds, worst cost and slots from the paper (§3.2, §3.4, §3.5), clamp from the release; best cost
    /// from 3.2 GB/s of sequential reads and 1.3 GB/s of sequential writes.
    pub const DCT983: DeviceConstants = DeviceConstants {
        thresh_min: Nanos::micros(250),
        thresh_max: Nanos::micros(1500),
        write_cost_best: Cost::ratio(5, 2),
        write_cost_worst: Cost::ratio(9, 1),
        slots: 8,
        rate_min: ByteRate::mib_per_sec(50),
        rate_max: ByteRate::mib_per_sec(4096),
    };
}

/// A weight of 1/2ⁿ, as moving averages use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halvings(pub u32);

/// When a completion may raise `target_rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateGrowth {
    /// On every uncongested completion (paper §3.2).
    Always,
    /// Only if an empty bucket held somebody back since the completed IO was submitted (ours). Otherwise the rate climbs
    /// to its clamp under any load that needs no pacing, and says nothing when congestion comes.
    WhilePacingBinds,
}

/// How tokens are split between the two buckets, the write cost being `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSplit {
    /// Reads to writes as c : 1 (paper §3.3).
    ByCost,
    /// As c × (weights of the tenants that read) : (weights of those that write) (ours). The paper's split is fair between
    /// reads and writes; a single writer beside three readers gets as much by it as the three together, and the round
    /// cannot mend that while the readers are bound by their own queue depth. On the model of a fragmented SSD it halved
    /// the excess of one 4 KiB writer; on a clean one the writer then had too little.
    ByCostAndTenants,
}

/// What the read bucket's overflow buys in the write bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOverflow {
    /// A token for a token (paper, Algorithm 4).
    Whole,
    /// While there are readers, a token for as many as the write cost; without readers a token for a token (ours). Readers
    /// who are bound by their own queue depth leave tokens, and a token for a token turns what a cheap read would have
    /// cost into a dear write: on the model of a clean SSD one writer then had 1.8 times its share and three readers a
    /// third of theirs, however the write cost stood.
    AtWriteCost,
}

/// When a period's slow writes make writes dearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCostRule {
    /// Mean above `thresh_max`, or above `thresh_min` in a period that also completed reads (release). The default:
    /// without readers nobody is hurt by writes that merely fill the device's queue, and with the other rule a
    /// writer alone is priced to the worst for its own queueing.
    SlowBesideReads,
    /// Mean above `thresh_min`, whoever else is there (a reading of the paper's text, §3.4).
    Slow,
}

/// What becomes of the deficit of a tenant that runs out of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredDeficit {
    /// It is lost (paper §3.5).
    Lost,
    /// It is kept (ours): a tenant of large or dear IOs is deferred more often, and losing what it had saved up costs it
    /// more than others (3.4× between readers and writers at a fixed cost of 9 in a prototype).
    Kept,
}

/// Whom the bounded lead is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadAmong {
    /// Tenants that have IOs waiting in the switch.
    Backlogged,
    /// Also those whose slots are all busy, or who have half of their part of the window in the SSD (ours). A client that keeps to
    /// its credit has nothing waiting in the switch then, and is held back all the same.
    BackloggedOrFull,
}

/// The switch's constants and options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GimbalConfig {
    /// What is known about the SSD.
    pub device: DeviceConstants,

    /// `target_rate` at start. Release: 1000 MiB/s.
    pub rate_start: ByteRate,
    /// α_D, the weight of a new latency in the average. Paper §3.2: 1/2. A larger exponent (ours) keeps one or two slow
    /// 4 KiB reads from looking like an overload.
    pub latency_weight: Halvings,
    /// α_T, how fast the threshold follows the latency down; `None`: it stands still at `thresh_max` (what the paper's
    /// figure 17 argues against). Release: 1/16.
    pub threshold_weight: Option<Halvings>,
    /// β, how much faster than in congestion avoidance an under-utilised SSD's rate grows. Paper §3.2: 8.
    pub underutilised_growth: u64,
    /// When the rate may grow. Paper: always.
    pub rate_growth: RateGrowth,
    /// Bytes completed per measurement of the completion rate. Release: 16 MiB.
    pub completion_window: Bytes,
    /// A measurement older than an idle spell of this length says nothing about the load that follows. Ours: 10 ms, a
    /// few times the latency of an overloaded SSD.
    pub completion_idle_max: Nanos,

    /// Depth of each of the two token buckets. Paper §3.3 and Appendix C.1: 256 KiB. Smaller (ours) bounds the burst
    /// that an idle SSD lets through.
    pub bucket_depth: Bytes,
    /// How tokens are split. Paper: by the cost alone.
    pub token_split: TokenSplit,
    /// What the read bucket's overflow buys. Paper: whole tokens.
    pub read_overflow: ReadOverflow,

    /// δ, by how much the write cost falls in a good period. Paper §3.4: 0.5.
    pub write_cost_step: Cost,
    /// How often the write cost is reconsidered. Release: 100 ms.
    pub write_cost_period: Nanos,
    /// When it rises.
    pub write_cost_rule: WriteCostRule,

    /// The fixed charge of an IO besides its length, for slots, deficit and service (buckets and reservations count the
    /// length alone): what a command costs the SSD, in bytes read. Paper: none, so that a byte is a byte whatever the size.
    /// 4 KiB makes readers of 4 KiB and of 128 KiB equal in f-Util on a clean DCT983 (0.88 and 0.89, where none gives 1.20
    /// and 0.62); readers of 16 KiB then have less than those of 128 KiB (1.06 and 1.27), so it is off in `fair` too.
    pub io_overhead: Bytes,
    /// What IOs cost the SSD, for slots, deficit and service (buckets count bytes). Paper: `None`, a byte read is a byte and one
    /// written as many as the write cost. With costs (ours) equal service is equal f-Util, whatever size and kind; `wear` says
    /// where between its ends the SSD is.
    pub costs: Option<DeviceCosts>,
    /// How much device time may be in flight, over all tenants, in place of tokens and slots. Paper: `None`; §3.3 bounds the rate and
    /// §3.5 what each tenant has in the SSD.
    pub window: Option<WindowSizes>,
    /// Weighted size at which a virtual slot closes; the IO that fills it may overshoot. Paper §3.5: 128 KiB.
    pub slot_size: Bytes,
    /// Deficit added per round to a tenant of weight 1. Paper §3.5: 128 KiB.
    pub quantum: Bytes,
    /// Slots to share out, in multiples of those that sequential reads need (`DeviceConstants::slots`). Paper §3.5: 1. Four
    /// (ours): random reads beside writes need more in flight to keep the flash busy, and at 1 a third of the bandwidth was
    /// left unused.
    pub slots_factor: u32,
    /// Slots that a tenant may always use, however many tenants are active. Paper §3.5: 1, which equalises bytes
    /// between small and large reads. Four (ours) let a reader of 128 KiB keep its queue in the SSD, and came closer to
    /// equal f-Util.
    pub slots_per_tenant_min: u32,
    /// The deficit of a deferred tenant. Paper §3.5: lost.
    pub deferred_deficit: DeferredDeficit,
    /// How much more service (weighted bytes / weight) than the least-served tenant with backlog a tenant may have had and
    /// still be in the round. Paper: no bound; then tenants that are out of slots most of the time get as much as their
    /// slots turn over, whatever their share. 1 MiB (ours) is eight quanta: loose enough that the round decides the order,
    /// tight enough to even out within milliseconds; 256 KiB and 4 MiB gave the same shares.
    pub lead_max: Option<Bytes>,
    /// Whom leads are measured against.
    pub lead_among: LeadAmong,
    /// How far below the least-served tenant one may be that comes back from having nothing to do. None in `fair`: nothing is saved
    /// up while away. A client held to one IO by its credit is away after each, though, and lost the most by it who was behind
    /// most: on the model of a clean SSD readers of 128 KiB had 4 % less than the writers beside them, and a seventh less than
    /// readers of 4 KiB. A quantum (ours) mends that.
    pub lead_catch_up: Bytes,
    /// IOs per class in one cycle of a tenant's own priorities. Release: 16/4/2/1.
    pub class_quotas: [u32; crate::Priority::CLASSES],

    /// IOs per slot assumed for the credit of a tenant none of whose slots has been freed yet. Release: 32 (4 KiB each).
    pub slot_ios_initial: u32,

    /// How far a tenant with a limit may run ahead of it after a pause, as a span of time. Ours: 1 ms.
    pub limit_burst: Nanos,
    /// How long a tenant with a reservation may save up unused reservation. Ours: 1 ms.
    pub reservation_burst: Nanos,
}

impl GimbalConfig {
    /// The largest threshold. A latency beyond it is no device's.
    pub const THRESHOLD_MAX: Nanos = Nanos::secs(3600);
    /// The largest `target_rate`: beyond what SSDs do by a factor of a hundred. What comes in at it in the 584 years that an
    /// [`Instant`](units::Instant) can tell stays far within the buckets' 128 bits.
    pub const RATE_MAX: ByteRate = ByteRate::mib_per_sec(1 << 20);
    /// The most slots of an SSD, over all tenants: each holds an IO at least, and queues are shorter than that.
    pub const SLOTS_MAX: u32 = 1 << 16;
    /// The largest fixed charge of an IO.
    pub const IO_OVERHEAD_MAX: Bytes = Bytes::gib(1);
    /// The largest bound of a lead: as good as none, and what one tenant may have had more than another fits its counter.
    pub const LEAD_MAX_MAX: Bytes = Bytes::gib(1 << 10);

    /// Gimbal as published; so is its lowest write cost, whatever that of `device`.
    pub const fn paper(device: DeviceConstants) -> GimbalConfig {
        GimbalConfig {
            device: DeviceConstants { write_cost_best: Cost::ONE, ..device },
            rate_start: ByteRate::mib_per_sec(1000),
            latency_weight: Halvings(1),
            threshold_weight: Some(Halvings(4)),
            underutilised_growth: 8,
            rate_growth: RateGrowth::Always,
            completion_window: Bytes::mib(16),
            completion_idle_max: Nanos::millis(10),
            bucket_depth: Bytes::kib(256),
            token_split: TokenSplit::ByCost,
            read_overflow: ReadOverflow::Whole,
            write_cost_step: Cost::ratio(1, 2),
            write_cost_period: Nanos::millis(100),
            write_cost_rule: WriteCostRule::SlowBesideReads,
            io_overhead: Bytes::ZERO,
            costs: None,
            slot_size: Bytes::kib(128),
            window: None,
            quantum: Bytes::kib(128),
            slots_factor: 1,
            slots_per_tenant_min: 1,
            deferred_deficit: DeferredDeficit::Lost,
            lead_max: None,
            lead_among: LeadAmong::Backlogged,
            lead_catch_up: Bytes::ZERO,
            class_quotas: [16, 4, 2, 1],
            slot_ios_initial: 32,
            limit_burst: Nanos::millis(1),
            reservation_burst: Nanos::millis(1),
        }
    }

    /// Gimbal as the product runs it: as published, but for four options. Measured on the model of a clean DCT983 (set B),
    /// two readers of 16 KiB, one of 128 KiB and a sequential writer of 128 KiB, all with deep queues; f-Util (1 is an equal
    /// share of what the device can do for that load) of small reader, large reader, writer, after 2 s:
    ///
    /// | | small | large | writer | together |
    /// |---|---|---|---|---|
    /// | as published | 0.60 | 0.62 | 2.60 | 2329 MB/s |
    /// | **fair**, `write_cost_best` 2.5 | 1.17 | 1.15 | 1.13 | 3194 MB/s |
    /// | … without `lead_max` | 0.91 | 0.98 | 2.03 | 2935 MB/s |
    /// | … with `slots_factor` 1 | 0.74 | 0.85 | 1.04 | 2233 MB/s |
    /// | … with α_D 1/2 | 1.14 | 1.13 | 1.11 | 3114 MB/s |
    /// | … with the rate growing always | 1.17 | 1.15 | 1.13 | 3191 MB/s |
    /// | … with `write_cost_best` 1 | 1.11 | 1.10 | 1.29 | 3120 MB/s |
    ///
    /// Growth hardly matters there; it keeps the rate meaningful where pacing does not bind. The price is latency: with four
    /// times the slots the 99th percentile of reads rises from 1.1 to 2.4 ms (27 ms without a scheduler).
    pub const fn fair(device: DeviceConstants) -> GimbalConfig {
        GimbalConfig {
            device,
            latency_weight: Halvings(4),
            rate_growth: RateGrowth::WhilePacingBinds,
            slots_factor: 4,
            lead_max: Some(Bytes::mib(1)),
            ..GimbalConfig::paper(device)
        }
    }

    /// As [`GimbalConfig::fair`], but IOs are charged what they take of the SSD, so that equal shares are equal f-Util, and no more of
    /// them are let in than keep it busy. Nothing is paced then: the target rate stands at its bound. Figures: `docs/paper-map.md`.
    pub const fn next(device: DeviceConstants, costs: DeviceCosts) -> GimbalConfig {
        GimbalConfig {
            rate_start: device.rate_max,
            costs: Some(costs),
            window: Some(WindowSizes::of(costs.rate, device.thresh_min)),
            lead_among: LeadAmong::BackloggedOrFull,
            lead_catch_up: Bytes::kib(128),
            ..GimbalConfig::fair(device)
        }
    }

    /// Virtual slots of the SSD, over all tenants.
    pub const fn slots(&self) -> u32 {
        self.device.slots.saturating_mul(self.slots_factor)
    }

    /// What is wrong with these constants, in words, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        let device = &self.device;
        let rules = [
            (device.thresh_min < device.thresh_max, "thresh_min must be below thresh_max"),
            (device.thresh_max <= GimbalConfig::THRESHOLD_MAX, "thresh_max must be at most an hour"),
            (device.write_cost_best >= Cost::ONE, "write_cost_best must be at least 1"),
            (
                device.write_cost_best <= device.write_cost_worst,
                "write_cost_best must not exceed write_cost_worst",
            ),
            (device.slots > 0, "there must be at least one slot"),
            (self.slots() <= GimbalConfig::SLOTS_MAX, "slots times slots_factor must be at most 65536"),
            (device.rate_min > ByteRate(0), "rate_min must be above zero"),
            (device.rate_min <= device.rate_max, "rate_min must not exceed rate_max"),
            (device.rate_max <= GimbalConfig::RATE_MAX, "rate_max must be at most 1 TiB/s"),
            (
                self.latency_weight.0 <= 16 && self.threshold_weight.is_none_or(|weight| weight.0 <= 16),
                "weights below 1/65536 do nothing",
            ),
            (self.completion_window > Bytes::ZERO, "the completion window must not be empty"),
            (self.bucket_depth > Bytes::ZERO, "the buckets must hold something"),
            (self.bucket_depth <= Bytes::gib(1), "the buckets must hold at most 1 GiB"),
            (self.write_cost_period > Nanos::ZERO, "the write-cost period must not be empty"),
            (self.slot_size > Bytes::ZERO, "a slot must hold something"),
            (
                self.io_overhead <= GimbalConfig::IO_OVERHEAD_MAX,
                "the overhead of an IO must be at most 1 GiB",
            ),
            (self.quantum > Bytes::ZERO, "the quantum must not be zero"),
            (self.slots_factor > 0, "slots_factor must be at least 1"),
            (self.slots_per_tenant_min > 0, "every tenant needs a slot"),
            (self.slots_per_tenant_min <= 1 << 16, "slots_per_tenant_min must be at most 65536"),
            (
                self.lead_max.is_none_or(|lead| lead <= GimbalConfig::LEAD_MAX_MAX),
                "lead_max must be at most 1 TiB",
            ),
            (self.lead_catch_up <= GimbalConfig::LEAD_MAX_MAX, "lead_catch_up must be at most 1 TiB"),
            (self.class_quotas.iter().all(|&quota| quota > 0), "every class needs a quota"),
            (self.slot_ios_initial > 0, "a slot holds at least one IO"),
        ];
        if let Some((_, wrong)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(wrong);
        }
        self.window.as_ref().map_or(Ok(()), WindowSizes::check)?;
        self.costs.as_ref().map_or(Ok(()), DeviceCosts::check)
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
