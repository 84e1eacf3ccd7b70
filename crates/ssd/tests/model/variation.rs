//! Equal commands take different times, as the table `[variation]` of the profile says.

use crate::fact_table::Bench;
use ssd::{Profile, VariationProfile};
use units::Nanos;

const READS: u32 = 100;
const WRITES: u32 = 0;

fn bench(change: impl Fn(&mut VariationProfile)) -> Bench {
    let mut profile = Profile { variation: VariationProfile::default(), ..Profile::default() };
    change(&mut profile.variation);
    Bench::new(&profile)
}

#[test]
fn lone_buffered_writes_take_equally_long_without_variation() {
    let writes = bench(|_| {}).lone_commands(WRITES);
    assert_eq!(writes.percentile(1), writes.percentile(999));
}

#[test]
fn lone_buffered_writes_spread_evenly_around_the_same_latency() {
    let even = bench(|_| {}).lone_commands(WRITES).percentile(500);
    let writes = bench(|variation| variation.write_spread = Nanos::micros(4)).lone_commands(WRITES);
    for (permille, offset) in [(1, -4.0), (250, -2.0), (500, 0.0), (750, 2.0), (999, 4.0)] {
        let latency = writes.percentile(permille);
        assert!((latency - even - offset).abs() < 0.1, "{permille} permille: {latency} us, but {even} even");
    }
}

#[test]
fn one_read_in_n_is_a_retry() {
    let slowest = bench(|_| {}).lone_commands(READS).percentile(999);
    let reads = bench(|variation| {
        variation.read_retry_interval = 50;
        variation.read_retry = Nanos::micros(80);
    })
    .lone_commands(READS);
    assert!(reads.percentile(970) <= slowest, "97 of 100 reads are not retries");
    assert!(reads.percentile(990) > slowest + 60.0, "1 of 100 reads is a retry, because 2 of 100 are");
}

#[test]
fn housekeeping_delays_the_commands_that_come_meanwhile() {
    let even = bench(|_| {}).lone_commands(WRITES).percentile(500);
    let writes = bench(|variation| {
        variation.housekeeping = Nanos::micros(100);
        variation.housekeeping_gap = Nanos::millis(10);
    })
    .lone_commands(WRITES);
    assert_eq!(writes.percentile(980), even, "housekeeping takes one per cent of the time");
    let last = writes.percentile(999);
    assert!(
        (even + 50.0..even + 101.0).contains(&last),
        "{last} us is not within one housekeeping pause of {even}"
    );
}
