//! Memory that is allocated where something was written: the contents of an emulated SSD.
//!
//! The first write into a chunk allocates it, a discard of the whole chunk frees it. A chunk that is not allocated reads as zeros.

use super::Quote;
use super::erase::BYTES_PER_TABLE_BYTE;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Bytes, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Bytes of a chunk: large enough that a terabyte needs a small table, small enough that a scattered write wastes little.
const CHUNK_SIZE: usize = 64 << 10;

/// Chunks that one quote looks at: a GiB of the device.
const LOOKED_AT_MAX: usize = 16 << 10;

/// One bit per chunk: whether it is allocated. Other threads can read it.
#[derive(Debug)]
pub(crate) struct ChunkMap(Box<[AtomicU64]>);

impl ChunkMap {
    /// For `size` bytes, none of them allocated.
    pub(super) fn new(size: u64) -> ChunkMap {
        let words = size.div_ceil(CHUNK_SIZE as u64).div_ceil(u64::BITS.into());
        ChunkMap((0..words).map(|_| AtomicU64::new(0)).collect())
    }

    fn set(&self, chunk: usize, has_memory: bool) {
        let bit = 1 << (chunk % u64::BITS as usize);
        let word = &self.0[chunk / u64::BITS as usize];
        match has_memory {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// The allocated bytes of a range.
    pub(super) fn allocated(&self, offset: u64, length: u64) -> u64 {
        let size = CHUNK_SIZE as u64;
        let (first, last) = (offset / size, offset.saturating_add(length).div_ceil(size));
        let mut bytes = 0;
        for (index, word) in (0..).zip(&self.0).take(last.div_ceil(64) as usize).skip(first as usize / 64) {
            let mut left = word.load(Ordering::Relaxed);
            while left != 0 {
                let begin = (index * 64 + u64::from(left.trailing_zeros())) * size;
                let end = (begin + size).min(offset.saturating_add(length));
                bytes += end.saturating_sub(begin.max(offset));
                left &= left - 1;
            }
        }
        bytes
    }
}

/// Bytes by offset. They are zero until written.
pub(crate) struct SparseMemory {
    map: Arc<ChunkMap>,
    chunks: Vec<Option<Box<[u8]>>>,
}

impl SparseMemory {
    /// `size` zero bytes. `map` has the same size and shows which chunks are allocated.
    pub(crate) fn new(size: u64, map: Arc<ChunkMap>) -> SparseMemory {
        let count =
            usize::try_from(size.div_ceil(CHUNK_SIZE as u64)).expect("the size fits the address space");
        SparseMemory { map, chunks: std::iter::repeat_with(|| None).take(count).collect() }
    }

    /// Reads `bytes` at `offset`.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) {
        for (chunk, within, part) in parts(offset, bytes.len()) {
            match &self.chunks[chunk] {
                Some(memory) => bytes[part].copy_from_slice(&memory[within]),
                None => bytes[part].fill(0),
            }
        }
    }

    /// Writes `bytes` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (chunk, within, part) in parts(offset, bytes.len()) {
            let memory = self.chunks[chunk].get_or_insert_with(|| {
                self.map.set(chunk, true);
                vec![0; CHUNK_SIZE].into()
            });
            memory[within].copy_from_slice(&bytes[part]);
        }
    }

    /// The cost of clearing at `offset`. A second of real time is `second` on the device's clock.
    ///
    /// Measured: freeing a chunk and allocating it again for the next write takes as long as writing it. A chunk that is not allocated
    /// costs a look at the table. The thread takes this time in real time, in which a slowed-down SSD writes less.
    pub(super) fn quote(&self, second: Nanos, offset: u64, length: u64, most: Bytes) -> Quote {
        let of_device = |written: usize| (written as u128 * u128::from(second.get()) / NANOS_PER_SEC) as u64;
        let whole = usize::try_from(length).expect("a range of the device fits the address space");
        let mut quote = Quote { length: 0, cost: Bytes::ZERO };
        for (chunk, within, _) in parts(offset, whole).take(LOOKED_AT_MAX) {
            let written = if self.chunks[chunk].is_some() { of_device(within.len()) } else { 0 };
            let cost = quote.cost + Bytes((within.len() as u64).div_ceil(BYTES_PER_TABLE_BYTE) + written);
            if quote.length > 0 && cost > most {
                break;
            }
            quote = Quote { length: quote.length + within.len() as u64, cost };
        }
        quote
    }

    /// Clears `length` bytes at `offset`.
    pub(crate) fn clear(&mut self, offset: u64, length: u64) {
        let length = usize::try_from(length).expect("a range of the device fits the address space");
        for (chunk, within, _) in parts(offset, length) {
            if within.len() == CHUNK_SIZE {
                if self.chunks[chunk].take().is_some() {
                    self.map.set(chunk, false);
                }
            } else if let Some(memory) = &mut self.chunks[chunk] {
                memory[within].fill(0);
            }
        }
    }
}

/// Splits a range at chunk boundaries: the chunk, the range in it, the range of the caller's bytes.
fn parts(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (usize, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % CHUNK_SIZE as u64) as usize;
        let count = (CHUNK_SIZE - within).min(length - done);
        let part = ((at / CHUNK_SIZE as u64) as usize, within..within + count, done..done + count);
        done += count;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(size: u64) -> SparseMemory {
        SparseMemory::new(size, Arc::new(ChunkMap::new(size)))
    }

    #[test]
    fn it_reads_back_like_plain_memory() {
        const SIZE: usize = 4 * CHUNK_SIZE;
        let mut plain = vec![0u8; SIZE];
        let mut sparse = sparse(SIZE as u64);
        let mut seed = 7u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for step in 0..2000 {
            let offset = random(SIZE);
            let length = random(2 * CHUNK_SIZE).min(SIZE - offset);
            let range = offset..offset + length;
            match random(3) {
                0 => {
                    plain[range].fill(0);
                    sparse.clear(offset as u64, length as u64);
                }
                1 => {
                    plain[range.clone()].fill(step as u8);
                    sparse.write(offset as u64, &plain[range]);
                }
                _ => {
                    let mut read = vec![0xee; length];
                    sparse.read(offset as u64, &mut read);
                    assert!(read == plain[range.clone()], "step {step}: {range:?} differs");
                }
            }
        }
    }

    #[test]
    fn what_was_written_costs_as_much_to_clear_as_to_write() {
        const CHUNK: u64 = CHUNK_SIZE as u64;
        let mut sparse = sparse(64 << 30);
        sparse.write(4 * CHUNK, &[1; 4 * CHUNK_SIZE]);
        let quote = |sparse: &SparseMemory, second: Nanos, offset: u64, length: u64| {
            let Quote { length, cost } = sparse.quote(second, offset, length, Bytes::kib(128));
            (length, cost.get())
        };
        let real = Nanos::secs(1);
        assert_eq!(quote(&sparse, real, 0, 4 * CHUNK), (4 * CHUNK, 1024), "nothing is allocated");
        assert_eq!(
            quote(&sparse, real, 0, 8 * CHUNK),
            (5 * CHUNK, CHUNK + 5 * 256),
            "a second chunk is too much"
        );
        assert_eq!(quote(&sparse, real, 5 * CHUNK + 4096, 8192), (8192, 8192 + 32), "a part of a chunk");
        // In that time the SSD writes a twentieth.
        assert_eq!(
            quote(&sparse, Nanos::millis(50), 4 * CHUNK, 4 * CHUNK),
            (4 * CHUNK, 4 * (CHUNK / 20 + 256))
        );
        // At a hundred times the speed one chunk exceeds the limit, but a quote is at least one chunk.
        assert_eq!(quote(&sparse, Nanos::secs(100), 4 * CHUNK, 2 * CHUNK), (CHUNK, 100 * CHUNK + 256));
        sparse.clear(0, 8 * CHUNK);
        assert_eq!(quote(&sparse, real, 0, 8 * CHUNK), (8 * CHUNK, 2048));
        let most = Bytes::gib(1);
        assert_eq!(sparse.quote(real, 0, 64 << 30, most).length, 1 << 30, "one quote looks at a GiB");
    }

    #[test]
    fn a_discarded_chunk_gives_its_memory_back() {
        let mut sparse = sparse(3 * CHUNK_SIZE as u64);
        sparse.write(0, &vec![1; 3 * CHUNK_SIZE]);
        sparse.clear(100, 2 * CHUNK_SIZE as u64);
        assert_eq!(sparse.chunks.iter().filter(|chunk| chunk.is_some()).count(), 2);
    }
    #[test]
    fn the_map_says_what_of_a_range_has_memory() {
        const CHUNK: u64 = CHUNK_SIZE as u64;
        let mut sparse = sparse(200 * CHUNK);
        let map = Arc::clone(&sparse.map);
        assert_eq!(map.allocated(0, 200 * CHUNK), 0);
        // Chunks 63 and 64, with bits in two words, and the last one.
        sparse.write(64 * CHUNK - 1, &[1; 2]);
        sparse.write(200 * CHUNK - 1, &[1]);
        let ranges = [(0, 200), (0, 64), (63, 2), (64, 1), (65, 135), (65, 134)];
        let counted = ranges.map(|(first, count)| map.allocated(first * CHUNK, count * CHUNK) / CHUNK);
        assert_eq!(counted, [3, 1, 2, 1, 1, 0]);
        assert_eq!(
            map.allocated(63 * CHUNK + 4096, CHUNK),
            CHUNK,
            "the part of both chunks that is in the range"
        );
        assert_eq!(map.allocated(64 * CHUNK + 4096, 8192), 8192);
        sparse.clear(63 * CHUNK, 2 * CHUNK);
        sparse.clear(199 * CHUNK, CHUNK - 1);
        assert_eq!(map.allocated(0, 200 * CHUNK), CHUNK, "a partly cleared chunk stays allocated");
    }
}
