//! The service Controller: volumes and snapshots in the directories of a target.
//!
//! ```text
//!   volumes     made, deleted, grown, promised other things, listed
//!   nodes       let in and out: `hosts` of the subsystem, and keys
//!   snapshots   taken, deleted, listed
//!   pools       which directory, and what is free there
//! ```
//!
//! A procedure reads the configuration and makes at most one change, so it can be repeated after a kill at any moment.

mod nodes;
mod pools;
mod snapshots;
mod volumes;

use crate::messages::{
    ControllerAbility, ControllerCapability, ControllerGetCapabilitiesRequest,
    ControllerGetCapabilitiesResponse, ControllerRpc,
};
use crate::service::service;
use crate::target::{Call, Target};
use crate::volume::{self, Volume};
use std::path::PathBuf;
use tonic::Status;
use uuid::Uuid;

/// See the module.
#[derive(Debug)]
pub struct Controller {
    target: Target,
    portals: Vec<String>,
    keys: Option<PathBuf>,
}

service!(ControllerService, Controller, "csi.v1.Controller", {
    "CreateVolume" => create_volume,
    "DeleteVolume" => delete_volume,
    "ControllerPublishVolume" => publish,
    "ControllerUnpublishVolume" => unpublish,
    "ValidateVolumeCapabilities" => validate,
    "ListVolumes" => list_volumes,
    "GetCapacity" => capacity,
    "ControllerGetCapabilities" => capabilities,
    "CreateSnapshot" => create_snapshot,
    "DeleteSnapshot" => delete_snapshot,
    "ListSnapshots" => list_snapshots,
    "ControllerExpandVolume" => expand,
    "ControllerModifyVolume" => modify,
});

const ABILITIES: [ControllerAbility; 11] = [
    ControllerAbility::CreateDeleteVolume,
    ControllerAbility::PublishUnpublishVolume,
    ControllerAbility::ListVolumes,
    ControllerAbility::GetCapacity,
    ControllerAbility::CreateDeleteSnapshot,
    ControllerAbility::ListSnapshots,
    ControllerAbility::CloneVolume,
    ControllerAbility::ExpandVolume,
    ControllerAbility::ListVolumesPublishedNodes,
    ControllerAbility::SingleNodeMultiWriter,
    ControllerAbility::ModifyVolume,
];

impl Controller {
    /// The controller of a target that nodes reach at `portals` (`ADDRESS:PORT`). `keys` is a directory on the machine of the target, with the keys of nodes.
    pub fn new(target: Target, portals: Vec<String>, keys: Option<PathBuf>) -> Controller {
        Controller { target, portals, keys }
    }

    fn capabilities(
        &self,
        _: ControllerGetCapabilitiesRequest,
    ) -> Result<ControllerGetCapabilitiesResponse, Status> {
        let capability = |ability: ControllerAbility| ControllerCapability {
            rpc: Some(ControllerRpc { r#type: ability.into() }),
        };
        Ok(ControllerGetCapabilitiesResponse { capabilities: ABILITIES.map(capability).to_vec() })
    }
}

/// The volume with this identifier, if there is one.
fn find(call: &Call<'_>, id: Uuid) -> Result<Option<Volume>, Status> {
    let Some(table) = call.get(&volume::path(id))? else { return Ok(None) };
    Volume::in_table(&table).map(Some).ok_or_else(|| {
        let nqn = volume::nqn(id);
        Status::failed_precondition(format!(
            "the subsystem {nqn} was changed by hand and is no volume any more; give it namespace 1 again"
        ))
    })
}

/// The volume of a request, which has to be there.
fn expect(call: &Call<'_>, id: &str) -> Result<Volume, Status> {
    let found = volume::parse_id(id)?.map(|id| find(call, id)).transpose()?.flatten();
    found.ok_or_else(|| Status::not_found(format!("there is no volume {id:?}")))
}
