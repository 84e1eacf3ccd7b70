//! Converts the `[switch]` table into the constants of a scheduler.

use super::SwitchProfile;
use sched::{Cost, DeviceConstants};

impl From<&SwitchProfile> for DeviceConstants {
    fn from(switch: &SwitchProfile) -> DeviceConstants {
        DeviceConstants {
            thresh_min: switch.thresh_min,
            thresh_max: switch.thresh_max,
            write_cost_best: switch.write_cost_best,
            write_cost_worst: Cost::ratio(switch.write_cost_worst, 1),
            slots: switch.slots,
            rate_min: switch.rate_min,
            rate_max: switch.rate_max,
        }
    }
}
