//! The registrants of one namespace, sorted: by host identifier, then by host NQN.
//!
//! A registrant is the pair of both. Two NQNs may be registered with one identifier; each has its own key.
//!
//! Holds: sorted, no pair twice, none without an identifier (`check`, which the tests of `reservation` run
//!        after every step).

use super::reservation_terms::{Identity, Registrant};
use crate::spec::HostId;
use alloc::vec::Vec;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registrants(Vec<Registrant>);

impl Registrants {
    /// None.
    pub(super) const fn new() -> Registrants {
        Registrants(Vec::new())
    }

    /// The number of registrants.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Registrant> {
        self.0.iter()
    }

    /// Those with this identifier.
    pub(super) fn with_id(&self, id: HostId) -> &[Registrant] {
        let first = self.0.partition_point(|registrant| registrant.host.id < id);
        let count = self.0[first..].partition_point(|registrant| registrant.host.id == id);
        &self.0[first..first + count]
    }

    /// Whether `host` is one.
    pub(super) fn contains(&self, host: Identity<'_>) -> bool {
        self.find(host).is_ok()
    }

    /// The key of `host`, if it is one.
    pub(super) fn key_of(&self, host: Identity<'_>) -> Option<u64> {
        self.find(host).ok().map(|index| self.0[index].key)
    }

    /// Gives `host` another key, if it is one.
    pub(super) fn set_key(&mut self, host: Identity<'_>, key: u64) {
        if let Ok(index) = self.find(host) {
            self.0[index].key = key;
        }
    }

    /// Adds one. It comes back if its host is registered already.
    pub(super) fn insert(&mut self, registrant: Registrant) -> Result<(), Registrant> {
        match self.find(registrant.host.identity()) {
            Ok(_) => Err(registrant),
            Err(index) => {
                self.0.insert(index, registrant);
                Ok(())
            }
        }
    }

    /// Removes all for which `stays` is false.
    pub(super) fn retain(&mut self, stays: impl FnMut(&Registrant) -> bool) {
        self.0.retain(stays);
    }

    fn find(&self, host: Identity<'_>) -> Result<usize, usize> {
        self.0
            .binary_search_by(|other| other.host.id.cmp(&host.id).then_with(|| other.host.nqn.cmp(host.nqn)))
    }

    /// Panics if the order is broken: that is a bug of this crate.
    pub(super) fn check(&self) {
        assert!(self.0.is_sorted_by(|one, next| one.host < next.host), "not sorted: {:?}", self.0);
        assert!(self.with_id(HostId::NONE).is_empty(), "a registrant without an identifier: {:?}", self.0);
    }
}
