//! Running out of descriptors, in a process of its own because the limit is the process's.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod common;

use common::Side;
use reactor::{Backend, Event, Reactor};
use std::fs::File;
use std::net::TcpStream;

/// One test for both, as they share the limit.
#[test]
fn a_listener_rests_when_descriptors_run_out_and_goes_on_when_asked() {
    for backend in [Backend::IoUring, Backend::Epoll] {
        if backend == Backend::Epoll || Reactor::new(backend).is_ok() {
            run_out(backend);
        }
    }
}

fn run_out(backend: Backend) {
    let mut side = Side::new(backend);
    let connecting =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let before = descriptor_limit();
    // The ring remembers the limit of the moment at which it begins to accept.
    set_descriptor_limit(256);
    let (listener, address) = side.listen();
    side.fence(1, |event| panic!("{event:?}"));
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    connecting.connect(&address.into()).expect("listening");
    match side.event() {
        Event::AcceptFailed { listener: from, error } => {
            assert_eq!((from, error.raw_os_error()), (listener, Some(libc::EMFILE)));
        }
        other => panic!("no descriptor is left, and yet {other:?}"),
    }
    drop(hoard);
    set_descriptor_limit(before);
    side.reactor.resume_accept(listener);
    match side.event() {
        Event::Accepted { listener: from, .. } => assert_eq!(from, listener),
        // An accept that was refused a descriptor may have dropped the connection; the next one is served.
        other => panic!("{other:?}"),
    }
    drop(TcpStream::connect(address).expect("listening"));
    assert!(matches!(side.event(), Event::Accepted { .. }));
}

fn descriptor_limit() -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill in.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    limit.rlim_cur
}

fn set_descriptor_limit(soft: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the calls to fill in and to read.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = soft;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}
