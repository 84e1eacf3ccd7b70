//! Proofs of identity: a queue whose Connect was answered with "authentication required" exchanges DH-HMAC-CHAP messages first.
//!
//! ```text
//!   Connect ─► Send Negotiate ─► Receive Challenge ─► Send Reply ─► Receive Success1 [─► Send Success2] ─► the queue is used
//! ```
//!
//! With concatenation the first admin connection is for a key: once that is made, the connection closes, and the session opens all of its
//! connections with TLS. The target may have forgotten the key at the next try to connect, so each makes another one.
//!
//! The exponentiations, milliseconds for each queue, are done on the thread of the session.
//!
//! Holds: a host that has a key of the controller uses no controller that has not proved itself
//!        (`a_controller_that_cannot_prove_itself_is_refused` in `crates/server/tests/proofs.rs`); one that is to make its key for TLS
//!        uses no controller without it (`crates/server/tests/concatenation.rs`).
//! Elsewhere: the exchange is `auth`'s.

use super::{ADMIN, Session};
use crate::connection::Errand;
use crate::fault::Fault;
use auth::exchange::{HostExchange, HostKeys, Names, Offer, Outcome, Randomness};
use auth::hello::Psk;
use auth::{Channel, Generated, Group, Hash};
use nvme::host::AdminCommand;
use nvme::spec::Cqe;
use units::Instant;
use zeroize::Zeroizing;

/// Bytes asked for with each Receive, as many as Linux asks for.
const RECEIVE_LENGTH: u32 = 4096;

impl Session {
    /// Begins the proof of a queue. Its Connect was answered.
    pub(super) fn begin_proof(&mut self, now: Instant, number: usize) -> Result<(), Fault> {
        let Some(keys) = self.options.keys.dhchap.clone() else { return Err(Fault::NoKey) };
        self.transactions = self.transactions.wrapping_add(1);
        let names = Names {
            host: self.options.host.as_str().to_owned(),
            controller: self.options.subsystem.as_str().to_owned(),
        };
        let random = randomness().map_err(|error| Fault::NoRandomness(error.to_string()))?;
        let (offer, transaction) = (offer(), self.transactions);
        let exchange = match self.awaits_key() {
            true => HostExchange::concatenating(Channel::NewKey, offer, names, keys, random, transaction),
            false => HostExchange::new(offer, names, keys, random, transaction),
        };
        self.connections[number].proof = Some(Box::new(exchange));
        self.go_on_with_proof(now, number)
    }

    /// Whether a key for TLS is to be made first.
    fn awaits_key(&self) -> bool {
        self.options.keys.concatenates() && self.generated.is_none()
    }

    /// A queue is used without a proof, as its Connect was answered. With TLS, both ends have proved themselves.
    pub(super) fn accept_without_proof(&self) -> Result<(), Fault> {
        if self.awaits_key() {
            return Err(Fault::NotConcatenated);
        }
        match &self.options.keys.dhchap {
            Some(HostKeys { controller: Some(_), .. }) if self.psks().is_none() => {
                Err(Fault::ControllerUnproved)
            }
            _ => Ok(()),
        }
    }

    /// A command of a proof is complete. A Receive has brought `data`.
    pub(super) fn on_proof_command(
        &mut self,
        now: Instant,
        number: usize,
        cqe: &Cqe,
        data: &[u8],
    ) -> Result<(), Fault> {
        if !cqe.status().is_success() {
            return Err(Fault::ProofCommand(cqe.status()));
        }
        let Some(exchange) = &mut self.connections[number].proof else { return Ok(()) };
        if !data.is_empty()
            && let Some(job) = exchange.on_received(data)
        {
            exchange.on_computed(job.compute());
        }
        self.go_on_with_proof(now, number)
    }

    fn go_on_with_proof(&mut self, now: Instant, number: usize) -> Result<(), Fault> {
        let connection = &mut self.connections[number];
        let Some(exchange) = &mut connection.proof else { return Ok(()) };
        if let Some(message) = exchange.next_send() {
            connection.submit_admin(now, Errand::Prove, AdminCommand::authentication_send(message));
        } else if exchange.wants_receive() {
            let command = AdminCommand::authentication_receive(RECEIVE_LENGTH);
            connection.submit_admin(now, Errand::Prove, command);
        } else {
            match exchange.outcome() {
                Outcome::Pending => {}
                Outcome::Proved(_) => {
                    let generated = exchange.take_generated();
                    connection.proof = None;
                    if let Some(generated) = generated {
                        return self.begin_anew(now, &generated);
                    }
                    if number == ADMIN {
                        self.controller.on_proved(now);
                    } else {
                        connection.is_joined = true;
                    }
                }
                Outcome::Failed(explanation) => return Err(Fault::Unproved(explanation)),
            }
        }
        self.mark(number);
        Ok(())
    }

    /// A key for TLS is made: the connection has served its purpose.
    fn begin_anew(&mut self, now: Instant, generated: &Generated) -> Result<(), Fault> {
        let names = (self.options.host.as_str(), self.options.subsystem.as_str());
        let psk = Psk::of_generated(generated, names).expect("a context with a digest fits");
        self.generated = Some(psk);
        self.close_connections(now, false);
        self.open_admin();
        Ok(())
    }
}

/// Everything that this host can do; the target chooses.
fn offer() -> Offer {
    let groups = Group::ALL.into_iter().map(Some).chain([None]).collect();
    Offer { hashes: Hash::ALL.to_vec(), groups }
}

fn randomness() -> Result<Randomness, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; Randomness::BYTES]);
    getrandom::fill(&mut *bytes)?;
    Ok(Randomness::of(&bytes))
}
