//! The data that a probe writes: bytes that cannot be compressed, no block twice, and a mark by which a later probe
//! recognizes them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::time::{SystemTime, UNIX_EPOCH};

/// The first bytes of every write, and so of the device.
const MARK: &[u8; 16] = b"gimbal ssdtest\r\n";
/// Each block of this size gets its own number, so that a device which stores equal blocks only once finds none.
const BLOCK: usize = 4096;

/// Fills buffers with new contents.
pub(super) struct Contents {
    random: Xoshiro256PlusPlus,
    number: u64,
}

impl Contents {
    /// With a seed that differs from that of other probes.
    pub(super) fn new() -> Contents {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = since.as_nanos() as u64 ^ u64::from(std::process::id());
        Contents { random: Xoshiro256PlusPlus::seed_from_u64(seed), number: 0 }
    }

    /// Makes the contents of the buffer different from all before. A buffer that was filled before keeps most of its
    /// bytes, because that is faster.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
        if !is_ours(buffer) {
            self.random.fill_bytes(buffer);
        }
        for block in buffer.chunks_exact_mut(BLOCK) {
            self.number += 1;
            block[MARK.len()..MARK.len() + 8]
                .copy_from_slice(&(self.number ^ self.random.next_u64()).to_le_bytes());
        }
        buffer[..MARK.len()].copy_from_slice(MARK);
    }
}

/// Whether a probe wrote these bytes, which are the first of a device or of a buffer.
pub(super) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_block_is_written_twice_and_none_is_compressible() {
        let mut contents = Contents::new();
        let mut buffer = vec![0; 4 * BLOCK];
        let mut seen = HashSet::new();
        for _ in 0..8 {
            contents.fill(&mut buffer);
            assert!(is_ours(&buffer));
            for block in buffer.chunks(BLOCK) {
                assert!(seen.insert(block.to_vec()), "a block came twice");
                let zeros = block.iter().filter(|byte| **byte == 0).count();
                assert!(zeros < BLOCK / 64, "{zeros} zeros in a block");
            }
        }
        assert!(!is_ours(&[0; BLOCK]));
    }
}
