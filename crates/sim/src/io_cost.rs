//! io.cost's six figures of an SSD, as its users measure them: one stream at a time on the idle device, as fast as it
//! goes.
//!
//! The kernel's tool (`iocost_coef_gen.py`) lets fio read and write in large pieces one after the other, and in pieces
//! of 4 KiB at random addresses, for two minutes each. So do we, on the very SSD of the run and in the present
//! condition of its flash, which an operator who runs the tool once cannot do; for a fraction of a second of reads, and
//! for three seconds of writes, of which the last one counts. The two figures of small sequential IOs are not measured:
//! a scheduler here sees no addresses.

use crate::checkers::Violation;
use crate::network::Network;
use crate::workload::{Pattern, Workload};
use crate::world::{ClientChoice, PolicyChoice, TenantSpec, World};
use sched::{IoCostConfig, IoCostRates};
use ssd::{Condition, Image};
use units::{ByteRate, Bytes, Nanos};

/// The streams do not depend on the run's seed.
const SEED: u64 = 1;
/// fio's queue depth, and its jobs where one does not saturate.
const DEPTH: u32 = 64;
const JOBS: usize = 4;
const LARGE: Bytes = Bytes::kib(256);
const SMALL: Bytes = Bytes::kib(4);

/// Facts about this SSD for io.cost.
///
/// # Errors
/// A rule of the simulator was broken.
pub fn io_cost_model(image: &Image) -> Result<IoCostConfig, Violation> {
    let rates = |read_percent| -> Result<IoCostRates, Violation> {
        let random_iops = stream(image, SMALL, read_percent, Pattern::Random)? / SMALL.0;
        let rate = ByteRate(stream(image, LARGE, read_percent, Pattern::Sequential)?);
        Ok(IoCostRates { rate, random_iops })
    };
    Ok(IoCostConfig::new(rates(100)?, rates(0)?))
}

/// Bytes per second of one stream.
fn stream(image: &Image, size: Bytes, read_percent: u8, pattern: Pattern) -> Result<u64, Violation> {
    let workload = Workload::closed(DEPTH, size, read_percent, pattern);
    let jobs = if pattern == Pattern::Random { JOBS } else { 1 };
    let (warm_up, duration) = match read_percent {
        100 => (Nanos::millis(100), Nanos::millis(200)),
        _ => (Nanos::secs(2), Nanos::secs(1)),
    };
    let world = World {
        seed: SEED,
        profile: image.profile().clone(),
        // Unused: the image has its own.
        condition: Condition::Clean,
        policy: PolicyChoice::none(),
        auxiliary: None,
        clients: ClientChoice::Credits,
        network: Network::RDMA_100G,
        tenants: (0..jobs).map(|_| TenantSpec::new("fio", workload.clone())).collect(),
        warm_up,
        duration,
        interval: duration,
    };
    Ok(crate::run_on(&world, world.policy.build(image)?, image)?.bandwidth().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ssd::Profile;

    #[test]
    fn the_figures_are_those_of_the_drive() {
        let profile = Profile::named("dct983").expect("a profile that comes with gimbal");
        let of = |condition| {
            io_cost_model(&Image::new(&profile, condition, 1)).unwrap_or_else(|broken| panic!("{broken}"))
        };
        let (clean, fragmented) = (of(Condition::Clean), of(Condition::Fragmented));
        // The data sheet: 3.0 GB/s and 540,000 reads of 4 KiB; 50,000 writes of 4 KiB once every block must be cleaned first.
        assert!((2_700_000_000..3_600_000_000).contains(&clean.reads.rate.0), "{clean:?}");
        assert!((350_000..600_000).contains(&clean.reads.random_iops), "{clean:?}");
        assert!((900_000_000..1_700_000_000).contains(&clean.writes.rate.0), "{clean:?}");
        assert!((20_000..80_000).contains(&fragmented.writes.random_iops), "{fragmented:?}");
        assert!(clean.writes.random_iops > fragmented.writes.random_iops, "{clean:?} {fragmented:?}");
    }
}
