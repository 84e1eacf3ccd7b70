//! The target side of one subsystem: its controllers and namespaces, and what every command means.
//!
//! The caller owns transport, devices and time. A connection's first command goes to
//! [`Subsystem::on_connect`], all others to [`Subsystem::on_command`]; the answer says what to do.
//! [`Subsystem::poll`] says what to do without a command. The discovery subsystem is the same struct with
//! another role. One thread owns a subsystem; it can be moved to another thread.
//!
//!   Connect --> on_connect --> Connected | refusal
//!   SQE, data --> on_command --> Reply | Io --(device)--> on_io_completed
//!   time --> poll --> Complete (an event) | CloseQueue
//!   namespaces, addresses, hosts change --> events to the hosts
//!
//! An IO command costs a few table look-ups and no allocation (`io`). Admin commands are rare; `Limits`
//! bounds their cost.
//!
//! Holds: every command gets exactly one answer, whatever its bytes (`any_command_gets_an_answer` in
//!        `tests/controller/robustness.rs`).
//! Elsewhere: structures are in `spec`, commands and their data in `queue`, PDUs in `tcp`.

mod abort;
mod action;
mod admin;
mod binding;
mod config;
mod connect;
mod controller;
mod controller_ids;
mod controllers;
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
mod queues;
mod registrants;
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
pub use connect::{Arrival, ConnectBounds, read_connect, unknown_subsystem};
pub use controller_ids::ControllerIds;
pub use discovery::{DiscoveryAddress, DiscoveryRecord};
pub use identity::derived_uuid;
pub use reservation::Reservations;
pub use reservation_terms::{
    Access, Grant, Held, Identity, Outcome, Registrant, ReservationChange, ReservationHost, RestoreError,
    SavedReservations, StrangerGrant,
};

use crate::spec::{AnaState, Cqe, Nqn, Sqe, Status, event::EventKind};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use controller::Controller;
use controllers::Controllers;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use health::FailedCommand;
use namespaces::Namespaces;
use queues::{Queue, Queues};
use units::{Bytes, Instant, Nanos};

/// A subsystem. See the module documentation.
#[derive(Clone, Debug)]
pub struct Subsystem {
    config: SubsystemConfig,
    namespaces: Namespaces,
    controllers: Controllers,
    queues: Queues,
    bindings: binding::Bindings,
    /// Hosts that the configuration of the target names, for this subsystem or elsewhere.
    named: Arc<BTreeSet<Nqn>>,
    /// In kelvin; `None` if it is not known.
    temperature: Option<u16>,
    under_way: persistence::UnderWay,
    discovery: discovery::Records,
    outputs: VecDeque<Output>,
}

impl Subsystem {
    /// A subsystem without controllers.
    pub fn new(config: SubsystemConfig) -> Result<Subsystem, ConfigError> {
        config.check()?;
        Ok(Subsystem {
            namespaces: Namespaces::new(&config),
            config,
            controllers: Controllers::default(),
            temperature: None,
            queues: Queues::default(),
            bindings: binding::Bindings::default(),
            named: Arc::default(),
            under_way: persistence::UnderWay::default(),
            discovery: discovery::Records::default(),
            outputs: VecDeque::new(),
        })
    }

    /// Its NQN.
    pub fn nqn(&self) -> &Nqn {
        &self.config.nqn
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Changes the longest keep-alive timeout that hosts may request from now on.
    pub fn set_keep_alive_max(&mut self, millis: u32) {
        self.config.limits.keep_alive_max = millis;
    }

    /// The hosts that the configuration of the target names, for this subsystem or elsewhere. Hosts that it does
    /// not name never win against them.
    pub fn set_named(&mut self, named: Arc<BTreeSet<Nqn>>) {
        self.named = named;
    }

    /// Whether the configuration names a host.
    fn is_named(&self, host: &Nqn) -> bool {
        self.config.hosts.lists(host) || self.named.contains(host)
    }

    /// A command of a connected queue, with its data if the host sends any. The buffer may be longer than the
    /// data.
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

    /// An `Action::Io` has ended with `status`. Updates the controller's counters and error log.
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

    /// The host aborted command `cid`, which was `Action::Pending`. It gets no completion from here.
    pub fn on_given_up(&mut self, key: QueueKey, cid: u16) {
        let Some(&Queue { controller: Some(slot), .. }) = self.queue(key) else { return };
        self.controller_mut(slot).events.give_up(cid);
        self.outputs.retain(
            |output| !matches!(output, Output::Complete { queue, cqe } if *queue == key && cqe.cid() == cid),
        );
    }

    /// The next action that no command has caused. Call it until it returns `None`: after every other call,
    /// and at `next_timeout`.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        self.expire(now);
        self.outputs.pop_front()
    }

    /// When to call `poll` next if nothing else happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.controllers.next_check()
    }

    /// Extends the hosts' keep-alive timeouts by a time in which the target did not run: hosts are not to
    /// blame for it.
    pub fn extend(&mut self, by: Nanos) {
        self.controllers.extend(by);
    }

    fn expire(&mut self, now: Instant) {
        while let Some(slot) = self.controllers.take_due(now) {
            if self.controller_mut(slot).keep_alive.has_expired(now) {
                self.end_controller(slot, CloseReason::KeepAliveTimeout, None);
            } else {
                self.controllers.expect_timeout(slot);
            }
        }
    }

    /// The local address of a connection, for discovery records that return it.
    pub fn set_local_address(&mut self, key: QueueKey, local: SocketAddr) {
        if let Some(&Queue { controller: Some(slot), .. }) = self.queue(key) {
            self.controller_mut(slot).local = Some(local);
        }
    }

    /// The peer address of a connection. Hosts that the configuration does not name are counted by it.
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

    /// The bounds of a Connect to it.
    pub fn connect_bounds(&self) -> ConnectBounds {
        self.config.connect_bounds()
    }

    /// All controllers, each with its host.
    pub fn controllers(&self) -> impl Iterator<Item = (u16, &Nqn)> {
        self.controllers.iter().map(|controller| (controller.id, &controller.host_nqn))
    }

    /// The reservations of a namespace, if it exists.
    pub fn reservations(&self, nsid: u32) -> Option<&Reservations> {
        Some(&self.namespaces.get(nsid)?.reservations)
    }

    /// All namespaces, each with its UUID.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, &NamespaceInfo, [u8; 16])> {
        self.namespaces.iter().map(|(nsid, namespace)| (nsid, &namespace.info, namespace.uuid))
    }

    /// Adds a namespace and sends the hosts an event.
    pub fn add_namespace(&mut self, nsid: u32, info: NamespaceInfo) -> Result<(), ConfigError> {
        self.config.check_namespace(nsid, &info)?;
        if self.namespaces.get(nsid).is_some() {
            return Err(ConfigError::NamespaceExists(nsid));
        }
        self.namespaces.insert(&self.config, nsid, info);
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Removes a namespace and its reservations (stored ones stay stored), and sends the hosts an event. IO
    /// that was already passed on may still end.
    pub fn remove_namespace(&mut self, nsid: u32) -> Result<(), ConfigError> {
        self.namespaces.remove(nsid)?;
        self.orphan_reservations(nsid);
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Changes the size of a namespace (in blocks) and sends the hosts an event.
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

    /// Makes a namespace read-only, or writable again, and sends the hosts an event.
    pub fn protect_namespace(&mut self, nsid: u32, read_only: bool) -> Result<(), ConfigError> {
        let namespace = self.namespaces.get_mut(nsid).ok_or(ConfigError::NoSuchNamespace(nsid))?;
        namespace.read_only = read_only;
        namespace.info.read_only = read_only;
        self.namespace_changed(nsid);
        Ok(())
    }

    /// Sets the number of allocated blocks of a namespace, for Identify. Does nothing if the namespace does
    /// not exist.
    pub fn set_allocated(&mut self, nsid: u32, blocks: u64) {
        if let Some(namespace) = self.namespaces.get_mut(nsid) {
            namespace.allocated = Some(blocks);
        }
    }

    /// Sets the temperature of the drive, in kelvin, for the health page; `None` if it is not known.
    pub fn set_temperature(&mut self, kelvin: Option<u16>) {
        self.temperature = kelvin;
    }

    /// Changes the access state of an ANA group, and sends the hosts an event if a namespace is in it.
    pub fn set_ana_state(&mut self, group: u32, state: AnaState) -> Result<(), ConfigError> {
        self.config.check_group(group)?;
        if self.namespaces.set_state(group, state) {
            self.raise_for_all(EventKind::AnaChanged);
        }
        Ok(())
    }

    /// Withholds all namespaces from hosts: they are inaccessible, whatever the states of their groups, until they are released. Sends the
    /// hosts an event if a namespace has another state then. Those in persistent loss stay so.
    pub fn withhold_namespaces(&mut self, is_withheld: bool) {
        if self.namespaces.set_withheld(is_withheld) {
            self.raise_for_all(EventKind::AnaChanged);
        }
    }

    /// Moves a namespace to another ANA group, and sends the hosts events: their access log and Identify have another group.
    pub fn set_ana_group(&mut self, nsid: u32, group: u32) -> Result<(), ConfigError> {
        self.config.check_group(group)?;
        match self.namespaces.set_group(nsid, group) {
            None => return Err(ConfigError::NoSuchNamespace(nsid)),
            Some(false) => return Ok(()),
            Some(true) => {}
        }
        self.raise_for_all(EventKind::AnaChanged);
        self.namespace_changed(nsid);
        Ok(())
    }

    fn namespace_changed(&mut self, nsid: u32) {
        self.controllers.iter_mut().for_each(|controller| controller.changed.add(nsid));
        self.raise_for_all(EventKind::NamespaceChanged);
    }

    fn raise_for_all(&mut self, kind: EventKind) {
        for controller in self.controllers.iter_mut() {
            if let Some(cqe) = controller.events.raise(kind) {
                self.outputs.push_back(Output::Complete { queue: controller.admin, cqe });
            }
        }
    }

    /// Ends a controller. Its connections are to be closed, except `gone`, which is closed already.
    fn end_controller(&mut self, slot: usize, reason: CloseReason, gone: Option<QueueKey>) {
        self.close_io_queues(slot, reason);
        let Some(controller) = self.controllers.remove(slot) else { return };
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
            if reason == CloseReason::ControllerReset {
                self.queues.holds_up_reset(key, (slot, id));
            }
        }
    }

    fn close_queue(&mut self, key: QueueKey, reason: CloseReason) {
        self.queues.on_closing(key);
        self.outputs.push_back(Output::CloseQueue { queue: key, reason });
    }

    #[inline]
    fn queue(&self, key: QueueKey) -> Option<&Queue> {
        self.queues.get(key)
    }

    #[inline]
    fn controller(&self, slot: usize) -> &Controller {
        self.controllers.find(slot).expect("a queue refers to an existing controller")
    }

    #[inline]
    fn controller_mut(&mut self, slot: usize) -> &mut Controller {
        self.controllers.find_mut(slot).expect("a queue refers to an existing controller")
    }
}

impl Action {
    fn reply(cqe: Cqe) -> Action {
        Action::Reply { cqe, data: None }
    }

    /// Drops zeroes at the end: bytes after the data of a reply are zeroes anyway.
    fn reply_with(cqe: Cqe, mut data: Vec<u8>) -> Action {
        let length = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        data.truncate(length);
        data.shrink_to_fit();
        Action::Reply { cqe, data: Some(data) }
    }
}

/// The unit in which peer addresses are counted: an IPv4 address, or an IPv6 /64 network, because one IPv6
/// host can use all of it.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        },
    }
}

/// Refuses a command if its descriptor has another length than `length` bytes.
fn exact_length(sqe: &Sqe, length: usize) -> Result<(), Status> {
    if sqe.sgl_length() as usize == length { Ok(()) } else { Err(Status::DATA_SGL_LENGTH_INVALID) }
}

/// The first `length` bytes that the host sent. Refused if its descriptor has fewer.
fn write_data<'a>(sqe: &Sqe, data: Option<&'a [u8]>, length: usize) -> Result<&'a [u8], Status> {
    let sent = (sqe.sgl_length() as usize).min(data.map_or(0, <[u8]>::len));
    data.and_then(|data| data[..sent].get(..length)).ok_or(Status::DATA_SGL_LENGTH_INVALID)
}
