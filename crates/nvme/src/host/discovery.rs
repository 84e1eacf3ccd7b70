//! Reading the discovery log: a page that may change between two commands.
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

/// Entries that are read: more than anybody lists, and a bound on memory.
const ENTRIES_MAX: u64 = 4096;
/// Times that a log which changes under us is read.
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

    /// What was read, once done.
    pub(super) fn done(&mut self) -> Option<Vec<DiscoveryEntry>> {
        (self.stage == Stage::Done).then(|| core::mem::take(&mut self.entries))
    }

    pub(super) fn command(&self) -> AdminCommand {
        let record = RECORD_SIZE as u64;
        let read = self.entries.len() as u64;
        let (offset, length) = match self.stage {
            Stage::Header | Stage::Check => (0, record),
            Stage::Entries => ((1 + read) * record, (self.count - read).min(self.at_a_time) * record),
            Stage::Done => unreachable!("a finished reader was asked for a command"),
        };
        // The event is let out again only by the last read, or a change in between would go untold.
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
            Stage::Done => unreachable!("an answer came to a finished reader"),
        };
        Ok(())
    }
}
