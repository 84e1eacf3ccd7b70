//! A tenant's limits and objective are in real time, whatever the clock of the device.

use super::*;
use crate::config::Speed;
use sched::{Admitted, Percentile, Slo};
use units::ByteRate;

/// A hundredth, a twentieth, the real one, and faster.
const SPEEDS: [u32; 5] = [10, 50, 1000, 2500, 100_000];
const BEGIN: Instant = Instant(1_000_000_000);

fn clock(thousandths: u32) -> DeviceClock {
    DeviceClock::starting(BEGIN, Speed::from_thousandths(thousandths).expect("above zero"))
}

/// Pages that Alice reads in a second of real time in front of a device that completes everything at once, with a read always
/// waiting.
fn pages_per_second(share: Share, thousandths: u32) -> usize {
    let gimbal = Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983));
    let mut world = World::on_clock(Box::new(gimbal), Bytes::mib(4), clock(thousandths));
    world.switch.set_share(BEGIN, ALICE, share).expect("no objective to refuse");
    world.now = BEGIN;
    let (mut arrived, mut ended) = (0, 0);
    while world.now < BEGIN + Nanos::secs(1) {
        while arrived < ended + 16 {
            let work = Work::Read(page(arrived as u64));
            let slot = IoSlot::new(ALICE, Priority::default(), work, arrived as u32);
            super::arrive(&mut world.switch, world.now, slot);
            arrived += 1;
        }
        let before = ended;
        world.bench.borrow_mut().release();
        world.switch.run(world.now, &mut world.reactor, &mut world.pool);
        ended += super::ended(&mut world.switch).len();
        let is_quiet = before == ended && world.bench.borrow().held.is_empty();
        if is_quiet {
            world.now = world.switch.next_wake().expect("the limit ends");
        }
    }
    ended
}

#[test]
fn limits_are_in_real_time_whatever_the_devices_clock() {
    for thousandths in SPEEDS {
        let limit_iops = Share { limit_iops: Some(1000), ..Share::EQUAL };
        let pages = pages_per_second(limit_iops, thousandths);
        assert!(pages.abs_diff(1000) <= 3, "{pages} IOPS of 1000 at {thousandths}/1000 of the speed");
        let limit_rate = Share { limit_rate: Some(ByteRate(700 * PAGE)), ..Share::EQUAL };
        let pages = pages_per_second(limit_rate, thousandths);
        assert!(pages.abs_diff(700) <= 3, "{pages} pages/s of 700 at {thousandths}/1000 of the speed");
    }
}

#[test]
fn a_limit_survives_a_change_of_scheduler_in_real_time() {
    let gimbal = || Box::new(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983)));
    let mut world = World::on_clock(gimbal(), Bytes::mib(4), clock(50));
    world.now = BEGIN;
    let share = Share { limit_iops: Some(1000), ..Share::EQUAL };
    world.switch.set_share(BEGIN, ALICE, share).expect("no objective to refuse");
    world.switch.replace_policy(BEGIN, gimbal());
    (0..8).for_each(|tag| world.arrive(tag, ALICE, Work::Read(page(u64::from(tag)))));
    world.run();
    while !world.bench.borrow().held.is_empty() {
        world.bench.borrow_mut().release();
        world.run();
    }
    let wake = world.switch.next_wake().expect("six are left for later");
    let wait = wake.since(BEGIN);
    assert!(wait <= Nanos::millis(2), "the next one is due after {wait}, not after a thousandth of a second");
}

#[test]
fn an_objective_is_refused_in_real_time() {
    let point = |millis, tokens| SupplyPoint {
        latency_p95: Nanos::millis(millis),
        mixed: TokenRate::tokens_per_sec(tokens),
        read_only: TokenRate::tokens_per_sec(tokens),
    };
    let config = ReflexConfig::new(Millitokens::TOKEN, Millitokens::tokens(10), vec![point(1, 100_000)]);
    let mut world = World::on_clock(Box::new(Reflex::new(config)), Bytes::mib(4), clock(50));
    let mut promise = |iops, latency| {
        let (percentile, latency) = (Percentile::P95, Nanos::millis(latency));
        let slo = Some(Slo { iops, read_percent: 100, percentile, latency });
        world
            .switch
            .set_share(BEGIN, ALICE, Share { slo, ..Share::EQUAL })
            .map_err(|refused| refused.to_string())
    };
    assert_eq!(promise(5_000, 20), Ok(Admitted::Promised), "all that the SSD does in a second of real time");
    assert_eq!(
        promise(5_001, 20),
        Err("5001 tokens/s are asked for, but others have reserved 0 of 5000".to_owned())
    );
    assert_eq!(
        promise(1, 19),
        Err("a bound of 19.00 ms is stricter than 20.00 ms, the strictest that was calibrated".to_owned())
    );
}
