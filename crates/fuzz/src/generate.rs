//! Inputs from seeds: the same seed and corpus give the same input on every machine.
//!
//! Half of the inputs are random bytes, the others are mutations of corpus files. Coverage plays no part:
//! this is the generator of the short run, and the corpus comes from the long run.

use std::ops::Range;

/// SplitMix64 (public domain algorithm by S. Vigna).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A range within `length` bytes.
    fn part(&mut self, length: usize) -> Range<usize> {
        let from = self.below(length);
        from..from + self.below((length - from).min(64) + 1)
    }
}

/// The input of a seed, at most `length_max` bytes long.
pub fn input(seed: u64, corpus: &[Vec<u8>], length_max: usize) -> Vec<u8> {
    let mut dice = Dice(seed);
    if corpus.is_empty() || dice.below(2) == 0 {
        let length = dice.below(length_max + 1);
        return dice.bytes(length);
    }
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(6) {
        mutate(&mut bytes, &mut dice, corpus);
    }
    bytes.truncate(length_max);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice, corpus: &[Vec<u8>]) {
    let at = dice.below(bytes.len() + 1);
    match dice.below(7) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = dice.next() as u8;
            }
        }
        2 => {
            let part = dice.part(bytes.len());
            bytes.drain(part);
        }
        3 => {
            let count = dice.below(9);
            let noise = dice.bytes(count);
            bytes.splice(at..at, noise);
        }
        4 => {
            let part = dice.part(bytes.len());
            let copy = bytes[part].to_vec();
            bytes.splice(at..at, copy);
        }
        5 => {
            let other = &corpus[dice.below(corpus.len())];
            let part = dice.part(other.len());
            bytes.splice(at..at, other[part].iter().copied());
        }
        _ => {
            let other = &corpus[dice.below(corpus.len())];
            bytes.truncate(at);
            let from = dice.below(other.len() + 1);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_input() {
        let corpus = [vec![1; 100], vec![2; 7], Vec::new()];
        for seed in 0..500 {
            let once = input(seed, &corpus, 256);
            assert_eq!(once, input(seed, &corpus, 256));
            assert!(once.len() <= 256);
        }
    }
}
