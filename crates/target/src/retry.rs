//! Waiting for what a killed process leaves behind.
//!
//! The kernel takes a killed process's ring apart in its own time, and with it go its listener and its locks on files: a target
//! that is started again at once finds them in use for a moment. The wait for a lock is more than politeness: it lasts until
//! the last write of the old process has ended, so that none can land on top of what the new one writes.

use std::thread;
use std::time::{Duration, Instant};

/// How long something may stay in use before that is an error.
const WAIT: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const RETRY: Duration = Duration::from_millis(20);

/// Tries until it works, fails otherwise than by `is_in_use`, or has been in use for too long.
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
