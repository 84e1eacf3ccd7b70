//! The part of the mapping that the controller has in its memory.
//!
//! A page of the mapping describes neighbouring slots. A read whose page is not in memory senses it from flash first, and the page
//! takes the place of one that was not used since the clock last passed it (second chance). Reads that come while it is sensed
//! find it there already, so the model is a little too fast for them. Writes and collection use the mapping in memory: what they
//! change is kept and written out with other work.

use crate::geometry::SLOT_BYTES;
use crate::profile::MappingProfile;
use units::Bytes;

const NOT_THERE: u32 = u32::MAX;

/// Pages of the mapping in memory.
pub(crate) struct MappingCache {
    slots_per_page: u32,
    /// Place in memory of each page.
    places: Vec<u32>,
    /// The page at each place, and whether it was used since the clock passed.
    held: Vec<(u32, bool)>,
    most: usize,
    hand: usize,
}

impl MappingCache {
    /// Nothing in memory yet. `None` if all of the mapping fits.
    pub(crate) fn new(profile: &MappingProfile, capacity: Bytes) -> Option<MappingCache> {
        let pages = capacity.0.div_ceil(profile.page.0) as usize;
        let most = (profile.cached.0 / profile.page.0).max(1) as usize;
        (most < pages).then(|| MappingCache {
            slots_per_page: (profile.page.0 / SLOT_BYTES) as u32,
            places: vec![NOT_THERE; pages],
            held: Vec::with_capacity(most),
            most,
            hand: 0,
        })
    }

    /// The page to sense before this slot can be read; `None` if it is in memory. From now on it is.
    pub(crate) fn missing(&mut self, slot: u32) -> Option<u32> {
        let page = slot / self.slots_per_page;
        let place = self.places[page as usize];
        if place != NOT_THERE {
            self.held[place as usize].1 = true;
            return None;
        }
        if self.held.len() < self.most {
            self.places[page as usize] = self.held.len() as u32;
            self.held.push((page, true));
            return Some(page);
        }
        // Ends: each place that was used is passed once.
        while core::mem::take(&mut self.held[self.hand].1) {
            self.hand = (self.hand + 1) % self.most;
        }
        let (old, _) = core::mem::replace(&mut self.held[self.hand], (page, true));
        self.places[old as usize] = NOT_THERE;
        self.places[page as usize] = self.hand as u32;
        self.hand = (self.hand + 1) % self.most;
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::MIB;

    fn cache(cached: u64) -> Option<MappingCache> {
        let profile = MappingProfile { cached: Bytes(cached * MIB), page: Bytes(MIB) };
        MappingCache::new(&profile, Bytes(8 * MIB))
    }

    #[test]
    fn a_page_is_missing_once_and_again_when_others_took_its_place() {
        let mut cache = cache(2).expect("two of eight pages");
        let slots = |page: u32| page * 256 + 3;
        let missing = [0, 0, 1, 0, 2, 1, 0].map(|page| cache.missing(slots(page)).is_some());
        // The third page finds both used, and takes the place of the first.
        assert_eq!(missing, [true, false, true, false, true, false, true]);
    }

    #[test]
    fn as_many_pages_are_in_memory_as_fit() {
        let mut cache = cache(5).expect("five of eight pages");
        for round in 0..100_u32 {
            cache.missing(round * 7919 % 2048);
            let there = (0..8).filter(|page| cache.places[*page] != NOT_THERE).count();
            assert!(there <= 5 && there == cache.held.len(), "{there} pages");
        }
    }

    #[test]
    fn there_is_no_cache_where_all_of_the_mapping_fits() {
        assert!(cache(8).is_none());
    }
}
