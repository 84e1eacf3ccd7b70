//! The namespace that a back-end has opened: its properties, and whether it is still the same.

use host::{ControllerInfo, Namespace};

/// Blocks of the longest Write Zeroes.
const BLOCKS_MAX: u64 = 1 << 16;
/// Bits of ONCS.
const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
const ONCS_WRITE_ZEROES: u16 = 1 << 3;

/// The namespace, as it was when it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) namespace: Namespace,
    pub(super) block_size: u32,
    /// Bytes of the longest read or write.
    pub(super) transfer_max: u64,
    /// Bytes of the longest Write Zeroes and deallocation.
    pub(super) range_max: u64,
    pub(super) volatile_write_cache: bool,
    pub(super) has_write_zeroes: bool,
    pub(super) has_deallocate: bool,
}

impl Found {
    /// Namespace `nsid` among those of a controller, if it can be a device, and is the one that was there before. An error is for people.
    pub(super) fn look(
        namespaces: &[Namespace],
        info: &ControllerInfo,
        nsid: u32,
        before: Option<&Found>,
    ) -> Result<Found, String> {
        let namespace = *namespaces
            .iter()
            .find(|namespace| namespace.nsid == nsid)
            .ok_or_else(|| format!("there is no namespace {nsid} that this target may use"))?;
        if let Some(Found { namespace: before, .. }) = before {
            if !namespace.is_same(before) {
                return Err(format!("namespace {nsid} has another UUID, NGUID or block size than before"));
            }
            if namespace.blocks != before.blocks {
                let (now, before) = (namespace.size(), before.size());
                return Err(format!("namespace {nsid} has {now}, and had {before}"));
            }
        }
        if namespace.uuid.is_none() && namespace.nguid.is_none() {
            return Err(format!(
                "namespace {nsid} has neither UUID nor NGUID, so it cannot be told from another one"
            ));
        }
        let block_size = namespace.block_size.get();
        if !matches!(block_size, 512 | 4096) {
            return Err(format!(
                "namespace {nsid} has blocks of {block_size} bytes; only 512 and 4096 are possible"
            ));
        }
        Ok(Found {
            namespace,
            block_size: block_size as u32,
            transfer_max: info.transfer_max.get(),
            range_max: BLOCKS_MAX * block_size,
            volatile_write_cache: info.volatile_write_cache,
            has_write_zeroes: info.optional_commands & ONCS_WRITE_ZEROES != 0,
            has_deallocate: info.optional_commands & ONCS_DATASET_MANAGEMENT != 0,
        })
    }
}
