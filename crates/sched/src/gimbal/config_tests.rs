//! Claims about the constants: what is refused, and how the variants differ.

extern crate std;

use super::*;
use std::vec::Vec;

const DEVICE: DeviceConstants = DeviceConstants::DCT983;

/// A change of the constants that is still accepted, one that no longer is, and a word of what is said then.
type Bound = (fn(&mut GimbalConfig), fn(&mut GimbalConfig), &'static str);

#[test]
fn every_bound_is_the_last_number_that_is_accepted() {
    let bounds: Vec<Bound> = std::vec![
        (
            |c| c.device.thresh_min.0 = c.device.thresh_max.0 - 1,
            |c| c.device.thresh_min = c.device.thresh_max,
            "below thresh_max"
        ),
        (
            |c| c.device.thresh_max = Nanos::secs(3600),
            |c| c.device.thresh_max.0 = 3_600_000_000_001,
            "an hour"
        ),
        (
            |c| c.device.write_cost_best = Cost::ONE,
            |c| c.device.write_cost_best = Cost::ratio(65_535, 65_536),
            "at least 1"
        ),
        (
            |c| c.device.write_cost_best = Cost::ratio(9, 1),
            |c| c.device.write_cost_best = Cost::ratio(19, 2),
            "write_cost_worst"
        ),
        (|c| c.device.slots = 1, |c| c.device.slots = 0, "one slot"),
        (|c| c.device.slots = 1 << 14, |c| c.device.slots = (1 << 14) + 1, "65536"),
        (|c| c.device.rate_min = ByteRate(1), |c| c.device.rate_min = ByteRate(0), "rate_min must be above"),
        (
            |c| c.device.rate_min = c.device.rate_max,
            |c| c.device.rate_min.0 = c.device.rate_max.0 + 1,
            "exceed rate_max"
        ),
        (
            |c| c.device.rate_max = ByteRate(1 << 40),
            |c| c.device.rate_max = ByteRate((1 << 40) + 1),
            "1 TiB/s"
        ),
        (|c| c.latency_weight = Halvings(16), |c| c.latency_weight = Halvings(17), "weights"),
        (|c| c.threshold_weight = Some(Halvings(16)), |c| c.threshold_weight = Some(Halvings(17)), "weights"),
        (|c| c.completion_window = Bytes(1), |c| c.completion_window = Bytes(0), "completion window"),
        (|c| c.bucket_depth = Bytes(1), |c| c.bucket_depth = Bytes(0), "hold something"),
        (|c| c.bucket_depth = Bytes::gib(1), |c| c.bucket_depth = Bytes((1 << 30) + 1), "at most 1 GiB"),
        (|c| c.write_cost_period = Nanos(1), |c| c.write_cost_period = Nanos(0), "period"),
        (|c| c.slot_size = Bytes(1), |c| c.slot_size = Bytes(0), "a slot must"),
        (|c| c.io_overhead = Bytes::gib(1), |c| c.io_overhead = Bytes((1 << 30) + 1), "overhead"),
        (|c| c.quantum = Bytes(1), |c| c.quantum = Bytes(0), "quantum"),
        (|c| c.slots_factor = 1, |c| c.slots_factor = 0, "slots_factor"),
        (|c| c.slots_per_tenant_min = 1, |c| c.slots_per_tenant_min = 0, "every tenant"),
        (
            |c| c.slots_per_tenant_min = 1 << 16,
            |c| c.slots_per_tenant_min = (1 << 16) + 1,
            "slots_per_tenant_min must be at most"
        ),
        (|c| c.lead_max = Some(Bytes::gib(1 << 10)), |c| c.lead_max = Some(Bytes((1 << 40) + 1)), "lead_max"),
        (
            |c| c.lead_catch_up = Bytes::gib(1 << 10),
            |c| c.lead_catch_up = Bytes((1 << 40) + 1),
            "lead_catch_up"
        ),
        (|c| c.class_quotas = [1; 4], |c| c.class_quotas[2] = 0, "quota"),
        (|c| c.slot_ios_initial = 1, |c| c.slot_ios_initial = 0, "at least one IO"),
    ];
    for (within, beyond, word) in bounds {
        let mut config = GimbalConfig::fair(DEVICE);
        within(&mut config);
        assert_eq!(config.check(), Ok(()), "{word}");
        let mut config = GimbalConfig::fair(DEVICE);
        beyond(&mut config);
        let said = config.check().expect_err(word);
        assert!(said.contains(word), "{said}: nothing of {word}");
    }
}

#[test]
fn what_is_wrong_with_window_and_costs_is_found_too() {
    let next = GimbalConfig::next(DEVICE, DeviceCosts::DCT983);
    assert_eq!(next.check(), Ok(()));
    let empty =
        WindowSizes { uniform: Bytes::ZERO, ..WindowSizes::of(DeviceCosts::DCT983.rate, DEVICE.thresh_min) };
    assert!(GimbalConfig { window: Some(empty), ..next }.check().is_err());
    let worthless = DeviceCosts { rate: ByteRate(0), ..DeviceCosts::DCT983 };
    assert!(GimbalConfig { costs: Some(worthless), ..next }.check().is_err());
}

/// The paper's values are given in its sections; ours differ where the documentation of the variants says so, and nowhere else.
#[test]
fn the_variants_differ_where_they_say() {
    let (paper, fair) = (GimbalConfig::paper(DEVICE), GimbalConfig::fair(DEVICE));
    assert_eq!((paper.device.write_cost_best, fair.device.write_cost_best), (Cost::ONE, Cost::ratio(5, 2)));
    assert_eq!((paper.latency_weight, fair.latency_weight), (Halvings(1), Halvings(4)));
    assert_eq!((paper.rate_growth, fair.rate_growth), (RateGrowth::Always, RateGrowth::WhilePacingBinds));
    assert_eq!((paper.slots(), fair.slots()), (8, 32));
    assert_eq!((paper.lead_max, fair.lead_max), (None, Some(Bytes::mib(1))));
    let back = GimbalConfig {
        device: paper.device,
        latency_weight: paper.latency_weight,
        rate_growth: paper.rate_growth,
        slots_factor: paper.slots_factor,
        lead_max: paper.lead_max,
        ..fair
    };
    assert_eq!(back, paper, "nothing else");
    let next = GimbalConfig::next(DEVICE, DeviceCosts::DCT983);
    assert_eq!((next.rate_start, next.lead_among), (DEVICE.rate_max, LeadAmong::BackloggedOrFull));
    assert_eq!((next.costs, next.lead_catch_up), (Some(DeviceCosts::DCT983), Bytes::kib(128)));
    assert!(next.window.is_some());
    let back = GimbalConfig {
        rate_start: fair.rate_start,
        costs: None,
        window: None,
        lead_among: fair.lead_among,
        lead_catch_up: fair.lead_catch_up,
        ..next
    };
    assert_eq!(back, fair, "nothing else");
}
