//! When a write is diverted, and when diverted data goes to the SSD.
//!
//! A write is diverted if all of this holds:
//!
//! - the predictor says that it meets an exhausted buffer;
//! - it would wait there: so much is under way on the SSD that it takes a while at the exhausted rate. So a host that writes slower than
//!   that is never diverted, because it loses nothing, and neither is one before an SSD that is faster than predicted;
//! - it gains by it: hosts that wait for their writes would only write more (`pressure`).
//!
//! From then on there are two ways, and the profile says which serves more of a burst. If idleness brings back more per second than
//! the exhausted SSD writes, all writes are diverted, and the SSD rests (the paper's *active idleness*) until an eighth of its buffer is back.
//! Otherwise the SSD gets as much as it can take at its exhausted rate, and only the rest is diverted.
//!
//! Data goes back after a burst. If the exhausted SSD writes it sooner than rest would make room for it, that is at once, and as fast as the SSD
//! can: as without a store, where hosts would still wait for these writes. So the rest begins as soon, and reads meet no more of them. The same goes if
//! reads keep the buffer from recovering. Otherwise data goes back when the buffer has room for it.
//!
//! Elsewhere: the predictor is `probe::Predictor`. Which numbers are assumptions says `docs/ais.md`.

use crate::foresight::{Comparison, Foresight};
use crate::pressure::{Found, Pressure};
use probe::{BufferModel, IoKind, Predictor, Profile};
use units::{Bytes, Instant, Nanos};

/// Of the buffer's size: how far the predictor may be wrong.
const MARGIN: f64 = 0.02;
/// Of the buffer's size: what must be back before a rest ends.
const RESTED: f64 = 0.125;
/// Of the buffer's size: room for a stretch of write-back, unless there is less to write. A stretch interrupts the recovery, and if it began
/// with less, the SSD would come less far between bursts than without a store (bursts of 0.3 s on `consumer-qlc`).
const STRETCH: f64 = 0.5;
/// Writes that wait no longer than this at the exhausted rate are not diverted.
const PATIENCE: Nanos = Nanos::millis(1);
/// Time without writes after which hosts count as between bursts.
const QUIET: Nanos = Nanos::millis(2);
/// Reads within this time keep a buffer from recovering, if reads do that at all.
const READS_LAST: Nanos = Nanos::millis(500);
/// A volatile store is not used within this time after a flush: each flush has to wait until it is empty.
const FLUSHED_LATELY: Nanos = Nanos::secs(10);
/// Write-back under way at most: in a hurry, between bursts, during host writes.
const UNDER_WAY: [u32; 3] = [8, 4, 1];
/// The time over which the two ways are compared.
const REST: Nanos = Nanos::secs(1);
/// Interval of questions if nothing else happens.
const LOOK_AGAIN: Nanos = Nanos::millis(1);
const SOONEST: Nanos = Nanos::micros(100);

/// Facts about an SSD that the gate needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Its write buffer.
    pub buffer: BufferModel,
    /// Bytes per second of writes with room in the buffer.
    pub fast: f64,
    /// Bytes per second of writes without.
    pub slow: f64,
}

impl Drive {
    /// The findings of a probe; `None` if it found no buffer, or not how it recovers: then there is nothing to predict.
    pub fn of(profile: &Profile) -> Option<Drive> {
        let buffer = profile.buffer.as_ref()?;
        let slow = buffer.exhausted_mb_per_s.min(buffer.steady_mb_per_s) * 1e6;
        Some(Drive { buffer: BufferModel::fit(profile)?, fast: buffer.fast_mb_per_s * 1e6, slow })
    }
}

/// Bytes that a server of a constant rate still has to do.
#[derive(Clone, Debug)]
struct Backlog {
    rate: f64,
    most: f64,
    level: f64,
    at: Instant,
}

impl Backlog {
    fn new(rate: f64, most: f64, now: Instant) -> Backlog {
        Backlog { rate, most, level: 0.0, at: now }
    }

    fn level(&self, now: Instant) -> f64 {
        (self.level - self.rate * now.saturating_since(self.at).as_secs_f64()).max(0.0)
    }

    fn add(&mut self, now: Instant, bytes: f64) {
        self.level = (self.level(now) + bytes).min(self.most);
        self.at = now;
    }

    fn at_level(&self, level: f64) -> Instant {
        self.at + Nanos(((self.level - level).max(0.0) / self.rate * 1e9) as u64)
    }
}

/// Urgency of write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A flush, or space in the store, waits for it.
    Hurry,
    /// Hosts have writes on the SSD.
    HostsWait,
    /// They have none.
    HostsDone,
}

/// Decides.
#[derive(Clone, Debug)]
pub struct Gate {
    drive: Drive,
    predictor: Predictor,
    slow: Backlog,
    fast: Backlog,
    /// Bytes that hosts wrote to the exhausted SSD or into the store, and that it would still have to write without a store.
    owed: Backlog,
    pressure: Pressure,
    comparison: Comparison,
    is_resting: bool,
    is_returning: bool,
    wrote_at: Option<Instant>,
    read_at: Option<Instant>,
    flushed_at: Option<Instant>,
}

impl Gate {
    /// For an SSD with its whole buffer available at `now`.
    pub fn new(drive: Drive, now: Instant) -> Gate {
        Gate {
            predictor: Predictor::new(drive.buffer.clone(), now),
            slow: Backlog::new(drive.slow, 2.0 * drive.slow * PATIENCE.as_secs_f64(), now),
            fast: Backlog::new(drive.fast, drive.fast, now),
            owed: Backlog::new(drive.slow, f64::INFINITY, now),
            pressure: Pressure::new(drive.fast, now),
            comparison: Comparison::new(drive.fast, drive.slow),
            is_resting: false,
            is_returning: false,
            wrote_at: None,
            read_at: None,
            flushed_at: None,
            drive,
        }
    }

    /// Bytes that the SSD can still take fast.
    pub fn remaining(&self, now: Instant) -> Bytes {
        self.predictor.remaining(now)
    }

    /// Accuracy of the prediction.
    pub fn foresight(&self) -> Foresight {
        self.comparison.foresight
    }

    /// Whether a write of this length would meet an exhausted buffer: the busy period that others may want to know of.
    pub fn is_exhausted(&self, now: Instant, bytes: u64) -> bool {
        self.predictor.will_exhaust(now, Bytes(bytes + self.part(MARGIN)))
    }

    fn part(&self, share: f64) -> u64 {
        (self.buffer().size().get() as f64 * share) as u64
    }

    /// The buffer, as corrected by observation.
    fn buffer(&self) -> &BufferModel {
        self.predictor.model()
    }

    pub(crate) fn on_host_write(&mut self, now: Instant, bytes: u64) {
        let is_exhausted = self.is_exhausted(now, bytes);
        if is_exhausted {
            self.owed.add(now, bytes as f64);
        }
        let found = Found {
            bytes,
            is_exhausted,
            is_whole: self.remaining(now).get() + self.part(MARGIN) >= self.buffer().size().get(),
            writing: self.predictor.writing(),
            is_first: self.is_quiet(now),
        };
        self.pressure.on_write(now, found);
        self.wrote_at = Some(now);
    }

    pub(crate) fn on_host_done(&mut self, now: Instant) {
        self.wrote_at = Some(now);
    }

    pub(crate) fn on_host_flush(&mut self, now: Instant) {
        self.flushed_at = Some(now);
    }

    pub(crate) fn was_flushed_lately(&self, now: Instant) -> bool {
        self.flushed_at.is_some_and(|at| now.saturating_since(at) < FLUSHED_LATELY)
    }

    /// An IO goes to the SSD.
    pub(crate) fn on_submit(&mut self, now: Instant, kind: IoKind, bytes: u64) {
        let (writing, is_exhausted) = (self.predictor.writing(), self.is_exhausted(now, bytes));
        self.predictor.on_submit(now, kind, u32::try_from(bytes).unwrap_or(u32::MAX));
        match kind {
            IoKind::Write => {
                if let Some(seen) = self.comparison.on_write(now, bytes, writing, is_exhausted) {
                    self.predictor.on_stretch(seen);
                }
                self.slow.add(now, bytes as f64);
                self.fast.add(now, bytes as f64);
            }
            IoKind::Read => {
                self.comparison.on_read();
                self.read_at = Some(now);
            }
        }
    }

    /// One has ended.
    pub(crate) fn on_done(&mut self, now: Instant, kind: IoKind) {
        self.predictor.on_done(now, kind);
    }

    /// Whether a host's write is better off in the store, which has room for it, and of which the share `used` has none.
    pub(crate) fn wants(&mut self, now: Instant, bytes: u64, used: f64) -> bool {
        if self.is_resting {
            self.is_resting = self.is_exhausted(now, bytes + self.part(RESTED));
        }
        if self.is_resting {
            return true;
        }
        if !self.is_exhausted(now, bytes) || self.is_pointless(used) || !self.is_worth_it(used) {
            return false;
        }
        self.is_resting = self.rest_pays(now);
        true
    }

    /// Whether enough writes wait on the SSD. The fuller the store, the more have to: so hosts do not all meet the SSD at once when it is full.
    fn is_worth_it(&self, used: f64) -> bool {
        let writing = self.predictor.writing().get() as f64;
        // One that is larger than the SSD's patience goes to an SSD that has nothing to do.
        writing > 0.0 && writing >= self.patience() * (used / (1.0 - used)).max(1.0)
    }

    /// Whether hosts would only write more: then nothing is diverted.
    pub(crate) fn is_pointless(&mut self, used: f64) -> bool {
        self.pressure.is_pointless(used)
    }

    /// Bytes that may wait at the exhausted rate.
    fn patience(&self) -> f64 {
        self.drive.slow * PATIENCE.as_secs_f64()
    }

    /// Whether resting brings back more than the exhausted SSD could write.
    fn rest_pays(&self, now: Instant) -> bool {
        self.rested() > self.drive.slow && !self.reads_hold_it_up(now)
    }

    fn reads_hold_it_up(&self, now: Instant) -> bool {
        let lately = self.read_at.is_some_and(|at| now.saturating_since(at) < READS_LAST);
        lately && self.buffer().reads_stop_recovery()
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.wrote_at.is_none_or(|at| now.saturating_since(at) >= QUIET)
    }

    /// Room that a stretch of write-back begins with.
    fn stretch(&self, pending: u64) -> u64 {
        self.part(MARGIN) + (2 * pending).min(self.part(STRETCH))
    }

    /// Whether `bytes` of the `pending` ones may go back to the SSD now, in addition to `under_way` others.
    pub(crate) fn returns(
        &mut self,
        now: Instant,
        bytes: u64,
        pending: u64,
        under_way: u32,
        pace: Pace,
    ) -> bool {
        let [in_a_hurry, between, beside] = UNDER_WAY;
        if pace == Pace::Hurry {
            return under_way < in_a_hurry;
        }
        let remaining = self.remaining(now).get();
        self.is_returning = if self.is_returning {
            remaining >= self.part(MARGIN) + bytes
        } else {
            remaining >= self.stretch(pending)
        };
        if self.is_returning {
            let most = if self.is_quiet(now) { between } else { beside };
            return under_way < most && self.fast.level(now) <= f64::from(under_way) * bytes as f64;
        }
        let is_due = pace == Pace::HostsDone && self.is_quiet(now) || self.owed.level(now) > 0.0;
        let writing = self.predictor.writing().get();
        is_due
            && self.goes_at_once(now, pending)
            && under_way < between
            && self.slow.level(now) <= self.patience() / 2.0
            && (writing == 0 || (writing + bytes) as f64 <= self.patience())
    }

    /// Whether data goes back without room for it.
    fn goes_at_once(&self, now: Instant, pending: u64) -> bool {
        self.is_hopeless(now, pending) || self.rest_takes_longer() && self.is_exhausted(now, 0)
    }

    /// Whether the exhausted SSD writes data sooner than it makes room for it and fills that.
    fn rest_takes_longer(&self) -> bool {
        1.0 / self.drive.slow <= 1.0 / self.rested() + 1.0 / self.drive.fast
    }

    /// Bytes per second that rest brings back.
    fn rested(&self) -> f64 {
        self.buffer().recovered(REST).get() as f64 / REST.as_secs_f64()
    }

    /// Whether waiting brings no room.
    fn is_hopeless(&self, now: Instant, pending: u64) -> bool {
        self.reads_hold_it_up(now) || self.predictor.idle_needed(now, Bytes(self.stretch(pending))).is_none()
    }

    /// When to ask about write-back again, if nothing happens meanwhile.
    pub(crate) fn wake_at(&self, now: Instant, pending: u64, pace: Pace) -> Instant {
        let soon = now + LOOK_AGAIN;
        if self.is_returning {
            return self.fast.at_level(0.0).max(now + SOONEST).min(soon);
        }
        let quiet = self.wrote_at.map_or(soon, |at| at + QUIET);
        let needed = self.predictor.idle_needed(now, Bytes(self.stretch(pending)));
        let rested = needed.map_or(Instant::FAR_FUTURE, |needed| now + needed);
        let reads = self.read_at.map_or(soon, |at| at + READS_LAST);
        let free = self.slow.at_level(self.patience() / 2.0);
        if !self.goes_at_once(now, pending) {
            return rested.min(reads.max(quiet).max(free)).max(soon);
        }
        match pace {
            _ if self.owed.level(now) > 0.0 => free.max(now + SOONEST),
            Pace::HostsDone => quiet.max(free).max(now + SOONEST),
            _ => soon,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// 64 MiB of buffer that come back in half a second, after 50 ms.
    pub(crate) fn drive(slow: f64) -> Drive {
        let mib = 1024.0 * 1024.0;
        Drive { buffer: BufferModel::steady(64.0 * mib, 0.05, 0.5, true), fast: 1e9, slow }
    }

    fn write(gate: &mut Gate, now: Instant, bytes: u64) {
        gate.on_host_write(now, bytes);
        gate.on_submit(now, IoKind::Write, bytes);
        gate.on_done(now, IoKind::Write);
    }

    /// A gate before an SSD that has just exhausted its buffer in a burst.
    fn exhausted(slow: f64) -> (Gate, Instant) {
        let mut gate = Gate::new(drive(slow), Instant::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..64 {
            assert!(!gate.wants(now, 64 << 10, 0.0), "at {now:?}");
            write(&mut gate, now, 1 << 20);
            now += Nanos::millis(1);
            if gate.is_exhausted(now, 64 << 10) {
                return (gate, now);
            }
        }
        panic!("64 MiB exhaust a buffer of 64 MiB");
    }

    #[test]
    fn a_host_slower_than_the_exhausted_ssd_is_never_diverted() {
        let (mut gate, mut now) = exhausted(100e6);
        now += Nanos::millis(20);
        for _ in 0..1000 {
            assert!(!gate.wants(now, 64 << 10, 0.0), "at {now:?}");
            write(&mut gate, now, 64 << 10);
            now += Nanos::millis(1);
        }
    }

    /// The diverted share of a second of writes at 400 MB/s to an exhausted SSD with this rate.
    fn diverted(taken: f64) -> f64 {
        let (mut gate, mut now) = exhausted(200e6);
        let (mut diverted, mut free_at, mut under_way) = (0, now, VecDeque::new());
        for _ in 0..6100 {
            while under_way.pop_front_if(|done: &mut Instant| *done <= now).is_some() {
                gate.on_done(now, IoKind::Write);
            }
            let is_diverted = gate.wants(now, 64 << 10, 0.0);
            gate.on_host_write(now, 64 << 10);
            if is_diverted {
                diverted += 1;
            } else {
                gate.on_submit(now, IoKind::Write, 64 << 10);
                free_at = free_at.max(now) + Nanos((65536.0 / taken * 1e9) as u64);
                under_way.push_back(free_at);
            }
            now += Nanos::micros(164);
        }
        f64::from(diverted) / 6100.0
    }

    #[test]
    fn what_the_exhausted_ssd_takes_is_not_diverted_if_rest_brings_less() {
        let share = diverted(200e6);
        assert!((0.4..0.6).contains(&share), "{share}");
    }

    #[test]
    fn nothing_is_diverted_from_an_ssd_that_is_faster_than_predicted() {
        assert_eq!(diverted(500e6), 0.0);
    }

    #[test]
    fn the_ssd_rests_if_rest_brings_more_and_is_used_again_afterwards() {
        let (mut gate, from) = exhausted(20e6);
        gate.on_submit(from, IoKind::Write, 64 << 10);
        assert!(gate.wants(from, 64 << 10, 0.0));
        gate.on_done(from, IoKind::Write);
        let mut now = from;
        while gate.wants(now, 64 << 10, 0.0) {
            gate.on_host_write(now, 64 << 10);
            now += Nanos::millis(1);
        }
        // 50 ms, and then an eighth (and the margin) of 64 MiB at 128 MiB/s.
        let rested = now.since(from);
        assert!((Nanos::millis(110)..Nanos::millis(210)).contains(&rested), "{rested:?}");
        assert!(!gate.is_exhausted(now, 8 << 20));
    }

    #[test]
    fn data_goes_back_when_there_is_room_and_not_before() {
        let (mut gate, now) = exhausted(20e6);
        let pending = 32 << 20;
        assert!(!gate.returns(now, 128 << 10, pending, 0, Pace::HostsDone));
        assert!(gate.returns(now, 128 << 10, pending, 0, Pace::Hurry), "in a hurry");
        let mut at = now;
        while !gate.returns(at, 128 << 10, pending, 0, Pace::HostsDone) {
            let wake = gate.wake_at(at, pending, Pace::HostsDone);
            assert!(wake > at && wake < at + Nanos::secs(1), "{wake:?} after {at:?}");
            at = wake;
        }
        let idle = at.since(now);
        assert!((Nanos::millis(280)..Nanos::millis(340)).contains(&idle), "a half, after {idle:?}");
    }

    #[test]
    fn data_goes_back_at_once_if_rest_takes_longer() {
        let (mut gate, now) = exhausted(200e6);
        let (bytes, pending) = (128 << 10, 32 << 20);
        assert!(gate.owed.level(now) > 0.0, "hosts would still wait for it");
        assert!(gate.wake_at(now, pending, Pace::HostsWait) < now + LOOK_AGAIN);
        // The last writes of hosts would be on the SSD by then.
        let late = now + Nanos::millis(20);
        assert!(gate.is_exhausted(late, bytes) && gate.owed.level(late) == 0.0);
        assert!(!gate.returns(late, bytes, pending, 0, Pace::HostsWait));
        assert!(gate.returns(late, bytes, pending, 0, Pace::HostsDone));
        gate.on_submit(late, IoKind::Write, 1 << 20);
        assert!(!gate.returns(late, bytes, pending, 1, Pace::HostsDone), "the SSD has enough to do");
    }

    #[test]
    fn the_fuller_the_store_the_more_writes_wait_on_the_ssd() {
        let (mut gate, now) = exhausted(200e6);
        gate.on_submit(now, IoKind::Write, 400_000);
        // 1 ms at 200 MB/s are 200 KB: twice that is worth it up to two thirds.
        assert!(gate.wants(now, 64 << 10, 0.0) && gate.wants(now, 64 << 10, 0.66));
        assert!(!gate.wants(now, 64 << 10, 0.67));
        gate.on_submit(now, IoKind::Write, 400_000);
        assert!(gate.wants(now, 64 << 10, 0.67));
    }

    #[test]
    fn reads_that_stop_the_recovery_do_not_keep_data_in_the_store_for_ever() {
        let (mut gate, mut now) = exhausted(20e6);
        for _ in 0..1000 {
            gate.on_submit(now, IoKind::Read, 4096);
            now += Nanos::millis(1);
            gate.on_done(now, IoKind::Read);
            if gate.returns(now, 128 << 10, 32 << 20, 0, Pace::HostsDone) {
                return;
            }
        }
        panic!("nothing went back in a second");
    }
}
