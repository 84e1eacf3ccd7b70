//! The admin API of a running target, and the client of it.
//!
//! ```text
//!   gimbal ctl ─► client ══ HTTP, Unix socket ══► service ─► routes ─┬─► board: what runs now, operations   (reads: never wait)
//!                                                                    └─► order ─► owner of the target       (writes: one at a time)
//!                                                                                    edit ─► judge ─► stage ─► reload ─► rename
//! ```
//!
//! The configuration file is the only truth. A change is an edit of its text (`edit`), so comments and order stay. The owner of the target applies it
//! as it applies a file after SIGHUP, and writes the file before it answers. The API has no state of its own.
//!
//! Elsewhere: the owner is in `gimbal serve`; docs/admin.md is the contract.

mod access;
mod board;
mod client;
mod dashboard;
mod document;
mod edit;
mod events;
mod filter;
mod format;
mod guarded;
mod health;
mod hosts;
mod json;
mod openapi;
mod order;
mod place;
mod refusal;
mod routes;
mod service;
mod sight;
mod slow;
mod snapshots;
mod socket;
mod store;
mod takeover;
mod tls;

pub use board::{Board, Operation};
pub use client::{Client, ClientError, Reply, Secured};
pub use document::Document;
pub use edit::{Change, Edit};
pub use health::hanging;
pub use order::{Action, Answer, OnDocument, OnGroup, OnSnapshot, Order, Source};
pub use place::Place;
pub use refusal::Refusal;
pub use service::{Doors, Guarded, Service};
pub use socket::{Listener, SocketError, default_socket};
pub use store::Staged;
pub use tls::server_tls;
