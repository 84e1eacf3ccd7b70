//! Messages of DH-HMAC-CHAP to both ends of an exchange, from a peer that has no key.
//!
//! The peer sends any bytes, well-formed messages with any fields, and such messages with one byte changed, in any order, asks for
//! messages in any order, and has computations done late or not at all.
//!
//! Holds: nothing panics; a message that is read is written again as it was; a peer without the key never proves itself, at either end;
//!        an end that has failed or was proved stays so until its last message is taken.

use crate::input::Input;
use auth::exchange::{
    ControllerExchange, ControllerKeys, DhJob, HostExchange, HostKeys, Names, Offer, Outcome, Randomness,
    Received,
};
use auth::{Channel, Concatenation, DhKey, Explanation, Group, Hash, Message, Secret};

/// Steps of one input. A group costs milliseconds a computation.
const STEPS_MAX: u32 = 24;
/// Computations of one input.
const COMPUTED_MAX: u32 = 2;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let group = if input.one_in(8) { Some(Group::Ffdhe2048) } else { None };
    let names = Names { host: "nqn.2025-01.io.example:host".into(), controller: crate::SUBSYSTEM.into() };
    let offer = Offer { hashes: Hash::ALL.to_vec(), groups: vec![group] };
    let random = Randomness { challenge: [7; 64], sequence: 9, exponent: Secret::new(vec![5; 64]) };
    match input.flag() {
        true => attack_controller(&mut input, (offer, names, random)),
        false => attack_host(&mut input, (offer, names, random)),
    }
}

fn key(seed: u8) -> DhKey {
    DhKey::new(Some(Hash::Sha256), Secret::new(vec![seed; 32])).expect("32 bytes")
}

fn attack_controller(input: &mut Input<'_>, (offer, names, random): (Offer, Names, Randomness)) {
    let controller = input.flag().then(|| key(2));
    let keys = ControllerKeys { host: vec![key(1)], controller };
    let concatenation = input.pick(&[
        Concatenation::Refused,
        Concatenation::New { is_due: false },
        Concatenation::New { is_due: true },
        Concatenation::Another,
    ]);
    let mut exchange = ControllerExchange::new(offer, names, keys, random).allowing(concatenation);
    let (mut job, mut computed) = (None, 0);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(4) {
            0 | 1 => {
                let message = message(input);
                read_and_write(&message);
                job = exchange.on_send(&message).or(job);
            }
            2 => {
                if let Received::Message(message) = exchange.on_receive() {
                    read_and_write(&message);
                }
            }
            _ => compute(&mut job, &mut computed, |job| exchange.on_computed(job.compute())),
        }
        assert!(!matches!(exchange.outcome(), Outcome::Proved(_)), "a host without the key is proved");
        assert!(exchange.take_generated().is_none(), "a host without the key has a key for TLS");
        if let Outcome::Failed(explanation) = exchange.outcome() {
            assert_eq!(exchange.failure(), Some(explanation));
        }
    }
}

fn attack_host(input: &mut Input<'_>, (offer, names, random): (Offer, Names, Randomness)) {
    let keys = HostKeys { host: key(1), controller: Some(key(2)) };
    let mut exchange = match input.flag() {
        true => HostExchange::new(offer, names, keys, random, 1),
        false => HostExchange::concatenating(Channel::NewKey, offer, names, keys, random, 1),
    };
    let (mut job, mut computed) = (None, 0);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.below(4) {
            0 => {
                if let Some(message) = exchange.next_send() {
                    read_and_write(&message);
                }
            }
            1 | 2 => {
                let message = message(input);
                job = exchange.on_received(&message).or(job);
            }
            _ => compute(&mut job, &mut computed, |job| exchange.on_computed(job.compute())),
        }
        assert!(!matches!(exchange.outcome(), Outcome::Proved(_)), "a controller without the key is proved");
    }
}

fn compute(job: &mut Option<DhJob>, computed: &mut u32, finish: impl FnOnce(DhJob)) {
    if *computed < COMPUTED_MAX
        && let Some(job) = job.take()
    {
        *computed += 1;
        finish(job);
    }
}

/// A message of a peer without a key.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    if input.one_in(4) {
        let length = input.below(80) as usize;
        return input.bytes(length);
    }
    let hash = input.pick(&Hash::ALL);
    let digest = input.byte();
    let public = match input.below(4) {
        0 => Vec::new(),
        1 => vec![input.byte(); Group::Ffdhe2048.length()],
        2 => vec![0xff; Group::Ffdhe2048.length()],
        _ => vec![1; input.below(600) as usize],
    };
    let explanation = input.pick(&[Explanation::Failed, Explanation::Hash, Explanation::Message]);
    let message = match input.below(7) {
        0 => Message::Negotiate {
            secure_channel: input.below(3) as u8,
            hashes: vec![hash.id(), input.byte()],
            groups: vec![0, 1, input.byte()],
        },
        1 => Message::Challenge {
            hash,
            group: (!public.is_empty()).then_some((Group::Ffdhe2048, public)),
            sequence: input.word(),
            challenge: vec![digest; hash.length()],
        },
        2 => Message::Reply {
            response: vec![digest; hash.length()],
            challenge: input.flag().then(|| vec![digest; hash.length()]),
            sequence: input.word(),
            public,
        },
        3 => Message::Success1 {
            response: input.flag().then(|| vec![digest; hash.length()]),
            length: hash.length(),
        },
        4 => Message::Success2,
        5 => Message::Failure1(explanation),
        _ => Message::Failure2(explanation),
    };
    let transaction = if input.one_in(8) { input.half() } else { 1 };
    let mut bytes = message.to_bytes(transaction);
    if input.one_in(4) {
        let at = input.below(bytes.len() as u32) as usize;
        bytes[at] ^= input.byte();
    }
    if input.one_in(8) {
        bytes.truncate(input.below(bytes.len() as u32 + 1) as usize);
    }
    bytes
}

/// Whatever can be read of a message is written in the same way.
fn read_and_write(bytes: &[u8]) {
    for hash in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)] {
        if let Ok((transaction, message)) = Message::parse(bytes, hash) {
            let again = message.to_bytes(transaction);
            assert_eq!(Message::parse(&again, hash), Ok((transaction, message)), "{bytes:02x?}");
        }
    }
}
