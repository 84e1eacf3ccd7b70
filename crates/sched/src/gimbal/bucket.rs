//! The dual token bucket: decides when an IO may go.
//!
//! Tokens come in at `target_rate` and are split between reads and writes by the write cost `c`: an SSD on which a
//! written byte costs `c` times as much is offered `c` read bytes for each. Either bucket gets the overflow of the
//! other.
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
//! An IO larger than a bucket may go when its bucket is full, and drives it into debt; every IO after it waits until the
//! debt is paid. Otherwise it would wait for ever. The paper's IOs are never that large.
//!
//! Holds: an instant that is named is the first at which the bucket can pay (`the_named_instant_is_the_first_that_pays`);
//!        looking in between changes nothing (`looking_more_often_changes_nothing`);
//!        payments in any interval are bounded by depth + rate × time (`payments_stay_within_depth_and_rate`).
//! Elsewhere: the rate is set by `congestion`; the cost of a write by `write_cost`; the next tenant by `drr`.
//! Paper: Gimbal §3.3, Appendix C.1, Algorithm 4. We differ: no polling, and a change of pace counts from the moment it
//! happens, not from the last look.

use super::reciprocal::Reciprocal;
use crate::{Cost, IoKind};
use units::{ByteRate, Bytes, Instant, Nanos};

/// Billionths of a byte in a byte.
const NANO: i128 = 1_000_000_000;

/// Rate of tokens, and their split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Tokens per second, both buckets together. Never zero.
    pub rate: ByteRate,
    /// Tokens that the read bucket gets for each one that the write bucket gets: the write cost.
    pub split: Cost,
}

impl Pace {
    fn read_parts(self) -> u64 {
        u64::from(self.split.fixed())
    }

    fn write_parts(self) -> u64 {
        u64::from(Cost::SCALE)
    }

    fn parts(self) -> u64 {
        self.read_parts() + self.write_parts()
    }
}

/// Both buckets of one SSD.
#[derive(Clone, Copy, Debug)]
pub(super) struct DualBucket {
    depth: i128,
    pace: Pace,
    /// `pace.parts()`.
    parts: Reciprocal,
    /// Tokens in billionths of a byte; negative while in debt.
    read: i128,
    write: i128,
    /// Remainder of the last split for the read bucket, in `1 / pace.parts()` of a billionth of a byte.
    remainder: u64,
    updated: Instant,
}

impl DualBucket {
    /// Two full buckets.
    pub(super) fn new(depth: Bytes, pace: Pace) -> DualBucket {
        let depth = i128::from(depth.0) * NANO;
        DualBucket {
            depth,
            pace,
            parts: Reciprocal::of(pace.parts()),
            read: depth,
            write: depth,
            remainder: 0,
            updated: Instant::ZERO,
        }
    }

    /// Lets the tokens of the time until `now` come in.
    #[inline]
    pub(super) fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.updated);
        if elapsed > Nanos::ZERO {
            self.updated = now;
            self.earn(elapsed);
        }
    }

    fn earn(&mut self, elapsed: Nanos) {
        let earned = u128::from(self.pace.rate.0) * u128::from(elapsed.0);
        let missing = (2 * self.depth - self.read - self.write).unsigned_abs();
        if earned >= missing {
            // However it is split, both are full in the end.
            (self.read, self.write) = (self.depth, self.depth);
            self.remainder = 0;
            return;
        }
        let read_share = self.read_share(earned);
        self.read += read_share.cast_signed();
        self.write += (earned - read_share).cast_signed();
        if self.read > self.depth {
            self.write += self.read - self.depth;
            self.read = self.depth;
        }
        if self.write > self.depth {
            self.read = self.depth.min(self.read + self.write - self.depth);
            self.write = self.depth;
        }
        if self.read == self.depth && self.write == self.depth {
            self.remainder = 0;
        }
    }

    /// The read bucket's part of the earned tokens, with the remainder of the split before; keeps the remainder of this
    /// one.
    #[inline]
    fn read_share(&mut self, earned: u128) -> u128 {
        let (parts, read_parts) = (self.parts.divisor(), self.pace.read_parts());
        match u64::try_from(earned) {
            Ok(earned) if parts <= u64::from(u32::MAX) => {
                // earned × read_parts / parts in two steps, neither of which leaves 64 bits: the second is below parts². (The
                // product would leave even 128 bits after a pause of years.)
                let (rounds, rest) = self.parts.div_rem(earned);
                let (more, remainder) = self.parts.div_rem(rest * read_parts + self.remainder);
                self.remainder = remainder;
                u128::from(rounds * read_parts + more)
            }
            _ => {
                let (parts, read_parts) = (u128::from(parts), u128::from(read_parts));
                let shares = earned % parts * read_parts + u128::from(self.remainder);
                self.remainder = (shares % parts) as u64;
                earned / parts * read_parts + shares / parts
            }
        }
    }

    /// Goes on at another pace from `now` on.
    #[inline]
    pub(super) fn set_pace(&mut self, now: Instant, pace: Pace) {
        if pace == self.pace {
            return;
        }
        self.advance(now);
        if pace.split != self.pace.split {
            self.remainder = 0; // less than a billionth of a byte
            self.parts = Reciprocal::of(pace.parts());
        }
        self.pace = pace;
    }

    /// Pays for an IO, or names the first instant at which its bucket could, at this pace and if no other IO is paid.
    #[inline]
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
            // The write bucket gets the rest after the read bucket's share, rounded down.
            let beyond = (missing - 1) * u128::from(self.pace.parts()) + u128::from(self.remainder);
            (beyond / u128::from(self.pace.write_parts()) + 1, self.read)
        } else {
            // (missing × parts − remainder) / read_parts; taking out missing − 1 keeps the numbers small, and positive.
            let read_parts = self.pace.read_parts();
            let beyond = u128::from(read_parts) + missing * u128::from(self.pace.write_parts());
            (missing - 1 + div_ceil(beyond - u128::from(self.remainder), read_parts), self.write)
        };
        let until_overflow = (self.depth - other).unsigned_abs();
        let whole_overflow = own.min(missing + until_overflow);
        self.updated + self.time_of(whole_overflow)
    }

    /// The least time in which `earned` billionths of a byte come in.
    fn time_of(&self, earned: u128) -> Nanos {
        let wait = div_ceil(earned, self.pace.rate.0);
        Nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }
}

/// `n / divisor`, rounded up: a 64-bit division wherever `n` allows it, which is a third of the price.
fn div_ceil(n: u128, divisor: u64) -> u128 {
    match u64::try_from(n) {
        Ok(n) => u128::from(n.div_ceil(divisor)),
        Err(_) => n.div_ceil(u128::from(divisor)),
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
