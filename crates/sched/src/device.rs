//! Facts about an SSD that a scheduler needs: plain values, so that any profile format can fill them in.

use crate::Cost;
use units::{ByteRate, Nanos};

/// The constants of an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConstants {
    /// Latency at or below which the SSD is under-utilised.
    pub thresh_min: Nanos,
    /// Latency above which the SSD is overloaded.
    pub thresh_max: Nanos,
    /// Cost of a written byte at its best: the bandwidth of sequential reads / that of sequential writes. (As published it is 1,
    /// whatever the SSD: [`GimbalConfig::published`](crate::GimbalConfig::published).)
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
    /// Samsung DCT983: thresholds, worst cost and slots from the Gimbal paper (§3.2, §3.4, §3.5), clamp from the release; best cost
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
    /// The largest threshold. No device has a latency beyond it.
    pub const THRESHOLD_MAX: Nanos = Nanos::secs(3600);
    /// The largest rate: a hundred times as much as SSDs reach. All that comes in at this rate in the 584 years that an
    /// [`Instant`](units::Instant) can count stays far within the token buckets' 128 bits.
    pub const RATE_MAX: ByteRate = ByteRate::mib_per_sec(1 << 20);
    /// The most slots of an SSD, over all tenants: each holds an IO at least, and queues are shorter than that.
    pub const SLOTS_MAX: u32 = 1 << 16;

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        first_wrong(&[
            (self.thresh_min < self.thresh_max, "thresh_min must be below thresh_max"),
            (self.thresh_max <= DeviceConstants::THRESHOLD_MAX, "thresh_max must be at most an hour"),
            (self.write_cost_best >= Cost::ONE, "write_cost_best must be at least 1"),
            (
                self.write_cost_best <= self.write_cost_worst,
                "write_cost_best must not exceed write_cost_worst",
            ),
            (self.slots > 0, "there must be at least one slot"),
            (self.slots <= DeviceConstants::SLOTS_MAX, "slots must be at most 65536"),
            (self.rate_min > ByteRate(0), "rate_min must be above zero"),
            (self.rate_min <= self.rate_max, "rate_min must not exceed rate_max"),
            (self.rate_max <= DeviceConstants::RATE_MAX, "rate_max must be at most 1 TiB/s"),
        ])
    }
}

/// The first of the rules that does not hold.
pub(crate) fn first_wrong(rules: &[(bool, &'static str)]) -> Result<(), &'static str> {
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
}
