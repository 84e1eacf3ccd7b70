//! Translates a run in virtual time to the same run on the wire: the switch's configuration, and a job for each tenant.
//!
//! | of the experiment | live |
//! |---|---|
//! | profile, condition, seed | the emulated SSD, as large as the modelled one, without data |
//! | scheduler | the one that `gimbal serve` calls by that name; its constants are the profile's, on the SSD's clock |
//! | tenant | a host NQN with one connection; weight, limit and reservation as `[[tenant]]` |
//! | `start`, `stop`, `warm_up`, `duration` | stretched |
//! | `rate_max`, `rate_iops` | divided |
//! | a sequential tenant's random start | `offset` (its phase) and the first step |
//!
//! Anything that has no counterpart is refused before anything runs: [`Inexpressible`] names case, group and key.
//!
//! Elsewhere: running it is `run`.

use super::slow::Slow;
use ::lab::experiment::{Case, Group};
use ::lab::scheduler::Scheduler;
use loadgen::{Arrival, Extent, Job, Options, Pacing, Rate, Rates, Rw};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{Calibration, Slo};
use server::config::{
    Backing, Condition, Config, DeviceKind, EmulatedConfig, Limits, ShareConfig, TenantConfig,
};
use sim::{Pattern, PolicyChoice, TenantSpec, World};
use ssd::SLOT_BYTES;
use std::net::{Ipv4Addr, SocketAddr};
use units::{ByteRate, Bytes, Instant, Nanos};

/// Time limit of an IO, in the SSD's time; longer means that something is broken.
const IO_TIMEOUT: Nanos = Nanos::secs(30);
/// Maximum total size of all tenants' buffers.
const MEMORY_MAX: Bytes = Bytes::gib(4);
/// Ends of connections per tenant: admin and IO queue, at the host and at the switch, which are one process here.
const DESCRIPTORS_PER_TENANT: u32 = 4;

/// A case that cannot be run live.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("case {case}, group {group}: {key}: cannot be run live: {problem}")]
pub(super) struct Inexpressible {
    case: String,
    group: String,
    key: &'static str,
    problem: String,
}

/// A live run.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// The switch. Its calibration, if the scheduler needs one, has no file yet.
    pub(super) config: Config,
    /// The scheduler's calibration, if it needs one.
    pub(super) calibration: Option<Calibration>,
    /// In the order of the tenants.
    pub(super) jobs: Vec<Job>,
    /// The lengths of the run in this machine's time, and other settings.
    pub(super) options: Options,
}

/// The same scheduler among those that `gimbal serve` offers.
pub(super) fn offered(scheduler: Scheduler) -> Option<&'static sched::Scheduler> {
    server::config::offered().find(|row| Some(*row) == scheduler.row())
}

/// The host NQN of a tenant.
pub(super) fn host_of(tenant: usize) -> String {
    format!("nqn.2025-01.io.gimbal:lab:tenant-{tenant}")
}

/// Checks whether a case can be run live.
///
/// # Errors
/// The first key for which there is no counterpart.
pub(super) fn check(case: &Case, slow: Slow) -> Result<(), Inexpressible> {
    let limits = Limits::default();
    let depth_max = u32::from(limits.queue_depth) - 1;
    for group in &case.groups {
        let refuse = |key, problem: String| {
            Err(Inexpressible { case: case.name.clone(), group: group.name.clone(), key, problem })
        };
        let workload = &group.workload;
        let Some(bs) = workload.sizes.only() else {
            return refuse("bs", "a stream has IOs of one size".to_owned());
        };
        if bs > limits.transfer_max {
            return refuse("bs", format!("a command moves no more than {}", limits.transfer_max));
        }
        if workload.pattern == Pattern::Sequential && !matches!(workload.read_percent, 0 | 100) {
            let problem =
                "a sequential mix has one position in the simulator, and one for each direction here";
            return refuse("rw", problem.to_owned());
        }
        match workload.arrival {
            sim::Arrival::Closed { depth } if depth > depth_max => {
                return refuse("iodepth", format!("a connection has no more than {depth_max} outstanding"));
            }
            sim::Arrival::Open { .. } if workload.rate_max.is_some() => {
                return refuse("rate_max", "an open loop has its own rate".to_owned());
            }
            _ => {}
        }
        let buffers = u64::from(group.count) * u64::from(depth(group, depth_max)) * bs.get();
        if buffers > MEMORY_MAX.get() {
            return refuse("iodepth", format!("its buffers would take more than {MEMORY_MAX}"));
        }
        let first_pause = workload.rate_max.and_then(|rate| ByteRate(slow.rate(rate.0)).time_to_earn(bs));
        if first_pause.is_some_and(|pause| pause > slow.stretch(case.window.duration)) {
            return refuse("rate_max", "not one IO would be due in the whole run".to_owned());
        }
    }
    Ok(())
}

fn depth(group: &Group, depth_max: u32) -> u32 {
    match group.workload.arrival {
        sim::Arrival::Closed { depth } => depth,
        sim::Arrival::Open { .. } => depth_max,
    }
}

impl Live {
    /// Plans the counterpart of `world` with this scheduler. The case must have passed [`check`].
    pub(super) fn new(world: &World, row: &'static sched::Scheduler, slow: Slow) -> Live {
        let limits = Limits::default();
        let depth_max = u32::from(limits.queue_depth) - 1;
        let capacity = world.profile.geometry.capacity;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(world.seed);
        let mut jobs = Vec::with_capacity(world.tenants.len());
        for (number, tenant) in world.tenants.iter().enumerate() {
            jobs.push(job(number, tenant, capacity, depth_max, slow, &mut random));
        }
        let buffers = |job: &Job| 2 * u64::from(job.iodepth) * job.bs.largest().get();
        let all: Bytes = jobs.iter().map(|job| Bytes(buffers(job))).sum();
        let greatest = jobs.iter().map(buffers).max().unwrap_or_default();
        let mut config = Config::simple(
            DeviceKind::Emulated(EmulatedConfig {
                profile: world.profile.name.clone(),
                condition: match world.condition {
                    ssd::Condition::Clean => Condition::Clean,
                    ssd::Condition::Fragmented => Condition::Fragmented,
                },
                speed: slow.speed(),
                backing: Backing::None,
                seed: world.seed,
                ..EmulatedConfig::new(capacity)
            }),
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        );
        config.devices[0].scheduler.policy = row;
        let connections = DESCRIPTORS_PER_TENANT * world.tenants.len() as u32;
        // No tenant may wait for memory or a connection: the simulator has no such limits.
        config.limits = Limits {
            // Twice the need of all tenants plus that of the largest, because a tenant may hold as much as would still
            // be free.
            memory: limits.memory.max(Bytes(2 * (all.get() + greatest))),
            memory_per_connection: limits.memory_per_connection.max(Bytes(greatest)),
            connections: limits.connections.max(connections),
            connections_waiting: limits.connections_waiting.max(connections),
            hang_after: slow.stretch(IO_TIMEOUT),
            ..limits
        };
        config.tenants =
            world.tenants.iter().enumerate().map(|(number, tenant)| share(number, tenant, slow)).collect();
        let options = Options {
            runtime: Some(slow.stretch(world.duration)),
            ramp: slow.stretch(world.warm_up),
            interval: slow.stretch(world.interval),
            seed: world.seed,
            io_timeout: slow.stretch(IO_TIMEOUT),
            ..Options::default()
        };
        Live { config, calibration: calibration(&world.policy), jobs, options }
    }

    /// The length of the run in this machine's time.
    pub(super) fn span(&self) -> Nanos {
        self.options.ramp + self.options.runtime.unwrap_or_default()
    }
}

fn job(
    number: usize,
    tenant: &TenantSpec,
    capacity: Bytes,
    depth_max: u32,
    slow: Slow,
    random: &mut Xoshiro256PlusPlus,
) -> Job {
    let workload = &tenant.workload;
    let bs = workload.sizes.only().expect("the case was checked");
    let region = match workload.region {
        Some((first, end)) => (Bytes(u64::from(first) * SLOT_BYTES), Bytes(u64::from(end) * SLOT_BYTES)),
        None => (Bytes::ZERO, capacity),
    };
    let (mut offset, mut first_step) = (region.0, 0);
    if workload.pattern == Pattern::Sequential {
        // As in the simulator, at any place, and so at any phase of the flash's pages.
        let slot = random.random_range(0..(region.1.get() - region.0.get()) / SLOT_BYTES);
        let slots_per_io = bs.get() / SLOT_BYTES;
        let phase = Bytes(slot % slots_per_io * SLOT_BYTES);
        if region.0 + phase + bs <= region.1 {
            offset = region.0 + phase;
            first_step = slot / slots_per_io;
        }
    }
    let since_start = |moment: Instant| slow.stretch(moment.since(Instant::ZERO));
    let strict = workload.rate_max.map(|rate| Pacing::Strict(ByteRate(slow.rate(rate.0))));
    let (iodepth, pacing) = match workload.arrival {
        sim::Arrival::Closed { depth } => (depth, strict.unwrap_or_default()),
        // As bytes per second, which are finer.
        sim::Arrival::Open { iops } => {
            let rate = Rate::Bytes(slow.rate(u64::from(iops) * bs.get()));
            (depth_max, Rates::open(rate, Arrival::Poisson))
        }
    };
    Job {
        host_nqn: Some(host_of(number)),
        rw: rw(workload.pattern, workload.read_percent),
        bs: bs.into(),
        iodepth,
        rwmixread: workload.read_percent,
        // As in the simulator.
        norandommap: true,
        pacing,
        offset,
        size: Extent::Bytes(Bytes(region.1.get() - offset.get())),
        first_step,
        credits: tenant.obeys_credit,
        start: since_start(tenant.start),
        stop: (tenant.stop != Instant::FAR_FUTURE).then(|| since_start(tenant.stop)),
        ..Job::named(&tenant.name)
    }
}

fn rw(pattern: Pattern, read_percent: u8) -> Rw {
    match (pattern, read_percent) {
        (Pattern::Random, 100) => Rw::RandRead,
        (Pattern::Random, 0) => Rw::RandWrite,
        (Pattern::Random, _) => Rw::RandRw,
        (Pattern::Sequential, 100) => Rw::Read,
        (Pattern::Sequential, 0) => Rw::Write,
        (Pattern::Sequential, _) => Rw::Rw,
    }
}

/// Rates and objectives are scaled like everything else, because a target keeps them in real time.
fn share(number: usize, tenant: &TenantSpec, slow: Slow) -> TenantConfig {
    let share = &tenant.share;
    let rate = |rate: ByteRate| ByteRate(slow.rate(rate.0));
    let share = ShareConfig {
        weight: share.weight,
        limit_iops: share.limit_iops.map(|iops| slow.rate(iops)),
        limit_rate: share.limit_rate.map(rate),
        reservation: share.reservation.map(rate),
        slo: share.slo.map(|slo| Slo {
            iops: slow.rate(slo.iops),
            latency: slow.stretch(slo.latency),
            ..slo
        }),
    };
    TenantConfig::with(&host_of(number), share)
}

/// The calibration that `gimbal serve` would read from a file.
fn calibration(policy: &PolicyChoice) -> Option<Calibration> {
    match policy {
        PolicyChoice::Ready(setup) if setup.scheduler().needs_calibration() => {
            Some(Calibration { description: "as in virtual time".to_owned(), ..setup.calibration() })
        }
        PolicyChoice::Ready(_) | PolicyChoice::Measured(_) => None,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
