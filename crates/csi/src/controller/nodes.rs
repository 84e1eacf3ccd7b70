//! Nodes: let in and out.
//!
//! A node is known by its host NQN, which is in `hosts` of the subsystem while the node may use the volume. With `auth` the node has a `[[host]]`
//! with its key as well, while it has any volume with `auth`. The target refuses a `[[host]]` that no subsystem lets in, and a subsystem that asks for
//! proofs and lets in hosts without keys; so both change at once.

use super::{Controller, expect, find};
use crate::capability::Use;
use crate::messages::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse, ControllerUnpublishVolumeRequest,
    ControllerUnpublishVolumeResponse,
};
use crate::target::{Call, Document, Trouble, word};
use crate::volume::{self, Volume};
use serde_json::{Value, json};
use std::path::Path;
use tonic::Status;

/// The beginning of every NQN.
const NQN: &str = "nqn.";

impl Controller {
    pub(super) fn publish(
        &self,
        request: ControllerPublishVolumeRequest,
    ) -> Result<ControllerPublishVolumeResponse, Status> {
        let ControllerPublishVolumeRequest { volume_id, node_id: node, volume_capability, readonly } =
            request;
        volume::parse_id(&volume_id)?;
        if node.is_empty() {
            return Err(Status::invalid_argument("node_id is missing"));
        }
        let used = Use::of(volume_capability.as_ref())?;
        if readonly {
            return Err(Status::invalid_argument(
                "readonly is for a node as a whole, which this driver has not; use an access mode that only reads",
            ));
        }
        let volume = self.target.call().change(|call, document| {
            let volume = expect(call, &volume_id)?;
            if !node.starts_with(NQN) {
                let said = format!("there is no node {node:?}: nodes are known by their host NQNs");
                return Err(Status::not_found(said).into());
            }
            let others: Vec<&String> = volume.hosts.iter().filter(|host| **host != node).collect();
            if let (true, [other, ..]) = (used.is_single_node, &others[..]) {
                let said = format!("volume {volume_id} is for one node, and {other} has it");
                return Err(Status::failed_precondition(said).into());
            }
            self.let_in(call, document, &volume, &node)?;
            Ok(volume)
        })?;
        let publish_context = [
            ("nqn", volume::nqn(volume.id)),
            ("uuid", volume.id.to_string()),
            ("portals", self.portals.join(",")),
        ];
        let publish_context =
            publish_context.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(ControllerPublishVolumeResponse { publish_context })
    }

    fn let_in(
        &self,
        call: &Call<'_>,
        document: &Document,
        volume: &Volume,
        node: &str,
    ) -> Result<(), Trouble> {
        let is_in = volume.hosts.iter().any(|host| host == node);
        let has_key = !volume.auth || has_key(call, node)?;
        let mut hosts = volume.hosts.clone();
        hosts.extend((!is_in).then(|| node.to_owned()));
        if has_key {
            return if is_in { Ok(()) } else { set_hosts(call, document, volume, &hosts) };
        }
        let Some(keys) = &self.keys else {
            return Err(Status::failed_precondition(format!(
                "volume {} has auth, and the driver knows no keys of nodes; start it with --keys DIRECTORY",
                volume.id
            ))
            .into());
        };
        let key = key_file(keys, node);
        let mut known = list(call, "/v1/hosts")?;
        known.push(json!({ "nqn": node, "dhchap_key": key }));
        set_both(call, document, volume, &hosts, &known).map_err(|trouble| match trouble {
            Trouble::Refused(refused) => Trouble::Refused(Status::failed_precondition(format!(
                "the node {node} needs a key in {key}, made by gimbal key gen on the machine of the target; {}",
                refused.message()
            ))),
            trouble => trouble,
        })
    }

    pub(super) fn unpublish(
        &self,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<ControllerUnpublishVolumeResponse, Status> {
        let ControllerUnpublishVolumeRequest { volume_id, node_id: node } = request;
        let Some(id) = volume::parse_id(&volume_id)? else { return Ok(ControllerUnpublishVolumeResponse {}) };
        self.target.call().change(|call, document| {
            let Some(volume) = find(call, id)? else { return Ok(()) };
            let (out, stay): (Vec<String>, Vec<String>) =
                volume.hosts.iter().cloned().partition(|host| node.is_empty() || *host == node);
            if out.is_empty() {
                return Ok(());
            }
            let (known, is_less) = self.known_without(call, &volume, &out)?;
            match is_less {
                true => set_both(call, document, &volume, &stay, &known),
                false => set_hosts(call, document, &volume, &stay),
            }
        })?;
        Ok(ControllerUnpublishVolumeResponse {})
    }

    /// Every `[[host]]` but those that this driver has made for these nodes and that no other volume needs; and whether there was one.
    fn known_without(
        &self,
        call: &Call<'_>,
        volume: &Volume,
        nodes: &[String],
    ) -> Result<(Vec<Value>, bool), Status> {
        let Some(keys) = self.keys.as_deref().filter(|_| volume.auth) else { return Ok((Vec::new(), false)) };
        let volumes: Vec<Volume> =
            list(call, "/v1/subsystems")?.iter().filter_map(Volume::in_table).collect();
        let is_needed = |node: &String| {
            let mut others = volumes.iter().filter(|other| other.auth && other.id != volume.id);
            others.any(|other| other.hosts.contains(node))
        };
        let is_ours = |host: &Value| {
            let node = nodes.iter().find(|node| host["nqn"] == node.as_str());
            node.is_some_and(|node| host["dhchap_key"] == key_file(keys, node).as_str() && !is_needed(node))
        };
        let mut known = list(call, "/v1/hosts")?;
        let before = known.len();
        known.retain(|host| !is_ours(host));
        let is_less = known.len() < before;
        Ok((known, is_less))
    }
}

/// A list of the configuration; empty if the file has none.
fn list(call: &Call<'_>, path: &str) -> Result<Vec<Value>, Status> {
    Ok(match call.get(path)? {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
    })
}

/// Whether a node has a key. One whose table was made by hand, for TLS only, is refused.
fn has_key(call: &Call<'_>, node: &str) -> Result<bool, Status> {
    match call.get(&format!("/v1/hosts/{}", word(node)))? {
        None => Ok(false),
        Some(host) if host["dhchap_key"].is_string() => Ok(true),
        Some(_) => Err(Status::failed_precondition(format!(
            "the [[host]] of {node} was made by hand, without a dhchap_key; add it there"
        ))),
    }
}

fn set_hosts(call: &Call<'_>, document: &Document, volume: &Volume, hosts: &[String]) -> Result<(), Trouble> {
    call.write("PATCH", &volume::path(volume.id), document, &json!({ "hosts": hosts }))
}

/// Sets the hosts of a volume and all `[[host]]` in one change.
fn set_both(
    call: &Call<'_>,
    document: &Document,
    volume: &Volume,
    hosts: &[String],
    known: &[Value],
) -> Result<(), Trouble> {
    let mut subsystems = list(call, "/v1/subsystems")?;
    let nqn = volume::nqn(volume.id);
    for subsystem in subsystems.iter_mut().filter(|subsystem| subsystem["nqn"] == nqn.as_str()) {
        subsystem["hosts"] = json!(hosts);
    }
    let known = if known.is_empty() { Value::Null } else { json!(known) };
    call.write("PATCH", "/v1/config", document, &json!({ "subsystem": subsystems, "host": known }))
}

/// The file with the key of a node.
fn key_file(keys: &Path, node: &str) -> String {
    keys.join(format!("{}.dhchap", word(node))).display().to_string()
}
