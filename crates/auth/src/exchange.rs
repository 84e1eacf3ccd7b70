//! One DH-HMAC-CHAP exchange, at either end, without sockets, threads or randomness of its own.
//!
//! ```text
//!   host                                             controller
//!   Negotiate ─────────────────────────────────────► chooses hash and group, [computes its public value]
//!              ◄──────────────────────── Challenge
//!   [computes] Reply ──────────────────────────────► [computes the shared secret], checks R1
//!              ◄───────────────────────── Success1   or Failure1
//!   checks R2, Success2 ───────────────────────────►
//! ```
//!
//! Each step in brackets is a [`DhJob`]: the caller computes it on another thread, and returns the result with `on_computed`.
//!
//! Holds: every combination of hashes, groups, keys and ways proves the right keys and no others
//!        (`every_combination_proves_the_right_keys_and_no_others`); every message out of turn, and every replayed one, ends in a failure
//!        (`a_recorded_exchange_replayed_fails`, `messages_out_of_turn_fail`).
//! Elsewhere: the key for TLS that an exchange may make is `concatenation`.
//! NVM Express Base Specification: "DH-HMAC-CHAP Protocol".

use crate::concatenation::{Channel, Concatenation, Generated, NO_CHANNEL};
use crate::group::{Group, InvalidPublicValue};
use crate::hash::Hash;
use crate::key::{DhKey, Secret};
use crate::message::{Explanation, Message};
use crate::response::{self, Prover, session_key};

/// The hashes and groups that one end accepts, in its order of preference. `None` is the exchange without a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Hashes.
    pub hashes: Vec<Hash>,
    /// Groups.
    pub groups: Vec<Option<Group>>,
}

/// The names of the two ends, as Connect had them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    /// The NQN of the host.
    pub host: String,
    /// The NQN of the controller.
    pub controller: String,
}

/// Random values of one end for one exchange.
#[derive(Clone, Debug)]
pub struct Randomness {
    /// The challenge; as many bytes as the longest digest.
    pub challenge: [u8; 64],
    /// The sequence number. Never 0.
    pub sequence: u32,
    /// The secret exponent: at least as many bytes as the largest group needs.
    pub exponent: Secret,
}

impl Randomness {
    /// Random bytes that an exchange needs.
    pub const BYTES: usize = 64 + 4 + 64;

    /// The values for one exchange, from random bytes that are used for nothing else.
    pub fn of(bytes: &[u8; Randomness::BYTES]) -> Randomness {
        let mut challenge = [0; 64];
        challenge.copy_from_slice(&bytes[..64]);
        let sequence = u32::from_le_bytes([bytes[64], bytes[65], bytes[66], bytes[67]]);
        Randomness { challenge, sequence: sequence.max(1), exponent: Secret::new(bytes[68..].to_vec()) }
    }
}

/// An exponentiation.
#[derive(Clone, Debug)]
pub struct DhJob {
    group: Group,
    exponent: Secret,
    /// The public value of the other end, of which the shared secret is made.
    peer: Option<Vec<u8>>,
    /// Whether the public value of this end is wanted, too.
    wants_public: bool,
}

/// The result of a [`DhJob`].
#[derive(Debug)]
pub struct DhResult {
    public: Vec<u8>,
    shared: Option<Result<Secret, InvalidPublicValue>>,
}

impl DhJob {
    /// Computes it: milliseconds of processor time.
    pub fn compute(&self) -> DhResult {
        let public = if self.wants_public { self.group.public_value(&self.exponent) } else { Vec::new() };
        let shared = self.peer.as_ref().map(|peer| self.group.shared_secret(&self.exponent, peer));
        DhResult { public, shared }
    }

    /// The group, which says how long it takes.
    pub fn group(&self) -> Group {
        self.group
    }
}

/// The state of an exchange, for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on.
    Pending,
    /// The other end has proved its key: the one of this index among those that were given.
    Proved(usize),
    /// It has failed.
    Failed(Explanation),
}

/// The exponent of a group from random bytes.
fn exponent(group: Group, random: &Secret) -> Secret {
    Secret::new(random.expose()[..group.exponent_length()].to_vec())
}

/// The facts of an exchange once hash and group are known.
#[derive(Clone, Debug)]
struct Agreed {
    transaction: u16,
    hash: Hash,
    group: Option<Group>,
    /// SC_C: whether the exchange makes a key for TLS.
    secure_channel: u8,
}

/// Step of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ControllerStep {
    /// Awaits Negotiate.
    Start,
    /// Its public value is being computed.
    Preparing,
    /// The challenge waits to be received.
    Challenging { public: Vec<u8> },
    /// Awaits Reply.
    Challenged,
    /// The shared secret is being computed.
    Checking(Replied),
    /// Success1 waits to be received.
    Succeeding { response: Option<Vec<u8>>, key: usize },
    /// Awaits Success2.
    Proving { key: usize },
    /// The host has proved itself.
    Proved { key: usize },
    /// Failure1 waits to be received.
    Failing(Explanation),
    /// The end.
    Failed(Explanation),
}

/// A Reply that is being checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replied {
    response: Vec<u8>,
    challenge: Option<Vec<u8>>,
    sequence: u32,
}

/// An answer to Authentication Receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A job is under way: ask again after `on_computed`.
    Wait,
    /// The message.
    Message(Vec<u8>),
}

/// The keys of a controller for one host.
#[derive(Clone, Debug)]
pub struct ControllerKeys {
    /// Keys of the host: any of them proves it. For an unknown host one that nobody has, so that it is answered like any other.
    pub host: Vec<DhKey>,
    /// The key of the controller, if it has one.
    pub controller: Option<DhKey>,
}

/// The controller's end.
#[derive(Debug)]
pub struct ControllerExchange {
    offer: Offer,
    names: Names,
    keys: ControllerKeys,
    random: Randomness,
    agreed: Option<Agreed>,
    transaction: u16,
    step: ControllerStep,
    /// Whether the host wants a response for which there is no key.
    lacks_key: bool,
    /// Whether the host has not accepted the response.
    is_refused: bool,
    concatenation: Concatenation,
    generated: Option<Generated>,
}

impl ControllerExchange {
    /// An exchange that has not begun, and makes no key for TLS.
    pub fn new(offer: Offer, names: Names, keys: ControllerKeys, random: Randomness) -> ControllerExchange {
        assert_ne!(random.sequence, 0, "0 says that no response is wanted");
        ControllerExchange {
            offer,
            names,
            keys,
            random,
            agreed: None,
            transaction: 0,
            step: ControllerStep::Start,
            lacks_key: false,
            is_refused: false,
            concatenation: Concatenation::Refused,
            generated: None,
        }
    }

    /// The same exchange; the host may ask for a key for TLS.
    pub fn allowing(self, concatenation: Concatenation) -> ControllerExchange {
        ControllerExchange { concatenation, ..self }
    }

    /// The key for TLS that the exchange has made, once the host has proved itself, and the key by which it did.
    pub fn take_generated(&mut self) -> Option<(Generated, DhKey)> {
        let ControllerStep::Proved { key } = self.step else { return None };
        Some((self.generated.take()?, self.keys.host[key].clone()))
    }

    /// How far it is.
    pub fn outcome(&self) -> Outcome {
        match self.step {
            ControllerStep::Proved { key } => Outcome::Proved(key),
            ControllerStep::Failed(explanation) => Outcome::Failed(explanation),
            _ => Outcome::Pending,
        }
    }

    /// The reason for which it has failed, or is about to: the host is told next.
    pub fn failure(&self) -> Option<Explanation> {
        match self.step {
            ControllerStep::Failing(explanation) | ControllerStep::Failed(explanation) => Some(explanation),
            _ => None,
        }
    }

    /// Whether the host has proved its key, and wants a proof of the controller, for which there is no key.
    pub fn lacks_controller_key(&self) -> bool {
        self.lacks_key
    }

    /// Whether the host has not accepted the proof of the controller.
    pub fn is_refused_by_host(&self) -> bool {
        self.is_refused
    }

    /// A message of the host. Returns a job if one is due.
    pub fn on_send(&mut self, bytes: &[u8]) -> Option<DhJob> {
        match self.take(bytes) {
            Ok(job) => job,
            Err(explanation) => {
                self.step = match self.step {
                    // A host that answers a failure has heard of it.
                    ControllerStep::Failing(first) | ControllerStep::Failed(first) => {
                        ControllerStep::Failed(first)
                    }
                    _ => ControllerStep::Failing(explanation),
                };
                None
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Option<DhJob>, Explanation> {
        let hash = self.agreed.as_ref().map(|agreed| agreed.hash);
        let (transaction, message) = Message::parse(bytes, hash)?;
        if self.agreed.is_none() {
            self.transaction = transaction;
        } else if transaction != self.transaction {
            return Err(Explanation::Message);
        }
        match (std::mem::replace(&mut self.step, ControllerStep::Start), message) {
            (ControllerStep::Start, Message::Negotiate { secure_channel, hashes, groups })
                if self.agreed.is_none() =>
            {
                let makes_key = self.concatenation.makes_key(secure_channel)?;
                let mut common = self.offer.hashes.iter().filter(|hash| hashes.contains(&hash.id()));
                let hash = *common.find(|hash| !makes_key || hash.is_of_tls()).ok_or(Explanation::Hash)?;
                let id = |group: &Option<Group>| group.map_or(0, Group::id);
                let common: Vec<_> =
                    self.offer.groups.iter().filter(|group| groups.contains(&id(group))).collect();
                // Without a group there is no secret of which a key could be made.
                let none = if common.is_empty() { Explanation::Group } else { Explanation::SecureChannel };
                let group = common.into_iter().find(|group| !makes_key || group.is_some());
                let group = *group.ok_or(none)?;
                self.agreed = Some(Agreed { transaction, hash, group, secure_channel });
                let Some(group) = group else {
                    self.step = ControllerStep::Challenging { public: Vec::new() };
                    return Ok(None);
                };
                self.step = ControllerStep::Preparing;
                let exponent = exponent(group, &self.random.exponent);
                Ok(Some(DhJob { group, exponent, peer: None, wants_public: true }))
            }
            (ControllerStep::Challenged, Message::Reply { response, challenge, sequence, public }) => {
                let replied = Replied { response, challenge, sequence };
                let group = self.agreed.as_ref().and_then(|agreed| agreed.group);
                match group {
                    None if public.is_empty() => {
                        self.check(replied, None)?;
                        Ok(None)
                    }
                    None => Err(Explanation::Payload),
                    Some(group) => {
                        self.step = ControllerStep::Checking(replied);
                        let exponent = exponent(group, &self.random.exponent);
                        Ok(Some(DhJob { group, exponent, peer: Some(public), wants_public: false }))
                    }
                }
            }
            (ControllerStep::Proving { key }, Message::Success2) => {
                self.step = ControllerStep::Proved { key };
                Ok(None)
            }
            (step, Message::Failure2(explanation)) if step != ControllerStep::Start => {
                self.is_refused |= matches!(step, ControllerStep::Proving { .. });
                self.step = ControllerStep::Failed(match step {
                    ControllerStep::Failing(first) | ControllerStep::Failed(first) => first,
                    _ => explanation,
                });
                Ok(None)
            }
            (step, _) => {
                self.step = step;
                Err(Explanation::Message)
            }
        }
    }

    /// The job that was returned last is done.
    pub fn on_computed(&mut self, result: DhResult) {
        match (std::mem::replace(&mut self.step, ControllerStep::Start), result.shared) {
            (ControllerStep::Preparing, _) => {
                self.step = ControllerStep::Challenging { public: result.public };
            }
            (ControllerStep::Checking(replied), Some(shared)) => {
                let checked = match shared {
                    Ok(shared) => self.check(replied, Some(&shared)),
                    Err(InvalidPublicValue) => Err(Explanation::Payload),
                };
                if let Err(explanation) = checked {
                    self.step = ControllerStep::Failing(explanation);
                }
            }
            // The exchange has failed meanwhile.
            (step, _) => self.step = step,
        }
    }

    /// Checks the response of the host, and makes the one to its challenge.
    fn check(&mut self, replied: Replied, shared: Option<&Secret>) -> Result<(), Explanation> {
        let agreed = self.agreed.as_ref().expect("a challenge was sent");
        let session_key = shared.map(|shared| session_key(agreed.hash, shared));
        let exchange = response::Exchange {
            hash: agreed.hash,
            session_key: session_key.as_ref(),
            transaction: agreed.transaction,
            secure_channel: agreed.secure_channel,
            host: &self.names.host,
            controller: &self.names.controller,
        };
        let challenge = (&self.random.challenge[..agreed.hash.length()], self.random.sequence);
        // All keys are tried, so that the time does not say which one it was.
        let mut proved = None;
        for (index, key) in self.keys.host.iter().enumerate() {
            let key = key.transformed(&self.names.host);
            if exchange.is_proved(Prover::Host, &key, challenge, &replied.response) {
                proved = proved.or(Some(index));
            }
        }
        let key = proved.ok_or(Explanation::Failed)?;
        if agreed.secure_channel != NO_CHANNEL {
            let (Some(shared), Some(theirs)) = (shared, &replied.challenge) else {
                return Err(Explanation::Payload);
            };
            self.generated = Some(Generated::new(agreed.hash, shared, [challenge.0, theirs]));
        }
        // A sequence number of 0 with a challenge asks for no response.
        let asked = replied.challenge.filter(|_| replied.sequence != 0);
        let response = match asked {
            None => None,
            Some(challenge) => {
                self.lacks_key = self.keys.controller.is_none();
                let own = self.keys.controller.as_ref().ok_or(Explanation::Failed)?;
                let own = own.transformed(&self.names.controller);
                Some(exchange.response(Prover::Controller, &own, &challenge, replied.sequence))
            }
        };
        self.step = ControllerStep::Succeeding { response, key };
        Ok(())
    }

    /// The host asks for a message.
    pub fn on_receive(&mut self) -> Received {
        let transaction = self.transaction;
        let (message, next) = match std::mem::replace(&mut self.step, ControllerStep::Start) {
            ControllerStep::Challenging { public } => {
                let Agreed { hash, group, .. } = self.agreed.clone().expect("hash and group are chosen");
                let message = Message::Challenge {
                    hash,
                    group: group.map(|group| (group, public)),
                    sequence: self.random.sequence,
                    challenge: self.random.challenge[..hash.length()].to_vec(),
                };
                (message, ControllerStep::Challenged)
            }
            ControllerStep::Succeeding { response, key } => {
                let length = self.agreed.as_ref().expect("a response was checked").hash.length();
                let next = match response {
                    Some(_) => ControllerStep::Proving { key },
                    None => ControllerStep::Proved { key },
                };
                (Message::Success1 { response, length }, next)
            }
            ControllerStep::Failing(explanation) | ControllerStep::Failed(explanation) => {
                (Message::Failure1(explanation), ControllerStep::Failed(explanation))
            }
            step @ (ControllerStep::Preparing | ControllerStep::Checking(_)) => {
                self.step = step;
                return Received::Wait;
            }
            ControllerStep::Start
            | ControllerStep::Challenged
            | ControllerStep::Proving { .. }
            | ControllerStep::Proved { .. } => {
                (Message::Failure1(Explanation::Message), ControllerStep::Failed(Explanation::Message))
            }
        };
        self.step = next;
        Received::Message(message.to_bytes(transaction))
    }
}

/// Step of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HostStep {
    /// A message is to be sent, and then this is due.
    Sending(Vec<u8>, Box<HostStep>),
    /// Awaits Challenge.
    Negotiating,
    /// The shared secret is being computed.
    Computing(Challenged),
    /// Awaits Success1.
    Replied,
    /// The end.
    Proved,
    /// The end.
    Failed(Explanation),
}

/// A challenge that is being answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Challenged {
    challenge: Vec<u8>,
    sequence: u32,
}

/// The keys of a host for one controller.
#[derive(Clone, Debug)]
pub struct HostKeys {
    /// The key of the host.
    pub host: DhKey,
    /// The key of the controller: with it, the controller has to prove itself.
    pub controller: Option<DhKey>,
}

/// The host's end.
#[derive(Debug)]
pub struct HostExchange {
    offer: Offer,
    names: Names,
    keys: HostKeys,
    random: Randomness,
    transaction: u16,
    agreed: Option<Agreed>,
    session_key: Option<Secret>,
    /// SC_C: whether the exchange is to make a key for TLS.
    secure_channel: u8,
    generated: Option<Generated>,
    step: HostStep,
}

impl HostExchange {
    /// An exchange whose first message waits to be sent.
    pub fn new(
        offer: Offer,
        names: Names,
        keys: HostKeys,
        random: Randomness,
        transaction: u16,
    ) -> HostExchange {
        HostExchange::begin(offer, names, keys, random, (transaction, NO_CHANNEL))
    }

    /// The same, of which a key for TLS is made. Without hashes that TLS does not have, and with a group only.
    pub fn concatenating(
        channel: Channel,
        mut offer: Offer,
        names: Names,
        keys: HostKeys,
        random: Randomness,
        transaction: u16,
    ) -> HostExchange {
        offer.hashes.retain(|hash| hash.is_of_tls());
        offer.groups.retain(Option::is_some);
        HostExchange::begin(offer, names, keys, random, (transaction, channel as u8))
    }

    fn begin(
        offer: Offer,
        names: Names,
        keys: HostKeys,
        random: Randomness,
        (transaction, secure_channel): (u16, u8),
    ) -> HostExchange {
        assert_ne!(random.sequence, 0, "0 says that no response is wanted");
        let negotiate = Message::Negotiate {
            secure_channel,
            hashes: offer.hashes.iter().map(|hash| hash.id()).collect(),
            groups: offer.groups.iter().map(|group| group.map_or(0, Group::id)).collect(),
        };
        let step = HostStep::Sending(negotiate.to_bytes(transaction), Box::new(HostStep::Negotiating));
        HostExchange {
            offer,
            names,
            keys,
            random,
            transaction,
            agreed: None,
            session_key: None,
            secure_channel,
            generated: None,
            step,
        }
    }

    /// The key for TLS that the exchange has made, once it is proved.
    pub fn take_generated(&mut self) -> Option<Generated> {
        matches!(self.step, HostStep::Proved).then(|| self.generated.take()).flatten()
    }

    /// How far it is. The controller has proved itself if it was asked to.
    pub fn outcome(&self) -> Outcome {
        match self.step {
            HostStep::Proved => Outcome::Proved(0),
            HostStep::Failed(explanation) => Outcome::Failed(explanation),
            _ => Outcome::Pending,
        }
    }

    /// The message to send now, if there is one.
    pub fn next_send(&mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.step, HostStep::Negotiating) {
            HostStep::Sending(message, next) => {
                self.step = *next;
                Some(message)
            }
            step => {
                self.step = step;
                None
            }
        }
    }

    /// Whether a message of the controller is to be asked for now.
    pub fn wants_receive(&self) -> bool {
        matches!(self.step, HostStep::Negotiating | HostStep::Replied)
    }

    /// A message of the controller. Returns a job if one is due.
    pub fn on_received(&mut self, bytes: &[u8]) -> Option<DhJob> {
        match self.take(bytes) {
            Ok(job) => job,
            Err(explanation) => {
                self.fail(explanation);
                None
            }
        }
    }

    fn fail(&mut self, explanation: Explanation) {
        let failure = Message::Failure2(explanation).to_bytes(self.transaction);
        self.step = HostStep::Sending(failure, Box::new(HostStep::Failed(explanation)));
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Option<DhJob>, Explanation> {
        let hash = self.agreed.as_ref().map(|agreed| agreed.hash);
        let (transaction, message) = Message::parse(bytes, hash)?;
        if transaction != self.transaction {
            return Err(Explanation::Message);
        }
        match (self.step.clone(), message) {
            (HostStep::Negotiating, Message::Challenge { hash, group, sequence, challenge }) => {
                let (chosen, public) = group.unzip();
                if !self.offer.hashes.contains(&hash) {
                    return Err(Explanation::Hash);
                }
                if !self.offer.groups.contains(&chosen) {
                    return Err(Explanation::Group);
                }
                let secure_channel = self.secure_channel;
                self.agreed = Some(Agreed { transaction, hash, group: chosen, secure_channel });
                let challenged = Challenged { challenge, sequence };
                let Some(group) = chosen else {
                    self.reply(challenged, Vec::new());
                    return Ok(None);
                };
                self.step = HostStep::Computing(challenged);
                let exponent = exponent(group, &self.random.exponent);
                Ok(Some(DhJob { group, exponent, peer: public, wants_public: true }))
            }
            (HostStep::Replied, Message::Success1 { response, .. }) => {
                let Some(key) = &self.keys.controller else {
                    self.step = HostStep::Proved;
                    return Ok(None);
                };
                let key = key.transformed(&self.names.controller);
                let hash = self.agreed.as_ref().expect("it has replied").hash;
                let challenge = (&self.random.challenge[..hash.length()], self.random.sequence);
                let response = response.ok_or(Explanation::Failed)?;
                if !self.exchange().is_proved(Prover::Controller, &key, challenge, &response) {
                    return Err(Explanation::Failed);
                }
                let success = Message::Success2.to_bytes(transaction);
                self.step = HostStep::Sending(success, Box::new(HostStep::Proved));
                Ok(None)
            }
            (_, Message::Failure1(explanation)) => {
                self.step = HostStep::Failed(explanation);
                Ok(None)
            }
            _ => Err(Explanation::Message),
        }
    }

    /// The job that was returned last is done.
    pub fn on_computed(&mut self, result: DhResult) {
        let HostStep::Computing(challenged) = self.step.clone() else { return };
        match result.shared {
            Some(Ok(shared)) => {
                let hash = self.agreed.as_ref().expect("it was challenged").hash;
                self.session_key = Some(session_key(hash, &shared));
                if self.secure_channel != NO_CHANNEL {
                    let own = &self.random.challenge[..hash.length()];
                    self.generated = Some(Generated::new(hash, &shared, [&challenged.challenge, own]));
                }
                self.reply(challenged, result.public);
            }
            Some(Err(InvalidPublicValue)) | None => self.fail(Explanation::Payload),
        }
    }

    fn reply(&mut self, Challenged { challenge, sequence }: Challenged, public: Vec<u8>) {
        let hash = self.agreed.as_ref().expect("it was challenged").hash;
        let key = self.keys.host.transformed(&self.names.host);
        let is_two_way = self.keys.controller.is_some();
        let reply = Message::Reply {
            response: self.exchange().response(Prover::Host, &key, &challenge, sequence),
            challenge: (is_two_way || self.secure_channel != NO_CHANNEL)
                .then(|| self.random.challenge[..hash.length()].to_vec()),
            sequence: if is_two_way { self.random.sequence } else { 0 },
            public,
        };
        self.step = HostStep::Sending(reply.to_bytes(self.transaction), Box::new(HostStep::Replied));
    }

    fn exchange(&self) -> response::Exchange<'_> {
        let agreed = self.agreed.as_ref().expect("it was challenged");
        response::Exchange {
            hash: agreed.hash,
            session_key: self.session_key.as_ref(),
            transaction: agreed.transaction,
            secure_channel: agreed.secure_channel,
            host: &self.names.host,
            controller: &self.names.controller,
        }
    }
}
