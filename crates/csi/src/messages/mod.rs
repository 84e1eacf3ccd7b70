//! The messages of the Container Storage Interface that this driver receives and sends.
//!
//! Names and numbers of fields are those of version 1.13 of the interface (`csi.v1`). Fields that this driver does not use are not declared, and
//! protobuf skips them: so secrets, which some requests can carry, are never held.
//!
//! A choice of one message among several (`oneof`) is declared as optional fields: the bytes are the same.
//!
//! Holds: csi-sanity, whose messages are made from the interface's own file, is understood (`tests/sanity.rs`).

mod controller;
mod identity;
mod node;
mod snapshot;

pub use controller::*;
pub use identity::*;
pub use node::*;
pub use snapshot::*;

use prost::{Enumeration, Message};

/// The use of a volume.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeCapability {
    /// As a block device.
    #[prost(message, optional, tag = "1")]
    pub block: Option<BlockVolume>,
    /// As a file system.
    #[prost(message, optional, tag = "2")]
    pub mount: Option<MountVolume>,
    /// The nodes that use it.
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

/// A volume as a block device.
#[derive(Clone, PartialEq, Message)]
pub struct BlockVolume {}

/// A volume as a file system.
#[derive(Clone, PartialEq, Message)]
pub struct MountVolume {
    /// The kind of file system; empty is the default.
    #[prost(string, tag = "1")]
    pub fs_type: String,
    /// Options of mount.
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// The nodes that use a volume.
#[derive(Clone, PartialEq, Message)]
pub struct AccessMode {
    /// The mode.
    #[prost(enumeration = "Mode", tag = "1")]
    pub mode: i32,
}

/// The modes of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Mode {
    /// None was said.
    Unknown = 0,
    /// One node writes.
    SingleNodeWriter = 1,
    /// One node reads.
    SingleNodeReaderOnly = 2,
    /// Several nodes read.
    MultiNodeReaderOnly = 3,
    /// Several nodes read, one writes.
    MultiNodeSingleWriter = 4,
    /// Several nodes write.
    MultiNodeMultiWriter = 5,
    /// One workload of one node writes.
    SingleNodeSingleWriter = 6,
    /// Several workloads of one node write.
    SingleNodeMultiWriter = 7,
}

/// The bounds of a capacity; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CapacityRange {
    /// The least.
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    /// The most.
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}
