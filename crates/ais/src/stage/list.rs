//! Lists of superseded ranges: a log learns at once of which ranges the SSD has newer data.
//!
//! Otherwise the log would put old data over it when the program is killed and starts again, although hosts have their answers. The SSD
//! need not be flushed for that: as long as the machine runs on, it keeps its data. So the list names the start of the machine, and
//! counts only until the next one. After a power failure, the older data counts, unless a flush came between (`commit`).
//!
//! One list is on its way at a time. Ranges that are superseded meanwhile wait for the next one.

use super::records::{Record, RecordState};
use super::{Job, Mode, Stage, Step, Waiter};
use crate::format::{BLOCK, RANGES_PER_BLOCK, RecordKind, Superseded, encode_ranges};
use crate::log::DATA_MAX;
use crate::ranges::{Entry, Ranges};

/// A list on its way.
#[derive(Debug)]
pub(super) struct List {
    sequence: u64,
    tags: Vec<u64>,
}

/// The entries of a map as they are in a list.
pub(super) fn list_of(ranges: &Ranges<u64>) -> Vec<Superseded> {
    ranges.iter().map(|Entry { start, end, value }| Superseded { start, end, up_to: value }).collect()
}

impl Stage {
    /// Ends the list that is in the log, and sends the next one.
    pub(super) fn list_superseded(&mut self) {
        if let Some(list) = self.list.take_if(|list| list.sequence < self.records.complete_before()) {
            self.answer_listed(list.tags);
        }
        if self.list.is_some() || self.listing.is_empty() {
            return;
        }
        let tags = std::mem::take(&mut self.listing);
        if self.unlisted.is_empty() {
            return self.answer_listed(tags);
        }
        let Mode::Log(log) = &self.mode else { unreachable!("only a log has old data") };
        let boot = log.boot;
        let length = self.unlisted.len().div_ceil(RANGES_PER_BLOCK) as u64 * BLOCK;
        let has_room = length <= DATA_MAX && log.space.needed(BLOCK + length) <= log.space.free();
        if boot == [0; 16] || !has_room {
            // The ranges stay unlisted until the commit has listed them: later writes of them have to wait, too.
            let waits = |tag| Waiter { tag: Some(tag), needs_drive: true };
            return self.flushes.extend(tags.into_iter().map(waits));
        }
        let list = list_of(&std::mem::take(&mut self.unlisted));
        let ranges = list.len() as u32;
        let sequence = self.write_superseded(RecordKind::SupersededSince { ranges, boot }, &list);
        self.list = Some(List { sequence, tags });
    }

    /// Puts a list into the log, which has room for it, and returns the number of its record.
    pub(super) fn write_superseded(&mut self, kind: RecordKind, list: &[Superseded]) -> u64 {
        let Mode::Log(log) = &mut self.mode else { unreachable!("only a log has a list") };
        let data = encode_ranges(list);
        let length = data.len() as u64;
        let at = log.space.take(BLOCK + length);
        let sequence = self.records.next();
        let place = log.place(at, sequence, kind, length);
        let bytes = [&place.head(&data)[..], &data].concat();
        let state = RecordState::Listing;
        self.records.push(Record { at, offset: 0, length, live: 0, dirty: 0, state });
        self.out.begin(Job::Superseded(sequence), |job| Step::WriteStore { job, at: place.at, bytes });
        sequence
    }

    /// The log is void: the list ends.
    pub(super) fn forget_superseded(&mut self) {
        (self.superseded, self.unlisted) = (Ranges::default(), Ranges::default());
        let mut tags = std::mem::take(&mut self.listing);
        tags.extend(self.list.take().into_iter().flat_map(|list| list.tags));
        self.answer_listed(tags);
    }

    fn answer_listed(&mut self, tags: Vec<u64>) {
        for tag in tags {
            self.out.finish(tag, true);
        }
    }
}
