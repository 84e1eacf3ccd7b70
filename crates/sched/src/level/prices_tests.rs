use super::*;
use proptest::prelude::*;

const READS: Kind = Kind::SMALL_READS;

#[test]
fn a_price_is_what_was_measured() {
    let mut prices = Prices::new();
    let guessed = guess(IoKind::Read, Bytes::kib(4));
    prices.measure_once(READS, Took::exactly(1_000_000), guessed * 400);
    let price = prices.of(READS, IoKind::Read, Bytes::kib(4)).0;
    assert!((2499..=2500).contains(&price), "400 IOs in a millisecond: {price} ns");
}

/// Large reads on an SSD that takes this many times as long as guessed.
#[test]
fn a_probe_has_no_more_in_flight_than_keeps_a_slow_ssd_busy() {
    let work = Kind::of(1, 1, 256 << 10);
    let guessed = guess(IoKind::Read, work.length());
    for times in [1, 6, 60] {
        let mut prices = Prices::new();
        assert_eq!(prices.of_probe(work, ALONE_LIMIT), ALONE_LIMIT, "it is not known to be slow");
        prices.measure_once(work, Took::exactly(guessed * 100 * times), guessed * 100);
        let limit = prices.of_probe(work, ALONE_LIMIT).0;
        let ios = limit / prices.of(work, IoKind::Read, work.length()).0;
        assert!(limit == ALONE_LIMIT.0 || ios == ENOUGH, "{times} times: {limit} ns, {ios} IOs");
    }
    let mut prices = Prices::new();
    prices.measure_once(work, Took::exactly(guessed * 50), guessed * 100);
    assert_eq!(prices.of_probe(work, ALONE_LIMIT).0, ALONE_LIMIT.0 / 2, "as many IOs as guessed");
}

#[test]
fn what_differs_much_is_a_new_truth_and_what_differs_little_is_averaged() {
    let mut prices = Prices::new();
    prices.measure_once(READS, Took::exactly(100), 100);
    prices.measure_once(READS, Took::exactly(110), 100);
    assert_eq!(prices.scales[0], (ONE + ONE * 11 / 10) / 2);
    prices.measure_once(READS, Took::exactly(49), 100);
    prices.measure_once(READS, Took::exactly(51), 100);
    assert_eq!((prices.scales[0], prices.measured(READS)), ((ONE * 49 / 100 + ONE * 51 / 100) / 2, 2));
}

/// An SSD that stalls in bursts, seen between two of them, or in one.
#[test]
fn what_is_far_from_what_is_believed_is_confirmed_first() {
    let writes = Kind::of(1, 0, 128 << 10);
    for work in [READS, writes] {
        let mut prices = Prices::new();
        let measure = |prices: &mut Prices, nanos: u64| {
            let change = prices.measure_once(work, Took::exactly(nanos), 100);
            (prices.scales[work.index()] * 100 / ONE, prices.measured(work), change.price)
        };
        measure(&mut prices, 100);
        measure(&mut prices, 100);
        assert_eq!(measure(&mut prices, 61), (100, 1, false), "it is measured again soon");
        assert_eq!(measure(&mut prices, 100), (100, 2, false), "it was no truth");
        assert_eq!(measure(&mut prices, 61), (100, 1, false), "what was seen before does not count");
        assert_eq!(measure(&mut prices, 30), (60, 1, true), "it is as low as that at least");
        assert_eq!((measure(&mut prices, 30), measure(&mut prices, 32)), ((60, 1, false), (30, 2, true)));
        prices.doubt();
        prices.measure_once(work, Took::exactly(15), 100);
        let believed = prices.scales[work.index()] * 100 / ONE;
        assert_eq!(believed, if work == writes { 14 } else { 30 }, "the SSD may have changed");
    }
}

fn writes() -> Kind {
    Kind::of(1, 0, 128 << 10)
}

/// The price of writes that is believed after each probe of a series, in hundredths of the guess, and whether it is known.
fn believed(prices: &mut Prices, series: &[u64], bytes: u64, is_in_train: bool) -> Vec<(u64, bool)> {
    let one = |nanos: &u64| {
        prices.measure(writes(), Took::exactly(*nanos), 100, Written { bytes, is_in_train });
        ((prices.scales[writes().index()] * 100).div_ceil(ONE), prices.measured(writes()) >= 2)
    };
    series.iter().map(one).collect()
}

#[test]
fn what_a_reserve_hides_is_found_by_a_train() {
    const PROBE: u64 = 100 << 20;
    let mut prices = Prices::new();
    believed(&mut prices, &[50, 50], PROBE, false);
    prices.begin_train(writes());
    let first = believed(&mut prices, &[50, 50, 50, 100, 100], PROBE, true);
    assert_eq!(first.last(), Some(&(100, true)), "{first:?}");
    assert!(!prices.has_evidence(writes()), "500 MiB in five probes may all be a reserve");
    believed(&mut prices, &[100], PROBE, true);
    assert!(prices.has_evidence(writes()));
    // The reserve is there again at the beginning of each later probe.
    for cheap in [50, 80] {
        let later = believed(&mut prices, &[cheap], PROBE, false);
        assert_eq!(later, [(100, true)], "it is ignored, and not repeated soon");
    }
    believed(&mut prices, &[50], PROBE, false);
    let row = believed(&mut prices, &[50, 50, 50, 100], PROBE, false);
    assert_eq!(row, [(100, false), (100, false), (100, false), (100, true)], "it did not last");
    prices.doubt();
    let ignored = believed(&mut prices, &[50; 4], PROBE, false);
    assert!(ignored.iter().all(|(price, _)| *price == 100), "{ignored:?}");
}

#[test]
fn what_lasts_for_a_train_is_believed() {
    for (bytes, probes) in [(100 << 20, super::super::evidence::TRAIN as usize), (400 << 20, 2)] {
        let mut prices = Prices::new();
        prices.begin_train(writes());
        believed(&mut prices, &[100; 6], 100 << 20, true);
        assert!(prices.has_evidence(writes()));
        let row = believed(&mut prices, &alloc::vec![50; probes], bytes, false);
        let (last, before) = row.split_last().expect("there are probes");
        assert_eq!(last.0, 50, "{row:?}");
        assert!(before.iter().all(|(price, is_known)| *price == 100 && !is_known), "{row:?}");
    }
    // One is enough if something else shows that the SSD changed.
    let mut prices = Prices::new();
    prices.begin_train(writes());
    believed(&mut prices, &[100; 6], 100 << 20, true);
    prices.doubt();
    assert_eq!(believed(&mut prices, &[50], 100 << 20, false)[0].0, 50);
}

#[test]
fn what_says_little_does_not_replace_what_is_known() {
    let mut prices = Prices::new();
    prices.measure_once(READS, Took::exactly(100), 100);
    assert!(!prices.measure_once(READS, Took::between(20, 105), 100).price, "it may be as it was");
    assert_eq!((prices.scales[0], prices.measured(READS)), (ONE, 2));
    (0..2).for_each(|_| _ = prices.measure_once(READS, Took::between(20, 80), 100));
    assert!((ONE / 5..ONE / 2).contains(&prices.scales[0]), "it cannot be as it was: {}", prices.scales[0]);
}

#[test]
fn what_is_lower_is_less_than_is_believed() {
    let mut prices = Prices::new();
    prices.measure_once(READS, Took::exactly(200), 100);
    assert!(prices.is_lower(READS, 199, 100) && prices.is_lower(READS, 398, 200));
    assert!(!prices.is_lower(READS, 200, 100) && !prices.is_lower(READS, 201, 100));
}

#[test]
fn a_byte_costs_no_more_in_a_larger_io() {
    let (small, large) = (Kind::of(1, 1, 32 << 10), Kind::of(1, 1, 128 << 10));
    let mut prices = Prices::new();
    let of = |prices: &Prices, kib| prices.of(large, IoKind::Read, Bytes::kib(kib)).0;
    prices.measure_once(large, Took::exactly(40_000_000), guess(IoKind::Read, Bytes::kib(128)) * 100);
    assert_eq!(of(&prices, 128), 399_999, "it has only a few IOs");
    prices.measure_once(small, Took::exactly(1_000_000), guess(IoKind::Read, Bytes::kib(32)) * 100);
    assert!((39_500..=40_000).contains(&of(&prices, 128)), "four times 10 µs, not {}", of(&prices, 128));
    prices.measure_once(small, Took::exactly(1_000_000), guess(IoKind::Read, Bytes::kib(32)));
    for _ in 0..2 {
        prices.measure_once(large, Took::exactly(20_000_000), guess(IoKind::Read, Bytes::kib(128)) * 1000);
    }
    assert_eq!(of(&prices, 128), 19_999, "a large one may be cheaper");
}

#[test]
fn a_small_io_costs_no_less_per_byte_than_a_large_one() {
    let (small, large) = (Kind::of(1, 1, 64 << 10), Kind::of(1, 1, 256 << 10));
    let mut prices = Prices::new();
    let of = |prices: &Prices| prices.of(small, IoKind::Read, Bytes::kib(64)).0;
    // Between 10 and 40 µs.
    let guessed = guess(IoKind::Read, Bytes::kib(64));
    prices.measure_once(small, Took::between(10_000_000, 40_000_000), guessed * 1000);
    assert!((19_900..=20_000).contains(&of(&prices)), "{}", of(&prices));
    prices.measure_once(large, Took::exactly(160_000_000), guess(IoKind::Read, Bytes::kib(256)) * 1000);
    assert!((39_900..=40_000).contains(&of(&prices)), "{}", of(&prices));
}

#[test]
fn a_mix_is_priced_between_its_parts() {
    let [reads, writes] = [1, 0].map(|reads| Kind::of(1, reads, 64 << 10));
    let mix = Kind::of(4, 3, 4 * (64 << 10));
    let length = Bytes::kib(64);
    let time = |prices: &Prices| {
        let [reads, writes] = [IoKind::Read, IoKind::Write].map(|kind| prices.of(mix, kind, length).0);
        (3 * reads + writes) / 4
    };
    let guessed = 3 * guess(IoKind::Read, length) + guess(IoKind::Write, length);
    for (wide, expected) in [
        // Anything between 1 and 400 µs; its parts say: between 30 and 50 × 13/12 µs.
        (Took::between(4_000_000, 1_600_000_000), 40_311),
        // Known: then its parts say nothing.
        (Took::exactly(400_000_000), 100_000),
        (Took::exactly(40_000_000), 10_000),
    ] {
        let mut prices = Prices::new();
        prices.measure_once(mix, wide, guessed * 1000);
        prices.measure_once(reads, Took::exactly(40_000_000), guess(IoKind::Read, length) * 1000);
        prices.measure_once(writes, Took::exactly(80_000_000), guess(IoKind::Write, length) * 1000);
        assert!(time(&prices).abs_diff(expected) <= expected / 500, "{} ns, not {expected}", time(&prices));
    }
}

#[test]
fn few_ios_that_seem_slower_than_both_parts_got_in_each_others_way() {
    let [reads, writes] = [1, 0].map(|reads| Kind::of(1, reads, 64 << 10));
    let mix = Kind::of(4, 3, 4 * (64 << 10));
    let mut prices = Prices::new();
    prices.measure_once(reads, Took::exactly(40_000_000), reads.guess() / 64 * 1000);
    prices.measure_once(writes, Took::exactly(80_000_000), writes.guess() / 64 * 1000);
    // 100 to 120 µs by the measurement, 15 at the lowest; both parts take 50 together, the longer one 30.
    let seen = Took { lowest: 15_000_000, ..Took::between(100_000_000, 120_000_000) };
    prices.measure_once(mix, seen, mix.guess() / 64 * 1000);
    let time = (u128::from(prices.scales[mix.index()]) * u128::from(mix.guess())) >> 22;
    assert!(time.abs_diff(40_311) <= 100, "{time} ns");
}

/// From 54.2 µs on, which both parts take together, it seems to take longer than that allows.
#[test]
fn what_contradicts_others_a_little_is_hardly_another_price() {
    let [reads, writes] = [1, 0].map(|reads| Kind::of(1, reads, 64 << 10));
    let mix = Kind::of(4, 3, 4 * (64 << 10));
    let price = |micros: u64| {
        let mut prices = Prices::new();
        prices.measure_once(reads, Took::exactly(40_000_000), reads.guess() / 64 * 1000);
        prices.measure_once(writes, Took::exactly(80_000_000), writes.guess() / 64 * 1000);
        let seen = Took { lowest: 10_000_000, ..Took::between(micros * 1_000_000, (micros + 1) * 1_000_000) };
        prices.measure_once(mix, seen, mix.guess() / 64 * 1000);
        (u128::from(prices.scales[mix.index()]) * u128::from(mix.guess())) >> 22
    };
    let all: Vec<u128> = (50..90).map(price).collect();
    assert!(all.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= pair[0] / 50), "{all:?}");
    assert!(all[0] < 51_000 && all[39] < 45_000, "{all:?}");
}

#[test]
fn the_parts_of_another_size_take_as_much_longer_as_bytes_or_guesses_say() {
    let small = [1, 0].map(|reads| Kind::of(1, reads, 4 << 10));
    let mix = Kind::of(4, 3, 4 * (16 << 10));
    let mut prices = Prices::new();
    for (kind, nanos) in small.into_iter().zip([2_000_000, 4_000_000]) {
        prices.measure_once(kind, Took::exactly(nanos), kind.guess() / 64 * 1000);
    }
    prices.measure_once(mix, Took::between(10_000, 1_000_000_000), mix.guess() / 64 * 1000);
    let time = (u128::from(prices.scales[mix.index()]) * u128::from(mix.guess())) >> 22;
    // Reads of 16 KiB take 4.28 to 8 µs, writes 10.07 to 16: three reads and a write 3.21 to 10 × 13/12 µs for each.
    let expected = 5_899;
    assert!(time.abs_diff(expected) <= 30, "{time} ns");
}

#[test]
fn a_byte_of_large_ios_costs_nearly_the_same_in_all_sizes() {
    let [middle, large] = [64, 256].map(|kib| (Kind::of(4, 3, 4 * (kib << 10)), Bytes::kib(kib)));
    let measure = |prices: &mut Prices, (kind, _): (Kind, Bytes), nanos: Took| {
        prices.measure_once(kind, nanos.map(|nanos| nanos * 1000), kind.guess() / 64 * 1000);
    };
    let price = |prices: &Prices, (kind, _): (Kind, Bytes)| {
        ((u128::from(prices.scales[kind.index()]) * u128::from(kind.guess())) >> 22) as u64
    };
    // 64 KiB take 20 µs, so 256 KiB take 60 to 80, and the other way round: 80 µs say 20 to 25.
    for (known, few, expected) in [(middle, large, 69_282), (large, middle, 22_360)] {
        let mut prices = Prices::new();
        let nanos = known.1.0 * 20_000 / (64 << 10);
        measure(&mut prices, known, Took::exactly(nanos));
        measure(&mut prices, few, Took::between(1_000, 1_000_000));
        let price = price(&prices, few);
        assert!(price.abs_diff(expected) <= expected / 200, "{price} ns, not {expected}");
    }
}

#[test]
fn reads_that_seem_slower_than_writes_got_in_each_others_way() {
    let [reads, writes] = [1, 0].map(|reads| Kind::of(1, reads, 64 << 10));
    let price = |prices: &Prices| prices.of(reads, IoKind::Read, Bytes::kib(64)).0;
    let measure = |seen: Took, written: u64| {
        let mut prices = Prices::new();
        prices.measure_once(reads, seen.map(|nanos| nanos * 1000), reads.guess() / 64 * 1000);
        prices.measure_once(writes, Took::exactly(written * 1000), writes.guess() / 64 * 1000);
        price(&prices)
    };
    // One of four tenants, with 40 µs, or 44 with half of its IOs: 37 to 40 µs with all, unless its own are in each other's way. Then 10.
    let seen = Took::with_all(40_000, 44_000, [2, 1], [1, 4]);
    assert!((36_900..40_000).contains(&measure(seen, 60_000)), "{}", measure(seen, 60_000));
    let expected = 14_702;
    assert!(
        measure(seen, 16_000).abs_diff(expected) < 100,
        "between 10.8 and 20 µs: {}",
        measure(seen, 16_000)
    );
    // Knowledge stays: a write that is lost in the SSD's cache does not change it.
    assert!(measure(Took::exactly(40_000), 16_000).abs_diff(40_000) < 10);
}

#[test]
fn slow_reads_are_believed_in_the_end() {
    let guessed = guess(IoKind::Read, Bytes::kib(4));
    let of = |prices: &Prices| prices.of(READS, IoKind::Read, Bytes::kib(4)).0;
    let mut prices = Prices::new();
    prices.measure_once(READS, Took::exactly(3_000), guessed);
    for _ in 1..SLOW_TIMES {
        prices.measure_once(READS, Took::exactly(9_000), guessed);
        assert!(of(&prices) <= 3_000 && prices.seem_slow(READS), "it may be the SSD's own work");
    }
    prices.measure_once(READS, Took::exactly(9_000), guessed);
    assert!(of(&prices) >= 8_999 && !prices.seem_slow(READS));
    // Faster reads are believed when they are confirmed, and end a doubt.
    prices.measure_once(READS, Took::exactly(20_000), guessed);
    (0..2).for_each(|_| _ = prices.measure_once(READS, Took::exactly(3_000), guessed));
    assert!(of(&prices) <= 3_000 && !prices.seem_slow(READS));
}

#[test]
fn what_was_told_is_believed_until_one_of_it_is_found_wrong() {
    let mut teacher = Prices::new();
    let writes = Kind::of(1, 0, 128 << 10);
    for _ in 0..2 {
        teacher.measure_once(READS, Took::exactly(3_000), guess(IoKind::Read, Bytes::kib(4)));
        teacher.measure_once(writes, Took::exactly(90_000), guess(IoKind::Write, Bytes::kib(128)));
    }
    let learnt = teacher.learnt(2);
    assert_eq!(learnt.len(), 2);
    assert_eq!((learnt[0].reads, learnt[0].size), (ReadsPart::All, Bytes::kib(4)));
    assert!(learnt[0].time.0.abs_diff(3_000) <= 1, "{learnt:?}");
    let told = || {
        let mut prices = Prices::new();
        prices.tell(&learnt);
        prices
    };
    let of = |prices: &Prices| prices.of(writes, IoKind::Write, Bytes::kib(128)).0;
    assert!(of(&told()).abs_diff(90_000) < 50, "{}", of(&told()));
    // Right: measured once more, it is known, and the rest is still believed.
    let mut prices = told();
    let change = prices.measure_once(READS, Took::exactly(3_100), guess(IoKind::Read, Bytes::kib(4)));
    assert!(!change.told && prices.measured(READS) == 2 && prices.measured(writes) == 1);
    assert_eq!(prices.learnt(2).len(), 2, "what was told and not tried is worth telling again");
    // Wrong: nothing of it is believed.
    let mut prices = told();
    let change = prices.measure_once(READS, Took::exactly(9_000), guess(IoKind::Read, Bytes::kib(4)));
    assert!(change.told && prices.measured(writes) == 0);
    // A kind of its own way is priced as its nearest, which is the measured one.
    assert!(of(&prices) > 300_000, "{}", of(&prices));
}

proptest! {
    #![proptest_config(crate::random_cases(200))]

    #[test]
    fn scales_stay_between_what_was_measured(
        samples in prop::collection::vec((0..Kind::COUNT, 1..1u64 << 40, 0..1u64 << 40), 1..40),
    ) {
        let mut prices = Prices::new();
        for (kind, nanos, guessed) in samples {
            let kind = Kind::all().nth(kind).expect("there are so many");
            prices.measure_once(kind, Took::exactly(nanos), guessed);
        }
        let known = prices.known.iter().filter(|known| known.measured > 0).map(|known| known.took.likely);
        let (least, most) = (known.clone().min().unwrap_or(ONE), known.max().unwrap_or(ONE));
        prop_assert!((SCALE_MIN..=SCALE_MAX).contains(&least) && most <= SCALE_MAX);
        // Per byte, the smallest IOs are guessed to take several times as long as the largest.
        let least = (least / 8).max(SCALE_MIN);
        prop_assert!(prices.scales.iter().all(|scale| (least..=most).contains(scale)));
    }
}
