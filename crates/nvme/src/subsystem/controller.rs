//! One controller: its settings, and the states of CC and CSTS.
//!
//!   disabled --EN 1--> ready --EN 0--> disabled          (reset: IO queues close, settings and events are dropped)
//!      ready --SHN--> shut down --EN 0--> disabled       (IO commands are refused; the host closes its connections)
//!      shut down --SHN 0--> shut down                    (only a reset revives the controller)
//!   disabled --EN 1 with unsupported settings--> fatal --EN 0--> disabled
//!
//! A reset is complete, and CSTS.RDY is 0, when all commands of the controller's IO queues have ended.
//! Commands that have not reached a device are taken back at once; the others end when the device completes
//! them. If the device hangs, the host must not wait forever: after CAP.TO, RDY becomes 0 anyway. The caller
//! then holds back new commands of this host until the old ones have ended. All other state changes are
//! immediate. Only the host writes CC, so a controller never leaves `ready` by itself. If the host
//! disconnects, the whole controller ends.
//!
//! Holds: IO is accepted only when ready and not shut down (`io_needs_a_ready_controller`), and a controller that
//!        was shut down stays so until it is reset (`only_a_reset_revives_a_controller_that_was_shut_down`, both in
//!        `tests/controller/subsystem.rs`).
//! NVM Express Base Specification: "Controller Configuration", "Controller Status", "Shutdown".

use super::action::QueueKey;
use super::events::Events;
use super::features::Features;
use super::health::Health;
use super::keep_alive::KeepAlive;
use super::notification::Notifications;
use super::properties::READY_TIMEOUT_SPAN;
use super::reservation_terms::Identity;
use crate::spec::discovery::TransportType;
use crate::spec::log::CHANGED_NAMESPACES_MAX;
use crate::spec::property::{Configuration, ControllerStatus, ShutdownNotification};
use crate::spec::{HostId, Nqn};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use units::Instant;

/// A controller.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub(super) id: u16,
    pub(super) host_nqn: Nqn,
    pub(super) host_id: HostId,
    pub(super) admin: QueueKey,
    /// Connected IO queues: identifier and connection.
    pub(super) io_queues: Vec<(u16, QueueKey)>,
    /// Whether an IO queue was connected since the last reset.
    pub(super) has_had_io_queues: bool,
    configuration: Configuration,
    status: ControllerStatus,
    pub(super) keep_alive: KeepAlive,
    /// IO queues that resets have closed and that still have commands on a device.
    pub(super) unfinished: usize,
    /// When the latest reset began.
    reset_at: Option<Instant>,
    pub(super) events: Events,
    pub(super) features: Features,
    pub(super) health: Health,
    pub(super) changed: ChangedNamespaces,
    pub(super) notifications: Notifications,
    /// The target's address that the host connected to.
    pub(super) local: Option<SocketAddr>,
    /// The transport of its queues.
    pub(super) transport: TransportType,
    /// The host's address, in the unit in which addresses are counted (`network_of`).
    pub(super) peer: Option<IpAddr>,
}

/// The effect of a write to CC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// None that other parts need to know.
    None,
    /// The controller became ready.
    Enabled,
    /// The controller was reset. These event requests are dropped without a completion.
    Reset(Vec<u16>),
}

impl Controller {
    pub(super) fn new(
        now: Instant,
        (id, admin): (u16, QueueKey),
        (host_nqn, host_id): (Nqn, HostId),
        keep_alive: KeepAlive,
        limits: &super::config::Limits,
    ) -> Controller {
        Controller {
            id,
            host_nqn,
            host_id,
            admin,
            io_queues: Vec::new(),
            has_had_io_queues: false,
            configuration: Configuration::default(),
            status: ControllerStatus::default(),
            keep_alive,
            unfinished: 0,
            reset_at: None,
            events: Events::new(usize::from(limits.event_requests_max)),
            features: Features::default(),
            health: Health::new(now, limits.error_log_entries),
            changed: ChangedNamespaces::default(),
            notifications: Notifications::default(),
            local: None,
            transport: TransportType::Tcp,
            peer: None,
        }
    }

    /// CC.
    pub(super) fn configuration(&self) -> Configuration {
        self.configuration
    }

    /// CSTS.
    pub(super) fn status(&self, now: Instant) -> ControllerStatus {
        let resets = self.unfinished > 0 && self.reset_at.is_some_and(|at| now < at + READY_TIMEOUT_SPAN);
        ControllerStatus(self.status.0 | if resets { ControllerStatus::RDY } else { 0 })
    }

    /// The host, as reservations identify it.
    #[inline]
    pub(super) fn identity(&self) -> Identity<'_> {
        Identity { id: self.host_id, nqn: &self.host_nqn }
    }

    /// Whether admin commands are accepted (fabrics commands always are).
    pub(super) fn is_ready(&self) -> bool {
        self.status.ready()
    }

    /// Whether IO commands are accepted.
    #[inline]
    pub(super) fn accepts_io(&self) -> bool {
        self.status.0 & (ControllerStatus::RDY | ControllerStatus::SHST_MASK) == ControllerStatus::RDY
    }

    /// The host writes CC.
    pub(super) fn configure(&mut self, now: Instant, configuration: Configuration) -> Transition {
        let before = core::mem::replace(&mut self.configuration, configuration);
        let mut transition = Transition::None;
        match (before.enable(), configuration.enable()) {
            (false, true) if configuration.is_supported() => {
                // A shutdown that was requested while the controller was disabled ends here: the controller
                // starts again.
                self.status.0 &= !ControllerStatus::SHST_MASK;
                self.status.0 |= ControllerStatus::RDY;
                self.keep_alive.restart(now);
                self.reset_at = None;
                transition = Transition::Enabled;
            }
            (false, true) => self.status.0 |= ControllerStatus::CFS,
            (true, false) => {
                transition = Transition::Reset(self.reset());
                self.reset_at = Some(now);
            }
            _ => {}
        }
        if configuration.shutdown() == ShutdownNotification::Shutdown {
            self.status.0 |= ControllerStatus::SHST_COMPLETE;
        }
        transition
    }

    fn reset(&mut self) -> Vec<u16> {
        self.status = ControllerStatus::default();
        self.has_had_io_queues = false;
        self.features = Features::default();
        self.changed = ChangedNamespaces::default();
        self.notifications = Notifications::default();
        self.events.reset()
    }
}

/// The Changed Namespace List.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedNamespaces {
    nsids: BTreeSet<u32>,
    overflowed: bool,
}

impl ChangedNamespaces {
    pub(super) fn add(&mut self, nsid: u32) {
        if self.nsids.len() == CHANGED_NAMESPACES_MAX && !self.nsids.contains(&nsid) {
            self.overflowed = true;
        } else {
            self.nsids.insert(nsid);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = ChangedNamespaces::default();
    }

    /// The log page: a namespace list, or a single FFFFFFFFh if there were too many.
    pub(super) fn page(&self) -> Vec<u8> {
        use crate::spec::identify::{NSID_ALL, namespace_list};
        match self.overflowed {
            true => namespace_list([NSID_ALL].into_iter()),
            false => namespace_list(self.nsids.iter().copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::identify::read_namespace_list;

    #[test]
    fn too_many_changes_are_reported_as_all() {
        let mut changed = ChangedNamespaces::default();
        (1..=1024).for_each(|nsid| changed.add(nsid));
        changed.add(7);
        assert_eq!(read_namespace_list(&changed.page()).count(), 1024);
        changed.add(1025);
        assert!(read_namespace_list(&changed.page()).eq([0xffff_ffff]));
        changed.clear();
        assert_eq!(read_namespace_list(&changed.page()).count(), 0);
    }
}
