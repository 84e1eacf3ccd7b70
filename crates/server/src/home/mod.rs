//! A subsystem with the places of its namespaces on devices: made by `assemble`, carried to a pipeline, and kept there.
//!
//! Elsewhere: the subsystems of one pipeline are its `homes`; an NVMe command becomes work for a switch in `placement`.

pub(crate) mod placement;

pub(crate) use placement::{Placement, priority_of};

use crate::config::Access;
use crate::device::Usage;
use nvme::subsystem::{ConfigError, Subsystem};
use std::collections::HashMap;
use std::sync::Arc;
use units::TenantId;

/// A subsystem at home in a pipeline.
pub(crate) struct Home {
    /// Its state.
    pub(crate) subsystem: Subsystem,
    /// Where its namespaces lie, by number.
    pub(crate) placements: Vec<Option<Placement>>,
    /// The counter of allocated storage of each namespace that may be sparse.
    pub(crate) usages: HashMap<u32, Arc<Usage>>,
    /// The namespaces that are tenants.
    tenants: HashMap<u32, TenantId>,
}

impl Home {
    /// A subsystem whose namespaces lie nowhere yet, and are no tenants.
    pub(crate) fn new(subsystem: Subsystem) -> Home {
        Home { subsystem, placements: Vec::new(), usages: HashMap::new(), tenants: HashMap::new() }
    }

    /// The tenant that a namespace is, if it is one.
    pub(crate) fn tenant_of(&self, nsid: u32) -> Option<TenantId> {
        self.tenants.get(&nsid).copied()
    }

    /// A namespace is that tenant from now on, or none.
    pub(crate) fn set_tenant(&mut self, nsid: u32, tenant: Option<TenantId>) {
        match tenant {
            Some(tenant) => drop(self.tenants.insert(nsid, tenant)),
            None => drop(self.tenants.remove(&nsid)),
        }
    }

    /// Where a namespace lies that a command was just checked against.
    #[inline]
    pub(crate) fn placement(&self, nsid: u32) -> Placement {
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

    /// Says how hosts reach its namespaces. Those that have another state then are told.
    pub(crate) fn set_access(&mut self, access: &Access) -> Result<(), ConfigError> {
        access.states.iter().try_for_each(|&(group, state)| self.subsystem.set_ana_state(group, state))?;
        access.groups.iter().try_for_each(|&(nsid, group)| self.subsystem.set_ana_group(nsid, group))
    }

    /// A namespace lies nowhere any more.
    pub(crate) fn displace(&mut self, nsid: u32) {
        self.placements[nsid as usize] = None;
        self.usages.remove(&nsid);
        self.tenants.remove(&nsid);
    }

    /// Passes a new number of blocks of a namespace to the counter of its storage.
    pub(crate) fn resize_usage(&self, nsid: u32, blocks: u64) {
        let log2 = self.placements[nsid as usize].map_or(0, |placement| placement.block_log2);
        if let Some(usage) = self.usages.get(&nsid) {
            usage.resize(blocks << log2);
        }
    }

    /// Updates the allocated size of a namespace in the subsystem, before a host asks for it.
    pub(crate) fn tell_allocated(&mut self, nsid: u32) {
        let placement = self.placements.get(nsid as usize).copied().flatten();
        if let Some((usage, placement)) = self.usages.get(&nsid).zip(placement) {
            self.subsystem.set_allocated(nsid, usage.bytes().div_ceil(1 << placement.block_log2));
        }
    }
}
