//! Work whose instructions can be counted: the same work is the same number, on every machine.
//!
//! Nothing here measures. The program `counts` runs each [`Work`] under callgrind, `make bench` times the [`decision`] driver.
//!
//! Elsewhere: `docs/instruction-counts.md` lists the counted work and says how counts are made comparable.

pub mod decision;
mod message;
mod pdu;
mod simulated;
mod volume;
mod wire;
mod work;

pub use work::{Side, Work, works};
