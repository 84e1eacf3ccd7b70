//! Busy polling: how long a thread polls for events before it sleeps.
//!
//! A wake-up costs more than polling: a 4 KiB read over loopback takes half the time if the pipeline still polls when the command arrives.
//! So pipelines poll for a short time while IOs arrive quickly, if there is a CPU for each of them. The acceptor never polls, because
//! it seldom has work. An idle pipeline sleeps. On a shared CPU, the operator can shorten polling or turn it off (`spin`).
//!
//! Elsewhere: `reactor` decides when to stop polling; `docs/performance.md` has the measurements.

use std::thread;
use units::Nanos;

/// Longer than a host on the same machine or the next switch needs to react to an answer, and about the cost of two sleeps.
const DEFAULT: Nanos = Nanos::micros(50);

/// The polling time of each of `pipelines` pipelines: `asked`, if it is configured.
pub(super) fn time(asked: Option<Nanos>, pipelines: usize) -> Nanos {
    asked.unwrap_or(if pipelines <= processors() { DEFAULT } else { Nanos::ZERO })
}

/// CPUs that this process may use. If that is unknown, one.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pipelines_than_processors_sleep_at_once() {
        assert_eq!(time(None, 1), DEFAULT);
        assert_eq!(time(None, usize::MAX), Nanos::ZERO);
    }

    #[test]
    fn what_was_asked_for_holds_for_one_pipeline_and_for_many() {
        for pipelines in [1, usize::MAX] {
            assert_eq!(time(Some(Nanos::ZERO), pipelines), Nanos::ZERO);
            assert_eq!(time(Some(Nanos::micros(7)), pipelines), Nanos::micros(7));
        }
    }
}
