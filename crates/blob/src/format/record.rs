//! The records of the journal: each changes a volume's metadata in one step.
//!
//! A record is in effect as a whole or not at all, so a rename that replaces a file is one record: after a crash either the
//! old file or the new one has the name. A snapshot consists of the same records.
//!
//! ```text
//!   kind (1 byte), fields;  numbers as LEB128, texts as length and UTF-8, a copy as SSD + 1 and micro blob (0: no copy)
//! ```

use super::block;
use super::codec::{Malformed, Reader, put_text, put_u64};
use crate::{Copies, FileId, Place, SsdId};

/// The places of a file's bytes in its blocks.
///
/// A *run* is a sequence of blocks, all full but the last. A new run begins after a sync, a truncation or a mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the file.
    pub size: u64,
    /// Index of the block that is written next. Blocks before it are never written again.
    pub next_block: u64,
    /// Number of times the layout was recorded. Blocks behind it carry this number: a micro blob that comes back to the file after a
    /// truncation may still hold blocks of an earlier era.
    pub era: u32,
    /// In ascending order of both block and offset.
    pub runs: Vec<Run>,
}

/// The start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of its first block.
    pub block: u64,
    /// Offset in the file of its first byte.
    pub offset: u64,
}

impl Layout {
    /// The era that begins when this layout is recorded.
    pub fn next_era(&self) -> u32 {
        (self.era + 1) & block::ERA_MAX
    }

    /// Cuts the file to `size`, which is at most its size. The next byte begins a new run.
    pub fn truncate(&mut self, size: u64) {
        debug_assert!(size <= self.size, "truncated from {} to {size}", self.size);
        let keep = self.runs.partition_point(|run| run.offset < size);
        self.runs.truncate(keep);
        self.size = size;
    }

    /// The run that the byte at `offset` is in, and the offset at which the run ends. `None` beyond the end.
    pub fn run_at(&self, offset: u64) -> Option<(Run, u64)> {
        if offset >= self.size {
            return None;
        }
        let after = self.runs.partition_point(|run| run.offset <= offset);
        let end = self.runs.get(after).map_or(self.size, |next| next.offset);
        Some((*self.runs.get(after.checked_sub(1)?)?, end))
    }
}

/// A change of a volume's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A new directory.
    MakeDir {
        /// Its name.
        path: String,
    },
    /// An empty directory is removed.
    RemoveDir {
        /// Its name.
        path: String,
    },
    /// A new, empty file. If a file has this name already, the name passes to the new one.
    Create {
        /// The file.
        file: FileId,
        /// Its name.
        path: String,
        /// Seconds since 1970.
        time: u64,
    },
    /// A further name of a file. If a file has this name already, the name passes to this one.
    Link {
        /// The file.
        file: FileId,
        /// The name.
        path: String,
    },
    /// A name is removed.
    Unlink {
        /// The name.
        path: String,
    },
    /// A file or directory gets another name. If a file has this name already, it loses it.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A file gets further micro blobs. Their contents are found by reading them.
    Extend {
        /// The file.
        file: FileId,
        /// The micro blobs.
        extents: Vec<Copies>,
    },
    /// The whole layout of a file, all of it durable. A mount need not look for blocks behind it.
    Layout {
        /// The file.
        file: FileId,
        /// The layout.
        layout: Layout,
        /// Seconds since 1970.
        time: u64,
    },
    /// A copy of a micro blob lacks writes and may not be read.
    Stale {
        /// The file.
        file: FileId,
        /// Which of its micro blobs.
        extent: u64,
        /// Which copy.
        side: u8,
    },
    /// A complete copy of a micro blob is at this place.
    Move {
        /// The file.
        file: FileId,
        /// Which of its micro blobs.
        extent: u64,
        /// Which copy.
        side: u8,
        /// Its new place.
        place: Place,
    },
}

fn put_copies(out: &mut Vec<u8>, copies: &Copies) {
    for copy in copies {
        match copy {
            None => put_u64(out, 0),
            Some(place) => put_place(out, *place),
        }
    }
}

fn put_place(out: &mut Vec<u8>, place: Place) {
    put_u64(out, u64::from(place.ssd.0) + 1);
    put_u64(out, place.micro);
}

fn read_copy(reader: &mut Reader<'_>) -> Result<Option<Place>, Malformed> {
    match reader.u64()? {
        0 => Ok(None),
        ssd => {
            let ssd = SsdId(u32::try_from(ssd - 1).map_err(|_| Malformed)?);
            Ok(Some(Place { ssd, micro: reader.u64()? }))
        }
    }
}

fn read_side(reader: &mut Reader<'_>) -> Result<u8, Malformed> {
    reader.byte().and_then(|side| if side < 2 { Ok(side) } else { Err(Malformed) })
}

impl Record {
    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Record::MakeDir { path } => {
                out.push(1);
                put_text(out, path);
            }
            Record::RemoveDir { path } => {
                out.push(2);
                put_text(out, path);
            }
            Record::Create { file, path, time } => {
                out.push(3);
                put_u64(out, file.0);
                put_text(out, path);
                put_u64(out, *time);
            }
            Record::Link { file, path } => {
                out.push(4);
                put_u64(out, file.0);
                put_text(out, path);
            }
            Record::Unlink { path } => {
                out.push(5);
                put_text(out, path);
            }
            Record::Rename { from, to } => {
                out.push(6);
                put_text(out, from);
                put_text(out, to);
            }
            Record::Extend { file, extents } => {
                out.push(7);
                put_u64(out, file.0);
                put_u64(out, extents.len() as u64);
                extents.iter().for_each(|copies| put_copies(out, copies));
            }
            Record::Layout { file, layout, time } => {
                out.push(8);
                put_u64(out, file.0);
                put_u64(out, layout.size);
                put_u64(out, layout.next_block);
                put_u64(out, u64::from(layout.era));
                put_u64(out, layout.runs.len() as u64);
                let mut last = Run { block: 0, offset: 0 };
                for run in &layout.runs {
                    put_u64(out, run.block - last.block);
                    put_u64(out, run.offset - last.offset);
                    last = *run;
                }
                put_u64(out, *time);
            }
            Record::Stale { file, extent, side } => {
                out.push(9);
                put_u64(out, file.0);
                put_u64(out, *extent);
                out.push(*side);
            }
            Record::Move { file, extent, side, place } => {
                out.push(10);
                put_u64(out, file.0);
                put_u64(out, *extent);
                out.push(*side);
                put_place(out, *place);
            }
        }
    }

    /// Decodes the record in `bytes`, which contain nothing else.
    ///
    /// # Errors
    /// If they do not hold exactly one record.
    pub fn decode(bytes: &[u8]) -> Result<Record, Malformed> {
        let mut reader = Reader(bytes);
        let record = Record::read(&mut reader)?;
        if reader.0.is_empty() { Ok(record) } else { Err(Malformed) }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
        Ok(match reader.byte()? {
            1 => Record::MakeDir { path: reader.text()? },
            2 => Record::RemoveDir { path: reader.text()? },
            3 => Record::Create { file: FileId(reader.u64()?), path: reader.text()?, time: reader.u64()? },
            4 => Record::Link { file: FileId(reader.u64()?), path: reader.text()? },
            5 => Record::Unlink { path: reader.text()? },
            6 => Record::Rename { from: reader.text()?, to: reader.text()? },
            7 => {
                let file = FileId(reader.u64()?);
                let count = reader.count()?;
                let extents = (0..count).map(|_| Ok([read_copy(reader)?, read_copy(reader)?]));
                Record::Extend { file, extents: extents.collect::<Result<_, Malformed>>()? }
            }
            8 => Record::Layout {
                file: FileId(reader.u64()?),
                layout: read_layout(reader)?,
                time: reader.u64()?,
            },
            9 => {
                Record::Stale { file: FileId(reader.u64()?), extent: reader.u64()?, side: read_side(reader)? }
            }
            10 => Record::Move {
                file: FileId(reader.u64()?),
                extent: reader.u64()?,
                side: read_side(reader)?,
                place: read_copy(reader)?.ok_or(Malformed)?,
            },
            _ => return Err(Malformed),
        })
    }
}

fn read_layout(reader: &mut Reader<'_>) -> Result<Layout, Malformed> {
    let (size, next_block) = (reader.u64()?, reader.u64()?);
    let era = u32::try_from(reader.u64()?).ok().filter(|&era| era <= block::ERA_MAX).ok_or(Malformed)?;
    let count = reader.count()?;
    let mut runs = Vec::new();
    let mut last = Run { block: 0, offset: 0 };
    for _ in 0..count {
        let block = last.block.checked_add(reader.u64()?).ok_or(Malformed)?;
        let offset = last.offset.checked_add(reader.u64()?).ok_or(Malformed)?;
        last = Run { block, offset };
        runs.push(last);
    }
    Ok(Layout { size, next_block, era, runs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn examples() -> Vec<Record> {
        let place = |ssd, micro| Place { ssd: SsdId(ssd), micro };
        let file = FileId(7 << 32 | 1);
        let path = || "db/000012.log".to_owned();
        vec![
            Record::MakeDir { path: "db".to_owned() },
            Record::RemoveDir { path: "db".to_owned() },
            Record::Create { file, path: path(), time: 1_700_000_000 },
            Record::Link { file, path: path() },
            Record::Unlink { path: path() },
            Record::Rename { from: "db/tmp".to_owned(), to: "db/CURRENT".to_owned() },
            Record::Extend {
                file,
                extents: vec![
                    [Some(place(0, 5)), Some(place(u32::MAX, u64::MAX))],
                    [None, Some(place(1, 0))],
                ],
            },
            Record::Layout {
                file,
                layout: Layout {
                    size: 9000,
                    next_block: 9,
                    era: 300,
                    runs: vec![Run { block: 0, offset: 0 }, Run { block: 4, offset: 8000 }],
                },
                time: 3,
            },
            Record::Stale { file, extent: 3, side: 1 },
            Record::Move { file, extent: 3, side: 0, place: place(2, 77) },
        ]
    }

    #[test]
    fn records_survive() {
        for record in examples() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes), Ok(record.clone()));
            for end in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..end]), Err(Malformed), "{record:?} cut at {end}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.random_range(0..64)).map(|_| random.random()).collect();
            if let Some(kind) = bytes.first_mut() {
                *kind %= 12;
            }
            let _ = Record::decode(&bytes);
        }
        for record in examples() {
            let mut good = Vec::new();
            record.encode(&mut good);
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] = random.random();
                let _ = Record::decode(&bad);
            }
        }
    }

    #[test]
    fn a_byte_is_in_the_last_run_that_begins_before_it() {
        let mut layout = Layout {
            size: 250,
            next_block: 9,
            era: 0,
            runs: vec![
                Run { block: 0, offset: 0 },
                Run { block: 2, offset: 100 },
                Run { block: 7, offset: 200 },
            ],
        };
        assert_eq!(layout.run_at(99), Some((Run { block: 0, offset: 0 }, 100)));
        assert_eq!(layout.run_at(100), Some((Run { block: 2, offset: 100 }, 200)));
        assert_eq!(layout.run_at(249), Some((Run { block: 7, offset: 200 }, 250)));
        assert_eq!(layout.run_at(250), None);
        layout.truncate(100);
        assert_eq!((layout.run_at(99), layout.run_at(100)), (Some((Run { block: 0, offset: 0 }, 100)), None));
        layout.truncate(0);
        assert!(layout.runs.is_empty());
    }
}
