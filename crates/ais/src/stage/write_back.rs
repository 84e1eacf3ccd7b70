//! Diverted data goes to the SSD, the oldest first.

use super::records::{Kept, RecordState};
use super::{Job, Mode, Notice, Stage, Step};
use crate::gate::Pace;
use crate::ranges::Entry;
use probe::IoKind;
use units::{Instant, Nanos};

/// Pause before data that the SSD has refused is tried again.
const RETRY_AFTER: Nanos = Nanos::secs(1);

/// A range of a record on its way to the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Back {
    pub(super) sequence: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Back {
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

impl Stage {
    /// Starts the write-backs that may start.
    pub(super) fn write_back(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.retry_at = None;
        while let Some(back) = self.next_back() {
            let (length, under_way) = (back.end - back.start, self.backs.len() as u32);
            let pace = self.pace();
            // In this order, because many writes may be under way.
            if !self.gate.returns(now, length, self.records.dirty(), under_way, pace) || self.is_busy(back) {
                return;
            }
            self.queue.pop_front();
            self.gate.on_submit(now, IoKind::Write, length);
            let Back { sequence, start: offset, .. } = back;
            let from = offset - self.records.get(sequence).offset;
            let step = |job| Step::WriteBack { job, sequence, from, offset, length };
            self.backs.push((self.out.begin(Job::Back(back), step), back));
        }
    }

    /// Whether something else changes a part of the range.
    fn is_busy(&self, range: Back) -> bool {
        self.changing.iter().any(|io| range.overlaps(io.offset, io.end()))
            || self.backs.iter().any(|(_, other)| range.overlaps(other.start, other.end))
    }

    /// The urgency of write-back.
    fn pace(&self) -> Pace {
        let drains = match self.mode {
            Mode::Memory => !self.flushes.is_empty(),
            Mode::Log(_) => false,
            Mode::Failed(_) => true,
        };
        if drains || self.is_short || self.is_settling {
            Pace::Hurry
        } else if self.changing.is_empty() {
            Pace::HostsDone
        } else {
            Pace::HostsWait
        }
    }

    /// The next range that the SSD does not have.
    fn next_back(&mut self) -> Option<Back> {
        loop {
            if let Some(back) = self.queue.front().copied() {
                // Newer data may have taken a part of it since.
                let is_dirty =
                    |entry: &Entry<Kept>| entry.value == Kept { sequence: back.sequence, is_clean: false };
                let first = self.records.latest().within(back.start, back.end).find(is_dirty);
                let Some(Entry { start, end, .. }) = first else {
                    self.queue.pop_front();
                    continue;
                };
                if end < back.end {
                    self.queue.insert(1, Back { start: end, ..back });
                }
                self.queue[0] = Back { start, end, ..back };
                return self.queue.front().copied();
            }
            self.cursor = self.cursor.max(self.records.first());
            if self.cursor >= self.records.complete_before() {
                return None;
            }
            let sequence = self.cursor;
            self.cursor += 1;
            let record = self.records.get(sequence);
            if record.state == RecordState::Complete && record.dirty > 0 {
                let (start, end) = (record.offset, record.offset + record.length);
                self.queue.push_back(Back { sequence, start, end });
            }
        }
    }

    /// The SSD has taken data back, or refused it.
    pub(super) fn on_returned(&mut self, now: Instant, job: u64, back: Back, is_ok: bool) {
        self.gate.on_done(now, IoKind::Write);
        self.backs.retain(|(other, _)| *other != job);
        if is_ok {
            self.counters.returned_bytes += back.end - back.start;
            for Entry { start, end, .. } in self.records.clean(back.sequence, back.start, back.end) {
                if !matches!(self.mode, Mode::Log(_)) {
                    self.records.forget_clean(&mut self.out, start, end);
                }
            }
            self.trim();
        } else {
            self.out.notify(Notice::NotWrittenBack);
            self.retry_at = Some(now + RETRY_AFTER);
            self.queue.clear();
            self.cursor = self.cursor.min(back.sequence);
            if !matches!(self.mode, Mode::Log(_)) || self.is_settling {
                self.end_flushes(false);
            }
        }
        for io in std::mem::take(&mut self.waiting) {
            self.change(now, io);
        }
    }

    /// When write-back has to be looked at again.
    pub(super) fn write_back_at(&self, now: Instant) -> Option<Instant> {
        if self.records.dirty() == 0 || !self.backs.is_empty() {
            return None;
        }
        Some(self.retry_at.unwrap_or_else(|| self.gate.wake_at(now, self.records.dirty(), self.pace())))
    }
}
