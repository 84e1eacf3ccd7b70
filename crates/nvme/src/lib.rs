//! NVMe and NVMe/TCP without sockets.
//!
//! Bytes come in, events go out. The caller owns the buffers and the clock. Both ends, host and target, live
//! in this crate, so tests can run one against the other without a network.
//!
//!   bytes -> `pdu` (framing, digests) -> `connection` (commands and their data) -> `subsystem` (what they mean)
//!
//! `spec` holds the structures of the NVM Express specifications. `buffer` holds the traits that let payloads
//! move without a copy.

extern crate alloc;

pub mod buffer;
pub mod connection;
pub mod host;
pub mod pdu;
pub mod spec;
pub mod subsystem;

/// How a property test draws random cases. Miri runs few of them: it checks how the code runs, not what it
/// computes.
#[cfg(test)]
fn random_cases(count: u32) -> proptest::test_runner::Config {
    const UNDER_MIRI: u32 = 2;
    let cases = if cfg!(miri) { UNDER_MIRI } else { count };
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
