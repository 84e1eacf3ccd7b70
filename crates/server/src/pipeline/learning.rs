//! Saves the scheduler's model of the SSD in the state directory: now and then, and before the scheduler is replaced.
//!
//! Elsewhere: the file is `crate::state`'s `learnt`; learning, and the trust in an old model, is `sched`'s Level.

use crate::state::Keeper;
use sched::{Learnt, Policy};
use units::{Instant, Nanos};

/// Age of the model that is lost at most if the target is killed.
const INTERVAL: Nanos = Nanos::secs(60);

/// Saves the model of one SSD.
pub(super) struct Learning {
    /// The SSD's lasting name, and who keeps files; `None` if it has no name or there is no state directory.
    kept: Option<(String, Keeper)>,
    next: Instant,
    last: Option<Learnt>,
}

impl Learning {
    pub(super) fn new(ssd: Option<String>, keeper: Option<Keeper>) -> Learning {
        Learning { kept: ssd.zip(keeper), next: Instant::ZERO, last: None }
    }

    /// Saves a changed model, if it is time.
    #[inline]
    pub(super) fn look(&mut self, now: Instant, policy: &dyn Policy) {
        if now >= self.next {
            self.next = now + INTERVAL;
            self.keep(policy);
        }
    }

    /// Saves a changed model, before the scheduler is replaced.
    #[cold]
    pub(super) fn keep(&mut self, policy: &dyn Policy) {
        let Some((ssd, keeper)) = &self.kept else { return };
        let Some(learnt) = policy.learnt() else { return };
        if self.last.as_ref() != Some(&learnt) {
            keeper.store_learnt(ssd.clone(), learnt.clone());
            self.last = Some(learnt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateThread;
    use sched::{LearntPrice, Level, ReadsPart};
    use std::time::{Duration, Instant as Moment};
    use units::Bytes;

    const SSD: &str = "wwid eui.0025388b01b7a2e5";

    fn level(time: u64) -> Level {
        let price = LearntPrice { reads: ReadsPart::All, size: Bytes::kib(4), time: Nanos(time) };
        Level::told(&Learnt { prices: vec![price], ..Learnt::default() })
    }

    #[test]
    fn what_was_learnt_is_kept_every_minute_and_at_the_end() {
        let folder = std::env::temp_dir().join(format!("gimbal-learning-{}", std::process::id()));
        let state = StateThread::start(&folder).expect("temporary files can be written");
        let kept = || {
            assert!(state.keeper().barrier(Moment::now() + Duration::from_secs(60)));
            let learnt = state.keeper().load_learnt(SSD.to_owned()).expect("a sound file");
            learnt.map(|learnt| learnt.prices[0].time)
        };
        let near = |one: Option<Nanos>, other: u64| one.is_some_and(|one| one.0.abs_diff(other) <= 1);
        let mut learning = Learning::new(Some(SSD.to_owned()), Some(state.keeper().clone()));
        let start = Instant(1_000_000_000);
        learning.look(start, &Level::new());
        assert_eq!(kept(), None, "nothing is known");
        learning.look(start + Nanos::secs(59), &level(3_000));
        assert_eq!(kept(), None, "a minute has not passed");
        learning.look(start + Nanos::secs(60), &level(3_000));
        assert!(near(kept(), 3_000), "{:?}", kept());
        learning.look(start + Nanos::secs(61), &level(5_000));
        assert!(near(kept(), 3_000), "{:?}", kept());
        learning.keep(&level(5_000));
        assert!(near(kept(), 5_000), "{:?}", kept());
        drop(state);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
