//! Volumes over NVMe/TCP: the blob store's core on its own thread, behind calls that any thread may make.
//!
//! ```text
//!   your threads ── Mount::call ──► [ inbox ] ──wake──► the volume's thread: blob::Volume + host::Engine ══ NVMe/TCP ══ targets
//!                 ◄─ outcome ──                            │            ▲
//!                                                          └─ order ──► the store's thread ── etcd, or a file
//! ```
//!
//! [`Mount::submit`] does not wait: many reads can be on their way, and each [`Ticket`] is waited for when it is needed.
//!
//! A connection that breaks is given up with all that is on it, and made anew: each has its own epoch, from which the core
//! knows what may be lost. IOs for an SSD that is not connected fail at once, and the core goes to the other copy.

mod connections;
mod inbox;
mod mount;
mod store_thread;
mod thread;

pub use inbox::Ticket;
pub use mount::{Mount, MountError, Options, identity, unique_name};
