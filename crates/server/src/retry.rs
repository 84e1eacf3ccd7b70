//! Tries again while a killed process still holds a listener or a lock.
//!
//! When a process is killed, the kernel releases its io_uring, and with it its listeners and file locks, with a delay. A target that
//! starts again at once finds them in use for a moment. For locks, the wait is also needed for correctness: the lock is held until the
//! last write of the old process has ended, so that no old write can overwrite a new one.

use std::thread;
use std::time::{Duration, Instant};

/// Longest time that something may stay in use before that is an error.
const WAIT: Duration = Duration::from_secs(5);
/// The time between two attempts.
const RETRY: Duration = Duration::from_millis(20);

/// Repeats `attempt` while it fails because something `is_in_use`, for at most five seconds.
pub(crate) fn retry_while_in_use<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_in_use: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let give_up = Instant::now() + WAIT;
    loop {
        match attempt() {
            Err(error) if is_in_use(&error) && Instant::now() < give_up => thread::sleep(RETRY),
            outcome => return outcome,
        }
    }
}
