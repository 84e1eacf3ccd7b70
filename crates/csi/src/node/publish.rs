//! A volume is given to a workload, and taken away.

use super::attach::volume_of;
use super::command::done;
use super::{Node, expect_path, failed, mounts};
use crate::capability::Use;
use crate::messages::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse,
};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use tonic::Status;

impl Node {
    pub(super) fn publish(
        &self,
        request: NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let _busy = self.begin(&request.volume_id)?;
        let target = expect_path(&request.target_path, "target_path")?;
        let used = Use::of(request.volume_capability.as_ref())?;
        let staged = expect_path(&request.staging_target_path, "staging_target_path")?;
        let id = volume_of(&request.volume_id)?;
        let device = self.device(id);
        let unstaged =
            || Status::failed_precondition(format!("volume {id} is not staged at {}", staged.display()));
        if !device.exists() {
            return Err(unstaged());
        }
        let of = mounts::of(&device)?;
        let is_there = of.iter().any(|mount| mount.target == target);
        let other = of.iter().find(|mount| mount.target != target && mount.target != staged);
        if let (true, Some(other)) = (used.is_single_workload, other) {
            let other = other.target.display();
            return Err(Status::failed_precondition(format!(
                "volume {id} is for one workload, and is at {other} already"
            )));
        }
        if is_there {
            return Ok(NodePublishVolumeResponse {});
        }
        if mounts::at(target)?.is_some() {
            let target = target.display();
            return Err(Status::failed_precondition(format!("something else is mounted at {target}")));
        }
        if used.file_system.is_some() {
            if !of.iter().any(|mount| mount.target == staged) {
                return Err(unstaged());
            }
            fs::create_dir_all(target).map_err(failed(target, "made"))?;
            bind(staged, target)?;
        } else {
            let parent = target.parent().unwrap_or(target);
            fs::create_dir_all(parent).map_err(failed(parent, "made"))?;
            File::create(target).map_err(failed(target, "made"))?;
            bind(&device.canonicalize().map_err(failed(&device, "found"))?, target)?;
        }
        if request.readonly || used.is_read_only {
            let path = target.to_string_lossy();
            // A workload that can write what it is to read only is worse than none.
            done("mount", &["-o", "remount,bind,ro", &path]).or_else(|status| {
                mounts::unmount(target)?;
                Err(status)
            })?;
        }
        Ok(NodePublishVolumeResponse {})
    }

    pub(super) fn unpublish(
        &self,
        request: NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let _busy = self.begin(&request.volume_id)?;
        let target = expect_path(&request.target_path, "target_path")?;
        mounts::unmount(target)?;
        // Not with what is in it: that would be the data of the volume if it were still there.
        let removed = if target.is_dir() { fs::remove_dir(target) } else { fs::remove_file(target) };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(target, "removed")(error)),
            _ => Ok(NodeUnpublishVolumeResponse {}),
        }
    }
}

fn bind(from: &Path, to: &Path) -> Result<(), Status> {
    done("mount", &["--bind", &from.to_string_lossy(), &to.to_string_lossy()]).map(drop)
}
