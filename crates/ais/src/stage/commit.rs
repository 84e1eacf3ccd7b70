//! Flushes, and how a log's space becomes free.
//!
//! ```text
//!   memory, or a failed log:  all is written back ─► flush of the SSD ─► answers (`failure`)
//!   log:  flush of the SSD ─► list of superseded ranges ─► flush of the log ─► head ─► answers, space is free
//!            (and, if there is no such list, of the log)
//! ```
//!
//! One commit serves all flushes that wait when it begins. Its steps are in this order because:
//!
//! - a record may be discarded only when its replacement is durable: the SSD's data, or a later record;
//! - a range is superseded only when the SSD's newer data is durable;
//! - the head says up to where records are durable, so they have to be.
//!
//! A durable write into the log waits for the log only.

use super::list::list_of;
use super::{Job, LogState, Mode, RELEASE_AFTER, Stage, Step};
use crate::format::{BLOCK, RANGES_PER_BLOCK, RecordKind, Superseded};
use crate::log::DATA_MAX;
use crate::ranges::Entry;
use units::Instant;

/// Clean data of one part in this number of a log's space is discarded even without a flush.
const RELEASED: u64 = 8;

/// A flush that waits for a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// The host's IO; `None` if the stage itself wants it.
    pub(super) tag: Option<u64>,
    /// Whether the SSD has to be flushed, too.
    pub(super) needs_drive: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The SSD is flushed, or the log, or both.
    Flushing,
    /// The list is on its way, or an earlier record.
    Listing,
    /// The log is flushed after the list.
    FlushingList,
    Head,
    /// The log of a failed device is marked.
    Voiding,
}

/// One commit.
#[derive(Debug)]
pub(super) struct Commit {
    flushes: Vec<Waiter>,
    phase: Phase,
    /// Steps of the phase that have not ended.
    left: u32,
    list: Vec<Superseded>,
    /// The number of the list.
    listed: u64,
    /// Up to where records are durable at its end.
    durable_before: u64,
    /// The record where the log begins at its end.
    tail: u64,
}

impl Stage {
    /// Begins a commit, or goes on with one.
    pub(super) fn commit(&mut self, now: Instant) {
        if let Some(commit) = &self.commit {
            if commit.phase == Phase::Listing && self.records.complete_before() > commit.listed {
                self.flush_list();
            }
            return;
        }
        match &self.mode {
            Mode::Memory | Mode::Failed(_) => self.commit_empty(),
            Mode::Log(_) => self.commit_log(now),
        }
    }

    /// Without a log: once nothing is kept that the SSD does not have.
    fn commit_empty(&mut self) {
        if !self.flushes.is_empty() && self.records.dirty() == 0 {
            self.begin(Vec::new(), (0, 0));
            self.flush_drive();
        }
    }

    fn commit_log(&mut self, now: Instant) {
        self.look_for_clean();
        if self.is_settling && self.records.dirty() > 0 {
            return;
        }
        let Mode::Log(log) = &self.mode else { unreachable!("asked of logs only") };
        let durable_before = log.head.durable_before;
        let data = self.superseded.len().div_ceil(RANGES_PER_BLOCK) as u64 * BLOCK;
        let fits = data == 0 || data <= DATA_MAX && log.space.needed(BLOCK + data) <= log.space.free();
        self.is_short = !fits || log.space.free() < log.reserve() / 2;
        let releases = self.wants_release(now);
        if self.flushes.is_empty() && !releases {
            return;
        }
        if !fits {
            // Space has to become free first. The flushes wait.
            if self.clean_before > self.records.first() {
                let waiting = std::mem::take(&mut self.flushes);
                self.begin(Vec::new(), (durable_before, self.clean_before));
                self.flushes = waiting;
                self.flush_drive();
                self.flush_store();
            }
            return;
        }
        let with_drive = releases || self.flushes.iter().any(|waiter| waiter.needs_drive);
        if with_drive {
            let list = list_of(&self.superseded);
            let has_list = !list.is_empty();
            self.begin(list, (durable_before, self.clean_before));
            self.flush_drive();
            if !has_list && self.records.complete_before() > durable_before {
                self.flush_store();
            }
        } else {
            self.begin(Vec::new(), (durable_before, self.records.first()));
            self.flush_store();
        }
    }

    fn begin(&mut self, list: Vec<Superseded>, (durable_before, tail): (u64, u64)) {
        let flushes = std::mem::take(&mut self.flushes);
        let phase = Phase::Flushing;
        self.commit = Some(Commit { flushes, phase, left: 0, list, listed: 0, durable_before, tail });
    }

    fn under_way(&mut self) -> &mut Commit {
        self.commit.as_mut().expect("a commit is under way")
    }

    fn flush_drive(&mut self) {
        self.under_way().left += 1;
        self.out.begin(Job::FlushDrive, |job| Step::FlushDrive { job });
    }

    fn flush_store(&mut self) {
        let complete_before = self.records.complete_before();
        let commit = self.under_way();
        commit.left += 1;
        commit.durable_before = complete_before;
        self.out.begin(Job::FlushStore, |job| Step::FlushStore { job });
    }

    pub(super) fn on_drive_flushed(&mut self, is_ok: bool) {
        let Some(commit) = &mut self.commit else { return };
        commit.left -= 1;
        if !is_ok {
            // Nothing may be discarded: all goes on as if the commit had not begun.
            let commit = self.commit.take().expect("it is there");
            self.out.keep_jobs(|job| *job != Job::FlushStore);
            return self.answer(commit.flushes, false);
        }
        self.after_flushes();
    }

    pub(super) fn on_store_flushed(&mut self) {
        self.under_way().left -= 1;
        self.after_flushes();
    }

    fn after_flushes(&mut self) {
        let commit = self.under_way();
        if commit.left > 0 {
            return;
        }
        if commit.phase == Phase::Flushing && !commit.list.is_empty() {
            return self.write_list();
        }
        self.write_head();
    }

    fn write_list(&mut self) {
        let list = std::mem::take(&mut self.under_way().list);
        let Mode::Log(log) = &self.mode else { unreachable!("only a log has a list") };
        let length = list.len().div_ceil(RANGES_PER_BLOCK) as u64 * BLOCK;
        if log.space.needed(BLOCK + length) > log.space.free() {
            // Diverted writes have taken the room since: the commit is over, and begins again when there is some.
            self.is_short = true;
            return self.abandon_commit();
        }
        let sequence = self.write_superseded(RecordKind::Superseded { ranges: list.len() as u32 }, &list);
        let commit = self.under_way();
        (commit.list, commit.phase, commit.listed) = (list, Phase::Listing, sequence);
    }

    /// The list and all records before it are in the log.
    fn flush_list(&mut self) {
        self.under_way().phase = Phase::FlushingList;
        self.flush_store();
    }

    fn write_head(&mut self) {
        if self.begin_voiding() {
            self.under_way().phase = Phase::Voiding;
            return;
        }
        let commit = self.commit.as_mut().expect("a commit is under way");
        let Mode::Log(log) = &mut self.mode else { return self.end_commit() };
        let (durable_before, tail) = (commit.durable_before, commit.tail);
        if log.head.durable_before == durable_before && log.head.tail_sequence == tail {
            return self.end_commit();
        }
        commit.phase = Phase::Head;
        let at = self.records.find(tail).map(|record| record.at);
        log.head.generation += 1;
        log.head.durable_before = durable_before.max(tail);
        log.head.tail_sequence = tail;
        log.head.tail = at.unwrap_or(log.space.next());
        let (at, bytes) = (log.head.place(), log.head.encode());
        self.out.begin(Job::Head, |job| Step::WriteStore { job, at, bytes });
    }

    /// The head is durable: the records that it discards are free.
    pub(super) fn on_head(&mut self) {
        let Mode::Log(LogState { head, .. }) = &self.mode else { return };
        let (tail, at) = (head.tail_sequence, head.tail);
        self.records.release(&mut self.out, tail);
        if let Mode::Log(log) = &mut self.mode {
            log.space.release(at);
        }
        self.end_commit();
    }

    fn end_commit(&mut self) {
        let commit = self.commit.take().expect("a commit is under way");
        for range in commit.list {
            let is_listed = |entry: &Entry<u64>| entry.value <= range.up_to;
            let listed: Vec<_> = self.superseded.within(range.start, range.end).filter(is_listed).collect();
            for entry in listed {
                self.superseded.remove(entry.start, entry.end);
                self.unlisted.remove(entry.start, entry.end);
            }
        }
        self.answer(commit.flushes, true);
    }

    /// Ends the commit that has waited for the first try to mark a log; whether there was one.
    pub(super) fn end_first_try(&mut self) -> bool {
        let has_waited = self.commit.as_ref().is_some_and(|commit| commit.phase == Phase::Voiding);
        if has_waited {
            self.end_commit();
        }
        has_waited
    }

    /// Gives those who wait for the next commit their answer.
    pub(super) fn end_flushes(&mut self, is_ok: bool) {
        let flushes = std::mem::take(&mut self.flushes);
        self.answer(flushes, is_ok);
    }

    fn answer(&mut self, flushes: Vec<Waiter>, is_ok: bool) {
        for tag in flushes.into_iter().filter_map(|waiter| waiter.tag) {
            self.out.finish(tag, is_ok);
        }
    }

    /// The commit under way is over without an end: its flushes wait for the next one.
    pub(super) fn abandon_commit(&mut self) {
        if let Some(commit) = self.commit.take() {
            self.flushes.extend(commit.flushes);
        }
    }

    fn look_for_clean(&mut self) {
        self.clean_before = self.clean_before.max(self.records.first());
        while self.clean_before < self.records.complete_before()
            && self.records.get(self.clean_before).dirty == 0
        {
            self.clean_before += 1;
        }
    }

    /// Whether clean data should be discarded now.
    fn wants_release(&self, now: Instant) -> bool {
        let Mode::Log(log) = &self.mode else { return false };
        if self.clean_before == self.records.first() {
            return false;
        }
        let first = self.records.find(self.records.first()).map_or(0, |record| record.at);
        let next = self.records.find(self.clean_before);
        let clean = next.map_or(log.space.next(), |record| record.at) - first;
        clean >= log.space.area() / RELEASED
            || self.is_short
            || self.is_settling
            || self.is_all_clean() && now.saturating_since(self.active_at) >= RELEASE_AFTER
    }

    /// Whether all that the log has is on the SSD as well.
    fn is_all_clean(&self) -> bool {
        self.clean_before == self.records.next()
    }

    /// When commits have to be looked at again.
    pub(super) fn commit_at(&self, _now: Instant) -> Option<Instant> {
        let waits = matches!(self.mode, Mode::Log(_)) && self.commit.is_none() && !self.records.is_empty();
        (waits && self.is_all_clean()).then(|| self.active_at + RELEASE_AFTER)
    }
}
