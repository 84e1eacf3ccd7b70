//! A volume: a subsystem of its own with one namespace, as the configuration of the target has it.
//!
//! A subsystem each, because `hosts` is a field of subsystems: so each volume has its own nodes, and taking one out of `hosts` ends the
//! connections of that node to that volume and to no other. The namespace is a tenant, so promises are to the volume and not to its node.
//!
//! The identifier of a volume is a UUID that is made of its name: the name of the subsystem and of the file are made of it, so nothing has to be
//! remembered to find a volume again.

use crate::messages;
use crate::parameters::{Promises, bytes};
use serde_json::{Value, json};
use std::collections::HashMap;
use tonic::Status;
use units::Bytes;
use uuid::Uuid;

/// The names of subsystems begin with this.
const PREFIX: &str = "nqn.2025-01.io.gimbal:csi:";
/// The number of the only namespace.
pub(crate) const NSID: u32 = 1;
/// The name space of the UUIDs of volumes and snapshots: an arbitrary one that never changes.
const NAMES: Uuid = Uuid::from_u128(0x6b1f_41b6_1f5c_4a43_9e44_8d0e_6f0a_2f77);
/// The longest name.
const NAME_MAX: usize = 128;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// Its identifier.
    pub(crate) id: Uuid,
    /// The directory.
    pub(crate) pool: String,
    /// Its size.
    pub(crate) size: Bytes,
    /// The nodes that may use it.
    pub(crate) hosts: Vec<String>,
    /// Whether they have to prove who they are.
    pub(crate) auth: bool,
    /// The snapshot or the volume that it was made of, as the target names it.
    pub(crate) origin: Option<String>,
    /// The promises to it.
    pub(crate) promises: Promises,
}

/// The identifier for a name.
pub(crate) fn id_of(name: &str) -> Result<Uuid, Status> {
    match name.len() {
        0 => Err(Status::invalid_argument("name is missing")),
        length if length > NAME_MAX => Err(Status::invalid_argument(format!(
            "the name has {length} bytes, and at most {NAME_MAX} are possible"
        ))),
        _ => Ok(Uuid::new_v5(&NAMES, name.as_bytes())),
    }
}

/// The identifier in a request; `None` if there can be no such volume.
pub(crate) fn parse_id(text: &str) -> Result<Option<Uuid>, Status> {
    if text.is_empty() {
        return Err(Status::invalid_argument("volume_id is missing"));
    }
    // One way to write it only, as it is compared as a text elsewhere.
    Ok(Uuid::try_parse(text).ok().filter(|id| id.to_string() == text))
}

/// The name of the subsystem of a volume.
pub(crate) fn nqn(id: Uuid) -> String {
    format!("{PREFIX}{id}")
}

/// The path of a volume in the admin API.
pub(crate) fn path(id: Uuid) -> String {
    format!("/v1/subsystems/{}", nqn(id))
}

impl Volume {
    /// The volume of a subsystem; `None` if it is something else.
    pub(crate) fn in_table(subsystem: &Value) -> Option<Volume> {
        let id = parse_id(subsystem["nqn"].as_str()?.strip_prefix(PREFIX)?).ok()??;
        let namespace = subsystem["namespace"].as_array()?.iter().find(|it| it["nsid"] == NSID)?;
        let hosts = subsystem["hosts"].as_array().into_iter().flatten();
        Some(Volume {
            id,
            pool: namespace["device"].as_str()?.to_owned(),
            size: bytes(&namespace["size"])?,
            hosts: hosts.filter_map(Value::as_str).map(str::to_owned).collect(),
            auth: subsystem["security"]["authentication"] == "always",
            origin: namespace["origin"].as_str().map(str::to_owned),
            promises: Promises::in_table(namespace),
        })
    }

    /// The subsystem of a volume.
    pub(crate) fn to_table(&self) -> Value {
        let mut namespace = json!({
            "nsid": NSID,
            "device": self.pool,
            "size": self.size.get(),
            "uuid": self.id.to_string(),
            "wipe_on_remove": true,
        });
        let fields = namespace.as_object_mut().expect("a table was written");
        fields.extend(self.promises.to_table().into_iter().filter(|(_, value)| !value.is_null()));
        if let Some(origin) = &self.origin {
            fields.insert("origin".to_owned(), json!(origin));
        }
        let mut table = json!({
            "nqn": nqn(self.id),
            "hosts": self.hosts,
            "tenant": "namespace",
            "namespace": [namespace],
        });
        if self.auth {
            table["security"] = json!({ "authentication": "always" });
        }
        table
    }

    /// The volume for an answer.
    pub(crate) fn to_message(&self) -> messages::Volume {
        let snapshot = |name: &String| messages::VolumeContentSource {
            snapshot: Some(messages::SnapshotSource { snapshot_id: format!("{}/{name}", self.pool) }),
            volume: None,
        };
        let copied = |id: Uuid| messages::VolumeContentSource {
            snapshot: None,
            volume: Some(messages::VolumeSource { volume_id: id.to_string() }),
        };
        let source = self.origin.as_ref().map(|origin| match Uuid::try_parse(origin) {
            Ok(id) => copied(id),
            Err(_) => snapshot(origin),
        });
        messages::Volume {
            capacity_bytes: signed(self.size),
            volume_id: self.id.to_string(),
            volume_context: HashMap::new(),
            content_source: source,
        }
    }
}

/// A size for an answer.
pub(crate) fn signed(size: Bytes) -> i64 {
    i64::try_from(size.get()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_the_same_in_the_file_and_back() {
        let volume = Volume {
            id: id_of("pvc-1").expect("a name"),
            pool: "pool".to_owned(),
            size: Bytes::gib(3),
            hosts: vec!["nqn.2014-08.org.nvmexpress:uuid:a".to_owned()],
            auth: true,
            origin: Some("csi-1".to_owned()),
            promises: Promises::default(),
        };
        assert_eq!(Volume::in_table(&volume.to_table()), Some(volume.clone()));
        let plain = Volume { auth: false, origin: None, hosts: Vec::new(), ..volume };
        assert_eq!(Volume::in_table(&plain.to_table()), Some(plain));
        assert_eq!(Volume::in_table(&json!({ "nqn": "nqn.2025-01.io.example:a" })), None);
    }

    #[test]
    fn the_identifier_of_a_name_never_changes() {
        assert_eq!(id_of("pvc-1").expect("a name"), id_of("pvc-1").expect("a name"));
        assert_ne!(id_of("pvc-1").expect("a name"), id_of("pvc-2").expect("a name"));
        assert!(id_of("").is_err() && id_of(&"a".repeat(129)).is_err());
        assert_eq!(parse_id("6B1F41B6-1F5C-4A43-9E44-8D0E6F0A2F77").expect("there is one"), None);
    }
}
