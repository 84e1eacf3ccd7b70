//! The usage of a volume.

use super::attach::volume_of;
use super::{Node, expect_some, failed, file_system, mounts};
use crate::messages::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, UsageUnit, VolumeUsage};
use std::os::unix::fs::FileTypeExt;
use tonic::Status;

impl Node {
    pub(super) fn stats(
        &self,
        request: NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(Status::invalid_argument("volume_id is missing"));
        }
        let at = expect_some(&request.volume_path, "volume_path")?;
        let id = volume_of(&request.volume_id)?;
        let device = self.device(id);
        if !mounts::of(&device)?.iter().any(|mount| mount.target == at) {
            let at = at.display();
            return Err(Status::not_found(format!("volume {id} is not at {at}")));
        }
        let kind = at.metadata().map_err(failed(at, "examined"))?.file_type();
        if kind.is_block_device() || kind.is_file() {
            let total = signed(file_system::size(&device.to_string_lossy())?);
            let usage = VolumeUsage { available: 0, total, used: total, unit: UsageUnit::Bytes.into() };
            return Ok(NodeGetVolumeStatsResponse { usage: vec![usage] });
        }
        let facts = rustix::fs::statvfs(at).map_err(|error| failed(at, "examined")(error.into()))?;
        let bytes = |blocks: u64| signed(blocks.saturating_mul(facts.f_frsize));
        let usage = vec![
            VolumeUsage {
                available: bytes(facts.f_bavail),
                total: bytes(facts.f_blocks),
                used: bytes(facts.f_blocks.saturating_sub(facts.f_bfree)),
                unit: UsageUnit::Bytes.into(),
            },
            VolumeUsage {
                available: signed(facts.f_favail),
                total: signed(facts.f_files),
                used: signed(facts.f_files.saturating_sub(facts.f_ffree)),
                unit: UsageUnit::Inodes.into(),
            },
        ];
        Ok(NodeGetVolumeStatsResponse { usage })
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
