//! Property Get and Property Set.
//!
//! VS reports version 2.0. Linux then reads CNS 08h and 05h, which tell more than CNS 00h, and nvme-cli reads
//! the log pages (00h, 12h) that 2.0 made mandatory. Older hosts check for nothing later than 1.3. 2.0 in
//! turn requires the ready timeouts (CRTO), which are supported.
//!
//! NVM Express Base Specification: "Property Get command", "Property Set command".

use super::Subsystem;
use super::action::{Action, CloseReason, Output};
use super::controller::Transition;
use crate::spec::property::{Capabilities, Configuration, PropertySize, Version, offset};
use crate::spec::{Cqe, Sqe, Status};
use units::{Instant, Nanos};

/// The version in VS and in Identify.
pub(super) const VERSION: Version = Version::V2_0;

/// CAP.TO and CRTO in units of 500 ms. A controller is ready at once. A reset waits for commands on devices,
/// but no longer than this (`controller`).
const READY_TIMEOUT: u8 = 15;
/// The same as a time span.
pub(super) const READY_TIMEOUT_SPAN: Nanos = Nanos::millis(500 * READY_TIMEOUT as u64);

impl Subsystem {
    pub(super) fn property_get(&self, now: Instant, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let size = PropertySize::from_attributes(sqe.cdw10()).ok_or(Status::INVALID_FIELD)?;
        let controller = self.controller(slot);
        let value = match (sqe.cdw11(), size) {
            (offset::CAP, PropertySize::Eight) => {
                Capabilities::fabrics(self.config.limits.queue_entries_max, READY_TIMEOUT).0
            }
            (offset::VS, PropertySize::Four) => u64::from(VERSION.0),
            (offset::CC, PropertySize::Four) => u64::from(controller.configuration().0),
            (offset::CSTS, PropertySize::Four) => u64::from(controller.status(now).0),
            (offset::CRTO, PropertySize::Four) => u64::from(READY_TIMEOUT),
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok(Action::reply(Cqe::success(sqe.cid()).with_result(value)))
    }

    pub(super) fn property_set(&mut self, now: Instant, slot: usize, sqe: &Sqe) -> Result<Action, Status> {
        let size = PropertySize::from_attributes(sqe.cdw10()).ok_or(Status::INVALID_FIELD)?;
        if (sqe.cdw11(), size) != (offset::CC, PropertySize::Four) {
            return Err(Status::INVALID_FIELD);
        }
        match self.controller_mut(slot).configure(now, Configuration(sqe.cdw12())) {
            Transition::Reset(requests) => {
                let queue = self.controller(slot).admin;
                self.outputs.extend(requests.into_iter().map(|cid| Output::Forget { queue, cid }));
                self.close_io_queues(slot, CloseReason::ControllerReset);
            }
            Transition::Enabled => self.controllers.expect_timeout(slot),
            Transition::None => {}
        }
        Ok(Action::reply(Cqe::success(sqe.cid())))
    }
}
