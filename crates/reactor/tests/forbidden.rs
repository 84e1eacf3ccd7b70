//! System calls that a sandbox forbids: `Backend::Auto` takes a backend that works without them.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use reactor::{Backend, Reactor};
use std::thread;
use units::{Instant, Nanos};

/// From now on this thread gets EPERM for a system call.
fn forbid(system_call: libc::c_long) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        // The number of the system call is the first field of the filter's input.
        step(LOAD, 0, 0, 0),
        step(IF_EQUAL, 0, 1, u32::try_from(system_call).expect("a small number")),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: both change this thread only, and the kernel copies the program before it returns.
    let results = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
}

/// Sandboxes allow some of io_uring's system calls and forbid others.
#[test]
fn without_one_of_the_system_calls_of_io_uring_epoll_is_taken() {
    for system_call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        let in_the_sandbox = thread::spawn(move || {
            forbid(system_call);
            assert!(Reactor::new(Backend::IoUring).is_err(), "system call {system_call} is forbidden");
            let mut reactor = Reactor::new(Backend::Auto).expect("epoll always works");
            assert_eq!(reactor.backend(), Backend::Epoll);
            assert!(reactor.fallback_reason().is_some());
            reactor.wait(Some(Instant::ZERO + Nanos::micros(1))).expect("it works");
        });
        in_the_sandbox.join().expect("as claimed");
    }
}
