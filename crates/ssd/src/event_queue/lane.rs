//! One lane of the event queue: events of one kind, sorted, the earliest first.
//!
//! A ring. An event enters at the end; later events move back by one place to let it in.

use super::Key;

/// An event in a lane, with up to two numbers.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) number: u32,
    pub(super) detail: u32,
}

const NOTHING: Entry = Entry { key: Key::NEVER, number: 0, detail: 0 };
/// Initial size of a lane; all its sizes are powers of two.
const ROOM_AT_FIRST: usize = 64;

pub(super) struct Lane {
    ring: Box<[Entry]>,
    /// Positions of the first entry and after the last entry. They only count up.
    begin: usize,
    end: usize,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane { ring: vec![NOTHING; ROOM_AT_FIRST].into(), begin: 0, end: 0 }
    }

    /// Inserts an entry after all that are not later. Returns whether it is now the first.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        if self.end.wrapping_sub(self.begin) == self.ring.len() {
            self.grow();
        }
        let place = self.end;
        self.end = place.wrapping_add(1);
        let mask = self.ring.len() - 1;
        self.ring[place & mask] = entry;
        if place == self.begin {
            return true;
        }
        if self.ring[place.wrapping_sub(1) & mask].key < entry.key {
            return false;
        }
        self.move_up(place, entry)
    }

    /// Moves entries that are later than `entry`, the last one, back behind it.
    fn move_up(&mut self, mut place: usize, entry: Entry) -> bool {
        let mask = self.ring.len() - 1;
        while place != self.begin {
            let before = self.ring[place.wrapping_sub(1) & mask];
            if before.key < entry.key {
                break;
            }
            self.ring[place & mask] = before;
            place = place.wrapping_sub(1);
        }
        self.ring[place & mask] = entry;
        place == self.begin
    }

    /// Removes the first entry, which must exist. Also returns the key of the next one.
    #[inline]
    pub(super) fn pop(&mut self) -> (Entry, Key) {
        debug_assert_ne!(self.begin, self.end, "an empty lane has no first entry");
        let mask = self.ring.len() - 1;
        let first = self.ring[self.begin & mask];
        self.begin = self.begin.wrapping_add(1);
        let next = if self.begin == self.end { Key::NEVER } else { self.ring[self.begin & mask].key };
        (first, next)
    }

    #[cold]
    fn grow(&mut self) {
        let mut ring = vec![NOTHING; 2 * self.ring.len()];
        let (old_mask, mask) = (self.ring.len() - 1, ring.len() - 1);
        for place in 0..self.ring.len() {
            let place = self.begin.wrapping_add(place);
            ring[place & mask] = self.ring[place & old_mask];
        }
        self.ring = ring.into();
    }
}
