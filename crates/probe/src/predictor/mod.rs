//! Predicts when a write buffer is exhausted: a state machine that follows the IOs of a device.
//!
//! ```text
//!  on_submit, on_done ─► Predictor (BufferModel) ─► remaining, will_exhaust(bytes), idle_needed(bytes)
//!                            ▲
//!  on_stretch ─► learning ───┘  what is seen of the device corrects the state, and slowly size and recovery
//! ```
//!
//! It sees what the host sees: which IOs were submitted and which have completed, and how fast. Without a correction its errors add up until
//! the buffer is whole or exhausted; both make them disappear.
//!
//! Holds: degraded intervals of devices and workloads that it was not fitted on are predicted (`tests/hidden/main.rs`).

mod learning;

pub use learning::Stretch;

use crate::buffer_model::BufferModel;
use crate::device::IoKind;
use learning::Learning;
use units::{Bytes, Instant, Nanos};

/// The state of one write buffer.
#[derive(Clone, Debug)]
pub struct Predictor {
    model: BufferModel,
    used: f64,
    /// When `used` was so.
    at: Instant,
    /// IOs under way that keep the buffer from recovering.
    under_way: u32,
    /// Writes under way, and their bytes. That much may be on its way into a full buffer that drains.
    writes: u32,
    writing: f64,
    learning: Learning,
}

impl Predictor {
    /// The buffer is whole at `now`.
    pub fn new(model: BufferModel, now: Instant) -> Predictor {
        let learning = Learning::new(model.clone());
        Predictor { model, used: 0.0, at: now, under_way: 0, writes: 0, writing: 0.0, learning }
    }

    /// The model, as corrected by observation.
    pub fn model(&self) -> &BufferModel {
        &self.model
    }

    /// An IO goes to the device.
    pub fn on_submit(&mut self, now: Instant, kind: IoKind, bytes: u32) {
        if self.matters(kind) {
            self.pass(now);
            self.under_way += 1;
        }
        if kind == IoKind::Write {
            self.writes += 1;
            self.writing += f64::from(bytes);
            self.used = (self.used + f64::from(bytes)).min(self.model.size + self.writing);
        }
    }

    /// An IO has completed.
    ///
    /// # Panics
    /// If none is under way.
    pub fn on_done(&mut self, now: Instant, kind: IoKind) {
        if self.matters(kind) {
            self.pass(now);
            self.under_way = self.under_way.checked_sub(1).expect("an IO that completes was submitted");
        }
        if kind == IoKind::Write {
            // Which of them it is does not matter for long: all of them complete.
            self.writing -= self.writing / f64::from(self.writes);
            self.writes -= 1;
            // Bytes written beyond the buffer did not go through it.
            self.used = self.used.min(self.model.size + self.writing);
        }
    }

    /// This was seen of the device.
    pub fn on_stretch(&mut self, stretch: Stretch) {
        self.used = self.learning.on_stretch(&self.model, self.used, stretch);
    }

    /// Bytes that can still be written fast at `now`.
    pub fn remaining(&self, now: Instant) -> Bytes {
        Bytes((self.model.size - self.used_at(now)).max(0.0) as u64)
    }

    /// Bytes of writes under way.
    pub fn writing(&self) -> Bytes {
        Bytes(self.writing as u64)
    }

    /// Whether writing this much at `now` exhausts the buffer.
    pub fn will_exhaust(&self, now: Instant, bytes: Bytes) -> bool {
        bytes > self.remaining(now)
    }

    /// Idle time that the device needs from `now` on until this much can be written fast; `None` if the buffer is smaller.
    pub fn idle_needed(&self, now: Instant, bytes: Bytes) -> Option<Nanos> {
        let target = self.model.size - bytes.get() as f64;
        (target >= 0.0).then(|| {
            let idle = if self.under_way > 0 { Nanos::ZERO } else { now.saturating_since(self.at) };
            let used = if self.under_way > 0 { self.used_at(now) } else { self.used };
            self.model.idle_until(used, target).saturating_sub(idle)
        })
    }

    /// Whether an IO of this kind keeps the buffer from recovering.
    fn matters(&self, kind: IoKind) -> bool {
        kind == IoKind::Write || self.model.reads_stop_recovery
    }

    fn used_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_since(self.at);
        if self.under_way > 0 {
            (self.used - self.model.drain * passed.as_secs_f64()).max(0.0)
        } else {
            self.model.after_idle(self.used, passed)
        }
    }

    fn pass(&mut self, now: Instant) {
        let after = self.used_at(now);
        if self.under_way == 0 {
            let idle = now.saturating_since(self.at);
            if self.learning.on_rest(&mut self.model, self.used, after, idle) {
                self.used = self.model.size;
            }
        }
        self.used = self.used_at(now);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer_model::Rule;
    use crate::buffer_model::tests::model;

    const SECOND: Nanos = Nanos::secs(1);

    /// Writes this much at once.
    fn write(predictor: &mut Predictor, now: Instant, bytes: u32) {
        predictor.on_submit(now, IoKind::Write, bytes);
        predictor.on_done(now, IoKind::Write);
    }

    #[test]
    fn only_idleness_makes_room_again() {
        let start = Instant::ZERO;
        let mut predictor = Predictor::new(model(Rule::Steady), start);
        write(&mut predictor, start, 900_000_000);
        assert!(!predictor.will_exhaust(start, Bytes(100_000_000)));
        assert!(predictor.will_exhaust(start, Bytes(100_000_001)));
        // 0.5 s until it starts, then 1 GB in 2 s.
        let needed = predictor.idle_needed(start, Bytes(600_000_000)).expect("it is larger");
        assert_eq!(needed, Nanos::millis(1500));
        assert_eq!(predictor.idle_needed(start + SECOND, Bytes(600_000_000)), Some(Nanos::millis(500)));
        assert!(!predictor.will_exhaust(start + needed, Bytes(599_000_000)));
        assert_eq!(predictor.idle_needed(start, Bytes(1_000_000_001)), None, "more than the whole buffer");
        // A read after 1.4 s begins the wait again.
        predictor.on_submit(start + Nanos::millis(400), IoKind::Read, 4096);
        predictor.on_done(start + Nanos::millis(400), IoKind::Read);
        assert!(predictor.will_exhaust(start + Nanos::millis(900), Bytes(100_000_001)));
    }

    #[test]
    fn a_full_buffer_that_drains_stays_full_while_writes_come_as_fast_as_it_drains() {
        let draining = BufferModel { drain: 100e6, ..model(Rule::Steady) };
        let mut predictor = Predictor::new(draining, Instant::ZERO);
        write(&mut predictor, Instant::ZERO, 1_000_000_000);
        let mut now = Instant::ZERO;
        for _ in 0..100 {
            assert!(predictor.will_exhaust(now, Bytes(2_000_000)), "at {now:?}");
            // The device takes it as it drains: 2 MB in 20 ms.
            predictor.on_submit(now, IoKind::Write, 2_000_000);
            now += Nanos::millis(20);
            predictor.on_done(now, IoKind::Write);
        }
        assert!(!predictor.will_exhaust(now + SECOND, Bytes(2_000_000)), "it has drained");
    }

    /// Writes 16 MiB at a rate, with the predictor informed.
    fn stretch(predictor: &mut Predictor, now: &mut Instant, rate: f64, is_slow: bool) {
        let (since, bytes) = (*now, 16 << 20);
        predictor.on_submit(*now, IoKind::Write, bytes);
        *now += Nanos((f64::from(bytes) / rate * 1e9) as u64);
        predictor.on_done(*now, IoKind::Write);
        predictor.on_stretch(Stretch { since, until: *now, bytes: u64::from(bytes), is_slow });
    }

    /// A burst of `fast` stretches and two slow ones.
    fn burst(predictor: &mut Predictor, now: &mut Instant, fast: u32) {
        (0..fast).for_each(|_| stretch(predictor, now, 1e9, false));
        (0..2).for_each(|_| stretch(predictor, now, 3e8, true));
    }

    /// A predictor of a buffer of 1 GB, after bursts with long rests between.
    fn after_bursts(count: u32, fast: u32) -> (Predictor, Instant) {
        let mut now = Instant::ZERO;
        let mut predictor = Predictor::new(model(Rule::Steady), now);
        write(&mut predictor, now, 100 << 20);
        for _ in 0..count {
            now += Nanos::secs(10);
            burst(&mut predictor, &mut now, fast);
        }
        (predictor, now)
    }

    fn size_after_rest(mut predictor: Predictor, now: Instant) -> u64 {
        write(&mut predictor, now + Nanos::secs(10), 4096);
        predictor.model().size().get()
    }

    #[test]
    fn a_surprise_counts_when_another_one_agrees() {
        // 671 MB instead of 1 GB.
        let (predictor, now) = after_bursts(1, 40);
        assert_eq!(predictor.remaining(now), Bytes(0));
        assert_eq!(size_after_rest(predictor, now), 1_000_000_000);
        let (predictor, now) = after_bursts(2, 40);
        assert_eq!(size_after_rest(predictor, now), 850_000_000, "the most that one surprise changes");
        // As predicted.
        let (predictor, now) = after_bursts(5, 59);
        assert_eq!(size_after_rest(predictor, now), 1_000_000_000);
    }

    #[test]
    fn what_was_no_exhaustion_is_taken_back() {
        let (mut predictor, mut now) = after_bursts(1, 20);
        assert_eq!(predictor.remaining(now), Bytes(0));
        stretch(&mut predictor, &mut now, 1e9, false);
        let room = predictor.remaining(now).get();
        assert_eq!(room, 1_000_000_000 - 23 * (16 << 20));
    }

    #[test]
    fn room_that_nobody_predicted_is_found_and_learnt() {
        // 1.24 GB.
        let (predictor, now) = after_bursts(2, 74);
        let size = size_after_rest(predictor, now);
        assert!((1_100_000_000..=1_150_000_000).contains(&size), "{size}");
    }

    #[test]
    fn a_recovery_that_has_become_slower_is_learnt() {
        let (mut predictor, mut now) = after_bursts(1, 59);
        for _ in 0..2 {
            // By the model, 750 MB come back, of which only 503 MB are there.
            now += Nanos::secs(2);
            burst(&mut predictor, &mut now, 30);
        }
        write(&mut predictor, now + Nanos::secs(10), 4096);
        let found = predictor.model().recovered(Nanos::secs(2)).get();
        assert!((620_000_000..680_000_000).contains(&found), "{found}");
        assert_eq!(predictor.model().size(), Bytes(1_000_000_000));
    }
}
