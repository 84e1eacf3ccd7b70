//! One scheduler's run over the wire: a switch in this process, real NVMe/TCP connections to it on loopback.

use super::page::Page;
use super::scenario::{TENANTS, switch_config};
use crate::loopback::Loopback;
use anyhow::{Context, Result, anyhow};
use loadgen::{Observer, Options, Results};
use sched::Scheduler;
use server::config::Config;
use units::Nanos;

/// Warm-up: queues fill, rates and costs settle.
const RAMP: Nanos = Nanos::secs(5);
/// Warm-up that Level needs to measure the SSD, on the SSD's clock.
const LEARNING: Nanos = Nanos::secs(5);
/// Length of one point of the plots.
const INTERVAL: Nanos = Nanos::millis(500);

/// Length of the warm-up, in which nothing is measured.
pub(super) fn ramp(scheduler: &Scheduler, speed: f64) -> Nanos {
    if scheduler.learns { RAMP.max(Nanos((LEARNING.0 as f64 / speed) as u64)) } else { RAMP }
}

/// Runs the scenario for `seconds`, on `page` too, and returns the figures of each tenant.
pub(super) fn run(
    scheduler: &Scheduler,
    (speed, seconds, seed): (f64, u64, u64),
    page: Option<&Page>,
    observer: &mut dyn Observer,
) -> Result<Results> {
    let config = Config::parse(&switch_config(scheduler, speed))
        .map_err(|problems| anyhow!("the demo's configuration: {problems:?}"))?;
    let options = Options {
        runtime: Some(Nanos::secs(seconds)),
        ramp: ramp(scheduler, speed),
        interval: INTERVAL,
        seed,
        ..Options::default()
    };
    let jobs: Vec<_> = TENANTS.iter().map(|tenant| tenant.job()).collect();
    let run = || -> Result<Results> {
        let switch = Loopback::start(config)?;
        if let Some(page) = page {
            page.show(switch.server().remote());
        }
        let results = switch.load(&jobs, &options, observer)?;
        switch.end()?;
        Ok(results)
    };
    run().with_context(|| format!("the run with {}", scheduler.name))
}
