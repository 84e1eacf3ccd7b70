//! A namespace, as the users of this crate see it.

use nvme::host::NamespaceView;
use units::{Bytes, Lba};

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier within the subsystem.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_size: Bytes,
    /// Blocks.
    pub blocks: u64,
    /// Its NGUID, if it has one.
    pub nguid: Option<[u8; 16]>,
    /// Its UUID, if it has one.
    pub uuid: Option<[u8; 16]>,
    /// Whether it is write protected.
    pub read_only: bool,
    /// The reservations that it can have (RESCAP).
    pub reservation_capabilities: u8,
}

impl From<&NamespaceView> for Namespace {
    fn from(view: &NamespaceView) -> Namespace {
        let &NamespaceView { nsid, block_size, blocks, nguid, uuid, read_only, .. } = view;
        let reservation_capabilities = view.reservation_capabilities;
        let block_size = Bytes(u64::from(block_size));
        Namespace { nsid, block_size, blocks, nguid, uuid, read_only, reservation_capabilities }
    }
}

impl Namespace {
    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes(self.blocks.saturating_mul(self.block_size.get()))
    }

    /// Whether the blocks are in range, and there is at least one.
    pub fn contains(&self, lba: Lba, blocks: u32) -> bool {
        blocks > 0 && lba.0.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.blocks)
    }

    /// Whether `other`, seen later with the same NSID, is the same namespace by its identifiers. Its size may
    /// have changed.
    pub fn is_same(&self, other: &Namespace) -> bool {
        self.block_size == other.block_size && self.nguid == other.nguid && self.uuid == other.uuid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beyond_the_end_are_outside() {
        let namespace = Namespace {
            nsid: 1,
            block_size: Bytes(512),
            blocks: 100,
            nguid: None,
            uuid: None,
            read_only: false,
            reservation_capabilities: 0,
        };
        assert!(namespace.contains(Lba(0), 100) && namespace.contains(Lba(99), 1));
        assert!(!namespace.contains(Lba(0), 101) && !namespace.contains(Lba(100), 1));
        assert!(!namespace.contains(Lba(0), 0) && !namespace.contains(Lba(u64::MAX), 2));
        assert_eq!(namespace.size(), Bytes(51_200));
    }
}
