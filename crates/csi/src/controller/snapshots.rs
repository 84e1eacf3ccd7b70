//! Snapshots: taken, deleted, listed.
//!
//! A snapshot is a file of its directory, and its name there is made of the name in the request. Those that others have taken are not listed, but a
//! volume can be made of each, by its identifier `POOL/NAME`.

use super::{Controller, expect, pools};
use crate::messages::{
    self, CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    ListSnapshotsRequest, ListSnapshotsResponse, SnapshotEntry, Timestamp,
};
use crate::page::page;
use crate::target::{Call, Document, Trouble, word};
use crate::volume::{self, NSID};
use serde_json::{Value, json};
use tonic::Status;
use units::Bytes;

/// The names of snapshots of this driver begin with this.
const PREFIX: &str = "csi-";

/// A snapshot in a directory.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) pool: String,
    pub(super) name: String,
    /// The UUID of the namespace, which is the volume.
    volume: String,
    pub(super) size: Bytes,
    taken: i64,
}

impl Found {
    fn of(pool: &str, listed: &Value) -> Option<Found> {
        Some(Found {
            pool: pool.to_owned(),
            name: listed["name"].as_str()?.to_owned(),
            volume: listed["namespace"].as_str()?.to_owned(),
            size: Bytes(listed["size"].as_u64()?),
            taken: listed["taken"].as_i64()?,
        })
    }

    fn id(&self) -> String {
        format!("{}/{}", self.pool, self.name)
    }

    fn to_message(&self) -> messages::Snapshot {
        messages::Snapshot {
            size_bytes: volume::signed(self.size),
            snapshot_id: self.id(),
            source_volume_id: self.volume.clone(),
            creation_time: Some(Timestamp { seconds: self.taken }),
            ready_to_use: true,
        }
    }
}

fn folder(pool: &str) -> String {
    format!("/v1/devices/{}/snapshots", word(pool))
}

/// The snapshots in a directory; none if there is no such directory.
fn in_pool(call: &Call<'_>, pool: &str) -> Result<Vec<Found>, Status> {
    let listed = call.get(&folder(pool))?.unwrap_or_default();
    let listed = listed["snapshots"].as_array().into_iter().flatten();
    Ok(listed.filter_map(|one| Found::of(pool, one)).collect())
}

/// The snapshot with this identifier.
pub(super) fn find(call: &Call<'_>, id: &str) -> Result<Option<Found>, Status> {
    if id.is_empty() {
        return Err(Status::invalid_argument("snapshot_id is missing"));
    }
    let Some((pool, name)) = id.rsplit_once('/') else { return Ok(None) };
    Ok(in_pool(call, pool)?.into_iter().find(|found| found.name == name))
}

/// The snapshots of this driver in all directories.
fn all(call: &Call<'_>, document: &Document) -> Result<Vec<Found>, Status> {
    let mut all = Vec::new();
    for (pool, _) in document.pools() {
        all.extend(in_pool(call, pool)?.into_iter().filter(|found| found.name.starts_with(PREFIX)));
    }
    Ok(all)
}

impl Controller {
    pub(super) fn create_snapshot(
        &self,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let CreateSnapshotRequest { source_volume_id: of, name, parameters } = request;
        let name_there = format!("{PREFIX}{}", volume::id_of(&name)?);
        if of.is_empty() {
            return Err(Status::invalid_argument("source_volume_id is missing"));
        }
        if let Some(unknown) = parameters.keys().find(|key| !key.starts_with("csi.storage.k8s.io/")) {
            return Err(Status::invalid_argument(format!(
                "unknown parameter {unknown}; snapshots have none"
            )));
        }
        let taken = self.target.call().change(|call, document| {
            if let Some(found) = all(call, document)?.into_iter().find(|found| found.name == name_there) {
                if found.volume == of {
                    return Ok(found);
                }
                let said = format!("there is a snapshot named {name:?} already, of volume {}", found.volume);
                return Err(Status::already_exists(said).into());
            }
            let source = expect(call, &of)?;
            let pool = pools::choose(document, Some(&source.pool))?;
            let body = json!({ "subsystem": volume::nqn(source.id), "nsid": NSID });
            let path = format!("{}/{name_there}", folder(&source.pool));
            // A clone takes little at first; a full directory has nothing left.
            call.write_snapshot("PUT", &path, &body)
                .map_err(|trouble| pools::expect_room(call, pool, Bytes(1), trouble))?;
            let found = in_pool(call, &source.pool)?.into_iter().find(|found| found.name == name_there);
            found.ok_or_else(|| Trouble::from(Status::aborted("the snapshot was deleted at once; repeat it")))
        })?;
        Ok(CreateSnapshotResponse { snapshot: Some(taken.to_message()) })
    }

    pub(super) fn delete_snapshot(
        &self,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        self.target.call().change(|call, _| {
            let Some(found) = find(call, &request.snapshot_id)? else { return Ok(()) };
            let path = format!("{}/{}", folder(&found.pool), word(&found.name));
            call.write_snapshot("DELETE", &path, &Value::Null)
        })?;
        Ok(DeleteSnapshotResponse {})
    }

    pub(super) fn list_snapshots(
        &self,
        request: ListSnapshotsRequest,
    ) -> Result<ListSnapshotsResponse, Status> {
        let call = self.target.call();
        let document = call.document()?;
        let mut found = match request.snapshot_id.as_str() {
            "" => all(&call, &document)?,
            id => find(&call, id)?.into_iter().collect(),
        };
        if !request.source_volume_id.is_empty() {
            found.retain(|found| found.volume == request.source_volume_id);
        }
        let is_id = |token: &str| token.contains('/');
        let (found, next_token) =
            page(found, Found::id, request.max_entries, &request.starting_token, is_id)?;
        let entry = |found: &Found| SnapshotEntry { snapshot: Some(found.to_message()) };
        Ok(ListSnapshotsResponse { entries: found.iter().map(entry).collect(), next_token })
    }
}
