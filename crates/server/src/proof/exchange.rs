//! One proof of a host: an exchange of DH-HMAC-CHAP with the commands that carry it.
//!
//! A Receive for which there is no message yet waits here until the computation is done. It holds no memory for its reply: a thousand
//! hosts that prove themselves at once wait for each other.
//!
//! Holds: the result of a computation for another proof is ignored (`the_result_for_an_earlier_proof_is_ignored`).

use super::generated::Made;
use super::keys::{KeyRing, Keys};
use super::refusals::Refusal;
use super::uses::Uses;
use auth::exchange::{ControllerExchange, DhJob, DhResult, Outcome, Randomness, Received};
use auth::{Concatenation, Explanation};
use nvme::spec::{Cqe, Sqe, Status};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use units::Instant;
use zeroize::Zeroizing;

pub(crate) use auth::exchange::Names;

/// The result of a [`Job`].
pub(crate) struct Computed {
    proof: u64,
    result: DhResult,
}

/// A computation of a proof.
pub(crate) struct Job {
    proof: u64,
    job: DhJob,
    alive: Weak<()>,
}

impl Job {
    /// Computes it, unless its proof has ended meanwhile.
    pub(crate) fn compute(self) -> Option<Computed> {
        self.is_wanted().then(|| Computed { proof: self.proof, result: self.job.compute() })
    }

    /// Whether its proof still waits for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.alive.strong_count() > 0
    }
}

/// A message for the host, with the command that asked for it.
pub(crate) struct Message {
    pub(crate) cqe: Cqe,
    pub(crate) bytes: Vec<u8>,
    /// Bytes that the host asked for; zeroes follow the message.
    pub(crate) length: u32,
}

/// See the module.
pub(crate) struct Proof {
    exchange: ControllerExchange,
    /// Distinguishes it from all other proofs.
    number: u64,
    /// Its jobs are computed as long as this exists.
    alive: Arc<()>,
    /// A Receive without a message yet.
    waiting: Option<Sqe>,
    /// The counts of the keys of the host; empty if it has none.
    uses: Vec<Arc<Uses>>,
    concatenation: Concatenation,
}

impl Proof {
    /// A proof that has not begun.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(ring: &KeyRing, keys: Keys, names: Names) -> Result<Proof, getrandom::Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mut bytes = Zeroizing::new([0; Randomness::BYTES]);
        getrandom::fill(&mut *bytes)?;
        Ok(Proof {
            exchange: ControllerExchange::new(ring.offer().clone(), names, keys.of, Randomness::of(&bytes))
                .allowing(keys.concatenation),
            number: LAST.fetch_add(1, Ordering::Relaxed),
            alive: Arc::new(()),
            waiting: None,
            uses: keys.uses,
            concatenation: keys.concatenation,
        })
    }

    /// The state of the exchange.
    pub(crate) fn outcome(&self) -> Outcome {
        self.exchange.outcome()
    }

    /// Counts the proof for the key of this index, by which the host has made it.
    pub(crate) fn count(&self, now: Instant, index: usize) {
        if let Some(uses) = self.uses.get(index) {
            uses.note(now);
        }
    }

    /// The key for TLS that the host has made, once it has proved who it is.
    pub(crate) fn take_generated(&mut self) -> Option<Made> {
        self.exchange.take_generated()
    }

    /// Why the host has not proved who it is, and what to do; `None` if nothing has failed yet.
    pub(crate) fn failure(&self) -> Option<(Refusal, &'static str)> {
        let explanation = self.exchange.failure()?;
        Some(match explanation {
            _ if self.exchange.is_refused_by_host() => {
                let why = "it does not accept the proof of the controller: its key of the controller is not dhchap_ctrl_key of its [[host]] table";
                (Refusal::Failed, why)
            }
            Explanation::Failed if self.uses.is_empty() => {
                let why = "it has no key here, or may not use this subsystem: write a [[host]] table with its nqn and dhchap_key";
                (Refusal::Unknown, why)
            }
            Explanation::Failed if self.exchange.lacks_controller_key() => {
                let why =
                    "it wants a proof of the controller: write its dhchap_ctrl_key in the [[host]] table";
                (Refusal::Failed, why)
            }
            Explanation::Failed => {
                let why = "its key is not the one of its [[host]] table: compare the fingerprints (gimbal key show)";
                (Refusal::Failed, why)
            }
            Explanation::Hash => {
                let why = "it offers none of the hashes of security.dhchap_hash";
                (Refusal::NothingInCommon, why)
            }
            Explanation::Group => {
                let why = "it offers none of the groups of security.dhchap_group";
                (Refusal::NothingInCommon, why)
            }
            Explanation::SecureChannel => {
                let why = match self.concatenation {
                    Concatenation::Refused => {
                        "it wants a key for TLS from this exchange, which is not offered here: connect without --concat, or write concat = true into [security] (docs/identity.md#concatenation)"
                    }
                    Concatenation::New { is_due: true } => {
                        "it connects without TLS, which its subsystem asks for, and wants no key for it: nvme connect --tls, or --concat"
                    }
                    Concatenation::New { .. } | Concatenation::Another => {
                        "it wants a key for TLS without a group, or in place of a key that it does not have"
                    }
                };
                (Refusal::SecureChannel, why)
            }
            Explanation::Protocol | Explanation::Payload | Explanation::Message => {
                (Refusal::Protocol, "its messages are malformed, or not the ones that are due")
            }
        })
    }

    /// A Send has come, with its data. Returns its completion, and a job if one is due.
    pub(crate) fn on_send(&mut self, sqe: &Sqe, length: u32, data: Option<&[u8]>) -> (Cqe, Option<Job>) {
        let Some(message) = data.and_then(|data| data.get(..length as usize)) else {
            return (Cqe::new(sqe.cid(), Status::DATA_SGL_LENGTH_INVALID), None);
        };
        let job = self.exchange.on_send(message);
        let job = job.map(|job| Job { proof: self.number, job, alive: Arc::downgrade(&self.alive) });
        (Cqe::success(sqe.cid()), job)
    }

    /// A Receive has come. Returns its reply, unless it waits for a computation.
    pub(crate) fn on_receive(&mut self, sqe: &Sqe) -> Option<Result<Message, Cqe>> {
        if self.waiting.is_some() {
            return Some(Err(Cqe::new(sqe.cid(), Status::COMMAND_SEQUENCE_ERROR)));
        }
        self.waiting = Some(*sqe);
        self.reply_if_ready()
    }

    /// A computation is done. Returns the reply to the Receive that waits for it.
    pub(crate) fn on_computed(&mut self, computed: Computed) -> Option<Result<Message, Cqe>> {
        if computed.proof != self.number {
            return None;
        }
        self.exchange.on_computed(computed.result);
        self.waiting.is_some().then(|| self.reply_if_ready()).flatten()
    }

    fn reply_if_ready(&mut self) -> Option<Result<Message, Cqe>> {
        let Received::Message(bytes) = self.exchange.on_receive() else { return None };
        let sqe = self.waiting.take()?;
        let length = sqe.sgl_length();
        if bytes.len() > length as usize {
            return Some(Err(Cqe::new(sqe.cid(), Status::INVALID_FIELD)));
        }
        Some(Ok(Message { cqe: Cqe::success(sqe.cid()), bytes, length }))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::uses::Counted;
    use super::*;
    use crate::config::{Config, DEFAULT_LISTEN, DeviceKind};
    use auth::exchange::ControllerKeys;
    use auth::{DhKey, Message as AuthMessage, Secret};
    use nvme::spec::{AuthenticationCommand, Sgl};
    use units::Bytes;

    /// A proof that has not begun.
    pub(in crate::proof) fn proof() -> Proof {
        let config = Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN);
        let ring = KeyRing::read(Instant::ZERO, &config).expect("there are no files");
        let key = DhKey::new(None, Secret::new(vec![1; 32])).expect("32 bytes");
        let uses = vec![Counted::new(Instant::ZERO, key.clone()).uses];
        let of = ControllerKeys { host: vec![key], controller: None };
        let keys = Keys { of, uses, concatenation: Concatenation::Refused };
        let names = Names { host: "host".to_owned(), controller: "subsystem".to_owned() };
        Proof::new(&ring, keys, names).expect("random bytes")
    }

    /// The first message of a host, and the job that is due then.
    pub(in crate::proof) fn begin(proof: &mut Proof) -> Job {
        let negotiate =
            AuthMessage::Negotiate { secure_channel: 0, hashes: vec![1, 2, 3], groups: vec![1, 2, 3] };
        let bytes = negotiate.to_bytes(1);
        let sqe = AuthenticationCommand::Send { length: bytes.len() as u32 }.to_sqe();
        let (cqe, job) = proof.on_send(&sqe, bytes.len() as u32, Some(&bytes));
        assert!(cqe.status().is_success());
        job.expect("the group needs one")
    }

    #[test]
    fn the_result_for_an_earlier_proof_is_ignored() {
        let (mut earlier, mut proof) = (proof(), proof());
        let of_earlier = begin(&mut earlier).compute().expect("it is wanted");
        let job = begin(&mut proof);
        let sqe = AuthenticationCommand::Receive { length: 4096 }.to_sqe();
        let sqe = sqe.with_sgl(Sgl::Transport { length: 4096 });
        assert!(proof.on_receive(&sqe).is_none(), "it waits");
        assert!(proof.on_receive(&sqe).is_some_and(|reply| reply.is_err()), "one at a time");
        assert!(proof.on_computed(of_earlier).is_none());
        let reply = proof.on_computed(job.compute().expect("it is wanted"));
        let Some(Ok(message)) = reply else { panic!("no message") };
        assert_eq!(message.bytes[..2], [1, 1], "Challenge");
        let job = begin(&mut self::proof());
        assert!(!job.is_wanted() && job.compute().is_none(), "its proof has ended");
    }
}
