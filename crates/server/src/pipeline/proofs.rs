//! Hosts that prove anew who they are, on queues that are connected.
//!
//! A host may do so at any time, on each of its queues, while its IOs go on: after its key was changed, for example. A host that fails
//! loses the queue, and with its admin queue the controller. On an admin queue with TLS it may make another key for TLS, which the acceptor
//! keeps; the connection goes on with the one that it has.
//!
//! Holds: IOs go on during a proof, and a queue whose host fails is closed (`tests/proofs.rs`).
//! Elsewhere: the proof before a connection comes here is `acceptor::proving`.

use super::commands::Commands;
use super::message::ToPipeline;
use crate::account::{Account, Permit};
use crate::log_throttle::Subject;
use crate::mailbox::Mailbox;
use crate::proof::{Computed, Message, Names, Proof, Proofs, Queue, Task};
use crate::quota::Origin;
use crate::slab::Key;
use auth::Concatenation;
use auth::exchange::Outcome;
use nvme::spec::{AuthenticationCommand, Cqe, Sqe, Status};
use tracing::{info, warn};
use units::Instant;

/// The parts that this thread needs for the proofs of its sessions.
pub(super) struct SessionProofs {
    pub(super) shared: Proofs,
    /// This thread, which gets the results of computations.
    pub(super) mailbox: Mailbox<ToPipeline>,
}

impl Commands {
    /// A command of a proof has come. A Receive has the permit for its data; one that waits for its message takes another one then.
    pub(super) fn authenticate(
        &mut self,
        now: Instant,
        key: Key,
        (sqe, command): (&Sqe, AuthenticationCommand),
        data: Option<&[u8]>,
        permit: Option<Permit>,
    ) {
        let refuse = |status| Err(Cqe::new(sqe.cid(), status));
        let reply = match command {
            AuthenticationCommand::Send { length } => match self.proof_of(key) {
                Some(proof) => {
                    let (cqe, job) = proof.on_send(sqe, length, data);
                    if let Some(job) = job {
                        self.compute(key, job);
                    }
                    Err(cqe)
                }
                None => refuse(Status::INVALID_OPCODE),
            },
            AuthenticationCommand::Receive { .. } => {
                let session = self.sessions.get_mut(key).expect("its command has just come");
                match session.proof.as_mut().map(|proof| proof.on_receive(sqe)) {
                    Some(Some(reply)) => reply,
                    Some(None) => return,
                    None => refuse(Status::COMMAND_SEQUENCE_ERROR),
                }
            }
        };
        self.answer_proof(now, key, (reply, permit));
    }

    /// The proof under way on a session, or a new one if its host has a key.
    fn proof_of(&mut self, key: Key) -> Option<&mut Proof> {
        let session = self.sessions.get_mut(key)?;
        let is_over = |proof: &Proof| proof.outcome() != Outcome::Pending;
        if session.proof.as_deref().is_none_or(is_over) {
            let controller = self.homes.get_mut(session.subsystem)?.subsystem.nqn().as_str().to_owned();
            let host = session.admission.host().to_owned();
            let ring = &self.proofs.shared.keys;
            let is_admin = session.queue_id == 0;
            let concatenation = match session.secured {
                // A first key is made before a connection comes here.
                None => Concatenation::Refused,
                secured => ring.concatenation(Queue { is_admin, secured }, false),
            };
            let keys = ring.keys_of(&host, concatenation)?;
            // Without random bytes there is no proof; the host may try again.
            let proof = Proof::new(ring, keys, Names { host, controller }).ok()?;
            session.proof = Some(Box::new(proof));
        }
        session.proof.as_deref_mut()
    }

    fn compute(&self, key: Key, job: crate::proof::Job) {
        let Some(session) = self.sessions.get(key) else { return };
        let (origin, mailbox) = (Origin::of(session.peer.ip()), self.proofs.mailbox.clone());
        let done = Box::new(move |computed| mailbox.tell(ToPipeline::Computed { session: key, computed }));
        self.proofs.shared.computing.submit(Task { job, origin, done });
    }

    /// A computation is done.
    pub(super) fn on_computed(&mut self, now: Instant, key: Key, computed: Computed) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let reply = session.proof.as_deref_mut().and_then(|proof| proof.on_computed(computed));
        if let Some(reply) = reply {
            self.answer_proof(now, key, (reply, None));
        }
    }

    /// Replies to a command of a proof, and looks whether the proof is done.
    fn answer_proof(
        &mut self,
        now: Instant,
        key: Key,
        (reply, permit): (Result<Message, Cqe>, Option<Permit>),
    ) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let wire = session.wire;
        if let Some(made) = session.proof.as_mut().and_then(|proof| proof.take_generated())
            && let Some(home) = self.homes.get_mut(session.subsystem)
        {
            let controller = home.subsystem.nqn().as_str().to_owned();
            // Before the host hears of it: it may use it at once.
            session.admission.keep_generated(controller, made);
        }
        match reply {
            Ok(Message { cqe, bytes, length }) => {
                let size = bytes.capacity() as u64;
                match permit.or_else(|| session.account.take(Account::Reply, size)) {
                    Some(mut permit) => {
                        permit.shrink_to(size);
                        self.wires.send_page(wire, cqe, (bytes, permit), length, &mut self.reads);
                    }
                    // The host does not read its replies.
                    None => self.wires.end(wire),
                }
            }
            Err(cqe) => self.wires.send(wire, cqe),
        }
        let (peer, host, queue) = (session.peer, session.admission.host(), session.queue_id);
        let Some(proof) = &session.proof else { return };
        match proof.outcome() {
            Outcome::Pending => {}
            Outcome::Proved(index) => {
                proof.count(now, index);
                let is_next = index > 0;
                if self.log_throttle.allows(now, peer.ip(), Subject::Connected) {
                    info!(%peer, %host, queue, is_next, "the host has proved anew who it is");
                }
            }
            Outcome::Failed(_) => {
                let (refusal, why) = proof.failure().expect("it has failed");
                if self.log_throttle.allows(now, peer.ip(), Subject::Unproved) {
                    warn!(%peer, %host, queue, reason = %refusal, "the host has not proved anew who it is: {why}");
                }
                self.proofs.shared.refusals.count(refusal);
                self.wires.end(wire);
            }
        }
    }
}
