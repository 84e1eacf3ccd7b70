//! Tells the repair that there is something to repair.

use crate::task::Gate;
use std::cell::Cell;

/// See the module.
#[derive(Default)]
pub(crate) struct RepairSignal {
    is_set: Cell<bool>,
    gate: Gate,
}

impl RepairSignal {
    /// There is something to repair.
    pub(crate) fn set(&self) {
        self.is_set.set(true);
        self.gate.notify();
    }

    /// A repair begins.
    pub(crate) fn clear(&self) {
        self.is_set.set(false);
    }

    /// Waits until there is something to repair, or `is_due` says so.
    pub(crate) async fn wait(&self, is_due: impl Fn() -> bool) {
        self.gate.wait(|| (self.is_set.get() || is_due()).then_some(())).await;
    }

    /// The gate at which the repair waits.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}
