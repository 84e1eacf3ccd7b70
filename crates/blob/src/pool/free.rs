//! The free micro blobs of one SSD, by mega blob.
//!
//! Micro blobs are taken from the mega blob with the fewest free ones. So data that is written and removed all the time
//! leaves whole mega blobs free, which can be given back, and not a few micro blobs in each.
//!
//! Holds: `the_mega_blob_with_the_fewest_goes_first`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub(super) struct Free {
    mega_micros: u64,
    /// By index of the mega blob; no list is empty. Micro blobs are reused in the order in which they were freed.
    megas: BTreeMap<u64, VecDeque<u64>>,
    /// The number of free micro blobs and the index, for each mega blob.
    fewest: BTreeSet<(usize, u64)>,
    count: usize,
}

impl Free {
    pub(super) fn new(mega_micros: u64) -> Free {
        Free { mega_micros, megas: BTreeMap::new(), fewest: BTreeSet::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn push(&mut self, micro: u64) {
        let index = micro / self.mega_micros;
        let line = self.megas.entry(index).or_default();
        self.fewest.remove(&(line.len(), index));
        line.push_back(micro);
        self.fewest.insert((line.len(), index));
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<u64> {
        let (length, index) = self.fewest.pop_first()?;
        let line = self.megas.get_mut(&index).expect("it is counted");
        let micro = line.pop_front().expect("none is empty");
        match length {
            1 => drop(self.megas.remove(&index)),
            _ => drop(self.fewest.insert((length - 1, index))),
        }
        self.count -= 1;
        Some(micro)
    }

    /// Number of mega blobs that are wholly free.
    pub(super) fn whole(&self) -> usize {
        self.fewest.range((self.mega_micros as usize, 0)..).count()
    }

    /// Takes out the mega blobs that are wholly free, all but the first `keep` of them. Returns their indexes.
    pub(super) fn take_whole(&mut self, keep: usize) -> Vec<u64> {
        let all = self.mega_micros as usize;
        let whole: Vec<u64> = self.fewest.range((all, 0)..).map(|&(_, index)| index).skip(keep).collect();
        for &index in &whole {
            self.fewest.remove(&(all, index));
            self.megas.remove(&index);
            self.count -= all;
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mega_blob_with_the_fewest_goes_first() {
        let mut free = Free::new(4);
        // All of mega blob 0, one of 1, two of 2.
        [0, 1, 2, 3, 5, 10, 8].into_iter().for_each(|micro| free.push(micro));
        assert_eq!((free.len(), free.is_empty()), (7, false));
        let order: Vec<u64> = std::iter::from_fn(|| free.pop()).collect();
        assert_eq!(order, [5, 10, 8, 0, 1, 2, 3]);
        assert!(free.is_empty() && free.take_whole(0).is_empty());
    }

    #[test]
    fn only_what_is_wholly_free_is_taken_out() {
        let mut free = Free::new(2);
        [0, 1, 3, 4, 5, 6, 7].into_iter().for_each(|micro| free.push(micro));
        assert_eq!((free.whole(), free.take_whole(1)), (3, vec![2, 3]), "the first is kept");
        assert_eq!(free.len(), 3);
        free.push(2);
        assert_eq!(free.take_whole(0), [0, 1]);
        assert!(free.is_empty() && free.pop().is_none());
    }
}
