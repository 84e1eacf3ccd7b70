//! The ClientHello of a TLS 1.3 handshake with pre-shared keys, and the choice of the key by its binder.
//!
//! ```text
//!   records ─► Collector ─► ClientHello ─► Hello (offers: identity, binder) ─► choose ─► Chosen (host, controller, PSK)
//!                                                    each offer × each key of the host × each derivation:
//!                                                    is this binder the one of that PSK?
//! ```
//!
//! So two keys under one identity (rotation) and both derivations work, and nothing is tabulated for each host and subsystem. The TLS
//! library then gets the one PSK that was chosen, and verifies the binder once more.
//!
//! Holds: every text is read or refused within its bounds (the fuzz target `client_hello`);
//!        a binder is right for its PSK only (`a_key_is_chosen_by_its_binder`).
//! RFC 8446, sections 4.1.2, 4.2.9, 4.2.11, 5.1 and 6; NVMe/TCP Transport Specification: "PSK identity".

use crate::concatenation::Generated;
use crate::hash::Hash;
use crate::key::{Secret, TlsKey};
use crate::psk::{Derivation, Kind, Retained, Version};
use std::fmt;
use subtle::ConstantTimeEq;

/// Longest ClientHello, in bytes.
const MESSAGE_MAX: usize = 16 << 10;
/// Most bytes of records with it: a host may cut it into many.
const RECORDS_MAX: usize = 2 * MESSAGE_MAX;
/// Most identities that a host may offer.
const OFFERS_MAX: usize = 8;
/// Longest NQN, in bytes (NVM Express Base Specification: "NVMe Qualified Names"). A longer one does not fit into a derivation.
const NQN_MAX: usize = 223;
/// Bytes of an identity that are shown: the longest of NVMe (two NQNs and a digest of 48 bytes) is shorter.
const SHOWN_MAX: usize = 600;
/// Bytes before the message in a record; bytes before the body of a message.
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

/// ContentType of records with handshake messages; the type of a ClientHello.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Extensions.
const PRE_SHARED_KEY: u64 = 41;
const SUPPORTED_VERSIONS: u64 = 43;
const PSK_KEY_EXCHANGE_MODES: u64 = 45;
/// TLS 1.3 in `supported_versions`; `psk_dhe_ke` in `psk_key_exchange_modes`.
const TLS_1_3: [u8; 2] = [3, 4];
const PSK_DHE_KE: u8 = 1;
/// TLS_AES_128_GCM_SHA256 and TLS_AES_256_GCM_SHA384.
const SUITES: [(Hash, [u8; 2]); 2] = [(Hash::Sha256, [0x13, 1]), (Hash::Sha384, [0x13, 2])];

/// Alert that ends a handshake (RFC 8446, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alert {
    /// A message out of turn.
    UnexpectedMessage = 10,
    /// Nothing in common.
    HandshakeFailure = 40,
    /// A value that is not allowed.
    IllegalParameter = 47,
    /// A message that cannot be read.
    DecodeError = 50,
    /// A binder is wrong.
    DecryptError = 51,
    /// TLS 1.3 is not offered.
    ProtocolVersion = 70,
    /// The identity of a generated key is not known: the host begins anew.
    UnknownPskIdentity = 115,
    /// No pre-shared key is offered.
    CertificateRequired = 116,
}

impl Alert {
    /// The record that carries it, before any key is in use.
    pub const fn record(self) -> [u8; 7] {
        [21, 3, 3, 0, 2, 2, self as u8]
    }
}

/// Why no key was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The records or the ClientHello are malformed, too long, or offer too many identities.
    Malformed(&'static str),
    /// TLS 1.3 is not offered.
    OldVersion,
    /// The host offers no pre-shared key, or none with an ephemeral key exchange.
    NoPsk {
        /// Whether it offers keys, but only without an ephemeral key exchange.
        without_exchange: bool,
    },
    /// No identity is one of NVMe, or of a host with a key.
    Unknown {
        /// Whether an identity of a generated key is among them.
        is_generated: bool,
    },
    /// A key of that identity is known, and no binder is its.
    WrongKey,
    /// The digest of that identity is the one of a generated key, and the binder is not its.
    WrongGeneratedKey,
    /// The binder has the length of another hash than the identity names.
    OtherHash,
    /// The host does not offer the cipher suite of the identity.
    NoSuite,
}

impl Mismatch {
    /// The alert that the host gets.
    pub fn alert(self) -> Alert {
        match self {
            Mismatch::Malformed(_) => Alert::DecodeError,
            Mismatch::OldVersion => Alert::ProtocolVersion,
            Mismatch::NoPsk { without_exchange: false } => Alert::CertificateRequired,
            Mismatch::NoPsk { without_exchange: true } | Mismatch::NoSuite => Alert::HandshakeFailure,
            Mismatch::Unknown { is_generated: true } => Alert::UnknownPskIdentity,
            Mismatch::Unknown { is_generated: false }
            | Mismatch::WrongKey
            | Mismatch::WrongGeneratedKey
            | Mismatch::OtherHash => Alert::DecryptError,
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Malformed(what) => write!(f, "its ClientHello is malformed: {what}"),
            Mismatch::OldVersion => f.write_str("it does not offer TLS 1.3"),
            Mismatch::NoPsk { without_exchange: false } => {
                f.write_str("it offers no pre-shared key: give it one (nvme gen-tls-key --insert)")
            }
            Mismatch::NoPsk { without_exchange: true } => {
                f.write_str("it offers pre-shared keys only without an ephemeral key exchange")
            }
            Mismatch::Unknown { is_generated: false } => f.write_str(
                "no [[host]] with a tls_key has an identity that it offers: compare both NQNs with the identity",
            ),
            Mismatch::Unknown { is_generated: true } => {
                f.write_str("the generated key that it offers is not known here, or not any more")
            }
            Mismatch::WrongKey => f.write_str(
                "its key is another one than tls_key: compare the fingerprints at both ends (gimbal key show)",
            ),
            Mismatch::WrongGeneratedKey => f.write_str(
                "it derives another pre-shared key of the generated key than the standard says: update its kernel, or use a tls_key",
            ),
            Mismatch::OtherHash => f.write_str(
                "it made a SHA-256 binder for a SHA-384 key, as GnuTLS before 3.8.11 does: use a SHA-256 key, or update the host",
            ),
            Mismatch::NoSuite => f.write_str("it does not offer the cipher suite of its key"),
        }
    }
}

/// Collects the records of a ClientHello.
#[derive(Debug, Default)]
pub struct Collector {
    /// Everything that has arrived, for the TLS library.
    records: Vec<u8>,
    /// Where the next record begins.
    next: usize,
    message: Vec<u8>,
}

impl Collector {
    /// Takes bytes that have arrived. Returns whether the ClientHello is complete.
    ///
    /// # Errors
    /// It is not one, or it is too long.
    pub fn take(&mut self, bytes: &[u8]) -> Result<bool, Mismatch> {
        if self.records.len() + bytes.len() > RECORDS_MAX {
            return Err(Mismatch::Malformed("it is too long"));
        }
        self.records.extend_from_slice(bytes);
        while let Some(&[kind, _, _, high, low]) = self.records.get(self.next..self.next + RECORD_HEADER) {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if kind != HANDSHAKE || length == 0 {
                return Err(Mismatch::Malformed("a record is not one of a handshake, or empty"));
            }
            let body = self.next + RECORD_HEADER..self.next + RECORD_HEADER + length;
            let Some(part) = self.records.get(body.clone()) else { break };
            self.message.extend_from_slice(part);
            self.next = body.end;
            if self.is_complete()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_complete(&self) -> Result<bool, Mismatch> {
        let Some(&[kind, high, middle, low]) = self.message.get(..MESSAGE_HEADER) else { return Ok(false) };
        let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).expect("24 bits");
        if kind != CLIENT_HELLO {
            return Err(Mismatch::Malformed("the first message is another one"));
        }
        if length > MESSAGE_MAX {
            return Err(Mismatch::Malformed("it is too long"));
        }
        match self.message.len().cmp(&(MESSAGE_HEADER + length)) {
            std::cmp::Ordering::Less => Ok(false),
            std::cmp::Ordering::Equal => Ok(true),
            std::cmp::Ordering::Greater => Err(Mismatch::Malformed("a message follows it")),
        }
    }

    /// The ClientHello.
    ///
    /// # Errors
    /// It is not complete, or malformed, or offers no pre-shared key of TLS 1.3.
    pub fn hello(&self) -> Result<Hello<'_>, Mismatch> {
        match self.is_complete()? {
            true => Hello::parse(&self.message),
            false => Err(Mismatch::Malformed("it is not complete")),
        }
    }

    /// Everything that has arrived.
    pub fn into_records(self) -> Vec<u8> {
        self.records
    }
}

/// Reads big-endian numbers and vectors.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, octets: usize) -> Option<u64> {
        Some(self.bytes(octets)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A vector whose length takes so many octets.
    fn vector(&mut self, octets: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number(octets)?).ok()?;
        self.bytes(length)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A pre-shared key that a host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer<'a> {
    identity: &'a [u8],
    binder: &'a [u8],
}

/// A ClientHello that offers pre-shared keys.
#[derive(Debug)]
pub struct Hello<'a> {
    offers: Vec<Offer<'a>>,
    suites: &'a [u8],
    /// The message up to the binders, which the binders protect.
    truncated: &'a [u8],
}

impl<'a> Hello<'a> {
    fn parse(message: &'a [u8]) -> Result<Hello<'a>, Mismatch> {
        Hello::read(message).unwrap_or(Err(Mismatch::Malformed("a length in it is wrong")))
    }

    /// `None` if a length is wrong.
    fn read(message: &'a [u8]) -> Option<Result<Hello<'a>, Mismatch>> {
        let mut reader = Reader(message.get(MESSAGE_HEADER..)?);
        let (_version, _random) = (reader.bytes(2)?, reader.bytes(32)?);
        let (_session, suites, _compression) = (reader.vector(1)?, reader.vector(2)?, reader.vector(1)?);
        if reader.is_empty() {
            return Some(Err(Mismatch::OldVersion));
        }
        let mut extensions = Reader(reader.vector(2)?);
        if !reader.is_empty() || !suites.len().is_multiple_of(2) {
            return None;
        }
        let (mut is_current, mut modes, mut keys) = (false, None, None);
        while !extensions.is_empty() {
            if keys.is_some() {
                return Some(Err(Mismatch::Malformed("an extension follows the pre-shared keys")));
            }
            let (kind, body) = (extensions.number(2)?, extensions.vector(2)?);
            match kind {
                SUPPORTED_VERSIONS => {
                    let versions = Reader(body).vector(1)?;
                    is_current = versions.chunks_exact(2).any(|version| version == TLS_1_3);
                }
                PSK_KEY_EXCHANGE_MODES => modes = Some(Reader(body).vector(1)?),
                PRE_SHARED_KEY => keys = Some(body),
                _ => {}
            }
        }
        if !is_current {
            return Some(Err(Mismatch::OldVersion));
        }
        let Some(keys) = keys else { return Some(Err(Mismatch::NoPsk { without_exchange: false })) };
        if !modes.is_some_and(|modes| modes.contains(&PSK_DHE_KE)) {
            return Some(Err(Mismatch::NoPsk { without_exchange: true }));
        }
        let mut reader = Reader(keys);
        let mut identities = Reader(reader.vector(2)?);
        let truncated = &message[..message.len() - reader.0.len()];
        let mut binders = Reader(reader.vector(2)?);
        let mut offers = Vec::new();
        while !identities.is_empty() {
            let (identity, _age, binder) = (identities.vector(2)?, identities.number(4)?, binders.vector(1)?);
            if offers.len() == OFFERS_MAX {
                return Some(Err(Mismatch::Malformed("it offers more than 8 identities")));
            }
            offers.push(Offer { identity, binder });
        }
        if !reader.is_empty() || !binders.is_empty() || offers.is_empty() {
            return None;
        }
        Some(Ok(Hello { offers, suites, truncated }))
    }

    fn offers_suite(&self, hash: Hash) -> bool {
        SUITES.iter().any(|(of, suite)| *of == hash && self.suites.chunks_exact(2).any(|one| one == suite))
    }

    /// The first key whose binder is right, of those that `keys` knows for a host and a controller.
    ///
    /// # Errors
    /// No key is right.
    pub fn choose(&self, keys: impl Fn(&str, &str) -> Keys) -> Result<Chosen, Mismatch> {
        let mut why = Mismatch::Unknown { is_generated: false };
        for offer in &self.offers {
            let Some(identity) = Identity::parse(offer.identity) else { continue };
            let keys = keys(identity.host, identity.controller);
            let is_other_hash = offer.binder.len() != identity.hash.length();
            let of_generated: Vec<_> = identity.psks_of_generated(&keys.generated).collect();
            let (wrong, are_known) = match identity.kind {
                Kind::Retained => (Mismatch::WrongKey, keys.are_known),
                Kind::Generated => (Mismatch::WrongGeneratedKey, !of_generated.is_empty()),
            };
            why = match (are_known, identity.kind) {
                (true, _) if is_other_hash => Mismatch::OtherHash,
                (true, _) => wrong,
                (false, Kind::Generated) => Mismatch::Unknown { is_generated: true },
                (false, Kind::Retained) => why,
            };
            for (found, secret) in identity.psks_of_configured(&keys.configured).chain(of_generated) {
                let right = binder(identity.hash, &secret, self.truncated);
                if !bool::from(right.expose().ct_eq(offer.binder)) || !are_known {
                    continue;
                }
                if !self.offers_suite(identity.hash) {
                    return Err(Mismatch::NoSuite);
                }
                let psk = Psk { identity: offer.identity.to_vec(), secret, hash: identity.hash };
                let (host, controller) = (identity.host.to_owned(), identity.controller.to_owned());
                return Ok(Chosen { host, controller, psk, found });
            }
        }
        Err(why)
    }

    /// The identities that are offered, for the log. Longer ones than those of NVMe are cut.
    pub fn identities(&self) -> impl Iterator<Item = String> {
        self.offers.iter().map(|Offer { identity, .. }| match identity.get(..SHOWN_MAX) {
            Some(beginning) => format!("{}…", String::from_utf8_lossy(beginning)),
            None => String::from_utf8_lossy(identity).into_owned(),
        })
    }
}

/// The keys of a host for a controller.
#[derive(Debug)]
pub struct Keys {
    /// Any of them proves the host. An unknown host has one, too, so that the answer to it takes as long.
    pub configured: Vec<TlsKey>,
    /// Whether the host is known, and these are its.
    pub are_known: bool,
    /// The keys that DH-HMAC-CHAP has made for it.
    pub generated: Vec<Generated>,
}

/// A pre-shared key of TLS.
#[derive(Clone, Debug)]
pub struct Psk {
    /// Its identity.
    pub identity: Vec<u8>,
    /// The key.
    pub secret: Secret,
    /// Its hash, which also says the cipher suite.
    pub hash: Hash,
}

impl Psk {
    /// The keys that a host offers: the identity with a digest first. None if the NQNs are too long.
    pub fn of_host(key: &TlsKey, (host, controller): (&str, &str), derivation: Derivation) -> Vec<Psk> {
        let retained = Retained::of(key, host, controller, derivation);
        let psk = |version| {
            let secret = retained.psk(version)?;
            Some(Psk { identity: retained.identity(version).into_bytes(), secret, hash: retained.hash() })
        };
        [Version::One, Version::Zero].into_iter().filter_map(psk).collect()
    }

    /// The key that a host offers after DH-HMAC-CHAP has made it.
    pub fn of_generated(generated: &Generated, (host, controller): (&str, &str)) -> Option<Psk> {
        let [retained, _] = generated.retained(host, controller);
        let identity = retained.identity(Version::One).into_bytes();
        Some(Psk { identity, secret: retained.psk(Version::One)?, hash: retained.hash() })
    }
}

/// The origin of the key of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was brought to both ends.
    Configured {
        /// Its index among the keys of the host.
        index: usize,
        /// The derivation that the host uses.
        derivation: Derivation,
    },
    /// DH-HMAC-CHAP has made it.
    Generated,
}

/// The key of a handshake, and who it proves.
#[derive(Debug)]
pub struct Chosen {
    /// The NQN of the host.
    pub host: String,
    /// The NQN of the controller.
    pub controller: String,
    /// The key.
    pub psk: Psk,
    /// Its origin.
    pub found: Found,
}

/// An identity of NVMe.
struct Identity<'a> {
    version: Version,
    kind: Kind,
    hash: Hash,
    host: &'a str,
    controller: &'a str,
    digest: Option<&'a str>,
}

impl<'a> Identity<'a> {
    fn parse(identity: &'a [u8]) -> Option<Identity<'a>> {
        let text = std::str::from_utf8(identity).ok()?;
        let mut parts = text.split(' ');
        let (format, host, controller) = (parts.next()?, parts.next()?, parts.next()?);
        let (digest, end) = (parts.next(), parts.next());
        let (version, kind, hash) = match format {
            "NVMe0R01" => (Version::Zero, Kind::Retained, Hash::Sha256),
            "NVMe0R02" => (Version::Zero, Kind::Retained, Hash::Sha384),
            "NVMe1R01" => (Version::One, Kind::Retained, Hash::Sha256),
            "NVMe1R02" => (Version::One, Kind::Retained, Hash::Sha384),
            "NVMe1G01" => (Version::One, Kind::Generated, Hash::Sha256),
            "NVMe1G02" => (Version::One, Kind::Generated, Hash::Sha384),
            _ => return None,
        };
        let are_names = host.len() <= NQN_MAX && controller.len() <= NQN_MAX;
        let fits = are_names && end.is_none() && digest.is_some() == (version == Version::One);
        fits.then_some(Identity { version, kind, hash, host, controller, digest })
    }

    /// The PSKs of this identity by `keys`, as far as the identity can be theirs.
    fn psks_of_configured(&self, keys: &[TlsKey]) -> impl Iterator<Item = (Found, Secret)> {
        let keys = keys.iter().enumerate().filter(|_| self.kind == Kind::Retained);
        keys.flat_map(move |(index, key)| {
            Derivation::ALL.into_iter().filter_map(move |derivation| {
                let retained = Retained::of(key, self.host, self.controller, derivation);
                Some((Found::Configured { index, derivation }, self.psk(&retained)?))
            })
        })
    }

    /// The same by keys that DH-HMAC-CHAP has made.
    fn psks_of_generated(&self, keys: &[Generated]) -> impl Iterator<Item = (Found, Secret)> {
        let keys = keys.iter().filter(|_| self.kind == Kind::Generated);
        let retained = keys.flat_map(move |key| key.retained(self.host, self.controller));
        retained.filter_map(move |retained| Some((Found::Generated, self.psk(&retained)?)))
    }

    /// The PSK of this identity by `retained`, if the identity can be its.
    fn psk(&self, retained: &Retained<'_>) -> Option<Secret> {
        if retained.hash() != self.hash {
            return None;
        }
        if let Some(digest) = self.digest
            && !bool::from(retained.digest().as_bytes().ct_eq(digest.as_bytes()))
        {
            return None;
        }
        retained.psk(self.version)
    }
}

/// The binder of an external key (RFC 8446, sections 4.2.11.2 and 7.1).
fn binder(hash: Hash, secret: &Secret, truncated: &[u8]) -> Secret {
    let early = hash.extract(secret.expose());
    let expand = |prk: &[u8], label: &'static str, context: &[u8]| {
        Derivation::Standard.expand_label(hash, prk, (label, context), hash.length())
    };
    let key = expand(&early, "ext binder", &hash.digest(b""));
    let finished = expand(key.expose(), "finished", b"");
    Secret::new(hash.hmac(finished.expose(), &[&hash.digest(truncated)]).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5f1c3c6e-0000-4000-8000-000000000001";
    const CONTROLLER: &str = "nqn.2024-01.test:a";

    fn key(hash: Hash, seed: u8) -> TlsKey {
        TlsKey::new(Some(hash), Secret::new(vec![seed; hash.length()])).expect("as long as the hash")
    }

    fn vector(octets: usize, body: &[u8]) -> Vec<u8> {
        [&(body.len() as u64).to_be_bytes()[8 - octets..], body].concat()
    }

    fn extension(kind: u64, body: &[u8]) -> Vec<u8> {
        [&(kind as u16).to_be_bytes()[..], &vector(2, body)].concat()
    }

    struct Sketch {
        versions: Vec<u8>,
        modes: Vec<u8>,
        suites: Vec<u8>,
        psks: Vec<Psk>,
        after: Vec<u8>,
    }

    impl Sketch {
        fn new(psks: Vec<Psk>) -> Sketch {
            let suites = vec![0x13, 1, 0x13, 2];
            Sketch { versions: TLS_1_3.to_vec(), modes: vec![PSK_DHE_KE], suites, psks, after: Vec::new() }
        }

        /// The message, with right binders.
        fn message(&self) -> Vec<u8> {
            let identity = |psk: &Psk| [vector(2, &psk.identity), vec![0; 4]].concat();
            let identities = vector(2, &self.psks.iter().flat_map(identity).collect::<Vec<_>>());
            let lengths: usize = self.psks.iter().map(|psk| 1 + psk.hash.length()).sum();
            let build = |binders: &[u8]| {
                let mut extensions = extension(SUPPORTED_VERSIONS, &vector(1, &self.versions));
                extensions.extend(extension(PSK_KEY_EXCHANGE_MODES, &vector(1, &self.modes)));
                if !self.psks.is_empty() {
                    let keys = [&identities[..], &vector(2, binders)].concat();
                    extensions.extend(extension(PRE_SHARED_KEY, &keys));
                }
                extensions.extend(&self.after);
                let body = [
                    &[3, 3][..],
                    &[7; 32],
                    &vector(1, &[]),
                    &vector(2, &self.suites),
                    &vector(1, &[0]),
                    &vector(2, &extensions),
                ]
                .concat();
                [&[CLIENT_HELLO][..], &vector(3, &body)].concat()
            };
            let draft = build(&vec![0; lengths]);
            let truncated = &draft[..draft.len() - lengths - 2 - self.after.len()];
            let right = |psk: &Psk| vector(1, binder(psk.hash, &psk.secret, truncated).expose());
            build(&self.psks.iter().flat_map(right).collect::<Vec<_>>())
        }
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &vector(2, part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn choose(message: &[u8], keys: &[TlsKey]) -> Result<Chosen, Mismatch> {
        let mut collector = Collector::default();
        assert!(collector.take(&records(message, 1000))?);
        let known = |host: &str, controller: &str| {
            let are_known = (host, controller) == (HOST, CONTROLLER);
            Keys { configured: keys.to_vec(), are_known, generated: Vec::new() }
        };
        collector.hello()?.choose(known)
    }

    #[test]
    fn a_key_is_chosen_by_its_binder() {
        for hash in [Hash::Sha256, Hash::Sha384] {
            let keys = [key(hash, 1), key(hash, 2)];
            for (index, mine) in keys.iter().enumerate() {
                for derivation in Derivation::ALL {
                    for (version, psk) in
                        Psk::of_host(mine, (HOST, CONTROLLER), derivation).into_iter().enumerate()
                    {
                        let message = Sketch::new(vec![psk.clone()]).message();
                        let chosen = choose(&message, &keys).expect("its binder is right");
                        assert_eq!(chosen.found, Found::Configured { index, derivation });
                        assert_eq!((&*chosen.host, &*chosen.controller), (HOST, CONTROLLER));
                        assert!(chosen.psk.secret == psk.secret && chosen.psk.identity == psk.identity);
                        let others = [key(hash, 3)];
                        assert_eq!(choose(&message, &others).err(), Some(Mismatch::WrongKey), "{version}");
                        let mut changed = message;
                        changed[10] ^= 1;
                        assert_eq!(choose(&changed, &keys).err(), Some(Mismatch::WrongKey), "the random");
                    }
                }
            }
        }
    }

    #[test]
    fn a_generated_key_is_chosen_by_its_digest_and_binder() {
        for hash in [Hash::Sha256, Hash::Sha384] {
            let generated =
                |seed: u8| Generated::new(hash, &Secret::new(vec![seed; 256]), [&[1; 32], &[2; 32]]);
            let choose = |psk: &Psk, keys: &[Generated], host: &str| {
                let mut collector = Collector::default();
                let message = Sketch::new(vec![psk.clone()]).message();
                assert_eq!(collector.take(&records(&message, 1000)), Ok(true));
                collector.hello()?.choose(|of, controller| {
                    let is_mine = (of, controller) == (host, CONTROLLER);
                    let generated = if is_mine { keys.to_vec() } else { Vec::new() };
                    Keys { configured: vec![key(hash, 1)], are_known: true, generated }
                })
            };
            let keys = [generated(1), generated(2)];
            let unknown = Some(Mismatch::Unknown { is_generated: true });
            for mine in &keys {
                for retained in mine.retained(HOST, CONTROLLER) {
                    let secret = retained.psk(Version::One).expect("short names");
                    let psk = Psk { identity: retained.identity(Version::One).into_bytes(), secret, hash };
                    let chosen = choose(&psk, &keys, HOST).expect("its binder is right");
                    assert_eq!((chosen.found, &*chosen.host), (Found::Generated, HOST));
                    assert!(chosen.psk.secret == psk.secret && chosen.psk.identity == psk.identity);
                    assert_eq!(choose(&psk, &[generated(3)], HOST).err(), unknown, "another key");
                    assert_eq!(choose(&psk, &[], HOST).err(), unknown, "no key");
                    assert_eq!(choose(&psk, &keys, "nqn.other").err(), unknown, "the key of another host");
                    let wrong = Psk { secret: Secret::new(vec![0; hash.length()]), ..psk };
                    assert_eq!(choose(&wrong, &keys, HOST).err(), Some(Mismatch::WrongGeneratedKey));
                }
                let [own, _] = mine.retained(HOST, CONTROLLER);
                let offered = Psk::of_generated(mine, (HOST, CONTROLLER)).expect("short names");
                assert_eq!(offered.identity, own.identity(Version::One).into_bytes());
            }
        }
    }

    #[test]
    fn each_mismatch_has_its_reason() {
        let mine = key(Hash::Sha384, 1);
        let offered = Psk::of_host(&mine, (HOST, CONTROLLER), Derivation::Standard);
        let keys = [mine.clone()];
        let why = |change: &dyn Fn(&mut Sketch)| {
            let mut sketch = Sketch::new(offered.clone());
            change(&mut sketch);
            choose(&sketch.message(), &keys).err()
        };
        let named = |identity: &str| {
            let psk = Psk { identity: identity.as_bytes().to_vec(), ..offered[0].clone() };
            why(&|sketch| sketch.psks = vec![psk.clone()])
        };
        assert_eq!(why(&|_| {}), None);
        assert_eq!(why(&|sketch| sketch.versions = vec![3, 3]), Some(Mismatch::OldVersion));
        assert_eq!(why(&|sketch| sketch.psks.clear()), Some(Mismatch::NoPsk { without_exchange: false }));
        assert_eq!(why(&|sketch| sketch.modes = vec![0]), Some(Mismatch::NoPsk { without_exchange: true }));
        assert_eq!(why(&|sketch| sketch.suites = vec![0x13, 1]), Some(Mismatch::NoSuite));
        assert_eq!(
            why(&|sketch| sketch.psks.iter_mut().for_each(|psk| psk.hash = Hash::Sha256)),
            Some(Mismatch::OtherHash)
        );
        let many = |sketch: &mut Sketch| sketch.psks = vec![sketch.psks[0].clone(); 9];
        assert!(matches!(why(&many), Some(Mismatch::Malformed(_))));
        let after = |sketch: &mut Sketch| sketch.after = extension(0, b"name");
        assert!(matches!(why(&after), Some(Mismatch::Malformed(_))));
        let unknown = Some(Mismatch::Unknown { is_generated: false });
        for identity in ["", "psk", "NVMe0R03 a b", "NVMe0R02 a", "NVMe0R02 a b c", "NVMe1R02 a b c"] {
            assert_eq!(named(identity), unknown, "{identity:?}");
        }
        assert_eq!(named("NVMe1G02 a b c"), Some(Mismatch::Unknown { is_generated: true }));
        // No context of a derivation has room for it.
        let long = "n".repeat(256);
        for identity in [format!("NVMe0R02 {long} b"), format!("NVMe1R02 a {long} c")] {
            assert_eq!(named(&identity), unknown, "{identity:?}");
        }
    }

    #[test]
    fn an_identity_for_the_log_is_no_longer_than_those_of_nvme() {
        let shown = |length: usize| {
            let psk =
                Psk { identity: vec![b'i'; length], secret: Secret::new(vec![1; 32]), hash: Hash::Sha256 };
            let mut collector = Collector::default();
            assert_eq!(collector.take(&records(&Sketch::new(vec![psk]).message(), 1 << 14)), Ok(true));
            let hello = collector.hello().expect("it offers a key");
            hello.identities().map(|identity| identity.chars().count()).collect::<Vec<_>>()
        };
        let longest = "NVMe1R02".len() + 2 * (1 + NQN_MAX) + 1 + 64;
        assert_eq!(shown(longest), [longest]);
        assert_eq!(shown(16_000), [SHOWN_MAX + 1]);
    }

    #[test]
    fn a_hello_arrives_in_pieces_of_every_size_and_within_bounds() {
        let offered = Psk::of_host(&key(Hash::Sha256, 1), (HOST, CONTROLLER), Derivation::Standard);
        let message = Sketch::new(offered).message();
        for size in [1, 7, message.len()] {
            let sent = records(&message, size);
            let mut collector = Collector::default();
            for (at, byte) in sent.iter().enumerate() {
                assert_eq!(collector.take(&[*byte]), Ok(at + 1 == sent.len()));
                assert_eq!(collector.hello().is_ok(), at + 1 == sent.len());
            }
            assert_eq!(collector.into_records(), sent);
        }
        let refused = |bytes: &[u8]| Collector::default().take(bytes).is_err();
        assert!(refused(&records(&[CLIENT_HELLO, 0, 0x41, 0], 100)), "longer than 16 KiB");
        assert!(refused(&records(&[2, 0, 0, 1, 0], 100)), "a ServerHello");
        assert!(refused(&[HANDSHAKE, 3, 1, 0, 0]), "an empty record");
        assert!(refused(&[23, 3, 1, 0, 1, 0]), "a record of data");
        assert!(refused(&records(&[&message[..], &[1]].concat(), 1 << 14)), "a message follows");
        let mut endless = Collector::default();
        let never = records(&[CLIENT_HELLO, 0, 0x40, 0], 1);
        assert_eq!(endless.take(&never), Ok(false));
        let more = records(&vec![0; MESSAGE_MAX - 1], 1);
        assert!(more.chunks(100).any(|part| endless.take(part).is_err()), "records of one byte each");
        for cut in 0..message.len() {
            let body = &message[MESSAGE_HEADER..cut.max(MESSAGE_HEADER)];
            let mut collector = Collector::default();
            let cut = [&[CLIENT_HELLO][..], &vector(3, body)].concat();
            if collector.take(&records(&cut, 1 << 14)) == Ok(true) {
                assert!(collector.hello().is_err());
            }
        }
    }
}
