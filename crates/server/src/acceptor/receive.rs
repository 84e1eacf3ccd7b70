//! Bytes and commands on the acceptor's connections, and how these connections end.
//!
//! Only the first command (`connect`) and commands to discovery (`discovery`) are executed here. A host that sends a command before its
//! Connect is answered is disconnected.

use super::connect::Refusal;
use super::{Acceptor, Stage, queue_of};
use crate::handshake::Handshake;
use crate::log_throttle::Subject;
use crate::payload::Payload;
use crate::proof::Refusal as Unproved;
use crate::quota::Origin;
use crate::slab::Key;
use crate::transport::{Fatal, Protocol};
use auth::hello::Alert;
use nvme::queue::TargetEvent;
use nvme::spec::{Nqn, Sqe, Status};
use reactor::Token;
use std::io;
use tracing::{info, warn};
use units::Instant;

/// Bytes after Connect that are kept during the hand-over. A host that waits for the answer to Connect sends none.
const UNPARSED_MAX: usize = 128 << 10;
/// Bytes that a delayed connection may send: an ICReq, or the first message of TLS. They are not charged to an account.
const EARLY_MAX: usize = 4096;
/// The reason logged for a host that does not wait for the answer to its first message.
const TOO_MUCH: &str = "the host sent more than its first message before that was answered";
/// The reason logged for a host that begins with TLS and goes no further.
const UNFINISHED: &str = "it did not finish the handshake of TLS";
/// The reason logged for a host that uses a connection which was for a key only.
const WITHOUT_TLS: &str = "the host goes on without TLS after it has made a key for TLS";
/// The reason logged for a host that does not wait for the answer to Connect.
const TOO_EARLY: &str = "the host sent commands before Connect was answered";

impl Acceptor {
    pub(super) fn on_received(&mut self, now: Instant, token: Token, bytes: &[u8]) {
        let Some(key) = self.by_token.get(&token).copied() else { return };
        let entry = self.connections.get_mut(key).expect("every token has its entry");
        match &mut entry.stage {
            Stage::HandingOver(_) => {
                if entry.connection.tcp().is_some_and(|tcp| tcp.keep(bytes) > UNPARSED_MAX) {
                    self.close(now, key, Subject::Violation, TOO_EARLY);
                }
            }
            Stage::Delayed { early, .. } if early.len() + bytes.len() <= EARLY_MAX => {
                early.extend_from_slice(bytes);
            }
            Stage::Delayed { .. } => self.close(now, key, Subject::Violation, TOO_MUCH),
            Stage::Opening => self.open(now, key, bytes),
            Stage::Securing(_) => self.on_hello_bytes(now, key, bytes),
            _ => self.parse(now, key, bytes),
        }
    }

    /// The first bytes of a connection, which say what protocol the host speaks.
    pub(super) fn open(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(protocol) = Protocol::of(bytes) else { return };
        let Some(entry) = self.connections.get_mut(key) else { return };
        match protocol {
            Protocol::NvmeTcp => {
                entry.stage = Stage::Handshake;
                self.parse(now, key, bytes);
            }
            Protocol::Tls => self.begin_securing(now, key, bytes),
        }
    }

    /// Parses new bytes, or held bytes if there are no new ones. Executes their commands, and replies.
    pub(super) fn parse(&mut self, now: Instant, key: Key, bytes: &[u8]) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        let reactor = &mut self.parts.reactor;
        let result = match bytes {
            [] => entry.connection.parse_held(now, &mut self.intakes, reactor, &mut self.events),
            _ => match entry.connection.tcp() {
                Some(tcp) => tcp.receive(now, bytes, &mut self.intakes, reactor, &mut self.events),
                None => Ok(()),
            },
        };
        self.take_in(now, key, result);
    }

    /// Executes the commands of new input, and replies.
    pub(super) fn take_in(&mut self, now: Instant, key: Key, result: Result<(), Fatal>) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                TargetEvent::Command { sqe, data } => self.on_command(now, key, sqe, data),
                TargetEvent::Initialized => {
                    let (origin, timeout) =
                        (Origin::of(self.peer_ip(key)), self.parts.limits.connect_timeout);
                    self.handshakes.insert(key, origin, Handshake::Connect, now, timeout);
                }
                TargetEvent::Refused { sqe, status } => self.on_refused_command(now, key, &sqe, status),
                TargetEvent::Fused { .. } => {
                    unreachable!("the transport accepts fused commands only after a hand-over")
                }
                TargetEvent::GivenUp { cid } => self.parts.discovery.on_given_up(queue_of(key), cid),
            }
        }
        self.events = events;
        if let Err(fatal) = result {
            self.on_fatal(now, key, fatal);
        }
        self.flush(now, key);
    }

    /// The transport has refused a command by itself.
    fn on_refused_command(&mut self, now: Instant, key: Key, sqe: &Sqe, status: Status) {
        let Some(entry) = self.connections.get(key) else { return };
        let peer = entry.connection.peer();
        if self.log_throttle.allows(now, peer.ip(), Subject::Command) {
            warn!(%peer, cid = sqe.cid(), opcode = sqe.opcode(), %status, "the transport refused a command");
        }
    }

    fn on_fatal(&mut self, now: Instant, key: Key, fatal: Fatal) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        match fatal {
            Fatal::Tls(broken) if entry.connection.is_securing() => {
                let peer = entry.connection.peer();
                self.refuse_tls(now, key, Alert::DecryptError);
                self.note_unsecured(now, peer, Unproved::TlsMalformed, &broken.to_string());
            }
            fatal if fatal.is_answered() => {
                let peer = entry.connection.peer();
                if self.log_throttle.allows(now, peer.ip(), Subject::Violation) {
                    warn!(%peer, "connection refused: {fatal}");
                }
                entry.connection.end();
                entry.stage = Stage::Refused;
            }
            Fatal::ClosedByHost => self.close(now, key, Subject::Ended, &fatal.to_string()),
            fatal => {
                if let Some(refusal) = fatal.refusal() {
                    self.parts.proofs.refusals.count(refusal);
                }
                self.close(now, key, Subject::Violation, &fatal.to_string());
            }
        }
    }

    /// Sends waiting bytes. Detaches a connection that is ready for its hand-over.
    pub(super) fn flush(&mut self, now: Instant, key: Key) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        entry.connection.flush(now, &mut self.parts.reactor, &mut self.spares);
        if entry.connection.is_spent() {
            // The reason was logged when it was refused.
            return self.remove(now, key);
        }
        if let Stage::HandingOver(pending) = &mut entry.stage
            && entry.connection.may_move()
            && !pending.is_detaching
        {
            pending.is_detaching = true;
            let token = entry.connection.token();
            match entry.connection.tcp() {
                Some(_) => self.parts.reactor.detach(token),
                // It has nothing to be taken out of the reactor.
                None => self.on_detached(token, None),
            }
        }
    }

    fn on_command(&mut self, now: Instant, key: Key, sqe: Sqe, data: Option<Payload>) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        match entry.stage {
            Stage::Handshake => {
                let refused = self.on_first_command(now, key, sqe, data.as_ref());
                self.return_buffer(data);
                let Some(entry) = self.connections.get_mut(key) else { return };
                if let Err(Refusal { cqe, host, why }) = refused {
                    let peer = entry.connection.peer();
                    if self.log_throttle.allows(now, peer.ip(), Subject::Refused) {
                        let host = host.as_ref().map(Nqn::as_str);
                        warn!(%peer, host, status = %cqe.status(), "Connect refused: {why}");
                    }
                    entry.connection.reply(cqe);
                    entry.connection.end();
                    entry.stage = Stage::Refused;
                } else if matches!(entry.stage, Stage::HandingOver(_)) && entry.connection.has_more_than_one()
                {
                    // The command that follows holds memory of this thread, which cannot be handed over.
                    self.close(now, key, Subject::Violation, TOO_EARLY);
                }
            }
            Stage::Proving(_) => self.on_proof_command(now, key, sqe, data),
            Stage::Concatenated => self.close(now, key, Subject::Violation, WITHOUT_TLS),
            Stage::Discovery => self.on_discovery_command(now, key, sqe, data),
            Stage::HandingOver(_) => self.close(now, key, Subject::Violation, TOO_EARLY),
            Stage::Delayed { .. } | Stage::Opening | Stage::Securing(_) | Stage::Refused => {}
        }
    }

    pub(super) fn return_buffer(&mut self, payload: Option<Payload>) {
        if let Some((buffer, permit)) = payload.and_then(Payload::into_pooled) {
            self.intakes.give(buffer, permit.account());
        }
    }

    pub(super) fn close(&mut self, now: Instant, key: Key, subject: Subject, why: &str) {
        let Some(entry) = self.connections.get(key) else { return };
        let peer = entry.connection.peer();
        // The reason of a refusal was logged before.
        let is_news = !matches!(entry.stage, Stage::Refused);
        if is_news && self.log_throttle.allows(now, peer.ip(), subject) {
            let host = match &entry.stage {
                Stage::HandingOver(pending) => Some(&*pending.place.host),
                Stage::Proving(proving) => Some(proving.claimed()),
                _ => None,
            };
            match subject {
                Subject::Ended => info!(%peer, host, "connection ended: {why}"),
                _ => warn!(%peer, host, "connection dropped: {why}"),
            }
        }
        self.remove(now, key);
    }

    pub(super) fn close_broken(&mut self, now: Instant, key: Key, error: &io::Error) {
        self.close(now, key, Subject::Ended, &format!("the connection broke: {error}"));
    }

    /// Closes a connection without a log line.
    fn remove(&mut self, now: Instant, key: Key) {
        let Some(entry) = self.connections.remove(key) else { return };
        self.handshakes.remove(key);
        self.discovery_connections.remove(key);
        self.by_token.remove(&entry.connection.token());
        let peer = entry.connection.peer();
        match entry.stage {
            Stage::HandingOver(pending) => {
                self.on_connection_gone(now, &pending.place.host, &pending.place.charged);
            }
            Stage::Discovery => self.parts.discovery.on_disconnect(now, queue_of(key)),
            Stage::Proving(proving) => self.on_unproved(now, peer, &proving),
            Stage::Securing(_) => self.note_unsecured(now, peer, Unproved::TlsUnfinished, UNFINISHED),
            Stage::Handshake if entry.connection.is_securing() => {
                self.note_unsecured(now, peer, Unproved::TlsUnfinished, UNFINISHED);
            }
            Stage::Delayed { until, .. } => {
                self.delayed.remove(&(until, key));
            }
            Stage::Opening | Stage::Handshake | Stage::Concatenated | Stage::Refused => {}
        }
        // Last, so that whatever is counted and logged of it is there when the host sees the end.
        self.parts.reactor.close(entry.connection.token());
    }
}
