//! Connections: all bytes that go in come out, whole, in order, at the right one; and every way for a connection to
//! end.

mod common;

use common::{Side, local_listener, pattern, read_exactly, tcp_pair};
use reactor::{Backend, Event, Options, Refusal, SendBatch, Token};
use socket2::{SockRef, Socket};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;
use units::Bytes;

on_both_backends!(
    bytes_come_back_whole_however_they_are_cut,
    two_hundred_connections_share_four_buffers,
    a_slow_reader_gets_a_long_batch_whole,
    a_second_batch_and_a_stale_token_are_refused_with_the_batch,
    a_paused_socket_says_nothing_and_loses_nothing,
    a_paused_socket_pushes_back,
    pausing_and_resuming_at_once_changes_nothing,
    while_all_buffers_are_held_nothing_arrives_and_then_all_of_it,
    a_closed_socket_is_silent_and_its_slot_is_used_again,
    closing_with_a_batch_in_flight_returns_its_buffers,
    an_orderly_end_and_a_reset_are_told_apart,
    half_a_connection_can_be_closed_after_the_last_batch,
    sending_to_a_broken_connection_is_an_error_and_not_a_signal,
    connecting_to_nobody_is_an_error,
    a_connect_that_is_closed_at_once_is_silent,
    a_detached_socket_goes_on_in_another_reactor,
    a_detached_socket_sends_its_batch_first,
    a_closed_listener_accepts_no_more,
);

/// Few and small buffers, so that they run out.
fn scarce() -> Options {
    Options { receive_buffers: 4, receive_buffer_size: Bytes::kib(4), ..Options::default() }
}

/// Echoes on `token` until the other end is done.
fn echo(side: &mut Side, token: Token) {
    let mut waiting = Vec::new();
    let mut is_sending = false;
    let mut has_ended = false;
    while !(has_ended && waiting.is_empty() && !is_sending) {
        match side.event() {
            Event::Received { bytes, .. } => waiting.extend_from_slice(&bytes),
            Event::Sent { result, .. } => {
                result.expect("sent");
                is_sending = false;
            }
            Event::ReceiveEnded { error, .. } => {
                assert!(error.is_none(), "{error:?}");
                has_ended = true;
            }
            other => panic!("{other:?}"),
        }
        if !is_sending && !waiting.is_empty() {
            let batch = side.batch(&waiting);
            waiting.clear();
            side.reactor.send(token, batch).expect("none is in flight");
            is_sending = true;
        }
    }
}

fn bytes_come_back_whole_however_they_are_cut(backend: Backend) {
    let mut side = Side::with_options(backend, &scarce());
    let (token, mut far) = side.pair();
    let sent = pattern(1, 3_000_000);
    let mut reader = far.try_clone().expect("a second handle");
    let length = sent.len();
    let back = thread::spawn(move || read_exactly(&mut reader, length));
    let to_send = sent.clone();
    let writer = thread::spawn(move || {
        let mut rest = &to_send[..];
        for portion in [1, 2, 3, 24, 71, 127, 4096, 5000, 65_537].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(portion));
            far.write_all(now).expect("written");
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        far.shutdown(Shutdown::Write).expect("open");
    });
    echo(&mut side, token);
    writer.join().expect("the writer ends");
    assert!(back.join().expect("the reader ends") == sent, "what came back differs");
}

fn two_hundred_connections_share_four_buffers(backend: Backend) {
    const CONNECTIONS: usize = 200;
    const LENGTH: usize = 20_000;
    let mut side = Side::with_options(backend, &scarce());
    let (_, address) = side.listen();
    // Both ends are in the one reactor. The connecting end sends its number's pattern, and gets it back.
    let mut asking: HashMap<Token, (u64, Vec<u8>)> = HashMap::new();
    let mut answering: HashMap<Token, Vec<u8>> = HashMap::new();
    for number in 0..CONNECTIONS as u64 {
        asking.insert(side.reactor.connect(address).expect("begins"), (number, Vec::new()));
    }
    let mut complete = 0;
    while complete < CONNECTIONS {
        match side.event() {
            Event::Connected { token, result } => {
                result.expect("connected");
                let batch = side.batch(&pattern(asking[&token].0, LENGTH));
                side.reactor.send(token, batch).expect("connected");
            }
            Event::Accepted { socket, .. } => {
                answering.insert(side.reactor.add_socket(socket).expect("added"), Vec::new());
            }
            Event::Received { token, bytes } => {
                if let Some((number, received)) = asking.get_mut(&token) {
                    received.extend_from_slice(&bytes);
                    if received.len() == LENGTH {
                        assert!(*received == pattern(*number, LENGTH), "connection {number} differs");
                        complete += 1;
                    }
                } else {
                    let received = answering.get_mut(&token).expect("one of ours");
                    received.extend_from_slice(&bytes);
                    if received.len() == LENGTH {
                        let received = received.clone();
                        drop(bytes);
                        let batch = side.batch(&received);
                        side.reactor.send(token, batch).expect("its first");
                    }
                }
            }
            Event::Sent { result, .. } => result.expect("sent"),
            other => panic!("{other:?}"),
        }
    }
}

fn a_slow_reader_gets_a_long_batch_whole(backend: Backend) {
    let mut side = Side::new(backend);
    let (near, mut far) = tcp_pair();
    SockRef::from(&near).set_send_buffer_size(4096).expect("settable");
    let token = side.reactor.add_socket(near).expect("added");
    // More pieces than one system call takes, and more bytes than the socket does.
    let mut batch = SendBatch::new();
    let mut expected = Vec::new();
    for number in 0..1500u64 {
        let payload = pattern(number, 700);
        batch.push_bytes(&number.to_le_bytes());
        let mut buffer = side.pool.take(payload.len()).expect("the pool has room");
        buffer.copy_from_slice(&payload);
        batch.push_buffer(buffer, 100..700);
        expected.extend_from_slice(&number.to_le_bytes());
        expected.extend_from_slice(&payload[100..]);
    }
    let length = batch.len();
    assert_eq!(length, expected.len());
    side.reactor.send(token, batch).expect("none is in flight");
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        let mut portion = [0; 3001];
        while received.len() < length {
            let count = far.read(&mut portion).expect("reads");
            assert!(count > 0, "the connection ended after {} bytes", received.len());
            received.extend_from_slice(&portion[..count]);
        }
        received
    });
    let Event::Sent { token: from, mut batch, result } = side.event() else {
        panic!("only the batch is under way")
    };
    result.expect("sent");
    assert_eq!((from, batch.drain_buffers().count()), (token, 1500));
    assert!(reader.join().expect("the reader ends") == expected, "what arrived differs");
}

fn a_second_batch_and_a_stale_token_are_refused_with_the_batch(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, _far) = side.pair();
    let first = side.batch(b"first");
    side.reactor.send(token, first).expect("none is in flight");
    let second = side.batch(b"second");
    let refused = side.reactor.send(token, second).expect_err("one is in flight");
    assert_eq!((refused.why, refused.item.len()), (Refusal::Busy, 6));
    side.reactor.close(token);
    let refused = side.reactor.send(token, refused.item).expect_err("closed");
    assert_eq!((refused.why, refused.item.len()), (Refusal::Closed, 6));
}

fn a_paused_socket_says_nothing_and_loses_nothing(backend: Backend) {
    let mut side = Side::with_options(backend, &scarce());
    let (token, mut far) = side.pair();
    let sent = pattern(3, 200_000);
    far.set_nonblocking(true).expect("settable");
    let mut written = far.write(&sent).expect("an empty socket takes something");
    let Event::Received { bytes, .. } = side.event() else { panic!("only bytes are under way") };
    let mut received = bytes.to_vec();
    drop(bytes);
    side.reactor.pause_receive(token);
    // The fence's connection needs the buffers that the paused socket would otherwise sit on.
    for _ in 0..3 {
        written += far.write(&sent[written..]).unwrap_or(0);
        side.fence(10, |event| panic!("paused, and yet {event:?}"));
    }
    far.set_nonblocking(false).expect("settable");
    let rest = sent[written..].to_vec();
    let writer = thread::spawn(move || {
        far.write_all(&rest).expect("written");
        far
    });
    side.reactor.resume_receive(token);
    received.extend(side.receive(token, sent.len() - received.len()));
    assert!(received == sent, "what arrived differs");
    drop(writer.join().expect("the writer ends"));
    assert!(matches!(side.event(), Event::ReceiveEnded { error: None, .. }));
}

fn a_paused_socket_pushes_back(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    side.reactor.pause_receive(token);
    side.fence(2, |event| panic!("paused, and yet {event:?}"));
    far.set_nonblocking(true).expect("settable");
    let portion = vec![0; 1 << 20];
    let mut taken = 0;
    // Far beyond the socket buffers of both ends.
    while taken < 1 << 28 {
        match far.write(&portion) {
            Ok(count) => taken += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return;
            }
        }
    }
    panic!("{taken} bytes were taken for a paused socket");
}

fn pausing_and_resuming_at_once_changes_nothing(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    for round in 0..50u64 {
        let sent = pattern(round, 100);
        far.write_all(&sent).expect("written");
        for _ in 0..round % 4 {
            side.reactor.pause_receive(token);
            if round % 3 == 0 {
                side.reactor.flush().expect("flushes");
            }
            side.reactor.resume_receive(token);
        }
        assert_eq!(side.receive(token, 100), sent, "round {round}");
    }
}

fn while_all_buffers_are_held_nothing_arrives_and_then_all_of_it(backend: Backend) {
    let mut side = Side::with_options(backend, &scarce());
    let (token, mut far) = side.pair();
    let sent = pattern(4, 100_000);
    let to_send = sent.clone();
    let writer = thread::spawn(move || far.write_all(&to_send).map(|()| far));
    let mut received = Vec::new();
    let mut held = Vec::new();
    while received.len() < sent.len() {
        if held.len() == 4 {
            // All are held: the reactor has nothing to say, however often it is asked.
            for _ in 0..10 {
                side.reactor.flush().expect("flushes");
            }
            let early = side.reactor.next_event();
            assert!(early.is_none(), "{early:?}");
            held.clear();
        }
        let Event::Received { bytes, .. } = side.event() else { panic!("only bytes are under way") };
        received.extend_from_slice(&bytes);
        held.push(bytes);
    }
    assert!(received == sent, "what arrived differs");
    writer.join().expect("the writer ends").expect("written");
    let _ = token;
}

fn a_closed_socket_is_silent_and_its_slot_is_used_again(backend: Backend) {
    let mut side = Side::new(backend);
    let (old, mut far) = side.pair();
    far.write_all(b"unheard").expect("written");
    side.reactor.wait(None).expect("there is something to say");
    let batch = side.batch(b"unsent");
    side.reactor.send(old, batch).expect("none is in flight");
    side.reactor.close(old);
    side.reactor.close(old);
    side.fence(10, |event| panic!("closed, and yet {event:?}"));
    // By now the slot is free; one of the next two connections has it.
    let (first, mut first_far) = side.pair();
    let (second, mut second_far) = side.pair();
    assert!(first != old && second != old);
    side.reactor.pause_receive(old);
    side.reactor.shutdown_write(old);
    side.reactor.detach(old);
    side.reactor.close(old);
    first_far.write_all(b"one").expect("written");
    assert_eq!(side.receive(first, 3), b"one");
    second_far.write_all(b"two").expect("written");
    assert_eq!(side.receive(second, 3), b"two");
    // The old connection is really closed: its other end sees it.
    let mut rest = Vec::new();
    far.set_read_timeout(Some(Duration::from_secs(60))).expect("settable");
    let end = far.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
}

fn closing_with_a_batch_in_flight_returns_its_buffers(backend: Backend) {
    let mut side = Side::new(backend);
    for is_handed_over in [false, true] {
        let (near, far) = tcp_pair();
        SockRef::from(&near).set_send_buffer_size(4096).expect("settable");
        let token = side.reactor.add_socket(near).expect("added");
        let mut batch = SendBatch::new();
        for _ in 0..8 {
            let buffer = side.pool.take(1 << 20).expect("the pool has room");
            batch.push_buffer(buffer, 0..1 << 20);
        }
        side.reactor.send(token, batch).expect("none is in flight");
        if is_handed_over {
            side.reactor.flush().expect("flushes");
        }
        assert_eq!(side.pool.lent(), Bytes::mib(8));
        side.reactor.close(token);
        side.work_until(|side| side.pool.lent() == Bytes::ZERO);
        assert!(side.reactor.next_event().is_none());
        drop(far);
    }
}

fn an_orderly_end_and_a_reset_are_told_apart(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    far.write_all(b"last words").expect("written");
    drop(far);
    assert_eq!(side.receive(token, 10), b"last words");
    let Event::ReceiveEnded { token: from, error: None } = side.event() else { panic!("an orderly end") };
    assert_eq!(from, token);
    side.reactor.close(token);

    let (token, far) = side.pair();
    side.reactor.flush().expect("flushes");
    Socket::from(far).set_linger(Some(Duration::ZERO)).expect("settable; the drop then resets");
    let Event::ReceiveEnded { token: from, error: Some(error) } = side.event() else { panic!("a reset") };
    assert_eq!((from, error.kind()), (token, ErrorKind::ConnectionReset));
}

fn half_a_connection_can_be_closed_after_the_last_batch(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    let sent = pattern(5, 1 << 20);
    let batch = side.batch(&sent);
    side.reactor.send(token, batch).expect("none is in flight");
    side.reactor.shutdown_write(token);
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("an orderly end");
        far.write_all(b"got it").expect("the other half is open");
        received
    });
    assert!(matches!(side.event(), Event::Sent { result: Ok(()), .. }));
    assert_eq!(side.receive(token, 6), b"got it");
    assert!(reader.join().expect("the reader ends") == sent, "what arrived differs");
}

fn sending_to_a_broken_connection_is_an_error_and_not_a_signal(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, far) = side.pair();
    Socket::from(far).set_linger(Some(Duration::ZERO)).expect("settable; the drop then resets");
    assert!(matches!(side.event(), Event::ReceiveEnded { .. }));
    let batch = side.batch(&pattern(6, 5000));
    side.reactor.send(token, batch).expect("the token lives until it is closed");
    let Event::Sent { result, mut batch, .. } = side.event() else { panic!("only the batch is under way") };
    let kind = result.expect_err("broken").kind();
    assert!(matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{kind:?}");
    assert_eq!(batch.drain_buffers().count(), 1);
}

fn connecting_to_nobody_is_an_error(backend: Backend) {
    let mut side = Side::new(backend);
    let address = local_listener().local_addr().expect("bound until here");
    let token = side.reactor.connect(address).expect("begins");
    let early = side.batch(b"early");
    let refused = side.reactor.send(token, early).expect_err("not connected");
    assert_eq!(refused.why, Refusal::Closed);
    let Event::Connected { token: from, result } = side.event() else {
        panic!("only the connect is under way")
    };
    assert_eq!((from, result.expect_err("refused").kind()), (token, ErrorKind::ConnectionRefused));
    side.reactor.close(token);
    assert!(side.reactor.next_event().is_none());
}

fn a_connect_that_is_closed_at_once_is_silent(backend: Backend) {
    let mut side = Side::new(backend);
    let (_, address) = side.listen();
    for is_handed_over in [false, true] {
        let token = side.reactor.connect(address).expect("begins");
        if is_handed_over {
            side.reactor.flush().expect("flushes");
        }
        side.reactor.close(token);
        side.fence(3, |event| assert!(matches!(event, Event::Accepted { .. }), "{event:?}"));
    }
}

fn a_detached_socket_goes_on_in_another_reactor(backend: Backend) {
    let mut first = Side::new(backend);
    let (token, mut far) = first.pair();
    far.write_all(b"to the first").expect("written");
    let mut received = first.receive(token, 12);
    // Data that a pause holds back is reported before the socket leaves.
    first.reactor.pause_receive(token);
    far.write_all(b" and then").expect("written");
    first.fence(3, |event| panic!("paused, and yet {event:?}"));
    first.reactor.detach(token);
    let socket = loop {
        match first.event() {
            Event::Received { bytes, .. } => received.extend_from_slice(&bytes),
            Event::Detached { token: from, socket } if from == token => break socket,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(first.reactor.send(token, SendBatch::new()).expect_err("gone").why, Refusal::Closed);
    far.write_all(b" to the second").expect("written");
    let mut second = Side::new(backend);
    let token = second.reactor.add_socket(socket).expect("added");
    received.extend(second.receive(token, b"to the first and then to the second".len() - received.len()));
    assert_eq!(String::from_utf8_lossy(&received), "to the first and then to the second");
    let batch = second.batch(b"hello from the second");
    second.reactor.send(token, batch).expect("none is in flight");
    assert!(matches!(second.event(), Event::Sent { result: Ok(()), .. }));
    assert_eq!(read_exactly(&mut far, 21), b"hello from the second");
}

fn a_detached_socket_sends_its_batch_first(backend: Backend) {
    let mut side = Side::new(backend);
    let (token, mut far) = side.pair();
    let sent = pattern(7, 8 << 20);
    let batch = side.batch(&sent);
    side.reactor.send(token, batch).expect("none is in flight");
    side.reactor.detach(token);
    let length = sent.len();
    let reader = thread::spawn(move || read_exactly(&mut far, length));
    assert!(matches!(side.event(), Event::Sent { result: Ok(()), .. }));
    assert!(matches!(side.event(), Event::Detached { .. }));
    assert!(reader.join().expect("the reader ends") == sent, "what arrived differs");
}

fn a_closed_listener_accepts_no_more(backend: Backend) {
    let mut side = Side::new(backend);
    let (listener, address) = side.listen();
    let first = TcpStream::connect(address).expect("listening");
    let Event::Accepted { listener: from, peer, .. } = side.event() else { panic!("a connection") };
    assert_eq!((from, peer), (listener, first.local_addr().expect("connected")));
    side.reactor.close(listener);
    side.fence(3, |event| panic!("closed, and yet {event:?}"));
    assert_eq!(TcpStream::connect(address).expect_err("closed").kind(), ErrorKind::ConnectionRefused);
}
