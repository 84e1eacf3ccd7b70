//! A copy of ranges to another place of the same device, piece by piece.
//!
//! Each piece is an IO of its own to the scheduler: it is read and written at one go, charged as a write of twice its length, and
//! then the copy queues up again behind whatever else its tenant and the others want. So a long copy holds one buffer at a
//! time, none while it waits for its turn, and other tenants wait for at most one piece of it. Writing costs no less than reading,
//! so the charge is never less than the cost of the piece on the SSD.
//!
//! Holds: every byte is copied once, in order (`a_copy_moves_every_byte_and_queues_up_for_each_piece` in `switch/tests`).

use super::ByteRange;
use reactor::IoBuffer;
use units::Bytes;

/// Most bytes that are read and written at one go: charged twice, it is one slot of the scheduler.
const PIECE: u64 = 64 << 10;

/// A copy and how far it has come.
#[derive(Debug)]
pub(crate) struct Copying {
    sources: Vec<ByteRange>,
    /// The first byte of the destination.
    to: u64,
    pub(super) durable: bool,
    /// The buffer that the sources came in. It stays here, so that its memory stays charged to the connection.
    list: Option<IoBuffer>,
    /// The source that is being copied.
    source: usize,
    /// Bytes of the current source that are copied.
    within: u64,
    /// Bytes copied in all.
    copied: u64,
    /// The piece that was read and is to be written.
    pub(super) piece: Option<IoBuffer>,
    /// Whether the device has the piece to write.
    pub(super) is_writing: bool,
}

impl Copying {
    /// A copy of `sources`, none of them empty, one after the other to `to`.
    pub(crate) fn new(sources: Vec<ByteRange>, to: u64, durable: bool, list: Option<IoBuffer>) -> Copying {
        Copying {
            sources,
            to,
            durable,
            list,
            source: 0,
            within: 0,
            copied: 0,
            piece: None,
            is_writing: false,
        }
    }

    /// Where the next piece is.
    pub(super) fn origin(&self) -> ByteRange {
        let source = self.sources[self.source];
        let length = (source.length - self.within).min(PIECE);
        ByteRange { offset: source.offset + self.within, length }
    }

    /// Where it goes.
    pub(super) fn destination(&self) -> ByteRange {
        ByteRange { offset: self.to + self.copied, length: self.origin().length }
    }

    /// The charge for the next piece.
    pub(super) fn charge(&self) -> Bytes {
        Bytes(2 * self.origin().length)
    }

    /// The charge for all pieces, after the end.
    pub(super) fn charged(&self) -> Bytes {
        Bytes(2 * self.copied)
    }

    /// The source range that is being copied.
    pub(super) fn range(&self) -> u32 {
        self.source as u32
    }

    /// A piece is copied; whether it was the last one.
    pub(super) fn advance(&mut self) -> bool {
        let length = self.origin().length;
        self.copied += length;
        self.within += length;
        if self.within == self.sources[self.source].length {
            if self.source + 1 == self.sources.len() {
                return true;
            }
            (self.source, self.within) = (self.source + 1, 0);
        }
        false
    }

    /// The buffer that the sources came in.
    pub(super) fn into_list(self) -> Option<IoBuffer> {
        self.list
    }
}
