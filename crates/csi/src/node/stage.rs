//! A volume is attached, and mounted at its staging path; and the way back.

use super::attach::volume_of;
use super::command::done;
use super::{Node, expect_path, failed, file_system, mounts};
use crate::capability::Use;
use crate::messages::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use std::fs;
use std::path::Path;
use tonic::Status;

impl Node {
    pub(super) fn stage(&self, request: NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let _busy = self.begin(&request.volume_id)?;
        let at = expect_path(&request.staging_target_path, "staging_target_path")?;
        let used = Use::of(request.volume_capability.as_ref())?;
        let id = volume_of(&request.volume_id)?;
        let device = self.attach(id, &request.publish_context)?;
        if let Some(kind) = used.file_system {
            let flags = request.volume_capability.and_then(|used| used.mount).unwrap_or_default().mount_flags;
            mount(&device, at, kind, used.is_read_only, &flags)?;
        }
        Ok(NodeStageVolumeResponse {})
    }

    pub(super) fn unstage(
        &self,
        request: NodeUnstageVolumeRequest,
    ) -> Result<NodeUnstageVolumeResponse, Status> {
        let _busy = self.begin(&request.volume_id)?;
        let at = expect_path(&request.staging_target_path, "staging_target_path")?;
        let id = volume_of(&request.volume_id)?;
        mounts::unmount(at)?;
        // A device that is still mounted would fail under its users.
        let left = mounts::of(&self.device(id))?;
        if let Some(mount) = left.first() {
            let target = mount.target.display();
            return Err(Status::failed_precondition(format!(
                "volume {id} is still mounted at {target}; unpublish it there first"
            )));
        }
        self.detach(id)?;
        Ok(NodeUnstageVolumeResponse {})
    }
}

fn mount(device: &Path, at: &Path, kind: &str, is_read_only: bool, flags: &[String]) -> Result<(), Status> {
    if let Some(mount) = mounts::at(at)? {
        return match mount.is_of(device) {
            true => Ok(()),
            false => Err(Status::failed_precondition(format!(
                "something else than {} is mounted at {}; unmount it",
                device.display(),
                at.display()
            ))),
        };
    }
    let text = device.to_string_lossy();
    file_system::provide(&text, kind, is_read_only)?;
    fs::create_dir_all(at).map_err(failed(at, "made"))?;
    let mut options: Vec<&str> = flags.iter().map(String::as_str).collect();
    options.push(if is_read_only { "ro" } else { "rw" });
    // A copy has the UUID of its origin, which may be mounted here, too.
    options.extend((kind == "xfs").then_some("nouuid"));
    let target = at.to_string_lossy();
    done("mount", &["-t", kind, "-o", &options.join(","), &text, &target])?;
    // A copy may be larger than its origin.
    if !is_read_only {
        file_system::grow(&text, at)?;
    }
    Ok(())
}
