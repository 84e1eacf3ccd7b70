//! An order of the places of a region in which each comes once, without a table of those that came before.
//!
//! A bijection on the numbers of a power of two mixes their bits; a result beyond the last place is mixed again until it is one (each
//! number has one predecessor, so no place comes twice). So the order of 4 billion places takes as much memory as that of ten.
//!
//! Holds: every place comes once per pass (`every_place_comes_once_per_pass`).

use rand::Rng;

/// Rounds of mixing: enough that neighbouring numbers end far apart.
const ROUNDS: usize = 3;

/// The places of a region in an order of their own for each pass.
#[derive(Debug)]
pub(crate) struct Permutation {
    places: u64,
    /// Bits of the power of two that the places lie in.
    bits: u32,
    /// The next number.
    next: u64,
    /// Odd factors and summands of the rounds.
    keys: [(u64, u64); ROUNDS],
}

impl Permutation {
    /// The order of a first pass through `places` places.
    pub(crate) fn new(places: u64, random: &mut impl Rng) -> Permutation {
        assert!(places > 0, "a region has a place");
        let bits = u64::BITS - (places - 1).leading_zeros();
        Permutation { places, bits, next: 0, keys: keys(random) }
    }

    /// The next place. After the last one begins a pass in another order.
    pub(crate) fn next(&mut self, random: &mut impl Rng) -> u64 {
        if self.next == self.places {
            (self.next, self.keys) = (0, keys(random));
        }
        let mut place = self.mix(self.next);
        while place >= self.places {
            place = self.mix(place);
        }
        self.next += 1;
        place
    }

    fn mix(&self, number: u64) -> u64 {
        if self.bits == 0 {
            return 0;
        }
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let shift = (self.bits / 2).max(1);
        self.keys.iter().fold(number, |number, (factor, summand)| {
            let mixed = number.wrapping_mul(*factor).wrapping_add(*summand) & mask;
            mixed ^ (mixed >> shift)
        })
    }
}

fn keys(random: &mut impl Rng) -> [(u64, u64); ROUNDS] {
    std::array::from_fn(|_| (random.random::<u64>() | 1, random.random()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn every_place_comes_once_per_pass() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        for places in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097, 70_000] {
            let mut order = Permutation::new(places, &mut random);
            let mut passes = Vec::new();
            for _ in 0..2 {
                let pass: Vec<u64> = (0..places).map(|_| order.next(&mut random)).collect();
                let mut sorted = pass.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..places), "{places}");
                passes.push(pass);
            }
            assert!(places < 63 || passes[0] != passes[1], "{places}: both passes have one order");
        }
    }

    #[test]
    fn the_places_are_spread_and_neighbours_are_rare() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
        // 16 TiB of 4 KiB blocks.
        let places = 1 << 32;
        let mut order = Permutation::new(places, &mut random);
        let picks: Vec<u64> = (0..100_000).map(|_| order.next(&mut random)).collect();
        let mut counts = [0u32; 16];
        picks.iter().for_each(|place| counts[(place / (places / 16)) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(6250) < 500), "{counts:?}");
        let near = picks.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < places / 1000).count();
        // Independent places would be as near as that twice in a thousand.
        assert!(near < 600, "{near} of 100000 lie beside the one before");
    }
}
