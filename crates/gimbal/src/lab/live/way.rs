//! The network delay between a tenant and the switch on loopback, measured before the runs. The simulator uses it, and
//! it is printed.
//!
//! Two readers, one at a time, read from a device that completes at once. The difference between a large and a small
//! read is the cost of its bytes; the rest is the way there and back, and the work of both ends. Medians leave out
//! moments in which the machine did other work.

use super::slow::Slow;
use crate::loopback::Loopback;
use anyhow::Result;
use loadgen::{Direction, Job, Observer, Options, Rw};
use server::config::{Config, DeviceKind};
use sim::Network;
use std::net::{Ipv4Addr, SocketAddr};
use units::{ByteRate, Bytes, Nanos};

/// Sizes of the reads.
const SMALL: Bytes = Bytes::kib(4);
const LARGE: Bytes = Bytes::kib(128);
/// Long enough for thousands of reads of both sizes.
const RUNTIME: Nanos = Nanos::millis(400);
const RAMP: Nanos = Nanos::millis(100);

/// The measured way there and back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Median time of a read of 4 KiB.
    pub(super) small: Nanos,
    /// Median time of a read of 128 KiB.
    large: Nanos,
}

/// An observer that ignores all events.
struct Unobserved;

impl Observer for Unobserved {}

impl Way {
    /// Measures the delay.
    pub(super) fn measure() -> Result<Way> {
        let null = DeviceKind::Null { size: Bytes::gib(1) };
        let mut config = Config::simple(null, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        config.devices[0].scheduler.policy = sched::Scheduler::NONE;
        let switch = Loopback::start(config)?;
        let options = Options { runtime: Some(RUNTIME), ramp: RAMP, ..Options::default() };
        let median = |bs: Bytes| -> Result<Nanos> {
            let job = Job { rw: Rw::RandRead, bs: bs.into(), ..Job::named("way") };
            let results = switch.load(&[job], &options, &mut Unobserved)?;
            Ok(Nanos(results.jobs[0].tally(Direction::Read).service.value_at_quantile(0.5)))
        };
        let (small, large) = (median(SMALL)?, median(LARGE)?);
        switch.end()?;
        Ok(Way { small, large })
    }

    /// The delay in the SSD's time: half of it each way, and the bytes on the way back.
    pub(super) fn network(self, slow: Slow) -> Network {
        let bytes = LARGE.get() - SMALL.get();
        let longer = self.large.saturating_sub(self.small).get().max(1);
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(longer);
        let rate = u64::try_from(rate * u128::from(slow.factor())).unwrap_or(u64::MAX);
        let fixed = self.small.get().saturating_sub(longer * SMALL.get() / bytes);
        Network { delay: slow.shrink(Nanos(fixed / 2)), jitter: Nanos::ZERO, rate: ByteRate(rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_read_takes_as_long_as_the_measured_one_in_the_ssds_time() {
        let slow = Slow::parse("10").expect("it divides 1000");
        let way = Way { small: Nanos::micros(20), large: Nanos::micros(51) };
        let network = way.network(slow);
        let simulated = |length: Bytes| {
            network.delay + network.delay + network.rate.time_to_earn(length).expect("it carries something")
        };
        assert!(simulated(SMALL).get().abs_diff(2_000) < 5, "{}", simulated(SMALL));
        assert!(simulated(LARGE).get().abs_diff(5_100) < 5, "{}", simulated(LARGE));
    }
}
