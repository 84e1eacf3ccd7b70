//! The machine's monotonic clock as a value that can be handed out.

use units::Instant;

/// `CLOCK_MONOTONIC`: nanoseconds since the boot of the machine, never backwards, the same on every thread.
///
/// Deadlines given to [`Reactor::wait`](crate::Reactor::wait) are on this clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The present moment (about 25 ns: no system call on the usual platforms).
    pub fn now(self) -> Instant {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec for the call to fill in.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        assert_eq!(result, 0, "every Linux kernel has CLOCK_MONOTONIC");
        Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_backwards() {
        let mut last = Clock.now();
        for _ in 0..10_000 {
            let now = Clock.now();
            assert!(now >= last, "{now:?} came after {last:?}");
            last = now;
        }
    }
}
