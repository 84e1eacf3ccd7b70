//! The first message of TLS to a target, from a peer that may send anything.
//!
//! The peer sends any bytes in any pieces; or a ClientHello with right and wrong pre-shared keys, cut into records and pieces of any size,
//! and the same with bytes changed.
//!
//! Holds: nothing panics; no more than 32 KiB are kept; an unchanged ClientHello is answered as a naive model says, with the first key
//!        that is right; a changed one is chosen only for a key whose binder is the one of the changed message. Binders are computed here
//!        anew, from HMAC alone.

use crate::input::Input;
use auth::hello::{Chosen, Collector, Found, Keys, Mismatch, Psk};
use auth::psk::{Derivation, Version};
use auth::{Generated, Hash, Secret, TlsKey};

const HOST: &str = "nqn.2025-01.io.example:host";
/// A host without a key.
const OTHER: &str = "nqn.2025-01.io.example:other";
/// Most bytes that a collector keeps.
const KEPT_MAX: usize = 32 << 10;
/// Most identities that a host may offer.
const OFFERS_MAX: usize = 8;
/// The keys of `HOST`, by hash and seed, in the order of its configuration.
const KEYS: [(Hash, u8); 3] = [(Hash::Sha256, 1), (Hash::Sha384, 2), (Hash::Sha256, 3)];
/// The seed of the key by which hosts without one are tried.
const DECOY: u8 = 9;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.one_in(4) {
        anything(&mut input);
    } else {
        hello(&mut input);
    }
}

fn key(hash: Hash, seed: u8) -> TlsKey {
    TlsKey::new(Some(hash), Secret::new(vec![seed; hash.length()])).expect("as long as the hash")
}

/// A key that an exchange of DH-HMAC-CHAP has made.
fn generated(hash: Hash, seed: u8) -> Generated {
    Generated::new(hash, &Secret::new(vec![seed; 256]), [&[1; 32], &[2; 32]])
}

/// The keys of a target with one host, which has also made keys, of the same hashes and seeds.
fn known(host: &str, _controller: &str) -> Keys {
    match host == HOST {
        true => Keys {
            configured: KEYS.map(|(hash, seed)| key(hash, seed)).to_vec(),
            are_known: true,
            generated: KEYS.map(|(hash, seed)| generated(hash, seed)).to_vec(),
        },
        false => {
            let configured = vec![key(Hash::Sha256, DECOY)];
            Keys { configured, are_known: false, generated: Vec::new() }
        }
    }
}

/// Sends `bytes` in pieces, until the message is complete or refused. Returns the choice, and whether all bytes were taken.
fn send(input: &mut Input<'_>, mut bytes: &[u8]) -> (Result<Chosen, Mismatch>, bool) {
    let mut collector = Collector::default();
    let mut taken = 0;
    loop {
        if bytes.is_empty() {
            return (Err(Mismatch::Malformed("the target waits for more")), false);
        }
        let length = match input.below(4) {
            0 => 1,
            1 => input.below(64) as usize + 1,
            _ => bytes.len(),
        };
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        match collector.take(piece) {
            Ok(is_complete) => {
                taken += piece.len();
                assert!(taken <= KEPT_MAX, "{taken} bytes are kept");
                let hello = collector.hello();
                if is_complete {
                    let choice = hello.and_then(|hello| hello.choose(known));
                    let kept = collector.into_records();
                    assert_eq!(kept.len(), taken, "the library gets what has arrived");
                    return (choice, bytes.is_empty());
                }
                assert!(hello.is_err(), "it is read before it is complete");
            }
            Err(mismatch) => return (Err(mismatch), bytes.is_empty()),
        }
    }
}

/// Any bytes, now and then behind a header that lets them be read. Without a key, none is chosen.
fn anything(input: &mut Input<'_>) {
    let length = input.below(600) as usize;
    let body = input.bytes(length);
    let bytes = match input.below(4) {
        0 => body,
        1 => [&[22, 3, 1][..], &vector(2, &body)].concat(),
        2 => [&[22, 3, 1][..], &vector(2, &[&[1][..], &vector(3, &body)].concat())].concat(),
        // Records without an end, of one byte or more each.
        _ => {
            let size = input.below(64) as usize + 1;
            let begin = [&[22, 3, 1][..], &vector(2, &[1, 0, 0x3f, 0xff])].concat();
            let record = [&[22, 3, 3][..], &vector(2, &vec![input.byte(); size])].concat();
            [begin, record.repeat(40_000 / record.len())].concat()
        }
    };
    let (choice, _) = send(input, &bytes);
    assert!(choice.is_err(), "a peer without a key is chosen: {choice:?}");
}

/// A pre-shared key that the peer offers.
#[derive(Debug)]
struct Offer {
    psk: Psk,
    /// The key of `HOST`, if it is one.
    right: Option<Found>,
    /// Whether its binder is changed.
    is_broken: bool,
}

fn offer(input: &mut Input<'_>) -> Offer {
    let derivation = input.pick(&Derivation::ALL);
    let host = if input.one_in(4) { OTHER } else { HOST };
    let (hash, seed) = match input.below(6) {
        4 => (Hash::Sha384, 1),
        5 => (Hash::Sha256, DECOY),
        index => KEYS[index as usize % KEYS.len()],
    };
    let psks = Psk::of_host(&key(hash, seed), (host, crate::SUBSYSTEM), derivation);
    let mut psk = psks[input.below(2) as usize].clone();
    let index = KEYS.iter().position(|one| *one == (hash, seed)).filter(|_| host == HOST);
    let mut right = index.map(|index| Found::Configured { index, derivation });
    if input.one_in(4) {
        let generated = generated(hash, seed);
        let retained = &generated.retained(host, crate::SUBSYSTEM)[input.below(2) as usize];
        let secret = retained.psk(Version::One).expect("short names");
        psk = Psk { identity: retained.identity(Version::One).into_bytes(), secret, hash };
        right = index.map(|_| Found::Generated);
    }
    if input.one_in(6) {
        let long = "n".repeat(input.below(600) as usize);
        psk.identity = match input.below(5) {
            0 => input.bytes(40),
            1 => format!("NVMe1G01 {HOST} {} digest", crate::SUBSYSTEM).into_bytes(),
            2 => format!("NVMe0R01 {long} {}", crate::SUBSYSTEM).into_bytes(),
            3 => format!("NVMe1R02 {HOST} {long} digest").into_bytes(),
            _ => Vec::new(),
        };
        right = None;
    }
    Offer { psk, right, is_broken: input.one_in(6) }
}

/// A ClientHello with what it says.
struct Sketch {
    offers: Vec<Offer>,
    suites: Vec<u8>,
    is_current: bool,
    has_exchange: bool,
}

impl Sketch {
    fn new(input: &mut Input<'_>) -> Sketch {
        let count = input.below(OFFERS_MAX as u32 + 2);
        Sketch {
            offers: (0..count).map(|_| offer(input)).collect(),
            suites: input.pick(&[&[0x13, 1, 0x13, 2][..], &[0x13, 2], &[0x13, 1, 0x13, 3], &[]]).to_vec(),
            is_current: !input.one_in(16),
            has_exchange: !input.one_in(16),
        }
    }

    /// The message, and the length of its part that binders protect.
    fn message(&self) -> (Vec<u8>, usize) {
        let identity = |offer: &Offer| [vector(2, &offer.psk.identity), vec![0; 4]].concat();
        let identities = vector(2, &self.offers.iter().flat_map(identity).collect::<Vec<_>>());
        let lengths: usize = self.offers.iter().map(|offer| 1 + offer.psk.hash.length()).sum();
        let build = |binders: &[u8]| {
            let versions: &[u8] = if self.is_current { &[3, 4] } else { &[3, 3] };
            let modes: &[u8] = if self.has_exchange { &[1] } else { &[0] };
            let mut extensions =
                [extension(43, &vector(1, versions)), extension(45, &vector(1, modes))].concat();
            if !self.offers.is_empty() {
                extensions.extend(extension(41, &[&identities[..], &vector(2, binders)].concat()));
            }
            let (suites, extensions) = (vector(2, &self.suites), vector(2, &extensions));
            let body =
                [&[3, 3][..], &[7; 32], &vector(1, &[]), &suites, &vector(1, &[0]), &extensions].concat();
            [&[1][..], &vector(3, &body)].concat()
        };
        let draft = build(&vec![0; lengths]);
        let binders = if self.offers.is_empty() { 0 } else { 2 + lengths };
        let protected = draft.len() - binders;
        let of = |offer: &Offer| {
            let mut binder = binder(&offer.psk, &draft[..protected]);
            binder[0] ^= u8::from(offer.is_broken);
            vector(1, &binder)
        };
        (build(&self.offers.iter().flat_map(of).collect::<Vec<_>>()), protected)
    }

    /// The first offer that is right, if one may be chosen.
    fn first_right(&self) -> Option<&Offer> {
        let is_read = self.is_current && self.has_exchange && self.offers.len() <= OFFERS_MAX;
        let right = self.offers.iter().find(|offer| offer.right.is_some() && !offer.is_broken);
        right.filter(|offer| is_read && self.has_suite(offer.psk.hash))
    }

    fn has_suite(&self, hash: Hash) -> bool {
        self.suites.chunks(2).any(|suite| suite == [0x13, hash.id()])
    }
}

fn hello(input: &mut Input<'_>) {
    let sketch = Sketch::new(input);
    let (mut message, protected) = sketch.message();
    let before = message.clone();
    for _ in 0..input.below(3) {
        let at = input.below(message.len() as u32) as usize;
        message[at] ^= input.byte();
    }
    let records = cut(input, &message);
    let (choice, is_all) = send(input, &records);
    if message == before {
        let expected = sketch.first_right().filter(|_| records.len() <= KEPT_MAX);
        assert!(is_all || expected.is_none(), "something is left over");
        match (&choice, expected) {
            (Ok(chosen), Some(Offer { psk, right, .. })) => {
                assert_eq!(Some(chosen.found), *right);
                assert_eq!((&*chosen.host, &*chosen.controller), (HOST, crate::SUBSYSTEM));
                assert!(chosen.psk.secret == psk.secret && chosen.psk.identity == psk.identity);
            }
            (Err(_), None) => {}
            other => panic!("{other:?}: another choice than the first right key"),
        }
    } else if let Ok(chosen) = choice {
        assert_eq!(message[..protected], before[..protected], "binders protect every byte before them");
        let right = binder(&chosen.psk, &message[..protected]);
        let is_there = message[protected..].windows(right.len()).any(|part| part == &right[..]);
        assert!(is_there, "no binder is the one of the key that was chosen");
    }
}

/// Cuts a message into records of one size.
fn cut(input: &mut Input<'_>, message: &[u8]) -> Vec<u8> {
    let size = match input.below(3) {
        0 => message.len(),
        1 => input.below(400) as usize + 1,
        _ => 1,
    };
    message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &vector(2, part)].concat()).collect()
}

/// The binder of a key (RFC 8446, sections 4.2.11.2 and 7.1), by HMAC alone.
fn binder(psk: &Psk, protected: &[u8]) -> Vec<u8> {
    let hash = psk.hash;
    let expand = |prk: &[u8], label: &str, context: &[u8]| {
        let (length, label) = (hash.length() as u16, format!("tls13 {label}"));
        hash.hmac(prk, &[&length.to_be_bytes(), &vector(1, label.as_bytes()), &vector(1, context), &[1]])
    };
    let early = hash.hmac(&vec![0; hash.length()], &[psk.secret.expose()]);
    let key = expand(&early, "ext binder", &hash.digest(b""));
    let finished = expand(&key, "finished", b"");
    hash.hmac(&finished, &[&hash.digest(protected)]).to_vec()
}

/// A vector whose length takes so many octets.
fn vector(octets: usize, body: &[u8]) -> Vec<u8> {
    [&(body.len() as u64).to_be_bytes()[8 - octets..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(2, body)].concat()
}
