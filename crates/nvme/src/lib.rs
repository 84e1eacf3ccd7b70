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
