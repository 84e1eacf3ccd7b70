//! RDMA: connections through which the two ends' memory is read and written, by messages and without sockets.
//!
//! ```text
//!   Rdma::load ── CmChannel ── listen ──> CmListener                              an fd that is readable while there are events
//!                    │  └───── connect ─> CmId ── resolve_route ──┐
//!                    └ next_event ──> ConnectRequest ─────────────┴─ open(domain) ──> Queue    an fd of its own, as a socket has
//!
//!   Queue   post_receive · read · answer · send_capsule  ──>  poll ──>  Received · Read · Sent · Failed
//! ```
//!
//! Target: `ConnectRequest::open`, `post_receive`, then `Queue::accept`. Initiator: `AddressResolved`, `CmId::resolve_route`, `RouteResolved`,
//! `CmId::open`, `post_receive`, then `Queue::connect`. Both ends' descriptors go to a reactor by
//! [`Reactor::add_channel`](crate::Reactor::add_channel). After a wake-up [`Queue::arm`] comes first and then [`Queue::poll`]
//! until there is nothing: in the other order a completion in between would be slept over.
//!
//! Memory is registered with a [`Domain`] when it is first used for it, and stays so until it is freed. A buffer that work names is
//! moved into the queue and comes out with its completion, or when the queue is dropped: then the hardware has let go of it.
//!
//! Holds: no buffer leaves a queue while the device may use it (`examples/rdma_loop.rs`, in a guest with a device of software);
//!        with [`Access::Local`] no key leaves this process, so the other end reaches none of its memory.
//! Elsewhere: the layouts of the messages are `nvme`'s.

mod abi;
mod channel;
mod domain;
mod event;
mod identifier;
mod library;
mod pair;
mod queue;
mod sends;

pub use channel::{CmChannel, CmListener};
pub use domain::{Access, DeviceLimits, Domain, RemoteMemory, ZEROES};
pub(crate) use domain::{DomainCore, Keys, Registrations};
pub use event::{CmEvent, CmStep};
pub use identifier::{CmId, CmNumber, ConnectRequest, RdmaDevice};
pub use library::{Rdma, RdmaError};
pub use queue::{AnswerData, NotPosted, Queue, QueueDone, QueueOptions, Work};
