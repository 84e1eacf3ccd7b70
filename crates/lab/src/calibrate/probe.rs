//! A probe: a short run of one kind of work, or of two together, on one SSD.

use crate::measure::{DirectionFigures, GroupMeasured, Measured};
use crate::plan::{Purpose, Run};
use crate::runner::{Broken, Images, Progress, run_all};
use crate::scheduler::Setup;
use sim::{Arrival, ClientChoice, Network, Pattern, PolicyChoice, TenantSpec, Workload, World};
use ssd::{Condition, Profile};
use units::{Bytes, Nanos};

/// Seed of the probes. One is enough, because probes measure capacities, not distributions. All probes share one
/// conditioned SSD.
const SEED: u64 = 1;
/// Time until writes have filled the buffer and garbage collection is steady.
const WARM_UP: Nanos = Nanos::millis(400);
const DURATION: Nanos = Nanos::millis(400);

/// A number of workers with the same work.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    pub(super) workload: Workload,
    pub(super) count: u32,
}

/// The load on the SSD, and the scheduler in front of it.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) condition: Condition,
    pub(super) workers: Vec<Workers>,
    pub(super) setup: Setup,
}

/// The results of the workers of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// IOs per second of all these workers together.
    pub(super) iops: f64,
    /// 95th percentile of their reads' latency seen from the network, µs; none without reads.
    pub(super) read_p95_us: Option<f64>,
}

/// Runs works on one profile.
pub(super) struct Probe<'a> {
    profile: &'a Profile,
    images: &'a Images,
    watch: &'a (dyn Fn(Progress<'_>) + Sync),
    duration: Nanos,
}

impl Workers {
    /// Closed loops that together reach the SSD's maximum for IOs of one size.
    pub(super) fn saturating(count: u32, kib: u64, read_percent: u8, pattern: Pattern) -> Workers {
        let depth = if kib < 64 { 32 } else { 4 };
        Workers { workload: Workload::closed(depth, Bytes::kib(kib), read_percent, pattern), count }
    }

    /// 4 KiB IOs at random moments, this many per second.
    pub(super) fn offering(iops: u32, read_percent: u8) -> Workers {
        let closed = Workload::closed(1, Bytes::kib(4), read_percent, Pattern::Random);
        Workers { workload: Workload { arrival: Arrival::Open { iops }, ..closed }, count: 1 }
    }
}

impl Work {
    /// These workers without a scheduler and without limits.
    pub(super) fn free(condition: Condition, workers: Workers) -> Work {
        let setup = Setup { policy: PolicyChoice::none(), auxiliary: None, clients: ClientChoice::Credits };
        Work { condition, workers: vec![workers], setup }
    }
}

impl Probe<'_> {
    pub(super) fn new<'a>(
        profile: &'a Profile,
        images: &'a Images,
        watch: &'a (dyn Fn(Progress<'_>) + Sync),
    ) -> Probe<'a> {
        Probe { profile, images, watch, duration: DURATION }
    }

    /// The same with probes of this length.
    pub(super) fn lasting(&self, duration: Nanos) -> Probe<'_> {
        Probe { duration, ..*self }
    }

    /// Runs all works, on all cores; `what` names the purpose. Results are in the order of the works, and of the
    /// workers within each.
    pub(super) fn run(&self, what: &str, works: &[Work]) -> Result<Vec<Vec<Outcome>>, Broken> {
        let runs: Vec<Run> = works.iter().map(|work| self.plan(what, work)).collect();
        let measured = run_all(&runs, self.images, self.watch)?;
        Ok(measured.iter().map(|measured| self.outcomes(measured)).collect())
    }

    fn outcomes(&self, measured: &Measured) -> Vec<Outcome> {
        measured.groups.iter().map(|group| Outcome::of(group, self.duration)).collect()
    }

    fn plan(&self, what: &str, work: &Work) -> Run {
        let tenants = work.workers.iter().flat_map(|workers| {
            std::iter::repeat_n(TenantSpec::new("probe", workers.workload.clone()), workers.count as usize)
        });
        Run {
            world: World {
                seed: SEED,
                profile: self.profile.clone(),
                condition: work.condition,
                policy: work.setup.policy.clone(),
                auxiliary: None,
                clients: work.setup.clients.clone(),
                network: Network::RDMA_100G,
                tenants: tenants.collect(),
                warm_up: WARM_UP,
                duration: self.duration,
                interval: self.duration,
            },
            purpose: Purpose::Maximum,
            counts: work.workers.iter().map(|workers| workers.count).collect(),
            label: format!("{}: {what}", self.profile.name),
        }
    }
}

impl Outcome {
    fn of(group: &GroupMeasured, duration: Nanos) -> Outcome {
        let ios = |figures: &Option<DirectionFigures>| figures.as_ref().map_or(0, |figures| figures.ios);
        Outcome {
            iops: (ios(&group.read) + ios(&group.write)) as f64 / duration.as_secs_f64(),
            read_p95_us: group.read.as_ref().map(|figures| figures.network.p95_us),
        }
    }
}
