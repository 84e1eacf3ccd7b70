//! The demo's scenario: four tenants on one emulated SSD, as jobs for the wire and as a world in virtual time.

use loadgen::{Direction, Extent, Job, Rw};
use sched::{Calibration, Scheduler};
use sim::{Arrival, ClientChoice, Network, Pattern, PolicyChoice, TenantSpec, Workload, World};
use ssd::{Condition, Profile};
use units::{Bytes, Nanos};

/// The SSD: parameter set B of the model, in which reads soon overtake programs. `docs/paper-map.md` has the same
/// tenants on set A, which fits the measured drive better.
const PROFILE: &str = "dct983-b";
/// Number of workers of one kind that saturates the SSD.
const SATURATING_WORKERS: usize = 8;
/// Measured virtual time of a workload alone on the SSD, which is in steady state after a few milliseconds.
const ALONE: Window = Window { warm_up: Nanos::millis(100), duration: Nanos::millis(300) };
/// Seeds of the runs in virtual time. Without a scheduler these runs differ: a small reader's share of the bytes is
/// between 6.4 % and 8.7 %, depending on the seed. So a live run is compared with the range of several seeds.
const SEEDS: std::ops::Range<u64> = 0..8;

/// The schedulers that the demo runs, in the order in which they are shown; the others are compared with the first.
pub(super) const SCHEDULERS: [&Scheduler; 3] = [Scheduler::NONE, Scheduler::GIMBAL, Scheduler::LEVEL];

/// One tenant of the demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    /// Its name.
    pub(super) name: &'static str,
    /// Whether this is a tenant that the scheduler should protect.
    pub(super) small_reader: bool,
    rw: Rw,
    bs: Bytes,
    /// IOs outstanding per connection, and connections.
    depth: (u32, u32),
    /// The size of the part of the SSD that it uses, from the start; `None` is all.
    region: Option<Bytes>,
}

/// Two small readers (a database's 16 KiB pages), a large reader with a deep queue, and a writer that never stops.
pub(super) const TENANTS: [Tenant; 4] = [
    small_reader("small reader 1"),
    small_reader("small reader 2"),
    Tenant {
        name: "large reader",
        small_reader: false,
        rw: Rw::RandRead,
        bs: Bytes::kib(128),
        depth: (80, 2),
        region: None,
    },
    Tenant {
        name: "noisy writer",
        small_reader: false,
        rw: Rw::Write,
        bs: Bytes::kib(128),
        depth: (64, 1),
        region: Some(Bytes::gib(1)),
    },
];

const fn small_reader(name: &'static str) -> Tenant {
    Tenant { name, small_reader: true, rw: Rw::RandRead, bs: Bytes::kib(16), depth: (64, 1), region: None }
}

impl Tenant {
    /// The tenant as a job for the wire.
    pub(super) fn job(&self) -> Job {
        Job {
            rw: self.rw,
            bs: self.bs.into(),
            // As in the simulator.
            norandommap: true,
            iodepth: self.depth.0,
            numjobs: self.depth.1,
            size: self.region.map_or(Extent::Rest, Extent::Bytes),
            ..Job::named(self.name)
        }
    }

    /// The direction of its IOs.
    pub(super) fn direction(&self) -> Direction {
        if self.rw.writes() { Direction::Write } else { Direction::Read }
    }

    /// Its workload in fio's terms.
    pub(super) fn summary(&self) -> String {
        self.job().summary()
    }

    fn spec(&self) -> TenantSpec {
        let slots = |bytes: Bytes| (bytes.0 / Bytes::kib(4).0) as u32;
        let pattern = if self.rw.is_random() { Pattern::Random } else { Pattern::Sequential };
        let reads = if self.rw.writes() { 0 } else { 100 };
        let workload = Workload {
            arrival: Arrival::Closed { depth: self.depth.0 * self.depth.1 },
            region: self.region.map(|region| (0, slots(region))),
            ..Workload::closed(1, self.bs, reads, pattern)
        };
        TenantSpec::new(self.name, workload)
    }
}

/// One sentence that describes the scenario.
pub(super) fn description() -> String {
    let tenants: Vec<String> =
        TENANTS.iter().map(|tenant| format!("{} ({})", tenant.name, tenant.summary())).collect();
    format!("One emulated SSD ({PROFILE}, clean), shared over NVMe/TCP by {}.", tenants.join(", "))
}

/// The switch's configuration, as `gimbal serve -c` would read it.
pub(super) fn switch_config(scheduler: &Scheduler, speed: f64) -> String {
    include_str!("switch.toml").replace("{policy}", scheduler.name).replace("{speed}", &speed.to_string())
}

/// A span of the device's time: the warm-up, and the measured time after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) warm_up: Nanos,
    pub(super) duration: Nanos,
}

/// The bandwidth of each tenant's kind of work alone on the SSD, in bytes per second, in virtual time.
pub(super) fn standalone() -> Vec<f64> {
    let alone = |tenant: &Tenant| {
        let workers = vec![tenant.spec(); SATURATING_WORKERS];
        simulate(&world(PolicyChoice::none(), workers, ALONE, SEEDS.start)).bandwidth().0 as f64
    };
    TENANTS.iter().map(alone).collect()
}

/// Each tenant's share of the bytes in virtual time, over the same span of the device's time as in the live run; one
/// share for each seed.
pub(super) fn simulated_shares(scheduler: &Scheduler, window: Window) -> Vec<Vec<f64>> {
    let mut shares = vec![Vec::new(); TENANTS.len()];
    for seed in SEEDS {
        let tenants = TENANTS.iter().map(Tenant::spec).collect();
        let results = simulate(&world(policy(scheduler), tenants, window, seed));
        let total = results.bandwidth().0 as f64;
        for (shares, tenant) in shares.iter_mut().zip(&results.tenants) {
            shares.push(tenant.bandwidth(results.duration).0 as f64 / total);
        }
    }
    shares
}

fn policy(scheduler: &Scheduler) -> PolicyChoice {
    let compared = ::lab::scheduler::Scheduler::named(scheduler.name).expect("the lab has the whole table");
    let setup = compared.setup_with(&profile(), &Calibration::default());
    setup.expect("those of the demo need no calibration").policy
}

fn profile() -> Profile {
    Profile::named(PROFILE).expect("the profile is built in")
}

fn world(policy: PolicyChoice, tenants: Vec<TenantSpec>, window: Window, seed: u64) -> World {
    World {
        seed,
        profile: profile(),
        condition: Condition::Clean,
        policy,
        auxiliary: None,
        clients: ClientChoice::Credits,
        // Loopback at the demo's speed: a few tens of microseconds are a few on the device's clock.
        network: Network { delay: Nanos::micros(3), ..Network::RDMA_100G },
        tenants,
        warm_up: window.warm_up,
        duration: window.duration,
        interval: Nanos::millis(50),
    }
}

fn simulate(world: &World) -> sim::Results {
    sim::run(world).unwrap_or_else(|violation| panic!("the demo's world breaks a rule: {violation}"))
}
