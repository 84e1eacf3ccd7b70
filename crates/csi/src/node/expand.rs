//! All of a volume that has grown is used.

use super::attach::volume_of;
use super::{Node, expect_some, file_system, mounts};
use crate::messages::{NodeExpandVolumeRequest, NodeExpandVolumeResponse};
use std::thread;
use std::time::{Duration, Instant};
use tonic::Status;

/// The time for the device to have its new size, which the target tells the host.
const SIZE_WAIT: Duration = Duration::from_secs(20);
/// The time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Node {
    pub(super) fn expand(
        &self,
        request: NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, Status> {
        let _busy = self.begin(&request.volume_id)?;
        let at = expect_some(&request.volume_path, "volume_path")?;
        let id = volume_of(&request.volume_id)?;
        let device = self.device(id);
        let found = mounts::of(&device)?.into_iter().find(|mount| mount.target == at);
        let is_block = request.volume_capability.as_ref().is_some_and(|used| used.block.is_some());
        if !device.exists() || (found.is_none() && !is_block) {
            let at = at.display();
            return Err(Status::not_found(format!("volume {id} is not at {at}")));
        }
        let text = device.to_string_lossy();
        let wanted = request.capacity_range.unwrap_or_default().required_bytes;
        let wanted = u64::try_from(wanted).unwrap_or_default();
        let until = Instant::now() + SIZE_WAIT;
        let size = loop {
            let size = file_system::size(&text)?;
            if size >= wanted {
                break size;
            }
            if Instant::now() >= until {
                return Err(Status::unavailable(format!(
                    "{text} has {size} bytes and not yet {wanted}; is its target connected?"
                )));
            }
            thread::sleep(LOOK_AGAIN);
        };
        // A block device that was published is a mount, too.
        if !is_block && !at.is_file() {
            file_system::grow(&text, at)?;
        }
        Ok(NodeExpandVolumeResponse { capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX) })
    }
}
