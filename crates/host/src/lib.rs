//! The NVMe/TCP and NVMe/RDMA initiator: controllers that stay connected, IOs that complete exactly once, credit that is
//! obeyed.
//!
//! ```text
//!   your thread ── Client (blocking, async) ──► its own thread ┐
//!   your loop ─────────────────────────────────────────────────┴─► Engine ──► Session per controller ──► Connection per queue
//!                                                sockets, queue pairs, clock     sans-IO: decides all     protocol state
//! ```
//!
//! [`Engine`] is for programs with their own event loop (a load generator, a server): submit, wait, take
//! events; one thread drives hundreds of connections. An IO without credit waits in the client, in order. An
//! IO whose connection breaks is sent again on the next connection, or fails, as [`RetryPolicy`] says.
//!
//! [`Client`] is for all other programs: it has its own thread, and its calls block or are awaited.
//!
//! Elsewhere: PDUs and data transfer are in `nvme::tcp` and `nvme::rdma`, bring-up of a controller in `nvme::host`, the
//!        credit window in `sched::CreditWindow`.

mod backoff;
mod client;
mod connection;
mod discover;
mod engine;
mod event;
mod fault;
mod host_id;
mod in_flight;
mod keys;
mod namespace;
mod options;
mod request;
mod reservation;
mod secured;
mod session;
#[cfg(test)]
mod tests;
mod view;
mod wait_queue;

pub use auth::exchange::HostKeys;
pub use auth::psk::Derivation;
pub use auth::{DhKey, TlsKey};
pub use backoff::Backoff;
pub use client::{Client, ClientError, ConnectFailure, Controller, Outcome, Pending};
pub use discover::{DiscoverError, Discovered, discover};
pub use engine::Engine;
pub use event::{ControllerId, Event};
pub use fault::{ConnectError, Fault};
pub use host_id::host_id;
pub use keys::{KeyFileError, KeyFiles, Keys, TlsOptions};
pub use namespace::Namespace;
pub use nvme::host::{ConnectRefusal, ControllerInfo, HostError};
pub use nvme::spec::connect::HostId;
pub use nvme::spec::discovery::TransportType;
pub use nvme::spec::nqn::{Nqn, NqnError};
pub use options::{ControllerOptions, RetryPolicy};
pub use reactor::{Backend, IoBuffer, Waker};
pub use request::{Class, Completion, IoError, Operation, Refusal, Refused, Request};
pub use reservation::{Registered, ReportError, Reservation, ReservationReport};
pub use view::{BusyView, View};
