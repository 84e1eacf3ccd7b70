//! Volumes over NVMe/TCP: the blob store's core on its own thread, behind calls that any thread may make.
//!
//! ```text
//!   your threads ── Mount::call ──► [ inbox ] ──wake──► the volume's thread: blob::Volume + host::Engine ══ NVMe/TCP ══ targets
//!                 ◄─ outcome ──                            │            ▲
//!                                                          └─ order ──► the store's thread ── etcd, or a file
//! ```
//!
//! [`Mount::submit`] does not wait: many reads can be in flight, and the caller waits for each [`Ticket`] when it needs
//! the outcome.
//!
//! A broken connection is closed with all IOs on it, and replaced. Each connection has its own epoch, from which the
//! core derives which writes may be lost. IOs for an SSD without a connection fail at once, and the core uses the other
//! copy.

mod connections;
mod inbox;
mod mount;
mod store_thread;
mod thread;

pub use inbox::Ticket;
pub use mount::{Mount, MountError, Options, identity, unique_name};
