//! Promises of mClock and of SPDK's limits, and the shares that their tests use.

use crate::loads::{Got, Load, reader, serve_by, writer};
use crate::world::{Dice, World};
use sched::{Mclock, MclockConfig, Policy, Share, SpdkQos};
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// The shares of the tenants of a world: some have limits, some a reservation, all a weight.
pub(crate) fn shares(world: &World) -> Vec<Share> {
    let mut dice = Dice::new(!world.seed);
    let share = |_| Share {
        weight: 1 + dice.roll(5) as u32,
        limit_iops: (dice.roll(3) == 0).then(|| 1_000 + dice.roll(50_000)),
        limit_rate: (dice.roll(3) == 0).then(|| ByteRate(5_000_000 + dice.roll(1_000_000_000))),
        reservation: (dice.roll(3) == 0).then(|| ByteRate(5_000_000 + dice.roll(500_000_000))),
        ..Share::EQUAL
    };
    (0..world.tenants).map(share).collect()
}

/// The scheduler, told of these shares.
pub(crate) fn with_shares<P: Policy>(mut policy: P, world: &World) -> P {
    for (tenant, share) in (0..).zip(shares(world)) {
        policy.set_share(Instant::ZERO, TenantId(tenant), share);
    }
    policy
}

fn mclock(loads: &[Load]) -> Vec<Got> {
    // Fewer than the device takes at once, so that the rest waits where it is chosen.
    serve_by(Mclock::new(MclockConfig { depth: 8, ..MclockConfig::STANDARD }), loads, Nanos::secs(1)).1
}

fn assert_near(found: u64, expected: u64, per_cent: u64) {
    assert!(found.abs_diff(expected) * 100 <= expected * per_cent, "{found} instead of {expected}");
}

#[test]
fn mclock_divides_ios_by_weight() {
    let mut loads = [reader(Bytes::kib(4), 64), writer(Bytes::kib(4), 64), reader(Bytes::kib(4), 64)];
    loads[1].share.weight = 2;
    loads[2].share.weight = 5;
    let got = mclock(&loads);
    assert_near(got[1].ios, 2 * got[0].ios, 2);
    assert_near(got[2].ios, 5 * got[0].ios, 2);
}

#[test]
fn mclock_counts_a_large_io_for_several() {
    let got = mclock(&[reader(Bytes::kib(8), 64), reader(Bytes::kib(56), 64)]);
    // 1 + 8/8 against 1 + 56/8.
    assert_near(got[0].ios, 4 * got[1].ios, 2);
}

#[test]
fn mclock_keeps_reservations_and_limits() {
    let mut loads = [reader(Bytes::kib(4), 64); 3];
    loads[0].share.weight = 1;
    (loads[1].share.weight, loads[2].share.weight) = (100, 100);
    loads[0].share.reservation = Some(ByteRate(80_000_000));
    loads[1].share.limit_iops = Some(20_000);
    let got = mclock(&loads);
    assert!(got[0].bytes >= 79_000_000, "{got:?}");
    assert_near(got[1].ios, 20_000, 1);
    assert!(got[2].ios > 3 * got[1].ios, "the tenant without a limit gets the rest: {got:?}");
}

#[test]
fn mclock_does_not_punish_a_tenant_that_comes_back() {
    let thinks = Load { think: Nanos::micros(20), ..reader(Bytes::kib(4), 1) };
    let alone = mclock(&[thinks])[0].ios;
    let beside = mclock(&[thinks, reader(Bytes::kib(4), 64)])[0].ios;
    assert!(beside * 3 > alone, "{beside} of {alone}");
}

#[test]
fn spdk_limits_what_it_is_told_to() {
    let mut loads = [reader(Bytes::kib(4), 64), reader(Bytes::kib(64), 16), reader(Bytes::kib(4), 16)];
    loads[0].share.limit_iops = Some(25_000);
    loads[1].share.limit_rate = Some(ByteRate(100_000_000));
    let (_, got) = serve_by(SpdkQos::new(None), &loads, Nanos::secs(1));
    assert_near(got[0].ios, 25_000, 1);
    assert_near(got[1].bytes, 100_000_000, 1);
    assert!(got[2].ios > 2 * got[0].ios, "{got:?}");
}

#[test]
fn spdk_gives_a_rate_to_tenants_whether_they_use_it_or_not() {
    let rate = Some(ByteRate(400_000_000));
    let mut loads = [reader(Bytes::kib(4), 64), reader(Bytes::kib(4), 1)];
    loads[0].share.weight = 3;
    let (_, got) = serve_by(SpdkQos::new(rate), &loads, Nanos::secs(1));
    assert_near(got[0].bytes, 300_000_000, 1);
    assert!(got[1].bytes < 99_000_000, "it asks for less: {got:?}");
}
