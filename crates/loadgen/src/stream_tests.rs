use super::*;
use crate::direction::Rw;
use crate::pace::{Arrival, Pacing, Rate, Rates};
use reactor::BufferPool;
use units::ByteRate;

const UNITS: u64 = 100;

fn stream(job: &Job, hours: Hours) -> Stream {
    let mut pool = BufferPool::new(Bytes::mib(1));
    let buffers = (0..job.iodepth).map(|_| pool.take(4096).expect("1 MiB is enough")).collect();
    let region = Region { offset: Bytes::ZERO, unit: Bytes::kib(4), units: UNITS, increment: 0 };
    Stream::new(0, job, 0, Workload::new(job, region, 0, 1), hours, buffers)
}

fn go(turn: Turn) -> Departure {
    match turn {
        Turn::Go(departure) => departure,
        other => panic!("expected an IO, got {other:?}"),
    }
}

const ENDLESS: Budget = Budget { bytes: None, ios: None };
const ALWAYS: Hours = Hours { start: Instant::ZERO, stop: Instant::FAR_FUTURE, budget: ENDLESS };

fn ios(ios: u64) -> Budget {
    Budget { ios: Some(ios), ..ENDLESS }
}

#[test]
fn a_closed_loop_keeps_its_depth() {
    let mut stream = stream(&Job { iodepth: 2, ..Job::named("a") }, ALWAYS);
    let first = go(stream.next(Instant(5)));
    let second = go(stream.next(Instant(6)));
    assert!(matches!(stream.next(Instant(7)), Turn::Full));
    let (step, latency) = stream.on_completed(Instant(9), first.slot, first.buffer, true);
    assert_eq!((step, latency), (first.step, Nanos(4)));
    let third = go(stream.next(Instant(9)));
    assert_ne!(third.slot, second.slot);
}

#[test]
fn a_depth_below_the_slots_holds_back() {
    let mut stream = stream(&Job { iodepth: 4, ..Job::named("a") }, ALWAYS);
    stream.set_depth(1);
    let first = go(stream.next(Instant(0)));
    assert!(matches!(stream.next(Instant(1)), Turn::Full));
    stream.on_completed(Instant(2), first.slot, first.buffer, true);
    stream.set_depth(3);
    for _ in 0..3 {
        go(stream.next(Instant(3)));
    }
    assert!(matches!(stream.next(Instant(3)), Turn::Full));
}

#[test]
fn an_open_loop_counts_latency_from_its_timetable_and_a_cap_does_not() {
    for (is_open, expected) in [(true, 5_000), (false, 1_000)] {
        let per = [Some(Rate::Iops(1_000_000)); 3];
        let pacing = Pacing::Timed(Rates { per, arrival: Arrival::Linear, is_open });
        let mut stream = stream(&Job { pacing, ..Job::named("a") }, ALWAYS);
        let first = go(stream.next(Instant(0)));
        assert!(matches!(stream.next(Instant(10)), Turn::At(Instant(1_000))));
        assert!(matches!(stream.next(Instant(4_000)), Turn::Full));
        stream.on_completed(Instant(5_000), first.slot, first.buffer, true);
        let second = go(stream.next(Instant(5_000)));
        let (_, latency) = stream.on_completed(Instant(6_000), second.slot, second.buffer, true);
        assert_eq!(latency, Nanos(expected), "it was due at 1 µs, could leave at 5 µs and completed at 6 µs");
    }
}

#[test]
fn a_strict_stream_sends_as_fast_as_its_rate_or_its_slots_allow() {
    let job = Job { pacing: Pacing::Strict(ByteRate(4096 * 1_000_000)), iodepth: 1, ..Job::named("a") };
    let mut stream = stream(&job, ALWAYS);
    let first = go(stream.next(Instant(0)));
    assert!(matches!(stream.next(Instant(1_500)), Turn::Full));
    stream.on_completed(Instant(300), first.slot, first.buffer, true);
    assert!(matches!(stream.next(Instant(300)), Turn::At(Instant(1_000))), "the rate holds it back");
    let second = go(stream.next(Instant(1_200)));
    let (_, latency) = stream.on_completed(Instant(2_500), second.slot, second.buffer, true);
    assert_eq!(latency, Nanos(1_500), "it was meant to leave at 1 µs");
    let third = go(stream.next(Instant(2_500)));
    let (_, latency) = stream.on_completed(Instant(2_600), third.slot, third.buffer, true);
    assert_eq!(latency, Nanos(100), "its slot held it back until 2.5 µs");
    assert!(matches!(stream.next(Instant(2_600)), Turn::At(Instant(3_500))));
}

#[test]
fn a_direction_that_is_ahead_gives_way_to_the_other() {
    let per = [Some(Rate::Iops(1000)), Some(Rate::Iops(4000)), None];
    let pacing = Pacing::Timed(Rates { per, arrival: Arrival::Linear, is_open: false });
    let job = Job { rw: Rw::RandRw, rwmixread: 50, pacing, ..Job::named("a") };
    let mut stream = stream(&job, ALWAYS);
    let (mut now, mut counts) = (Instant::ZERO, [0u32; 2]);
    while now < Instant(100_000_000) {
        match stream.next(now) {
            Turn::Go(departure) => {
                counts[departure.step.direction.index()] += 1;
                stream.on_completed(now, departure.slot, departure.buffer, true);
            }
            Turn::At(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        counts[0].abs_diff(100) <= 1 && counts[1].abs_diff(400) <= 1,
        "each has its own rate: {counts:?}"
    );
}

#[test]
fn a_block_is_written_after_it_was_trimmed() {
    let budget = Budget { bytes: Some(3 * 4096), ios: None };
    let job = Job { rw: Rw::TrimWrite, iodepth: 2, ..Job::named("a") };
    let mut stream = stream(&job, Hours { budget, ..ALWAYS });
    let mut log = Vec::new();
    let mut out = VecDeque::new();
    loop {
        match stream.next(Instant(1)) {
            Turn::Go(departure) => out.push_back(departure),
            Turn::Full => {
                let done: Departure = out.pop_front().expect("something is out");
                assert_eq!(done.buffer.is_none(), done.step.direction == Direction::Trim);
                log.push((done.step.direction, done.step.first));
                stream.on_completed(Instant(1), done.slot, done.buffer, true);
            }
            Turn::Over => match out.pop_front() {
                Some(done) => {
                    log.push((done.step.direction, done.step.first));
                    stream.on_completed(Instant(1), done.slot, done.buffer, true);
                }
                None => break,
            },
            Turn::At(at) => panic!("nothing is timed, and yet {at:?}"),
        }
    }
    for unit in 0..3 {
        let at = |direction| log.iter().position(|entry| *entry == (direction, unit)).expect("it was done");
        assert!(at(Direction::Trim) < at(Direction::Write), "{log:?}");
    }
    assert_eq!(log.len(), 6, "{log:?}");
}

#[test]
fn a_block_whose_trim_failed_is_not_written() {
    let job = Job { rw: Rw::TrimWrite, ..Job::named("a") };
    let mut stream = stream(&job, Hours { budget: ios(1), ..ALWAYS });
    let trim = go(stream.next(Instant(0)));
    assert!(matches!(stream.next(Instant(1)), Turn::Full), "its write may be to come");
    stream.on_completed(Instant(2), trim.slot, trim.buffer, false);
    assert!(matches!(stream.next(Instant(2)), Turn::Over));
}

#[test]
fn a_stream_keeps_its_hours_and_its_budget() {
    let hours = Hours { start: Instant(10), stop: Instant(20), budget: ios(1) };
    let mut early = stream(&Job::named("a"), hours);
    assert!(matches!(early.next(Instant(3)), Turn::At(Instant(10))));
    let only = go(early.next(Instant(10)));
    early.on_completed(Instant(11), only.slot, only.buffer, true);
    assert!(matches!(early.next(Instant(12)), Turn::Over) && early.is_quiet());
    let mut late = stream(&Job::named("a"), Hours { budget: ENDLESS, ..hours });
    assert!(matches!(late.next(Instant(20)), Turn::Over));
}

#[test]
fn an_amount_is_bytes_or_ios_times_loops() {
    let region = Region { offset: Bytes::ZERO, unit: Bytes::kib(4), units: 10, increment: 0 };
    let amount = |io_size, number_ios, loops| Budget::new(Amount { io_size, number_ios, loops }, &region);
    assert_eq!(amount(None, None, 1), Budget { bytes: Some(40 << 10), ios: None });
    assert_eq!(amount(None, Some(3), 2), Budget { bytes: Some(80 << 10), ios: Some(6) });
    assert_eq!(amount(Some(Bytes::kib(101)), None, 1), Budget { bytes: Some(100 << 10), ios: None });
}
