//! Messages of the service Node.

use super::{CapacityRange, VolumeCapability};
use prost::{Enumeration, Message};
use std::collections::HashMap;

/// A request to attach a volume to a node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStageVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The facts of the controller.
    #[prost(map = "string, string", tag = "2")]
    pub publish_context: HashMap<String, String>,
    /// The directory of the volume on the node.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// Its use.
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

/// It is attached.
#[derive(Clone, PartialEq, Message)]
pub struct NodeStageVolumeResponse {}

/// A request to detach a volume.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnstageVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The directory of the volume on the node.
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

/// It is detached.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnstageVolumeResponse {}

/// A request to give a volume to a workload.
#[derive(Clone, PartialEq, Message)]
pub struct NodePublishVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The directory of the volume on the node.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// Where the workload finds it.
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// Its use.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    /// Whether the workload may only read.
    #[prost(bool, tag = "6")]
    pub readonly: bool,
}

/// The workload has it.
#[derive(Clone, PartialEq, Message)]
pub struct NodePublishVolumeResponse {}

/// A request to take it away.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnpublishVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where the workload finds it.
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// It is taken away.
#[derive(Clone, PartialEq, Message)]
pub struct NodeUnpublishVolumeResponse {}

/// A request for the usage of a volume.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it is.
    #[prost(string, tag = "2")]
    pub volume_path: String,
}

/// The usage of a volume.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsResponse {
    /// One for each unit.
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
}

/// The usage of a volume in one unit.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeUsage {
    /// The number that is left.
    #[prost(int64, tag = "1")]
    pub available: i64,
    /// All.
    #[prost(int64, tag = "2")]
    pub total: i64,
    /// The number that is used.
    #[prost(int64, tag = "3")]
    pub used: i64,
    /// The unit.
    #[prost(enumeration = "UsageUnit", tag = "4")]
    pub unit: i32,
}

/// Units of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum UsageUnit {
    /// None.
    Unknown = 0,
    /// Bytes.
    Bytes = 1,
    /// Files.
    Inodes = 2,
}

/// A request for the abilities of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetCapabilitiesRequest {}

/// The abilities of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetCapabilitiesResponse {
    /// One each.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<NodeCapability>,
}

/// An ability of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeCapability {
    /// A procedure, or several that belong together.
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<NodeRpc>,
}

/// Procedures of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeRpc {
    /// Their number.
    #[prost(enumeration = "NodeAbility", tag = "1")]
    pub r#type: i32,
}

/// The abilities of a node that this one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum NodeAbility {
    /// None.
    Unknown = 0,
    /// Volumes are attached before workloads get them.
    StageUnstageVolume = 1,
    /// Usage is told.
    GetVolumeStats = 2,
    /// Volumes grow.
    ExpandVolume = 3,
    /// The modes of a single node tell one workload from several.
    SingleNodeMultiWriter = 5,
}

/// A request for the name of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetInfoRequest {}

/// The name of the node.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetInfoResponse {
    /// Its host NQN.
    #[prost(string, tag = "1")]
    pub node_id: String,
    /// The most volumes; 0 is no bound.
    #[prost(int64, tag = "2")]
    pub max_volumes_per_node: i64,
}

/// A request to use all of a volume that has grown.
#[derive(Clone, PartialEq, Message)]
pub struct NodeExpandVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it is.
    #[prost(string, tag = "2")]
    pub volume_path: String,
    /// Its new size.
    #[prost(message, optional, tag = "3")]
    pub capacity_range: Option<CapacityRange>,
    /// The directory of the volume on the node.
    #[prost(string, tag = "4")]
    pub staging_target_path: String,
    /// Its use.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
}

/// All of it is used.
#[derive(Clone, PartialEq, Message)]
pub struct NodeExpandVolumeResponse {
    /// Its size now.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
}
