//! An SSD from the core's point of view: whether it can be reached, IOs in flight, and which writes a flush has
//! covered.
//!
//! Every completion carries the *epoch* of the connection. Writes that completed in an epoch and were not flushed in
//! the same one may be lost: the target may have lost power in between. A flush in a later epoch does not cover them.
//!
//! Holds: `a_flush_covers_only_its_own_epoch`.

use crate::steer::{Load, Slow};
use crate::task::Gate;
use units::{Instant, Nanos};

/// The position of a write in the order of completed writes of an SSD.
pub(crate) type Sequence = u64;

/// The state of an SSD; see the module.
#[derive(Default)]
pub(super) struct Disk {
    is_up: bool,
    /// The time since which it is known to be unreachable.
    away_since: Option<Instant>,
    epoch: u64,
    in_flight: u32,
    /// Bytes of the writes among them.
    writing: u64,
    credit: Option<u32>,
    /// The last report of its switch.
    slow: Option<Slow>,
    /// Number of completed writes.
    written: Sequence,
    /// Writes up to here survive a power loss, except those in `lost`.
    flushed: Sequence,
    /// First and last of each range of writes that may be lost.
    lost: Vec<(Sequence, Sequence)>,
    is_flushing: bool,
    /// The time until which an abandoned write or trim may still take effect.
    stray_until: Instant,
    /// Tasks that wait for a flush.
    flushes: Gate,
}

impl Disk {
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Notes that the SSD can be reached in an epoch, or not any more. Returns whether it is back.
    pub(super) fn on_reach(&mut self, is_up: bool, epoch: u64) -> bool {
        self.on_epoch(epoch);
        let is_back = is_up && !self.is_up;
        self.is_up = is_up;
        if is_up {
            self.away_since = None;
        }
        is_back
    }

    /// Notes that the SSD cannot be reached. Returns whether that is news.
    pub(super) fn on_away(&mut self, now: Instant) -> bool {
        let is_news = self.away_since.is_none();
        self.away_since.get_or_insert(now);
        is_news
    }

    /// Whether the SSD has been unreachable for this long.
    pub(super) fn is_away_for(&self, span: Nanos, now: Instant) -> bool {
        self.away_since.is_some_and(|since| now >= since + span)
    }

    pub(super) fn on_told(&mut self, credit: Option<u32>, slow: Option<Slow>) {
        (self.credit, self.slow) = (credit, slow);
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        let Disk { credit, in_flight, writing, slow, .. } = *self;
        Load { credit, in_flight, writing, ..Load::default() }.told(now, slow)
    }

    /// Counts an IO, sent now, that writes `writing` bytes.
    pub(super) fn on_sent(&mut self, writing: u64) {
        self.in_flight += 1;
        self.writing += writing;
    }

    /// Counts the end of that IO, in an epoch.
    pub(super) fn on_ended(&mut self, writing: u64, epoch: u64) {
        self.in_flight -= 1;
        self.writing -= writing;
        self.on_epoch(epoch);
    }

    /// The time until which an abandoned write or trim may still take effect.
    pub(super) fn stray_until(&self) -> Instant {
        self.stray_until
    }

    /// Notes that an abandoned write or trim may take effect until then.
    pub(super) fn on_stray(&mut self, until: Instant) {
        self.stray_until = self.stray_until.max(until);
    }

    /// Begins a new epoch, if this is one.
    fn on_epoch(&mut self, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        if self.written > self.flushed {
            self.lost.push((self.flushed + 1, self.written));
            self.flushed = self.written;
        }
    }

    /// Counts a write that completed in an epoch. Returns `None` if that epoch is over: the write may be lost.
    pub(super) fn on_written(&mut self, epoch: u64) -> Option<Sequence> {
        self.on_epoch(epoch);
        if epoch < self.epoch {
            return None;
        }
        self.written += 1;
        Some(self.written)
    }

    /// Counts a write that this mount has not seen. Returns the first and the last write that no flush has covered.
    pub(super) fn count_unseen(&mut self) -> (Sequence, Sequence) {
        self.written += 1;
        (self.flushed + 1, self.written)
    }

    /// The gate at which tasks wait for a flush.
    pub(super) fn flushes(&self) -> Gate {
        self.flushes.clone()
    }

    /// Whether a flush must be sent for the writes up to `upto`; `None` while another flush is in flight.
    pub(super) fn must_flush(&mut self, upto: Sequence) -> Option<bool> {
        if self.flushed >= upto {
            Some(false)
        } else if self.is_flushing {
            None
        } else {
            self.is_flushing = true;
            Some(true)
        }
    }

    /// The last write that a flush sent now will cover.
    pub(super) fn written(&self) -> Sequence {
        self.written
    }

    /// Notes that the flush has ended.
    pub(super) fn on_flush_ended(&mut self) {
        self.is_flushing = false;
    }

    /// Notes that a flush which began after `covered` writes has completed in an epoch.
    pub(super) fn on_flushed(&mut self, epoch: u64, covered: Sequence) {
        self.on_epoch(epoch);
        if epoch == self.epoch {
            self.flushed = self.flushed.max(covered);
        }
    }

    /// Whether one of these writes may be lost.
    pub(super) fn may_lack(&self, first: Sequence, last: Sequence) -> bool {
        self.lost.iter().any(|&(from, to)| first <= to && from <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_only_its_own_epoch() {
        let mut disk = Disk::default();
        assert_eq!((disk.on_written(1), disk.on_written(1)), (Some(1), Some(2)));
        disk.on_flushed(1, 2);
        assert_eq!(disk.on_written(1), Some(3));
        // The target was away; the flush on the new connection does not cover the third write.
        disk.on_flushed(2, 3);
        assert!(disk.may_lack(1, 3) && disk.may_lack(3, 3) && !disk.may_lack(1, 2));
        assert_eq!(disk.on_written(1), None, "a late completion of the old connection");
        assert_eq!(disk.on_written(2), Some(4));
        disk.on_flushed(2, 4);
        assert!(!disk.may_lack(4, 4));
        assert_eq!(disk.flushed, 4);
    }
}
