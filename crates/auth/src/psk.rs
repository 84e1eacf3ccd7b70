//! Identities and pre-shared keys of TLS 1.3.
//!
//! ```text
//!   retained  = the configured key, or Expand-Label(Extract(0, configured), "HostNQN", NQN of the host, length)
//!   digest    = base64(HMAC(retained, NQN of the host || " " || NQN of the controller || " NVMe-over-Fabrics"))
//!   identity  = "NVMe0R01 HOST CONTROLLER"           version 0
//!               "NVMe1R01 HOST CONTROLLER DIGEST"    version 1
//!   PSK       = Expand-Label(Extract(0, retained), "nvme-tls-psk", context, length)
//!   context   = version 0: the identity; version 1: "01 DIGEST"
//! ```
//!
//! R is a retained key, G one that DH-HMAC-CHAP generated; 01 and 02 are SHA-256 and SHA-384. Version 0 has no generated keys.
//!
//! libnvme before 1.16 derives other keys: its HkdfLabel has a little-endian length, and neither the lengths of label and context nor the
//! frame of TLS. Hosts with it are in use, so both derivations are here.
//!
//! Holds: `derivations_are_those_of_the_formulas`.
//! NVMe/TCP Transport Specification: "PSK identity", "Retained and generated PSK"; RFC 8446, section 7.1.

use crate::hash::Hash;
use crate::key::{Secret, TlsKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A rule by which keys are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivation {
    /// HKDF-Expand-Label of RFC 8446.
    Standard,
    /// That of libnvme before 1.16.
    OldLibnvme,
}

impl Derivation {
    /// Both, the standard first.
    pub const ALL: [Derivation; 2] = [Derivation::Standard, Derivation::OldLibnvme];

    pub(crate) fn expand_label(
        self,
        hash: Hash,
        prk: &[u8],
        (label, context): (&str, &[u8]),
        length: usize,
    ) -> Secret {
        let count = u16::try_from(length).expect("a key is shorter than 64 KiB");
        let one = |length: usize| {
            [u8::try_from(length).expect("labels are short, contexts have at most 255 bytes")]
        };
        let expanded = match self {
            Derivation::Standard => {
                let label = [b"tls13 ", label.as_bytes()].concat();
                let (labels, contexts) = (one(label.len()), one(context.len()));
                hash.expand(prk, &[&count.to_be_bytes(), &labels, &label, &contexts, context], length)
            }
            Derivation::OldLibnvme => {
                hash.expand(prk, &[&count.to_le_bytes(), b"tls13 ", label.as_bytes(), context], length)
            }
        };
        Secret::new(expanded.to_vec())
    }
}

/// Origin of a retained key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Configured: R.
    Retained,
    /// Made by DH-HMAC-CHAP: G.
    Generated,
}

/// Version of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Without a digest of the key.
    Zero,
    /// With it.
    One,
}

/// A key of a host for a controller, as identities and PSKs are derived from it.
#[derive(Clone, Debug)]
pub struct Retained<'a> {
    /// The NQN of the host.
    pub host: &'a str,
    /// The NQN of the controller.
    pub controller: &'a str,
    kind: Kind,
    hash: Hash,
    key: Secret,
    derivation: Derivation,
}

/// Longest context of a derivation, in bytes (RFC 8446, section 7.1).
const CONTEXT_MAX: usize = 255;

impl<'a> Retained<'a> {
    /// The retained key of a configured one.
    pub fn of(key: &TlsKey, host: &'a str, controller: &'a str, derivation: Derivation) -> Retained<'a> {
        let (hash, configured) = (key.effective_hash(), key.secret.expose());
        let retained = match key.hash {
            None => key.secret.clone(),
            Some(hash) => {
                let label = ("HostNQN", host.as_bytes());
                derivation.expand_label(hash, &hash.extract(configured), label, configured.len())
            }
        };
        Retained { host, controller, kind: Kind::Retained, hash, key: retained, derivation }
    }

    /// A key that DH-HMAC-CHAP generated.
    ///
    /// # Panics
    /// With SHA-512, which TLS does not have here.
    pub fn generated(hash: Hash, key: Secret, host: &'a str, controller: &'a str) -> Retained<'a> {
        assert!(hash.is_of_tls(), "no cipher suite has {hash}");
        Retained { host, controller, kind: Kind::Generated, hash, key, derivation: Derivation::Standard }
    }

    /// The hash, which also says the cipher suite: AES-128-GCM with SHA-256, AES-256-GCM with SHA-384.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    pub(crate) fn digest(&self) -> String {
        let parts: [&[u8]; 4] =
            [self.host.as_bytes(), b" ", self.controller.as_bytes(), b" NVMe-over-Fabrics"];
        STANDARD.encode(&*self.hash.hmac(self.key.expose(), &parts))
    }

    /// The identity that a host offers.
    pub fn identity(&self, version: Version) -> String {
        let (digit, letter) = match (version, self.kind) {
            (Version::Zero, Kind::Retained) => (0, 'R'),
            (Version::One, Kind::Retained) => (1, 'R'),
            (_, Kind::Generated) => (1, 'G'),
        };
        let named = format!("NVMe{digit}{letter}{:02} {} {}", self.hash.id(), self.host, self.controller);
        if digit == 0 { named } else { format!("{named} {}", self.digest()) }
    }

    /// The pre-shared key for TLS; `None` if the NQNs are too long for a context of this version.
    pub fn psk(&self, version: Version) -> Option<Secret> {
        let context = match (version, self.kind) {
            (Version::Zero, Kind::Retained) => self.identity(Version::Zero),
            _ => format!("{:02} {}", self.hash.id(), self.digest()),
        };
        if context.len() > CONTEXT_MAX && self.derivation == Derivation::Standard {
            return None;
        }
        let prk = self.hash.extract(self.key.expose());
        let label = ("nvme-tls-psk", context.as_bytes());
        Some(self.derivation.expand_label(self.hash, &prk, label, self.hash.length()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5f1c3c6e-0000-4000-8000-000000000001";
    const SUBSYSTEM: &str = "nqn.2024-01.test:a";
    const SHA256: &str = "NVMeTLSkey-1:01:BY/5vmy6krRk7078UG9eYtkcQks27dyGwup8ucusZOor8k6N:";
    const SHA384: &str =
        "NVMeTLSkey-1:02:NoOYR+QG9XGeMTmz/pX8AvpHfraus4gul3n4X9R6h6ELI76zLHNxldP/D0gjhfwDLmPB/g==:";

    /// The values were computed with Python's hmac and hashlib.
    #[test]
    fn derivations_are_those_of_the_formulas() {
        use Derivation::{OldLibnvme, Standard};
        #[rustfmt::skip]
        let cases = [
            (SHA256, Standard, "RpOJ9b1YgJpjVVIZsIhn13SIi7/Tz/l5P38MpmbAB4c=",
                "5160f968305ce4d198beeadb967b2d119c9d23fe2c1e50d4d7115a266297dd90",
                "b59919196a87cb743f8e0fc0f47500a747c35ae6eb823c9abbc67b2eda362051"),
            (SHA256, OldLibnvme, "fYQJdqoi5XBocMKqC2oHeO5rp6LIUr0ZEPFSJLRVGKk=",
                "101bc4430a6649761bb6ef8a2b064a11ba9e31e98c3fe8fe4e65b54d31d91539",
                "97f3384ca7fad0e79649a006b57c5440f5c3c1bc35f3025cb12d5867949ece2a"),
            (SHA384, Standard, "oVUXm71UANdiqyUtRVUBhPTPeu63/0vnxsM0ayfKbYcbcB83pzFjFiM70LNink2/",
                "4bb5bf4cbfe1be1119733253cbfe8ac328f5665a03fc32cad1c9728c7c819c5fc0fa76a32596b88c61c2af41171688aa",
                "3d611c385accf697a635194bf0ad92a89887688255815bb732bd2489a23ba48d7f56b505b856665dcc2676c887911ebb"),
            (SHA384, OldLibnvme, "em1xur5klyQuVqRhjAUN99IUBS2P5DIEh54lfddynencKB09FZikQ+gcxqB1HGaH",
                "47b8ccd0739bdd3f6a262c5dff08a54a2ca970dff73483eab93b6e30fdfbc752cb32a4651b0f3abad571198f3e0991df",
                "16b5074999900c7dd5f88912a214bc192c76cf3adb2c92fde5b4dfbacbd86754b95ed4cded8582faa47d6d4d6129a436"),
        ];
        let hex = |secret: Option<Secret>| -> String {
            secret.expect("short names").expose().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        for (key, derivation, digest, zero, one) in cases {
            let key = TlsKey::parse(key).expect("a key");
            let retained = Retained::of(&key, HOST, SUBSYSTEM, derivation);
            let id = key.effective_hash().id();
            assert_eq!(retained.identity(Version::Zero), format!("NVMe0R{id:02} {HOST} {SUBSYSTEM}"));
            assert_eq!(retained.identity(Version::One), format!("NVMe1R{id:02} {HOST} {SUBSYSTEM} {digest}"));
            assert_eq!(hex(retained.psk(Version::Zero)), zero);
            assert_eq!(hex(retained.psk(Version::One)), one);
        }
    }

    /// HkdfLabel has no room for two NQNs of 223 bytes; the digest of version 1 always fits.
    #[test]
    fn names_too_long_for_version_0_have_a_psk_of_version_1() {
        let (host, subsystem) = ("h".repeat(223), "s".repeat(223));
        for text in [SHA256, SHA384] {
            let key = TlsKey::parse(text).expect("a key");
            let retained = Retained::of(&key, &host, &subsystem, Derivation::Standard);
            assert_eq!(retained.psk(Version::Zero), None);
            assert!(retained.psk(Version::One).is_some());
            let old = Retained::of(&key, &host, &subsystem, Derivation::OldLibnvme);
            assert!(old.psk(Version::Zero).is_some(), "it has no lengths");
        }
    }

    #[test]
    fn a_generated_key_has_an_identity_of_its_own() {
        let secret = Secret::new(vec![9; 32]);
        let generated = Retained::generated(Hash::Sha256, secret, HOST, SUBSYSTEM);
        for version in [Version::Zero, Version::One] {
            assert!(generated.identity(version).starts_with(&format!("NVMe1G01 {HOST} {SUBSYSTEM} ")));
        }
        assert_eq!(generated.psk(Version::Zero), generated.psk(Version::One));
    }
}
