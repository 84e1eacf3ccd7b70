//! The IOs of a connection in one namespace, in the order in which they came.
//!
//! Whoever waits for some of them (another host that preempted this one, an operator who removes the namespace) waits for those
//! that had come by then: so it is enough to note how far that was, and to look at the oldest one that has not ended.
//!
//! ```text
//!   chain:   17 ─ 19 ─ 23 ─ 24 ─ 30          fences:  (25, A) ─ (28, B)
//!            └ on the device      └ came after both: nobody waits for it
//! ```
//!
//! Elsewhere: who waits, and for what, is `fence`.

use crate::chain::Chain;
use crate::slab::Key;
use std::collections::VecDeque;

/// The IOs of a connection in one namespace.
#[derive(Default)]
pub(super) struct Lane {
    /// Those that have not ended.
    pub(super) chain: Chain,
    /// Who waits for all that came before which moment, earliest first: the moment is a number of IOs started.
    pub(super) fences: VecDeque<(u64, Key)>,
    /// What came before this was taken back as far as that was possible.
    pub(super) refused_before: u64,
}

/// All lanes of a connection: one for each namespace that it has used.
#[derive(Default)]
pub(super) struct Lanes(Vec<(u32, Lane)>);

impl Lanes {
    /// The lane of a namespace, if there is one.
    pub(super) fn get(&mut self, nsid: u32) -> Option<&mut Lane> {
        let index = self.find(nsid).ok()?;
        Some(&mut self.0[index].1)
    }

    /// The lane of a namespace.
    pub(super) fn get_or_add(&mut self, nsid: u32) -> &mut Lane {
        let index = self.find(nsid).unwrap_or_else(|index| {
            self.0.insert(index, (nsid, Lane::default()));
            index
        });
        &mut self.0[index].1
    }

    /// All of them, with their namespaces.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Lane)> {
        self.0.iter().map(|(nsid, lane)| (*nsid, lane))
    }

    fn find(&self, nsid: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&nsid, |(nsid, _)| *nsid)
    }
}
