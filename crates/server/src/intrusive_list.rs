//! Intrusive lists of slab keys: a key in the middle is removed in constant time.
//!
//! An IO is in several lists at the same time: those of its connection, of the device, of IOs that wait for memory. When its host
//! disconnects, it leaves all of them, from any position. So the links of a list are in a table with one entry for each slot of the
//! [`Slab`](crate::slab::Slab) of the keys.
//!
//! [`Links`] is the table of lists of which a key is in at most one. [`List`] is one of these lists.
//!
//! Holds: lists keep their order whatever is removed (`lists_keep_their_order_whatever_is_removed`);
//!        no operation looks at more than four keys (`a_withdrawal_costs_no_more_the_more_ios_there_are`).

use crate::slab::Key;

/// No slot.
const NONE: u32 = u32::MAX;

/// In `previous` of a slot that is in no list.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Entry {
    /// The key's.
    generation: u32,
    previous: u32,
    next: u32,
}

/// The links of lists of which a key is in at most one.
#[derive(Default)]
pub(crate) struct Links {
    entries: Vec<Entry>,
}

/// One list of a [`Links`].
#[derive(Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE }
    }
}

impl List {
    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Links {
    /// Adds `key` at the end of `list`.
    ///
    /// # Panics
    /// If the key is in a list of this table already.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, key: Key) {
        let slot = key.index();
        if self.entries.len() <= slot {
            self.grow(slot);
        }
        let entry = self.entry(slot as u32);
        assert!(entry.previous == OUT, "{key:?} is added to a list twice");
        *entry = Entry { generation: key.generation(), previous: list.last, next: NONE };
        match list.last {
            NONE => list.first = slot as u32,
            last => self.entry(last).next = slot as u32,
        }
        list.last = slot as u32;
    }

    /// Removes `key` from `list`. Returns false if it is in no list of this table.
    pub(crate) fn remove(&mut self, list: &mut List, key: Key) -> bool {
        let found = self.entries.get_mut(key.index());
        let Some(entry) = found.filter(|entry| entry.previous != OUT && entry.generation == key.generation())
        else {
            return false;
        };
        #[cfg(test)]
        crate::slab::steps::count(1);
        let (previous, next) = (entry.previous, entry.next);
        entry.previous = OUT;
        match previous {
            NONE => list.first = next,
            previous => self.entry(previous).next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.entry(next).previous = previous,
        }
        true
    }

    /// The first of `list`.
    pub(crate) fn first(&self, list: &List) -> Option<Key> {
        self.key(list.first)
    }

    /// The last of `list`.
    pub(crate) fn last(&self, list: &List) -> Option<Key> {
        self.key(list.last)
    }

    /// The key after `key` in its list.
    pub(crate) fn after(&self, key: Key) -> Option<Key> {
        self.key(self.entries[key.index()].next)
    }

    /// The key before `key` in its list.
    pub(crate) fn before(&self, key: Key) -> Option<Key> {
        self.key(self.entries[key.index()].previous)
    }

    /// All keys of `list`, in order.
    pub(crate) fn iter(&self, list: &List) -> impl Iterator<Item = Key> {
        std::iter::successors(self.first(list), |&key| self.after(key))
    }

    /// The key at `slot`, which is in a list.
    fn key(&self, slot: u32) -> Option<Key> {
        #[cfg(test)]
        crate::slab::steps::count(1);
        (slot != NONE).then(|| Key::new(slot, self.entries[slot as usize].generation))
    }

    #[cold]
    fn grow(&mut self, slot: usize) {
        self.entries.resize(slot + 1, Entry { generation: 0, previous: OUT, next: NONE });
    }

    fn entry(&mut self, slot: u32) -> &mut Entry {
        #[cfg(test)]
        crate::slab::steps::count(1);
        &mut self.entries[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn lists_keep_their_order_whatever_is_removed(
            ops in prop::collection::vec((0..3usize, any::<prop::sample::Index>(), any::<bool>()), 0..150),
        ) {
            let (mut slab, mut links) = (Slab::new(), Links::default());
            let mut lists = [List::default(), List::default(), List::default()];
            let mut naive: [Vec<Key>; 3] = Default::default();
            for (list, index, takes) in ops {
                if takes && !naive[list].is_empty() {
                    let key = naive[list].remove(index.index(naive[list].len()));
                    prop_assert!(links.remove(&mut lists[list], key));
                    prop_assert!(!links.remove(&mut lists[list], key), "it was removed already");
                    slab.remove(key);
                } else {
                    let key = slab.insert(());
                    links.push(&mut lists[list], key);
                    naive[list].push(key);
                }
                for (list, naive) in lists.iter().zip(&naive) {
                    prop_assert_eq!(&links.iter(list).collect::<Vec<_>>(), naive);
                    let backwards = std::iter::successors(links.last(list), |&key| links.before(key));
                    prop_assert!(backwards.eq(naive.iter().rev().copied()));
                    prop_assert_eq!(list.is_empty(), naive.is_empty());
                }
            }
        }
    }
}
