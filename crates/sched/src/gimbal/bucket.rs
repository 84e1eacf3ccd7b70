//! The dual token bucket: when may an IO go?
//!
//! Tokens come in at `target_rate` and are split between reads and writes by the write cost `c`, so that an SSD which finds
//! a written byte `c` times as dear is offered `c` read bytes for each. What one bucket cannot hold, the other gets.
//!
//! ```text
//!                        ┌─ c/(1+c) ─► [ read tokens  ] ── a read pays its length
//!   target_rate × time ──┤                 │ ▲ overflow
//!                        └─ 1/(1+c) ─► [ write tokens ] ── a write pays its length
//! ```
//!
//! In come the time, the pace (rate and cost) and the price of an IO; out goes "paid" or the first instant at which that
//! bucket can pay. Tokens are counted in billionths of a byte (a rate in bytes/s times nanoseconds), so nothing is lost to
//! rounding, however often the buckets are looked at.
//!
//! An IO larger than a bucket may go when its bucket is full, and drives it into debt; everybody after it waits until the
//! debt is paid. Otherwise it would wait for ever. The paper's IOs are never that large.
//!
//! Holds: an instant that is named is the first at which the bucket can pay (`the_named_instant_is_the_first_that_pays`);
//!        looking in between changes nothing (`looking_more_often_changes_nothing`);
//!        payments in any interval are bounded by depth + rate × time (`payments_stay_within_depth_and_rate`).
//! Elsewhere: what the rate is, is `congestion`; what a write costs is `write_cost`; who pays next is `drr`.
//! Paper: Gimbal §3.3, Appendix C.1, Algorithm 4. We differ: no polling, and a change of pace counts from the moment it
//! happens, not from the last look.

use crate::{Cost, IoKind};
use units::{ByteRate, Bytes, Instant};

/// Billionths of a byte in a byte.
const NANO: i128 = 1_000_000_000;

/// How fast tokens come in and how they are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Tokens per second, both buckets together. Never zero.
    pub rate: ByteRate,
    /// The write cost. At least 1.
    pub cost: Cost,
}

impl Pace {
    fn read_parts(self) -> u128 {
        u128::from(self.cost.fixed())
    }

    fn write_parts(self) -> u128 {
        u128::from(Cost::SCALE)
    }

    fn parts(self) -> u128 {
        self.read_parts() + self.write_parts()
    }
}

/// Both buckets of one SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct DualBucket {
    depth: i128,
    pace: Pace,
    /// Tokens in billionths of a byte; negative while in debt.
    read: i128,
    write: i128,
    /// What the last split left over for the read bucket, in `1 / pace.parts()` of a billionth of a byte.
    remainder: u128,
    updated: Instant,
}

impl DualBucket {
    /// Two full buckets.
    pub(super) fn new(depth: Bytes, pace: Pace) -> DualBucket {
        let depth = i128::from(depth.0) * NANO;
        DualBucket { depth, pace, read: depth, write: depth, remainder: 0, updated: Instant::ZERO }
    }

    /// Lets the tokens of the time until `now` come in.
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.updated);
        self.updated = now;
        let earned = u128::from(self.pace.rate.0) * u128::from(elapsed.0);
        let room = (self.depth - self.read) + (self.depth - self.write);
        if earned >= room.unsigned_abs() {
            (self.read, self.write, self.remainder) = (self.depth, self.depth, 0);
            return;
        }
        let shares = earned * self.pace.read_parts() + self.remainder;
        let read_share = shares / self.pace.parts();
        self.remainder = shares % self.pace.parts();
        self.read += read_share.cast_signed();
        self.write += (earned - read_share).cast_signed();
        // The room was larger than what came in, so at most one of the two has overflowed.
        let read_overflow = (self.read - self.depth).max(0);
        let write_overflow = (self.write - self.depth).max(0);
        self.read += write_overflow - read_overflow;
        self.write += read_overflow - write_overflow;
    }

    /// Goes on at another pace from `now` on.
    pub(super) fn set_pace(&mut self, now: Instant, pace: Pace) {
        self.advance(now);
        if pace.cost != self.pace.cost {
            self.remainder = 0; // less than a billionth of a byte, which the write bucket already has
        }
        self.pace = pace;
    }

    /// Pays for an IO, or names the first instant at which its bucket could, at this pace and if nobody else is paid.
    pub(super) fn pay(&mut self, now: Instant, kind: IoKind, length: Bytes) -> Result<(), Instant> {
        self.advance(now);
        let price = i128::from(length.0) * NANO;
        let missing = price.min(self.depth) - self.tokens(kind);
        if missing > 0 {
            return Err(self.instant_of(kind, missing.unsigned_abs()));
        }
        if kind.pays_as_write() {
            self.write -= price;
        } else {
            self.read -= price;
        }
        Ok(())
    }

    /// Empties both buckets. A debt remains.
    pub(super) fn empty(&mut self, now: Instant) {
        self.advance(now);
        self.read = self.read.min(0);
        self.write = self.write.min(0);
    }

    /// Whole bytes that this kind of IO could be paid for at the time of the last update.
    pub(super) fn bytes(&self, kind: IoKind) -> Bytes {
        Bytes((self.tokens(kind).max(0) / NANO) as u64)
    }

    fn tokens(&self, kind: IoKind) -> i128 {
        if kind.pays_as_write() { self.write } else { self.read }
    }

    /// The first instant at which the bucket has `missing` (> 0) more tokens than now.
    ///
    /// They come from the bucket's own share or, once the other bucket is full, from everything that comes in; whichever
    /// gets there first.
    fn instant_of(&self, kind: IoKind, missing: u128) -> Instant {
        let (own, other) = if kind.pays_as_write() {
            // The write bucket gets what the read bucket's share, rounded down, leaves.
            let beyond = (missing - 1) * self.pace.parts() + self.remainder;
            (beyond / self.pace.write_parts() + 1, self.read)
        } else {
            let shares = missing * self.pace.parts() - self.remainder;
            (shares.div_ceil(self.pace.read_parts()), self.write)
        };
        let until_overflow = (self.depth - other).unsigned_abs();
        let earned = own.min(missing + until_overflow);
        let wait = earned.div_ceil(u128::from(self.pace.rate.0));
        self.updated + units::Nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
