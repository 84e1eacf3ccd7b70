//! Where the next record of a log goes: a circle, counted without going round.
//!
//! ```text
//!   tail ───────── used ─────────► next ─── free ───► tail + area
//! ```
//!
//! A record lies in one piece. One that does not fit before the end of the circle begins at its start, and the rest before the end counts as used, too.

use crate::format::{AREA, BLOCK};

/// The circle, and the used part of it.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    area: u64,
    tail: u64,
    next: u64,
}

impl Space {
    /// A log of `size` bytes with records from `tail` to `next`.
    pub(crate) fn new(size: u64, tail: u64, next: u64) -> Space {
        let area = area_of(size);
        assert!(next - tail <= area, "{} used bytes of {area}", next - tail);
        Space { area, tail, next }
    }

    pub(crate) fn area(&self) -> u64 {
        self.area
    }

    pub(crate) fn free(&self) -> u64 {
        self.area - (self.next - self.tail)
    }

    /// Space that a record of `span` bytes would use, including the rest before the end.
    pub(crate) fn needed(&self, span: u64) -> u64 {
        begin(self.area, self.next, span) - self.next + span
    }

    /// Takes room for a record: its place, counted without going round.
    pub(crate) fn take(&mut self, span: u64) -> u64 {
        assert!(self.needed(span) <= self.free(), "a record of {span} bytes in {} bytes", self.free());
        let at = begin(self.area, self.next, span);
        self.next = at + span;
        at
    }

    /// The place after the last record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Frees the space before `tail`.
    pub(crate) fn release(&mut self, tail: u64) {
        assert!((self.tail..=self.next).contains(&tail), "{tail} is not in {self:?}");
        self.tail = tail;
    }

    /// The place in the log.
    pub(crate) fn physical(&self, at: u64) -> u64 {
        AREA + at % self.area
    }
}

/// Bytes for records in a log of `size` bytes.
pub(crate) fn area_of(size: u64) -> u64 {
    size.saturating_sub(AREA) / BLOCK * BLOCK
}

/// Where a record of `span` bytes begins that may begin from `next` on.
pub(crate) fn begin(area: u64, next: u64, span: u64) -> u64 {
    let left = area - next % area;
    if span <= left { next } else { next + left }
}
