//! Kinds of work: how much of it is read, and how large its IOs are.
//!
//! The kind belongs to the tenant, not to the IO. Kinds are coarse (reads' part in four steps, the mean size in powers
//! of two), so prices learnt from one tenant hold for the next.

use super::learnt::{LearntPrice, ReadsPart};
use crate::IoKind;
use units::Bytes;

/// A kind of work: how much of it is read, and how large its IOs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind(u8);

/// Steps of the size: up to 4 KiB, 8, … 512 KiB and more.
pub(super) const SIZES: usize = 8;
/// Steps of the reads' part: all, most, less than half, none.
const WAYS: usize = 4;
const SIZE_MIN: u64 = 4096;
/// The size from which on an SSD reads or writes as many bytes per second in IOs of any size, if there are enough of
/// them.
const LARGE: Bytes = Bytes::kib(64);

impl Kind {
    pub(super) const COUNT: usize = SIZES * WAYS;
    #[cfg(test)]
    pub(super) const SMALL_READS: Kind = Kind(0);

    /// The kind of `ios` IOs of `bytes` in all, of which `reads` are reads.
    pub(super) fn of(ios: u32, reads: u32, bytes: u64) -> Kind {
        let way = match (reads * 16, ios * 15, ios * 8, ios) {
            (reads, all, _, _) if reads >= all => 0,
            (reads, _, half, _) if reads >= half => 1,
            (reads, _, _, none) if reads > none => 2,
            _ => 3,
        };
        // Rounded: a mean between two steps belongs to the nearer one.
        let mean = bytes / u64::from(ios.max(1)) * 4 / 3;
        let size = (mean / SIZE_MIN).max(1).ilog2().min(SIZES as u32 - 1);
        Kind((way * SIZES as u32 + size) as u8)
    }

    /// The kind of these IOs, or this one if they are near it: a tenant between two kinds does not change its kind all the time.
    pub(super) fn or(self, ios: u32, reads: u32, bytes: u64) -> Kind {
        let (part, rest) = (ios / 16, bytes / 8);
        let near = |reads, bytes| Kind::of(ios, reads, bytes) == self;
        let is_near = [reads.saturating_sub(part), reads, ios.min(reads + part)]
            .into_iter()
            .any(|reads| [bytes - rest, bytes, bytes + rest].into_iter().any(|bytes| near(reads, bytes)));
        if is_near { self } else { Kind::of(ios, reads, bytes) }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn all() -> impl Iterator<Item = Kind> {
        (0..Kind::COUNT as u8).map(Kind)
    }

    /// Whether any of it is written.
    pub(super) fn writes(self) -> bool {
        self.way() > 0
    }

    pub(super) fn way(self) -> usize {
        self.index() / SIZES
    }

    pub(super) fn size(self) -> usize {
        self.index() % SIZES
    }

    /// The kind that a price is of, or the nearest there is.
    pub(super) fn of_learnt(price: &LearntPrice) -> Kind {
        let way = ReadsPart::ALL.iter().position(|part| *part == price.reads).expect("all four are there");
        let size = (price.size.0 / SIZE_MIN).max(1).ilog2().min(SIZES as u32 - 1);
        Kind((way * SIZES) as u8 + size as u8)
    }

    /// The middle of its step of the reads' part, in quarters.
    pub(super) fn reads(self) -> u64 {
        [4, 3, 1, 0][self.way()]
    }

    /// Whether nothing of it is read.
    pub(super) fn is_written(self) -> bool {
        self.way() == WAYS - 1
    }

    /// Whether it reads and writes, and writes more than it reads.
    pub(super) fn writes_most(self) -> bool {
        self.way() == WAYS - 2
    }

    pub(super) fn is_mixed(self) -> bool {
        (1..WAYS - 1).contains(&self.way())
    }

    /// Whether its IOs are so large that bytes, not IOs, keep the SSD busy.
    pub(super) fn is_large(self) -> bool {
        self.length() >= LARGE
    }

    /// The size of its IOs.
    pub(super) fn length(self) -> Bytes {
        Bytes(SIZE_MIN << self.size())
    }

    /// Guess for an IO of its size, in 64ths of a nanosecond.
    pub(super) fn guess(self) -> u64 {
        let (length, reads) = (self.length(), self.reads());
        (reads * guess(IoKind::Read, length) + (4 - reads) * guess(IoKind::Write, length)) * 16
    }

    /// Guess for 1024 bytes of it, in 64ths of a nanosecond.
    pub(super) fn guess_of_kib(self) -> u64 {
        self.guess() * 1024 / self.length().0
    }
}

/// The device time of an IO on an unknown SSD, ns.
#[inline]
pub(super) fn guess(kind: IoKind, length: Bytes) -> u64 {
    // A length beyond any command is charged as the longest.
    let length = length.0.min(1 << 32);
    if kind.pays_as_write() { 4_000 + length } else { 2_000 + length * 3 / 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_by_the_part_that_is_read_and_the_mean_size() {
        let kind = |ios, reads, kib: u64| Kind::of(ios, reads, (u64::from(ios) * kib) << 10);
        assert_eq!(kind(64, 64, 4), Kind::SMALL_READS);
        assert_eq!(kind(64, 61, 4), Kind::SMALL_READS, "a few writes do not count");
        assert_ne!(kind(64, 45, 4), Kind::SMALL_READS);
        assert_ne!(kind(64, 45, 4), kind(64, 19, 4));
        assert_eq!((kind(64, 0, 128).way(), kind(64, 0, 128).size()), (3, 5));
        assert_eq!(kind(1, 1, 1 << 20).size(), SIZES - 1);
        assert_eq!(kind(64, 64, 100), kind(64, 64, 128), "the nearer step");
    }

    #[test]
    fn a_tenant_between_two_kinds_keeps_its_kind() {
        let bytes = 256 * 4096;
        let mostly_reads = Kind::of(256, 140, bytes);
        assert_ne!(Kind::of(256, 120, bytes), mostly_reads);
        assert_eq!(mostly_reads.or(256, 120, bytes), mostly_reads);
        assert_ne!(mostly_reads.or(256, 90, bytes), mostly_reads);
        assert_ne!(mostly_reads.or(256, 140, bytes * 2), mostly_reads);
    }
}
