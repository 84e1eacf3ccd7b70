//! Tenants with backlog that wait until a probe is over, or until an objective lets them go on: first come, first let go.
//!
//! Those that write and those that only read wait apart, as an objective may let one of these classes go on while it holds back the other.
//!
//! Cost: that a tenant does not wait, or that none does, is one look.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::TenantId;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Those that write, and those that only read.
    queues: [VecDeque<TenantId>; 2],
    /// By tenant: whether it is in one of them.
    waits: Vec<bool>,
    tenants: usize,
    /// Whether an objective keeps each class waiting now.
    closed: [bool; 2],
}

impl Held {
    pub(super) fn grow(&mut self, tenants: usize) {
        self.waits.resize(tenants, false);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.tenants == 0
    }

    #[inline]
    pub(super) fn contains(&self, id: TenantId) -> bool {
        self.tenants > 0 && self.waits[id.index()]
    }

    /// Whether any tenant of this class waits.
    pub(super) fn waits(&self, class: usize) -> bool {
        !self.queues[class].is_empty()
    }

    pub(super) fn push(&mut self, class: usize, id: TenantId) {
        self.queues[class].push_back(id);
        self.waits[id.index()] = true;
        self.tenants += 1;
    }

    /// Sets which classes an objective keeps waiting.
    #[inline]
    pub(super) fn set_closed(&mut self, closed: [bool; 2]) {
        self.closed = closed;
    }

    /// Whether an objective keeps any class waiting.
    #[inline]
    pub(super) fn is_any_closed(&self) -> bool {
        self.closed != [false; 2]
    }

    /// Whether an objective keeps this class waiting.
    #[inline]
    pub(super) fn is_closed(&self, class: usize) -> bool {
        self.closed[class]
    }

    /// The one that has waited longest, of a class that is not closed.
    #[inline]
    pub(super) fn first(&self) -> Option<TenantId> {
        if self.tenants == 0 {
            return None;
        }
        let of = |class: usize| self.queues[class].front().filter(|_| !self.closed[class]);
        of(0).or(of(1)).copied()
    }

    /// The tenant need not wait any longer, if it did.
    #[inline]
    pub(super) fn release(&mut self, id: TenantId) {
        if self.contains(id) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: TenantId) {
        for queue in &mut self.queues {
            if let Some(place) = queue.iter().position(|held| *held == id) {
                queue.remove(place);
            }
        }
        self.waits[id.index()] = false;
        self.tenants -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_an_open_class_goes_first() {
        let mut held = Held::default();
        held.grow(4);
        assert!(held.is_empty() && held.first().is_none());
        [(1, 3), (0, 0), (0, 2)].into_iter().for_each(|(class, id)| held.push(class, TenantId(id)));
        assert_eq!(held.first(), Some(TenantId(0)));
        held.set_closed([true, false]);
        assert_eq!(held.first(), Some(TenantId(3)));
        held.set_closed([true; 2]);
        assert_eq!(held.first(), None);
        held.set_closed([false; 2]);
        held.release(TenantId(1));
        held.release(TenantId(0));
        assert_eq!((held.first(), held.contains(TenantId(0))), (Some(TenantId(2)), false));
        held.release(TenantId(2));
        held.release(TenantId(3));
        assert!(held.is_empty() && !held.waits(1));
    }
}
