//! Proofs of identity: a queue whose Connect was answered with "authentication required" exchanges DH-HMAC-CHAP messages first.
//!
//! ```text
//!   Connect ─► Send Negotiate ─► Receive Challenge ─► Send Reply ─► Receive Success1 [─► Send Success2] ─► the queue is used
//! ```
//!
//! The exponentiations, milliseconds for each queue, are done on the thread of the session.
//!
//! Holds: a host that has a key of the controller uses no controller that has not proved itself
//!        (`a_controller_that_cannot_prove_itself_is_refused` in `crates/server/tests/proofs.rs`).
//! Elsewhere: the exchange is `auth`'s.

use super::{ADMIN, Session};
use crate::connection::Errand;
use crate::fault::Fault;
use auth::exchange::{HostExchange, HostKeys, Names, Offer, Outcome, Randomness};
use auth::{Group, Hash};
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
        let exchange = HostExchange::new(offer(), names, keys, random, self.transactions);
        self.connections[number].proof = Some(Box::new(exchange));
        self.go_on_with_proof(now, number)
    }

    /// A queue is used without a proof, as its Connect was answered. With TLS, both ends have proved themselves.
    pub(super) fn accept_without_proof(&self) -> Result<(), Fault> {
        match &self.options.keys.dhchap {
            Some(HostKeys { controller: Some(_), .. }) if self.options.keys.tls.is_none() => {
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
                    connection.proof = None;
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
