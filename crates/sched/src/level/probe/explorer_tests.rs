//! Times of probes, and bounds on their cost.

extern crate std;
use super::super::super::evidence::Written;
use super::super::super::kind::guess;
use super::super::super::took::Took;
use super::super::tests::{ALONE, run};
use super::super::windows::Window;
use super::*;
use crate::IoKind;

#[test]
fn probes_take_their_part_at_most() {
    for (changes, doubts) in [(false, false), (true, false), (true, true)] {
        let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
        let mut present = Present::default();
        let kinds: std::vec::Vec<Kind> = Kind::all().step_by(8).collect();
        for kind in &kinds {
            present.busy[kind.index()] = 1;
        }
        let (mut taken, mut probes) = (0, 0);
        let mut turns = [0; Kind::COUNT];
        let (mut now, mut followed) = (Instant::ZERO, 0);
        let span = Nanos::secs(1000);
        while now < Instant::ZERO + span {
            now += Nanos::millis(5);
            if doubts && explorer.doubt(now) {
                prices.doubt();
                followed += 1;
            }
            if let Some(probe) = explorer.choose(now, &present, &mut prices) {
                turns[probe.kind.index()] += 1;
                // Of an SSD that is different at every look nothing is ever known.
                probes += 1;
                let took = Took::exactly(if changes { 100 << (probes % 7) } else { 100 });
                prices.measure(probe.kind, took, 100, probe.written());
                now = probe.ends();
                let found = Found { took: Took::exactly(100), guessed: 100, absorbed: 0, is_paced: false };
                explorer.on_end(now, &probe, Some(found), prices.measured(probe.kind));
                taken += LONGEST.0;
            }
        }
        let writing = kinds.iter().filter(|kind| kind.writes()).count() as u64;
        let trains = writing * u64::from(TRAIN) * LONGEST.0;
        let most = BUDGET.0 + span.0 / SHARE + followed * DOUBT_BUDGET.0 + trains;
        assert!(taken <= most, "{taken} ns of 1000 s");
        assert_eq!(followed, if doubts { DOUBTS + span.0 / DOUBT_PAUSE.0 - 1 } else { 0 });
        assert!(taken >= BUDGET.0, "{taken} ns of 1000 s");
        let turns: std::vec::Vec<u32> = kinds.iter().map(|kind| turns[kind.index()]).collect();
        // After a change reads come first, and what writes has trains.
        let apart = 2 + FIRST * followed as u32 + TRAIN * TRAINS;
        assert!(turns.iter().max() <= turns.iter().min().map(|least| least + apart).as_ref(), "{turns:?}");
    }
}

#[test]
fn a_kind_of_which_probes_find_nothing_is_probed_less_and_less() {
    // Also if others come whenever it is probed.
    for are_there_others in [false, true] {
        let mut explorer = Explorer::new();
        let mut present = Present::default();
        (present.busy[0], present.busy[8]) = (1, 1);
        let (mut prices, mut probes) = (Prices::new(), 0);
        (0..FIRST).for_each(|_| _ = prices.measure_once(Kind::of(1, 1, 4096), Took::exactly(100), 100));
        explorer.next = Instant(u64::MAX);
        for millis in 0..10_000 {
            let now = Instant::ZERO + Nanos::millis(millis);
            if let Some(mut probe) = explorer.choose(now, &present, &mut prices) {
                if are_there_others {
                    probe.windows.fill(Window { span: 10, others: 10, ..Window::default() });
                    assert!(probe.windows.is_crowded());
                }
                explorer.on_end(now, &probe, None, 0);
                probes += 1;
            }
        }
        assert_eq!(probes, 5, "at 0, 0.5, 1.5, 3.5 and 7.5 s");
    }
}

#[test]
fn reads_are_measured_twice_before_anything_is_written_alone() {
    let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
    let kinds = [Kind::of(1, 0, 4096), Kind::of(1, 1, 4096), Kind::of(1, 1, 65536)];
    let mut present = Present::default();
    kinds.iter().for_each(|kind| present.busy[kind.index()] = 1);
    let mut now = Instant::ZERO;
    let mut probed = |explorer: &mut Explorer, prices: &mut Prices, times: u32| -> std::vec::Vec<Kind> {
        let one = |_| {
            now += Nanos::secs(1);
            let probe = explorer.choose(now, &present, prices).expect("nothing is known twice");
            prices.measure_once(probe.kind, Took::exactly(100), 100);
            explorer.on_end(now, &probe, None, 1);
            probe.kind
        };
        (0..times).map(one).collect()
    };
    let first = probed(&mut explorer, &mut prices, 6);
    assert_eq!(first, [kinds[1], kinds[2], kinds[1], kinds[2], kinds[0], kinds[0]]);
    assert!(explorer.doubt(Instant::ZERO + Nanos::secs(7)));
    prices.doubt();
    let again = probed(&mut explorer, &mut prices, 3);
    assert_eq!(again, [kinds[1], kinds[2], kinds[0]], "also when the SSD has changed");
}

/// A train of the kind that writes most follows once all is known, when nothing was measured for a while.
#[test]
fn a_train_begins_when_nothing_else_is_to_be_learnt() {
    let kinds = [Kind::of(1, 0, 65536), Kind::of(1, 1, 4096), Kind::of(10, 7, 4096)];
    let mut present = Present::default();
    kinds.iter().for_each(|kind| present.busy[kind.index()] = 1);
    // An SSD with a reserve, and one without.
    for has_reserve in [false, true] {
        let (mut explorer, mut prices, mut now) = (Explorer::new(), Prices::new(), Instant::ZERO);
        let mut probed = std::vec::Vec::new();
        while now < Instant::ZERO + Nanos::secs(30) {
            now += Nanos::millis(5);
            let Some(probe) = explorer.choose(now, &present, &mut prices) else { continue };
            let written = Written { bytes: 100 << 20, is_in_train: probe.is_in_train };
            let begins = probed.iter().filter(|(_, is_in_train, _)| *is_in_train).count();
            probed.push((probe.kind, probe.is_in_train, now));
            let took = if has_reserve && probe.is_in_train && begins % 6 > 2 { 200 } else { 100 };
            prices.measure(probe.kind, Took::exactly(took), 100, written);
            now = probe.begun + Nanos::millis(200);
            let found = Found { took: Took::exactly(took), guessed: 100, absorbed: 0, is_paced: false };
            explorer.on_end(now, &probe, Some(found), prices.measured(probe.kind));
        }
        let trains: std::vec::Vec<&(Kind, bool, Instant)> =
            probed.iter().filter(|(_, is_in_train, _)| *is_in_train).collect();
        let first = probed.iter().position(|(_, is_in_train, _)| *is_in_train).expect("there is a train");
        assert_eq!(first, 6, "every kind was measured twice: {probed:?}");
        assert!(trains[0].2.since(probed[first - 1].2) >= TRAIN_AFTER);
        assert!(trains[..6].iter().all(|(kind, ..)| *kind == kinds[0]), "{probed:?}");
        assert!(trains[5].2.since(trains[0].2) <= Nanos::millis(5 * 360), "{probed:?}");
        // Where one met a reserve, the other kind that writes has its own.
        let others: std::vec::Vec<Kind> = trains[6..].iter().map(|(kind, ..)| *kind).collect();
        assert_eq!(others, [kinds[2]; 6][..if has_reserve { 6 } else { 0 }], "{probed:?}");
    }
}

#[test]
fn one_kind_of_work_is_never_probed() {
    let mut present = Present::default();
    present.busy[3] = 7;
    assert!(Explorer::new().choose(Instant(1), &present, &mut Prices::new()).is_none());
}

#[test]
fn what_left_the_ssd_idle_is_probed_again_when_more_tenants_do_it() {
    let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
    let kinds = [Kind::of(1, 1, 4096), Kind::of(1, 0, 4096)];
    let mut present = Present::default();
    kinds.iter().for_each(|kind| present.busy[kind.index()] = 1);
    kinds.iter().for_each(|kind| {
        (0..FIRST).for_each(|_| _ = prices.measure_once(*kind, Took::exactly(100), 100));
    });
    let mut second = 0;
    let mut probed = |explorer: &mut Explorer, writers: u32, is_paced: bool| {
        second += 1;
        let now = Instant::ZERO + Nanos::secs(second);
        present.busy[kinds[1].index()] = writers;
        let probe = explorer.choose(now, &present, &mut prices)?;
        let found = Found { took: Took::exactly(100), guessed: 100, absorbed: 0, is_paced };
        explorer.on_end(now, &probe, Some(found), FIRST);
        explorer.next = Instant(u64::MAX);
        Some(probe.kind)
    };
    assert_eq!(probed(&mut explorer, 1, false), Some(kinds[0]), "its turn");
    explorer.next = Instant::ZERO;
    assert_eq!(probed(&mut explorer, 1, true), Some(kinds[1]), "its turn");
    assert_eq!(probed(&mut explorer, 1, true), None, "no more of them");
    assert_eq!(probed(&mut explorer, 3, true), Some(kinds[1]));
    assert_eq!(probed(&mut explorer, 2, true), None, "three left it idle");
    assert_eq!(probed(&mut explorer, 4, false), Some(kinds[1]));
    assert_eq!(probed(&mut explorer, 5, false), None, "four kept it busy");
}

#[test]
fn how_long_the_buffer_drains_is_learnt_from_a_probe_of_writes() {
    let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
    let (reads, writes) = (Kind::of(1, 1, 4096), Kind::of(1, 0, 4096));
    let mut present = Present::default();
    (present.busy[reads.index()], present.busy[writes.index()]) = (1, 1);
    assert_eq!(explorer.drain(&present, &prices), DRAIN_UNKNOWN);
    let mut probe = Probe::new(Instant::ZERO, writes, Nanos::ZERO, 0, ALONE);
    run(&mut probe, IoKind::Write, |_, writes| if writes < 4096 { 1_000 } else { 10_000 });
    let found = probe.result().expect("enough was seen");
    prices.measure_once(writes, found.took, found.guessed);
    explorer.on_end(Instant::ZERO + LONGEST, &probe, Some(found), 1);
    let drain = explorer.drain(&present, &prices);
    // 15 MiB at 10 µs per 4 KiB are 38 ms, and half of that because reads slow it down.
    assert!((50..62).contains(&(drain.0 / 1_000_000)), "{drain:?}");
}

#[test]
fn reads_are_measured_again_when_the_buffer_is_known_to_drain_for_longer() {
    let (mut explorer, mut prices) = (Explorer::new(), Prices::new());
    let (reads, writes) = (Kind::of(1, 1, 4096), Kind::of(1, 0, 4096));
    let mut present = Present::default();
    (present.busy[reads.index()], present.busy[writes.index()]) = (1, 1);
    // 24 MiB at 40 µs per 4 KiB drain for 369 ms, with reads meanwhile.
    let (slow, absorbed) = (40_000, 24 << 20);
    let probed: std::vec::Vec<(Kind, bool)> = (1..=6)
        .map(|n| {
            let now = Instant::ZERO + Nanos::secs(n);
            let probe = explorer.choose(now, &present, &mut prices).expect("there is something to learn");
            let found = match probe.kind.writes() {
                true => Found {
                    took: Took::exactly(slow),
                    guessed: guess(IoKind::Write, Bytes::kib(4)),
                    absorbed,
                    is_paced: false,
                },
                false => Found {
                    took: Took::exactly(3000),
                    guessed: guess(IoKind::Read, Bytes::kib(4)),
                    absorbed: 0,
                    is_paced: false,
                },
            };
            prices.measure_once(probe.kind, found.took, found.guessed);
            explorer.on_end(now, &probe, Some(found), prices.measured(probe.kind));
            explorer.next = Instant(u64::MAX);
            (probe.kind, probe.is_again)
        })
        .take_while(|(kind, is_again)| kind.writes() || !is_again)
        .collect();
    assert_eq!(probed, [(reads, false), (reads, false), (writes, false), (writes, false)]);
    assert!(
        explorer.choose(Instant::ZERO + Nanos::secs(9), &present, &mut prices).is_none(),
        "once is enough"
    );
}
