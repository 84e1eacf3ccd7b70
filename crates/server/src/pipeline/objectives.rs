//! Changes of tenants' objectives of latency, for the log: kept, missed, lost, kept again.
//!
//! A scheduler with admission answers at once whether an objective is promised, tried or refused. Whether one that is tried can be kept shows within
//! seconds, and a promise may be lost when the SSD or the load changes. So the state of every objective is looked at once a second while the
//! device has IOs; each change is a line.
//!
//! Elsewhere: the same for programs is [`crate::TenantStats`]; how an objective is kept to is `sched`'s.

use super::Origin;
use crate::switch::Switch;
use sched::{Admitted, ObjectiveState, ObjectiveView, Refused};
use std::collections::HashMap;
use tracing::{info, warn};
use units::{Instant, Nanos, TenantId};

/// Time between two checks of the states.
const INTERVAL: Nanos = Nanos::secs(1);

/// See the module.
#[derive(Default)]
pub(super) struct ObjectiveWatch {
    next: Instant,
    /// The state of each that was logged last.
    said: HashMap<TenantId, ObjectiveState>,
}

impl ObjectiveWatch {
    /// A tenant's share has been set, with this answer of the scheduler about its objective.
    pub(super) fn on_share(
        &mut self,
        device: &str,
        (tenant, name): (TenantId, &str),
        answer: Result<Admitted, Refused>,
        has: bool,
    ) {
        self.said.remove(&tenant);
        match answer {
            Err(refused) => {
                self.said.insert(tenant, ObjectiveState::Refused(refused));
                warn!(%device, tenant = tenant.0, %name, %refused, "the tenant's objective cannot be kept; it is served without one");
            }
            Ok(Admitted::Tried) => {
                self.said.insert(tenant, ObjectiveState::Unknown);
                info!(%device, tenant = tenant.0, %name, "too little is known of the device to promise the tenant's objective; it is tried");
            }
            Ok(Admitted::Promised) if has => {
                info!(%device, tenant = tenant.0, %name, "the tenant's objective is promised")
            }
            Ok(Admitted::Promised) => {}
        }
    }

    /// A tenant is gone.
    pub(super) fn forget(&mut self, tenant: TenantId) {
        self.said.remove(&tenant);
    }

    /// Logs changes, if it is time.
    #[inline]
    pub(super) fn look(
        &mut self,
        now: Instant,
        device: &str,
        switch: &Switch<Origin>,
        name_of: impl Fn(TenantId) -> String,
    ) {
        if now >= self.next {
            self.next = now + INTERVAL;
            self.look_now(device, switch, name_of);
        }
    }

    #[cold]
    fn look_now(&mut self, device: &str, switch: &Switch<Origin>, name_of: impl Fn(TenantId) -> String) {
        for tenant in switch.objectives() {
            let view = switch.policy().tenant_view(tenant).and_then(|view| view.objective);
            let Some(view) = view else { continue };
            if self.said.insert(tenant, view.state) != Some(view.state) {
                say(device, tenant, &name_of(tenant), &view);
            }
        }
    }
}

fn say(device: &str, tenant: TenantId, name: &str, view: &ObjectiveView) {
    let tenant = tenant.0;
    let latency = view.latency.map_or_else(|| "unknown".to_owned(), |latency| latency.to_string());
    let [readers, writers] = view.left_to_others;
    let (ios, late) = (view.ios, view.late);
    match view.state {
        ObjectiveState::Unknown => info!(%device, tenant, %name, "the tenant's objective is tried"),
        ObjectiveState::Kept => {
            info!(%device, tenant, %name, %latency, readers, writers, "latency objective met; shares of the device, in percent, are left to readers and writers without one");
        }
        ObjectiveState::Missed => {
            warn!(%device, tenant, %name, %latency, ios, late, "the tenant's objective was missed in the last seconds; others are held back further");
        }
        ObjectiveState::Lost => {
            warn!(%device, tenant, %name, %latency, ios, late, "the tenant's objective cannot be kept, with others held back as far as they may be; they are not held back any more, and it is tried again later");
        }
        ObjectiveState::Refused(refused) => {
            warn!(%device, tenant, %name, %refused, "the tenant's objective cannot be kept; it is served without one");
        }
    }
}
