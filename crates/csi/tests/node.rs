//! The node with fakes for the programs that it runs: what is refused, and with which words.

mod bed;

use bed::*;
use csi::messages::*;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use tonic::{Code, Status};

const ID: &str = "6b1f41b6-1f5c-4a43-9e44-8d0e6f0a2f77";
const OTHER_ID: &str = "6b1f41b6-1f5c-4a43-9e44-8d0e6f0a2f78";

/// A node, and its requests for one volume.
struct Volume {
    client: Client,
    fakes: FakeNode,
    staged: PathBuf,
    at: PathBuf,
}

impl Volume {
    fn new(name: &str) -> Volume {
        Volume::on(FakeNode::new(name))
    }

    fn on(fakes: FakeNode) -> Volume {
        let (staged, at) = (fakes.folder.join("staged"), fakes.folder.join("at"));
        Volume { client: fakes.driver.client(), fakes, staged, at }
    }

    fn stage_with(&self, change: impl FnOnce(&mut NodeStageVolumeRequest)) -> Result<(), Status> {
        let nqn = format!("nqn.2025-01.io.gimbal:csi:{ID}");
        let facts = named(&[("nqn", &nqn), ("uuid", ID), ("portals", "192.0.2.1:4420,[2001:db8::1]:4420")]);
        let mut request = NodeStageVolumeRequest {
            volume_id: ID.to_owned(),
            publish_context: facts,
            staging_target_path: text(&self.staged),
            volume_capability: Some(writer()),
        };
        change(&mut request);
        self.client.call::<_, NodeStageVolumeResponse>("NodeStageVolume", request).map(drop)
    }

    fn stage(&self) -> Result<(), Status> {
        self.stage_with(|_| ())
    }

    fn stage_as(&self, change: impl FnOnce(&mut HashMap<String, String>)) -> Result<(), Status> {
        self.stage_with(|request| change(&mut request.publish_context))
    }

    fn publish(&self, at: &Path, used: VolumeCapability) -> Result<(), Status> {
        let request = NodePublishVolumeRequest {
            volume_id: ID.to_owned(),
            staging_target_path: text(&self.staged),
            target_path: text(at),
            volume_capability: Some(used),
            readonly: false,
        };
        self.client.call::<_, NodePublishVolumeResponse>("NodePublishVolume", request).map(drop)
    }

    fn unpublish(&self) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: ID.to_owned(), target_path: text(&self.at) };
        self.client.call::<_, NodeUnpublishVolumeResponse>("NodeUnpublishVolume", request).map(drop)
    }

    fn unstage(&self) -> Result<(), Status> {
        let (volume_id, staging_target_path) = (ID.to_owned(), text(&self.staged));
        let request = NodeUnstageVolumeRequest { volume_id, staging_target_path };
        self.client.call::<_, NodeUnstageVolumeResponse>("NodeUnstageVolume", request).map(drop)
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

#[track_caller]
fn refused(answer: Result<(), Status>, code: Code, words: &str) {
    let status = answer.expect_err("it has to be refused");
    assert!(status.code() == code && status.message().contains(words), "{status}");
}

#[test]
fn a_node_says_what_has_to_be_installed() {
    let volume = Volume::new("module");
    let says = |what: &str| volume.fakes.set("nvme-says", what);
    for without_module in [
        "Failed to open /dev/nvme-fabrics: No such file or directory",
        "could not add new controller: failed to open nvme-fabrics device",
        "Failed to write to /dev/nvme-fabrics: Invalid argument",
        "could not add new controller: invalid arguments/configuration",
    ] {
        says(without_module);
        refused(volume.stage(), Code::FailedPrecondition, "modprobe nvme-tcp");
    }
    // The target is down or refuses the node. Installing something would not help.
    for failure in ["Input/output error", "Connection refused", "Connection timed out"] {
        says(&format!("Failed to write to /dev/nvme-fabrics: {failure}"));
        let status = volume.stage().expect_err("it fails");
        assert!(status.code() == Code::Unavailable && !status.message().contains("modprobe"), "{status}");
    }
    volume.fakes.set("hostnqn", "");
    refused(volume.stage(), Code::FailedPrecondition, "nvme gen-hostnqn");
    fs::remove_file(volume.fakes.folder.join("hostnqn")).expect("it is there");
    refused(volume.stage(), Code::FailedPrecondition, "nvme gen-hostnqn");
    let info = volume.client.call::<_, NodeGetInfoResponse>("NodeGetInfo", NodeGetInfoRequest {});
    refused(info.map(drop), Code::FailedPrecondition, "nvme gen-hostnqn");
    assert!(!volume.fakes.calls().contains("mkfs"), "{}", volume.fakes.calls());

    let volume = Volume::on(FakeNode::without_programs("programs"));
    refused(volume.stage(), Code::FailedPrecondition, "install nvme-cli on the node");
}

#[test]
fn facts_of_another_volume_are_refused_and_nothing_is_connected() {
    let volume = Volume::new("foreign");
    let foreign = |name: &'static str, value: String| {
        let answer = volume.stage_as(|facts| _ = facts.insert(name.to_owned(), value));
        refused(answer, Code::InvalidArgument, "of another volume");
    };
    foreign("uuid", OTHER_ID.to_owned());
    foreign("nqn", format!("nqn.2025-01.io.gimbal:csi:{OTHER_ID}"));
    foreign("nqn", format!("nqn.2025-01.io.example:{ID}"));
    for fact in ["uuid", "nqn", "portals"] {
        refused(volume.stage_as(|facts| _ = facts.remove(fact)), Code::InvalidArgument, fact);
    }
    let no_port = volume.stage_as(|facts| _ = facts.insert("portals".to_owned(), "192.0.2.1".to_owned()));
    refused(no_port, Code::InvalidArgument, "is not ADDRESS:PORT");
    let elsewhere = volume.stage_with(|request| request.volume_id = "../../etc".to_owned());
    refused(elsewhere, Code::NotFound, "there is no volume");
    assert!(!volume.fakes.calls().contains("nvme connect"), "{}", volume.fakes.calls());
}

#[test]
fn all_portals_are_tried_and_one_is_enough() {
    let volume = Volume::new("portals");
    volume.fakes.set("nvme-refuses", "2001:db8::1");
    volume.stage().expect("the other portal has it");
    for portal in ["--traddr 192.0.2.1 --trsvcid 4420", "--traddr 2001:db8::1 --trsvcid 4420"] {
        assert!(volume.fakes.calls().contains(portal), "{}", volume.fakes.calls());
    }
    assert!(volume.fakes.calls().contains("--ctrl-loss-tmo=-1"), "{}", volume.fakes.calls());
    volume.stage().expect("it is connected already");
    volume.unstage().expect("it is staged");
    volume.fakes.set("nvme-refuses", ".");
    refused(volume.stage(), Code::Unavailable, "Connection refused");
}

#[test]
fn nothing_is_overwritten_or_mounted_over() {
    let volume = Volume::new("kept");
    let kind = format!("TYPE.nvme-uuid.{ID}");
    for (there, says) in [("TYPE=xfs", "has xfs"), ("PTTYPE=gpt", "a partition table (gpt)")] {
        volume.fakes.set(&kind, there);
        refused(volume.stage(), Code::FailedPrecondition, says);
    }
    let reader = |request: &mut NodeStageVolumeRequest| {
        let mode = Some(AccessMode { mode: Mode::SingleNodeReaderOnly.into() });
        request.volume_capability = Some(VolumeCapability { access_mode: mode, ..writer() });
    };
    fs::remove_file(volume.fakes.folder.join(&kind)).expect("it is there");
    refused(volume.stage_with(reader), Code::FailedPrecondition, "is empty, and is only to be read");
    assert!(!volume.fakes.calls().contains("mkfs"), "{}", volume.fakes.calls());

    // The staging path of a volume that was there before (of the same name, or after a restart of the node).
    volume.fakes.set("mounts", &format!("{} /dev/sda1", text(&volume.staged)));
    refused(volume.stage(), Code::FailedPrecondition, "something else than");
    volume.fakes.set("mounts", &format!("{} /dev/sda1", text(&volume.at)));
    volume.stage().expect("only the path of the workload is taken");
    refused(volume.publish(&volume.at, writer()), Code::FailedPrecondition, "something else is mounted");
}

#[test]
fn a_volume_in_use_stays_and_one_workload_has_it_alone() {
    let volume = Volume::new("in-use");
    refused(volume.publish(&volume.at, writer()), Code::FailedPrecondition, "is not staged");
    volume.stage().expect("it can be had");
    let alone = VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeSingleWriter.into() }),
        ..writer()
    };
    volume.publish(&volume.at, alone.clone()).expect("nobody has it");
    volume.publish(&volume.at, alone.clone()).expect("the same");
    let second = volume.fakes.folder.join("second");
    refused(volume.publish(&second, alone), Code::FailedPrecondition, "for one workload");
    refused(volume.unstage(), Code::FailedPrecondition, "is still mounted at");
    assert!(!volume.fakes.calls().contains("nvme disconnect"), "{}", volume.fakes.calls());
    volume.unpublish().expect("it is published");
    volume.unpublish().expect("a repeated request");
    volume.unstage().expect("nobody has it");
    volume.unstage().expect("a repeated request");
    assert!(!volume.at.exists());
}
