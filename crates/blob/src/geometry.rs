//! The sizes of a volume, and the values that follow from them.
//!
//! ```text
//!   SSD   = mega blob, mega blob, …            owned by volumes, allocated by the metadata store
//!   mega  = micro blob, micro blob, …          allocated by the client that has mounted the volume
//!   micro = block, block, …                    each with a header and a checksum
//! ```
//!
//! One mega blob on each of two SSDs holds the volume's metadata. It is divided into `slots`; each mount uses the next
//! slot, so that a late write of an earlier mount cannot hit it.

use crate::format::block;
use crate::{Generation, Mega, Place};
use serde::{Deserialize, Serialize};
use std::fmt;
use units::{Bytes, GIB, KIB};

/// Sizes of a volume. Fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes of a block, header included.
    pub block: u32,
    /// Bytes of a micro blob.
    pub micro: u32,
    /// Bytes of a mega blob.
    pub mega: u64,
    /// Slots for metadata in a mega blob.
    pub slots: u32,
}

impl Default for Geometry {
    /// The paper's sizes: mega blobs of 4 GiB, micro blobs of 256 KiB. Blocks of 4 KiB.
    fn default() -> Self {
        Geometry { block: 4096, micro: 256 << 10, mega: 4 * GIB, slots: 16 }
    }
}

/// The reason why a geometry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The block is no power of two between twice the header and 64 KiB.
    Block,
    /// The micro blob is not a whole number (2 to 4096) of blocks.
    Micro,
    /// The mega blob is not a whole number of micro blobs.
    Mega,
    /// There are less than four slots, or a slot has less than 16 blocks.
    Slots,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GeometryError::Block => "the block size must be a power of two from 128 bytes to 64 KiB",
            GeometryError::Micro => "a micro blob must be 2 to 4096 whole blocks",
            GeometryError::Mega => "a mega blob must be a whole number of micro blobs, less than 2^32",
            GeometryError::Slots => {
                "a mega blob needs at least four slots for metadata of at least 16 blocks each"
            }
        })
    }
}

impl std::error::Error for GeometryError {}

impl Geometry {
    /// Whether the sizes fit together.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), GeometryError> {
        let block = u64::from(self.block);
        let micro = u64::from(self.micro);
        if !block.is_power_of_two() || !(128..=64 * KIB).contains(&block) {
            return Err(GeometryError::Block);
        }
        if !micro.is_multiple_of(block) || !(2..=4096).contains(&(micro / block)) {
            return Err(GeometryError::Micro);
        }
        if self.mega == 0 || !self.mega.is_multiple_of(micro) || self.mega / micro > u64::from(u32::MAX) {
            return Err(GeometryError::Mega);
        }
        if self.slots < 4 || self.slot_blocks() < 16 {
            return Err(GeometryError::Slots);
        }
        Ok(())
    }

    /// Bytes of a file that one block carries.
    pub fn payload(&self) -> u64 {
        u64::from(self.block) - block::HEADER as u64
    }

    /// Blocks of a micro blob.
    pub fn micro_blocks(&self) -> u64 {
        u64::from(self.micro / self.block)
    }

    /// Micro blobs of a mega blob.
    pub fn mega_micros(&self) -> u64 {
        self.mega / u64::from(self.micro)
    }

    /// Mega blobs of an SSD of this size. The rest at the end is not used.
    pub fn megas_of(&self, capacity: Bytes) -> u32 {
        u32::try_from(capacity.0 / self.mega).unwrap_or(u32::MAX)
    }

    /// Blocks of a slot.
    pub fn slot_blocks(&self) -> u64 {
        self.mega / u64::from(self.slots) / u64::from(self.block)
    }

    /// The mega blob that a micro blob is in.
    pub fn mega_of(&self, place: Place) -> Mega {
        Mega { ssd: place.ssd, index: (place.micro / self.mega_micros()) as u32 }
    }

    /// The first byte of a micro blob on its SSD.
    pub fn byte_of(&self, place: Place) -> u64 {
        place.micro * u64::from(self.micro)
    }

    /// The first byte of the slot of a generation in a mega blob, on its SSD.
    pub fn slot_byte(&self, mega: Mega, generation: Generation) -> u64 {
        let slot = u64::from(generation.0 % self.slots);
        u64::from(mega.index) * self.mega + slot * self.slot_blocks() * u64::from(self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SsdId;

    #[test]
    fn the_papers_sizes_fit_together() {
        let geometry = Geometry::default();
        assert_eq!(geometry.check(), Ok(()));
        assert_eq!((geometry.micro_blocks(), geometry.mega_micros()), (64, 16_384));
        assert_eq!(geometry.megas_of(Bytes(10 * GIB)), 2);
        let place = Place { ssd: SsdId(3), micro: 16_385 };
        assert_eq!(geometry.mega_of(place), Mega { ssd: SsdId(3), index: 1 });
        assert_eq!(geometry.byte_of(place), 4 * GIB + 256 * KIB);
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let good = Geometry::default();
        assert_eq!(Geometry { block: 5000, ..good }.check(), Err(GeometryError::Block));
        assert_eq!(Geometry { micro: 4096, ..good }.check(), Err(GeometryError::Micro));
        assert_eq!(Geometry { mega: 4 * GIB + 1, ..good }.check(), Err(GeometryError::Mega));
        assert_eq!(Geometry { slots: 3, ..good }.check(), Err(GeometryError::Slots));
    }
}
