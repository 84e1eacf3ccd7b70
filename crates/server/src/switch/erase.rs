//! A long erasure passes the scheduler in pieces.
//!
//! ```text
//!   ranges   ├───────────────┤  ├──┤├──┤   ├─────────────────────────────┤
//!   pieces   ╠══════╬════════╩══╩══╩╩══╬═══╩══════╬══════════╬═══════════╣   each costs as much as a large write
//! ```
//!
//! A Write Zeroes or a Deallocate may cover a whole namespace, and is charged at cost. As one IO it would either
//! put the scheduler into debt for its whole duration (all tenants wait), or be charged less than its cost. So it is cut. When a piece
//! has ended the next one arrives at the scheduler like a new IO of the tenant: others go in between, limits count each piece, and pieces that have
//! not reached the device can be taken back.
//!
//! Holds: the pieces cover every byte once, in order; none costs more than [`PIECE_MAX`] and the device's smallest piece; together they cost
//!        the same as the whole (`the_pieces_are_the_whole`).

use super::ByteRange;
use crate::device::{Device, Erase};
use units::Bytes;

/// Upper bound for the cost of a piece, unless the device cannot cut it smaller. It is that of a large write, so that the wait of others is
/// no longer than for a write.
pub(super) const PIECE_MAX: Bytes = Bytes::kib(128);
/// The least that a command, or a range of one, costs: it keeps the SSD busy whatever it does.
pub(super) const COST_MIN: Bytes = Bytes::kib(4);

/// The progress of an erasure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    /// Ranges that are erased.
    ranges: usize,
    /// Bytes of the next range that are erased.
    bytes: u64,
}

impl Cursor {
    fn moved(self, by: u64, ranges: &[ByteRange]) -> Cursor {
        match self.bytes + by {
            bytes if bytes < ranges[self.ranges].length => Cursor { bytes, ..self },
            _ => Cursor { ranges: self.ranges + 1, bytes: 0 },
        }
    }
}

/// Where one erasure stands.
#[derive(Debug, Default)]
pub(super) struct Erasure {
    done: Cursor,
    /// Where the piece ends that the scheduler has, or the device.
    piece: Cursor,
}

impl Erasure {
    /// Plans the next piece of erasing `ranges`. Returns its cost.
    pub(super) fn plan(&mut self, device: &dyn Device, erase: Erase, ranges: &[ByteRange]) -> Bytes {
        let mut cost = Bytes::ZERO;
        self.piece = self.done;
        while cost + COST_MIN <= PIECE_MAX
            && let Some(range) = ranges.get(self.piece.ranges)
        {
            let (offset, length) = (range.offset + self.piece.bytes, range.length - self.piece.bytes);
            let quote = device.quote(erase, offset, length, PIECE_MAX.saturating_sub(cost));
            cost += quote.cost.max(COST_MIN);
            self.piece = self.piece.moved(quote.length, ranges);
        }
        cost
    }

    /// The next step of the piece; `None` if there is no more.
    pub(super) fn step(&self, ranges: &[ByteRange]) -> Option<ByteRange> {
        if self.done == self.piece {
            return None;
        }
        let range = ranges[self.done.ranges];
        let end = if self.done.ranges == self.piece.ranges { self.piece.bytes } else { range.length };
        Some(ByteRange { offset: range.offset + self.done.bytes, length: end - self.done.bytes })
    }

    /// A step of the piece has ended.
    pub(super) fn on_step(&mut self, ranges: &[ByteRange]) {
        let step = self.step(ranges).expect("what has ended was a step");
        self.done = self.done.moved(step.length, ranges);
    }

    /// Whether the piece that was planned is the last.
    pub(super) fn is_last_piece(&self, ranges: &[ByteRange]) -> bool {
        self.piece.ranges == ranges.len()
    }
}
