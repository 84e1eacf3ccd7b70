//! Notifies the repair of copies to repair.

use crate::task::Gate;
use std::cell::Cell;

/// The signal; see the module.
#[derive(Default)]
pub(crate) struct RepairSignal {
    is_set: Cell<bool>,
    gate: Gate,
}

impl RepairSignal {
    /// Notifies the repair.
    pub(crate) fn set(&self) {
        self.is_set.set(true);
        self.gate.notify();
    }

    /// Clears the signal, when a repair begins.
    pub(crate) fn clear(&self) {
        self.is_set.set(false);
    }

    /// Waits until the signal is set or `is_due` returns true.
    pub(crate) async fn wait(&self, is_due: impl Fn() -> bool) {
        self.gate.wait(|| (self.is_set.get() || is_due()).then_some(())).await;
    }

    /// The gate at which the repair waits.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}
