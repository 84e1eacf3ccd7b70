//! Messages of the service Controller, but for those about snapshots.

use super::{CapacityRange, VolumeCapability};
use prost::{Enumeration, Message};
use std::collections::HashMap;

/// A request for a new volume.
#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeRequest {
    /// Its name: a repeated request has the same.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its size.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    /// The uses that it has to allow.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// The parameters of the StorageClass.
    #[prost(map = "string, string", tag = "4")]
    pub parameters: HashMap<String, String>,
    /// Its origin, if it is a copy.
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<VolumeContentSource>,
    /// Parameters that may change later.
    #[prost(map = "string, string", tag = "8")]
    pub mutable_parameters: HashMap<String, String>,
}

/// The origin of a copy: one of the two.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeContentSource {
    /// A snapshot.
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<SnapshotSource>,
    /// A volume.
    #[prost(message, optional, tag = "2")]
    pub volume: Option<VolumeSource>,
}

/// A snapshot that is copied.
#[derive(Clone, PartialEq, Message)]
pub struct SnapshotSource {
    /// Its identifier.
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
}

/// A volume that is copied.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeSource {
    /// Its identifier.
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// A volume that there is now.
#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeResponse {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

/// A volume.
#[derive(Clone, PartialEq, Message)]
pub struct Volume {
    /// Its size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// Its identifier.
    #[prost(string, tag = "2")]
    pub volume_id: String,
    /// Facts that later requests carry.
    #[prost(map = "string, string", tag = "3")]
    pub volume_context: HashMap<String, String>,
    /// Its origin, if it is a copy.
    #[prost(message, optional, tag = "4")]
    pub content_source: Option<VolumeContentSource>,
}

/// A request to delete a volume.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteVolumeRequest {
    /// Its identifier.
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// It is deleted.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteVolumeResponse {}

/// A request that a node may use a volume.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerPublishVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The node.
    #[prost(string, tag = "2")]
    pub node_id: String,
    /// Its use.
    #[prost(message, optional, tag = "3")]
    pub volume_capability: Option<VolumeCapability>,
    /// Whether the node may only read.
    #[prost(bool, tag = "4")]
    pub readonly: bool,
}

/// The node may use it.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerPublishVolumeResponse {
    /// Facts for the node.
    #[prost(map = "string, string", tag = "1")]
    pub publish_context: HashMap<String, String>,
}

/// A request to end that.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerUnpublishVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The node; empty is every node.
    #[prost(string, tag = "2")]
    pub node_id: String,
}

/// The node may not use it any more.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerUnpublishVolumeResponse {}

/// A question whether a volume allows some uses.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The facts that came with it.
    #[prost(map = "string, string", tag = "2")]
    pub volume_context: HashMap<String, String>,
    /// The uses.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// The parameters that it was made with.
    #[prost(map = "string, string", tag = "4")]
    pub parameters: HashMap<String, String>,
}

/// The answer.
#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesResponse {
    /// The confirmed parts; absent if a use is not possible.
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    /// The reason why not.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The parts of a question that are confirmed.
#[derive(Clone, PartialEq, Message)]
pub struct Confirmed {
    /// The facts.
    #[prost(map = "string, string", tag = "1")]
    pub volume_context: HashMap<String, String>,
    /// The uses.
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// The parameters.
    #[prost(map = "string, string", tag = "3")]
    pub parameters: HashMap<String, String>,
}

/// A request for a page of all volumes.
#[derive(Clone, PartialEq, Message)]
pub struct ListVolumesRequest {
    /// The most entries; 0 is no bound.
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    /// Where the page begins; empty is the begin of all.
    #[prost(string, tag = "2")]
    pub starting_token: String,
}

/// A page of all volumes.
#[derive(Clone, PartialEq, Message)]
pub struct ListVolumesResponse {
    /// The volumes.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<VolumeEntry>,
    /// Where the next page begins; empty if there is none.
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// A volume of a page.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeEntry {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
    /// Its users.
    #[prost(message, optional, tag = "2")]
    pub status: Option<VolumeStatus>,
}

/// The users of a volume.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeStatus {
    /// The nodes that may use it.
    #[prost(string, repeated, tag = "1")]
    pub published_node_ids: Vec<String>,
}

/// A question for free space.
#[derive(Clone, PartialEq, Message)]
pub struct GetCapacityRequest {
    /// The uses that volumes have to allow.
    #[prost(message, repeated, tag = "1")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// The parameters of the StorageClass.
    #[prost(map = "string, string", tag = "2")]
    pub parameters: HashMap<String, String>,
}

/// The free space.
#[derive(Clone, PartialEq, Message)]
pub struct GetCapacityResponse {
    /// The bytes that are left for volumes.
    #[prost(int64, tag = "1")]
    pub available_capacity: i64,
    /// The largest volume.
    #[prost(message, optional, tag = "2")]
    pub maximum_volume_size: Option<Int64Value>,
}

/// A number that may be absent (`google.protobuf.Int64Value`).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Int64Value {
    /// The value.
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// A request for the abilities of the controller.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerGetCapabilitiesRequest {}

/// The abilities of the controller.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerGetCapabilitiesResponse {
    /// One each.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<ControllerCapability>,
}

/// An ability of the controller.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerCapability {
    /// A procedure, or several that belong together.
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<ControllerRpc>,
}

/// Procedures of the controller.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerRpc {
    /// Their number.
    #[prost(enumeration = "ControllerAbility", tag = "1")]
    pub r#type: i32,
}

/// The abilities of a controller that this one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum ControllerAbility {
    /// None.
    Unknown = 0,
    /// Volumes are made and deleted.
    CreateDeleteVolume = 1,
    /// Nodes are let in and out.
    PublishUnpublishVolume = 2,
    /// Volumes are listed.
    ListVolumes = 3,
    /// Free space is told.
    GetCapacity = 4,
    /// Snapshots are taken and deleted.
    CreateDeleteSnapshot = 5,
    /// Snapshots are listed.
    ListSnapshots = 6,
    /// Volumes are copied.
    CloneVolume = 7,
    /// Volumes grow.
    ExpandVolume = 9,
    /// The list of volumes has their nodes.
    ListVolumesPublishedNodes = 10,
    /// The modes of a single node tell one workload from several.
    SingleNodeMultiWriter = 13,
    /// Promises to volumes change.
    ModifyVolume = 14,
}

/// A request to make a volume larger.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerExpandVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Its new size.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    /// Its use.
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

/// It is larger.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerExpandVolumeResponse {
    /// Its size now.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// Whether its node has something to do.
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

/// A request to change promises to a volume.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerModifyVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The parameters of the VolumeAttributesClass.
    #[prost(map = "string, string", tag = "3")]
    pub mutable_parameters: HashMap<String, String>,
}

/// They are changed.
#[derive(Clone, PartialEq, Message)]
pub struct ControllerModifyVolumeResponse {}
