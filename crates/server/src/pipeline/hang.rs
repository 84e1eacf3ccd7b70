//! Noticing that a device does not answer, or answers late.
//!
//! Nothing can be done about a device that hangs but to wait: what was given to it, memory included, is in its hands. So
//! the pipeline goes on with everything else. Two things it does: it tells the scheduler soon whose IOs are overdue, so that
//! nobody else waits for that tenant to catch up; and it says in the log, once, that IOs hang, and once that they no longer do.
//!
//! Looking costs what has become late since (`switch::watch`); it is done a few times within the time an IO may take, and never
//! when there is none.
//!
//! Holds: others go on while all slots of one tenant hang (`tests/bad_devices`).

use super::Origin;
use crate::histogram::Histogram;
use crate::switch::Switch;
use tracing::{info, warn};
use units::{Instant, Nanos};

/// How long others may wait for a tenant whose IOs do not end, on the device's clock: far beyond what a working SSD takes.
const PATIENCE: Nanos = Nanos::millis(250);
/// How often the IOs on the device are looked at: so many times within the time that they may take.
const CHECKS: u64 = 4;

/// What is noticed of the device.
pub(super) struct DeviceWatch {
    /// IOs that were too long on the device when that was last looked at.
    hung: usize,
    next_check: Instant,
    /// How late IOs were known to be over, on the device's clock.
    late: Histogram,
}

impl DeviceWatch {
    pub(super) fn new() -> DeviceWatch {
        DeviceWatch { hung: 0, next_check: Instant::ZERO, late: Histogram::default() }
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

    /// An IO was known to be over so late.
    #[inline]
    pub(super) fn note_late(&mut self, late: Nanos) {
        self.late.record(late);
    }

    /// IOs that hang.
    pub(super) fn hung(&self) -> usize {
        self.hung
    }

    /// How late IOs were known to be over, on the device's clock.
    pub(super) fn late(&self) -> &Histogram {
        &self.late
    }
}
