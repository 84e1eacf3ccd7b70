//! One scheduler's run over the wire: a switch in this process, real NVMe/TCP connections to it on loopback.

use super::scenario::{self, Scheduler, TENANTS, switch_config};
use crate::bench::{self, Observer, Options, Results, Target};
use anyhow::{Context, Result, anyhow, ensure};
use std::time::Duration;
use target::config::Config;
use target::{Server, Shutdown};
use units::Nanos;

/// Before measuring: queues fill, rates and costs settle.
pub(super) const RAMP: Nanos = Nanos::secs(5);
/// Length of one point of the plots.
const INTERVAL: Nanos = Nanos::millis(500);
/// How long the switch may take to finish what it has.
const DRAIN_LIMIT: Duration = Duration::from_secs(20);

/// Runs the scenario for `seconds` and answers what each tenant measured.
pub(super) fn run(
    scheduler: Scheduler,
    speed: f64,
    seconds: u64,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Results> {
    let name = scheduler.name();
    let config = Config::parse(&switch_config(scheduler, speed))
        .map_err(|problems| anyhow!("the demo's configuration: {problems:?}"))?;
    let server = Server::start(config).with_context(|| format!("starting the switch with {name}"))?;
    let target = Target { address: server.addresses()[0], nqn: Some(scenario::NQN.into()) };
    let options = Options {
        runtime: Some(Nanos::secs(seconds)),
        ramp: RAMP,
        interval: INTERVAL,
        seed,
        ..Options::default()
    };
    let jobs: Vec<_> = TENANTS.iter().map(|tenant| tenant.job()).collect();
    let results = bench::run(&jobs, &target, &options, observer);
    let drained = server.shutdown(DRAIN_LIMIT);
    let results = results.with_context(|| format!("loading the switch with {name}"))?;
    ensure!(drained == Shutdown::Complete, "the switch with {name} did not finish within {DRAIN_LIMIT:?}");
    ensure!(results.is_clean(), "IOs failed with {name}; run again with RUST_LOG=debug to see why");
    Ok(results)
}
