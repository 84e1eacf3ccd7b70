//! A device whose writes reach its cache first: what a power failure leaves of them is drawn at random.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The unit that is written as a whole or not at all.
pub(crate) const SECTOR: usize = 512;

/// Bytes with a volatile cache.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) current: Vec<u8>,
    durable: Vec<u8>,
    /// Completed writes in the cache, the oldest first.
    cached: Vec<(usize, Vec<u8>)>,
}

impl Device {
    pub(crate) fn new(length: usize) -> Device {
        Device { current: vec![0; length], durable: vec![0; length], cached: Vec::new() }
    }

    /// A write completes.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8], durable: bool) {
        let at = at as usize;
        self.current[at..at + bytes.len()].copy_from_slice(bytes);
        if durable {
            // Not more than itself: what was cached for this place is older.
            self.durable[at..at + bytes.len()].copy_from_slice(bytes);
            for (other, cached) in &mut self.cached {
                for (n, byte) in bytes.iter().enumerate() {
                    if let Some(byte_of_other) = (at + n).checked_sub(*other).and_then(|n| cached.get_mut(n))
                    {
                        *byte_of_other = *byte;
                    }
                }
            }
        } else {
            self.cached.push((at, bytes.to_vec()));
        }
    }

    pub(crate) fn read(&self, at: u64, length: u64) -> &[u8] {
        &self.current[at as usize..(at + length) as usize]
    }

    /// Number of writes in the cache: a flush that begins now makes them durable.
    pub(crate) fn cached(&self) -> usize {
        self.cached.len()
    }

    /// Completes a flush that began with this many writes in the cache.
    pub(crate) fn flush(&mut self, cached: usize) {
        for (at, bytes) in self.cached.drain(..cached.min(self.cached.len())) {
            self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// The power fails while `under_way` are being written.
    pub(crate) fn fail_power(&mut self, under_way: &[(u64, Vec<u8>)], random: &mut Xoshiro256PlusPlus) {
        let under_way = under_way.iter().map(|(at, bytes)| (*at as usize, bytes.clone()));
        let keeps = random.random_range(0..=10);
        let mut left: Vec<(usize, Vec<u8>)> = self.cached.drain(..).chain(under_way).collect();
        // A cache writes back in any order, but never older data over newer: sectors are kept or lost one by one.
        for (at, bytes) in left.drain(..) {
            for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                if random.random_range(0..10) < keeps {
                    let at = at + n * SECTOR;
                    self.durable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.current.clone_from(&self.durable);
    }

    /// The program is killed while `under_way` are being written: what was completed stays.
    pub(crate) fn kill(&mut self, under_way: &[(u64, Vec<u8>)], random: &mut Xoshiro256PlusPlus) {
        for (at, bytes) in under_way {
            for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                if random.random_bool(0.5) {
                    let at = *at as usize + n * SECTOR;
                    self.current[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.durable.clone_from(&self.current);
        self.cached.clear();
    }
}
