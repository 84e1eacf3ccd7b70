//! The request of a reactor to the kernel's scheduler for its thread: to wake up on time.
//!
//! A thread that shares its processor with others that are always busy waits for them when it wakes up: for up to 3 ms
//! each time, as that is Linux's usual turn. A reactor works for some microseconds, many times a second, so it asks for
//! shorter turns (Linux 6.12 and later; earlier ones ignore that). Its part of the processor stays the same, but it
//! comes sooner: a write to two targets takes four wake-ups, one after the other. docs/notes/performance.md has the
//! gain.
//!
//! Timers of a thread may by default fire 50 µs late, so that several can fire together. Those of a reactor do not wait.
//!
//! The choice of the operator stays: a nice value, or a real-time class.

use std::mem;

/// Linux takes nothing shorter.
const TURN: u64 = 100_000;

/// The kernel's `struct sched_attr`, as of its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The length of a turn, ns; 0 if it is the usual one.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Requests it for this thread. A refusal makes the thread slower, and has no other effect.
pub(crate) fn ask() {
    const SLACK: libc::c_ulong = 1;
    // SAFETY: no pointers. If it is refused, deadlines are merely less precise.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK) };
    if let Some(attributes) = attributes()
        && attributes.policy == libc::SCHED_OTHER as u32
    {
        let wanted = Attributes { runtime: TURN, ..attributes };
        // SAFETY: the structure is the kernel's, says how long it is, and is only read. 0 is this thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    }
}

/// Those of this thread; `None` if the kernel does not say.
fn attributes() -> Option<Attributes> {
    const SIZE: u32 = mem::size_of::<Attributes>() as u32;
    let mut attributes = Attributes { size: SIZE, ..Attributes::default() };
    // SAFETY: the kernel writes at most `SIZE` bytes to the structure, which is plain numbers. 0 is this thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    (result == 0).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know sched_getattr")]
    fn nothing_but_the_turn_changes() {
        let of_thread = || {
            let before = attributes().expect("every Linux since 3.14 says it");
            ask();
            let after = attributes().expect("still");
            assert_eq!(Attributes { runtime: 0, ..after }, Attributes { runtime: 0, ..before });
            // Earlier kernels ignore it.
            assert!([0, TURN].contains(&after.runtime) || after.runtime == before.runtime, "{after:?}");
        };
        thread::spawn(of_thread).join().expect("it ends");
    }
}
