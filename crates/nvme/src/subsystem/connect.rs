//! Connect: a connection becomes a queue of a controller.
//!
//! Connect on queue 0 creates a controller; the others add IO queues to it. Controllers are dynamic. Their
//! identifiers count up through the range of the subsystem and wrap around, so an identifier is not reused soon: a late Connect of a
//! closed association does not reach a newer controller.
//!
//!   Connect 0 -> controller --> Connect 1..n -> IO queues; the end of queue 0 ends the controller and all its queues
//!
//! Elsewhere: which host NQN a host identifier belongs to is in `binding`.
//! Holds: no two controllers have the same identifier at the same time, and the number of controllers is limited, in
//!        total and per host (`the_number_of_controllers_is_limited_and_their_identifiers_differ` in
//!        `tests/controller/subsystem.rs`).
//! NVM Express Base Specification: "Connect Command and Response", "Association".

use super::action::{CloseReason, Connected, QueueKey};
use super::config::Role;
use super::controller::Controller;
use super::keep_alive::KeepAlive;
use super::reservation_terms::Identity;
use super::{Queue, Subsystem};
use crate::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, Culprit};
use crate::spec::discovery::TransportType;
use crate::spec::opcode::fabrics;
use crate::spec::{Cqe, Nqn, Sqe, Status};
use units::Instant;
use zerocopy::FromBytes;

/// Reads the first command of a connection. It must be a Connect with 1024 bytes of data. An error is the
/// completion to send before closing.
pub fn read_connect(sqe: &Sqe, data: Option<&[u8]>) -> Result<ConnectData, Cqe> {
    if !sqe.is_fabrics() || sqe.fctype() != fabrics::CONNECT {
        return Err(Cqe::new(sqe.cid(), Status::COMMAND_SEQUENCE_ERROR));
    }
    let data = data.filter(|_| sqe.sgl_length() as usize == ConnectData::SIZE).unwrap_or_default();
    let (data, _) = ConnectData::read_from_prefix(data)
        .map_err(|_| Cqe::new(sqe.cid(), Status::DATA_SGL_LENGTH_INVALID))?;
    Ok(data)
}

/// The completion of a Connect to a subsystem that does not exist here.
pub fn unknown_subsystem(sqe: &Sqe) -> Cqe {
    Culprit::SUBSYSTEM_NQN.refuse(sqe.cid())
}

/// Facts about the connection of a Connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whether it comes from where its host is. One controller of each host is kept for that.
    pub is_at_home: bool,
    /// The identifier of the new controller, if the host was told one already. The caller draws them in an order of its own: if the
    /// identifier is in use or not one of the subsystem's, the Connect is refused, and the host tries again.
    pub controller_id: Option<u16>,
    /// Its transport. All queues of a controller have the same.
    pub transport: TransportType,
}

impl Default for Arrival {
    /// From where its host is, with no identifier, over TCP.
    fn default() -> Arrival {
        Arrival { is_at_home: true, controller_id: None, transport: TransportType::Tcp }
    }
}

/// Bounds of a Connect that can be checked without knowledge of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectBounds {
    /// IO queues of a controller.
    pub io_queues_max: u16,
    /// Entries of a queue.
    pub queue_entries_max: u16,
    /// Longest keep-alive timeout, in milliseconds.
    pub keep_alive_max: u32,
}

impl ConnectBounds {
    /// Checks the fields of a Connect.
    ///
    /// # Errors
    /// The completion that refuses it.
    pub fn check(&self, sqe: &Sqe, data: &ConnectData) -> Result<ConnectCommand, Cqe> {
        let command = ConnectCommand::parse(sqe);
        let refusal = |status| Cqe::new(sqe.cid(), status);
        if command.record_format != 0 {
            return Err(refusal(Status::CONNECT_INCOMPATIBLE_FORMAT));
        }
        if command.sqsize == 0 || command.entries() > u32::from(self.queue_entries_max) {
            return Err(Culprit::SQSIZE.refuse(sqe.cid()));
        }
        if command.queue_id > self.io_queues_max {
            return Err(Culprit::QUEUE_ID.refuse(sqe.cid()));
        }
        if command.queue_id == 0 && data.controller_id() != CNTLID_DYNAMIC {
            return Err(Culprit::CONTROLLER_ID.refuse(sqe.cid()));
        }
        if command.queue_id == 0 && command.keep_alive_timeout > self.keep_alive_max {
            return Err(refusal(Status::KEEP_ALIVE_TIMEOUT_INVALID));
        }
        Ok(command)
    }
}

impl Subsystem {
    /// A connection's Connect command, read by [`read_connect`], from where its host is. An error is the
    /// completion to send before closing.
    ///
    /// # Panics
    /// If `key.slot` belongs to a queue that is still connected. That is a bug of the caller.
    pub fn on_connect(
        &mut self,
        now: Instant,
        key: QueueKey,
        sqe: &Sqe,
        data: &ConnectData,
    ) -> Result<Connected, Cqe> {
        self.on_connect_from(now, key, (sqe, data), Arrival::default())
    }

    /// The same, with facts that the caller knows about the connection.
    ///
    /// # Panics
    /// As `on_connect`.
    pub fn on_connect_from(
        &mut self,
        now: Instant,
        key: QueueKey,
        (sqe, data): (&Sqe, &ConnectData),
        arrival: Arrival,
    ) -> Result<Connected, Cqe> {
        if let Some(queue) = self.queues.in_slot(key.slot) {
            panic!("slot {} is given to {key:?}, but {:?} still uses it", key.slot, queue.key);
        }
        if !data.subsystem_nqn().is_some_and(|name| self.answers_to(&name)) {
            return Err(Culprit::SUBSYSTEM_NQN.refuse(sqe.cid()));
        }
        let host = data.host_nqn().ok_or_else(|| Culprit::HOST_NQN.refuse(sqe.cid()))?;
        if !self.config.hosts.allows(&host) {
            return Err(Cqe::new(sqe.cid(), Status::CONNECT_INVALID_HOST));
        }
        let command = self.config.connect_bounds().check(sqe, data)?;
        let slot = match command.queue_id {
            0 => self.connect_admin(now, key, (sqe, data), &command, host, arrival)?,
            queue_id => self.connect_io((key, queue_id), sqe, data, &host, arrival.transport)?,
        };
        let host = self.controller(slot).identity().to_owned();
        if self.config.role == Role::Io {
            self.bindings.bind(host.clone());
        }
        self.queues.insert(Queue {
            key,
            controller: Some(slot),
            queue_id: command.queue_id,
            host,
            resets: None,
        });
        let controller = self.controller(slot);
        Ok(Connected {
            cqe: Cqe::success(sqe.cid()).with_dw0(u32::from(controller.id)),
            controller_id: controller.id,
            queue_id: command.queue_id,
            entries: command.entries(),
            flow_control_disabled: command.disables_flow_control(),
            host_nqn: controller.host_nqn.clone(),
            host_id: controller.host_id,
            credits: controller.features.credits,
        })
    }

    fn answers_to(&self, name: &Nqn) -> bool {
        *name == self.config.nqn || self.config.role == Role::Discovery && name.as_str() == Nqn::DISCOVERY
    }

    fn connect_admin(
        &mut self,
        now: Instant,
        key: QueueKey,
        (sqe, data): (&Sqe, &ConnectData),
        command: &ConnectCommand,
        host: Nqn,
        Arrival { is_at_home, controller_id, transport }: Arrival,
    ) -> Result<usize, Cqe> {
        let limits = &self.config.limits;
        let ids = limits.controller_ids;
        let is_free = |id| ids.contains(id) && self.controllers.slot_of(id).is_none();
        if !controller_id.is_none_or(is_free)
            || self.controllers.len() >= usize::from(limits.controllers_max.min(ids.count()))
            || self.controllers.count_of(&host)
                + usize::from(!is_at_home && !self.controllers.has_one_at_home(&host))
                >= usize::from(limits.controllers_per_host_max)
        {
            return Err(Cqe::new(sqe.cid(), Status::CONNECT_CONTROLLER_BUSY));
        }
        if self.config.role == Role::Io
            && self.belongs_to_another(Identity { id: data.host_id(), nqn: &host })
        {
            return Err(Culprit::HOST_ID.refuse(sqe.cid()));
        }
        let kato = command.keep_alive_timeout;
        let keep_alive = match self.config.role {
            Role::Io => KeepAlive::new(now, kato),
            Role::Discovery => KeepAlive::of_discovery(now, kato),
        };
        let slot = self.controllers.add(
            now,
            (key, controller_id),
            (host, data.host_id(), is_at_home),
            keep_alive,
            &self.config.limits,
        );
        self.controller_mut(slot).transport = transport;
        Ok(slot)
    }

    fn connect_io(
        &mut self,
        (key, queue_id): (QueueKey, u16),
        sqe: &Sqe,
        data: &ConnectData,
        host: &Nqn,
        transport: TransportType,
    ) -> Result<usize, Cqe> {
        let slot = self.controllers.slot_of(data.controller_id());
        let slot = slot.ok_or_else(|| Culprit::CONTROLLER_ID.refuse(sqe.cid()))?;
        let controller = self.controller_mut(slot);
        if controller.host_nqn != *host {
            return Err(Culprit::HOST_NQN.refuse(sqe.cid()));
        }
        if controller.host_id != data.host_id() {
            return Err(Culprit::HOST_ID.refuse(sqe.cid()));
        }
        // The controller has told its host what this transport can do.
        if controller.transport != transport {
            return Err(Culprit::CONTROLLER_ID.refuse(sqe.cid()));
        }
        let taken = controller.io_queues.iter().any(|(taken, _)| *taken == queue_id);
        if !controller.accepts_io() || taken {
            return Err(Cqe::new(sqe.cid(), Status::COMMAND_SEQUENCE_ERROR));
        }
        controller.io_queues.push((queue_id, key));
        controller.has_had_io_queues = true;
        Ok(slot)
    }

    /// Removes a connection that was closed, when none of its commands is on a device any more. Ends the controller if
    /// this was its admin queue.
    pub fn on_disconnect(&mut self, _now: Instant, key: QueueKey) {
        let Some(queue) = self.queues.remove(key) else { return };
        let Queue { controller: slot, queue_id, host, resets, .. } = queue;
        self.bindings.release(&host);
        if let Some((slot, id)) = resets
            && let Some(controller) = self.controllers.find_mut(slot)
            && controller.id == id
        {
            controller.unfinished -= 1;
        }
        let Some(slot) = slot else { return };
        match queue_id {
            0 => self.end_controller(slot, CloseReason::AdminQueueClosed, Some(key)),
            _ => self.controller_mut(slot).io_queues.retain(|(_, other)| *other != key),
        }
    }

    /// Changes which hosts may connect. Ends the controllers of hosts that may not any more.
    pub fn set_hosts(&mut self, hosts: super::HostAccess) {
        self.config.hosts = hosts;
        for slot in self.controllers.slots() {
            let revoked = |controller: &Controller| !self.config.hosts.allows(&controller.host_nqn);
            if self.controllers.find(slot).is_some_and(revoked) {
                self.end_controller(slot, CloseReason::AccessRevoked, None);
            }
        }
    }
}
