//! A simulated SSD on which a power loss may lose or tear unflushed writes.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A simulated SSD, in blocks.
pub struct Disk {
    block: usize,
    current: BTreeMap<u64, Vec<u8>>,
    /// Earlier contents of each unflushed block, oldest version first; the first one is durable.
    unflushed: BTreeMap<u64, Vec<Vec<u8>>>,
    pub writes: u64,
    /// Those of the writes that were durable at once.
    pub durable: u64,
    pub flushes: u64,
}

impl Disk {
    pub fn new(block: usize) -> Disk {
        Disk {
            block,
            current: BTreeMap::new(),
            unflushed: BTreeMap::new(),
            writes: 0,
            durable: 0,
            flushes: 0,
        }
    }

    fn get(&self, block: u64) -> Vec<u8> {
        self.current.get(&block).cloned().unwrap_or_else(|| vec![0; self.block])
    }

    pub fn read(&self, at: u64, length: u32) -> Vec<u8> {
        let blocks = at / self.block as u64..(at + u64::from(length)) / self.block as u64;
        blocks.flat_map(|block| self.get(block)).collect()
    }

    /// A durable write replaces all versions that could come back.
    pub fn write(&mut self, at: u64, bytes: &[u8], durable: bool) {
        assert!((at as usize | bytes.len()).is_multiple_of(self.block), "a write of parts of blocks");
        self.writes += 1;
        self.durable += u64::from(durable);
        for (block, bytes) in (at / self.block as u64..).zip(bytes.chunks(self.block)) {
            let before = self.get(block);
            if durable {
                self.unflushed.remove(&block);
            } else {
                self.unflushed.entry(block).or_default().push(before);
            }
            self.current.insert(block, bytes.to_vec());
        }
    }

    pub fn flush(&mut self) {
        self.flushes += 1;
        self.unflushed.clear();
    }

    /// Trimmed blocks read as garbage.
    pub fn trim(&mut self, at: u64, length: u64) {
        for block in at / self.block as u64..(at + length) / self.block as u64 {
            if self.current.contains_key(&block) {
                let before = self.get(block);
                self.unflushed.entry(block).or_default().push(before);
                self.current.insert(block, vec![0xa5; self.block]);
            }
        }
    }

    /// Each unflushed block becomes one of its versions since the last flush, or half of one and half of another.
    pub fn lose_power(&mut self, random: &mut Xoshiro256PlusPlus) {
        for (block, mut versions) in std::mem::take(&mut self.unflushed) {
            versions.push(self.get(block));
            let mut kept = versions[random.random_range(0..versions.len())].clone();
            if random.random_ratio(1, 8) {
                let other = &versions[random.random_range(0..versions.len())];
                let cut = random.random_range(0..self.block);
                kept[cut..].copy_from_slice(&other[cut..]);
            }
            self.current.insert(block, kept);
        }
    }

    /// Flips one bit of a block, if the block was ever written.
    pub fn corrupt(&mut self, block: u64, bit: usize) -> bool {
        let Some(bytes) = self.current.get_mut(&block) else { return false };
        bytes[bit / 8 % self.block] ^= 1 << (bit % 8);
        true
    }

    pub fn blocks(&self) -> Vec<u64> {
        self.current.keys().copied().collect()
    }
}
