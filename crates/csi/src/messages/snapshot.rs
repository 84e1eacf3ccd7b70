//! Messages of the service Controller about snapshots.

use prost::Message;

/// A request for a snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSnapshotRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub source_volume_id: String,
    /// Its name: a repeated request has the same.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The parameters of the VolumeSnapshotClass.
    #[prost(map = "string, string", tag = "4")]
    pub parameters: std::collections::HashMap<String, String>,
}

/// A snapshot that there is now.
#[derive(Clone, PartialEq, Message)]
pub struct CreateSnapshotResponse {
    /// The snapshot.
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}

/// A snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct Snapshot {
    /// The least size of a volume that is made of it.
    #[prost(int64, tag = "1")]
    pub size_bytes: i64,
    /// Its identifier.
    #[prost(string, tag = "2")]
    pub snapshot_id: String,
    /// The volume.
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    /// When it was taken.
    #[prost(message, optional, tag = "4")]
    pub creation_time: Option<Timestamp>,
    /// Whether volumes can be made of it.
    #[prost(bool, tag = "5")]
    pub ready_to_use: bool,
}

/// A time (`google.protobuf.Timestamp`).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Timestamp {
    /// Seconds since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

/// A request to delete a snapshot.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteSnapshotRequest {
    /// Its identifier.
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
}

/// It is deleted.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteSnapshotResponse {}

/// A request for a page of snapshots.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshotsRequest {
    /// The most entries; 0 is no bound.
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    /// Where the page begins; empty is the begin of all.
    #[prost(string, tag = "2")]
    pub starting_token: String,
    /// Only those of this volume.
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    /// Only this one.
    #[prost(string, tag = "4")]
    pub snapshot_id: String,
}

/// A page of snapshots.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshotsResponse {
    /// The snapshots.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<SnapshotEntry>,
    /// Where the next page begins; empty if there is none.
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// A snapshot of a page.
#[derive(Clone, PartialEq, Message)]
pub struct SnapshotEntry {
    /// The snapshot.
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}
