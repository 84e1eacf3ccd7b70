//! Memory for the records of one thread's connections.
//!
//! A connection has some only while it makes or sends records. So an idle connection holds none, however many there are, and a thread that
//! sends batch after batch neither allocates nor touches new pages: with memory of each connection's own, a read of 128 KiB took 30 page
//! faults.
//!
//! Holds: at most [`KEPT`] vectors of at most [`CAPACITY_MAX`] bytes are kept (`few_vectors_are_kept_and_no_large_ones`).

/// Vectors that are kept.
const KEPT: usize = 8;
/// Capacity of a vector that is kept, in bytes. A batch of either end has up to 256 KiB and one payload, and a vector that grows may double:
/// with 512 KiB here, batches of payloads of 128 KiB were a few bytes too large, and none was kept.
const CAPACITY_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default)]
pub struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// An empty vector, with memory if there is some to spare.
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Takes a vector back that is not needed any more.
    pub fn give(&mut self, mut vector: Vec<u8>) {
        if self.0.len() < KEPT && (1..=CAPACITY_MAX).contains(&vector.capacity()) {
            vector.clear();
            self.0.push(vector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_a_bulk_batch_is_kept() {
        let mut vector = Vec::new();
        while vector.len() < 256 << 10 {
            // 128 KiB in records of 16 KiB.
            (0..8).for_each(|_| vector.extend_from_slice(&[0; crate::RECORD + 22]));
        }
        let place = vector.as_ptr();
        let mut spares = Spares::default();
        spares.give(vector);
        let kept = spares.take();
        assert_eq!(kept.as_ptr(), place);
    }

    #[test]
    fn few_vectors_are_kept_and_no_large_ones() {
        let mut spares = Spares::default();
        spares.give(Vec::with_capacity(CAPACITY_MAX + 1));
        spares.give(Vec::new());
        assert_eq!(spares.take().capacity(), 0);
        for _ in 0..=KEPT {
            spares.give(vec![1; 100]);
        }
        let taken: Vec<Vec<u8>> = (0..=KEPT).map(|_| spares.take()).collect();
        assert!(taken.iter().all(Vec::is_empty));
        assert_eq!(taken.iter().filter(|vector| vector.capacity() >= 100).count(), KEPT);
    }
}
