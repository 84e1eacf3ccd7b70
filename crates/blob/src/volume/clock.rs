//! The current time as set by the caller, and the tasks that wait for a time.

use crate::task::{Answer, Gate, Spawner};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Instant, Nanos};

/// The time and the timers of a volume; see the module.
pub(crate) struct Clock {
    spawner: Spawner,
    now: Cell<Instant>,
    /// The lead of the wall clock over `now`.
    wall_ahead: Cell<Nanos>,
    /// Timers of the same time fire in the order in which they were set.
    timers: RefCell<BTreeMap<(Instant, u64), Answer<()>>>,
    timers_set: Cell<u64>,
}

impl Clock {
    pub(crate) fn new(spawner: Spawner) -> Rc<Clock> {
        Rc::new(Clock {
            spawner,
            now: Cell::default(),
            wall_ahead: Cell::default(),
            timers: RefCell::default(),
            timers_set: Cell::default(),
        })
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Sets the time to `now`.
    pub(crate) fn set_now(&self, now: Instant) {
        assert!(now >= self.now.get(), "time runs backwards");
        self.now.set(now);
    }

    /// Sets the wall clock: the time since 1970 at `now`.
    pub(crate) fn set_wall_clock(&self, now: Instant, since_1970: Nanos) {
        self.wall_ahead.set(Nanos(since_1970.0.saturating_sub(now.0)));
    }

    /// The wall clock, which is almost the same on all clients of a rack; `now` is not.
    pub(crate) fn wall_clock(&self) -> Instant {
        self.now.get() + self.wall_ahead.get()
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.wall_clock().0 / Nanos::secs(1).0
    }

    /// Waits until a point in time.
    pub(crate) async fn sleep_until(&self, at: Instant) {
        if at > self.now.get() {
            let answer = Answer::new();
            self.timers_set.set(self.timers_set.get() + 1);
            self.timers.borrow_mut().insert((at, self.timers_set.get()), answer.clone());
            answer.await;
        }
    }

    pub(crate) async fn sleep(&self, span: Nanos) {
        self.sleep_until(self.now.get() + span).await;
    }

    /// Lets the tasks at a gate check their conditions again at a point in time.
    pub(crate) fn notify_at(self: &Rc<Self>, at: Instant, gate: &Gate) {
        let (clock, gate) = (Rc::clone(self), gate.clone());
        self.spawner.spawn(async move {
            clock.sleep_until(at).await;
            gate.notify();
        });
    }

    /// Wakes the task whose timer is due first. Returns `false` if none is due.
    pub(crate) fn wake_next(&self) -> bool {
        let due = match self.timers.borrow_mut().first_entry() {
            Some(entry) if entry.key().0 <= self.now.get() => entry.remove(),
            _ => return false,
        };
        due.give(());
        true
    }

    /// The first timer.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().keys().next().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_other_clocks_agree_on_the_wall_clock() {
        let says = |now: Instant| {
            let clock = Clock::new(Spawner::default());
            clock.set_wall_clock(now, Nanos::secs(1_800_000_000));
            clock.set_now(now + Nanos::secs(3));
            assert_eq!(clock.seconds(), 1_800_000_003, "at {now:?}");
            clock.wall_clock()
        };
        assert_eq!(says(Instant::ZERO), says(Instant(123_456_789_123)));
    }
}
