//! The service Node: volumes are attached to this machine, and given to workloads.
//!
//! ```text
//!   stage      nvme connect ─► /dev/disk/by-id/nvme-uuid.ID ─► mkfs if it is empty ─► mount at the staging path
//!   publish    bind mount of the staging path, or of the device, at the path of the workload
//! ```
//!
//! Nothing is remembered: each step looks whether it is done already, in the list of mounts and at the device. A volume has one procedure at a time.
//!
//! Elsewhere: programs are run by `command`, mounts listed by `mounts`.

mod attach;
mod command;
mod expand;
mod file_system;
mod mounts;
mod publish;
mod stage;
mod stats;

use crate::messages::{
    NodeAbility, NodeCapability, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodeRpc,
};
use crate::service::service;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tonic::Status;

/// See the module.
#[derive(Debug)]
pub struct Node {
    /// The directory of nvme-cli, with `hostnqn`.
    config: PathBuf,
    /// The directory with the names of devices by their identifiers.
    by_id: PathBuf,
    busy: Mutex<HashSet<String>>,
}

service!(NodeService, Node, "csi.v1.Node", {
    "NodeStageVolume" => stage,
    "NodeUnstageVolume" => unstage,
    "NodePublishVolume" => publish,
    "NodeUnpublishVolume" => unpublish,
    "NodeGetVolumeStats" => stats,
    "NodeExpandVolume" => expand,
    "NodeGetCapabilities" => capabilities,
    "NodeGetInfo" => info,
});

const ABILITIES: [NodeAbility; 4] = [
    NodeAbility::StageUnstageVolume,
    NodeAbility::GetVolumeStats,
    NodeAbility::ExpandVolume,
    NodeAbility::SingleNodeMultiWriter,
];

/// A volume that has a procedure.
struct Busy<'n> {
    node: &'n Node,
    volume: String,
}

impl Node {
    /// The node with this configuration of nvme-cli (`/etc/nvme`), and these names of devices (`/dev/disk/by-id`).
    pub fn new(config: PathBuf, by_id: PathBuf) -> Node {
        Node { config, by_id, busy: Mutex::new(HashSet::new()) }
    }

    fn capabilities(&self, _: NodeGetCapabilitiesRequest) -> Result<NodeGetCapabilitiesResponse, Status> {
        let capability =
            |ability: NodeAbility| NodeCapability { rpc: Some(NodeRpc { r#type: ability.into() }) };
        Ok(NodeGetCapabilitiesResponse { capabilities: ABILITIES.map(capability).to_vec() })
    }

    fn info(&self, _: NodeGetInfoRequest) -> Result<NodeGetInfoResponse, Status> {
        Ok(NodeGetInfoResponse { node_id: self.host_nqn()?, max_volumes_per_node: 0 })
    }

    /// The host NQN of this machine.
    fn host_nqn(&self) -> Result<String, Status> {
        let path = self.config.join("hostnqn");
        let advice = "nvme gen-hostnqn makes one";
        let text = files::read_text(&path).map_err(|error| {
            Status::failed_precondition(format!("{} cannot be read: {error}; {advice}", path.display()))
        })?;
        let nqn = text.trim();
        match nqn.starts_with("nqn.") && !nqn.contains(char::is_whitespace) {
            true => Ok(nqn.to_owned()),
            false => {
                let path = path.display();
                Err(Status::failed_precondition(format!("{path} has no host NQN, but {nqn:?}; {advice}")))
            }
        }
    }

    /// Has a volume for one procedure.
    fn begin(&self, volume: &str) -> Result<Busy<'_>, Status> {
        if volume.is_empty() {
            return Err(Status::invalid_argument("volume_id is missing"));
        }
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(volume.to_owned()) {
            return Err(Status::aborted(format!("volume {volume} has another procedure here; repeat it")));
        }
        Ok(Busy { node: self, volume: volume.to_owned() })
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.node.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.volume);
    }
}

/// A path of a request, which has to be there and absolute.
fn expect_path<'p>(path: &'p str, name: &str) -> Result<&'p Path, Status> {
    match Path::new(path) {
        given if given.is_absolute() => Ok(given),
        _ => Err(Status::invalid_argument(format!("{name} is {path:?}; it has to be an absolute path"))),
    }
}

/// A path of a request that only has to be there: it is looked for among the mounts.
fn expect_some<'p>(path: &'p str, name: &str) -> Result<&'p Path, Status> {
    match path {
        "" => Err(Status::invalid_argument(format!("{name} is missing"))),
        path => Ok(Path::new(path)),
    }
}

/// The status of a failed change of a path.
fn failed(path: &Path, what: &str) -> impl FnOnce(std::io::Error) -> Status {
    let said = format!("{} cannot be {what}", path.display());
    move |error| Status::internal(format!("{said}: {error}"))
}
