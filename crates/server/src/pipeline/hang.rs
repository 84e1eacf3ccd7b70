//! Noticing that a device does not answer, or answers late.
//!
//! A pipeline can only wait for a device that hangs, as the device may still use the buffers of its IOs. So
//! the pipeline continues with everything else. It reports tenants with overdue IOs to the scheduler early, so that
//! no other tenant waits for them to catch up; and it logs once that IOs hang, and once that they no longer do.
//!
//! A check costs in proportion to the IOs that became late since the last one (`switch::watch`); there are a few within the time an IO may take, and none
//! when no IO is on the device.
//!
//! Holds: others go on while all slots of one tenant hang (`tests/bad_devices`).

use super::Origin;
use crate::switch::Switch;
use tracing::{info, warn};
use units::{Instant, Nanos};

/// Longest wait for a tenant whose IOs do not end, on the device's clock: far beyond a working SSD's latency.
const PATIENCE: Nanos = Nanos::millis(250);
/// Checks within the time that an IO may take.
const CHECKS: u64 = 4;

/// The observed state of the device.
pub(super) struct DeviceWatch {
    /// IOs that were too long on the device when that was last looked at.
    hung: usize,
    next_check: Instant,
}

impl DeviceWatch {
    pub(super) fn new() -> DeviceWatch {
        DeviceWatch { hung: 0, next_check: Instant::ZERO }
    }

    /// Looks for IOs that are on the device for longer than `limit`, if it is time to.
    pub(super) fn check(&mut self, now: Instant, device: &str, switch: &mut Switch<Origin>, limit: Nanos) {
        if now < self.next_check || (switch.is_empty() && self.hung == 0) {
            return;
        }
        let clock = switch.clock();
        let patience = clock.to_real(clock.to_device(now) + PATIENCE).saturating_since(now);
        self.next_check = now + Nanos(limit.min(patience).get() / CHECKS);
        switch.note_overdue(now, PATIENCE);
        let (hung, longest) = switch.hung(now, limit);
        let before = std::mem::replace(&mut self.hung, hung);
        match (before, hung) {
            (0, 1..) => {
                warn!(%device, ios = hung, %longest, "the device hangs: IOs on it do not end")
            }
            (1.., 0) => info!(%device, "the device answers again: no IO on it is overdue"),
            _ => {}
        }
    }

    /// When to look the next time, if there is something to look at.
    pub(super) fn deadline(&self, switch: &Switch<Origin>) -> Option<Instant> {
        (!switch.is_empty() || self.hung > 0).then_some(self.next_check)
    }

    /// IOs that hang.
    pub(super) fn hung(&self) -> usize {
        self.hung
    }
}
