//! Lists of keys from whose middle one is taken at the price of one at the front.
//!
//! What a host has queued stands in several orders at a time: among the IOs of its connection, among those on the device,
//! among those that wait for memory. When the host goes, all of it leaves, from wherever it stands. So a list is threaded
//! through one table with an entry for each slot of the [`Slab`](crate::slab::Slab) that the keys are of.
//!
//! A [`Chains`] is the table for lists of which a key is in one at most; a [`Chain`] is one of these lists.
//!
//! Holds: lists keep their order whatever is taken out (`chains_keep_their_order_whatever_is_taken_out`);
//!        no operation looks at more than four keys (`a_withdrawal_costs_no_more_the_more_ios_there_are`).

use crate::slab::Key;

/// No slot.
const NONE: u32 = u32::MAX;

/// In `previous` of a slot that is in no list.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Link {
    /// The key's.
    generation: u32,
    previous: u32,
    next: u32,
}

/// The table of lists of which a key is in one at most.
#[derive(Default)]
pub(crate) struct Chains {
    links: Vec<Link>,
}

/// One list of a [`Chains`].
#[derive(Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { first: NONE, last: NONE }
    }
}

impl Chain {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Chains {
    /// Puts `key` at the end of `chain`.
    ///
    /// # Panics
    /// If it is in a list of this table already.
    pub(crate) fn push(&mut self, chain: &mut Chain, key: Key) {
        let slot = key.index();
        if self.links.len() <= slot {
            self.grow(slot);
        }
        let link = self.link(slot as u32);
        assert!(link.previous == OUT, "{key:?} is put into a list twice");
        *link = Link { generation: key.generation(), previous: chain.last, next: NONE };
        match chain.last {
            NONE => chain.first = slot as u32,
            last => self.link(last).next = slot as u32,
        }
        chain.last = slot as u32;
    }

    /// Takes `key` out of `chain`; false if it is in no list of this table.
    pub(crate) fn remove(&mut self, chain: &mut Chain, key: Key) -> bool {
        if !self.contains(key) {
            return false;
        }
        let link = self.link(key.index() as u32);
        let (previous, next) = (link.previous, link.next);
        link.previous = OUT;
        match previous {
            NONE => chain.first = next,
            previous => self.link(previous).next = next,
        }
        match next {
            NONE => chain.last = previous,
            next => self.link(next).previous = previous,
        }
        true
    }

    /// Whether `key` is in a list of this table.
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.links
            .get(key.index())
            .is_some_and(|link| link.previous != OUT && link.generation == key.generation())
    }

    /// The first of `chain`.
    pub(crate) fn first(&self, chain: &Chain) -> Option<Key> {
        self.key(chain.first)
    }

    /// The last of `chain`.
    pub(crate) fn last(&self, chain: &Chain) -> Option<Key> {
        self.key(chain.last)
    }

    /// The one behind `key` in its list.
    pub(crate) fn after(&self, key: Key) -> Option<Key> {
        self.key(self.links[key.index()].next)
    }

    /// The one before `key` in its list.
    pub(crate) fn before(&self, key: Key) -> Option<Key> {
        self.key(self.links[key.index()].previous)
    }

    /// All of `chain`, in order.
    pub(crate) fn iter(&self, chain: &Chain) -> impl Iterator<Item = Key> {
        std::iter::successors(self.first(chain), |&key| self.after(key))
    }

    /// The key at `slot`, which is in a list.
    fn key(&self, slot: u32) -> Option<Key> {
        #[cfg(test)]
        crate::slab::steps::count(1);
        (slot != NONE).then(|| Key::new(slot, self.links[slot as usize].generation))
    }

    #[cold]
    fn grow(&mut self, slot: usize) {
        self.links.resize(slot + 1, Link { generation: 0, previous: OUT, next: NONE });
    }

    fn link(&mut self, slot: u32) -> &mut Link {
        #[cfg(test)]
        crate::slab::steps::count(1);
        &mut self.links[slot as usize]
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
        fn chains_keep_their_order_whatever_is_taken_out(
            ops in prop::collection::vec((0..3usize, any::<prop::sample::Index>(), any::<bool>()), 0..150),
        ) {
            let (mut slab, mut chains) = (Slab::new(), Chains::default());
            let mut lists = [Chain::default(), Chain::default(), Chain::default()];
            let mut naive: [Vec<Key>; 3] = Default::default();
            for (list, index, takes) in ops {
                if takes && !naive[list].is_empty() {
                    let key = naive[list].remove(index.index(naive[list].len()));
                    prop_assert!(chains.remove(&mut lists[list], key));
                    prop_assert!(!chains.remove(&mut lists[list], key), "it was taken out already");
                    slab.remove(key);
                } else {
                    let key = slab.insert(());
                    chains.push(&mut lists[list], key);
                    naive[list].push(key);
                }
                for (list, naive) in lists.iter().zip(&naive) {
                    prop_assert_eq!(&chains.iter(list).collect::<Vec<_>>(), naive);
                    let backwards = std::iter::successors(chains.last(list), |&key| chains.before(key));
                    prop_assert!(backwards.eq(naive.iter().rev().copied()));
                    prop_assert_eq!(list.is_empty(), naive.is_empty());
                }
            }
        }
    }
}
