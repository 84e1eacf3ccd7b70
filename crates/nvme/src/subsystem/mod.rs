//! The target side of one subsystem: controllers, namespaces, and what every command to them means.
//!
//! Transport, devices and time are the caller's. A connection's first command goes to [`Subsystem::on_connect`], all others
//! to [`Subsystem::on_command`], whose answer says what to do; [`Subsystem::poll`] says what to do unasked. The same machine
//! is the discovery subsystem, with another role. One thread owns a subsystem; it can be moved to another.
//!
//!   Connect --> on_connect --> Connected | refusal
//!   SQE, data --> on_command --> Reply | Io --(device)--> on_io_completed
//!   time --> poll --> Complete (an event) | CloseQueue
//!   namespaces, addresses, hosts change --> events to the hosts
//!
//! An IO command on an IO queue is checked with two table look-ups and no allocation (`io`). Admin commands come rarely and
//! may cost what they like, within `Limits`.
//!
//! Holds: every command gets exactly one answer, whatever its bytes (`any_command_gets_an_answer` in
//!        `tests/controller/robustness.rs`).
//! Elsewhere: structures are `spec`, PDUs and data transfer `connection`.

mod abort;
mod action;
mod admin;
mod binding;
mod census;
mod config;
mod connect;
mod controller;
mod copy;
mod discovery;
mod events;
mod features;
mod fused;
mod health;
mod identify;
mod identity;
mod io;
mod keep_alive;
mod logs;
mod namespaces;
mod notification;
mod persistence;
mod properties;
mod reservation;
mod reservation_commands;
mod reservation_terms;

pub use abort::ABORTS_MAX;
pub use action::{
    Action, BlockRange, CloseReason, Connected, FusedAction, IoCommand, IoOp, Output, PriorityClass, QueueKey,
};
pub use config::{
    BlockSize, ConfigError, HostAccess, Limits, NamespaceInfo, OptionalCommands, Role, SubsystemConfig,
};
pub use connect::{read_connect, unknown_subsystem};
pub use discovery::{DiscoveryAddress, DiscoveryRecord};
pub use identity::derived_uuid;
pub use reservation::Reservations;
pub use reservation_terms::{
    Access, Grant, Held, Identity, Outcome, Registrant, ReservationChange, RestoreError, SavedReservations,
    StrangerGrant,
};

use crate::spec::{AnaState, Cqe, HostId, Nqn, Sqe, Status, event::EventKind};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use census::Census;
use controller::Controller;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use health::FailedCommand;
use namespaces::Namespaces;
use units::{Bytes, Instant};

/// A subsystem. See the module.
#[derive(Clone, Debug)]
pub struct Subsystem {
    config: SubsystemConfig,
    namespaces: Namespaces,
    controllers: Vec<Option<Controller>>,
    controller_id_last: u16,
    /// Indexed by `QueueKey::slot`.
    queues: Vec<Option<Queue>>,
    bindings: binding::Bindings,
    under_way: persistence::UnderWay,
    discovery: discovery::Records,
    outputs: VecDeque<Output>,
    census: Census,
}

/// A connection whose Connect succeeded.
#[derive(Clone, Copy, Debug)]
struct Queue {
    key: QueueKey,
    /// `None` once the controller has ended: the connection is about to be closed.
    controller: Option<usize>,
    queue_id: u16,
    /// Whose it is; outlives the controller, as commands on devices do.
    host_id: HostId,
    /// The controller that was reset and waits for the commands of this queue to end: its place and identifier.
    resets: Option<(usize, u16)>,
}

impl Subsystem {
    /// A subsystem without controllers.
    pub fn new(config: SubsystemConfig) -> Result<Subsystem, ConfigError> {
        config.check()?;
        Ok(Subsystem {
            namespaces: Namespaces::new(&config),
            config,
            controllers: Vec::new(),
            controller_id_last: 0,
            queues: Vec::new(),
            bindings: binding::Bindings::default(),
            under_way: persistence::UnderWay::default(),
            discovery: discovery::Records::default(),
            outputs: VecDeque::new(),
            census: Census::default(),
        })
    }

    /// Its name.
    pub fn nqn(&self) -> &Nqn {
        &self.config.nqn
    }

    /// Its bounds.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Changes the longest keep-alive time-out that hosts may ask for from now on.
    pub fn set_keep_alive_max(&mut self, millis: u32) {
        self.config.limits.keep_alive_max = millis;
    }

    /// A command of a connected queue, with its data if the host sends some. The data may lie in a longer buffer.
    #[inline]
    pub fn on_command(&mut self, now: Instant, key: QueueKey, sqe: &Sqe, data: Option<&[u8]>) -> Action {
        let Some(&Queue { controller: Some(slot), queue_id, .. }) = self.queue(key) else {
            return Action::reply(Cqe::new(sqe.cid(), Status::COMMAND_SEQUENCE_ERROR));
        };
        let answer = match queue_id {
            0 => self.on_admin_command(now, slot, sqe, data),
            _ => self.on_io_command(key, slot, sqe, data),
        };
        answer.unwrap_or_else(|status| self.refuse(slot, queue_id, sqe, status))
    }

    #[cold]
    fn refuse(&mut self, slot: usize, queue_id: u16, sqe: &Sqe, status: Status) -> Action {
        self.controller_mut(slot).health.on_failure(FailedCommand::new(queue_id, sqe), status);
        Action::reply(Cqe::new(sqe.cid(), status))
    }

    /// An `Action::Io` has ended with `status`; keeps the controller's counters and its error log.
    #[inline]
    pub fn on_io_completed(&mut self, key: QueueKey, cid: u16, command: &IoCommand, status: Status) {
        let Some(&Queue { controller: Some(slot), queue_id, .. }) = self.queue(key) else { return };
        let shift = self.namespaces.get(command.nsid).map_or(0, |namespace| namespace.block_shift);
        let health = &mut self.controller_mut(slot).health;
        if !status.is_success() {
            let failed = FailedCommand { queue_id, cid, nsid: command.nsid, lba: command.lba.0 };
            health.on_failure(failed, status);
            return;
        }
        let bytes = Bytes(u64::from(command.blocks) << shift);
        match command.op {
            IoOp::Read | IoOp::Compare | IoOp::Verify => health.on_read(bytes),
            IoOp::Write => health.on_write(bytes),
            IoOp::Copy(_) | IoOp::CompareAndWrite => {
                health.on_read(bytes);
                health.on_write(bytes);
            }
            IoOp::WriteZeroes { .. } | IoOp::Flush | IoOp::Deallocate(_) => {}
        }
    }

    /// A host has given up the command `cid`, which was `Action::Pending`: it is not to be completed.
    pub fn on_given_up(&mut self, key: QueueKey, cid: u16) {
        let Some(&Queue { controller: Some(slot), .. }) = self.queue(key) else { return };
        self.controller_mut(slot).events.give_up(cid);
        self.outputs.retain(
            |output| !matches!(output, Output::Complete { queue, cqe } if *queue == key && cqe.cid() == cid),
        );
    }

    /// What the subsystem wants unasked. Call until it answers `None`, after every other call and at `next_timeout`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        self.expire(now);
        self.outputs.pop_front()
    }

    /// When `poll` may have something to say although nothing else happened.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.census.first_deadline().map(|(at, _)| at)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, slot)) = self.census.first_deadline().filter(|(at, _)| *at <= now) {
            self.watch(slot, None);
            if self.controller_mut(slot).keep_alive.has_expired(now) {
                self.end_controller(slot, CloseReason::KeepAliveTimeout, None);
            } else {
                self.expect_timeout(slot);
            }
        }
    }

    /// A controller's keep-alive timer was started. That it was put off meanwhile is found out when it would have run out.
    fn expect_timeout(&mut self, slot: usize) {
        let controller = self.controller(slot);
        let deadline = controller.keep_alive.deadline();
        if deadline < controller.watched.unwrap_or(Instant::FAR_FUTURE) {
            self.watch(slot, Some(deadline));
        }
    }

    fn watch(&mut self, slot: usize, at: Option<Instant>) {
        let before = core::mem::replace(&mut self.controller_mut(slot).watched, at);
        self.census.watch(slot, before, at);
    }

    /// The address that a connection came to, for discovery records that tell it back.
    pub fn set_local_address(&mut self, key: QueueKey, local: SocketAddr) {
        if let Some(&Queue { controller: Some(slot), .. }) = self.queue(key) {
            self.controller_mut(slot).local = Some(local);
        }
    }

    /// Where a connection comes from, which hosts that nobody has named are counted by.
    pub fn set_peer_address(&mut self, key: QueueKey, peer: IpAddr) {
        if let Some(&Queue { controller: Some(slot), .. }) = self.queue(key) {
            self.controller_mut(slot).peer = Some(network_of(peer));
        }
    }

    /// Whether completions on this queue carry credits.
    pub fn credits(&self, key: QueueKey) -> bool {
        let slot = self.queue(key).and_then(|queue| queue.controller);
        slot.is_some_and(|slot| self.controller(slot).features.credits)
    }

    /// Controllers now, with the host of each.
    pub fn controllers(&self) -> impl Iterator<Item = (u16, &Nqn)> {
        self.controllers.iter().flatten().map(|controller| (controller.id, &controller.host_nqn))
    }

    /// A namespace's reservations, if there is such a namespace.
    pub fn reservations(&self, nsid: u32) -> Option<&Reservations> {
        Some(&self.namespaces.get(nsid)?.reservations)
    }

    /// Namespaces now, with the UUID each is known by.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, &NamespaceInfo, [u8; 16])> {
        self.namespaces.iter().map(|(nsid, namespace)| (nsid, &namespace.info, namespace.uuid))
    }

    /// Adds a namespace and tells the hosts.
    pub fn add_namespace(&mut self, nsid: u32, info: NamespaceInfo) -> Result<(), ConfigError> {
        self.config.check_namespace(nsid, &info)?;
        if self.namespaces.get(nsid).is_some() {
            return Err(ConfigError::NamespaceExists(nsid));
        }
        self.namespaces.insert(&self.config, nsid, info);
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Removes a namespace, with its reservations (but for what is stored), and tells the hosts. IO that was already given out may still end.
    pub fn remove_namespace(&mut self, nsid: u32) -> Result<(), ConfigError> {
        self.namespaces.remove(nsid)?;
        self.orphan_reservations(nsid);
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Changes a namespace's size in blocks and tells the hosts.
    pub fn resize_namespace(&mut self, nsid: u32, blocks: u64) -> Result<(), ConfigError> {
        let namespace = self.namespaces.get(nsid).ok_or(ConfigError::NoSuchNamespace(nsid))?;
        let info = NamespaceInfo { blocks, ..namespace.info.clone() };
        self.config.check_namespace(nsid, &info)?;
        if let Some(namespace) = self.namespaces.get_mut(nsid) {
            namespace.blocks = blocks;
            namespace.info = info;
        }
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Tells how many blocks of a namespace have storage now, for Identify. Nothing happens if there is no such namespace.
    pub fn set_allocated(&mut self, nsid: u32, blocks: u64) {
        if let Some(namespace) = self.namespaces.get_mut(nsid) {
            namespace.allocated = Some(blocks);
        }
    }

    /// Changes how the namespaces of a group can be reached and tells the hosts.
    pub fn set_ana_state(&mut self, group: u32, state: AnaState) -> Result<(), ConfigError> {
        let most = self.config.limits.ana_groups_max;
        if group == 0 || group > most {
            return Err(ConfigError::AnaGroup { group, most });
        }
        if self.namespaces.set_state(group, state) {
            self.raise_for_all(EventKind::AnaChanged);
        }
        Ok(())
    }

    fn namespace_changed(&mut self, nsid: u32) {
        self.controllers.iter_mut().flatten().for_each(|controller| controller.changed.add(nsid));
        self.raise_for_all(EventKind::NamespaceChanged);
    }

    fn raise_for_all(&mut self, kind: EventKind) {
        for controller in self.controllers.iter_mut().flatten() {
            if let Some(cqe) = controller.events.raise(kind) {
                self.outputs.push_back(Output::Complete { queue: controller.admin, cqe });
            }
        }
    }

    /// IO queues of a host, with those whose controller has ended: their commands may still be on a device.
    fn io_queues_of(&self, host: HostId) -> impl Iterator<Item = QueueKey> {
        self.census.io_queues_of(host)
    }

    /// Ends a controller: its connections are to be closed, but for the one that is gone already.
    fn end_controller(&mut self, slot: usize, reason: CloseReason, gone: Option<QueueKey>) {
        self.close_io_queues(slot, reason);
        let Some(controller) = self.controllers[slot].take() else { return };
        self.census.remove(controller.id, &controller.host_nqn, controller.watched);
        if gone != Some(controller.admin) {
            self.close_queue(controller.admin, reason);
        }
    }

    fn close_io_queues(&mut self, slot: usize, reason: CloseReason) {
        let controller = self.controller_mut(slot);
        let queues = core::mem::take(&mut controller.io_queues);
        let id = controller.id;
        if reason == CloseReason::ControllerReset {
            controller.unfinished += queues.len();
        }
        for (_, key) in queues {
            self.close_queue(key, reason);
            if let Some(queue) = self.queues[key.slot as usize].as_mut()
                && reason == CloseReason::ControllerReset
            {
                queue.resets = Some((slot, id));
            }
        }
    }

    fn close_queue(&mut self, key: QueueKey, reason: CloseReason) {
        if let Some(queue) = &mut self.queues[key.slot as usize] {
            queue.controller = None;
        }
        self.outputs.push_back(Output::CloseQueue { queue: key, reason });
    }

    #[inline]
    fn queue(&self, key: QueueKey) -> Option<&Queue> {
        self.queues.get(key.slot as usize)?.as_ref().filter(|queue| queue.key == key)
    }

    fn insert_queue(&mut self, queue: Queue) {
        if queue.queue_id != 0 {
            self.census.add_queue(queue.host_id, queue.key);
        }
        let index = queue.key.slot as usize;
        if self.queues.len() <= index {
            self.queues.resize(index + 1, None);
        }
        self.queues[index] = Some(queue);
    }

    #[inline]
    fn controller(&self, slot: usize) -> &Controller {
        self.controllers[slot].as_ref().expect("a queue names a controller that lives")
    }

    #[inline]
    fn controller_mut(&mut self, slot: usize) -> &mut Controller {
        self.controllers[slot].as_mut().expect("a queue names a controller that lives")
    }
}

impl Action {
    fn reply(cqe: Cqe) -> Action {
        Action::Reply { cqe, data: None }
    }

    /// Zeroes at the end are not kept: they are what a reply has behind its data anyway.
    fn reply_with(cqe: Cqe, mut data: Vec<u8>) -> Action {
        let length = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        data.truncate(length);
        data.shrink_to_fit();
        Action::Reply { cqe, data: Some(data) }
    }
}

/// What somebody has who has one address: of IPv6, a whole network.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        },
    }
}

/// Refuses a command whose descriptor does not take exactly `length` bytes.
fn exact_length(sqe: &Sqe, length: usize) -> Result<(), Status> {
    if sqe.sgl_length() as usize == length { Ok(()) } else { Err(Status::DATA_SGL_LENGTH_INVALID) }
}

/// The first `length` bytes of what a host sent; refused if its descriptor says that there are fewer.
fn write_data<'a>(sqe: &Sqe, data: Option<&'a [u8]>, length: usize) -> Result<&'a [u8], Status> {
    let sent = (sqe.sgl_length() as usize).min(data.map_or(0, <[u8]>::len));
    data.and_then(|data| data[..sent].get(..length)).ok_or(Status::DATA_SGL_LENGTH_INVALID)
}
