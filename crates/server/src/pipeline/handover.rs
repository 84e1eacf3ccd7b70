//! The start of a session: a connection comes from the acceptor with its Connect command, and gets a thread that carries it.

use super::closing::Ending;
use super::message::Handover;
use super::sessions::Session;
use super::wires::Wire;
use super::{Phase, Pipeline, queue_of};
use crate::connections::message::{Carry, ToConnections};
use crate::log_throttle::Subject;
use crate::slab::Key;
use crate::transport::Moving;
use nvme::spec::connect::{ConnectData, Culprit};
use nvme::spec::{Cqe, Sqe};
use nvme::subsystem::{Arrival, Connected, unknown_subsystem};
use std::sync::Arc;
use tracing::{info, warn};
use units::{Bytes, Instant};

impl Pipeline {
    /// A connection comes from the acceptor, with a Connect command to be answered.
    pub(super) fn on_handover(&mut self, now: Instant, handover: Handover) {
        let Handover { mut moving, connect, connect_data, subsystem, tenant, .. } = handover;
        let Handover { is_at_home, proved, secured, admission, .. } = handover;
        let arrival = Arrival { is_at_home, controller_id: proved, transport: moving.transport() };
        let peer = moving.peer();
        if self.phase != Phase::Running {
            return info!(%peer, host = admission.host(), "a new connection is dropped: the target ends");
        }
        let limit = self.limits.memory_per_connection;
        let account = self.tenants.account(tenant, admission.host(), peer, limit);
        let mut session = Session::new(now, (peer, tenant, subsystem), admission, account);
        session.secured = secured;
        session.transport = moving.transport();
        session.is_proved = proved.is_some();
        let key = self.commands.sessions.insert(session);
        match self.connect(now, key, (&connect, &connect_data), arrival) {
            Ok(connected) => {
                moving.set_up(&connected);
                self.commands.sessions.on_connected(key, &connected);
                let thread = self.place(key);
                if self.commands.log_throttle.allows(now, peer.ip(), Subject::Connected) {
                    let host = self.host_of(key);
                    let (controller, queue) = (connected.controller_id, connected.queue_id);
                    info!(%peer, %host, device = %self.name, controller, queue, thread, "connected");
                }
                // A host that has proved who it is was answered before.
                let reply = proved.is_none().then_some(connected.cqe);
                let Some(thread) = thread else { return self.carry(now, key, moving, reply, false) };
                let owner = self.commands.wires.owner(key);
                let (connected, host) = (reply, self.host_of(key));
                let carry = Carry { moving, connected, owner, host };
                self.send_to(now, key, thread, carry);
            }
            Err(refusal) => {
                if self.commands.log_throttle.allows(now, peer.ip(), Subject::Refused) {
                    let (host, status) = (self.host_of(key), refusal.status());
                    let names = |culprit: Culprit| refusal == culprit.refuse(refusal.cid());
                    if names(Culprit::HOST_ID) {
                        warn!(%peer, %host, %status, "Connect refused: HOSTID belongs to another host NQN, by a connection or a registration");
                    } else {
                        warn!(%peer, %host, %status, "Connect refused");
                    }
                }
                match proved {
                    None => self.carry(now, key, moving, Some(refusal), true),
                    // Connect was answered: all that is left is to close the connection.
                    Some(_) => self.commands.retire_if_done(now, key),
                }
            }
        }
    }

    /// The host of a session.
    fn host_of(&self, key: Key) -> Arc<str> {
        self.commands.sessions.get(key).expect("it is there").admission.shared_host()
    }

    /// Finds the thread that is to carry a new queue: IO queues go to the one with least to do. The answer is `None` for this one.
    fn place(&mut self, key: Key) -> Option<usize> {
        let session = self.commands.sessions.get(key).expect("just inserted");
        if session.queue_id == 0 {
            return None;
        }
        let (thread, burdens) = self.commands.wires.place();
        let (tenant, peer, host) = (session.tenant, session.peer, session.admission.shared_host());
        if thread.is_some() {
            // The other half of the connection's limit is for arriving data, which the other thread counts.
            let half = Bytes(self.limits.memory_per_connection.get() / 2);
            let account = self.tenants.account(tenant, &host, peer, half);
            self.commands.sessions.get_mut(key).expect("just inserted").account = account;
        }
        self.commands.sessions.get_mut(key).expect("just inserted").burdens = burdens;
        thread
    }

    /// Has another thread carry a connection.
    fn send_to(&mut self, now: Instant, key: Key, thread: usize, carry: Carry) {
        self.commands.sessions.get_mut(key).expect("just inserted").wire = Wire::Opening { thread };
        if !self.commands.wires.push(thread, ToConnections::Carry(Box::new(carry))) {
            self.commands.on_ended(now, key, Ending::ThreadFailed);
        }
    }

    /// Carries a connection here, and replies to its Connect unless that was done before: the last reply if it is a refusal.
    fn carry(&mut self, now: Instant, key: Key, moving: Moving, reply: Option<Cqe>, is_refusal: bool) {
        let session = self.commands.sessions.get_mut(key).expect("just inserted");
        let account = Arc::clone(&session.account);
        let carried = match moving.arrive(now, account, &mut self.reactor) {
            Ok(arrived) => arrived,
            Err(error) => {
                let (peer, host) = (session.peer, session.admission.host());
                info!(%peer, %host, %error, "a new connection is dropped: the target has no room");
                return self.commands.retire_if_done(now, key);
            }
        };
        let has_unparsed = carried.has_unparsed();
        let wires = &mut self.commands.wires;
        let connection = wires.here.add(carried, wires.owner(key));
        session.wire = Wire::Here(connection);
        if let Some(cqe) = reply {
            wires.here.reply(connection, cqe);
        }
        if is_refusal {
            wires.here.end(connection);
        }
        if has_unparsed {
            let parsed = wires.here.parse_held(now, connection, &mut self.reactor);
            self.commands.on_parsed(now, parsed, &mut self.reactor);
        }
    }

    fn connect(
        &mut self,
        now: Instant,
        key: Key,
        (sqe, data): (&Sqe, &ConnectData),
        arrival: Arrival,
    ) -> Result<Connected, Cqe> {
        let session = self.commands.sessions.get(key).expect("just inserted");
        let (subsystem, peer) = (session.subsystem, session.peer.ip());
        match self.commands.homes.get_mut(subsystem) {
            Some(home) => {
                let connected = home.subsystem.on_connect_from(now, queue_of(key), (sqe, data), arrival)?;
                home.subsystem.set_peer_address(queue_of(key), peer);
                Ok(connected)
            }
            // It was removed while the connection was on its way here.
            None => Err(unknown_subsystem(sqe)),
        }
    }
}
