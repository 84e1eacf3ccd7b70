//! What it costs a device to erase: to make a range read as zeros, or to forget it.
//!
//! Nobody sends the data of a Write Zeroes or a Deallocate, so its length does not say how long it keeps the device busy. Where there
//! is a table to change, or a hole to make in a file, a gigabyte takes as long as a few written megabytes; where there is none, all of
//! it is written. Only the device knows, so it is asked, range by range.
//!
//! Holds: what is quoted is never nothing and never more than was asked about (`a_quote_gets_on_and_stays_within_the_range`).

use units::Bytes;

/// How a range is to be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    /// It reads as zeros afterwards.
    Zero,
    /// It reads as zeros afterwards, or as before.
    Forget,
}

/// How much of a range can be erased at a time, and what that costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    /// Bytes from the beginning of the range. It ends where blocks end.
    pub(crate) length: u64,
    /// As many bytes could be written in the same time.
    pub(crate) cost: Bytes,
}

/// A table says where the blocks are: a byte of it is rewritten for 16 or more blocks. What SSDs take for it they do not publish; this
/// is dearer than what the modelled SSDs take (2 ns for 4 KiB).
pub(super) const BYTES_PER_TABLE_BYTE: u64 = 256;
/// The file system makes a hole, or the SSD writes zeros by itself. To make a hole of 256 written MiB took between an 11th and a 90th of
/// the processor time of writing them on ext4, a third of it on tmpfs, and between a half and a tenth of the time.
pub(super) const BYTES_PER_HOLE_BYTE: u64 = 16;
/// Nothing is spared: the zeros are written.
pub(super) const BYTES_PER_WRITTEN_BYTE: u64 = 1;

/// No block is larger, so that a range that is cut after a multiple of it is cut between blocks.
const BLOCK_MAX: u64 = 4096;

impl Quote {
    /// For a device on which to erase `bytes_per_byte` costs as much as to write one, however long the range is. At most `most`, but at
    /// least a block.
    pub(crate) fn in_proportion(bytes_per_byte: u64, length: u64, most: Bytes) -> Quote {
        let affordable = most.get().saturating_mul(bytes_per_byte);
        let length = length.min((affordable - affordable % BLOCK_MAX).max(BLOCK_MAX));
        Quote { length, cost: Bytes(length.div_ceil(bytes_per_byte)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_gets_on_and_stays_within_the_range() {
        for bytes_per_byte in [1, 16, 256] {
            for length in [1, 512, 4096, 4097, 1 << 20, 1 << 30, u64::MAX] {
                for most in [0, 1, 4095, 4096, 128 << 10, u64::MAX].map(Bytes) {
                    let quote = Quote::in_proportion(bytes_per_byte, length, most);
                    assert!(quote.length > 0 && quote.length <= length, "{length}, {most}: {quote:?}");
                    assert!(quote.length == length || quote.length.is_multiple_of(4096), "{quote:?}");
                    assert!(quote.cost <= most || quote.length <= 4096, "{length}, {most}: {quote:?}");
                    assert!(
                        u128::from(quote.cost.get()) * u128::from(bytes_per_byte) >= u128::from(quote.length)
                    );
                }
            }
        }
    }
}
