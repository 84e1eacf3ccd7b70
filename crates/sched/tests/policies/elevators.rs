//! Promises of Linux's mq-deadline and Kyber.

use crate::loads::{Load, reader, serve_by, writer};
use crate::world::Event;
use proptest::prelude::*;
use sched::{Done, Io, IoKind, Kyber, KyberConfig, MqDeadline, MqDeadlineConfig, Next, Outcome, Policy};
use std::collections::VecDeque;
use units::{Bytes, Instant, Nanos};

/// mq-deadlines with constants that make every rule act in a world of milliseconds.
pub(crate) fn mq_deadlines() -> impl Strategy<Value = MqDeadlineConfig> {
    (1..60u32, 1..40u32, 10..2000u64, 1..6u64, 0..4u32, 1..20u32).prop_map(
        |(nr_requests, depth, micros, writes, writes_starved, batch)| MqDeadlineConfig {
            nr_requests,
            depth,
            read_expire: Nanos::micros(micros),
            write_expire: Nanos::micros(micros * writes),
            writes_starved,
            batch,
        },
    )
}

/// Kybers with constants that make every rule act in a world of milliseconds.
pub(crate) fn kybers() -> impl Strategy<Value = KyberConfig> {
    (1..100u32, 1..60u32, 1..20u32, 50..2000u64).prop_map(|(nr_requests, depth, tokens, micros)| {
        KyberConfig {
            nr_requests,
            depth,
            tokens: [2 * tokens, tokens, 1 + tokens / 8],
            read_target: Nanos::micros(micros),
            write_target: Nanos::micros(2 * micros),
        }
    })
}

#[test]
fn with_an_nvme_queue_mq_deadline_is_first_in_first_out() {
    let loads = [reader(Bytes::kib(4), 64), writer(Bytes::kib(128), 64)];
    let deep = serve_by(MqDeadline::new(MqDeadlineConfig::NVME), &loads, Nanos::secs(1)).1;
    let none = serve_by(sched::Fifo::default(), &loads, Nanos::secs(1)).1;
    assert_eq!((deep[0].ios, deep[1].ios), (none[0].ios, none[1].ios));
    let shallow = serve_by(MqDeadline::new(MqDeadlineConfig::SATA), &loads, Nanos::secs(1)).1;
    assert_ne!(shallow[0].ios, none[0].ios, "where it holds IOs back it decides something");
}

#[test]
fn mq_deadline_prefers_reads_by_two_batches_to_one() {
    let config = MqDeadlineConfig { nr_requests: 1 << 20, depth: 8, ..MqDeadlineConfig::SATA };
    let got = serve_by(
        MqDeadline::new(config),
        &[reader(Bytes::kib(4), 256), writer(Bytes::kib(4), 256)],
        Nanos::secs(1),
    )
    .1;
    let ratio = got[0].ios as f64 / got[1].ios as f64;
    assert!((ratio - 2.0).abs() < 0.05, "{got:?}");
}

/// Number of younger IOs of its direction that have passed the oldest one since it had waited too long.
#[derive(Default)]
struct Overdue {
    oldest: Option<Io>,
    passed: u32,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn the_oldest_waits_for_no_more_than_a_batch_beyond_its_time(world in crate::every::worlds(), config in mq_deadlines()) {
        // With a request for every IO, so that all that wait are known to the scheduler.
        let config = MqDeadlineConfig { nr_requests: 1 << 20, ..config };
        let mut policy = MqDeadline::new(config);
        let (mut now, mut in_flight, mut events) = (Instant::ZERO, Vec::new(), world.events());
        let mut queued: [VecDeque<(Io, Instant)>; 2] = Default::default();
        let mut overdue: [Overdue; 2] = Default::default();
        let direction = |io: &Io| usize::from(io.kind != IoKind::Read);
        for _ in 0..world.steps {
            match events.next(in_flight.len()) {
                Event::Wait(span) => now += span,
                Event::Arrival(io) => {
                    policy.on_arrival(now, io);
                    queued[direction(&io)].push_back((io, now));
                }
                Event::Withdraw(_) => {}
                Event::Completion { index, .. } => {
                    let io = in_flight.swap_remove(index);
                    policy.on_completion(now, Done { io, outcome: Outcome::Failed });
                }
            }
            while let Next::Submit(io) = policy.next(now) {
                in_flight.push(io);
                let (way, expire) = (direction(&io), [config.read_expire, config.write_expire]);
                let place = queued[way].iter().position(|(other, _)| other.id == io.id).expect("it was queued");
                let (oldest, since) = queued[way][0];
                if place > 0 && now >= since + expire[way] {
                    let overdue = &mut overdue[way];
                    overdue.passed = if overdue.oldest == Some(oldest) { overdue.passed + 1 } else { 1 };
                    overdue.oldest = Some(oldest);
                    prop_assert!(overdue.passed < config.batch, "{oldest:?} waits since {since:?}; it is {now:?}");
                }
                queued[way].remove(place);
            }
        }
    }

    #[test]
    fn kybers_tokens_hold(world in crate::every::worlds(), config in kybers()) {
        let mut kyber = Kyber::new(config);
        let (mut now, mut in_flight, mut events) = (Instant::ZERO, Vec::<Io>::new(), world.events());
        let of = |in_flight: &[Io], kind| in_flight.iter().filter(|io| io.kind == kind).count();
        for _ in 0..world.steps {
            // Ten times slower, so that tokens are judged several times.
            match events.next(in_flight.len()) {
                Event::Wait(span) => now += Nanos(10 * span.0),
                Event::Arrival(io) => _ = kyber.on_arrival(now, io),
                Event::Withdraw(_) => {}
                Event::Completion { index, latency } => {
                    let io = in_flight.swap_remove(index);
                    let outcome = latency.map_or(Outcome::Failed, |latency| Outcome::Success { latency });
                    kyber.on_completion(now, Done { io, outcome });
                }
            }
            while let Next::Submit(io) = kyber.next(now) {
                in_flight.push(io);
                let kinds = [IoKind::Read, IoKind::Write, IoKind::Management];
                for ((kind, tokens), most) in kinds.into_iter().zip(kyber.tokens()).zip(config.tokens) {
                    prop_assert!((1..=most).contains(&tokens));
                    prop_assert!(io.kind != kind || of(&in_flight, kind) <= tokens as usize, "{io:?}, {tokens} tokens");
                }
            }
        }
    }
}

#[test]
fn kyber_throttles_writes_that_are_in_time_while_reads_are_late() {
    // Reads have eight units and 54 µs each: 256 of them take 1.7 ms, and writes of 1 MiB meanwhile make them late.
    let loads = [reader(Bytes::kib(4), 200), Load { think: Nanos::ZERO, ..writer(Bytes::mib(1), 32) }];
    let config = KyberConfig { nr_requests: 1 << 20, write_target: Nanos::secs(1), ..KyberConfig::NVME };
    let (kyber, got) = serve_by(Kyber::new(config), &loads, Nanos::secs(3));
    let [reads, writes, others] = kyber.tokens();
    assert_eq!((reads, others), (256, 16), "{got:?}");
    assert!(writes <= 8, "{writes} tokens of 128: {got:?}");
    let (_, none) = serve_by(sched::Fifo::default(), &loads, Nanos::secs(3));
    assert!(got[0].ios > 2 * none[0].ios, "{got:?} {none:?}");
}

#[test]
fn kyber_leaves_tokens_alone_while_all_are_in_time() {
    let loads = [reader(Bytes::kib(4), 64), writer(Bytes::kib(4), 64)];
    let (kyber, _) = serve_by(Kyber::default(), &loads, Nanos::secs(1));
    assert_eq!(kyber.tokens(), KyberConfig::NVME.tokens);
}
