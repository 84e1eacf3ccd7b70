//! The discovery service: its connections stay on the acceptor's thread.
//!
//! A host that connects to discovery always gets in. If that exceeds a limit, another connection is evicted: one from the same
//! address for the limit per address, otherwise the oldest one from the address with the most connections.
//!
//! Log pages and Identify data cost memory and work. So these commands wait until their replies are paid for (`replies`).
//!
//! Holds: discovery connections are bounded in all and per address (`tests/bad_peers/strangers.rs`).

use super::{Acceptor, CONNECTION_MEMORY, Entry, Stage, queue_of};
use crate::account::{ConnectionAccount, HostAccount, Permit};
use crate::log_throttle::Subject;
use crate::payload::Payload;
use crate::quota::Origin;
use crate::replies::{self, ReplyRate, Wait};
use crate::slab::Key;
use nvme::buffer::Buffer;
use nvme::spec::connect::ConnectData;
use nvme::spec::{Cqe, Sqe, Status};
use nvme::subsystem::{Action, Arrival, Output};
use tracing::info;
use units::Instant;

impl Acceptor {
    /// Connects a host to the discovery service. For a subsystem that does not exist, the discovery subsystem refuses. `proved`: the
    /// controller, if Connect was answered before the host proved who it is.
    pub(super) fn connect_discovery(
        &mut self,
        now: Instant,
        key: Key,
        sqe: &Sqe,
        data: &ConnectData,
        proved: Option<u16>,
    ) -> Result<(), Cqe> {
        let transport = self.connections.get(key).expect("its command has just come").connection.transport();
        let arrival = Arrival { controller_id: proved, transport, ..Arrival::default() };
        let connected = self.parts.discovery.on_connect_from(now, queue_of(key), (sqe, data), arrival)?;
        let origin = Origin::of(self.peer_ip(key));
        self.evict_from_discovery(now, origin);
        self.discovery_connections.insert(key, origin, now);
        let payer = self.accounts.payer(Some(connected.host_nqn.as_str()), self.peer_ip(key));
        let entry = self.connections.get_mut(key).expect("its command has just come");
        if let Some(local) = entry.local {
            self.parts.discovery.set_local_address(queue_of(key), local);
        }
        if proved.is_none() {
            entry.connection.set_up(&connected);
            entry.connection.reply(connected.cqe);
        } else {
            entry.connection.allow_transfers();
        }
        entry.stage = Stage::Discovery;
        entry.connection.set_account(ConnectionAccount::new(
            CONNECTION_MEMORY,
            HostAccount::new(None),
            payer,
        ));
        self.handshakes.remove(key);
        let peer = entry.connection.peer();
        if self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
            info!(%peer, host = connected.host_nqn.as_str(), "connected to discovery");
        }
        Ok(())
    }

    /// Evicts connections until one more from `origin` is within the limits.
    fn evict_from_discovery(&mut self, now: Instant, origin: Origin) {
        let limits = &self.parts.limits;
        let (all, each) = (limits.discovery_connections as usize, limits.discovery_per_address as usize);
        let why = "evicted by a newer discovery connection from its address: limits.discovery_per_address is reached";
        while self.discovery_connections.count_from(origin) >= each {
            let Some(out) = self.discovery_connections.oldest_from(origin) else { break };
            self.close(now, out, Subject::Dropped, why);
        }
        while self.discovery_connections.len() >= all {
            let Some(out) = self.discovery_connections.victim() else { break };
            self.close(
                now,
                out,
                Subject::Dropped,
                "evicted by a newer discovery connection: limits.discovery_connections is reached",
            );
        }
    }

    /// A command for discovery. It waits until memory for its reply is granted.
    pub(super) fn on_discovery_command(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>) {
        let length = replies::asked_of_controller(&sqe, true);
        if length == 0 {
            return self.execute(now, key, sqe, data, None);
        }
        let Some(entry) = self.connections.get_mut(key) else { return };
        let is_first = entry.backlog.commands.is_empty();
        let rate = ReplyRate::of(&self.parts.limits);
        match is_first.then(|| replies::admit(entry.connection.account(), now, length, rate)) {
            Some(Ok(permit)) => self.execute(now, key, sqe, data, Some(permit)),
            _ => {
                entry.backlog.commands.push_back(sqe);
                if is_first {
                    self.deferred.push(now, key);
                }
            }
        }
    }

    /// Executes commands that waited for their replies to be granted.
    pub(super) fn serve_deferred(&mut self, now: Instant) {
        let rate = ReplyRate::of(&self.parts.limits);
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.serve(now, |key| {
            let Entry { connection, backlog, .. } = self.connections.get_mut(key)?;
            let sqe = *backlog.commands.front().filter(|_| !connection.is_ending())?;
            match backlog.owed.turn(connection.account(), now, replies::asked_of_controller(&sqe, true), rate)
            {
                Err(wait) => Some(wait),
                Ok(permit) => {
                    backlog.commands.pop_front();
                    self.execute(now, key, sqe, None, Some(permit));
                    self.flush(now, key);
                    Some(Wait::Turn)
                }
            }
        });
        self.deferred = deferred;
    }

    /// Executes a command for discovery. `permit` is for the data of its reply.
    fn execute(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>, permit: Option<Permit>) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let bytes = data.as_ref().map(Buffer::bytes);
        match self.parts.discovery.on_command(now, queue_of(key), &sqe, bytes) {
            Action::Reply { cqe, data } => match data.zip(permit) {
                Some((page, permit)) => entry.connection.reply_with_page(cqe, page, permit, sqe.sgl_length()),
                None => entry.connection.reply(cqe),
            },
            Action::Credits { cqe, .. } | Action::Fence { cqe, .. } => entry.connection.reply(cqe),
            // A discovery controller has no IO queues.
            Action::Abort { cqe, .. } => entry.connection.reply(cqe.abort_failed()),
            // Discovery has no namespaces, and no such feature. A host proves who it is once, before it gets here.
            Action::Io(_) | Action::Storing | Action::GrantQueues { .. } | Action::Authenticate(_) => {
                entry.connection.reply(Cqe::new(sqe.cid(), Status::INVALID_OPCODE));
            }
            Action::Pending => entry.connection.hold(sqe.cid()),
        }
        self.return_buffer(data);
    }

    /// Handles events and time-outs of the discovery subsystem.
    pub(super) fn run_discovery(&mut self, now: Instant) {
        while let Some(output) = self.parts.discovery.poll(now) {
            match output {
                Output::Complete { queue, cqe } => {
                    let key = Key::new(queue.slot, queue.generation);
                    if let Some(entry) = self.connections.get_mut(key) {
                        entry.connection.reply(cqe);
                        self.flush(now, key);
                    }
                }
                Output::Fence { .. } | Output::Store { .. } => {
                    unreachable!("discovery has no namespaces, so no reservations: {output:?}")
                }
                Output::Forget { queue, cid } => {
                    if let Some(entry) = self.connections.get_mut(Key::new(queue.slot, queue.generation)) {
                        entry.connection.forget(cid);
                    }
                }
                Output::CloseQueue { queue, reason } => {
                    let key = Key::new(queue.slot, queue.generation);
                    self.close(now, key, Subject::Ended, &format!("{reason:?}"));
                }
            }
        }
    }
}
