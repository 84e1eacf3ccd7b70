//! Tests of a single probe.

extern crate std;
use super::extra::EXTRA_MOST;
use super::windows::{CROWDED, WINDOW, Windows};
use super::*;
use crate::{IoId, IoKind, Mark, Priority};
use units::TenantId;

/// Latency of an IO, where that makes no difference.
const TAKES: Nanos = Nanos::micros(100);
/// All busy tenants do the same.
pub(super) const ALONE: [u64; 2] = [1, 1];

fn io(kind: IoKind) -> Io {
    let (tenant, priority, mark) = (TenantId(0), Priority::default(), Mark(1500));
    Io { id: IoId(0), tenant, priority, kind, length: Bytes::kib(4), mark }
}

/// Lets IOs end until the probe has seen enough; `takes` is the time of the next one after this many ns and IOs.
pub(super) fn run(probe: &mut Probe, kind: IoKind, takes: impl Fn(u64, u64) -> u64) -> (u64, u64) {
    let (mut now, mut ios) = (0, 0u64);
    loop {
        now += takes(now, ios);
        ios += 1;
        assert!(now < LONGEST.0, "{ios} IOs are not enough");
        if probe.on_completion(Instant(now), true, false, &io(kind), TAKES, Bytes(1000)) == Step::End {
            let Found { took, guessed, .. } = probe.result().expect("enough was seen");
            return (took.likely * guess(kind, Bytes::kib(4)) / guessed, now);
        }
    }
}

/// Reads that take twice as long for as long as the buffer drains.
#[test]
fn a_probe_of_reads_waits_until_the_buffer_has_drained() {
    let drains = Nanos::millis(150);
    let takes = |now, _| if now < drains.0 { 2000 } else { 1000 };
    let mut probe = Probe::new(Instant::ZERO, Kind::default(), drains, 0, ALONE);
    let (read, _) = run(&mut probe, IoKind::Read, takes);
    assert!((1000..1040).contains(&read), "a read takes 1000 ns by then, not {read}");
    let mut hasty = Probe::new(Instant::ZERO, Kind::default(), Nanos::ZERO, 0, ALONE);
    let (read, took) = run(&mut hasty, IoKind::Read, |_, _| 1000);
    assert!((1000..1040).contains(&read) && took < 80_000_000, "{read} ns, after {took} ns");
}

#[test]
fn few_reads_are_in_flight_while_the_buffer_drains() {
    let drains = Nanos::millis(150);
    let mut probe = Probe::new(Instant::ZERO, Kind::default(), drains, 0, ALONE);
    let mut opened = None;
    for now in (1..).map(|n| Instant(n * 100_000)) {
        assert_eq!(probe.limit(), if opened.is_none() { DRAIN_LIMIT } else { ALONE_LIMIT }, "at {now:?}");
        match probe.on_completion(now, true, false, &io(IoKind::Read), TAKES, DRAIN_LIMIT) {
            Step::Open => assert_eq!(opened.replace(now), None, "it opens once"),
            Step::End => break,
            Step::Continue | Step::Limit(_) => {}
        }
    }
    assert_eq!(opened, Some(Instant::ZERO + drains));
    // Earlier windows are left out: from then on there was one window that does not count, and those that do.
    let found = probe.result().expect("enough was seen");
    assert!(found.took.likely <= (LEAST as u64 + 1) * WINDOW.0, "{found:?}");
}

/// Writes of 4 KiB that take 1 µs until 16 MiB (4096 of them) are in the buffer, then 10 µs.
#[test]
fn a_probe_of_writes_waits_until_the_buffer_is_full() {
    let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 4096), Nanos::ZERO, 0, ALONE);
    let takes = |_, writes| if writes < 4096 { 1_000 } else { 10_000 };
    let (write, _) = run(&mut probe, IoKind::Write, takes);
    assert!((9_900..10_100).contains(&write), "a write takes 10 µs by then, not {write}");
    let absorbed = probe.result().expect("enough was seen").absorbed;
    assert!((14 << 20..=17 << 20).contains(&absorbed), "{absorbed} bytes: 16 MiB, less what has drained");
}

/// At some of these rates the buffer makes no difference from the last windows of the longest probe on.
#[test]
fn writes_that_are_always_as_fast_are_measured_at_any_rate() {
    for nanos in (8_000..12_000).step_by(50) {
        let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 4096), Nanos::ZERO, 0, ALONE);
        let ends = (1..).map(|n| Instant(n * nanos)).take_while(|now| *now < probe.ends());
        for now in ends.collect::<std::vec::Vec<_>>() {
            if probe.on_completion(now, true, false, &io(IoKind::Write), TAKES, Bytes(1000)) == Step::End {
                break;
            }
        }
        let Found { took, guessed, .. } = probe.result().expect("enough was seen");
        let write = took.likely * guess(IoKind::Write, Bytes::kib(4)) / guessed;
        assert!(write.abs_diff(nanos) <= nanos / 100, "a write takes {nanos} ns, not {write}");
    }
}

/// An SSD that takes 10 µs for a write, and pauses for two fifths of the time, whenever the probe begins.
#[test]
fn an_ssd_that_pauses_is_priced_by_whole_cycles() {
    // The longer a cycle, the fewer are in a probe.
    for (cycle, differs) in [(40, 1_000), (75, 1_000), (100, 1_500), (150, 3_000)] {
        let cycle = Nanos::millis(cycle);
        let pause = cycle.0 * 2 / 5;
        for begins in (0..10).map(|tenth| cycle.0 * tenth / 10) {
            let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 65_536), Nanos::ZERO, 0, ALONE);
            let write = Io { length: Bytes::kib(64), ..io(IoKind::Write) };
            let mut now = 0;
            loop {
                let at = (now + begins) % cycle.0;
                now += if at < pause { pause - at } else { 10_000 };
                if now >= LONGEST.0
                    || probe.on_completion(Instant(now), true, false, &write, TAKES, Bytes(1000)) == Step::End
                {
                    break;
                }
            }
            let Found { took, guessed, .. } = probe.result().expect("enough was seen");
            let price = took.likely * guess(IoKind::Write, write.length) / guessed;
            // 10 µs in three fifths of the time.
            assert!(
                price.abs_diff(16_667) < differs,
                "{price} ns, cycles of {cycle}, begun after {begins} ns"
            );
        }
    }
}

/// Findings for one tenant of four: the likely time of an IO and the most. The SSD takes `time` for one, given the
/// number in flight. A few IOs cannot be halved: `fewer` of eight are in flight then, and the latency of every other
/// one is one of `latencies`.
fn one_of_four_takes(
    kind: (IoKind, Kind),
    fewer: u64,
    latencies: [Nanos; 2],
    time: impl Fn(u64) -> u64,
) -> [u64; 2] {
    let (kind, work) = kind;
    let mut probe = Probe::new(Instant::ZERO, work, Nanos::ZERO, 0, [4, 1]);
    let (mut now, mut ios) = (0, 8);
    let found = loop {
        now += time(ios);
        let latency = latencies[(now / time(ios) % 2) as usize];
        match probe.on_completion(Instant(now), true, false, &io(kind), latency, Bytes(ios * 1500)) {
            Step::Continue => {}
            Step::Open => unreachable!("nothing drains"),
            Step::Limit(half) => {
                assert_eq!(half, Bytes(4 * 1500));
                ios = fewer;
            }
            Step::End => break probe.result().expect("enough was seen"),
        }
    };
    [found.took.likely, found.took.most].map(|nanos| nanos * guess(kind, Bytes::kib(4)) / found.guessed)
}

/// An SSD whose busiest part takes 1 µs for an IO, and that takes 8 µs for a single one.
#[test]
fn a_kind_with_few_ios_is_priced_as_with_many() {
    let turns = |ios: u64| (1000u64.pow(4) + (8000 / ios).pow(4)).isqrt().isqrt();
    let writes = (IoKind::Write, Kind::of(1, 0, 4096));
    // Reads, too, if there are no extra ones.
    let reads = (IoKind::Read, Kind::of(1, 1, 4096));
    for (work, fewer) in [(writes, 4), (reads, 4), (reads, 6)] {
        let [likely, most] = one_of_four_takes(work, fewer, [TAKES, Nanos(TAKES.0 * 3)], turns);
        assert!((990..1_010).contains(&most), "with 32 {work:?} in flight it takes 1,001 ns, not {most}");
        // Another SSD would take less.
        assert!((700..990).contains(&likely), "{work:?}: {likely} ns");
    }
}

/// An SSD on which IOs collide in few parts, however many there are: 1 µs, and 8 µs more over those in flight.
#[test]
fn the_more_latencies_vary_the_more_is_gained_by_more_ios() {
    let collide = |ios: u64| 1000 + 8000 / ios;
    let work = (IoKind::Read, Kind::of(1, 1, 4096));
    let [even, some, much] = [[1, 1], [1, 3], [0, 1]].map(|times: [u64; 2]| {
        one_of_four_takes(work, 4, times.map(|times| Nanos(TAKES.0 * times)), collide)[0]
    });
    assert!((1_240..1_260).contains(&much), "as with 32 in flight, not {much} ns");
    assert!(even > some + 100 && some > much + 100, "{even}, {some}, {much} ns");
}

#[test]
fn that_hardly_fewer_are_in_flight_says_nothing_of_more() {
    let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 1, 4096), Nanos::ZERO, 0, [4, 1]);
    for now in (1..).map(|n| Instant(n * 1000)) {
        if probe.on_completion(now, true, false, &io(IoKind::Read), TAKES, Bytes(2 * 1500)) == Step::End {
            break;
        }
    }
    let found = probe.result().expect("enough was seen");
    let [least, most] = [found.took.least, found.took.most]
        .map(|nanos| nanos * guess(IoKind::Read, Bytes::kib(4)) / found.guessed);
    assert!(least.abs_diff(250) < 5 && most.abs_diff(1000) < 5, "from a quarter to all: {least}, {most}");
}

/// One tenant of four that had eight outstanding before, of which two are in the SSD now that it has the SSD to itself.
#[test]
fn ios_on_their_way_to_the_host_and_back_are_missing_in_the_ssd() {
    let probe = Probe::new(Instant::ZERO, Kind::of(1, 1, 4096), Nanos::ZERO, 0, [4, 1]);
    let probe = Probe { found_before: [70, 10], ..probe };
    assert_eq!(probe.part(2 * SIXTEENTHS), [2 * SIXTEENTHS, 4 * 8 * SIXTEENTHS]);
    assert_eq!(probe.part(8 * SIXTEENTHS), [1, 4]);
}

#[test]
fn what_the_buffer_takes_is_no_price() {
    let mut probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 4096), Nanos::ZERO, 0, ALONE);
    // Its tenants go away after 100 ms.
    for now in (1..10_000).map(|n| Instant(n * 10_000)) {
        probe.on_completion(now, true, false, &io(IoKind::Write), TAKES, Bytes(1000));
    }
    assert_eq!(probe.result(), None);
}

/// One tenant of nine whose application sends a write every 70 µs, which the SSD completes before the next one comes.
#[test]
fn tenants_that_leave_the_ssd_idle_bound_their_price() {
    let probed_beside = |before: u64, now: usize, others: u64| {
        let probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 4096), Nanos::ZERO, 0, [9, 1]);
        let mut probe = Probe { found_before: [before * 10, 10], ..probe };
        (0..others).for_each(|_| probe.on_submit(false, &io(IoKind::Read)));
        let in_flight = Bytes(20 + others * 1500);
        for at in (1..).map(|n| Instant(n * 70_000)).take_while(|at| *at < Instant::ZERO + LONGEST) {
            probe.on_arrival(now);
            if probe.on_completion(at, true, false, &io(IoKind::Write), TAKES, in_flight) == Step::End {
                break;
            }
        }
        let found = probe.result().expect("enough was seen");
        let write = |nanos: u64| nanos * guess(IoKind::Write, Bytes::kib(4)) / found.guessed;
        (found.is_paced, [found.took.least, found.took.likely, found.took.most].map(write))
    };
    let probed = |before, now| probed_beside(before, now, 0);
    let (is_paced, [least, likely, most]) = probed(31, 1);
    assert!(is_paced, "31 were outstanding before, and 1 is now");
    assert!(probed_beside(31, 1, 40).0, "what a guest has in the SSD is not the kind's");
    assert!((69_500..70_500).contains(&most), "no more than 70 µs: {most}");
    assert!((7_700..13_600).contains(&least), "it asks for more than its ninth: {least}");
    assert!((30_500..31_000).contains(&likely), "three eighths of the way to a ninth, in ratios: {likely}");
    assert!(!probed(31, 21).0, "some may be on their way to the host and back");
    let (is_paced, [_, likely, most]) = probed(31, 30);
    assert!(!is_paced && likely == most, "the SSD has enough to do");
}

/// A probe of one tenant of four that had 7 others outstanding whenever it sent a read, and has sent one now.
fn one_of_four(drains: Nanos) -> Probe {
    let probe = Probe::new(Instant::ZERO, Kind::default(), drains, 0, [4, 1]);
    let mut probe = Probe { found_before: [70, 10], ..probe };
    probe.on_submit(true, &io(IoKind::Read));
    probe
}

/// An SSD that takes 8 µs for a read, and at least 500 ns for each of those that it has: with sixteen it can do no more.
#[test]
fn extra_reads_make_up_for_tenants_that_do_something_else() {
    // The tenant's IOs in flight: all of its reads, or fewer, because its application sets the pace.
    for own in [8, 2] {
        let mut probe = one_of_four(Nanos::ZERO);
        let price = |_| Bytes(1500);
        let (mut now, mut extra) = (0, 0);
        let found = loop {
            while probe.extra_read(Bytes(own * 1500), extra, price).is_some() {
                extra += 1;
            }
            assert_eq!(own + extra, 32, "as many as four tenants have");
            now += (8_000 / (own + extra)).max(500);
            let outcome = Outcome::Success { latency: Nanos(8_000) };
            let like = probe.extra.like().expect("one was sent");
            // One in this many is the tenant's own.
            let is_own = (now / 500) % (32 / own) == 0;
            let step = if is_own {
                probe.on_arrival(own as usize - 1);
                probe.on_completion(Instant(now), true, false, &io(IoKind::Read), TAKES, Bytes(own * 1500))
            } else {
                probe.on_extra_read(Instant(now), like, outcome)
            };
            match step {
                Step::Continue => {}
                Step::End => break probe.result().expect("enough was seen"),
                step => panic!("{step:?}: there is nothing to infer"),
            }
        };
        let read = found.took.likely * guess(IoKind::Read, Bytes::kib(4)) / found.guessed;
        assert!((495..505).contains(&read) && found.took == Took::exactly(found.took.likely), "{found:?}");
        assert!(now < 80_000_000 && !found.is_paced, "{found:?} after {now} ns");
    }
}

#[test]
fn extra_reads_go_on_when_the_tenants_are_gone() {
    let (begun, drains) = (Instant::ZERO + Nanos::millis(1), Nanos::millis(100));
    let mut probe = one_of_four(drains);
    assert_eq!(probe.wakes_if_quiet(begun), Instant::ZERO + drains, "the buffer drains without them, too");
    assert_eq!(probe.on_quiet(Instant::ZERO + drains), Step::Open);
    assert!(probe.extra_read(Bytes::ZERO, 0, |_| Bytes(1500)).is_some());
    // Without extra reads there is nothing to wait for.
    let mut failed = one_of_four(drains);
    let read = failed.extra.like().expect("one was sent");
    failed.on_extra_read(begun, read, Outcome::Failed);
    assert_eq!(failed.wakes_if_quiet(begun), begun + QUIET_MOST);
    assert_eq!(failed.on_quiet(begun + QUIET_MOST), Step::End);
    let mut sent_nothing = Probe { extra: Extra::default(), ..one_of_four(drains) };
    assert_eq!(sent_nothing.wakes_if_quiet(begun), begun + QUIET_MOST);
    assert_eq!(sent_nothing.on_quiet(begun + QUIET_MOST), Step::End);
}

/// Writes of 256 KiB; their application sends 1,500 of them per second.
#[test]
fn a_probe_waits_for_ios_that_come_seldom() {
    let probe = Probe::new(Instant::ZERO, Kind::of(1, 0, 256 << 10), Nanos::ZERO, 0, [4, 1]);
    let waits = |ios| Probe { found_before: [0, ios], ..probe.clone() }.wakes_if_quiet(Instant::ZERO);
    assert_eq!(waits(1500 / 40), Instant::ZERO + Nanos(PERIOD.0 * 4 / 37));
    assert_eq!([waits(0), waits(100_000)], [Instant::ZERO + QUIET; 2]);
    assert_eq!(waits(1), Instant::ZERO + QUIET_MOST, "others wait meanwhile");
}

#[test]
fn extra_reads_are_bounded() {
    let count = |probe: &mut Probe, price: u64| {
        (0..5_000).find(|extra| probe.extra_read(Bytes::ZERO, *extra, |_| Bytes(price)).is_none())
    };
    assert_eq!(count(&mut one_of_four(Nanos::ZERO), 1500), Some(32));
    let deep = Probe { found_before: [5_000, 1], ..one_of_four(Nanos::ZERO) };
    assert_eq!(count(&mut deep.clone(), 1500), Some(EXTRA_MOST), "however deep the queues are");
    assert_eq!(count(&mut deep.clone(), 20_000), Some(100), "2 ms of device time");
    let mut large = deep.clone();
    large.on_submit(true, &Io { length: Bytes::mib(1), ..io(IoKind::Read) });
    assert_eq!(count(&mut large, 1500), Some(8), "8 MiB");
    let mut sends_nothing = Probe { extra: Extra::default(), ..deep.clone() };
    assert_eq!(count(&mut sends_nothing, 1500), Some(0), "nobody knows what to read");
    sends_nothing.on_submit(true, &io(IoKind::Write));
    assert_eq!(count(&mut sends_nothing, 1500), Some(0), "a few writes among the reads are not repeated");
    assert_eq!(count(&mut one_of_four(Nanos::millis(100)), 1500), Some(0), "while the buffer drains");
    let mut writes = Probe { kind: Kind::of(1, 0, 4096), ..deep };
    assert_eq!(count(&mut writes, 1500), Some(0), "in a probe of writes");
    let mut failed = one_of_four(Nanos::ZERO);
    let read = failed.extra_read(Bytes::ZERO, 0, |_| Bytes(1500)).expect("more are wanted");
    assert!(failed.extra.fills());
    failed.on_extra_read(Instant(1), read, Outcome::Failed);
    assert_eq!(count(&mut failed, 1500), Some(0), "after one has failed");
    assert!(failed.needs_half(), "so it goes on with half of the IOs");
}

/// Reads of 10 µs each. In every fifth window a guest has as many, which are charged 7.5 µs each and take nothing from the kind.
#[test]
fn windows_that_others_had_do_not_count_if_there_are_others() {
    let mut probe = Probe::new(Instant::ZERO, Kind::default(), Nanos::ZERO, 0, ALONE);
    let guest = Io { mark: Mark(7_500), ..io(IoKind::Read) };
    for at in (1..).map(|n| n * 10_000).take_while(|at| *at < LONGEST.0) {
        if at / WINDOW.0 % 5 == 4 {
            probe.on_completion(Instant(at), false, false, &guest, TAKES, Bytes(1000));
        }
        if probe.on_completion(Instant(at), true, false, &io(IoKind::Read), TAKES, Bytes(1000)) == Step::End {
            break;
        }
    }
    let found = probe.result().expect("there was enough to see");
    let read = found.took.likely * guess(IoKind::Read, Bytes::kib(4)) / found.guessed;
    assert!((9_900..10_100).contains(&read), "a read takes 10 µs, not {read} ns");
}

/// The whole cycles that are found in windows with this many IOs of 10 µs, this much work of others, and a tenant with IOs in flight or not.
fn cycles(windows: &[(u64, Nanos, bool)]) -> Option<usize> {
    let mut all = Windows::new(Instant::ZERO, 0);
    all.count_from_now();
    for ((ios, others, is_idle), number) in windows.iter().zip(1..) {
        let open = all.open();
        (open.guessed, open.ios, open.others) = (ios * 10_000, *ios, others.0);
        all.close(Instant(number * WINDOW.0), WINDOW, *is_idle);
    }
    all.cycles().map(|(_, cycles)| cycles)
}

#[test]
fn a_pause_is_not_the_tenants_nor_others_nor_chance() {
    let none = Nanos::ZERO;
    let of = |busy, pause| cycles(&[busy, busy, pause, pause, busy].repeat(5));
    assert_eq!(of((1000, none, false), (10, none, false)), Some(4), "the SSD pauses");
    assert_eq!(of((1000, none, false), (10, none, true)), None, "the tenant has nothing to do");
    assert_eq!(of((1000, none, false), (10, WINDOW, false)), None, "others are served");
    // Almost all of the window is others', and the rate of the rest means nothing.
    assert_eq!(of((1000, none, false), (1000, WINDOW, false)), None, "others are served meanwhile");
    assert_eq!(of((4, none, false), (1, none, false)), None, "few IOs end in a window");
}

#[test]
fn pauses_of_the_ssd_are_not_all_that_counts_beside_others() {
    let busy = Window { span: WINDOW.0, guessed: 5_000_000, others: WINDOW.0 / 4, ..Window::default() };
    let pause = Window { span: WINDOW.0, guessed: 10_000, ..Window::default() };
    assert_eq!(clean(&[busy, pause, busy, pause, busy, pause]).map(|window| window.guessed), None);
    let alone = Window { others: 0, ..busy };
    let found = clean(&[busy, alone, busy, alone, pause]).expect("others were away for a while");
    assert_eq!((found.span, found.guessed), (WINDOW.0 * 3, 10_010_000));
}

#[test]
fn a_probe_beside_much_else_says_nothing_and_is_soon_over() {
    let mut probe = Probe::new(Instant::ZERO, Kind::default(), Nanos::ZERO, 0, ALONE);
    let mut now = 0;
    loop {
        now += 1000;
        let own = now % 2000 == 0;
        if probe.on_completion(Instant(now), own, false, &io(IoKind::Read), TAKES, Bytes(1000)) == Step::End {
            break;
        }
    }
    assert_eq!(probe.result(), None, "half of the SSD was others'");
    assert!(now <= WINDOW.0 * (CROWDED as u64 + 1), "it went on for {now} ns");
}
