//! The structures of the NVM Express specifications, as they are on the wire.
//!
//! One file per structure. Layouts are zerocopy structs with little-endian, unaligned fields, so one
//! definition parses and emits. Nothing here makes decisions.

pub mod ana;
pub mod authentication;
pub mod busy;
pub mod connect;
pub mod copy;
pub mod cqe;
pub mod dataset;
pub mod discovery;
pub mod event;
pub mod feature;
pub mod identify;
pub mod identify_controller;
pub mod identify_namespace;
pub mod log;
pub mod nqn;
pub mod opcode;
pub mod property;
pub mod reservation;
pub mod sqe;
pub mod status;
mod status_name;

pub use ana::AnaState;
pub use authentication::AuthenticationCommand;
pub use busy::Busy;
pub use connect::{ConnectCommand, ConnectData, HostId};
pub use cqe::Cqe;
pub use nqn::{Nqn, NqnError};
pub use sqe::{Direction, Sgl, SglDescriptor, Sqe};
pub use status::Status;
