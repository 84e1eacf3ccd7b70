//! Records in their order, and which of them has the latest data of a range.

use super::{HostIo, Out, Step};
use crate::log::FoundRecord;
use crate::ranges::{Entry, Ranges};
use std::collections::VecDeque;

/// Which record has the latest data of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) sequence: u64,
    /// Whether the data is on the SSD, too.
    pub(super) is_clean: bool,
}

/// A diverted write, or a list of superseded ranges.
#[derive(Debug)]
pub(super) struct Record {
    /// In the log, counted without going round.
    pub(super) at: u64,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Bytes that are the latest data of their place.
    pub(super) live: u64,
    /// Live bytes that the SSD does not have.
    pub(super) dirty: u64,
    pub(super) state: RecordState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordState {
    /// The host waits.
    Writing(HostIo),
    /// It is in the store, behind one that is not.
    Written(HostIo),
    /// A list of superseded ranges on its way.
    Listing,
    /// It counts.
    Complete,
    /// It does not, and its memory is free.
    Dead,
}

/// All records of a stage, and the map of their data.
#[derive(Debug, Default)]
pub(super) struct Records {
    latest: Ranges<Kept>,
    /// The oldest first. The number of the first is `first`.
    records: VecDeque<Record>,
    first: u64,
    /// All records before this one are complete or dead.
    complete_before: u64,
    /// Bytes of all records in memory.
    kept: u64,
    /// Bytes that the SSD does not have.
    dirty: u64,
}

impl Records {
    /// The records found in a log, of which `first` is the first, and the map of their data.
    pub(super) fn found(found: Vec<FoundRecord>, latest: &Ranges<u64>, (first, next): (u64, u64)) -> Records {
        let mut all = Records { first, complete_before: next, ..Records::default() };
        for FoundRecord { sequence, at, length, offset } in found {
            assert_eq!(sequence, all.next(), "a log's records have no gaps");
            let state = RecordState::Dead;
            all.push(Record { at, offset, length, live: 0, dirty: 0, state });
        }
        for Entry { start, end, value: sequence } in latest.iter() {
            let record = all.get_mut(sequence);
            let is_first = std::mem::replace(&mut record.state, RecordState::Complete) == RecordState::Dead;
            let length = record.length;
            record.live += end - start;
            record.dirty += end - start;
            all.kept += if is_first { length } else { 0 };
            all.dirty += end - start;
            all.latest.insert(start, end, Kept { sequence, is_clean: false });
        }
        all
    }

    /// Which record has the latest data of each range.
    pub(super) fn latest(&self) -> &Ranges<Kept> {
        &self.latest
    }

    /// The number of the oldest record.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// The record before which all are complete or dead.
    pub(super) fn complete_before(&self) -> u64 {
        self.complete_before
    }

    /// Bytes of all records in memory.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Bytes that the SSD does not have.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record with this number, which exists.
    pub(super) fn get(&self, sequence: u64) -> &Record {
        &self.records[(sequence - self.first) as usize]
    }

    fn get_mut(&mut self, sequence: u64) -> &mut Record {
        &mut self.records[(sequence - self.first) as usize]
    }

    /// The record with this number, if it exists.
    pub(super) fn find(&self, sequence: u64) -> Option<&Record> {
        self.records.get((sequence - self.first) as usize)
    }

    /// Adds a record that is no diverted write.
    pub(super) fn push(&mut self, record: Record) {
        self.records.push_back(record);
    }

    /// Adds a diverted write, which takes memory.
    pub(super) fn divert(&mut self, io: HostIo, at: u64) {
        let (offset, length, state) = (io.offset, io.length, RecordState::Writing(io));
        self.push(Record { at, offset, length, live: 0, dirty: 0, state });
        self.kept += io.length;
    }

    /// Sets the state of a record.
    pub(super) fn set_state(&mut self, sequence: u64, state: RecordState) {
        self.get_mut(sequence).state = state;
    }

    /// Lists that were on their way are records without data.
    pub(super) fn kill_lists(&mut self) {
        for record in self.records.iter_mut().filter(|record| record.state == RecordState::Listing) {
            record.state = RecordState::Dead;
        }
    }

    /// Lets the next record count, if it may. Returns the write that it is, if it is one; `None` if none may.
    pub(super) fn complete_next(&mut self, out: &mut Out) -> Option<Option<HostIo>> {
        let sequence = self.complete_before;
        let state = self.find(sequence)?.state;
        let io = match state {
            RecordState::Writing(_) | RecordState::Listing => return None,
            RecordState::Complete | RecordState::Dead => None,
            RecordState::Written(io) => {
                let record = self.get_mut(sequence);
                record.state = RecordState::Complete;
                (record.live, record.dirty) = (io.length, io.length);
                self.dirty += io.length;
                let kept = Kept { sequence, is_clean: false };
                for entry in self.latest.insert(io.offset, io.end(), kept) {
                    self.drop_entry(out, entry);
                }
                Some(io)
            }
        };
        self.complete_before += 1;
        Some(io)
    }

    /// Drops the data of a range, for newer data. Returns the data that was there.
    pub(super) fn remove(&mut self, out: &mut Out, start: u64, end: u64) -> Vec<Entry<Kept>> {
        let removed: Vec<Entry<Kept>> = self.latest.remove(start, end).into_iter().collect();
        removed.iter().for_each(|entry| self.drop_entry(out, *entry));
        removed
    }

    /// Gives up data that the SSD has.
    pub(super) fn forget_clean(&mut self, out: &mut Out, start: u64, end: u64) {
        for entry in self.latest.remove(start, end) {
            assert!(entry.value.is_clean, "{entry:?} is only in the store");
            self.drop_entry(out, entry);
        }
    }

    /// Gives up all data that the SSD has.
    pub(super) fn forget_all_clean(&mut self, out: &mut Out) {
        let clean: Vec<_> = self.latest.iter().filter(|entry| entry.value.is_clean).collect();
        clean.iter().for_each(|entry| self.forget_clean(out, entry.start, entry.end));
    }

    /// Notes that the data of a record in this range is on the SSD. Returns these ranges.
    pub(super) fn clean(&mut self, sequence: u64, start: u64, end: u64) -> Vec<Entry<Kept>> {
        let kept = Kept { sequence, is_clean: false };
        let returned: Vec<Entry<Kept>> =
            self.latest.within(start, end).filter(|entry| entry.value == kept).collect();
        for Entry { start, end, .. } in returned.iter().copied() {
            self.dirty -= end - start;
            self.get_mut(sequence).dirty -= end - start;
            self.latest.insert(start, end, Kept { is_clean: true, ..kept });
        }
        returned
    }

    /// A range is not the latest data of its record any more.
    fn drop_entry(&mut self, out: &mut Out, entry: Entry<Kept>) {
        let (length, sequence) = (entry.length(), entry.value.sequence);
        let record = self.get_mut(sequence);
        record.live -= length;
        if !entry.value.is_clean {
            record.dirty -= length;
            self.dirty -= length;
        }
        if self.get(sequence).live == 0 {
            self.kill(out, sequence);
        }
    }

    /// A record does not count any more.
    pub(super) fn kill(&mut self, out: &mut Out, sequence: u64) {
        let record = self.get_mut(sequence);
        record.state = RecordState::Dead;
        self.kept -= record.length;
        out.push(Step::Forget { sequence });
    }

    /// Drops the dead records at the front: without a log they leave nothing behind.
    pub(super) fn trim(&mut self) {
        while self.first < self.complete_before
            && self.records.front().is_some_and(|record| record.state == RecordState::Dead)
        {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// Gives up the records before `tail`, and what of their data the SSD has.
    pub(super) fn release(&mut self, out: &mut Out, tail: u64) {
        for sequence in self.first..tail {
            let record = self.get(sequence);
            if record.state == RecordState::Complete {
                let (start, end) = (record.offset, record.offset + record.length);
                let own = |entry: &Entry<Kept>| entry.value.sequence == sequence;
                let entries: Vec<_> = self.latest.within(start, end).filter(own).collect();
                entries.iter().for_each(|entry| self.forget_clean(out, entry.start, entry.end));
            }
        }
        self.records.drain(..(tail - self.first) as usize);
        self.first = tail;
    }
}
