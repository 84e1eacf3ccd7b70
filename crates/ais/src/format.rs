//! The bytes of a log in a durable store.
//!
//! ```text
//!   0        4 KiB     8 KiB     12 KiB    16 KiB
//!   │ head    │ head    │ head    │ head    │ record │ record │ … in a circle
//!   └─ even generation ─┘─ odd generation ──┘
//!   record: a block with sequence number, place on the SSD, length and checksum; then the data, or a list of ranges
//! ```
//!
//! A head is written twice, in the two blocks that the head before does not use. So neither a write that is cut short nor one damaged
//! block loses the latest head. Numbers are little-endian. Every block has a CRC-32C over itself; a record has one over its data as well.
//!
//! Holds: a block with a changed byte is refused (`no_changed_byte_goes_unnoticed`).

use crc_fast::{CrcAlgorithm, checksum};

/// The unit of the log, and of the writes that go into it.
pub const BLOCK: u64 = 4096;
/// Where the records begin.
pub(crate) const AREA: u64 = 4 * BLOCK;
/// Longest description of an SSD, in bytes.
pub const IDENTITY_MAX: usize = 256;
/// Ranges that fit into a block.
pub(crate) const RANGES_PER_BLOCK: usize = BLOCK as usize / 24;

const HEAD_MAGIC: &[u8; 8] = b"GIMB-AIS";
const RECORD_MAGIC: &[u8; 8] = b"gimb-rec";
const VERSION: u32 = 1;
/// The checksum is in the last bytes of a block.
const CRC_AT: usize = BLOCK as usize - 4;

/// One block.
pub type Block = [u8; BLOCK as usize];

/// Head of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Drawn when the log was made.
    pub(crate) log: [u8; 16],
    /// Counts heads.
    pub(crate) generation: u64,
    /// Counts how often the log was opened.
    pub(crate) epoch: u64,
    /// Size of the whole log in bytes.
    pub(crate) size: u64,
    /// Where the oldest record is, counted without going round.
    pub(crate) tail: u64,
    /// Its number.
    pub(crate) tail_sequence: u64,
    /// All records before this one are durable.
    pub(crate) durable_before: u64,
    /// Whether the log is void: nothing in it counts.
    pub(crate) is_void: bool,
    /// The SSD that the data belongs to.
    pub(crate) identity: String,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Data of this place on the SSD.
    Data {
        /// First byte on the SSD.
        offset: u64,
    },
    /// Ranges that the SSD has newer data of.
    Superseded {
        /// Number of ranges.
        ranges: u32,
    },
    /// The same, but the SSD may lose its newer data with the power: it counts only while the machine runs on.
    SupersededSince {
        /// Number of ranges.
        ranges: u32,
        /// Names the time since the machine was started.
        boot: [u8; 16],
    },
}

/// The first block of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) log: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) kind: RecordKind,
    /// Bytes after the first block.
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// A range of the SSD whose data in records up to a number is old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superseded {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) up_to: u64,
}

/// The reason why a block is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It was never written by us.
    Foreign,
    /// It was, and has changed since.
    Damaged,
    /// A later version has written it.
    Newer(u32),
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

struct Writer {
    block: Box<Block>,
    at: usize,
}

impl Writer {
    fn new(magic: &[u8; 8]) -> Writer {
        Writer { block: Box::new([0; BLOCK as usize]), at: 0 }.bytes(magic).u32(VERSION)
    }

    fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.block[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn u32(self, number: u32) -> Writer {
        self.bytes(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Writer {
        self.bytes(&number.to_le_bytes())
    }

    fn sealed(mut self) -> Box<Block> {
        let crc = crc32c(&self.block[..CRC_AT]);
        self.block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        self.block
    }
}

struct Reader<'b> {
    left: &'b [u8],
}

impl<'b> Reader<'b> {
    /// The bytes past magic and version, of a block with a valid checksum.
    fn new(block: &'b [u8], magic: &[u8; 8]) -> Result<Reader<'b>, Refused> {
        assert_eq!(block.len(), BLOCK as usize, "blocks have one size");
        if &block[..8] != magic {
            return Err(Refused::Foreign);
        }
        if crc32c(&block[..CRC_AT]).to_le_bytes() != block[CRC_AT..] {
            return Err(Refused::Damaged);
        }
        let mut reader = Reader { left: &block[8..CRC_AT] };
        match reader.u32() {
            VERSION => Ok(reader),
            version => Err(Refused::Newer(version)),
        }
    }

    fn bytes(&mut self, length: usize) -> &'b [u8] {
        let (bytes, left) = self.left.split_at(length);
        self.left = left;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes(4).try_into().expect("four bytes"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes(8).try_into().expect("eight bytes"))
    }

    fn name(&mut self) -> [u8; 16] {
        self.bytes(16).try_into().expect("sixteen bytes")
    }
}

impl Head {
    /// Where it is written: two blocks from there on.
    pub(crate) fn place(&self) -> u64 {
        self.generation % 2 * 2 * BLOCK
    }

    /// Both copies of it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let identity = self.identity.as_bytes();
        assert!(identity.len() <= IDENTITY_MAX, "{} bytes to describe an SSD", identity.len());
        let block = Writer::new(HEAD_MAGIC)
            .bytes(&self.log)
            .u64(self.generation)
            .u64(self.epoch)
            .u64(self.size)
            .u64(self.tail)
            .u64(self.tail_sequence)
            .u64(self.durable_before)
            .u32(u32::from(self.is_void))
            .u32(identity.len() as u32)
            .bytes(identity)
            .sealed();
        [&block[..], &block[..]].concat()
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Head, Refused> {
        let mut reader = Reader::new(block, HEAD_MAGIC)?;
        let (log, generation, epoch) = (reader.name(), reader.u64(), reader.u64());
        let (size, tail, tail_sequence) = (reader.u64(), reader.u64(), reader.u64());
        let (durable_before, is_void) = (reader.u64(), reader.u32() != 0);
        let length = (reader.u32() as usize).min(IDENTITY_MAX);
        let identity = String::from_utf8_lossy(reader.bytes(length)).into_owned();
        Ok(Head { log, generation, epoch, size, tail, tail_sequence, durable_before, is_void, identity })
    }
}

impl RecordHead {
    pub(crate) fn encode(&self) -> Box<Block> {
        let (kind, place, boot) = match self.kind {
            RecordKind::Data { offset } => (1, offset, [0; 16]),
            RecordKind::Superseded { ranges } => (2, u64::from(ranges), [0; 16]),
            RecordKind::SupersededSince { ranges, boot } => (3, u64::from(ranges), boot),
        };
        Writer::new(RECORD_MAGIC)
            .bytes(&self.log)
            .u64(self.epoch)
            .u64(self.sequence)
            .u32(kind)
            .u64(place)
            .u64(self.length)
            .u32(self.crc)
            .bytes(&boot)
            .sealed()
    }

    pub(crate) fn decode(block: &[u8]) -> Result<RecordHead, Refused> {
        let mut reader = Reader::new(block, RECORD_MAGIC)?;
        let (log, epoch, sequence) = (reader.name(), reader.u64(), reader.u64());
        let (kind, place, length, crc) = (reader.u32(), reader.u64(), reader.u64(), reader.u32());
        let kind = match kind {
            1 => RecordKind::Data { offset: place },
            2 => RecordKind::Superseded { ranges: place as u32 },
            3 => RecordKind::SupersededSince { ranges: place as u32, boot: reader.name() },
            _ => return Err(Refused::Damaged),
        };
        Ok(RecordHead { log, epoch, sequence, kind, length, crc })
    }
}

/// Ranges as the data of a record: whole blocks.
pub(crate) fn encode_ranges(ranges: &[Superseded]) -> Vec<u8> {
    let mut bytes = vec![0; ranges.len().div_ceil(RANGES_PER_BLOCK) * BLOCK as usize];
    for (index, range) in ranges.iter().enumerate() {
        let at = index / RANGES_PER_BLOCK * BLOCK as usize + index % RANGES_PER_BLOCK * 24;
        for (n, number) in [range.start, range.end, range.up_to].into_iter().enumerate() {
            bytes[at + 8 * n..at + 8 * n + 8].copy_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

/// The ranges in the data of a record.
pub(crate) fn decode_ranges(bytes: &[u8], ranges: u32) -> Vec<Superseded> {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let range = |index: usize| {
        let at = index / RANGES_PER_BLOCK * BLOCK as usize + index % RANGES_PER_BLOCK * 24;
        Superseded { start: number(at), end: number(at + 8), up_to: number(at + 16) }
    };
    (0..ranges as usize).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            log: *b"0123456789abcdef",
            generation: 7,
            epoch: 3,
            size: 1 << 26,
            tail: 40 * BLOCK,
            tail_sequence: 12,
            durable_before: 14,
            is_void: false,
            identity: "ssd0 of 1 TiB".to_owned(),
        }
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let record = RecordHead {
            log: [9; 16],
            epoch: 3,
            sequence: 99,
            kind: RecordKind::Data { offset: 1 << 40 },
            length: 128 << 10,
            crc: 0x1234_5678,
        };
        let (mut one, mut other) = (head().encode(), record.encode());
        one.truncate(BLOCK as usize);
        assert_eq!(Head::decode(&one), Ok(head()));
        assert_eq!(RecordHead::decode(&other[..]), Ok(record));
        for at in 0..BLOCK as usize {
            one[at] ^= 0x40;
            other[at] ^= 0x01;
            assert!(Head::decode(&one).is_err(), "byte {at}");
            assert!(RecordHead::decode(&other[..]).is_err(), "byte {at}");
            one[at] ^= 0x40;
            other[at] ^= 0x01;
        }
    }

    #[test]
    fn ranges_come_back_as_they_went() {
        let ranges: Vec<Superseded> =
            (0..400).map(|n| Superseded { start: n * 512, end: n * 512 + 512, up_to: n }).collect();
        let bytes = encode_ranges(&ranges);
        assert_eq!(bytes.len(), 3 * BLOCK as usize);
        assert_eq!(decode_ranges(&bytes, 400), ranges);
    }
}
