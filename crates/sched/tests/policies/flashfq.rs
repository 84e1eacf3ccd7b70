//! FlashFQ's claims: equal parts of the device's time for any load; and a tenant with one IO at a time is not punished.

use crate::loads::{Got, Load, reader, serve_by, writer};
use sched::{Flashfq, FlashfqConfig, Io, IoId, IoKind, LinearCost, Mark, Next, Policy, Priority, Share};
use units::{Bytes, Instant, Nanos, TenantId};

/// Device time on a device with 8 units that an IO holds for 50 µs and 1 ns per byte; writes are taken to cost three times as
/// much.
pub(crate) fn small_device(depth: u32, throttle: Nanos, anticipation: Nanos) -> FlashfqConfig {
    let reads = LinearCost { base: Nanos(50_000 / 8), per_kib: Nanos(1024 / 8) };
    let writes = LinearCost { base: Nanos(3 * 50_000 / 8), per_kib: Nanos(3 * 1024 / 8) };
    FlashfqConfig { reads, writes, depth, throttle, anticipation }
}

fn default_device() -> FlashfqConfig {
    small_device(16, Nanos::micros(500), Nanos::micros(200))
}

fn serve(config: FlashfqConfig, loads: &[Load]) -> Vec<Got> {
    serve_by(Flashfq::new(config), loads, Nanos::secs(1)).1
}

/// Device time that a tenant had, per unit of its weight.
fn device_time(config: &FlashfqConfig, load: &Load, got: &Got) -> u64 {
    config.cost(load.kind, load.length).0 * got.ios / u64::from(load.share.weight)
}

fn assert_equal_time(config: &FlashfqConfig, loads: &[Load]) {
    let got = serve(*config, loads);
    let time: Vec<u64> = loads.iter().zip(&got).map(|(load, got)| device_time(config, load, got)).collect();
    let (least, most) = (time.iter().min().expect("tenants"), time.iter().max().expect("tenants"));
    assert!(most - least < most / 50, "device time {time:?} of {got:?}");
}

#[test]
fn backlogged_tenants_have_equal_parts_of_the_devices_time() {
    let loads = [
        reader(Bytes::kib(4), 32),
        reader(Bytes::kib(128), 8),
        writer(Bytes::kib(4), 32),
        writer(Bytes::kib(128), 4),
        reader(Bytes::kib(512), 64),
    ];
    assert_equal_time(&default_device(), &loads);
}

#[test]
fn parts_are_as_the_weights() {
    let mut loads = [reader(Bytes::kib(4), 32), reader(Bytes::kib(128), 32), writer(Bytes::kib(16), 32)];
    loads[1].share.weight = 3;
    loads[2].share.weight = 7;
    assert_equal_time(&default_device(), &loads);
}

#[test]
fn alone_a_tenant_has_the_whole_device() {
    let got = serve(default_device(), &[reader(Bytes::kib(128), 32)]);
    let most = 8 * 1_000_000_000 / (50_000 + 128 * 1024);
    assert!(got[0].ios > most * 98 / 100, "{got:?} of {most}");
}

/// Service of a tenant that keeps one IO outstanding and thinks 20 µs, together with one with a deep queue, and alone.
fn synchronous_reader(config: FlashfqConfig) -> (u64, u64) {
    let synchronous = Load { think: Nanos::micros(20), ..reader(Bytes::kib(4), 1) };
    let alone = serve(config, &[synchronous])[0].ios;
    let shared = serve(config, &[synchronous, reader(Bytes::kib(128), 64)])[0].ios;
    (shared, alone)
}

#[test]
fn a_synchronous_reader_is_not_punished() {
    let config = small_device(64, Nanos::micros(50), Nanos::micros(200));
    let (shared, alone) = synchronous_reader(config);
    assert!(shared * 2 > alone, "slowed down by more than the number of tenants: {shared} of {alone}");
    let (without, _) = synchronous_reader(FlashfqConfig { anticipation: Nanos::ZERO, ..config });
    assert!(without * 3 < alone, "nothing was wrong without anticipation: {without} of {alone}");
    assert!(shared > without * 3 / 2, "{shared} with anticipation, {without} without");
}

fn io(id: u64, tenant: u32, length: Bytes) -> Io {
    let (priority, mark) = (Priority::default(), Mark::default());
    Io { id: IoId(id), tenant: TenantId(tenant), priority, kind: IoKind::Read, length, mark }
}

/// Everything that may go now.
fn submitted(policy: &mut Flashfq, now: Instant) -> (Vec<u64>, Next) {
    let mut ids = Vec::new();
    loop {
        match policy.next(now) {
            Next::Submit(io) => ids.push(io.id.0),
            other => return (ids, other),
        }
    }
}

#[test]
fn nobody_runs_further_ahead_than_the_threshold() {
    let config = small_device(64, Nanos::micros(100), Nanos::millis(1));
    let mut policy = Flashfq::new(config);
    let now = Instant::ZERO;
    policy.on_arrival(now, io(0, 0, Bytes::kib(128)));
    for id in 1..64 {
        policy.on_arrival(now, io(id, 1, Bytes::kib(4)));
    }
    let (ids, next) = submitted(&mut policy, now);
    // The large IO moves its tenant on by 22.7 µs; an IO of 4 KiB costs 6.8 µs, and the last goes at 122.7 µs at the latest.
    let cost = config.cost(IoKind::Read, Bytes::kib(4)).0;
    let ahead = config.cost(IoKind::Read, Bytes::kib(128)).0 + config.throttle.0;
    assert_eq!(ids.len() as u64, 1 + ahead / cost + 1);
    assert_eq!(next, Next::Idle, "until the large IO ends");
}

#[test]
fn no_more_than_the_depth_are_inside() {
    let mut policy = Flashfq::new(small_device(4, Nanos::secs(1), Nanos::ZERO));
    for id in 0..32 {
        policy.on_arrival(Instant::ZERO, io(id, (id % 3) as u32, Bytes::kib(4)));
    }
    let (ids, next) = submitted(&mut policy, Instant::ZERO);
    assert_eq!((ids.len(), next), (4, Next::Idle));
}

#[test]
fn a_tenant_whose_ios_hang_is_not_waited_for() {
    let mut policy = Flashfq::new(small_device(2, Nanos::micros(1), Nanos::millis(1)));
    let now = Instant::ZERO;
    policy.on_arrival(now, io(0, 0, Bytes::kib(4)));
    assert_eq!(submitted(&mut policy, now).0, [0]);
    for id in 1..4 {
        policy.on_arrival(now, io(id, 1, Bytes::kib(128)));
    }
    assert_eq!(submitted(&mut policy, now).0, [1], "the second is too far ahead of the one that hangs");
    policy.on_overdue(now, TenantId(0));
    assert_eq!(submitted(&mut policy, now).0, [2], "the depth does not count what hangs either");
}

#[test]
fn a_weight_of_two_goes_twice_as_often() {
    let mut policy = Flashfq::new(small_device(64, Nanos::secs(1), Nanos::ZERO));
    policy.set_share(Instant::ZERO, TenantId(1), Share { weight: 2, ..Share::EQUAL });
    for id in 0..60 {
        policy.on_arrival(Instant::ZERO, io(id, (id % 2) as u32, Bytes::kib(4)));
    }
    let (ids, _) = submitted(&mut policy, Instant::ZERO);
    let heavy = ids[..30].iter().filter(|id| *id % 2 == 1).count();
    assert_eq!(heavy, 20, "{ids:?}");
}
