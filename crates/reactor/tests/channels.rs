//! Descriptors that a reactor only watches, with both backends.

mod common;

use common::Side;
use reactor::{Backend, Event};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;

on_both_backends!(
    a_readable_channel_is_reported_once_each_time_it_is_watched,
    a_closed_channel_is_silent_and_its_descriptor_stays_open,
    a_channel_moves_to_another_reactor_with_nothing_lost,
    a_channel_whose_other_end_is_gone_is_ready,
    a_reactor_may_be_dropped_while_it_watches,
);

/// Rounds of other work that a lost or wrong event has to show up in.
const ROUNDS: usize = 3;

fn unwanted(event: Event) {
    panic!("nothing was to happen: {event:?}");
}

fn say(mut far: &PipeWriter) {
    far.write_all(b"x").expect("room for a byte");
}

fn hear(mut near: &PipeReader) {
    near.read_exact(&mut [0]).expect("a byte is there");
}

fn a_readable_channel_is_reported_once_each_time_it_is_watched(backend: Backend) {
    let mut side = Side::new(backend);
    let (near, far) = pipe().expect("a pipe");
    let channel = side.reactor.add_channel(near.as_fd()).expect("watched");
    side.fence(ROUNDS, unwanted);
    say(&far);
    assert!(matches!(side.event(), Event::Ready { token } if token == channel));
    say(&far);
    side.fence(ROUNDS, unwanted);
    for _ in 0..2 {
        side.reactor.watch_channel(channel).expect("watched");
        assert!(matches!(side.event(), Event::Ready { token } if token == channel), "still readable");
        hear(&near);
    }
    side.reactor.watch_channel(channel).expect("watched");
    side.reactor.watch_channel(channel).expect("watched already");
    side.fence(ROUNDS, unwanted);
    say(&far);
    assert!(matches!(side.event(), Event::Ready { token } if token == channel));
    side.fence(ROUNDS, unwanted);
}

fn a_closed_channel_is_silent_and_its_descriptor_stays_open(backend: Backend) {
    let mut side = Side::new(backend);
    // Closed while it is watched and silent; watched and readable; reported and not taken; reported and taken.
    for (is_readable, is_flushed, is_taken) in
        [(false, true, false), (true, false, false), (true, true, false), (true, true, true)]
    {
        let (near, far) = pipe().expect("a pipe");
        let channel = side.reactor.add_channel(near.as_fd()).expect("watched");
        if is_readable {
            say(&far);
        }
        if is_flushed {
            side.reactor.flush().expect("flushes");
        }
        if is_taken {
            assert!(matches!(side.event(), Event::Ready { token } if token == channel));
        }
        side.reactor.close(channel);
        say(&far);
        side.reactor.watch_channel(channel).expect("ignored");
        side.fence(ROUNDS, unwanted);
        hear(&near);
    }
}

fn a_channel_moves_to_another_reactor_with_nothing_lost(backend: Backend) {
    let (mut first, mut second) = (Side::new(backend), Side::new(backend));
    let (near, far) = pipe().expect("a pipe");
    let channel = first.reactor.add_channel(near.as_fd()).expect("watched");
    first.reactor.flush().expect("flushes");
    say(&far);
    first.reactor.close(channel);
    let channel = second.reactor.add_channel(near.as_fd()).expect("watched");
    assert!(matches!(second.event(), Event::Ready { token } if token == channel));
    hear(&near);
    second.reactor.watch_channel(channel).expect("watched");
    say(&far);
    assert!(matches!(second.event(), Event::Ready { token } if token == channel));
    first.fence(ROUNDS, unwanted);
}

fn a_channel_whose_other_end_is_gone_is_ready(backend: Backend) {
    let mut side = Side::new(backend);
    let (near, far) = pipe().expect("a pipe");
    let channel = side.reactor.add_channel(near.as_fd()).expect("watched");
    side.fence(1, unwanted);
    drop(far);
    assert!(matches!(side.event(), Event::Ready { token } if token == channel));
}

fn a_reactor_may_be_dropped_while_it_watches(backend: Backend) {
    let mut side = Side::new(backend);
    let (near, far) = pipe().expect("a pipe");
    side.reactor.add_channel(near.as_fd()).expect("watched");
    side.fence(1, unwanted);
    drop(side);
    drop(near);
    let error = (&far).write_all(b"x").expect_err("the reactor's copy is closed too");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
