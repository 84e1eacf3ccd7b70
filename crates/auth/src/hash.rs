//! The hashes of NVMe: SHA-256, SHA-384, SHA-512, and HMAC and HKDF over them.

use hkdf::{Hkdf, HkdfExtract};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::fmt;
use zeroize::Zeroizing;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Carries out `$body` with `$type` as the type of `$hash`.
macro_rules! with_type {
    ($hash:expr, $type:ident => $body:expr) => {
        match $hash {
            Hash::Sha256 => {
                type $type = Sha256;
                $body
            }
            Hash::Sha384 => {
                type $type = Sha384;
                $body
            }
            Hash::Sha512 => {
                type $type = Sha512;
                $body
            }
        }
    };
}

impl Hash {
    /// All hashes.
    pub const ALL: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    /// The identifier in keys and in DH-HMAC-CHAP.
    pub const fn id(self) -> u8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
            Hash::Sha512 => 3,
        }
    }

    /// The hash with this identifier.
    pub fn from_id(id: u8) -> Option<Hash> {
        Hash::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Length of a digest, in bytes.
    pub const fn length(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// Whether a cipher suite of NVMe's TLS has it.
    pub const fn is_of_tls(self) -> bool {
        !matches!(self, Hash::Sha512)
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
        }
    }

    /// The digest of `bytes`.
    pub fn digest(self, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
        with_type!(self, H => Zeroizing::new(H::digest(bytes).to_vec()))
    }

    /// The HMAC of the concatenated `parts`.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        with_type!(self, H => {
            let mut mac = Hmac::<H>::new_from_slice(key).expect("HMAC takes keys of every length");
            parts.iter().for_each(|part| mac.update(part));
            Zeroizing::new(mac.finalize().into_bytes().to_vec())
        })
    }

    /// HKDF-Extract without salt (RFC 5869, section 2.2).
    pub fn extract(self, secret: &[u8]) -> Zeroizing<Vec<u8>> {
        with_type!(self, H => {
            let mut extract = HkdfExtract::<H>::new(None);
            extract.input_ikm(secret);
            Zeroizing::new(extract.finalize().0.to_vec())
        })
    }

    /// `length` bytes of HKDF-Expand with the concatenated `info` (RFC 5869, section 2.3).
    ///
    /// # Panics
    /// If `prk` is shorter than a digest, or `length` is more than 255 digests.
    pub fn expand(self, prk: &[u8], info: &[&[u8]], length: usize) -> Zeroizing<Vec<u8>> {
        with_type!(self, H => {
            let mut output = Zeroizing::new(vec![0; length]);
            let hkdf = Hkdf::<H>::from_prk(prk).expect("a digest is long enough");
            hkdf.expand_multi_info(info, &mut output).expect("fewer than 255 digests");
            output
        })
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    /// RFC 4231, test case 2.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let mac = |hash: Hash| hash.hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]).to_vec();
        assert_eq!(
            mac(Hash::Sha256),
            bytes("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        );
        assert_eq!(
            mac(Hash::Sha384),
            bytes(
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649"
            )
        );
        assert_eq!(mac(Hash::Sha512).len(), 64);
    }

    /// RFC 5869, test case 3: no salt, no info.
    #[test]
    fn hkdf_is_that_of_the_rfc() {
        let prk = Hash::Sha256.extract(&[0x0b; 22]);
        assert_eq!(*prk, bytes("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04"));
        let output = Hash::Sha256.expand(&prk, &[], 42);
        let expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
        assert_eq!(*output, bytes(expected));
    }
}
