//! NVMe and NVMe/TCP without sockets.
//!
//! Bytes come in, events go out; buffers and time belong to the caller. The same crate holds both ends, so that they can be
//! run against each other without a network.
//!
//!   bytes -> `pdu` (framing, digests) -> `connection` (commands and their data) -> `subsystem` (what they mean)
//!
//! `spec` has the structures of the NVM Express specifications, `buffer` the traits through which payloads move without
//! being copied.

extern crate alloc;

pub mod buffer;
pub mod connection;
pub mod host;
pub mod pdu;
pub mod spec;
pub mod subsystem;

/// Random cases for a property: as many as asked for, but few under Miri, which looks at how and not at what.
#[cfg(test)]
fn random_cases(count: u32) -> proptest::test_runner::Config {
    const UNDER_MIRI: u32 = 2;
    let cases = if cfg!(miri) { UNDER_MIRI } else { count };
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
