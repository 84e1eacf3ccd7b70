//! Promises of Linux's io.cost: device time by weight, no more of it than passes, and none of it lost.

use crate::loads::{Got, Load, reader, serve_by, writer};
use proptest::prelude::*;
use sched::{IoCost, IoCostConfig, IoCostQos, IoCostRates, IoKind, Share};
use units::{ByteRate, Bytes, Nanos};

/// A model of half the speed of the tests' device, so that io.cost decides.
const CONFIG: IoCostConfig = IoCostConfig::new(
    IoCostRates { rate: ByteRate(1_000_000_000), random_iops: 60_000 },
    IoCostRates { rate: ByteRate(400_000_000), random_iops: 20_000 },
);
/// As fast as the model says, whatever the latencies are.
const STEADY: IoCostConfig =
    IoCostConfig { qos: IoCostQos { vrate_min: 100, vrate_max: 100, ..IoCostQos::STANDARD }, ..CONFIG };
const SECOND: Nanos = Nanos::secs(1);

/// Any model and any quality of service.
pub(crate) fn configs() -> impl Strategy<Value = IoCostConfig> {
    let rates = (1..4000u64, 1..800u64).prop_map(|(megabytes, thousands)| IoCostRates {
        rate: ByteRate(megabytes * 1_000_000),
        random_iops: thousands * 1000,
    });
    let qos = (0..101u8, 0..101u8, 1..20_000u64, 1..100u32, 100..400u32).prop_map(
        |(reads, writes, micros, least, most)| IoCostQos {
            read_percent: reads,
            read_latency: Nanos::micros(micros),
            write_percent: writes,
            write_latency: Nanos::micros(2 * micros),
            vrate_min: least,
            vrate_max: most,
        },
    );
    (rates.clone(), rates, qos, 1..60u32).prop_map(|(reads, writes, qos, nr_requests)| IoCostConfig {
        reads,
        writes,
        qos,
        nr_requests,
    })
}

/// Seconds of device time that a tenant got, by the definition of the model.
fn device_time(load: &Load, got: &Got) -> f64 {
    let rates = if load.kind == IoKind::Read { CONFIG.reads } else { CONFIG.writes };
    let page = 4096.0 / rates.rate.0 as f64;
    let base = (1.0 / rates.random_iops as f64 - page).max(0.0);
    got.ios as f64 * base + got.bytes as f64 / 4096.0 * page
}

fn device_times(loads: &[Load], config: IoCostConfig) -> Vec<f64> {
    let (_, got) = serve_by(IoCost::new(config), loads, SECOND);
    loads.iter().zip(&got).map(|(load, got)| device_time(load, got)).collect()
}

fn load() -> impl Strategy<Value = Load> {
    (any::<bool>(), 0..7u32, 1..6u32).prop_map(|(reads, size, weight)| {
        let load = if reads { reader(Bytes::kib(4 << size), 48) } else { writer(Bytes::kib(4 << size), 48) };
        Load { share: Share { weight, ..Share::EQUAL }, ..load }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn busy_tenants_have_device_time_by_weight(loads in prop::collection::vec(load(), 1..6)) {
        let times = device_times(&loads, STEADY);
        let all: f64 = times.iter().sum();
        // IOs in the device at the end have been paid for and not been counted.
        prop_assert!((0.93..1.03).contains(&all), "{} s of device time in a second", all);
        let weights: f64 = loads.iter().map(|load| f64::from(load.share.weight)).sum();
        for (load, time) in loads.iter().zip(&times) {
            let due = f64::from(load.share.weight) / weights;
            prop_assert!((time / all / due - 1.0).abs() < 0.06, "{} instead of {} of {:?}", time / all, due, times);
        }
    }
}

#[test]
fn a_tenant_that_uses_a_little_gives_the_rest_away() {
    let little = Load { think: Nanos::micros(400), ..reader(Bytes::kib(4), 1) };
    let loads = [little, reader(Bytes::kib(4), 64), writer(Bytes::kib(16), 64)];
    let times = device_times(&loads, STEADY);
    let alone = device_times(&[little], STEADY)[0];
    assert!(alone < 0.05 && times[0] > 0.9 * alone, "it is not held back: {times:?}, alone {alone}");
    assert!(times.iter().sum::<f64>() > 0.93, "and holds nobody back: {times:?}");
    assert!((times[1] / times[2] - 1.0).abs() < 0.05, "the others share what it leaves: {times:?}");
}

#[test]
fn a_tenant_that_is_done_leaves_everything_to_the_others() {
    // It asks once, and then not for the rest of the second.
    let once = Load { think: Nanos::secs(10), ..reader(Bytes::kib(4), 8) };
    let times = device_times(&[once, reader(Bytes::kib(64), 64)], STEADY);
    assert!(times[1] > 0.95, "{times:?}");
}

#[test]
fn time_passes_faster_while_somebody_waits_and_nothing_is_late() {
    let loads = [reader(Bytes::kib(4), 32), reader(Bytes::kib(4), 32)];
    let (policy, _) = serve_by(IoCost::new(CONFIG), &loads, Nanos::secs(3));
    assert_eq!(policy.vrate(), 1_500_000, "the device does twice of what the model says");
}

#[test]
fn time_passes_more_slowly_while_reads_are_late() {
    // The model claims ten times the speed of the device, so all IOs are in the device and wait there for 6.7 ms.
    let fast = IoCostRates { rate: ByteRate(100_000_000_000), random_iops: 10_000_000 };
    let config = IoCostConfig { reads: fast, writes: fast, ..CONFIG };
    let loads = [reader(Bytes::kib(4), 500), reader(Bytes::kib(4), 500)];
    let (policy, got) = serve_by(IoCost::new(config), &loads, Nanos::secs(3));
    assert_eq!(policy.vrate(), 500_000, "{got:?}");
    let waits = IoCostConfig { nr_requests: 64, ..config };
    let (policy, _) = serve_by(IoCost::new(waits), &loads, Nanos::secs(3));
    assert!(policy.vrate() < 100_000, "waiting for requests is a surer sign: {}", policy.vrate());
}
