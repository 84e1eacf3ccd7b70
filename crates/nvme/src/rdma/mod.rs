//! NVMe/RDMA: both ends of a queue pair, over messages.
//!
//! A capsule is one message, and so is a completion. The controller moves all data: it reads a write's data from the host's memory, and
//! writes a read's data there. Neither end of this module knows verbs. It says which work to post, and is told what has ended:
//!
//! ```text
//!   target   capsule ─► Command ─► the layer above ─► reply ─► [write data to the host] ─► completion
//!                └─ data in the host's memory ─► read it from there ─► Command
//!   host     submit ─► capsule … completion ─► Completed
//! ```
//!
//! A buffer that a work request names moves out with the work, and comes back with its end: nothing else can use it meanwhile.
//!
//! `private_data` has the messages with which a queue is opened. The part of the controller's end that no transport changes is
//! `crate::queue`.
//!
//! NVM Express RDMA Transport Specification: "Capsules and Data Transfers", "Queue Mapping", "Fabric Dependent Settings".

mod host;
mod private_data;
mod remote;
mod target;

pub use host::{RdmaCompleted, RdmaHost, RdmaHostFatal, RdmaHostOptions, RdmaHostWork};
pub use private_data::{Accepted, OpenQueue, QueueBounds, Rejection};
pub use remote::Remote;
pub use target::{Answer, RdmaFatal, RdmaLimits, RdmaTarget, RdmaWork};

/// Length of a command in bytes: the least that a capsule has.
pub const COMMAND_BYTES: usize = 64;
/// Length of a completion in bytes.
pub const COMPLETION_BYTES: usize = 16;
