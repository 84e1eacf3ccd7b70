//! The NVMe/TCP initiator: controllers that stay connected, IOs that end exactly once, credit that is kept.
//!
//! ```text
//!   your thread ── Client (blocking, async) ──► its own thread ┐
//!   your loop ─────────────────────────────────────────────────┴─► Engine ──► Session per controller ──► Link per connection
//!                                                             sockets, clock     sans-IO: decides all     protocol state
//! ```
//!
//! [`Engine`] is for whoever has a loop of its own (a load generator, a server): submit, wait, take events; hundreds of
//! connections on one thread. An IO that the switch gave no credit for waits in the client in its order; an IO whose
//! connection breaks goes out again on the next one, or fails, as [`RetryPolicy`] says.
//!
//! [`Client`] is for everybody else: it has a thread of its own, and its calls block or are awaited.
//!
//! Elsewhere: PDUs and data transfer are `nvme::connection`; bringing a controller up is `nvme::host`; the credit window is `sched::CreditWindow`.

mod backoff;
mod client;
mod discover;
mod engine;
mod event;
mod fault;
mod in_flight;
mod line;
mod link;
mod namespace;
mod options;
mod request;
mod session;
#[cfg(test)]
mod tests;
mod view;

pub use backoff::Backoff;
pub use client::{Client, ClientError, ConnectFailure, Controller, Outcome, Pending};
pub use discover::{DiscoverError, Discovered, discover};
pub use engine::Engine;
pub use event::{ControllerId, Event};
pub use fault::{ConnectError, Fault};
pub use namespace::Namespace;
pub use nvme::host::{ConnectRefusal, ControllerInfo, HostError};
pub use nvme::spec::connect::HostId;
pub use nvme::spec::nqn::{Nqn, NqnError};
pub use options::{ControllerOptions, RetryPolicy};
pub use reactor::{Backend, IoBuffer, Waker};
pub use request::{Class, Completion, IoError, Operation, Refusal, Refused, Request};
pub use view::View;
