//! Predicts when a write buffer is exhausted: a state machine that follows the IOs of a device.
//!
//! ```text
//!  on_submit, on_done ─► Predictor (BufferModel) ─► remaining, will_exhaust(bytes), idle_needed(bytes)
//!                            ▲
//!  on_exhausted ─────────────┘  what is seen of the device corrects the state, and slowly the size
//! ```
//!
//! It sees what the host sees: which IOs were submitted and which have completed. Without a correction its errors add up until the buffer is
//! whole or exhausted; both make them disappear.
//!
//! Holds: degraded intervals of devices and workloads that it was not fitted on are predicted (`tests/hidden/main.rs`).

use crate::buffer_model::BufferModel;
use crate::device::IoKind;
use units::{Bytes, Instant, Nanos};

/// How much of a surprise changes the size.
const LEARNT: f64 = 0.25;

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
}

impl Predictor {
    /// The buffer is whole at `now`.
    pub fn new(model: BufferModel, now: Instant) -> Predictor {
        Predictor { model, used: 0.0, at: now, under_way: 0, writes: 0, writing: 0.0 }
    }

    /// The model, with what was learnt.
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
            // What was written beyond the buffer did not go through it.
            self.used = self.used.min(self.model.size + self.writing);
        }
    }

    /// The device was seen to be exhausted: writes are slow.
    pub fn on_exhausted(&mut self, now: Instant) {
        self.pass(now);
        // It is smaller than we thought.
        self.model.size -= LEARNT * (self.model.size - self.used).max(0.0);
        self.used = self.model.size;
    }

    /// What can still be written fast at `now`.
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

    /// How long the device must be idle from `now` on until this much can be written fast; `None` if the buffer is smaller.
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

    #[test]
    fn a_surprise_corrects_the_state_and_part_of_the_size() {
        let mut predictor = Predictor::new(model(Rule::Steady), Instant::ZERO);
        write(&mut predictor, Instant::ZERO, 600_000_000);
        predictor.on_exhausted(Instant::ZERO);
        assert_eq!(predictor.remaining(Instant::ZERO), Bytes(0));
        assert_eq!(predictor.model().size(), Bytes(900_000_000));
    }
}
