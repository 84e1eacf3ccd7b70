//! Sockets that are read: bytes go straight to where they belong, in order, however often the way is changed.

mod common;

use common::{Side, pattern};
use reactor::{Backend, Event, Options, Token};
use socket2::Socket;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use units::Bytes;

on_both_backends!(
    a_read_socket_says_that_there_are_bytes_and_reports_none,
    what_was_received_before_is_reported_before,
    any_changes_between_reading_and_reporting_lose_nothing,
    a_reader_that_stops_early_is_told_again_after_others,
    a_paused_socket_is_not_read_and_goes_on,
    the_end_and_a_reset_are_reported_to_readers,
    closing_a_read_socket_is_silent_and_ends_it,
    a_read_socket_can_be_detached,
    a_read_socket_needs_no_receive_buffer,
    what_is_expected_is_told_when_it_is_there,
);

/// A socket that is read, and its other end.
fn pulled(side: &mut Side) -> (Token, TcpStream) {
    let (token, far) = side.pair();
    side.reactor.pull_receive(token);
    // The receive that was asked for before is no more.
    side.fence(2, |event| panic!("nothing was sent, and yet {event:?}"));
    (token, far)
}

/// Waits until there is something to read.
fn readable(side: &mut Side, token: Token) {
    match side.event() {
        Event::Readable { token: from } if from == token => {}
        other => panic!("{other:?}"),
    }
}

/// Reads until `count` bytes have come, with `room` for this many bytes in each place.
fn read_all(side: &mut Side, token: Token, count: usize, room: [usize; 2]) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < count {
        readable(side, token);
        let (mut first, mut second) = (vec![0; room[0]], vec![0; room[1]]);
        while let Some(got) = side.reactor.read(token, [&mut first, &mut second]) {
            read.extend(first.iter().chain(&second).take(got));
            if got < room[0] + room[1] {
                break;
            }
        }
    }
    read
}

fn write_in_pieces(mut far: TcpStream, bytes: Vec<u8>) -> JoinHandle<TcpStream> {
    thread::spawn(move || {
        let mut rest = &bytes[..];
        for portion in [1, 24, 4096, 72, 65_537, 300_000, 5000].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(portion));
            far.write_all(now).expect("written");
            rest = later;
            if rest.is_empty() {
                return far;
            }
        }
        unreachable!("the portions have no end")
    })
}

fn a_read_socket_says_that_there_are_bytes_and_reports_none(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    let mut place = [0; 10];
    assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None, "its bytes are reported");
    side.reactor.pull_receive(token);
    side.fence(3, |event| panic!("nothing was sent, and yet {event:?}"));
    far.write_all(b"hello").expect("written");
    readable(&mut side, token);
    side.fence(3, |event| panic!("it is the reader's turn, and yet {event:?}"));
    let mut rest = [0; 10];
    assert_eq!(side.reactor.read(token, [&mut place[..2], &mut rest]), Some(5));
    assert_eq!((&place[..2], &rest[..3]), (&b"he"[..], &b"llo"[..]));
    assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None);
    far.write_all(b"again").expect("written");
    assert_eq!(read_all(&mut side, token, 5, [3, 4]), b"again");
}

fn what_was_received_before_is_reported_before(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    far.write_all(b"first ").expect("written");
    side.fence(3, |event| {
        let Event::Received { bytes, .. } = event else { panic!("{event:?}") };
        assert_eq!(&bytes[..], b"first ");
    });
    far.write_all(b"second ").expect("written");
    side.reactor.flush().expect("flushes");
    side.reactor.pull_receive(token);
    far.write_all(b"third").expect("written");
    let mut all = Vec::new();
    while all.len() < 12 {
        match side.event() {
            Event::Received { bytes, .. } => all.extend_from_slice(&bytes),
            Event::Readable { .. } => {
                let mut place = [0; 64];
                let count = side.reactor.read(token, [&mut [], &mut place]).unwrap_or(0);
                all.extend_from_slice(&place[..count]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(String::from_utf8_lossy(&all), "second third");
}

/// The model: the bytes that were written.
fn any_changes_between_reading_and_reporting_lose_nothing(backend: Backend) {
    for seed in 1..=6u64 {
        let options =
            Options { receive_buffers: 4, receive_buffer_size: Bytes::kib(4), ..Options::default() };
        let mut side = Side::with_options(backend, &options);
        let (token, far) = side.pair();
        let sent = pattern(seed, 3_000_000);
        let writer = write_in_pieces(far, sent.clone());
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % limit
        };
        let mut got = Vec::new();
        while got.len() < sent.len() {
            match side.event() {
                Event::Received { bytes, .. } => got.extend_from_slice(&bytes),
                Event::Readable { .. } => loop {
                    let rooms = [below(20_000) as usize, 1 + below(5000) as usize];
                    let mut places = rooms.map(|room| vec![0; room]);
                    let [first, second] = &mut places;
                    let Some(count) = side.reactor.read(token, [first, second]) else { break };
                    got.extend(places.iter().flatten().take(count));
                    if count < rooms[0] + rooms[1] {
                        break;
                    }
                    if below(4) == 0 {
                        side.reactor.read_later(token);
                        break;
                    }
                },
                other => panic!("{other:?}"),
            }
            match below(12) {
                0 | 1 => side.reactor.pull_receive(token),
                2 => side.reactor.push_receive(token),
                3 => {
                    side.reactor.pause_receive(token);
                    if below(2) == 0 {
                        side.reactor.flush().expect("flushes");
                    }
                    side.reactor.resume_receive(token);
                }
                4 => side.reactor.flush().expect("flushes"),
                _ => {}
            }
        }
        assert!(got == sent, "seed {seed}: what arrived differs");
        drop(writer.join().expect("the writer ends"));
    }
}

fn a_reader_that_stops_early_is_told_again_after_others(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = pulled(&mut side);
    far.write_all(b"abc").expect("written");
    for expected in b"abc" {
        readable(&mut side, token);
        let mut place = [0];
        assert_eq!(side.reactor.read(token, [&mut place, &mut []]), Some(1));
        assert_eq!(place[0], *expected);
        side.reactor.read_later(token);
        assert!(side.reactor.next_event().is_none(), "it is the turn of others");
    }
}

fn a_paused_socket_is_not_read_and_goes_on(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = pulled(&mut side);
    far.write_all(b"before").expect("written");
    readable(&mut side, token);
    side.reactor.pause_receive(token);
    let mut place = [0; 64];
    assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None, "it is paused");
    far.write_all(b" and after").expect("written");
    side.fence(3, |event| panic!("paused, and yet {event:?}"));
    side.reactor.resume_receive(token);
    assert_eq!(read_all(&mut side, token, 16, [4, 5]), b"before and after");
    // Also when the news of bytes are held back.
    side.fence(1, |event| assert!(matches!(event, Event::Readable { .. }), "{event:?}"));
    side.reactor.pause_receive(token);
    far.write_all(b"!").expect("written");
    side.fence(3, |event| panic!("paused, and yet {event:?}"));
    side.reactor.resume_receive(token);
    assert_eq!(read_all(&mut side, token, 1, [9, 9]), b"!");
    side.reactor.push_receive(token);
    far.write_all(b"reported").expect("written");
    while !matches!(side.event(), Event::Received { bytes, .. } if &bytes[..] == b"reported") {}
}

fn the_end_and_a_reset_are_reported_to_readers(backend: Backend) {
    for is_reset in [false, true] {
        let mut side = Side::new(backend);
        let (token, mut far) = pulled(&mut side);
        if is_reset {
            Socket::from(far).set_linger(Some(Duration::ZERO)).expect("settable; the drop then resets");
        } else {
            far.write_all(b"last words").expect("written");
            drop(far);
            assert_eq!(read_all(&mut side, token, 10, [10, 0]), b"last words");
        }
        loop {
            let mut place = [0; 5];
            match side.event() {
                Event::Readable { .. } => assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None),
                Event::ReceiveEnded { error, .. } => {
                    let kind = error.map(|error| error.kind());
                    assert_eq!(kind, is_reset.then_some(ErrorKind::ConnectionReset));
                    break;
                }
                other => panic!("{other:?}"),
            }
            // A read that was full does not look for the end.
            side.reactor.read_later(token);
        }
        let mut place = [0; 5];
        assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None);
        side.fence(3, |event| panic!("it has ended, and yet {event:?}"));
    }
}

fn closing_a_read_socket_is_silent_and_ends_it(backend: Backend) {
    let mut side = Side::new(backend);
    for is_told in [false, true] {
        let (token, mut far) = pulled(&mut side);
        if is_told {
            far.write_all(b"unread").expect("written");
            readable(&mut side, token);
        }
        side.reactor.close(token);
        side.fence(5, |event| panic!("closed, and yet {event:?}"));
        let mut place = [0; 5];
        assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None);
        side.reactor.read_later(token);
        side.reactor.pull_receive(token);
        side.reactor.push_receive(token);
        far.set_read_timeout(Some(Duration::from_secs(60))).expect("settable");
        let end = std::io::Read::read(&mut far, &mut place).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)), "{end:?}");
        let (next, mut far) = side.pair();
        far.write_all(b"next").expect("written");
        assert_eq!(side.receive(next, 4), b"next");
        side.reactor.close(next);
    }
    // And when the reactor is dropped with one.
    let (_token, _far) = pulled(&mut side);
}

fn a_read_socket_can_be_detached(backend: Backend) {
    for is_told in [false, true] {
        let mut first = Side::new(backend);
        let (token, mut far) = pulled(&mut first);
        if is_told {
            far.write_all(b"unread").expect("written");
            readable(&mut first, token);
        }
        first.reactor.detach(token);
        let Event::Detached { socket, .. } = first.event() else { panic!("nothing else is to be said") };
        if !is_told {
            far.write_all(b"unread").expect("written");
        }
        let mut second = Side::new(backend);
        let token = second.reactor.add_socket(socket).expect("added");
        assert_eq!(second.receive(token, 6), b"unread");
    }
}

fn a_read_socket_needs_no_receive_buffer(backend: Backend) {
    let options = Options { receive_buffers: 1, receive_buffer_size: Bytes::kib(4), ..Options::default() };
    let mut side = Side::with_options(backend, &options);
    let (token, far) = pulled(&mut side);
    let sent = pattern(9, 5_000_000);
    let writer = write_in_pieces(far, sent.clone());
    assert!(read_all(&mut side, token, sent.len(), [100_000, 4096]) == sent, "what arrived differs");
    drop(writer.join().expect("the writer ends"));
}

fn what_is_expected_is_told_when_it_is_there(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = pulled(&mut side);
    for round in 0..3u64 {
        let sent = pattern(round, 10_000);
        side.reactor.expect(token, 10_000);
        far.write_all(&sent[..9_999]).expect("written");
        side.fence(3, |event| panic!("one byte is missing, and yet {event:?}"));
        far.write_all(&sent[9_999..]).expect("written");
        readable(&mut side, token);
        let mut place = vec![0; 10_001];
        assert_eq!(side.reactor.read(token, [&mut place, &mut []]), Some(10_000));
        assert!(place[..10_000] == sent, "round {round}");
        if round == 1 {
            side.reactor.push_receive(token);
            far.write_all(b"!").expect("written");
            assert_eq!(side.receive(token, 1), b"!", "reported, as nothing is expected any more");
            side.reactor.pull_receive(token);
            side.fence(2, |event| panic!("nothing was sent, and yet {event:?}"));
        }
    }
    // An end comes too early.
    side.reactor.expect(token, 100);
    far.write_all(b"?").expect("written");
    drop(far);
    assert_eq!(read_all(&mut side, token, 1, [50, 60]), b"?");
    readable(&mut side, token);
    let mut place = [0; 5];
    assert_eq!(side.reactor.read(token, [&mut place, &mut []]), None);
    assert!(matches!(side.event(), Event::ReceiveEnded { error: None, .. }));
}
