//! What a host knows about a controller and its namespaces.

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
    /// Its globally unique identifier; zeroes if it has none.
    pub nguid: [u8; 16],
    /// Its UUID.
    pub uuid: Option<[u8; 16]>,
}

impl Namespace {
    /// Its size.
    pub fn size(&self) -> Bytes {
        Bytes(self.blocks.saturating_mul(self.block_size.get()))
    }

    /// Whether the blocks lie inside, and there is at least one.
    pub fn contains(&self, lba: Lba, blocks: u32) -> bool {
        blocks > 0 && lba.0.checked_add(u64::from(blocks)).is_some_and(|end| end <= self.blocks)
    }

    /// Whether `other`, seen under the same identifier later, is the same namespace as far as can be told. It may have grown.
    pub fn is_same(&self, other: &Namespace) -> bool {
        self.block_size == other.block_size && self.nguid == other.nguid && self.uuid == other.uuid
    }
}

/// A controller, as far as a host needs to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerInfo {
    /// Its identifier within the subsystem.
    pub controller_id: u16,
    /// Serial number.
    pub serial: String,
    /// Model.
    pub model: String,
    /// The longest transfer of one command.
    pub transfer_max: Bytes,
    /// Write data that travels with its command, in bytes.
    pub in_capsule_max: u32,
    /// IO queues granted.
    pub io_queues: u16,
    /// The deepest queue it takes, in entries.
    pub queue_entries_max: u32,
    /// Optional commands (ONCS).
    pub optional: u16,
    /// Events it is asked to report, as feature 0Bh has them.
    pub events: u32,
    /// The first credit; `None` if it does not know credits or was not asked.
    pub credit: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_beyond_the_end_are_outside() {
        let namespace =
            Namespace { nsid: 1, block_size: Bytes(512), blocks: 100, nguid: [0; 16], uuid: None };
        assert!(namespace.contains(Lba(0), 100) && namespace.contains(Lba(99), 1));
        assert!(!namespace.contains(Lba(0), 101) && !namespace.contains(Lba(100), 1));
        assert!(!namespace.contains(Lba(0), 0) && !namespace.contains(Lba(u64::MAX), 2));
        assert_eq!(namespace.size(), Bytes(51_200));
    }
}
