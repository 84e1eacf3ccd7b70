//! The uses that volumes allow, and those that they do not.
//!
//! A file system on a volume belongs to one node. A block device may belong to several, which then have to agree on their writes.

use crate::messages::{Mode, VolumeCapability};
use tonic::Status;

/// The file systems that a node makes; the first is the default.
pub(crate) const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// A use of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// `None`: a block device.
    pub(crate) file_system: Option<&'static str>,
    /// Whether only one node may have it.
    pub(crate) is_single_node: bool,
    /// Whether it is only read.
    pub(crate) is_read_only: bool,
    /// Whether one workload has it alone.
    pub(crate) is_single_workload: bool,
}

impl Use {
    /// Reads the use of a request.
    pub(crate) fn of(capability: Option<&VolumeCapability>) -> Result<Use, Status> {
        let missing = |what: &str| Status::invalid_argument(format!("{what} is missing"));
        let capability = capability.ok_or_else(|| missing("volume_capability"))?;
        let mode = capability.access_mode.as_ref().ok_or_else(|| missing("access_mode"))?.mode;
        let mode = Mode::try_from(mode)
            .map_err(|_| Status::invalid_argument(format!("{mode} is no access mode of CSI 1.13")))?;
        let (is_single_node, is_read_only) = match mode {
            Mode::Unknown => return Err(missing("access_mode.mode")),
            Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => {
                (true, false)
            }
            Mode::SingleNodeReaderOnly => (true, true),
            Mode::MultiNodeReaderOnly => (false, true),
            Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => (false, false),
        };
        let is_single_workload = mode == Mode::SingleNodeSingleWriter;
        let file_system = match (&capability.block, &capability.mount) {
            (Some(_), _) => None,
            (None, Some(mount)) => Some(file_system(&mount.fs_type)?),
            (None, None) => return Err(missing("access_type (block or mount)")),
        };
        if file_system.is_some() && !is_single_node {
            return Err(Status::invalid_argument(format!(
                "a file system is for one node, and {mode:?} is for several; use volumeMode: Block"
            )));
        }
        Ok(Use { file_system, is_single_node, is_read_only, is_single_workload })
    }

    /// Refuses a request with a use that is not possible, or without any.
    pub(crate) fn expect_all(capabilities: &[VolumeCapability]) -> Result<(), Status> {
        if capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is empty"));
        }
        capabilities.iter().try_for_each(|capability| Use::of(Some(capability)).map(drop))
    }
}

fn file_system(name: &str) -> Result<&'static str, Status> {
    if name.is_empty() {
        return Ok(FILE_SYSTEMS[0]);
    }
    FILE_SYSTEMS.into_iter().find(|known| *known == name).ok_or_else(|| {
        Status::invalid_argument(format!("fs_type {name:?} is none of {}", FILE_SYSTEMS.join(", ")))
    })
}
