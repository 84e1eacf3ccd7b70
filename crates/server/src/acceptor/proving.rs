//! The step between Connect and the hand-over in which a host proves who it is.
//!
//! The acceptor answers the Connect itself (dword 0: authentication is required), and then accepts Authentication Send and Receive only.
//! Until the proof is done the connection is a handshake: it is charged to its address, may be evicted, and has a time limit of its own.
//! Whatever only the pipeline can refuse afterwards closes the connection, because Connect was answered.
//!
//! ```text
//!   Connect ─► checked, answered ─► Negotiate, Challenge, Reply, Success1 ─┬─ proved ─► as a Connect without a proof
//!                                                                          └─ not ────► counted, logged, closed
//! ```
//!
//! A host without TLS may make a key for TLS by its proof (concatenation). Then its connection is of no other use: the host closes it and
//! begins anew with that key, so neither a quota nor a pipeline nor a controller gets to know of it.
//!
//! Holds: each connection that ends without its proof is counted once, by its reason, and delays later ones of its address
//!        (`tests/proofs.rs`).
//! NVM Express Base Specification: "Connect Command and Response" (AUTHREQ), "Fabrics Authentication".

use super::connect::{NOT_ALLOWED, Refusal};
use super::{Acceptor, Stage};
use crate::account::Account;
use crate::handshake::Handshake;
use crate::log_throttle::Subject;
use crate::payload::Payload;
use crate::pipeline::message::ToAcceptor;
use crate::proof::{self, Computed, Keys, Message, Names, Proof, Task};
use crate::quota::Origin;
use crate::slab::Key;
use auth::exchange::Outcome;
use nvme::buffer::Buffer;
use nvme::spec::connect::{ConnectData, ConnectResult};
use nvme::spec::{AuthenticationCommand, ConnectCommand, Cqe, Nqn, Sqe, Status};
use nvme::subsystem::{ConnectBounds, ControllerIds};
use std::net::SocketAddr;
use tracing::{info, warn};
use units::{Instant, Nanos};

/// Commands that are not part of the proof, before the connection is closed.
const STRANGE_MAX: u8 = 8;
/// Longest time for which a computation may wait for its turn. It does not count as the host's: many hosts prove themselves at once after a
/// restart of the target.
const COMPUTING_MAX: Nanos = Nanos::secs(60);
/// The reason logged for a message that cannot be sent.
const NO_MEMORY: &str = "the hosts of its address do not read their messages: limits.reply_memory is used up";

/// A Connect of a host that has to prove who it is.
pub(super) struct Claim {
    pub(super) sqe: Sqe,
    pub(super) data: ConnectData,
    pub(super) host: Nqn,
    /// The subsystem, as Connect named it.
    pub(super) subsystem: Nqn,
    /// The identifiers of its controllers.
    pub(super) ids: ControllerIds,
    pub(super) bounds: ConnectBounds,
    pub(super) keys: Keys,
}

/// A connection whose host proves who it is.
pub(super) struct Proving {
    proof: Proof,
    connect: Sqe,
    connect_data: Box<ConnectData>,
    host: Nqn,
    subsystem: Nqn,
    /// The identifier that the host was told.
    controller_id: u16,
    /// Commands that were not part of the proof.
    strange: u8,
}

impl Proving {
    /// The NQN that the host claims.
    pub(super) fn claimed(&self) -> &str {
        self.host.as_str()
    }

    /// The names of the two ends.
    fn names(&self) -> Names {
        names(&self.host, &self.subsystem)
    }

    /// Why it has not proved who it is: for the counts, and for the log with what to do.
    fn reason(&self) -> (proof::Refusal, &'static str) {
        use proof::Refusal;
        self.proof.failure().unwrap_or(match self.strange {
            0 => {
                let why = "it did not finish the proof: a host without a key ends here (nvme connect --dhchap-secret)";
                (Refusal::Unfinished, why)
            }
            _ => {
                let why = "it sends other commands before its proof: give the host its key (nvme connect --dhchap-secret)";
                (Refusal::NoProof, why)
            }
        })
    }
}

fn names(host: &Nqn, controller: &Nqn) -> Names {
    Names { host: host.as_str().to_owned(), controller: controller.as_str().to_owned() }
}

impl Acceptor {
    /// Answers a Connect with the request to prove who the host is.
    pub(super) fn ask_for_proof(&mut self, now: Instant, key: Key, claim: Claim) -> Result<(), Refusal> {
        let Claim { sqe, data, host, subsystem, ids, bounds, keys } = claim;
        let refuse = |cqe, host, why| Refusal { cqe, host: Some(host), why };
        let command = match bounds.check(&sqe, &data) {
            Ok(command) => command,
            Err(cqe) => return Err(refuse(cqe, host, "a parameter of the Connect is out of bounds")),
        };
        let names = names(&host, &subsystem);
        let Ok(proof) = Proof::new(&self.parts.proofs.keys, keys, names) else {
            let cqe = Cqe::new(sqe.cid(), Status::INTERNAL_ERROR);
            return Err(refuse(cqe, host, "the system gives no random bytes"));
        };
        let controller_id = self.controller_of(ids, &command, &data);
        let entry = self.connections.get_mut(key).expect("its command has just come");
        entry.connection.set_up_for_proof(&command);
        let dword = u32::from(controller_id) | ConnectResult::AUTHENTICATION;
        entry.connection.reply(Cqe::success(sqe.cid()).with_dw0(dword));
        let origin = Origin::of(entry.connection.peer().ip());
        entry.stage = Stage::Proving(Box::new(Proving {
            proof,
            connect: sqe,
            connect_data: Box::new(data),
            host,
            subsystem,
            controller_id,
            strange: 0,
        }));
        let timeout = self.parts.limits.auth_timeout;
        self.handshakes.insert(key, origin, Handshake::Proof, now, timeout);
        Ok(())
    }

    /// The controller of a queue. Subsystems draw identifiers upwards, and this one draws them downwards: so they meet late, and then
    /// the host has to connect once more.
    fn controller_of(&mut self, ids: ControllerIds, command: &ConnectCommand, data: &ConnectData) -> u16 {
        if command.queue_id != 0 {
            return data.controller_id();
        }
        let id = ids.downwards(self.controllers_drawn);
        self.controllers_drawn = self.controllers_drawn.wrapping_add(1);
        id
    }

    /// A command of a host that has not proved who it is.
    pub(super) fn on_proof_command(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let Stage::Proving(proving) = &mut entry.stage else { return };
        let refused = match AuthenticationCommand::parse(&sqe) {
            Some(Ok(AuthenticationCommand::Send { length })) => {
                let (cqe, job) = proving.proof.on_send(&sqe, length, data.as_ref().map(Buffer::bytes));
                entry.connection.reply(cqe);
                if let Some(job) = job {
                    let (origin, acceptor) =
                        (Origin::of(entry.connection.peer().ip()), self.parts.mailbox.clone());
                    let done = Box::new(move |computed| {
                        acceptor.tell(ToAcceptor::Computed { connection: key, computed });
                    });
                    self.parts.proofs.computing.submit(Task { job, origin, done });
                    let timeout = self.parts.limits.auth_timeout + COMPUTING_MAX;
                    self.handshakes.insert(key, origin, Handshake::Proof, now, timeout);
                }
                None
            }
            Some(Ok(AuthenticationCommand::Receive { .. })) => {
                let message = proving.proof.on_receive(&sqe);
                self.send_message(now, key, message);
                None
            }
            Some(Err(status)) => Some(status),
            None => Some(Status::AUTHENTICATION_REQUIRED),
        };
        self.return_buffer(data);
        if let Some(status) = refused {
            self.on_strange_command(key, &sqe, status);
        }
        self.settle(now, key);
    }

    fn on_strange_command(&mut self, key: Key, sqe: &Sqe, status: Status) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        entry.connection.reply(Cqe::new(sqe.cid(), status));
        if let Stage::Proving(proving) = &mut entry.stage {
            proving.strange += 1;
            if proving.strange >= STRANGE_MAX {
                entry.connection.end();
            }
        }
    }

    /// A computation is done.
    pub(super) fn on_computed(&mut self, now: Instant, key: Key, computed: Computed) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let Stage::Proving(proving) = &mut entry.stage else { return };
        let message = proving.proof.on_computed(computed);
        let (origin, timeout) = (Origin::of(entry.connection.peer().ip()), self.parts.limits.auth_timeout);
        self.handshakes.insert(key, origin, Handshake::Proof, now, timeout);
        self.send_message(now, key, message);
        self.settle(now, key);
        self.flush(now, key);
    }

    fn send_message(&mut self, now: Instant, key: Key, message: Option<Result<Message, Cqe>>) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        match message {
            Some(Ok(Message { cqe, bytes, length })) => {
                match entry.connection.account().take(Account::Reply, bytes.capacity() as u64) {
                    Some(permit) => entry.connection.reply_with_page(cqe, bytes, permit, length),
                    None => self.close(now, key, Subject::Dropped, NO_MEMORY),
                }
            }
            Some(Err(cqe)) => entry.connection.reply(cqe),
            None => {}
        }
    }

    /// Looks whether the proof is done.
    fn settle(&mut self, now: Instant, key: Key) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let Stage::Proving(proving) = &mut entry.stage else { return };
        match proving.proof.outcome() {
            Outcome::Pending => {}
            Outcome::Failed(_) => {
                entry.connection.end();
                let stage = std::mem::replace(&mut entry.stage, Stage::Refused);
                let peer = entry.connection.peer();
                if let Stage::Proving(proving) = stage {
                    self.on_unproved(now, peer, &proving);
                }
            }
            Outcome::Proved(index) => {
                let stage = std::mem::replace(&mut entry.stage, Stage::Refused);
                if let Stage::Proving(proving) = stage {
                    self.on_proved(now, key, *proving, index);
                }
            }
        }
    }

    /// The host has proved who it is, by the key of this index.
    fn on_proved(&mut self, now: Instant, key: Key, mut proving: Proving, index: usize) {
        let entry = self.connections.get_mut(key).expect("its command has just come");
        let peer = entry.connection.peer();
        proving.proof.count(now, index);
        if index > 0 && self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
            let host = proving.claimed();
            info!(%peer, host, "the host has proved itself with dhchap_key_next");
        }
        if let Some(made) = proving.proof.take_generated() {
            self.generated.keep(now, proving.names(), made);
            if entry.identity.is_none() {
                // Its time as a handshake goes on.
                entry.stage = Stage::Concatenated;
                if self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
                    let host = proving.claimed();
                    info!(%peer, host, "the host has made a key for TLS, with which it is to connect again");
                }
                return;
            }
        }
        let Proving { connect, connect_data, host, subsystem, controller_id, .. } = proving;
        let proved = Some(controller_id);
        // The subsystem or its hosts may have changed since Connect.
        let route = self.routes.iter().find(|route| route.nqn == subsystem.as_str());
        let result = match route {
            Some(route) if !route.hosts.allows(host.as_str()) => Err(NOT_ALLOWED),
            Some(route) => {
                let to = (route.subsystem, route.home);
                self.hand_over(now, key, (connect, connect_data), (host.as_str(), to), proved)
            }
            None => self
                .connect_discovery(now, key, &connect, &connect_data, proved)
                .map_err(|_| "there is no such subsystem any more, or discovery refuses this Connect"),
        };
        if let Err(why) = result {
            if self.log_throttle.allows(now, peer.ip(), Subject::Refused) {
                warn!(%peer, host = host.as_str(), "Connect refused after the host had proved who it is: {why}");
            }
            let entry = self.connections.get_mut(key).expect("looked up above");
            entry.connection.end();
        }
    }

    /// The reason for which a connection ends whose time for the proof is over.
    pub(super) fn late_proof(&self, key: Key) -> &'static str {
        match self.connections.get(key).map(|entry| &entry.stage) {
            Some(Stage::Concatenated) => {
                "the host did not close it within limits.auth_timeout after it had made a key for TLS"
            }
            _ => "the host did not prove who it is within limits.auth_timeout",
        }
    }

    /// A connection has ended without the proof that was due.
    pub(super) fn on_unproved(&mut self, now: Instant, peer: SocketAddr, proving: &Proving) {
        let (refusal, why) = proving.reason();
        self.parts.proofs.refusals.count(refusal);
        self.throttle.on_failure(now, Origin::of(peer.ip()));
        if self.log_throttle.allows(now, peer.ip(), Subject::Unproved) {
            let (host, subsystem) = (proving.host.as_str(), proving.subsystem.as_str());
            warn!(%peer, host, subsystem, reason = %refusal, "the host has not proved who it is: {why}");
        }
    }

    /// Goes on with connections whose delay is over.
    pub(super) fn end_delays(&mut self, now: Instant) {
        while let Some((until, key)) = self.delayed.first().copied().filter(|(at, _)| *at <= now) {
            self.delayed.remove(&(until, key));
            let Some(entry) = self.connections.get_mut(key) else { continue };
            if let Stage::Delayed { early, .. } = std::mem::replace(&mut entry.stage, Stage::Opening) {
                self.open(now, key, &early);
            }
        }
    }
}
