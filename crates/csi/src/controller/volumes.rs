//! Volumes: made, deleted, grown, promised other things, listed.

use super::{Controller, expect, find, pools};
use crate::capability::Use;
use crate::messages::{
    Confirmed, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest,
    DeleteVolumeResponse, ListVolumesRequest, ListVolumesResponse, ValidateVolumeCapabilitiesRequest,
    ValidateVolumeCapabilitiesResponse, VolumeContentSource, VolumeEntry, VolumeStatus,
};
use crate::page::page;
use crate::parameters::Parameters;
use crate::size::Bounds;
use crate::target::{Call, Document, Trouble};
use crate::volume::{self, NSID, Volume};
use serde_json::{Value, json};
use tonic::Status;
use units::Bytes;
use uuid::Uuid;

/// The origin of a copy.
struct Origin {
    /// As the target names it.
    name: String,
    pool: String,
    size: Bytes,
}

impl Controller {
    pub(super) fn create_volume(&self, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        let id = volume::id_of(&request.name)?;
        Use::expect_all(&request.volume_capabilities)?;
        let parameters = Parameters::of(&request.parameters, &request.mutable_parameters)?;
        let bounds = Bounds::of(request.capacity_range)?;
        let source = request.volume_content_source.as_ref();
        let created = self.target.call().change(|call, document| {
            // The volume first: a repeated request succeeds also if the snapshot is deleted meanwhile.
            if let Some(there) = find(call, id)? {
                return Ok(expect_same(&request.name, there, &parameters, bounds, source)?);
            }
            create(call, document, id, &parameters, bounds, source)
        });
        Ok(CreateVolumeResponse { volume: Some(created?.to_message()) })
    }

    pub(super) fn delete_volume(&self, request: DeleteVolumeRequest) -> Result<DeleteVolumeResponse, Status> {
        let Some(id) = volume::parse_id(&request.volume_id)? else { return Ok(DeleteVolumeResponse {}) };
        self.target.call().change(|call, document| {
            let Some(Volume { hosts, .. }) = find(call, id)? else { return Ok(()) };
            if !hosts.is_empty() {
                let hosts = hosts.join(", ");
                let said = format!("volume {id} is in use by {hosts}; unpublish it there first");
                return Err(Status::failed_precondition(said).into());
            }
            call.write("DELETE", &volume::path(id), document, &Value::Null)
        })?;
        Ok(DeleteVolumeResponse {})
    }

    pub(super) fn expand(
        &self,
        request: ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let range =
            request.capacity_range.ok_or_else(|| Status::invalid_argument("capacity_range is missing"))?;
        let bounds = Bounds::of(Some(range))?;
        let call = self.target.call();
        // Before the turn: nothing else says first that there is no such volume.
        expect(&call, &request.volume_id)?;
        let used = request.volume_capability.as_ref().map(|used| Use::of(Some(used))).transpose()?;
        let size = call.change(|call, document| {
            let volume = expect(call, &request.volume_id)?;
            let size = bounds.choose(volume.size)?;
            if size > volume.size {
                let path = format!("{}/namespaces/{NSID}", volume::path(volume.id));
                let grown = call.write("PATCH", &path, document, &json!({ "size": size.get() }));
                let pool = pools::choose(document, Some(&volume.pool))?;
                let more = size.saturating_sub(volume.size);
                grown.map_err(|trouble| pools::expect_room(call, pool, more, trouble))?;
            }
            Ok(size)
        })?;
        let is_block = used.is_some_and(|used| used.file_system.is_none());
        Ok(ControllerExpandVolumeResponse {
            capacity_bytes: volume::signed(size),
            node_expansion_required: !is_block,
        })
    }

    pub(super) fn modify(
        &self,
        request: ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        self.target.call().change(|call, document| {
            let Volume { id, promises: before, .. } = expect(call, &request.volume_id)?;
            let mut promises = before.clone();
            promises.change(&request.mutable_parameters)?;
            if promises.are_the_same(&before) {
                return Ok(());
            }
            let path = format!("{}/namespaces/{NSID}", volume::path(id));
            call.write("PATCH", &path, document, &Value::Object(promises.to_table()))
        })?;
        Ok(ControllerModifyVolumeResponse {})
    }

    pub(super) fn validate(
        &self,
        request: ValidateVolumeCapabilitiesRequest,
    ) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is empty"));
        }
        expect(&self.target.call(), &request.volume_id)?;
        Ok(match Use::expect_all(&request.volume_capabilities) {
            Ok(()) => ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                }),
                message: String::new(),
            },
            Err(status) => {
                ValidateVolumeCapabilitiesResponse { confirmed: None, message: status.message().to_owned() }
            }
        })
    }

    pub(super) fn list_volumes(&self, request: ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let tables = self.target.call().get("/v1/subsystems")?.unwrap_or_default();
        let volumes: Vec<Volume> =
            tables.as_array().into_iter().flatten().filter_map(Volume::in_table).collect();
        let ListVolumesRequest { max_entries, starting_token } = request;
        let is_id = |token: &str| Uuid::try_parse(token).is_ok();
        let (volumes, next_token) =
            page(volumes, |volume| volume.id.to_string(), max_entries, &starting_token, is_id)?;
        let entry = |volume: &Volume| VolumeEntry {
            volume: Some(volume.to_message()),
            status: Some(VolumeStatus { published_node_ids: volume.hosts.clone() }),
        };
        Ok(ListVolumesResponse { entries: volumes.iter().map(entry).collect(), next_token })
    }
}

/// The volume that is there, if it is what is asked for.
fn expect_same(
    name: &str,
    there: Volume,
    parameters: &Parameters,
    bounds: Bounds,
    source: Option<&VolumeContentSource>,
) -> Result<Volume, Status> {
    let differs = |what: &str, is: String| {
        Err(Status::already_exists(format!(
            "there is a volume named {name:?} already, and its {what} is {is}"
        )))
    };
    let is_pool = parameters.pool.as_ref().is_none_or(|pool| *pool == there.pool);
    match () {
        () if !bounds.contain(there.size) => differs("size", there.size.to_string()),
        () if there.to_message().content_source.as_ref() != source => {
            differs("origin", there.origin.unwrap_or_else(|| "none".to_owned()))
        }
        () if !is_pool => differs("pool", there.pool),
        () if parameters.auth != there.auth => differs("auth", there.auth.to_string()),
        () if !parameters.promises.are_the_same(&there.promises) => {
            differs("share", Value::Object(there.promises.to_table()).to_string())
        }
        () => Ok(there),
    }
}

fn create(
    call: &Call<'_>,
    document: &Document,
    id: Uuid,
    parameters: &Parameters,
    bounds: Bounds,
    source: Option<&VolumeContentSource>,
) -> Result<Volume, Trouble> {
    let origin = source.map(|source| origin(call, source)).transpose()?;
    let named = parameters.pool.as_deref().or(origin.as_ref().map(|origin| origin.pool.as_str()));
    let pool = pools::choose(document, named)?;
    if let Some(origin) = origin.as_ref().filter(|origin| origin.pool != pool.0) {
        let (name, there) = (&origin.name, &origin.pool);
        let said =
            format!("a copy is in the pool of its origin: {name} is in {there:?}, not in {:?}", pool.0);
        return Err(Status::invalid_argument(said).into());
    }
    let size = bounds.choose(origin.as_ref().map_or(Bytes::ZERO, |origin| origin.size))?;
    let volume = Volume {
        id,
        pool: pool.0.to_owned(),
        size,
        hosts: Vec::new(),
        auth: parameters.auth,
        origin: origin.map(|origin| origin.name),
        promises: parameters.promises.clone(),
    };
    let written = call.write("PUT", &volume::path(id), document, &volume.to_table());
    written.map_err(|trouble| pools::expect_room(call, pool, size, trouble))?;
    Ok(volume)
}

/// The snapshot or the volume of a request for a copy.
fn origin(call: &Call<'_>, source: &VolumeContentSource) -> Result<Origin, Status> {
    match (&source.snapshot, &source.volume) {
        (Some(snapshot), None) => {
            let id = &snapshot.snapshot_id;
            let found = super::snapshots::find(call, id)?;
            let found = found.ok_or_else(|| Status::not_found(format!("there is no snapshot {id:?}")))?;
            Ok(Origin { name: found.name, pool: found.pool, size: found.size })
        }
        (None, Some(volume)) => {
            let Volume { id, pool, size, .. } = expect(call, &volume.volume_id)?;
            Ok(Origin { name: id.to_string(), pool, size })
        }
        _ => Err(Status::invalid_argument("volume_content_source is neither one snapshot nor one volume")),
    }
}
