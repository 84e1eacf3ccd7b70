//! Extra reads of a scheduler: it names the tenant and the length, and the driver of the SSD finds the place.
//!
//! A scheduler knows the length of its tenants' reads and not their place; the driver knows the place. So the place of
//! a read like a tenant's is decided here, once for every driver: the product's switch, the simulator and the rack's
//! model.
//!
//! ```text
//!   the tenant's last read            ├────┤
//!   the extra read       ├──┤ ├──┤ … ├──┤      ends where that one ended, or whole lengths before, up to 128 MiB
//! ```
//!
//! A tenant may read several sizes, and its latest read may be of another kind of work than the one that the scheduler measures. So the length is the
//! scheduler's, and only the place is the last read's.
//!
//! Holds: an extra read lies between the start of the device and the end of its tenant's last read, whole lengths
//!        before that end, for any lengths of both
//!        (`an_extra_read_ends_where_the_last_read_did_or_whole_lengths_before`); each ends once, with the note made at
//!        its begin (`an_extra_read_ends_once`).

use alloc::vec::Vec;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use units::{Bytes, TenantId};

/// Set in the tags of extra reads, and of no tenant's IO.
const EXTRA: u64 = 1 << 62;
/// Span over which they are spread: over all dies of an SSD, and hardly beyond the data that the tenant has written.
const NEAR: Bytes = Bytes(128 << 20);

/// A scheduler's extra read, near the last read of a tenant. It belongs to no tenant: it is in no backlog, and is never
/// withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraRead {
    /// The tenant near whose last read it goes. The scheduler has given out a read of this tenant.
    pub tenant: TenantId,
    /// As long as a read of that tenant.
    pub length: Bytes,
}

/// Extra reads of one SSD. `T` is the driver's note of each that is under way.
#[derive(Clone, Debug)]
pub struct ExtraReads<T> {
    /// Where each tenant's last read ended; zero if it has read nothing.
    ends: Vec<u64>,
    /// Reads under way, by tag.
    under_way: Vec<Option<(ExtraRead, T)>>,
    free: Vec<usize>,
    random: Xoshiro256PlusPlus,
}

impl<T> ExtraReads<T> {
    /// None yet. Where they go follows from the seed.
    pub fn new(seed: u64) -> ExtraReads<T> {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ EXTRA);
        ExtraReads { ends: Vec::new(), under_way: Vec::new(), free: Vec::new(), random }
    }

    /// A read of a tenant that the scheduler has given out ends at this byte of the device.
    #[inline]
    pub fn on_read(&mut self, tenant: TenantId, end: u64) {
        match self.ends.get_mut(tenant.index()) {
            Some(last) => *last = end,
            None => self.on_first_read(tenant, end),
        }
    }

    #[cold]
    fn on_first_read(&mut self, tenant: TenantId, end: u64) {
        self.ends.resize(tenant.index() + 1, 0);
        self.ends[tenant.index()] = end;
    }

    /// Where it begins; `None` if it cannot be done, because its length does not fit before the end of the tenant's last read.
    pub fn place(&mut self, read: ExtraRead) -> Option<u64> {
        let end = self.ends.get(read.tenant.index()).copied().unwrap_or(0);
        let last = end.checked_sub(read.length.0)?;
        let places = NEAR.0.min(last) / read.length.0.max(1) + 1;
        Some(last - self.random.next_u64() % places * read.length.0)
    }

    /// Begins the read. Returns the tag under which it goes to the SSD.
    pub fn begin(&mut self, read: ExtraRead, note: T) -> u64 {
        let index = self.free.pop().unwrap_or(self.under_way.len());
        if index == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[index] = Some((read, note));
        EXTRA | index as u64
    }

    /// Whether this is the tag of an extra read.
    #[inline]
    pub fn has(tag: u64) -> bool {
        tag & EXTRA != 0
    }

    /// Ends the read with this tag. Returns it and its note.
    ///
    /// # Panics
    /// If it has ended, or never begun.
    pub fn end(&mut self, tag: u64) -> (ExtraRead, T) {
        let index = (tag & !EXTRA) as usize;
        let ended = self.under_way[index].take().expect("the SSD finishes once what it was given");
        self.free.push(index);
        ended
    }

    /// The note of a read that is under way.
    ///
    /// # Panics
    /// If it has ended, or never begun.
    pub fn note(&self, tag: u64) -> &T {
        let (_, note) = self.under_way[(tag & !EXTRA) as usize].as_ref().expect("it is under way");
        note
    }

    /// Number of extra reads on the SSD.
    pub fn in_flight(&self) -> usize {
        self.under_way.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TENANT: TenantId = TenantId(3);

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn an_extra_read_ends_where_the_last_read_did_or_whole_lengths_before(
            end in 0..1u64 << 40,
            length in 1..1u64 << 24,
            seed in any::<u64>(),
        ) {
            let mut reads = ExtraReads::<()>::new(seed);
            let read = ExtraRead { tenant: TENANT, length: Bytes(length) };
            prop_assert_eq!(reads.place(read), None, "it has read nothing");
            reads.on_read(TENANT, end);
            for _ in 0..20 {
                let Some(place) = reads.place(read) else {
                    prop_assert!(end < length);
                    break;
                };
                let before = end - (place + length);
                prop_assert!(before <= NEAR.0 && before.is_multiple_of(length), "{} of {}", place, end);
            }
        }
    }

    #[test]
    fn an_extra_read_ends_once() {
        let mut reads = ExtraReads::new(1);
        let read = |length| ExtraRead { tenant: TENANT, length: Bytes(length) };
        let tags = [4096, 8192].map(|length| reads.begin(read(length), length));
        assert!(tags.iter().all(|tag| ExtraReads::<u64>::has(*tag)) && !ExtraReads::<u64>::has(7));
        assert_eq!((reads.in_flight(), reads.end(tags[1])), (2, (read(8192), 8192)));
        assert_eq!(reads.begin(read(1), 1), tags[1], "a tag is used again when it is free");
        assert_eq!((reads.end(tags[0]), reads.in_flight()), ((read(4096), 4096), 1));
    }
}
