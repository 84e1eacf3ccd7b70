//! Calls one procedure of a driver: `call SOCKET PROCEDURE [NAME=VALUE]...`. The tests in guests use it, where no other client is.
//!
//! It prints the answer, or the code and the reason of a refusal, and then ends with 1. The names are those of `request` below.

#[path = "../tests/bed/client.rs"]
mod client;

use client::Client;
use csi::messages::*;
use prost::Message;
use std::collections::HashMap;
use std::fmt::Debug;
use std::path::Path;
use std::process::ExitCode;
use tonic::Status;

/// The words of a call.
struct Words(HashMap<String, String>);

impl Words {
    fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    fn is_true(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// `size`, in MiB.
    fn range(&self) -> Option<CapacityRange> {
        let mib: i64 = self.0.get("size")?.parse().expect("size is a number of MiB");
        Some(CapacityRange { required_bytes: mib << 20, limit_bytes: 0 })
    }

    /// `as` is `block` or a file system, `mode` a number of CSI.
    fn capability(&self) -> Option<VolumeCapability> {
        let kind = self.0.get("as")?;
        let is_block = kind == "block";
        let mount = MountVolume { fs_type: kind.clone(), mount_flags: Vec::new() };
        let mode = self.0.get("mode").map_or(Ok(Mode::SingleNodeWriter.into()), |mode| mode.parse());
        Some(VolumeCapability {
            block: is_block.then_some(BlockVolume {}),
            mount: (!is_block).then_some(mount),
            access_mode: Some(AccessMode { mode: mode.expect("mode is a number") }),
        })
    }

    /// The facts that a controller would give a node.
    fn context(&self) -> HashMap<String, String> {
        let facts = ["nqn", "uuid", "portals"];
        facts.iter().map(|fact| ((*fact).to_owned(), self.text(fact))).collect()
    }

    fn source(&self) -> Option<VolumeContentSource> {
        let snapshot_id = self.0.get("snapshot")?.clone();
        Some(VolumeContentSource { snapshot: Some(SnapshotSource { snapshot_id }), volume: None })
    }
}

fn shown<A: Message + Default + Debug + 'static>(answer: Result<A, Status>) -> Result<String, Status> {
    answer.map(|answer| format!("{answer:?}"))
}

fn request(client: &Client, procedure: &str, words: &Words) -> Result<String, Status> {
    let text = |name: &str| words.text(name);
    let volume_id = text("id");
    match procedure {
        "CreateVolume" => client
            .create(CreateVolumeRequest {
                name: text("name"),
                capacity_range: words.range(),
                volume_capabilities: words.capability().into_iter().collect(),
                volume_content_source: words.source(),
                ..Default::default()
            })
            .map(|volume| volume.volume_id),
        "DeleteVolume" => shown(client.delete(&volume_id)),
        "ControllerPublishVolume" => {
            let (volume_capability, node_id) = (words.capability(), text("node"));
            let request =
                ControllerPublishVolumeRequest { volume_id, node_id, volume_capability, readonly: false };
            shown(client.call::<_, ControllerPublishVolumeResponse>(procedure, request))
        }
        "ControllerUnpublishVolume" => {
            client.unpublish(&volume_id, &text("node")).map(|()| "it is out".to_owned())
        }
        "ControllerExpandVolume" => {
            let (capacity_range, volume_capability) = (words.range(), words.capability());
            let request = ControllerExpandVolumeRequest { volume_id, capacity_range, volume_capability };
            shown(client.call::<_, ControllerExpandVolumeResponse>(procedure, request))
        }
        "CreateSnapshot" => client.snapshot(&volume_id, &text("name")).map(|snapshot| snapshot.snapshot_id),
        "DeleteSnapshot" => shown(client.delete_snapshot(&text("snapshot"))),
        "NodeGetInfo" => shown(client.call::<_, NodeGetInfoResponse>(procedure, NodeGetInfoRequest {})),
        "NodeStageVolume" => {
            let request = NodeStageVolumeRequest {
                volume_id,
                publish_context: words.context(),
                staging_target_path: text("staged"),
                volume_capability: words.capability(),
            };
            shown(client.call::<_, NodeStageVolumeResponse>(procedure, request))
        }
        "NodeUnstageVolume" => {
            let request = NodeUnstageVolumeRequest { volume_id, staging_target_path: text("staged") };
            shown(client.call::<_, NodeUnstageVolumeResponse>(procedure, request))
        }
        "NodePublishVolume" => {
            let request = NodePublishVolumeRequest {
                volume_id,
                staging_target_path: text("staged"),
                target_path: text("at"),
                volume_capability: words.capability(),
                readonly: words.is_true("readonly"),
            };
            shown(client.call::<_, NodePublishVolumeResponse>(procedure, request))
        }
        "NodeUnpublishVolume" => {
            let request = NodeUnpublishVolumeRequest { volume_id, target_path: text("at") };
            shown(client.call::<_, NodeUnpublishVolumeResponse>(procedure, request))
        }
        "NodeGetVolumeStats" => {
            let request = NodeGetVolumeStatsRequest { volume_id, volume_path: text("at") };
            shown(client.call::<_, NodeGetVolumeStatsResponse>(procedure, request))
        }
        "NodeExpandVolume" => {
            let request = NodeExpandVolumeRequest {
                volume_id,
                volume_path: text("at"),
                capacity_range: words.range(),
                staging_target_path: text("staged"),
                volume_capability: words.capability(),
            };
            shown(client.call::<_, NodeExpandVolumeResponse>(procedure, request))
        }
        _ => Err(Status::unimplemented(format!("this program does not know {procedure}"))),
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(procedure)) = (arguments.next(), arguments.next()) else {
        eprintln!("call SOCKET PROCEDURE [NAME=VALUE]...");
        return ExitCode::from(2);
    };
    let mut words = HashMap::new();
    for word in arguments {
        let (name, value) = word.split_once('=').expect("a word is NAME=VALUE");
        words.insert(name.to_owned(), value.to_owned());
    }
    match request(&Client::new(Path::new(&socket)), &procedure, &Words(words)) {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(status) => {
            println!("{:?}: {}", status.code(), status.message());
            ExitCode::FAILURE
        }
    }
}
