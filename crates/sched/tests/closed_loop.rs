//! Claims about whole loads under Gimbal: tenants that keep a fixed number of IOs outstanding.

mod loads;

use loads::{Got, Load, reader, serve_by, writer};
use sched::{DeviceConstants, Gimbal, GimbalConfig, Policy, Share};
use units::{ByteRate, Bytes, Instant, Nanos};

/// Runs the loads for `span` under Gimbal as published.
fn serve(loads: &[Load], span: Nanos) -> (Gimbal, Vec<Got>) {
    serve_by(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983)), loads, span)
}

#[test]
fn tenants_of_one_kind_get_the_same() {
    let (_, got) = serve(&[reader(Bytes::kib(4), 32); 6], Nanos::millis(500));
    let (least, most) = (got.iter().map(|got| got.bytes).min(), got.iter().map(|got| got.bytes).max());
    assert!(most <= least.map(|least| least + least / 100), "{got:?}");
}

#[test]
fn an_io_larger_than_the_bucket_does_not_starve() {
    let loads = [reader(Bytes::kib(4), 32), reader(Bytes::mib(2), 1), writer(Bytes::mib(2), 1)];
    let (_, got) = serve(&loads, Nanos::secs(2));
    for (tenant, got) in got.iter().enumerate() {
        assert!(got.ios > 10 && got.wait_max < Nanos::millis(400), "tenant {tenant}: {got:?}");
    }
}

#[test]
fn one_io_at_a_time_is_not_held_up_by_a_crowd() {
    let mut loads = vec![reader(Bytes::kib(128), 16); 7];
    loads.push(reader(Bytes::kib(4), 1));
    let (_, got) = serve(&loads, Nanos::millis(500));
    // Ahead of it lie at most a slot of each of the others and the IOs in the units.
    assert!(got[7].wait_max < Nanos::millis(4), "{:?}", got[7]);
}

#[test]
fn a_byte_limit_holds_beside_idle_capacity() {
    let limit_rate = Some(ByteRate::mib_per_sec(20));
    let limited = Load { share: Share { limit_rate, ..Share::EQUAL }, ..reader(Bytes::kib(4), 32) };
    let (_, got) = serve(&[limited], Nanos::secs(1));
    let expected = Bytes::mib(20).0;
    assert!(got[0].bytes.abs_diff(expected) < expected / 50, "{got:?}");
}

#[test]
fn an_io_limit_holds_beside_idle_capacity() {
    let limited =
        Load { share: Share { limit_iops: Some(700), ..Share::EQUAL }, ..reader(Bytes::kib(4), 32) };
    let (_, got) = serve(&[limited], Nanos::secs(1));
    assert!(got[0].ios.abs_diff(700) <= 5, "{got:?}");
}

#[test]
fn a_reservation_is_met_in_a_crowd() {
    let reserved = ByteRate::mib_per_sec(600);
    let mut loads = vec![reader(Bytes::kib(128), 8); 12];
    let (_, without) = serve(&loads, Nanos::secs(1));
    loads[0].share.reservation = Some(reserved);
    let (_, with) = serve(&loads, Nanos::secs(1));
    let bytes = [without[0].bytes, with[0].bytes];
    assert!(bytes[0] < reserved.0 * 3 / 4, "nothing was missing without a reservation: {bytes:?}");
    assert!(bytes[1] >= reserved.0 * 99 / 100, "{bytes:?}");
}

#[test]
fn a_reservation_in_a_slower_time_is_met_as_well() {
    // A second of the tenant is 50 ms of the scheduler's: 30 MiB of its seconds are 600 MiB of those.
    let second = Nanos::millis(50);
    let reserved = ByteRate::mib_per_sec(30);
    let mut loads = vec![reader(Bytes::kib(128), 8); 12];
    loads[0].share = Share { reservation: Some(reserved), second, ..Share::EQUAL };
    let (_, got) = serve(&loads, Nanos::secs(1));
    assert!(got[0].bytes >= reserved.0 * 20 * 99 / 100, "{:?}", got[0]);
}

#[test]
fn a_weight_is_worth_its_share_of_the_bandwidth() {
    let mut loads = [reader(Bytes::kib(128), 16); 2];
    loads[1].share.weight = 3;
    let (_, got) = serve(&loads, Nanos::secs(1));
    let (light, heavy) = (got[0].bytes * 3, got[1].bytes);
    assert!(light.abs_diff(heavy) < heavy / 10, "{got:?}");
}

#[test]
fn writes_that_the_device_absorbs_become_as_cheap_as_reads() {
    let (gimbal, _) = serve(&[writer(Bytes::kib(4), 1)], Nanos::millis(1700));
    let view = gimbal.ssd_view(Instant::ZERO + Nanos::secs(2)).expect("Gimbal measures the SSD");
    assert_eq!(view.write_cost, sched::Cost::ONE);
}

#[test]
fn pauses_between_ios_do_not_make_the_ssd_look_slow() {
    let length = Bytes::kib(128);
    // An IO takes 181 µs; the SSD then has nothing to do for five times as long.
    let thinks = Load { think: Nanos::millis(1), ..reader(length, 1) };
    let config =
        GimbalConfig { completion_window: Bytes::mib(1), ..GimbalConfig::published(DeviceConstants::DCT983) };
    let (gimbal, _) = serve_by(Gimbal::new(config), &[thinks], Nanos::millis(100));
    let view = gimbal.ssd_view(Instant::ZERO + Nanos::millis(200)).expect("Gimbal measures the SSD");
    let rate =
        view.pacing.and_then(|pacing| pacing.completion_rate).expect("more than a window has completed");
    let busy = ByteRate::measured(length, Nanos(50_000 + length.0)).expect("it takes a while");
    assert!(rate.0.abs_diff(busy.0) < busy.0 / 100, "{rate} measured, {busy} while it was busy");
}
