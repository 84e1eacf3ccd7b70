//! How long a thread looks for work before it sleeps.
//!
//! To be woken costs more than to look: a 4 KiB read over loopback takes half the time when the pipeline is still looking as the
//! command comes. So pipelines look for a moment while IOs come quickly, if there is a processor for each of them; the acceptor,
//! whose work is rare, never does. An idle pipeline sleeps. Whoever shares the processor with others may have it look for less,
//! or never.
//!
//! Elsewhere: when looking is given up is `reactor`'s to decide; what it is worth is in `docs/performance.md`.

use std::thread;
use units::Nanos;

/// Longer than a host on the same machine or the next switch takes to answer an answer, and hardly more than two sleeps cost.
const MOMENT: Nanos = Nanos::micros(50);

/// How long each of `pipelines` pipelines may look: as `asked`, if anything was.
pub(super) fn moment(asked: Option<Nanos>, pipelines: usize) -> Nanos {
    // Unknown is few.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or(if pipelines <= processors { MOMENT } else { Nanos::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pipelines_than_processors_sleep_at_once() {
        assert_eq!(moment(None, 1), MOMENT);
        assert_eq!(moment(None, usize::MAX), Nanos::ZERO);
    }

    #[test]
    fn what_was_asked_for_holds_for_one_pipeline_and_for_many() {
        for pipelines in [1, usize::MAX] {
            assert_eq!(moment(Some(Nanos::ZERO), pipelines), Nanos::ZERO);
            assert_eq!(moment(Some(Nanos::micros(7)), pipelines), Nanos::micros(7));
        }
    }
}
