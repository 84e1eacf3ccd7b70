//! Replicated files on the SSDs of many targets, without sockets, clocks or threads.
//!
//! ```text
//!   Request ──► Volume ──► Action::Io ──► a target's SSD          Volume::on_io ◄── its completion
//!                  │  ╰──► Action::Order ──► the metadata store   Volume::on_reply ◄── its reply
//!                  ╰─────► Action::Done ──► the caller
//! ```
//!
//! A *volume* is a file system of one client at a time. Every block of a file lies on two SSDs of different targets.
//! The rack-wide *metadata store* records the owner of each *mega blob* (a large piece of an SSD) and the client that
//! may write to a volume. The client allocates *micro blobs* from its mega blobs, and keeps the volume's own metadata
//! (names, extents) in a journal on two SSDs.
//!
//! Holds: acknowledged data survives the crash of the client, and synced data also survives power losses of targets
//!        (`tests/worlds.rs`); a client that lost its lease acknowledges nothing any more (the fencer in there).
//! Elsewhere: sockets and threads are in `blob-client`, real metadata stores in `blob-meta`.
//! Paper: Gimbal §4.3. The paper leaves metadata, fencing and repair open; those are ours (docs/blob-store.md).

pub mod catalog;
mod fault;
pub mod format;
mod geometry;
mod id;
pub mod pool;
pub mod steer;
pub mod store;
mod task;
pub mod volume;

pub use fault::Fault;
pub use geometry::{Geometry, GeometryError};
pub use id::{Copies, FileId, Generation, Mega, Place, SsdId, VolumeId};
pub use volume::{
    Action, Class, Io, IoFault, IoId, IoKind, OpId, OrderId, Outcome, Report, Request, Settings, Shown, Stat,
    Volume, normal_path,
};
