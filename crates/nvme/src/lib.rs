//! NVMe, NVMe/TCP and NVMe/RDMA without sockets and verbs.
//!
//! Bytes come in, events go out. The caller owns the buffers and the clock. Both ends, host and target, live
//! in this crate, so tests can run one against the other without a network.
//!
//!   bytes -----> `tcp` (PDUs, both ends of a connection) --> `queue` (commands, data, answers) -> `subsystem` (semantics)
//!   messages --> `rdma` (both ends of a queue pair) --------^
//!
//! `spec` holds the structures of the NVM Express specifications. `buffer` holds the traits that let payloads
//! move without a copy.

extern crate alloc;

pub mod buffer;
pub mod host;
pub mod queue;
pub mod rdma;
pub mod spec;
pub mod subsystem;
pub mod tcp;

/// Configuration of property tests that draw random cases. Miri runs few of them: it checks the execution of
/// the code, not the results.
#[cfg(test)]
fn random_cases(count: u32) -> proptest::test_runner::Config {
    const UNDER_MIRI: u32 = 2;
    let cases = if cfg!(miri) { UNDER_MIRI } else { count };
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
