//! The namespaces of a subsystem, in a table indexed by namespace identifier.
//!
//! Every IO command needs the size, block size and access state of its namespace. They are stored together,
//! so one load finds them. An access state belongs to an ANA group; each namespace keeps a copy of its
//! group's state.
//!
//! Holds: a namespace's access state is that of its group (`a_new_namespace_has_the_state_of_its_group` in
//!        `tests/controller/subsystem.rs`).

use super::config::{ConfigError, NamespaceInfo, SubsystemConfig};
use super::identity::derived_uuid;
use super::reservation::Reservations;
use crate::spec::AnaState;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A namespace.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    pub(super) blocks: u64,
    pub(super) block_shift: u8,
    pub(super) read_only: bool,
    pub(super) ana: AnaState,
    pub(super) reservations: Reservations,
    pub(super) uuid: [u8; 16],
    /// Allocated blocks at the last count, if there was one. Can be more than the namespace has now.
    pub(super) allocated: Option<u64>,
    pub(super) info: NamespaceInfo,
}

/// All namespaces.
#[derive(Clone, Debug)]
pub(super) struct Namespaces {
    /// Namespace `nsid` is at `nsid - 1`.
    table: Vec<Option<Namespace>>,
    /// Groups whose state was set; the others are Optimized.
    states: BTreeMap<u32, AnaState>,
    /// Whether no namespace is accessible, whatever the state of its group.
    is_withheld: bool,
    ana_changes: u64,
}

impl Namespaces {
    pub(super) fn new(config: &SubsystemConfig) -> Namespaces {
        let mut namespaces =
            Namespaces { table: Vec::new(), states: BTreeMap::new(), is_withheld: false, ana_changes: 0 };
        for (&nsid, info) in &config.namespaces {
            namespaces.insert(config, nsid, info.clone());
        }
        namespaces
    }

    #[inline]
    pub(super) fn get(&self, nsid: u32) -> Option<&Namespace> {
        self.table.get((nsid as usize).wrapping_sub(1))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, nsid: u32) -> Option<&mut Namespace> {
        self.table.get_mut((nsid as usize).wrapping_sub(1))?.as_mut()
    }

    /// Identifiers and namespaces, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        (1..).zip(&self.table).filter_map(|(nsid, namespace)| Some((nsid, namespace.as_ref()?)))
    }

    /// Identifiers of namespaces above `after`.
    pub(super) fn ids_after(&self, after: u32) -> impl Iterator<Item = u32> {
        self.iter().map(|(nsid, _)| nsid).filter(move |&nsid| nsid > after)
    }

    /// Total size in bytes.
    pub(super) fn capacity(&self) -> u128 {
        self.iter().map(|(_, namespace)| u128::from(namespace.blocks) << namespace.block_shift).sum()
    }

    /// Adds a namespace that has passed `SubsystemConfig::check_namespace`.
    pub(super) fn insert(&mut self, config: &SubsystemConfig, nsid: u32, info: NamespaceInfo) {
        let namespace = Namespace {
            blocks: info.blocks,
            block_shift: info.block_size.log2(),
            read_only: info.read_only,
            ana: self.state_of(info.ana_group),
            reservations: Reservations::new(),
            allocated: None,
            uuid: info.uuid.unwrap_or_else(|| derived_uuid(&config.nqn, nsid)),
            info,
        };
        let index = nsid as usize - 1;
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        self.table[index] = Some(namespace);
        self.ana_changes += 1;
    }

    pub(super) fn remove(&mut self, nsid: u32) -> Result<(), ConfigError> {
        let place = self.table.get_mut((nsid as usize).wrapping_sub(1));
        match place.and_then(Option::take) {
            Some(_) => {
                self.ana_changes += 1;
                Ok(())
            }
            None => Err(ConfigError::NoSuchNamespace(nsid)),
        }
    }

    /// Sets a group's state. Returns whether a namespace has another state now.
    pub(super) fn set_state(&mut self, group: u32, state: AnaState) -> bool {
        self.states.insert(group, state);
        self.update_states()
    }

    /// Makes all namespaces inaccessible, or gives them the states of their groups again. Returns whether one has another state now.
    pub(super) fn set_withheld(&mut self, is_withheld: bool) -> bool {
        self.is_withheld = is_withheld;
        self.update_states()
    }

    /// Moves a namespace to another group. Returns whether it is in another group now; `None` if there is no such namespace.
    pub(super) fn set_group(&mut self, nsid: u32, group: u32) -> Option<bool> {
        let namespace = self.get_mut(nsid)?;
        let is_other = core::mem::replace(&mut namespace.info.ana_group, group) != group;
        if is_other && !self.update_states() {
            // The page names the groups of namespaces.
            self.ana_changes += 1;
        }
        Some(is_other)
    }

    /// Gives every namespace the state of its group. Returns whether one has another state now.
    fn update_states(&mut self) -> bool {
        let mut has_changed = false;
        for namespace in self.table.iter_mut().flatten() {
            let state = state_of(&self.states, self.is_withheld, namespace.info.ana_group);
            has_changed |= namespace.ana != state;
            namespace.ana = state;
        }
        self.ana_changes += u64::from(has_changed);
        has_changed
    }

    /// Groups that have namespaces, ascending, for the log page.
    pub(super) fn groups(&self) -> Vec<(u32, AnaState, Vec<u32>)> {
        let mut groups = BTreeMap::<u32, Vec<u32>>::new();
        for (nsid, namespace) in self.iter() {
            groups.entry(namespace.info.ana_group).or_default().push(nsid);
        }
        groups.into_iter().map(|(group, nsids)| (group, self.state_of(group), nsids)).collect()
    }

    /// Counts changes of the ANA log page.
    pub(super) fn ana_changes(&self) -> u64 {
        self.ana_changes
    }

    fn state_of(&self, group: u32) -> AnaState {
        state_of(&self.states, self.is_withheld, group)
    }
}

/// The state of a group as hosts see it.
fn state_of(states: &BTreeMap<u32, AnaState>, is_withheld: bool, group: u32) -> AnaState {
    match states.get(&group).copied().unwrap_or_default() {
        AnaState::PersistentLoss => AnaState::PersistentLoss,
        _ if is_withheld => AnaState::Inaccessible,
        state => state,
    }
}
