//! For tests in which loom runs threads in every order: the event that ends a sleep, and the bound of the search.

use loom::sync::{Condvar, Mutex};

/// An eventfd: readable once it was written to, until it is emptied.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rung.lock().expect("nobody panics") = true;
        self.changed.notify_one();
    }

    /// Sleeps until it is rung. If nothing can ring it any more, loom reports it.
    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().expect("nobody panics");
        while !*rung {
            rung = self.changed.wait(rung).expect("nobody panics");
        }
    }

    /// Empties it; whether it was rung.
    pub(crate) fn empty(&self) -> bool {
        std::mem::take(&mut *self.rung.lock().expect("nobody panics"))
    }
}

/// Runs `world` in every order of its threads' steps in which a thread that could go on has to give way to another at most
/// `preemptions` times, or as often as `LOOM_MAX_PREEMPTIONS` says. Such bugs need few such moments; without a bound,
/// locks make it hours.
pub(crate) fn explore(preemptions: usize, world: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // The builder begins with settings from the environment.
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(world);
}
