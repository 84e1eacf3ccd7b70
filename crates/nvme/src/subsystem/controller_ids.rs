//! The range of controller identifiers (CNTLID) of a subsystem.
//!
//! Identifiers are unique in a subsystem, not in a target: a host that finds one twice behind one NQN refuses the second controller. Two
//! targets that serve one subsystem therefore have ranges that do not overlap. Nothing here can check that: neither knows of the other.
//!
//! Holds: both walks stay in the range and come back to an identifier only after all others (`a_walk_has_every_identifier_once`).
//! NVM Express Base Specification: "Controller ID (CNTLID)" of Identify Controller, "Connect Command and Response".

use crate::spec::connect::CNTLID_MAX;

/// See the module. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerIds {
    first: u16,
    last: u16,
}

impl ControllerIds {
    /// All that may be assigned.
    pub const ALL: ControllerIds = ControllerIds { first: 1, last: CNTLID_MAX };

    /// From `first` to `last`, both included; `None` if that is empty or not within [`ControllerIds::ALL`].
    pub fn new(first: u16, last: u16) -> Option<ControllerIds> {
        (1 <= first && first <= last && last <= CNTLID_MAX).then_some(ControllerIds { first, last })
    }

    /// The lowest.
    pub fn first(self) -> u16 {
        self.first
    }

    /// The highest.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Number of identifiers, at least 1.
    pub fn count(self) -> u16 {
        self.last - self.first + 1
    }

    /// Whether `id` is in the range.
    pub fn contains(self, id: u16) -> bool {
        (self.first..=self.last).contains(&id)
    }

    /// The identifier after `id`: the next higher one, or the lowest.
    pub(super) fn after(self, id: u16) -> u16 {
        if (self.first..self.last).contains(&id) { id + 1 } else { self.first }
    }

    /// The identifier of the `n`th draw of a walk downwards, from the highest.
    pub fn downwards(self, n: u16) -> u16 {
        self.last - n % self.count()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_range_is_not_empty_and_within_what_may_be_assigned() {
        for (first, last) in [(0, 5), (6, 5), (1, CNTLID_MAX + 1), (u16::MAX, u16::MAX)] {
            assert_eq!(ControllerIds::new(first, last), None, "{first}-{last}");
        }
        assert_eq!(ControllerIds::new(1, CNTLID_MAX), Some(ControllerIds::ALL));
        assert_eq!(ControllerIds::new(7, 7).map(ControllerIds::count), Some(1));
    }

    #[test]
    fn a_walk_has_every_identifier_once() {
        for (first, last) in [(7, 7), (32_768, 32_770), (65_000, CNTLID_MAX), (1, CNTLID_MAX)] {
            let ids = ControllerIds::new(first, last).expect("the range is in order");
            let all: BTreeSet<u16> = (first..=last).collect();
            let count = usize::from(ids.count());
            let up = core::iter::successors(Some(first), |&id| Some(ids.after(id)));
            assert_eq!(up.clone().take(count).collect::<BTreeSet<_>>(), all);
            assert_eq!(up.clone().nth(count), Some(first), "then it begins again");
            assert_eq!((0..ids.count()).map(|n| ids.downwards(n)).collect::<BTreeSet<_>>(), all);
            assert_eq!(ids.after(0), first, "from anywhere outside, it begins at the lowest");
        }
    }
}
