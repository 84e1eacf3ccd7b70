//! How fast worlds run, and how that changes as tenants are added: the worlds, and the evaluation of their times. The caller that runs them
//! reads the clock.
//!
//! ```text
//!  16, 64, 256, 1,024 tenants ─► a world each, in turns, round after round ─► IOs of a whole run / its seconds
//! ```
//!
//! Holds: every completed IO counts, also in the warm-up, because it took time, too; the worlds differ only in the number of
//! tenants (`tests`).

use crate::findings::Spread;
use crate::scheduler::Setup;
use sim::{Network, Pattern, TenantSpec, Workload, World};
use ssd::{Condition, Profile};
use units::{Bytes, Nanos};

/// The default numbers of tenants.
pub const TENANTS: [u32; 4] = [16, 64, 256, 1024];
/// One tenant in this many does large reads.
const LARGE_AMONG: u32 = 5;
/// The warm-up is one part in this many of a run.
const WARM_UP: u64 = 10;
const SEED: u64 = 1;

/// A world of this many tenants on a clean SSD: four in five read 4 KiB with 32 outstanding, the others 128 KiB with 4.
pub fn world(profile: &Profile, setup: &Setup, tenants: u32, span: Nanos) -> World {
    let small = Workload::closed(32, Bytes::kib(4), 100, Pattern::Random);
    let large = Workload::closed(4, Bytes::kib(128), 100, Pattern::Random);
    let smalls = tenants - tenants.div_ceil(LARGE_AMONG);
    let work = |n: u32| if n < smalls { small.clone() } else { large.clone() };
    let warm_up = Nanos(span.0 / WARM_UP);
    let duration = Nanos(span.0 - warm_up.0);
    World {
        seed: SEED,
        profile: profile.clone(),
        condition: Condition::Clean,
        policy: setup.policy.clone(),
        auxiliary: None,
        clients: setup.clients.clone(),
        network: Network::RDMA_100G,
        tenants: (0..tenants).map(|n| TenantSpec::new(format!("tenant {n}"), work(n))).collect(),
        warm_up,
        duration,
        interval: duration,
    }
}

/// One world, run several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Its tenants.
    pub tenants: u32,
    /// IOs that completed in a run, warm-up included. The same in each run: it is the same world.
    pub ios: u64,
    /// The cost of each run.
    pub took: Vec<Took>,
}

/// The cost of a run, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Took {
    /// By the wall clock.
    pub wall: f64,
    /// Of processor time: less, if other processes ran meanwhile.
    pub processor: f64,
}

impl Pace {
    /// IOs per second by the wall clock.
    ///
    /// # Panics
    /// If it was never run.
    pub fn per_second(&self) -> Spread {
        self.rate(|took| took.wall)
    }

    /// IOs per second of processor time.
    ///
    /// # Panics
    /// If it was never run.
    pub fn per_processor_second(&self) -> Spread {
        self.rate(|took| took.processor)
    }

    fn rate(&self, seconds: fn(&Took) -> f64) -> Spread {
        let rates = self.took.iter().map(|took| self.ios as f64 / seconds(took));
        Spread::of(rates).expect("a world that was run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::Scheduler;
    use crate::ssds::CalibratedSsd;
    use sim::Arrival;
    use std::path::Path;

    fn made(tenants: u32) -> World {
        let ssd = CalibratedSsd::find("dct983", Path::new("")).expect("it is built in");
        let setup = Scheduler::LEVEL.setup(&ssd).expect("it needs no calibration");
        world(&ssd.profile, &setup, tenants, Nanos::millis(20))
    }

    #[test]
    fn one_tenant_in_five_is_a_large_one() {
        for (tenants, larges) in [(16, 4), (64, 13), (256, 52), (1024, 205)] {
            let world = made(tenants);
            let large = |spec: &&TenantSpec| matches!(spec.workload.arrival, Arrival::Closed { depth: 4 });
            assert_eq!(world.tenants.len(), tenants as usize);
            assert_eq!(world.tenants.iter().filter(large).count(), larges);
        }
    }

    #[test]
    fn worlds_differ_in_their_tenants_alone() {
        let (few, many) = (made(16), made(64));
        assert_eq!(
            format!("{:?}", World { tenants: vec![], ..few }),
            format!("{:?}", World { tenants: vec![], ..many })
        );
    }

    #[test]
    fn ios_of_the_warm_up_count() {
        let results = sim::run(&made(16)).unwrap_or_else(|violation| panic!("{violation}"));
        let measured: u64 = results.tenants.iter().map(|tenant| tenant.read.ios + tenant.write.ios).sum();
        assert!(
            measured > 0 && results.ios > measured,
            "{} came back, {measured} of them measured",
            results.ios
        );
    }

    #[test]
    fn the_pace_is_the_median_of_the_rounds() {
        let took = |wall| Took { wall, processor: 1.0 };
        let pace = Pace { tenants: 16, ios: 1000, took: [2.0, 1.0, 4.0].map(took).into() };
        assert_eq!(pace.per_second(), Spread { median: 500.0, least: 250.0, greatest: 1000.0 });
        assert_eq!(pace.per_processor_second(), Spread { median: 1000.0, least: 1000.0, greatest: 1000.0 });
    }
}
