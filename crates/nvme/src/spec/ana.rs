//! Asymmetric Namespace Access: how well a namespace can be reached through this controller, group by group.
//!
//! Holds: the page is header, groups, and their namespaces without gaps (`the_page_has_no_gaps`).
//! NVM Express Base Specification: "Asymmetric Namespace Access log page".

use super::Status;
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// LSP bit 0: return groups without their namespaces.
pub const GROUPS_ONLY: u8 = 1;

/// An access state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AnaState {
    /// Reachable on the best path.
    #[default]
    Optimized,
    /// Reachable, but not on the best path.
    NonOptimized,
    /// Not reachable now.
    Inaccessible,
    /// Never reachable again on this path.
    PersistentLoss,
    /// The state is changing.
    Change,
}

impl AnaState {
    /// The value in the log page.
    pub const fn to_wire(self) -> u8 {
        match self {
            AnaState::Optimized => 0x1,
            AnaState::NonOptimized => 0x2,
            AnaState::Inaccessible => 0x3,
            AnaState::PersistentLoss => 0x4,
            AnaState::Change => 0xf,
        }
    }

    /// From the page; `None` for a reserved value.
    pub fn from_wire(state: u8) -> Option<AnaState> {
        const STATE_MASK: u8 = 0xf;
        let known = [
            AnaState::Optimized,
            AnaState::NonOptimized,
            AnaState::Inaccessible,
            AnaState::PersistentLoss,
            AnaState::Change,
        ];
        known.into_iter().find(|known| known.to_wire() == state & STATE_MASK)
    }

    /// The status for an IO command in this state; `None` if the command may proceed.
    pub const fn refusal(self) -> Option<Status> {
        match self {
            AnaState::Optimized | AnaState::NonOptimized => None,
            AnaState::Inaccessible => Some(Status::ANA_INACCESSIBLE),
            AnaState::PersistentLoss => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::Change => Some(Status::ANA_TRANSITION),
        }
    }
}

/// The header of the page.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AnaHeader {
    /// Counts changes.
    pub change_count: U64,
    /// Group descriptors that follow.
    pub groups: U16,
    /// Reserved.
    pub reserved: [u8; 6],
}

const _: () = assert!(size_of::<AnaHeader>() == 16);

/// A group descriptor. The identifiers of its namespaces follow it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AnaGroupDescriptor {
    /// ANAGRPID.
    pub group: U32,
    /// Number of namespace identifiers that follow.
    pub namespaces: U32,
    /// Counts changes.
    pub change_count: U64,
    /// `AnaState` in bits 3:0.
    pub state: u8,
    /// Reserved.
    pub reserved: [u8; 15],
}

const _: () = assert!(size_of::<AnaGroupDescriptor>() == 32);

/// The whole page. `groups` are in ascending order, each with its namespaces.
pub fn emit(change_count: u64, groups: &[(u32, AnaState, Vec<u32>)], groups_only: bool) -> Vec<u8> {
    let header = AnaHeader {
        change_count: change_count.into(),
        groups: (groups.len() as u16).into(),
        ..Default::default()
    };
    let mut page = header.as_bytes().to_vec();
    for (group, state, namespaces) in groups {
        let listed: &[u32] = if groups_only { &[] } else { namespaces };
        let descriptor = AnaGroupDescriptor {
            group: (*group).into(),
            namespaces: (listed.len() as u32).into(),
            change_count: change_count.into(),
            state: state.to_wire(),
            ..Default::default()
        };
        page.extend_from_slice(descriptor.as_bytes());
        listed.iter().for_each(|nsid| page.extend_from_slice(&nsid.to_le_bytes()));
    }
    page
}

/// The namespaces of a page with their states. Truncated descriptors and unknown states are left out.
pub fn parse(page: &[u8]) -> Vec<(u32, AnaState)> {
    let mut states = Vec::new();
    let Ok((header, mut rest)) = AnaHeader::ref_from_prefix(page) else { return states };
    for _ in 0..header.groups.get() {
        let Ok((group, after)) = AnaGroupDescriptor::ref_from_prefix(rest) else { break };
        let count = group.namespaces.get() as usize;
        let Ok((nsids, after)) = <[U32]>::ref_from_prefix_with_elems(after, count) else { break };
        if let Some(state) = AnaState::from_wire(group.state) {
            states.extend(nsids.iter().map(|nsid| (nsid.get(), state)));
        }
        rest = after;
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_page_has_no_gaps() {
        let groups = [(1, AnaState::Optimized, vec![1, 2]), (4, AnaState::Change, vec![])];
        let page = emit(5, &groups, false);
        assert_eq!(page.len(), 16 + 32 + 8 + 32);
        assert_eq!((page[0], page[8], page[16], page[20], page[32]), (5, 2, 1, 2, 1));
        assert_eq!((page[48], page[52], page[56], page[72]), (1, 2, 4, 0xf));
        assert_eq!(emit(5, &groups, true).len(), 16 + 32 + 32);
        assert_eq!(parse(&page), [(1, AnaState::Optimized), (2, AnaState::Optimized)]);
        for cut in 0..page.len() {
            assert!(parse(&page[..cut]).len() <= 2, "a page cut at {cut} is read as far as it goes");
        }
    }
}
