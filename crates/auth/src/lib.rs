//! Proofs of identity of NVMe hosts: key formats, and what DH-HMAC-CHAP and TLS derive from keys.
//!
//!   `key`        the interchange formats of keys: `DHHC-1:` and `NVMeTLSkey-1:`
//!   `hash`       the three hashes, and HMAC and HKDF over them
//!   `group`      the finite fields ffdhe2048 to ffdhe8192, public values and shared secrets
//!   `response`   the values that prove a key in DH-HMAC-CHAP
//!   `concatenation`  the key for TLS that an exchange may make
//!   `message`    the messages of DH-HMAC-CHAP
//!   `exchange`   one exchange of them, at either end
//!   `psk`        identities and pre-shared keys of TLS
//!   `hello`      the first message of TLS, and the choice of a key by it
//!
//! Everything is a function of bytes: no clock, no socket, and randomness is an argument. A [`Secret`] is overwritten when it is dropped
//! (intermediate values inside the libraries are not), and no type prints one: `Debug` and `fingerprint` show the first eight hexadecimal
//! digits of a hash. Secrets are compared in constant time; `crypto-bigint` promises the same time for every exponent.
//!
//! NVM Express Base Specification: "DH-HMAC-CHAP Protocol"; NVMe/TCP Transport Specification: "Transport Layer Security"; RFC 5869,
//! RFC 7919, RFC 8446.

pub mod concatenation;
pub mod exchange;
pub mod group;
pub mod hash;
pub mod hello;
pub mod key;
pub mod message;
pub mod psk;
pub mod response;

pub use concatenation::{Channel, Concatenation, Generated};
pub use group::{Group, InvalidPublicValue};
pub use hash::Hash;
pub use key::{DhKey, KeyError, Secret, TlsKey};
pub use message::{Explanation, Message};
