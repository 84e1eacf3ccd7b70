//! Reads the discovery log page, which may change between two commands.
//!
//! ```text
//!   header > entries, as many at a time as fit > header again: same generation? done : from the start
//! ```
//!
//! NVM Express Base Specification: "Discovery Log Page".

use super::commands::AdminCommand;
use super::error::{Doing, HostError};
use crate::spec::Cqe;
use crate::spec::discovery::{DiscoveryEntry, DiscoveryHeader, RECORD_SIZE};
use crate::spec::log::{DISCOVERY, LogRequest};
use alloc::vec::Vec;
use units::Bytes;
use zerocopy::FromBytes;

/// Most entries to read: more than any real target lists. Bounds the memory.
const ENTRIES_MAX: u64 = 4096;
/// Maximum number of attempts to read a log page that changes while it is read.
const ATTEMPTS_MAX: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Entries,
    Check,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct DiscoveryReader {
    stage: Stage,
    attempts: u32,
    generation: u64,
    count: u64,
    at_a_time: u64,
    entries: Vec<DiscoveryEntry>,
}

impl DiscoveryReader {
    pub(super) fn new(transfer_max: Bytes) -> DiscoveryReader {
        DiscoveryReader {
            stage: Stage::Header,
            attempts: 0,
            generation: 0,
            count: 0,
            at_a_time: (transfer_max.get() / RECORD_SIZE as u64).max(1),
            entries: Vec::new(),
        }
    }

    /// The entries, once reading is complete.
    pub(super) fn done(&mut self) -> Option<Vec<DiscoveryEntry>> {
        (self.stage == Stage::Done).then(|| core::mem::take(&mut self.entries))
    }

    pub(super) fn command(&self) -> AdminCommand {
        let record = RECORD_SIZE as u64;
        let read = self.entries.len() as u64;
        let (offset, length) = match self.stage {
            Stage::Header | Stage::Check => (0, record),
            Stage::Entries => ((1 + read) * record, (self.count - read).min(self.at_a_time) * record),
            Stage::Done => unreachable!("a finished reader has no command"),
        };
        // Only the last read re-enables the event (RAE 0). Otherwise a change in between would not be
        // reported.
        let retain = self.stage != Stage::Check;
        AdminCommand::log(LogRequest { retain, ..LogRequest::read(DISCOVERY, offset, length) }, 0)
    }

    pub(super) fn on_answer(&mut self, cqe: &Cqe, data: &[u8]) -> Result<(), HostError> {
        if !cqe.status().is_success() {
            return Err(HostError::Failed(Doing::ReadingLog, cqe.status()));
        }
        let header = || match DiscoveryHeader::ref_from_prefix(data) {
            Ok((header, _)) => Ok(header),
            Err(_) => Err(HostError::ShortData(Doing::ReadingLog)),
        };
        self.stage = match self.stage {
            Stage::Header => {
                let header = header()?;
                self.attempts += 1;
                self.generation = header.generation.get();
                self.count = header.records.get().min(ENTRIES_MAX);
                self.entries.clear();
                if self.count == 0 { Stage::Check } else { Stage::Entries }
            }
            Stage::Entries => {
                let missing = self.count as usize - self.entries.len();
                let read = data.chunks_exact(RECORD_SIZE).take(missing);
                let before = self.entries.len();
                self.entries.extend(read.filter_map(|record| DiscoveryEntry::read_from_bytes(record).ok()));
                if self.entries.len() == before {
                    return Err(HostError::ShortData(Doing::ReadingLog));
                }
                if self.entries.len() as u64 == self.count { Stage::Check } else { Stage::Entries }
            }
            Stage::Check if header()?.generation.get() == self.generation => Stage::Done,
            Stage::Check if self.attempts < ATTEMPTS_MAX => Stage::Header,
            Stage::Check => return Err(HostError::DiscoveryUnsteady),
            Stage::Done => unreachable!("a finished reader got an answer"),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Sqe;
    use zerocopy::{FromZeros, IntoBytes};

    /// Answers the reader's command from a page of `records` empty entries with generation `generation`.
    fn answer(reader: &mut DiscoveryReader, generation: u64, records: u64) -> (Result<(), HostError>, Sqe) {
        let sqe = reader.command().sqe;
        let request = LogRequest::parse(&sqe);
        let header = DiscoveryHeader {
            generation: generation.into(),
            records: records.into(),
            ..DiscoveryHeader::new_zeroed()
        };
        let page = [header.as_bytes(), &vec![0; RECORD_SIZE * records as usize]].concat();
        let part = &page[request.offset as usize..][..request.length as usize];
        (reader.on_answer(&Cqe::success(0), part), sqe)
    }

    #[test]
    fn a_log_that_changes_meanwhile_is_read_again() {
        let mut reader = DiscoveryReader::new(Bytes::kib(4));
        for generation in [1, 1, 2] {
            assert_eq!(answer(&mut reader, generation, 3).0, Ok(()));
            assert_eq!(reader.done(), None, "the last header has another generation");
        }
        for _ in 0..2 {
            assert_eq!(answer(&mut reader, 2, 2).0, Ok(()));
        }
        let (result, sqe) = answer(&mut reader, 2, 2);
        assert_eq!((result, reader.done().map(|entries| entries.len())), (Ok(()), Some(2)));
        assert!(!LogRequest::parse(&sqe).retain, "the last read re-enables the event");
    }

    #[test]
    fn a_log_that_keeps_changing_is_given_up() {
        let mut reader = DiscoveryReader::new(Bytes::kib(4));
        let end = (0..1000).find_map(|generation| answer(&mut reader, generation, 0).0.err());
        assert_eq!(end, Some(HostError::DiscoveryUnsteady));
    }
}
