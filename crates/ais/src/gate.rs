//! When a write is diverted, and when diverted data goes to the SSD.
//!
//! A write is diverted if both hold:
//!
//! - the predictor says that it meets an exhausted buffer;
//! - it would wait there: more was written lately than the SSD takes at its exhausted rate. So a host that writes slower than that is
//!   never diverted, because it loses nothing.
//!
//! From then on there are two ways, and the profile says which serves more of a burst. If idleness brings back more per second than
//! the exhausted SSD writes, all writes are diverted, and the SSD rests (the paper's *active idleness*) until an eighth of its buffer is back.
//! Otherwise the SSD gets what it can take at its exhausted rate, and only the rest is diverted.
//!
//! Data goes back to the SSD when its buffer has room for it, at the rate that the SSD has left over. If reads keep the buffer from recovering,
//! it goes back between bursts at the exhausted rate.
//!
//! Elsewhere: the predictor is `probe::Predictor`. Which numbers are assumptions says `docs/ais.md`.

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
/// Hosts that have not written for so long are between bursts.
const QUIET: Nanos = Nanos::millis(2);
/// Reads within this time keep a buffer from recovering, if reads do that at all.
const READS_LAST: Nanos = Nanos::millis(500);
/// A store that is gone with the power is not used so soon after a flush: each flush has to wait until it is empty.
const FLUSHED_LATELY: Nanos = Nanos::secs(10);
/// Write-back under way at most: in a hurry, between bursts, beside host writes.
const UNDER_WAY: [u32; 3] = [8, 4, 1];
/// The time over which the two ways are compared.
const REST: Nanos = Nanos::secs(1);
/// How often it is asked again if nothing else happens.
const LOOK_AGAIN: Nanos = Nanos::millis(1);
const SOONEST: Nanos = Nanos::micros(100);

/// What must be known of an SSD.
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
    /// What a probe has found; `None` if it found no buffer, or not how it recovers: then there is nothing to predict.
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

    fn empty_at(&self) -> Instant {
        self.at + Nanos((self.level / self.rate * 1e9) as u64)
    }
}

/// Decides.
#[derive(Clone, Debug)]
pub struct Gate {
    drive: Drive,
    predictor: Predictor,
    slow: Backlog,
    fast: Backlog,
    is_resting: bool,
    is_returning: bool,
    wrote_at: Option<Instant>,
    read_at: Option<Instant>,
    flushed_at: Option<Instant>,
}

impl Gate {
    /// For an SSD whose buffer is whole at `now`.
    pub fn new(drive: Drive, now: Instant) -> Gate {
        let patience = drive.slow * PATIENCE.as_secs_f64();
        Gate {
            predictor: Predictor::new(drive.buffer.clone(), now),
            slow: Backlog::new(drive.slow, 2.0 * patience, now),
            fast: Backlog::new(drive.fast, drive.fast, now),
            is_resting: false,
            is_returning: false,
            wrote_at: None,
            read_at: None,
            flushed_at: None,
            drive,
        }
    }

    /// What the SSD can still take fast.
    pub fn remaining(&self, now: Instant) -> Bytes {
        self.predictor.remaining(now)
    }

    /// Whether a write of this length would meet an exhausted buffer: the busy period that others may want to know of.
    pub fn is_exhausted(&self, now: Instant, bytes: u64) -> bool {
        self.predictor.will_exhaust(now, Bytes(bytes + self.part(MARGIN)))
    }

    fn part(&self, share: f64) -> u64 {
        (self.drive.buffer.size().get() as f64 * share) as u64
    }

    pub(crate) fn on_host_write(&mut self, now: Instant) {
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
        self.predictor.on_submit(now, kind, u32::try_from(bytes).unwrap_or(u32::MAX));
        match kind {
            IoKind::Write => {
                self.slow.add(now, bytes as f64);
                self.fast.add(now, bytes as f64);
            }
            IoKind::Read => self.read_at = Some(now),
        }
    }

    /// One has ended.
    pub(crate) fn on_done(&mut self, now: Instant, kind: IoKind) {
        self.predictor.on_done(now, kind);
    }

    /// Whether a host's write is better off in the store, which has room for it.
    pub(crate) fn wants(&mut self, now: Instant, bytes: u64) -> bool {
        if self.is_resting {
            self.is_resting = self.is_exhausted(now, bytes + self.part(RESTED));
        }
        if self.is_resting {
            return true;
        }
        if !self.is_exhausted(now, bytes) || self.slow.level(now) + bytes as f64 <= self.slow.most / 2.0 {
            return false;
        }
        self.is_resting = self.rest_pays(now);
        // One that is larger than the SSD's patience goes to an SSD that has nothing to do.
        self.is_resting || self.slow.level(now) > 0.0
    }

    /// Whether resting brings back more than the exhausted SSD could write.
    fn rest_pays(&self, now: Instant) -> bool {
        let rested = self.drive.buffer.recovered(REST).get() as f64 / REST.as_secs_f64();
        rested > self.drive.slow && !self.reads_hold_it_up(now)
    }

    fn reads_hold_it_up(&self, now: Instant) -> bool {
        let lately = self.read_at.is_some_and(|at| now.saturating_since(at) < READS_LAST);
        lately && self.drive.buffer.reads_stop_recovery()
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.wrote_at.is_none_or(|at| now.saturating_since(at) >= QUIET)
    }

    /// Room that a stretch of write-back begins with.
    fn stretch(&self, pending: u64) -> u64 {
        self.part(MARGIN) + (2 * pending).min(self.part(STRETCH))
    }

    /// Whether `bytes` of the `pending` ones may go back to the SSD now, beside `under_way` others.
    pub(crate) fn returns(
        &mut self,
        now: Instant,
        bytes: u64,
        pending: u64,
        under_way: u32,
        hurry: bool,
    ) -> bool {
        let [in_a_hurry, between, beside] = UNDER_WAY;
        if hurry {
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
        self.is_hopeless(now, pending) && self.is_quiet(now) && under_way == 0 && self.slow.level(now) == 0.0
    }

    /// Whether waiting brings no room.
    fn is_hopeless(&self, now: Instant, pending: u64) -> bool {
        self.reads_hold_it_up(now) || self.predictor.idle_needed(now, Bytes(self.stretch(pending))).is_none()
    }

    /// When to ask about write-back again, if nothing happens meanwhile.
    pub(crate) fn wake_at(&self, now: Instant, pending: u64) -> Instant {
        let soon = now + LOOK_AGAIN;
        if self.is_returning {
            return self.fast.empty_at().max(now + SOONEST).min(soon);
        }
        let quiet = self.wrote_at.map_or(soon, |at| at + QUIET);
        let needed = self.predictor.idle_needed(now, Bytes(self.stretch(pending)));
        let rested = needed.map_or(Instant::FAR_FUTURE, |needed| now + needed);
        let reads = self.read_at.map_or(soon, |at| at + READS_LAST);
        let hopeless = quiet.max(self.slow.empty_at());
        let at = if self.is_hopeless(now, pending) { hopeless } else { rested.min(reads.max(hopeless)) };
        at.max(soon)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// 64 MiB of buffer that come back in half a second, after 50 ms.
    pub(crate) fn drive(slow: f64) -> Drive {
        let mib = 1024.0 * 1024.0;
        Drive { buffer: BufferModel::steady(64.0 * mib, 0.05, 0.5, true), fast: 1e9, slow }
    }

    fn write(gate: &mut Gate, now: Instant, bytes: u64) {
        gate.on_host_write(now);
        gate.on_submit(now, IoKind::Write, bytes);
        gate.on_done(now, IoKind::Write);
    }

    /// A gate before an SSD whose buffer has just been exhausted by a burst.
    fn exhausted(slow: f64) -> (Gate, Instant) {
        let mut gate = Gate::new(drive(slow), Instant::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..64 {
            assert!(!gate.wants(now, 64 << 10), "at {now:?}");
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
            assert!(!gate.wants(now, 64 << 10), "at {now:?}");
            write(&mut gate, now, 64 << 10);
            now += Nanos::millis(1);
        }
    }

    #[test]
    fn what_the_exhausted_ssd_takes_is_not_diverted_if_rest_brings_less() {
        let (mut gate, mut now) = exhausted(200e6);
        let (mut diverted, mut all) = (0, 0);
        for _ in 0..1000 {
            all += 1;
            if gate.wants(now, 64 << 10) {
                gate.on_host_write(now);
                diverted += 1;
            } else {
                write(&mut gate, now, 64 << 10);
            }
            now += Nanos::micros(164); // 400 MB/s
        }
        assert!((0.4..0.6).contains(&(f64::from(diverted) / f64::from(all))), "{diverted} of {all}");
    }

    #[test]
    fn the_ssd_rests_if_rest_brings_more_and_is_used_again_afterwards() {
        let (mut gate, from) = exhausted(20e6);
        let mut now = from;
        while gate.wants(now, 64 << 10) {
            gate.on_host_write(now);
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
        assert!(!gate.returns(now, 128 << 10, pending, 0, false));
        assert!(gate.returns(now, 128 << 10, pending, 0, true), "in a hurry");
        let mut at = now;
        while !gate.returns(at, 128 << 10, pending, 0, false) {
            let wake = gate.wake_at(at, pending);
            assert!(wake > at && wake < at + Nanos::secs(1), "{wake:?} after {at:?}");
            at = wake;
        }
        let idle = at.since(now);
        assert!((Nanos::millis(280)..Nanos::millis(340)).contains(&idle), "a half, after {idle:?}");
    }

    #[test]
    fn reads_that_stop_the_recovery_do_not_keep_data_in_the_store_for_ever() {
        let (mut gate, mut now) = exhausted(20e6);
        for _ in 0..1000 {
            gate.on_submit(now, IoKind::Read, 4096);
            now += Nanos::millis(1);
            gate.on_done(now, IoKind::Read);
            if gate.returns(now, 128 << 10, 32 << 20, 0, false) {
                return;
            }
        }
        panic!("nothing went back in a second");
    }
}
