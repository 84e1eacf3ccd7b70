//! Writing: from appended bytes to blocks on two SSDs.
//!
//! Full blocks go out in units as soon as a unit is full. *Flush* sends the rest: the last block goes out as it is, and
//! again when it has more bytes. So a crash of the client loses no flushed bytes. *Sync* ends the last block, so that
//! no durable block is ever written again, and makes the SSDs flush. It needs no write of metadata if the micro blob
//! was recorded before, which is done ahead of time for files that are flushed or synced in small pieces. A single unit
//! that is synced, or flushed where a sync followed the last time, is written durably and then needs no flush.
//!
//! Writes of a file that is flushed or synced after every few bytes, like a log, are urgent, because a caller waits for
//! them. The units of other files are background, so that a log does not wait behind tables at the SSDs of a switch.
//!
//! Elsewhere: buffers and units of a file are in `files`, its two copies in `copies`.
//!
//! Holds: `tests/worlds.rs`; `tests/files.rs` counts the writes and flushes of a sync.

mod append;
mod extend;
mod layouts;
mod send;
mod sync;

pub(crate) use append::Appender;
pub(crate) use extend::Extents;
pub(crate) use layouts::Layouts;
pub(crate) use send::Sender;
pub(crate) use sync::Syncer;
