//! One end of a TLS 1.3 connection with pre-shared keys, without its socket: bytes in, bytes out.
//!
//! ```text
//!   socket ─► on_bytes ─► [ records ] ─► read ─► plaintext
//!   socket ◄─ outbound ◄─ [ records ] ◄─ write, seal ◄─ plaintext
//! ```
//!
//! Records and handshake are the library's, s2n-tls. It takes time and randomness from the system, so this is no core crate. The keys, and which of them a host has, are the
//! crate `auth`'s: a server is given the one key that its ClientHello proves.
//!
//! After an error nothing more can be read or written. The library would then wait for seconds before it says so to the other end; so the
//! caller sends [`Alert::record`](auth::hello::Alert::record), if anything, and closes.
//!
//! Holds: whatever is written at one end is read at the other, in order, for every size (`what_is_written_is_read`); a changed byte
//!        ends the connection (`a_changed_byte_ends_the_connection`); no other version, cipher suite or kind of key is used
//!        (`end_of_handshake`); at most [`KEY_UPDATES_MAX`] updates of keys a minute, as far as the library counts them (`a_connection_outlives_the_count_of_updates`).
//! RFC 8446; NVMe/TCP Transport Specification: "Transport Layer Security".

mod spares;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use spares::Spares;
pub use stream::{Broken, Inlet, KEY_UPDATES_MAX, RECORD, Read, Stream, prepare};
