//! Records in blocks: a sequence of (length, record) over the payloads of consecutive blocks.
//!
//! A record may span blocks. Each batch starts a new block, so no block is ever written again. The stream ends where
//! the next block is missing; a record that is cut off there has no effect.

use super::block::{self, Header};
use super::codec::put_u64;
use super::record::Record;
use super::{Malformed, codec::Reader};
use crate::{FileId, Generation, VolumeId};

/// Identifies a journal: its volume, the mount that writes it and the checkpoint at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The volume.
    pub volume: VolumeId,
    /// The mount.
    pub generation: Generation,
    /// Counts the checkpoints of the mount.
    pub checkpoint: u64,
}

impl Journal {
    /// Appends `bytes` of records to `out` as blocks, the first of which has this index. Returns the number of blocks.
    pub fn seal(&self, out: &mut Vec<u8>, block_size: u32, first: u64, bytes: &[u8]) -> u64 {
        let room = block_size as usize - block::HEADER;
        let mut count = 0;
        for payload in bytes.chunks(room) {
            let header = Header {
                volume: self.volume,
                file: FileId::JOURNAL,
                index: first + count,
                era: 0,
                offset: self.checkpoint,
                length: 0,
                generation: self.generation,
            };
            block::seal(out, block_size, &header, payload);
            count += 1;
        }
        count
    }

    /// The payload of a block if it is the block with this index of this journal.
    pub fn open<'a>(&self, bytes: &'a [u8], index: u64) -> Option<&'a [u8]> {
        let (header, payload) = block::open(bytes)?;
        let is_ours = header.volume == self.volume
            && header.file == FileId::JOURNAL
            && header.index == index
            && header.offset == self.checkpoint
            && header.generation == self.generation;
        is_ours.then_some(payload)
    }
}

/// Appends a record with its length.
pub fn put(out: &mut Vec<u8>, record: &Record) {
    let mut body = Vec::new();
    record.encode(&mut body);
    put_u64(out, body.len() as u64);
    out.extend_from_slice(&body);
}

/// All whole records of a stream.
///
/// # Errors
/// If a whole record cannot be understood.
pub fn records(stream: &[u8]) -> Result<Vec<Record>, Malformed> {
    let mut reader = Reader(stream);
    let mut records = Vec::new();
    // A length that is cut off, or exceeds the remaining bytes, is the end of the stream.
    while let Ok(length) = reader.count() {
        let (body, rest) = reader.0.split_at(length);
        records.push(Record::decode(body)?);
        reader.0 = rest;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_before_the_record_that_was_cut_off() {
        let make = |name: &str| Record::MakeDir { path: name.to_owned() };
        let mut stream = Vec::new();
        put(&mut stream, &make("a"));
        let first = stream.len();
        put(&mut stream, &make(&"b".repeat(300)));
        assert_eq!(records(&stream), Ok(vec![make("a"), make(&"b".repeat(300))]));
        for end in first..stream.len() {
            assert_eq!(records(&stream[..end]), Ok(vec![make("a")]), "cut at {end}");
        }
    }

    #[test]
    fn blocks_of_another_journal_are_not_of_this_one() {
        let journal = Journal { volume: VolumeId(1), generation: Generation(2), checkpoint: 3 };
        let mut blocks = Vec::new();
        assert_eq!(journal.seal(&mut blocks, 128, 10, &[7; 100]), 2);
        assert_eq!(journal.open(&blocks[..128], 10).map(<[u8]>::len), Some(80));
        assert_eq!(journal.open(&blocks[128..], 11).map(<[u8]>::len), Some(20));
        assert_eq!(journal.open(&blocks[128..], 10), None);
        assert_eq!(Journal { checkpoint: 4, ..journal }.open(&blocks[..128], 10), None);
        assert_eq!(Journal { generation: Generation(3), ..journal }.open(&blocks[..128], 10), None);
    }
}
