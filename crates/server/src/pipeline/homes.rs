//! The subsystems at home on this thread, by slot, and where their namespaces lie.

use super::placement::Placement;
use crate::device::Usage;
use nvme::spec::Nqn;
use nvme::subsystem::{Output, Subsystem};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use units::{Instant, Nanos};

/// A subsystem at home in a pipeline.
pub(crate) struct Home {
    /// Its state.
    pub(crate) subsystem: Subsystem,
    /// Where its namespaces lie, by number.
    pub(crate) placements: Vec<Option<Placement>>,
    /// How much of a namespace has storage, where some may not.
    pub(crate) usages: HashMap<u32, Arc<Usage>>,
}

impl Home {
    /// Where a namespace lies that a command was just checked against.
    #[inline]
    pub(super) fn placement(&self, nsid: u32) -> Placement {
        self.placements[nsid as usize].expect("the subsystem knows only placed namespaces")
    }

    /// Says where a namespace lies, and who counts its storage.
    pub(crate) fn place(&mut self, nsid: u32, placement: Placement, usage: Option<Arc<Usage>>) {
        let index = nsid as usize;
        if self.placements.len() <= index {
            self.placements.resize(index + 1, None);
        }
        self.placements[index] = Some(placement);
        self.usages.extend(usage.map(|usage| (nsid, usage)));
    }

    /// A namespace lies nowhere any more.
    pub(super) fn displace(&mut self, nsid: u32) {
        self.placements[nsid as usize] = None;
        self.usages.remove(&nsid);
    }

    /// A namespace has another number of blocks: what counts its storage is told.
    pub(super) fn resize_usage(&self, nsid: u32, blocks: u64) {
        let log2 = self.placements[nsid as usize].map_or(0, |placement| placement.block_log2);
        if let Some(usage) = self.usages.get(&nsid) {
            usage.resize(blocks << log2);
        }
    }

    /// Tells the subsystem how much of a namespace has storage, for what a host is going to be told.
    pub(super) fn tell_allocated(&mut self, nsid: u32) {
        let placement = self.placements.get(nsid as usize).copied().flatten();
        if let Some((usage, placement)) = self.usages.get(&nsid).zip(placement) {
            self.subsystem.set_allocated(nsid, usage.bytes().div_ceil(1 << placement.block_log2));
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Homes {
    slots: Vec<Option<Home>>,
    /// The hosts that the configuration names.
    named: Arc<BTreeSet<Nqn>>,
}

impl Homes {
    /// The subsystem in a slot, unless it was removed.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Home> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// A subsystem is at home here from now on.
    pub(super) fn add(&mut self, slot: usize, mut home: Home) {
        home.subsystem.set_named(Arc::clone(&self.named));
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(home);
    }

    /// A subsystem is not served any more.
    pub(super) fn remove(&mut self, slot: usize) {
        self.slots[slot] = None;
    }

    /// One more than the highest slot that was ever used.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The next thing that the subsystem in a slot wants unasked.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant, slot: usize) -> Option<Output> {
        self.slots[slot].as_mut()?.subsystem.poll(now)
    }

    /// When the first keep-alive time-out is over.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.slots.iter().flatten().filter_map(|home| home.subsystem.next_timeout()).min()
    }

    /// Extends all keep-alive time-outs.
    pub(super) fn extend(&mut self, by: Nanos) {
        self.slots.iter_mut().flatten().for_each(|home| home.subsystem.extend(by));
    }

    /// The hosts that the configuration names. No host has a name that is not an NQN, so such a name is left out.
    pub(super) fn set_named(&mut self, hosts: &HashSet<String>) {
        self.named = Arc::new(hosts.iter().filter_map(|host| Nqn::new(host).ok()).collect());
        let homes = self.slots.iter_mut().flatten();
        homes.for_each(|home| home.subsystem.set_named(Arc::clone(&self.named)));
    }

    /// Sets the longest keep-alive time-out that a host may ask for.
    pub(super) fn set_keep_alive_max(&mut self, longest: Nanos) {
        let millis = crate::assemble::millis(longest);
        self.slots.iter_mut().flatten().for_each(|home| home.subsystem.set_keep_alive_max(millis));
    }
}
