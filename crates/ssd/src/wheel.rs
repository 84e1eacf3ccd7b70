//! The event queue: what happens next, in exact order of time.
//!
//! A timing wheel of 2^14 buckets of 256 ns covers the next 4.2 ms, which is where nearly all events of an SSD lie; the
//! rest waits in a heap and moves into the wheel as it comes into reach. A bitmap of the occupied buckets with a summary
//! above it finds the next one in a few instructions.
//!
//! ```text
//!             current                                       + 4.2 ms
//!   buckets ─────┬──┬────┬───────┬──────────────────────────────┤ ··· far events (heap) ···►
//!                ▼  ▼    ▼       ▼                 ◄── move in as the wheel turns
//!               list of events in one bucket, newest first; the earliest is picked by looking at all of them
//! ```
//!
//! The device's serial stages space its events, so that a bucket holds a handful of them however deep the queue is.
//!
//! Holds: events leave in order of time, and in order of insertion where times are equal (`agrees_with_a_sorted_list`);
//!        an event later than the asked-for instant stays (`an_event_waits_for_its_time`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Instant;

#[cfg(test)]
mod tests;

/// Buckets in the wheel: 2^14.
const BUCKETS: usize = 1 << 14;
/// A bucket spans 2^8 ns.
const BUCKET_SHIFT: u32 = 8;
const WORD_BITS: usize = 64;
const WORDS: usize = BUCKETS / WORD_BITS;
const SUMMARY_WORDS: usize = WORDS / WORD_BITS;
const NIL: u32 = u32::MAX;

/// Events of type `E` in order of time.
pub(crate) struct Wheel<E> {
    /// Number of the bucket that was last emptied from, counted from the origin of time (not modulo the wheel's size).
    current: u64,
    heads: Box<[u32; BUCKETS]>,
    occupied: Box<[u64; WORDS]>,
    summary: [u64; SUMMARY_WORDS],
    in_wheel: usize,
    far: BinaryHeap<Reverse<Far>>,
    far_inserted: u64,
    nodes: Vec<Node<E>>,
    free: u32,
    popped: u64,
}

#[derive(Clone, Copy)]
struct Node<E> {
    at: Instant,
    event: E,
    next: u32,
}

/// An event beyond the wheel's reach. The field order is the sort order: time, then insertion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Far {
    at: Instant,
    inserted: u64,
    node: u32,
}

/// Where the earliest event of the wheel hangs.
struct Found {
    at: Instant,
    bucket: usize,
    node: u32,
    /// The node before it in the bucket's list, or `NIL`.
    before: u32,
}

impl<E: Copy> Wheel<E> {
    pub(crate) fn new() -> Self {
        Wheel {
            current: 0,
            heads: Box::new([NIL; BUCKETS]),
            occupied: Box::new([0; WORDS]),
            summary: [0; SUMMARY_WORDS],
            in_wheel: 0,
            far: BinaryHeap::new(),
            far_inserted: 0,
            nodes: Vec::new(),
            free: NIL,
            popped: 0,
        }
    }

    /// Events handed out so far.
    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }

    /// Inserts `event` at the instant `at`.
    #[inline]
    pub(crate) fn push(&mut self, at: Instant, event: E) {
        let node = Node { at, event, next: NIL };
        let index = if self.free == NIL {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        // A bucket before the current one would be found a full turn late; the current one is searched first anyway.
        let bucket = bucket_of(at).max(self.current);
        if bucket - self.current >= BUCKETS as u64 {
            self.far.push(Reverse(Far { at, inserted: self.far_inserted, node: index }));
            self.far_inserted += 1;
        } else {
            self.link(index, bucket);
        }
    }

    /// The instant of the earliest event.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        match self.earliest() {
            Some(found) => Some(found.at),
            None => self.far.peek().map(|Reverse(far)| far.at),
        }
    }

    /// Takes out the earliest event if its instant is not after `until`.
    #[inline]
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, E)> {
        if self.in_wheel == 0 {
            let at = self.far.peek().map(|Reverse(far)| far.at).filter(|&at| at <= until)?;
            self.current = bucket_of(at);
            self.pull_in();
        }
        let found = self.earliest().filter(|found| found.at <= until)?;
        let event = self.unlink(&found);
        let position = self.current as usize % BUCKETS;
        let turned = found.bucket.wrapping_sub(position) % BUCKETS;
        if turned != 0 {
            self.current += turned as u64;
            if !self.far.is_empty() {
                self.pull_in();
            }
        }
        self.popped += 1;
        Some((found.at, event))
    }

    /// Moves the far events that the wheel now reaches into it, in their order.
    fn pull_in(&mut self) {
        while let Some(&Reverse(far)) = self.far.peek() {
            let bucket = bucket_of(far.at);
            if bucket - self.current >= BUCKETS as u64 {
                break;
            }
            self.far.pop();
            self.link(far.node, bucket);
        }
    }

    #[inline]
    fn link(&mut self, node: u32, bucket: u64) {
        let i = bucket as usize % BUCKETS;
        let head = self.heads[i];
        self.nodes[node as usize].next = head;
        self.heads[i] = node;
        if head == NIL {
            let word = i / WORD_BITS;
            self.occupied[word] |= 1 << (i % WORD_BITS);
            self.summary[word / WORD_BITS] |= 1 << (word % WORD_BITS);
        }
        self.in_wheel += 1;
    }

    #[inline]
    fn unlink(&mut self, found: &Found) -> E {
        let Node { event, next, .. } = self.nodes[found.node as usize];
        if found.before == NIL {
            self.heads[found.bucket] = next;
            if next == NIL {
                let word = found.bucket / WORD_BITS;
                self.occupied[word] &= !(1 << (found.bucket % WORD_BITS));
                if self.occupied[word] == 0 {
                    self.summary[word / WORD_BITS] &= !(1 << (word % WORD_BITS));
                }
            }
        } else {
            self.nodes[found.before as usize].next = next;
        }
        self.nodes[found.node as usize].next = self.free;
        self.free = found.node;
        self.in_wheel -= 1;
        event
    }

    /// The earliest event in the wheel; among equals the one inserted first, which is the last in its bucket's list.
    #[inline]
    fn earliest(&self) -> Option<Found> {
        let bucket = self.first_occupied()?;
        let mut node = self.heads[bucket];
        let mut best = Found { at: self.nodes[node as usize].at, bucket, node, before: NIL };
        loop {
            let before = node;
            node = self.nodes[node as usize].next;
            if node == NIL {
                return Some(best);
            }
            let at = self.nodes[node as usize].at;
            if at <= best.at {
                best = Found { at, bucket, node, before };
            }
        }
    }

    /// The first occupied bucket at or after the current one, going round.
    #[inline]
    fn first_occupied(&self) -> Option<usize> {
        if self.in_wheel == 0 {
            return None;
        }
        let start = self.current as usize % BUCKETS;
        let word = start / WORD_BITS;
        let ahead = self.occupied[word] & (!0 << (start % WORD_BITS));
        if ahead != 0 {
            return Some(word * WORD_BITS + ahead.trailing_zeros() as usize);
        }
        let after = (word + 1) % WORDS;
        let mut summary = after / WORD_BITS;
        let mut mask = !0 << (after % WORD_BITS);
        // One look more than there are summary words: the first word is seen again for its part before `after`.
        for _ in 0..=SUMMARY_WORDS {
            let words = self.summary[summary] & mask;
            if words != 0 {
                let word = summary * WORD_BITS + words.trailing_zeros() as usize;
                return Some(word * WORD_BITS + self.occupied[word].trailing_zeros() as usize);
            }
            summary = (summary + 1) % SUMMARY_WORDS;
            mask = !0;
        }
        unreachable!("{} events are in the wheel but no bucket is occupied", self.in_wheel)
    }
}

#[inline]
fn bucket_of(at: Instant) -> u64 {
    at.0 >> BUCKET_SHIFT
}
