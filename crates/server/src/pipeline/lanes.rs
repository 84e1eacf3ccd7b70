//! The IOs of a connection in one namespace, in the order in which they came.
//!
//! Whoever waits for some of them (another host that preempted this one, an operator who removes the namespace) waits for those
//! that had come by then: so it is enough to note how far that was, and to look at the oldest one that has not ended.
//!
//! ```text
//!   IOs:     17 ─ 19 ─ 23 ─ 24 ─ 30          fences:  (25, A) ─ (28, B)
//!            └ on the device      └ came after both: nobody waits for it
//! ```
//!
//! Elsewhere: who waits, and for what, is `fence`.

use crate::intrusive_list::List;
use crate::slab::Key;
use std::collections::VecDeque;

/// The IOs of a connection in one namespace.
#[derive(Default)]
pub(super) struct Lane {
    /// Those that have not ended.
    pub(super) ios: List,
    /// Who waits for all that came before which moment, earliest first: the moment is a number of IOs started.
    pub(super) fences: VecDeque<(u64, Key)>,
    /// What came before this was taken back as far as that was possible.
    pub(super) refused_before: u64,
}

/// All lanes of a connection: one for each namespace that it has used. A lane keeps its place.
#[derive(Default)]
pub(super) struct Lanes {
    lanes: Vec<(u32, Lane)>,
    /// Places in `lanes`, by namespace.
    sorted: Vec<u32>,
    /// The place that was asked for last: most connections use one namespace.
    latest: usize,
}

impl Lanes {
    /// The lane of a namespace, if there is one.
    pub(super) fn get(&mut self, nsid: u32) -> Option<&mut Lane> {
        let place = self.find(nsid).ok()?;
        Some(&mut self.lanes[place].1)
    }

    /// The lane at a place.
    pub(super) fn at(&mut self, place: usize) -> &mut Lane {
        &mut self.lanes[place].1
    }

    /// The place of a namespace's lane, which is made if there is none.
    #[inline]
    pub(super) fn place_of(&mut self, nsid: u32) -> usize {
        if self.lanes.get(self.latest).is_none_or(|(latest, _)| *latest != nsid) {
            self.latest = self.find(nsid).unwrap_or_else(|index| {
                self.sorted.insert(index, self.lanes.len() as u32);
                self.lanes.push((nsid, Lane::default()));
                self.lanes.len() - 1
            });
        }
        self.latest
    }

    /// All of them, with their namespaces.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.lanes.iter().map(|(nsid, lane)| (*nsid, lane))
    }

    /// The place of a namespace's lane, or where it belongs in `sorted`.
    fn find(&self, nsid: u32) -> Result<usize, usize> {
        let nsid_at = |place: &u32| self.lanes[*place as usize].0;
        self.sorted.binary_search_by_key(&nsid, nsid_at).map(|index| self.sorted[index] as usize)
    }
}
