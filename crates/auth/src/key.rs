//! The interchange formats of keys.
//!
//! ```text
//!   DHHC-1:HH:BASE64:         HH  00 used as it is; 01, 02, 03 transformed with SHA-256, SHA-384, SHA-512
//!   NVMeTLSkey-1:HH:BASE64:   HH  00 used as it is; 01 SHA-256, 02 SHA-384
//! ```
//!
//! The base64 is the key, then its CRC-32 (ISO-HDLC), little-endian. With a hash, the key is as long as its digest; without, it
//! has 32, 48 or 64 bytes (TLS: 32 or 48).
//!
//! Holds: a key reads back as it was written, every other text is refused with a reason and what to do, and neither errors nor `Debug`
//!        contain key material (`a_key_reads_back_and_no_other_text_does`, `nothing_shows_a_key`).
//! NVM Express Base Specification: "DH-HMAC-CHAP secret representation"; NVMe/TCP Transport Specification: "PSK interchange format".

use crate::hash::Hash;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, checksum};
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Lengths that a key may have, in bytes.
const LENGTHS: [usize; 3] = [32, 48, 64];
/// Length of the checksum, in bytes.
const CRC: usize = 4;
/// Hexadecimal digits of a fingerprint.
const FINGERPRINT: usize = 8;
/// The longest text of a key: of 64 bytes with the longer prefix. Nothing longer is decoded.
const TEXT_MAX: usize = 128;

/// Bytes that nobody may see. They are overwritten when they are dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// These bytes.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    /// The bytes themselves.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The first eight hexadecimal digits of its SHA-256: names a key without showing it.
    pub fn fingerprint(&self) -> String {
        let digest = Hash::Sha256.digest(&self.0);
        digest.iter().take(FINGERPRINT / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PartialEq for Secret {
    /// In constant time for secrets of the same length.
    fn eq(&self, other: &Secret) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.fingerprint())
    }
}

/// A text that is not a key. The message never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text begins with the prefix of the other kind of key.
    #[error("this is a key for {is}, and one for {wanted} is needed")]
    OtherKind {
        /// The use of the key that was found.
        is: &'static str,
        /// The use of the key that was expected.
        wanted: &'static str,
    },
    /// The prefix is missing.
    #[error("a key begins with {0:?} and ends with a colon")]
    Prefix(&'static str),
    /// The hash is unknown.
    #[error("the two digits after {prefix:?} are not one of 00, {known}")]
    Hash {
        /// The prefix.
        prefix: &'static str,
        /// Digits that are known.
        known: &'static str,
    },
    /// The base64 cannot be read.
    #[error("the part before the last colon is not base64; was the key cut when it was copied?")]
    Base64,
    /// The checksum does not match.
    #[error("the checksum does not match: a character of the key is wrong")]
    Checksum,
    /// The length is impossible.
    #[error("a key of {0} bytes: it must have 32, 48 or 64, and as many as the digest of its hash")]
    Length(usize),
}

/// A kind of key: its prefix and its hashes.
struct Format {
    prefix: &'static str,
    purpose: &'static str,
    hashes: &'static [Hash],
    known: &'static str,
}

const DH: Format = Format {
    prefix: "DHHC-1:",
    purpose: "DH-HMAC-CHAP",
    hashes: &[Hash::Sha256, Hash::Sha384, Hash::Sha512],
    known: "01, 02, 03",
};
const TLS: Format = Format {
    prefix: "NVMeTLSkey-1:",
    purpose: "TLS",
    hashes: &[Hash::Sha256, Hash::Sha384],
    known: "01, 02",
};

impl Format {
    fn parse(&self, text: &str) -> Result<(Option<Hash>, Secret), KeyError> {
        let text = text.trim();
        let Some(rest) = text.strip_prefix(self.prefix).filter(|_| text.len() <= TEXT_MAX) else {
            let other = [&DH, &TLS].into_iter().find(|other| text.starts_with(other.prefix));
            return Err(match other.filter(|other| other.prefix != self.prefix) {
                Some(other) => KeyError::OtherKind { is: other.purpose, wanted: self.purpose },
                None => KeyError::Prefix(self.prefix),
            });
        };
        let unknown = KeyError::Hash { prefix: self.prefix, known: self.known };
        let (digits, rest) = rest.split_once(':').ok_or(unknown)?;
        let hash = match digits {
            "00" => None,
            digits => {
                let found = self.hashes.iter().find(|hash| format!("{:02}", hash.id()) == digits);
                Some(*found.ok_or(unknown)?)
            }
        };
        let encoded = rest.strip_suffix(':').ok_or(KeyError::Prefix(self.prefix))?;
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| KeyError::Base64)?);
        let length = bytes.len().checked_sub(CRC).ok_or(KeyError::Length(0))?;
        let (key, crc) = bytes.split_at(length);
        if crc_of(key) != crc {
            return Err(KeyError::Checksum);
        }
        let fits = match hash {
            Some(hash) => length == hash.length(),
            None => LENGTHS.contains(&length) && self.hashes.iter().any(|hash| hash.length() == length),
        };
        if !fits {
            return Err(KeyError::Length(length));
        }
        Ok((hash, Secret::new(key.to_vec())))
    }

    fn text(&self, hash: Option<Hash>, secret: &Secret) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(secret.expose().to_vec());
        let crc = crc_of(&bytes);
        bytes.extend(crc);
        let encoded = Zeroizing::new(STANDARD.encode(&*bytes));
        Zeroizing::new(format!("{}{:02}:{}:", self.prefix, hash.map_or(0, Hash::id), &*encoded))
    }
}

fn crc_of(key: &[u8]) -> [u8; CRC] {
    (checksum(CrcAlgorithm::Crc32IsoHdlc, key) as u32).to_le_bytes()
}

/// A key for DH-HMAC-CHAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhKey {
    /// The hash that transforms it, with the NQN of its owner; `None`: it is used as it is.
    pub hash: Option<Hash>,
    /// The key.
    pub secret: Secret,
}

impl DhKey {
    /// Reads the interchange format.
    ///
    /// # Errors
    /// The text is not such a key.
    pub fn parse(text: &str) -> Result<DhKey, KeyError> {
        DH.parse(text).map(|(hash, secret)| DhKey { hash, secret })
    }

    /// A key of these random bytes.
    ///
    /// # Errors
    /// The length is not that of the hash, or none of 32, 48, 64.
    pub fn new(hash: Option<Hash>, secret: Secret) -> Result<DhKey, KeyError> {
        DhKey::parse(&DH.text(hash, &secret))
    }

    /// The interchange format.
    pub fn to_text(&self) -> Zeroizing<String> {
        DH.text(self.hash, &self.secret)
    }

    /// The key as its `owner` uses it: K′.
    pub fn transformed(&self, owner: &str) -> Secret {
        match self.hash {
            None => self.secret.clone(),
            Some(hash) => {
                let mac = hash.hmac(self.secret.expose(), &[owner.as_bytes(), b"NVMe-over-Fabrics"]);
                Secret(mac)
            }
        }
    }
}

/// A configured pre-shared key for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsKey {
    /// The hash that makes the retained key of it; `None`: it is the retained key.
    pub hash: Option<Hash>,
    /// The key.
    pub secret: Secret,
}

impl TlsKey {
    /// Reads the interchange format.
    ///
    /// # Errors
    /// The text is not such a key.
    pub fn parse(text: &str) -> Result<TlsKey, KeyError> {
        TLS.parse(text).map(|(hash, secret)| TlsKey { hash, secret })
    }

    /// A key of these random bytes.
    ///
    /// # Errors
    /// The length is not that of the hash, or none of 32, 48.
    pub fn new(hash: Option<Hash>, secret: Secret) -> Result<TlsKey, KeyError> {
        TlsKey::parse(&TLS.text(hash, &secret))
    }

    /// The interchange format.
    pub fn to_text(&self) -> Zeroizing<String> {
        TLS.text(self.hash, &self.secret)
    }

    /// The hash of its identities and derivations: that of the key, else the one whose digest is as long as the key.
    pub fn effective_hash(&self) -> Hash {
        match (self.hash, self.secret.expose().len()) {
            (Some(hash), _) => hash,
            (None, 48) => Hash::Sha384,
            (None, _) => Hash::Sha256,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys made by `nvme gen-dhchap-key` for a test of Linux's host and target.
    const HOST: &str = "DHHC-1:03:cndm6sY3LR/71sC5YHpV38+yj9UF2V8jTeWu/FOnj0fAz7n6esA6R9H/+th8Gzxr5s5qzTA72LWhl3g+jfApA2UC2U4=:";
    const CONTROLLER: &str = "DHHC-1:00:6Uw9yvIEYTOzFPN6xxc5DpSl1eryS7YAwR9uyVHrH7p1JU4O:";

    #[test]
    fn a_key_reads_back_and_no_other_text_does() {
        for text in [HOST, CONTROLLER] {
            let key = DhKey::parse(text).expect("a key of Linux");
            assert_eq!(*key.to_text(), text);
            assert_eq!(DhKey::parse(&format!("  {text}\n")), Ok(key.clone()), "a file ends with a line end");
            for at in 0..text.len() {
                let mut changed = text.to_owned().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(changed).expect("ASCII");
                assert_ne!(DhKey::parse(&changed).as_ref(), Ok(&key), "byte {at}");
                assert!(DhKey::parse(&text[..at]).is_err(), "cut at {at}");
            }
        }
        for (hash, length) in [(None, 32), (None, 48), (Some(Hash::Sha256), 32), (Some(Hash::Sha384), 48)] {
            let secret = Secret::new((0..length).map(|byte| byte as u8).collect());
            let key = TlsKey::new(hash, secret.clone()).expect("of that length");
            assert_eq!(TlsKey::parse(&key.to_text()), Ok(key.clone()));
            let expected = KeyError::OtherKind { is: "TLS", wanted: "DH-HMAC-CHAP" };
            assert_eq!(DhKey::parse(&key.to_text()), Err(expected));
            assert_eq!(key.effective_hash().length(), length);
        }
        let short = |hash| TlsKey::new(hash, Secret::new(vec![7; 16]));
        assert_eq!(short(None), Err(KeyError::Length(16)));
        assert_eq!(short(Some(Hash::Sha256)), Err(KeyError::Length(16)));
        let with = |digits: &str| DhKey::parse(&HOST.replace(":03:", &format!(":{digits}:")));
        assert_eq!(with("01"), Err(KeyError::Length(64)));
        for digits in ["04", "3", "003", "+3", ""] {
            assert!(matches!(with(digits), Err(KeyError::Hash { .. })), "{digits}");
        }
        assert_eq!(DhKey::parse(&format!("{HOST}{}", "A".repeat(1 << 20))), Err(KeyError::Prefix("DHHC-1:")));
    }

    #[test]
    fn nothing_shows_a_key() {
        let key = DhKey::parse(HOST).expect("a key");
        assert_eq!(key.secret.fingerprint().len(), FINGERPRINT);
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.secret.fingerprint()) && !shown.contains("cndm"), "{shown}");
        let wrong = HOST.replace("cndm", "cndn");
        let error = DhKey::parse(&wrong).expect_err("a wrong checksum");
        assert!(!format!("{error} {error:?}").contains("cnd"));
    }
}
