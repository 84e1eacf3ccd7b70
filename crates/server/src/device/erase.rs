//! The cost of erasing: of Write Zeroes and of Deallocate.
//!
//! These commands carry no data, so their length does not say how long the device is busy. If only a table changes, or a file gets a
//! hole, a gigabyte takes as long as a few megabytes of writes. Otherwise all of it is written. Only the device knows, so it is asked
//! for a quote, range by range.
//!
//! Holds: a quote covers at least one block and at most the range (`a_quote_makes_progress_and_stays_within_the_range`).

use units::Bytes;

/// The way of erasing a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    /// It reads as zeros afterwards.
    Zero,
    /// It reads as zeros afterwards, or as before.
    Forget,
}

/// The part of a range to erase in one step, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    /// Bytes from the start of the range. It ends at the end of a block.
    pub(crate) length: u64,
    /// The bytes that could be written in the same time.
    pub(crate) cost: Bytes,
}

/// An SSD changes its mapping table: one byte of it for 16 or more blocks. Vendors do not publish the cost. This is more than the
/// modelled SSDs take (2 ns for 4 KiB).
pub(super) const BYTES_PER_TABLE_BYTE: u64 = 256;
/// The file system makes a hole, or the SSD writes zeros by itself. Measured for a hole of 256 written MiB: 1/11 to 1/90 of the processor
/// time of writing them on ext4, 1/3 on tmpfs, and 1/2 to 1/10 of the elapsed time.
pub(super) const BYTES_PER_HOLE_BYTE: u64 = 16;
/// The zeros are written.
pub(super) const BYTES_PER_WRITTEN_BYTE: u64 = 1;

/// No block is larger. So a range that is split at a multiple of this is split between blocks.
const BLOCK_MAX: u64 = 4096;

impl Quote {
    /// For a device that erases `bytes_per_byte` bytes in the time of one written byte. The cost is at most `most`, or that of one block.
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
    fn a_quote_makes_progress_and_stays_within_the_range() {
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
