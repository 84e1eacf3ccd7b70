//! Opens a log: makes a new one, or reads the records of an old one.
//!
//! ```text
//!   heads ─► the latest ─► records from its tail on, one number after the other ─► the first that is not whole: the end
//! ```
//!
//! A record before `durable_before` of the head was promised to be durable. If such a record is not whole, the log is damaged, and
//! nothing is served. A later record that is not whole was being written when the target ended. The records after it were never answered, because
//! answers are given in the order of the numbers.
//!
//! Each opening has a higher *epoch* than the one before, written before anything else. So the rest of an unfinished record of an
//! earlier life cannot be taken for one of a later life.
//!
//! Holds: every changed byte in a durable record is found (`damage_in_a_durable_record_is_found`).

use crate::format::{AREA, BLOCK, Head, RecordHead, RecordKind, Refused, Superseded, crc32c, decode_ranges};
use crate::ranges::{Entry, Ranges};
use crate::space::{Space, area_of, begin};
use std::io;

/// The smallest log.
pub const SIZE_MIN: u64 = 4 << 20;
/// The largest log: with it, the data in memory stays bounded.
pub const SIZE_MAX: u64 = 512 << 20;
/// Maximum data of a record; larger writes go to the SSD.
pub const DATA_MAX: u64 = 1 << 20;

/// Storage of a log.
pub trait Medium {
    /// Reads exactly this much.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes, so that it survives a power failure.
    ///
    /// # Errors
    /// It cannot be written.
    fn write_durably(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Options for opening a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of the medium to use.
    pub size: u64,
    /// The SSD that it is for: what no other SSD is called, at most [`IDENTITY_MAX`](crate::IDENTITY_MAX) bytes.
    pub identity: String,
    /// Its size in bytes.
    pub device_size: u64,
    /// For a new log: random.
    pub name: [u8; 16],
    /// Names the time since the machine was started, and so no other; zeros if that is not known.
    pub boot: [u8; 16],
    /// Make a log in a medium that has something else in it.
    pub overwrite: bool,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The medium fails.
    #[error("it cannot be {step}: {error}")]
    Medium {
        /// The operation.
        step: &'static str,
        /// Its error.
        error: io::Error,
    },
    /// It has something else in it.
    #[error(
        "it has contents that are no log of this kind: give an empty file, or a device whose first 16 KiB are zeros"
    )]
    Foreign,
    /// A later version has written it.
    #[error("a later version of this program has written it (format {0})")]
    Newer(u32),
    /// It is for another SSD, and has data of it.
    #[error(
        "it has {records} writes of another SSD: {found}, not {wanted}. Start once with that SSD, and stop, so that they are written there"
    )]
    OtherSsd {
        /// The SSD that it is for.
        found: String,
        /// The SSD that it should be for.
        wanted: String,
        /// Least number of them.
        records: u64,
    },
    /// It has another size, and data in it.
    #[error(
        "it is a log of {found} bytes, not of {wanted}, and has data: start it with its old size and stop, so that its data is written to the SSD"
    )]
    OtherSize {
        /// Its size.
        found: u64,
        /// The size that was asked for.
        wanted: u64,
    },
    /// Data that was promised to be durable is not there.
    #[error("it is damaged at byte {at} ({what}): flushed data of the SSD may be lost. Nothing was changed")]
    Damaged {
        /// Where.
        at: u64,
        /// Contents that were found.
        what: String,
    },
}

/// Data that was found in a log.
#[derive(Debug)]
pub struct Found {
    /// The number of its record.
    pub sequence: u64,
    /// First byte on the SSD.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A record in a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) sequence: u64,
    /// Its place, counted without going round.
    pub(crate) at: u64,
    /// Bytes of its data.
    pub(crate) length: u64,
    /// First byte on the SSD; zero if it has no data of it.
    pub(crate) offset: u64,
}

/// A log that is open.
#[derive(Debug)]
pub struct OpenLog {
    pub(crate) head: Head,
    pub(crate) space: Space,
    pub(crate) next_sequence: u64,
    /// All of them, the oldest first.
    pub(crate) records: Vec<FoundRecord>,
    found: Vec<Found>,
    /// The latest data of each byte: number of the record.
    pub(crate) latest: Ranges<u64>,
    /// Ranges that are superseded only while the machine runs on: up to which record.
    pub(crate) superseded: Ranges<u64>,
    pub(crate) boot: [u8; 16],
    /// The log that was in the medium before, if this one was made over it.
    replaced: Option<[u8; 16]>,
}

impl OpenLog {
    /// Opens the log in `medium`, or makes one if the medium is blank.
    ///
    /// # Errors
    /// See [`LogError`]. Nothing was changed then, unless writing failed.
    pub fn open(medium: &mut dyn Medium, options: &LogOptions) -> Result<OpenLog, LogError> {
        let found = match read_head(medium)? {
            Ok(head) => head,
            Err(Refused::Foreign) if options.overwrite => return OpenLog::make(medium, options),
            Err(Refused::Foreign) if is_blank(medium)? => return OpenLog::make(medium, options),
            Err(Refused::Foreign) => return Err(LogError::Foreign),
            Err(Refused::Newer(version)) => return Err(LogError::Newer(version)),
            Err(Refused::Damaged) => {
                return Err(LogError::Damaged { at: 0, what: "no head is whole".to_owned() });
            }
        };
        let name = found.log;
        let make_over = |medium: &mut dyn Medium| {
            OpenLog::make(medium, options).map(|log| OpenLog { replaced: Some(name), ..log })
        };
        if found.is_void {
            return make_over(medium);
        }
        let mut log = OpenLog::scan(medium, found, options.boot)?;
        if log.head.identity != options.identity {
            if !log.latest.is_empty() {
                let (found, wanted) = (log.head.identity, options.identity.clone());
                return Err(LogError::OtherSsd { found, wanted, records: log.records.len() as u64 });
            }
            return make_over(medium);
        }
        if log.head.size != options.size {
            if !log.latest.is_empty() {
                return Err(LogError::OtherSize { found: log.head.size, wanted: options.size });
            }
            return make_over(medium);
        }
        if let Some(entry) = log.latest.iter().find(|entry| entry.end > options.device_size) {
            let what = format!("data of byte {} of an SSD of {} bytes", entry.start, options.device_size);
            return Err(LogError::Damaged { at: AREA, what });
        }
        log.head.generation += 1;
        log.head.epoch += 1;
        log.write_head(medium)?;
        Ok(log)
    }

    fn make(medium: &mut dyn Medium, options: &LogOptions) -> Result<OpenLog, LogError> {
        assert!((SIZE_MIN..=SIZE_MAX).contains(&options.size), "a log of {} bytes", options.size);
        let head = Head {
            log: options.name,
            generation: 1,
            epoch: 1,
            size: options.size,
            tail: 0,
            tail_sequence: 0,
            durable_before: 0,
            is_void: false,
            identity: options.identity.clone(),
        };
        let mut log = OpenLog {
            space: Space::new(head.size, 0, 0),
            next_sequence: 0,
            records: Vec::new(),
            found: Vec::new(),
            latest: Ranges::default(),
            superseded: Ranges::default(),
            boot: options.boot,
            replaced: None,
            head,
        };
        // Both places: a head of an earlier log must not be found again.
        log.write_head(medium)?;
        log.head.generation += 1;
        log.write_head(medium)?;
        Ok(log)
    }

    fn write_head(&self, medium: &mut dyn Medium) -> Result<(), LogError> {
        medium.write_durably(self.head.place(), &self.head.encode()).map_err(failed("written"))
    }

    /// Reads the records that count.
    fn scan(medium: &mut dyn Medium, head: Head, boot: [u8; 16]) -> Result<OpenLog, LogError> {
        let area = area_of(head.size);
        let (mut next, mut sequence, mut epoch) = (head.tail, head.tail_sequence, 0);
        let (mut latest, mut superseded) = (Ranges::default(), Ranges::default());
        let (mut records, mut found) = (Vec::new(), Vec::new());
        while next - head.tail < area {
            let (at, record, data) = match read_record(medium, &head, (next, sequence, epoch))? {
                Ok(read) => read,
                Err((at, what)) if sequence < head.durable_before => {
                    let what = format!("record {sequence} {what}");
                    return Err(LogError::Damaged { at: AREA + at % area, what });
                }
                Err(_) => break,
            };
            epoch = record.epoch;
            let length = record.length;
            let mut found_record = FoundRecord { sequence, at, length, offset: 0 };
            match record.kind {
                RecordKind::Data { offset } => {
                    found_record.offset = offset;
                    latest.insert(offset, offset + record.length, sequence);
                    superseded.remove(offset, offset + record.length);
                    found.push(Found { sequence, offset, bytes: data });
                }
                RecordKind::Superseded { ranges } => {
                    for range in decode_ranges(&data, ranges) {
                        drop_old(&mut latest, range);
                        drop_old(&mut superseded, range);
                    }
                }
                RecordKind::SupersededSince { ranges, boot: since } if since == boot && boot != [0; 16] => {
                    for range in decode_ranges(&data, ranges) {
                        for entry in drop_old(&mut latest, range) {
                            superseded.insert(entry.start, entry.end, range.up_to);
                        }
                    }
                }
                RecordKind::SupersededSince { .. } => {}
            }
            records.push(found_record);
            (next, sequence) = (at + BLOCK + length, sequence + 1);
        }
        let live: std::collections::HashSet<u64> = latest.iter().map(|entry| entry.value).collect();
        found.retain(|found| live.contains(&found.sequence));
        let space = Space::new(head.size, head.tail, next);
        let replaced = None;
        Ok(OpenLog {
            space,
            next_sequence: sequence,
            records,
            found,
            latest,
            superseded,
            boot,
            replaced,
            head,
        })
    }

    /// Takes the data that the SSD does not have yet. The caller keeps it, by the numbers of its records.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// Where the blocks of all records lie in the log that were durable when it was opened.
    pub fn durable_blocks(&self) -> impl Iterator<Item = u64> + '_ {
        let durable = self.records.iter().filter(|record| record.sequence < self.head.durable_before);
        durable.flat_map(|record| {
            let first = self.space.physical(record.at);
            (0..=record.length / BLOCK).map(move |block| first + block * BLOCK)
        })
    }

    /// Its name, which no other log has.
    pub fn name(&self) -> [u8; 16] {
        self.head.log
    }

    /// The number of this opening: higher than that of every earlier one of this log.
    pub fn epoch(&self) -> u64 {
        self.head.epoch
    }

    /// Whether it has all data that the opening `epoch` of log `name` may have had: it is a later opening of that log, or was made over
    /// it after all of its data had been written to the SSD.
    pub fn follows(&self, name: [u8; 16], epoch: u64) -> bool {
        self.replaced == Some(name) || self.head.log == name && self.head.epoch > epoch
    }

    /// Bytes that the SSD does not have yet.
    pub fn pending(&self) -> u64 {
        self.latest.iter().map(|entry| entry.length()).sum()
    }
}

/// The latest head; why there is none.
fn read_head(medium: &mut dyn Medium) -> Result<Result<Head, Refused>, LogError> {
    let mut blocks = vec![0; AREA as usize];
    medium.read(0, &mut blocks).map_err(failed("read"))?;
    let mut reason = Refused::Foreign;
    let mut best: Option<Head> = None;
    for block in blocks.chunks_exact(BLOCK as usize) {
        match Head::decode(block) {
            Ok(head) if best.as_ref().is_none_or(|best| head.generation > best.generation) => {
                best = Some(head);
            }
            Ok(_) | Err(Refused::Foreign) => {}
            Err(refused) => reason = refused,
        }
    }
    Ok(best.ok_or(reason))
}

fn is_blank(medium: &mut dyn Medium) -> Result<bool, LogError> {
    let mut blocks = vec![0; AREA as usize];
    medium.read(0, &mut blocks).map_err(failed("read"))?;
    Ok(blocks.iter().all(|byte| *byte == 0))
}

/// Removes the data that is not newer than `range` says from its place, and returns it.
fn drop_old(ranges: &mut Ranges<u64>, range: Superseded) -> Vec<Entry<u64>> {
    let is_old = |entry: &Entry<u64>| entry.value <= range.up_to;
    let old: Vec<Entry<u64>> = ranges.within(range.start, range.end).filter(is_old).collect();
    for entry in &old {
        ranges.remove(entry.start, entry.end);
    }
    old
}

type Read = (u64, RecordHead, Vec<u8>);

/// The record of a number, and its place; the expected place and the error if it is not whole.
fn read_record(
    medium: &mut dyn Medium,
    head: &Head,
    (next, sequence, epoch): (u64, u64, u64),
) -> Result<Result<Read, (u64, String)>, LogError> {
    let area = area_of(head.size);
    let mut block = vec![0; BLOCK as usize];
    let mut read = |at: u64| -> Result<Result<RecordHead, String>, LogError> {
        medium.read(AREA + at % area, &mut block).map_err(failed("read"))?;
        Ok(match RecordHead::decode(&block) {
            Ok(record) if record.log != head.log || record.sequence != sequence => {
                Err("is not there".to_owned())
            }
            Ok(record) if record.epoch > head.epoch => {
                let what = format!("record {sequence} is later than the head");
                return Err(LogError::Damaged { at: AREA + at % area, what });
            }
            Ok(record) if record.epoch < epoch => Err("is of an earlier time".to_owned()),
            Ok(record) if record.length > DATA_MAX || !record.length.is_multiple_of(BLOCK) => {
                Err(format!("is {} bytes long", record.length))
            }
            Ok(record) => Ok(record),
            Err(Refused::Newer(version)) => Err(format!("has format {version}")),
            Err(_) => Err("is not whole".to_owned()),
        })
    };
    let mut at = next;
    let mut record = read(at)?;
    let start = next + area - next % area;
    // A longer one may not have fitted before the end.
    if record.is_err() && start - next < BLOCK + DATA_MAX && start - head.tail < area {
        let other = read(start)?;
        if other.as_ref().is_ok_and(|other| begin(area, next, BLOCK + other.length) == start) {
            (at, record) = (start, other);
        }
    }
    let record = match record {
        Ok(record) if at % area + BLOCK + record.length <= area => record,
        Ok(_) => return Ok(Err((at, "goes beyond the end".to_owned()))),
        Err(what) => return Ok(Err((at, what))),
    };
    let mut data = vec![0; record.length as usize];
    medium.read(AREA + at % area + BLOCK, &mut data).map_err(failed("read"))?;
    if crc32c(&data) != record.crc {
        return Ok(Err((at, "has changed data".to_owned())));
    }
    Ok(Ok((at, record, data)))
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> LogError {
    move |error| LogError::Medium { step, error }
}
