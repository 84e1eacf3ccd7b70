//! The structures of the NVM Express specifications, as they lie on the wire.
//!
//! One file per structure. Layouts are zerocopy structs of little-endian, unaligned fields: the same definition parses and
//! emits. Nothing here decides anything.

pub mod cqe;
pub mod sqe;
pub mod status;

pub use cqe::Cqe;
pub use sqe::{Direction, Sgl, SglDescriptor, Sqe};
pub use status::Status;
