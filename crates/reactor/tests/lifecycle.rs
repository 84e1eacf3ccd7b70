//! Time, wake-ups, and the end of a reactor.

mod common;

use common::{Side, local_listener, pattern, tcp_pair};
use reactor::{Backend, Clock, DiskOp, Event, Options, Reactor, SendBatch};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::mpsc;
use std::thread;
use units::{Bytes, Nanos};

on_both_backends!(
    a_deadline_is_never_early,
    a_wake_up_from_another_thread_ends_the_wait,
    wake_ups_before_the_wait_are_one_event,
    no_message_is_lost_between_threads,
    a_received_buffer_outlives_its_reactor,
    dropping_the_reactor_returns_every_buffer,
    a_reactor_that_busy_polls_behaves_the_same,
);

#[test]
fn auto_finds_a_backend_and_says_why_it_is_not_io_uring() {
    let reactor = Reactor::new(Backend::Auto).expect("epoll always works");
    match reactor.backend() {
        Backend::IoUring => assert!(reactor.fallback_reason().is_none()),
        Backend::Epoll => assert!(reactor.fallback_reason().is_some()),
        Backend::Auto => panic!("not a backend"),
    }
}

fn a_deadline_is_never_early(backend: Backend) {
    let mut side = Side::new(backend);
    for span in [0, 1, 20, 50, 100, 900, 1_000, 3_000].map(Nanos::micros) {
        let deadline = Clock.now() + span;
        side.reactor.wait(Some(deadline)).expect("waits");
        let now = Clock.now();
        assert!(now >= deadline, "{} early", deadline.since(now));
        assert!(side.reactor.next_event().is_none());
    }
}

fn a_wake_up_from_another_thread_ends_the_wait(backend: Backend) {
    let mut side = Side::new(backend);
    for _ in 0..100 {
        let waker = side.reactor.waker();
        let thread = thread::spawn(move || waker.wake());
        assert!(matches!(side.event(), Event::Woken));
        thread.join().expect("the thread only wakes");
    }
}

fn wake_ups_before_the_wait_are_one_event(backend: Backend) {
    let mut side = Side::new(backend);
    let waker = side.reactor.waker();
    (0..3).for_each(|_| waker.clone().wake());
    assert!(matches!(side.event(), Event::Woken));
    side.reactor.wait(Some(Clock.now() + Nanos::micros(100))).expect("waits");
    assert!(side.reactor.next_event().is_none());
    drop(side);
    waker.wake();
}

fn no_message_is_lost_between_threads(backend: Backend) {
    const MESSAGES: u32 = 20_000;
    let mut side = Side::new(backend);
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (send, waker) = (send.clone(), side.reactor.waker());
            thread::spawn(move || {
                for number in 0..MESSAGES {
                    send.send(number).expect("the other end waits");
                    waker.wake();
                }
            })
        })
        .collect();
    let mut received = 0;
    while received < 2 * MESSAGES {
        // Only a wake-up makes us look, so a lost one would be a hang.
        assert!(matches!(side.event(), Event::Woken));
        received += receive.try_iter().count() as u32;
    }
    threads.into_iter().for_each(|thread| thread.join().expect("the thread ends"));
}

fn a_received_buffer_outlives_its_reactor(backend: Backend) {
    let mut side = Side::new(backend);
    let (_, mut far) = side.pair();
    let sent = pattern(1, 1000);
    far.write_all(&sent).expect("written");
    let Event::Received { bytes, .. } = side.event() else { panic!("only bytes are under way") };
    drop(side);
    assert_eq!(&bytes[..], &sent[..bytes.len()]);
}

fn dropping_the_reactor_returns_every_buffer(backend: Backend) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drop-{backend:?}"));
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).expect("made");
    file.set_len(64 << 20).expect("sparse");
    std::fs::remove_file(&path).expect("the descriptor keeps it");
    for is_handed_over in [false, true] {
        let Side { mut reactor, mut pool } = Side::new(backend);
        let disk = reactor.add_file(file.try_clone().expect("a second handle").into()).expect("added");
        let listener = local_listener();
        let address = listener.local_addr().expect("bound");
        reactor.listen(listener).expect("listens");
        let mut far_ends = Vec::new();
        for number in 0..20u64 {
            reactor.connect(address).expect("begins");
            let (near, mut far) = tcp_pair();
            far.write_all(&pattern(number, 100)).expect("written");
            let token = reactor.add_socket(near).expect("added");
            far_ends.push(far);
            let mut batch = SendBatch::new();
            for _ in 0..8 {
                batch.push_buffer(pool.take(128 << 10).expect("the pool has room"), 0..128 << 10);
            }
            reactor.send(token, batch).expect("none is in flight");
            let buffer = pool.take(1 << 20).expect("the pool has room");
            let offset = number << 20;
            let op = match number % 3 {
                0 => DiskOp::Read { buffer, range: 0..1 << 20, offset },
                1 => DiskOp::Write { buffer, range: 0..1 << 20, offset, durable: false },
                _ => DiskOp::Write { buffer, range: 0..1 << 20, offset, durable: true },
            };
            reactor.submit_disk(disk, number, op).expect("below the depth");
        }
        if is_handed_over {
            reactor.flush().expect("flushes");
        }
        assert_eq!(pool.lent(), Bytes::mib(40));
        drop(reactor);
        assert_eq!(pool.lent(), Bytes::ZERO, "handed over: {is_handed_over}");
    }
}

fn a_reactor_that_busy_polls_behaves_the_same(backend: Backend) {
    for is_polite in [false, true] {
        busy_polls(backend, &Options { spin: Nanos::micros(50), is_polite, ..Options::default() });
    }
}

fn busy_polls(backend: Backend, options: &Options) {
    let mut side = Side::with_options(backend, options);
    let (token, mut far) = side.pair();
    for round in 0..100u64 {
        let sent = pattern(round, 300);
        far.write_all(&sent).expect("written");
        assert_eq!(side.receive(token, 300), sent);
        let deadline = Clock.now() + Nanos::micros(round);
        side.reactor.wait(Some(deadline)).expect("waits");
        assert!(Clock.now() >= deadline);
        let waker = side.reactor.waker();
        let thread = thread::spawn(move || waker.wake());
        assert!(matches!(side.event(), Event::Woken));
        thread.join().expect("the thread only wakes");
    }
}
