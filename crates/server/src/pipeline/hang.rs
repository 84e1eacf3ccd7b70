//! Noticing that a device does not answer.
//!
//! Nothing can be done about a device that hangs but to wait: what was given to it, memory included, is in its hands. So
//! the pipeline goes on with everything else. Two things it does: it tells the scheduler soon whose IOs are overdue, so that
//! nobody else waits for that tenant to catch up; and it says in the log, once, that IOs hang, and once that they no longer do.
//!
//! Looking costs what has become late since (`switch::watch`); it is done a few times within the time an IO may take, and never
//! when there is none.
//!
//! Holds: others go on while all slots of one tenant hang (`tests/bad_devices`).

use super::Pipeline;
use tracing::{info, warn};
use units::{Instant, Nanos};

/// How long others may wait for a tenant whose IOs do not end, on the device's clock: far beyond what a working SSD takes.
const PATIENCE: Nanos = Nanos::millis(250);
/// How often the IOs on the device are looked at: so many times within the time that they may take.
const CHECKS: u64 = 4;

impl Pipeline {
    /// Looks for IOs that are too long on the device, if it is time to.
    pub(super) fn check_hangs(&mut self, now: Instant) {
        if now < self.next_hang_check || (self.switch.is_empty() && self.hung == 0) {
            return;
        }
        let clock = self.switch.clock();
        let patience = clock.to_real(clock.to_device(now) + PATIENCE).saturating_since(now);
        let limit = self.limits.hang_after;
        self.next_hang_check = now + Nanos(limit.min(patience).get() / CHECKS);
        self.switch.note_overdue(now, PATIENCE);
        let (hung, longest) = self.switch.hung(now, limit);
        let before = std::mem::replace(&mut self.hung, hung);
        match (before, hung) {
            (0, 1..) => {
                warn!(device = %self.name, ios = hung, %longest, "the device hangs: IOs on it do not end")
            }
            (1.., 0) => info!(device = %self.name, "the device answers again: no IO on it is overdue"),
            _ => {}
        }
    }
}
