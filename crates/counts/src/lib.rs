//! Work whose instructions can be counted: the same work is the same number, on every machine.
//!
//! Nothing here measures. The program `counts` runs each [`Work`] under callgrind, `make bench` times the [`decision`] driver.
//!
//! Elsewhere: what is counted, how, and what makes counts comparable is `docs/instruction-counts.md`.

pub mod decision;
mod pdu;
mod simulated;
mod wire;
mod work;

pub use work::{Side, Work, works};
