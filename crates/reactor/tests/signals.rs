//! Signals, in a process of its own because a handler is the process's.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod common;

use common::Side;
use reactor::{Backend, Clock, Reactor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use units::Nanos;

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_storm_of_signals_makes_no_deadline_early() {
    // SAFETY: an all-zero sigaction is valid, and the handler only touches an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    for backend in [Backend::IoUring, Backend::Epoll] {
        if backend == Backend::Epoll || Reactor::new(backend).is_ok() {
            wait_in_the_storm(backend);
        }
    }
}

fn wait_in_the_storm(backend: Backend) {
    let mut side = Side::new(backend);
    // SAFETY: always succeeds.
    let waiting = unsafe { libc::pthread_self() };
    let is_over = Arc::new(AtomicBool::new(false));
    let storm = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the waiting thread joins this one, so it is alive.
                unsafe { libc::pthread_kill(waiting, libc::SIGUSR1) };
                thread::yield_now();
            }
        }
    });
    let before = HANDLED.load(Ordering::Relaxed);
    let mut waits = 0;
    while waits < 50 || HANDLED.load(Ordering::Relaxed) < before + 50 {
        let deadline = Clock.now() + Nanos::micros(300);
        side.reactor.wait(Some(deadline)).expect("waits");
        let now = Clock.now();
        assert!(now >= deadline, "{backend:?}: {} early", deadline.since(now));
        waits += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    storm.join().expect("the storm ends");
}
