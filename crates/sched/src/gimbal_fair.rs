//! `gimbal-fair`: Gimbal as published, with five repairs. The default until `level` is.
//!
//! Measured on the model of a clean DCT983 (set B): two readers of 16 KiB, one of 128 KiB and a sequential writer of 128 KiB, all
//! with deep queues; f-Util (1 is an equal share of what the device can do for that load) of small reader, large reader, writer,
//! after 2 s:
//!
//! | | small | large | writer | together |
//! |---|---|---|---|---|
//! | as published | 0.60 | 0.62 | 2.60 | 2329 MB/s |
//! | **repaired** | 1.17 | 1.15 | 1.13 | 3194 MB/s |
//! | … without the bounded service lag | 0.91 | 0.98 | 2.03 | 2935 MB/s |
//! | … with as many slots as published | 0.74 | 0.85 | 1.04 | 2233 MB/s |
//! | … with α_D 1/2 | 1.14 | 1.13 | 1.11 | 3114 MB/s |
//! | … with the rate always growing | 1.17 | 1.15 | 1.13 | 3191 MB/s |
//! | … with `write_cost_best` 1 | 1.11 | 1.10 | 1.29 | 3120 MB/s |
//!
//! The price is latency: with four times the slots the 99th percentile of reads rises from 1.1 to 2.4 ms (27 ms without a scheduler).

use crate::device::first_wrong;
use crate::drr::{Place, Rules};
use crate::gimbal::slots::{SlotRules, Slots};
use crate::gimbal::{GimbalConfig, Halvings, Repairs, Switch};
use crate::level::ServiceLag;
use crate::{Credit, DeviceConstants, Mark};
use units::{Bytes, Instant, TenantId};

/// The constants of [`GimbalFair`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GimbalFairConfig {
    /// Gimbal's. Two differ from the published ones: the lowest write cost is the device's, which is what a written byte costs
    /// the SSD at its best; and α_D is 1/16, so that one or two slow 4 KiB reads do not look like an overload.
    pub gimbal: GimbalConfig,
    /// Slots to share out, in multiples of those of the device. Four: random reads that share with writes need more in flight to
    /// keep the flash busy, and at 1 a third of the bandwidth is left unused.
    pub slots_factor: u32,
    /// How much more service than the least-served tenant with backlog a tenant may have had and still be in the round. 1 MiB is
    /// eight quanta: loose enough that the round decides the order, tight enough to even out within milliseconds; 256 KiB and 4 MiB
    /// gave the same shares.
    pub lag_max: Bytes,
}

impl GimbalFairConfig {
    /// The standard values for this device.
    pub const fn new(device: DeviceConstants) -> GimbalFairConfig {
        let gimbal = GimbalConfig { device, latency_weight: Halvings(4), ..GimbalConfig::published(device) };
        GimbalFairConfig { gimbal, slots_factor: 4, lag_max: Bytes::mib(1) }
    }

    /// What is wrong with these constants, in words, if anything.
    pub fn check(&self) -> Result<(), &'static str> {
        self.gimbal.check()?;
        first_wrong(&[
            (self.slots_factor > 0, "slots_factor must be at least 1"),
            (self.slots() <= DeviceConstants::SLOTS_MAX, "slots times slots_factor must be at most 65536"),
            (self.lag_max <= ServiceLag::MAX_MAX, "lag_max must be at most 1 TiB"),
        ])
    }

    /// Virtual slots of the SSD, over all tenants.
    pub const fn slots(&self) -> u32 {
        self.gimbal.device.slots.saturating_mul(self.slots_factor)
    }
}

/// One SSD's repaired Gimbal.
pub type GimbalFair = Switch<FairRules>;

impl GimbalFair {
    /// A switch with nothing queued.
    ///
    /// # Panics
    /// If [`GimbalFairConfig::check`] finds fault with `config`.
    pub fn new(config: GimbalFairConfig) -> GimbalFair {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        Switch::with_rules(config.gimbal, FairRules::new(&config))
    }
}

/// Gimbal's slots, bounded service lag, and a target rate that grows only while pacing binds. Otherwise that rate climbs to its clamp
/// under any load that needs no pacing, and says nothing when congestion comes.
#[derive(Clone, Debug)]
pub struct FairRules {
    slots: SlotRules,
    lag: ServiceLag,
    /// The last instant at which an empty bucket delayed a tenant.
    paced_at: Option<Instant>,
}

impl FairRules {
    pub(crate) fn new(config: &GimbalFairConfig) -> FairRules {
        let device = DeviceConstants { slots: config.slots(), ..config.gimbal.device };
        let slots = SlotRules::new(&GimbalConfig { device, ..config.gimbal });
        FairRules { slots, lag: ServiceLag::new(config.lag_max, Bytes::ZERO), paced_at: None }
    }
}

impl Repairs for FairRules {
    #[inline]
    fn on_paced(&mut self, now: Instant) {
        self.paced_at = Some(now);
    }

    #[inline]
    fn may_grow(&self, submitted: Instant) -> bool {
        self.paced_at.is_some_and(|paced_at| paced_at >= submitted)
    }
}

impl Rules for FairRules {
    type Held = Slots;
    type Room = u32;

    #[inline]
    fn room(&self, weight: u32, active_weight: u64) -> u32 {
        self.slots.room(weight, active_weight)
    }

    #[inline]
    fn whole(&self) -> u32 {
        self.slots.whole()
    }

    #[inline]
    fn may_submit(&self, held: &Slots, allotment: u32) -> bool {
        self.slots.may_submit(held, allotment)
    }

    fn may_promote(&self, weight_max: u32, active_weight: u64) -> bool {
        self.slots.may_promote(weight_max, active_weight)
    }

    #[inline]
    fn on_submit(&mut self, id: TenantId, held: &mut Slots, weighted: Bytes, weight: u32) -> Mark {
        self.lag.on_submit(id, weighted, weight);
        self.slots.on_submit(id, held, weighted, weight)
    }

    #[inline]
    fn on_end(&mut self, held: &mut Slots, mark: Mark) {
        self.slots.on_end(held, mark);
    }

    #[inline]
    fn credit(&self, held: &Slots, allotment: u32) -> Credit {
        self.slots.credit(held, allotment)
    }

    fn slots(&self, held: &Slots, allotment: u32) -> [u32; 2] {
        self.slots.slots(held, allotment)
    }

    fn grow(&mut self, tenants: usize) {
        self.lag.grow(tenants);
    }

    #[inline]
    fn is_ahead(&self, id: TenantId) -> bool {
        self.lag.is_ahead(id)
    }

    #[inline]
    fn caught_up(&self) -> Option<TenantId> {
        self.lag.caught_up()
    }

    #[inline]
    fn on_move(&mut self, id: TenantId, place: Place) {
        self.lag.on_move(id, place);
    }

    #[inline]
    fn on_idle(&mut self, id: TenantId, _held: &Slots, _allotment: u32) {
        self.lag.on_idle(id, false);
    }

    fn on_overdue(&mut self, id: TenantId, _held: &mut Slots, waits: bool) {
        if waits {
            self.lag.excuse(id);
        }
    }

    fn forget(&mut self, id: TenantId) {
        self.lag.forget(id);
    }

    fn service_lag(&self, id: TenantId) -> Bytes {
        self.lag.behind(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;

    const DEVICE: DeviceConstants = DeviceConstants::DCT983;

    #[test]
    fn every_bound_is_the_last_number_that_is_accepted() {
        let most = Bytes::gib(1 << 10);
        let config = GimbalFairConfig::new(DEVICE);
        for (config, word) in [
            (GimbalFairConfig { slots_factor: 1 << 13, ..config }, None),
            (GimbalFairConfig { slots_factor: (1 << 13) + 1, ..config }, Some("slots times")),
            (GimbalFairConfig { slots_factor: 1, ..config }, None),
            (GimbalFairConfig { slots_factor: 0, ..config }, Some("slots_factor")),
            (GimbalFairConfig { lag_max: most, ..config }, None),
            (GimbalFairConfig { lag_max: most + Bytes(1), ..config }, Some("lag_max")),
        ] {
            match (config.check(), word) {
                (said, None) => assert_eq!(said, Ok(()), "{config:?}"),
                (said, Some(word)) => assert!(said.is_err_and(|said| said.contains(word)), "{said:?}"),
            }
        }
    }

    #[test]
    fn the_repairs_are_the_five_that_the_documentation_names() {
        let (published, fair) = (GimbalConfig::published(DEVICE), GimbalFairConfig::new(DEVICE));
        assert_eq!(fair.gimbal.device.write_cost_best, Cost::ratio(5, 2));
        assert_eq!(fair.gimbal.latency_weight, Halvings(4));
        assert_eq!((fair.slots(), fair.lag_max), (32, Bytes::mib(1)));
        let back = GimbalConfig {
            device: published.device,
            latency_weight: published.latency_weight,
            ..fair.gimbal
        };
        assert_eq!(back, published, "nothing else");
    }

    #[test]
    fn the_rate_grows_only_while_pacing_binds() {
        let mut rules = FairRules::new(&GimbalFairConfig::new(DEVICE));
        assert!(!rules.may_grow(Instant(100)), "nobody was held back");
        rules.on_paced(Instant(200));
        assert!(rules.may_grow(Instant(200)));
        assert!(!rules.may_grow(Instant(201)), "that IO was submitted after the hold-up");
    }
}
