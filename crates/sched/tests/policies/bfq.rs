//! Promises of BFQ: bytes by weight, within two budgets, and no idling where it is not needed.

use crate::loads::{Load, reader, serve_by, writer};
use proptest::prelude::*;
use sched::{Bfq, BfqConfig, Fifo, Share};
use units::{ByteRate, Bytes, Nanos};

const SECOND: Nanos = Nanos::secs(1);

/// BFQs with constants that make every rule act in a world of milliseconds.
pub(crate) fn configs() -> impl Strategy<Value = BfqConfig> {
    (1..60u32, 1..40u32, 1..2000u64, 10..3000u64, 0..1000u64).prop_map(
        |(nr_requests, depth, kib, timeout, idle)| BfqConfig {
            nr_requests,
            depth,
            budget_max: Bytes::kib(kib),
            timeout: Nanos::micros(timeout),
            slice_idle: Nanos::micros(idle),
        },
    )
}

/// A request for every IO, and turns that are never too long: then only bytes count.
const BYTES_ONLY: BfqConfig = BfqConfig {
    nr_requests: 1 << 20,
    depth: 8,
    timeout: Nanos::secs(3600),
    budget_max: Bytes::mib(1),
    ..BfqConfig::SATA
};

fn load() -> impl Strategy<Value = Load> {
    (any::<bool>(), 0..7u32, 1..6u32, 16..80u32).prop_map(|(reads, size, weight, depth)| {
        let load =
            if reads { reader(Bytes::kib(4 << size), depth) } else { writer(Bytes::kib(4 << size), depth) };
        Load { share: Share { weight, ..Share::EQUAL }, ..load }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn service_by_weight_differs_by_two_budgets_at_most(loads in prop::collection::vec(load(), 1..6)) {
        let (_, got) = serve_by(Bfq::new(BYTES_ONLY), &loads, SECOND);
        let by_weight = |n: usize| got[n].bytes as f64 / f64::from(loads[n].share.weight);
        for one in 0..loads.len() {
            for other in 0..loads.len() {
                let apart = by_weight(one) - by_weight(other);
                let budgets = BYTES_ONLY.budget_max.0 as f64 * [one, other].map(|n| 1.0 / f64::from(loads[n].share.weight)).iter().sum::<f64>();
                // IOs in the device at the end were served and not counted: 8 IOs of 256 KiB at most.
                prop_assert!(apart.abs() <= budgets + 8.0 * 262_144.0, "{} bytes apart: {:?}", apart, got);
            }
        }
    }
}

#[test]
fn a_byte_written_is_a_byte_read() {
    let (_, got) =
        serve_by(Bfq::new(BYTES_ONLY), &[reader(Bytes::kib(4), 64), writer(Bytes::kib(128), 64)], SECOND);
    let ratio = got[0].bytes as f64 / got[1].bytes as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{got:?}");
}

#[test]
fn among_equals_it_does_not_wait_for_anybody() {
    let thinks = Load { think: Nanos::micros(200), ..reader(Bytes::kib(4), 1) };
    let loads = [thinks, thinks, reader(Bytes::kib(64), 64)];
    let bytes =
        |config| serve_by(Bfq::new(config), &loads, SECOND).1.iter().map(|got| got.bytes).sum::<u64>();
    let none: u64 = serve_by(Fifo::default(), &loads, SECOND).1.iter().map(|got| got.bytes).sum();
    assert!(bytes(BfqConfig::SATA) * 100 >= none * 98, "{} of {none}", bytes(BfqConfig::SATA));
}

#[test]
fn where_weights_differ_a_synchronous_tenant_has_its_share() {
    // One IO at a time is enough for as much as its share would be, if the device is its own.
    let mut loads = [reader(Bytes::kib(256), 1), reader(Bytes::kib(256), 64)];
    let equal = serve_by(Bfq::new(BYTES_ONLY), &loads, SECOND).1;
    assert!(equal[0].bytes * 4 < equal[1].bytes, "{equal:?}");
    loads[0].share.weight = 2;
    let waited_for = serve_by(Bfq::new(BYTES_ONLY), &loads, SECOND).1;
    let ratio = waited_for[0].bytes as f64 / waited_for[1].bytes as f64;
    assert!((ratio - 2.0).abs() < 0.15, "{waited_for:?}");
    // It costs this much.
    let all = |got: &[crate::loads::Got]| got.iter().map(|got| got.bytes).sum::<u64>();
    assert!(all(&waited_for) * 2 < all(&equal), "{waited_for:?} {equal:?}");
}

#[test]
fn a_slow_tenant_pays_for_its_time() {
    // With 50 µs for each, a small IO takes much longer per byte.
    let config = BfqConfig { depth: 1, timeout: Nanos::millis(5), ..BYTES_ONLY };
    let (_, got) =
        serve_by(Bfq::new(config), &[reader(Bytes::kib(4), 64), reader(Bytes::kib(256), 64)], SECOND);
    let ratio = got[1].bytes as f64 / got[0].bytes as f64;
    assert!(ratio > 2.0, "{got:?}");
}

#[test]
fn where_weights_differ_nobody_is_waited_for_beyond_its_time() {
    // One IO at a time, and a pause of 400 µs after each: it needs the device for a ninth of its turn, and has half of the time.
    let thinks = Load { think: Nanos::micros(400), ..reader(Bytes::kib(4), 1) };
    let mut loads = [thinks, reader(Bytes::kib(64), 64)];
    let alone = serve_by(Fifo::default(), &loads[1..], Nanos::secs(3)).1[0].bytes;
    loads[1].share.weight = 2;
    let config = BfqConfig { nr_requests: 1 << 20, ..BfqConfig::SATA }.for_rate(ByteRate(alone / 3));
    let (_, got) = serve_by(Bfq::new(config), &loads, Nanos::secs(3));
    let part = got[1].bytes as f64 / alone as f64;
    assert!((part - 2.0 / 3.0).abs() < 0.1, "{part}: {got:?}");
}
