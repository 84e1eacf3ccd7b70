//! Completion-based IO for one thread: sockets, files and block devices, deadlines and wake-ups, in one queue of events; and RDMA.
//!
//! A shell (the target's acceptor and pipelines, the initiator's engine) owns one [`Reactor`] per thread. It asks for work,
//! calls [`Reactor::wait`], and takes [`Event`]s until there are none:
//!
//! ```text
//!   listen · connect · add_socket ──┐                        ┌── Accepted · Connected · Received · Readable · ReceiveEnded
//!   send(batch) · pause · close   ──┼──> wait(deadline) ──>──┼── Sent(batch) · Detached
//!   submit_disk · watch_channel   ──┘     one system call    └── Disk(tag, buffer) · Ready · Woken
//! ```
//!
//! Two backends stand behind the same interface: io_uring, and epoll with a few blocking threads for the disk where
//! io_uring is too old (before Linux 6.0) or forbidden (most containers). Whatever the kernel reads or writes is owned by
//! the reactor until the kernel is done with it, and comes back with the event.
//!
//! Holds: no event of a token arrives after `close` (`a_closed_socket_is_silent_and_its_slot_is_used_again`);
//!        every buffer comes back, even when the reactor is dropped in the middle (`dropping_the_reactor_returns_every_buffer`).
//! RDMA needs no reactor to move data ([`rdma`]); what it has to say it announces through descriptors, which a reactor
//! watches as *channels*.
//!
//! Elsewhere: the meaning of the bytes is `nvme`; the order of disk accesses is `sched`.
//!
//! This is the only crate with `unsafe`: every block states why it is sound.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod buffer;
mod clock;
mod descriptors;
mod disk;
mod driver;
mod epoll;
mod event;
#[cfg(test)]
mod explored;
mod inbound;
mod nvme;
mod outbox;
mod pace;
mod pacing;
mod pool;
pub mod rdma;
mod reactor;
mod receive;
mod refused;
mod region;
mod ring;
mod send;
mod socket;
mod thread_class;
mod token;
mod wake_word;
mod waker;

pub use buffer::IoBuffer;
pub use clock::Clock;
pub use descriptors::raise_descriptor_limit;
pub use disk::{DiskAccess, DiskOp};
pub use event::Event;
pub use nvme::{CommandStatus, NvmeNamespace, nvme_identify, nvme_namespace_id};
pub use pool::BufferPool;
pub use reactor::{Backend, Options, Reactor};
pub use receive::RecvBuffer;
pub use refused::{Refusal, Refused};
pub use ring::Unregistered;
pub use send::SendBatch;
pub use socket::bind;
pub use token::Token;
pub use waker::Waker;
