//! Which units of a region were done in this pass, so that a random job does each unit once.
//!
//! The first level has one bit per unit, the next one has one bit per full word of the first, and so on. So the next free unit is
//! found in one step per level (four levels for 16 million units). The map takes one bit per unit, from the system when it is first set. fio does the same (its
//! `axmap`): it draws a random number and takes the next free block from there.
//!
//! Holds: a pass does each unit exactly once (`a_pass_does_every_unit_once`).

use units::Bytes;

const BITS: u64 = u64::BITS as u64;

/// The units of a region.
#[derive(Debug)]
pub(crate) struct RandomMap {
    /// The first level has one bit per unit, set if the unit was done. Each other level has one bit per word of the level before,
    /// set if that word is full.
    levels: Vec<Vec<u64>>,
    units: u64,
    free: u64,
}

impl RandomMap {
    /// An empty map.
    pub(crate) fn new(units: u64) -> RandomMap {
        let mut levels = Vec::new();
        let mut bits = units;
        loop {
            let words = bits.div_ceil(BITS).max(1);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                break;
            }
            bits = words;
        }
        let mut map = RandomMap { levels, units, free: units };
        map.close_ends();
        map
    }

    /// The memory that the map of a region takes when all of it was done.
    pub(crate) fn memory(units: u64) -> Bytes {
        // The levels above the first are a 63rd of it.
        Bytes(units / 8 + units / 8 / 63 + 64)
    }

    /// Clears the map for the next pass.
    fn begin_pass(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
        self.close_ends();
        self.free = self.units;
    }

    /// Marks the units beyond the end.
    fn close_ends(&mut self) {
        let mut bits = self.units;
        for level in &mut self.levels {
            // Bits beyond the end are never free.
            if !bits.is_multiple_of(BITS) {
                *level.last_mut().expect("a level has a word") = u64::MAX << (bits % BITS);
            }
            bits = level.len() as u64;
        }
    }

    /// The first free unit at `from` or after it, and after the end from the start on. Begins a new pass if no unit is free.
    pub(crate) fn next_free(&mut self, from: u64) -> u64 {
        if self.free == 0 {
            self.begin_pass();
        }
        self.find(0, from).or_else(|| self.find(0, 0)).expect("a unit is free, as the count says")
    }

    /// Number of free units from `from` on, up to `most`.
    pub(crate) fn free_run(&self, from: u64, most: u64) -> u64 {
        let end = from.saturating_add(most).min(self.units);
        (from..end).take_while(|unit| !self.is_done(*unit)).count() as u64
    }

    /// A unit was done.
    pub(crate) fn set_done(&mut self, unit: u64) {
        if self.is_done(unit) {
            return;
        }
        self.free -= 1;
        let mut bit = unit;
        for level in &mut self.levels {
            let word = &mut level[(bit / BITS) as usize];
            *word |= 1 << (bit % BITS);
            if *word != u64::MAX {
                return;
            }
            bit /= BITS;
        }
    }

    fn is_done(&self, unit: u64) -> bool {
        self.levels[0][(unit / BITS) as usize] >> (unit % BITS) & 1 == 1
    }

    /// The first bit at `from` or after it that is not set.
    fn find(&self, level: usize, from: u64) -> Option<u64> {
        let words = self.levels.get(level)?;
        let word = from / BITS;
        let free = !words.get(word as usize)? & (u64::MAX << (from % BITS));
        if free != 0 {
            return Some(word * BITS + u64::from(free.trailing_zeros()));
        }
        let word = self.find(level + 1, word + 1)?;
        Some(word * BITS + u64::from(words[word as usize].trailing_ones()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_pass_does_every_unit_once() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for units in [1, 2, 63, 64, 65, 4095, 4096, 4097, 70_000] {
            let mut map = RandomMap::new(units);
            for _ in 0..2 {
                let mut seen = vec![false; units as usize];
                for _ in 0..units {
                    let unit = map.next_free(random.random_range(0..units));
                    assert!(!seen[unit as usize], "{unit} of {units} came twice");
                    seen[unit as usize] = true;
                    map.set_done(unit);
                }
                assert!(seen.iter().all(|seen| *seen));
            }
        }
    }

    #[test]
    fn it_finds_what_a_search_one_by_one_finds() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        for units in [100, 5000] {
            let (mut map, mut done) = (RandomMap::new(units), vec![false; units as usize]);
            for _ in 0..units - 1 {
                let from = random.random_range(0..units);
                let naive =
                    (from..units).chain(0..from).find(|unit| !done[*unit as usize]).expect("one is free");
                assert_eq!(map.next_free(from), naive);
                let run = (from..units.min(from + 8)).take_while(|unit| !done[*unit as usize]).count() as u64;
                assert_eq!(map.free_run(from, 8), run);
                map.set_done(naive);
                map.set_done(naive);
                done[naive as usize] = true;
            }
        }
    }
}
