//! Connections: the only place that knows sockets and PDUs.
//!
//! ```text
//!   accepted ─► opening (the first byte: which protocol) ─► Connection ─► Moving ─► Connection on another thread
//! ```
//!
//! Everything outside of this folder handles commands, answers and events. A [`Connection`] is tied to the reactor of its thread; a
//! [`Moving`] is the same connection on its way to another thread. Another transport is another file here, and a case of these types.

mod connection;
mod moving;
mod opening;

pub(crate) use connection::{Connection, Events};
pub(crate) use moving::Moving;
pub(crate) use opening::Protocol;
