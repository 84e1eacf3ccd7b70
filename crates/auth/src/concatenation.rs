//! Secure channel concatenation: an exchange of DH-HMAC-CHAP makes a key for TLS, so that no other key has to be brought to the host.
//!
//! ```text
//!   host                                                        controller
//!   Connect of the admin queue, without TLS ──────────────────►
//!   Negotiate (SC_C = new key) … Reply (with C2) … Success1      keeps the key
//!   closes, begins anew with TLS: identity "NVMe1G01 …" ──────►  finds the key by its binder
//!
//!   generated key = HMAC(KS, C1 || C2)      KS = H(g^xy mod p)
//! ```
//!
//! Linux before 2026 takes g^xy itself for KS in this formula (and nowhere else), so there are two candidates; the binder says which one the
//! host has.
//!
//! Holds: the key is the one of the formula (`a_generated_key_is_the_one_of_the_formula`);
//!        both ends have the same one (`a_key_for_tls_is_made_with_every_hash_and_group` in `tests/exchange.rs`).
//! NVM Express Base Specification: "DH-HMAC-CHAP Protocol", "Generated PSK for TLS", field SC_C of "AUTH_Negotiate message".

use crate::hash::Hash;
use crate::key::Secret;
use crate::message::Explanation;
use crate::psk::Retained;
use crate::response::session_key;

/// SC_C: no secure channel.
pub(crate) const NO_CHANNEL: u8 = 0;

/// A secure channel that a host asks for (SC_C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// A key for TLS: the queue is not encrypted.
    NewKey = 2,
    /// A key for TLS in place of the one that encrypts the queue.
    AnotherKey = 3,
}

/// Concatenation as a controller allows it on one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concatenation {
    /// A host that asks for it is refused.
    #[default]
    Refused,
    /// A host may ask for a key: the queue is not encrypted.
    New {
        /// Whether it has to.
        is_due: bool,
    },
    /// A host may ask for another key: the queue is encrypted.
    Another,
}

impl Concatenation {
    /// Whether an exchange makes a key whose Negotiate has this SC_C.
    ///
    /// # Errors
    /// The controller does not allow it, or asks for it and the host does not.
    pub(crate) fn makes_key(self, secure_channel: u8) -> Result<bool, Explanation> {
        match (self, secure_channel) {
            (Concatenation::New { is_due: true }, NO_CHANNEL) => Err(Explanation::SecureChannel),
            (_, NO_CHANNEL) => Ok(false),
            (Concatenation::New { .. }, asked) if asked == Channel::NewKey as u8 => Ok(true),
            (Concatenation::Another, asked) if asked == Channel::AnotherKey as u8 => Ok(true),
            _ => Err(Explanation::SecureChannel),
        }
    }
}

/// A key for TLS that an exchange has made.
#[derive(Clone, Debug)]
pub struct Generated {
    hash: Hash,
    /// By the formula, and as Linux before 2026 derives it.
    candidates: [Secret; 2],
}

impl Generated {
    /// The key of an exchange with this shared secret (g^xy) and these challenges (C1, C2).
    ///
    /// # Panics
    /// With SHA-512, which no cipher suite has.
    pub fn new(hash: Hash, shared: &Secret, challenges: [&[u8]; 2]) -> Generated {
        assert!(hash.is_of_tls(), "no cipher suite has {hash}");
        let keyed = |key: &Secret| Secret::new(hash.hmac(key.expose(), &challenges).to_vec());
        Generated { hash, candidates: [keyed(&session_key(hash, shared)), keyed(shared)] }
    }

    /// The keys of a host for a controller from which identities and pre-shared keys are derived: the one of the formula first.
    pub fn retained<'n>(&self, host: &'n str, controller: &'n str) -> [Retained<'n>; 2] {
        self.candidates.clone().map(|key| Retained::generated(self.hash, key, host, controller))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psk::Version;

    /// The first values of each hash were computed with Python's hmac and hashlib, the second ones are those of Linux's own test of its
    /// derivation, from the same secret and challenges.
    #[test]
    fn a_generated_key_is_the_one_of_the_formula() {
        #[rustfmt::skip]
        let cases = [
            (Hash::Sha256, [
                ("f4pbCic/J8+hqzafvdrbPAkjyKRV7OHA8awdlt659j0=",
                    "60ecb11156766673fb779abd293a2b8fb554968903783ce8687f977e5377239e"),
                ("OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
                    "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8"),
            ]),
            (Hash::Sha384, [
                ("ZAD516ltbNgZFASfiRLzgSF+5Mfb0impraEf1iAQxPNcEGK3nzTsJgyzjUVkJNA7",
                    "30118fe106ef57178c4c7aa7488f815077e36a4536a41c5ab12a679a48d97bfa39bab26bb8445cd65785490e96b06c7e"),
                ("cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
                    "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d0898fff15bb8b77119d2be0aac423e7590"),
            ]),
        ];
        for (hash, expected) in cases {
            let length = hash.length() as u8;
            let shared = Secret::new((0..length).map(|at| b'A' + at).collect());
            let challenges: [Vec<u8>; 2] = [(0..length).collect(), (0..length).map(|at| 255 - at).collect()];
            let generated = Generated::new(hash, &shared, [&challenges[0], &challenges[1]]);
            for (retained, (digest, psk)) in generated.retained("hostnqn", "subsysnqn").iter().zip(expected) {
                let identity = format!("NVMe1G{:02} hostnqn subsysnqn {digest}", hash.id());
                assert_eq!(retained.identity(Version::One), identity);
                let secret = retained.psk(Version::One).expect("short names");
                let hex: String = secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(hex, psk);
            }
        }
    }

    #[test]
    fn a_key_is_made_where_it_may_be_and_only_there() {
        use Concatenation::{Another, New, Refused};
        let refused = Err(Explanation::SecureChannel);
        #[rustfmt::skip]
        let rows = [
            (Refused,                [Ok(false), refused, refused,  refused]),
            (New { is_due: false },  [Ok(false), refused, Ok(true), refused]),
            (New { is_due: true },   [refused,   refused, Ok(true), refused]),
            (Another,                [Ok(false), refused, refused,  Ok(true)]),
        ];
        for (concatenation, expected) in rows {
            assert_eq!(
                [0, 1, 2, 3].map(|asked| concatenation.makes_key(asked)),
                expected,
                "{concatenation:?}"
            );
            assert_eq!(concatenation.makes_key(4), refused);
        }
    }
}
