//! An SSD as the core sees it: reachable or not, IOs outstanding, which writes a flush has covered.
//!
//! Every completion carries the *epoch* of the connection. Writes that completed in an epoch and were not flushed in the
//! same one may be lost: the target may have been switched off in between. A flush in a later epoch does not cover them.
//!
//! Holds: `a_flush_covers_only_its_own_epoch`.

use crate::steer::Slow;
use crate::task::Gate;
use units::Instant;

/// Where a write is in the order of completed writes of an SSD.
pub(crate) type Sequence = u64;

#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) is_up: bool,
    /// Since when it cannot be reached, as far as is known.
    pub(crate) away_since: Option<Instant>,
    pub(crate) epoch: u64,
    pub(crate) in_flight: u32,
    /// Bytes of the writes among them.
    pub(crate) writing: u64,
    pub(crate) credit: Option<u32>,
    /// As its switch last said.
    pub(crate) slow: Option<Slow>,
    /// Completed writes.
    pub(crate) written: Sequence,
    /// Writes up to here survive a power loss, except those in `lost`.
    pub(crate) flushed: Sequence,
    /// First and last of writes that may be lost.
    lost: Vec<(Sequence, Sequence)>,
    pub(crate) is_flushing: bool,
    /// Until when a write or trim that was given up may still happen.
    pub(crate) stray_until: Instant,
    pub(crate) gate: Gate,
}

impl Disk {
    /// The connection is in this epoch.
    pub(crate) fn on_epoch(&mut self, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        if self.written > self.flushed {
            self.lost.push((self.flushed + 1, self.written));
            self.flushed = self.written;
        }
    }

    /// A write completed in an epoch. `None` if it is of an epoch that is over: it may be lost.
    pub(crate) fn on_written(&mut self, epoch: u64) -> Option<Sequence> {
        self.on_epoch(epoch);
        if epoch < self.epoch {
            return None;
        }
        self.written += 1;
        Some(self.written)
    }

    /// A flush that began after `covered` writes has completed in an epoch.
    pub(crate) fn on_flushed(&mut self, epoch: u64, covered: Sequence) {
        self.on_epoch(epoch);
        if epoch == self.epoch {
            self.flushed = self.flushed.max(covered);
        }
    }

    /// Whether one of these writes may be lost.
    pub(crate) fn may_lack(&self, first: Sequence, last: Sequence) -> bool {
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
        // The target was away; the flush of the new connection says nothing about the third write.
        disk.on_flushed(2, 3);
        assert!(disk.may_lack(1, 3) && disk.may_lack(3, 3) && !disk.may_lack(1, 2));
        assert_eq!(disk.on_written(1), None, "a late completion of the old connection");
        assert_eq!(disk.on_written(2), Some(4));
        disk.on_flushed(2, 4);
        assert!(!disk.may_lack(4, 4));
        assert_eq!(disk.flushed, 4);
    }
}
