//! The way of an IO through the stage.
//!
//! ```text
//!   write ─┬─ diverted: Keep ─► kept, in the order of the records ─► answered      read ─┬─ all of it kept: Serve
//!          └─ Drive ─► done: what was kept of that range is old                          └─ Drive, and what is kept is put over it
//! ```
//!
//! A map of ranges to *records* shows which data is kept. A record is one diverted write. A write-back of a range and a write of
//! that range are never on the SSD together: the later one waits.
//!
//! A read learns at its start which data is kept. If that goes back to the SSD meanwhile, they still get it.
//!
//! Holds: see the crate.
//! Elsewhere: the decisions are `gate`'s; write-back is in `write_back`; flushes, and the release of a log's space, in `commit`; the
//! list of newer data on the SSD, in `list`; the retirement of a store, in `failure`.

mod commit;
mod failure;
mod list;
mod out;
mod records;
mod step;
mod write_back;

pub use step::{Counters, HostIo, Notice, Op, Piece, Place, Step, Store};

use crate::format::{BLOCK, Head, RecordHead, RecordKind};
use crate::gate::Gate;
use crate::log::{DATA_MAX, OpenLog};
use crate::ranges::{Entry, Ranges};
use crate::space::Space;
use commit::{Commit, Waiter};
use failure::Voiding;
use list::List;
use out::Out;
use probe::IoKind;
use records::{Kept, RecordState, Records};
use std::collections::{HashMap, VecDeque};
use units::{Instant, Nanos};
use write_back::Back;

/// One part in this number of a log's space is reserved for lists of superseded ranges.
const RESERVE: u64 = 32;
/// Pause between the last IO and the emptying of a log with only clean data: before the SSD has begun to rest.
const RELEASE_AFTER: Nanos = Nanos::millis(2);

/// A log that works.
#[derive(Debug)]
struct LogState {
    head: Head,
    space: Space,
    boot: [u8; 16],
}

#[derive(Debug)]
enum Mode {
    Memory,
    Log(LogState),
    Failed(Voiding),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Back(Back),
    FlushDrive,
    FlushStore,
    Superseded(u64),
    Head,
    Void,
}

/// The stage of one SSD.
#[derive(Debug)]
pub struct Stage {
    gate: Gate,
    mode: Mode,
    /// Bytes of the store.
    size: u64,
    records: Records,
    /// Host IOs on the SSD.
    driven: HashMap<u64, HostIo>,
    /// Those that change it: range by tag.
    changing: Vec<HostIo>,
    /// Writes that wait for a write-back of their range.
    waiting: VecDeque<HostIo>,
    backs: Vec<(u64, Back)>,
    /// From here on records were not looked at for write-back.
    cursor: u64,
    /// Ranges of the record before that are to be written back.
    queue: VecDeque<Back>,
    retry_at: Option<Instant>,
    /// Ranges of which the log has old data, up to which record.
    superseded: Ranges<u64>,
    /// Everything before this record is clean: the log's tail may go there.
    clean_before: u64,
    /// The part of it that the log does not list.
    unlisted: Ranges<u64>,
    /// Host IOs that are answered when it was.
    listing: Vec<u64>,
    list: Option<List>,
    flushes: Vec<Waiter>,
    commit: Option<Commit>,
    is_short: bool,
    is_settling: bool,
    active_at: Instant,
    out: Out,
    counters: Counters,
}

impl Stage {
    /// A stage with nothing in flight. The caller has handled the records found in a log.
    pub fn new(gate: Gate, store: Store, now: Instant) -> Stage {
        let mut stage = Stage {
            gate,
            mode: Mode::Memory,
            size: 0,
            records: Records::default(),
            driven: HashMap::new(),
            changing: Vec::new(),
            waiting: VecDeque::new(),
            backs: Vec::new(),
            cursor: 0,
            queue: VecDeque::new(),
            retry_at: None,
            superseded: Ranges::default(),
            unlisted: Ranges::default(),
            listing: Vec::new(),
            list: None,
            clean_before: 0,
            flushes: Vec::new(),
            commit: None,
            is_short: false,
            is_settling: false,
            active_at: now,
            out: Out::default(),
            counters: Counters::default(),
        };
        match store {
            Store::Memory(size) => stage.size = size,
            Store::Log(log) => stage.take_over(*log),
        }
        stage
    }

    /// Continues with the records found in a log.
    fn take_over(&mut self, log: OpenLog) {
        self.size = log.head.size;
        let first = log.head.tail_sequence;
        self.records = Records::found(log.records, &log.latest, (first, log.next_sequence));
        (self.cursor, self.clean_before) = (first, first);
        self.superseded = log.superseded;
        self.mode = Mode::Log(LogState { head: log.head, space: log.space, boot: log.boot });
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        Counters { pending_bytes: self.records.dirty(), ..self.counters }
    }

    /// The decisions and the predictor.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Bytes of memory that records take.
    pub fn kept_bytes(&self) -> u64 {
        self.records.kept()
    }

    /// Whether nothing is diverted any more because the store has failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.mode, Mode::Failed(_))
    }

    /// The next step; `None` if there is none.
    pub fn next_step(&mut self) -> Option<Step> {
        self.out.next()
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.out.take_notices()
    }

    /// The end is near: nothing is diverted from now on, and a flush is over only when the SSD has everything and a log is empty.
    pub fn settle(&mut self) {
        self.is_settling = true;
    }

    /// A host's IO arrives. Its tag must be no other's that is under way.
    pub fn submit(&mut self, now: Instant, io: HostIo) {
        self.active_at = now;
        match io.op {
            Op::Read => self.read(now, io),
            Op::Write { .. } => {
                self.gate.on_host_write(now, io.length);
                // A write that replaces data in a log is best put there, too: otherwise it has to wait until the log knows that it is old.
                let replaces =
                    matches!(self.mode, Mode::Log(_)) && self.records.latest().overlaps(io.offset, io.end());
                let used = self.used();
                let replaces = replaces && !self.gate.is_pointless(used);
                if self.has_room(now, &io, replaces) && (replaces || self.gate.wants(now, io.length, used)) {
                    self.divert(io);
                } else {
                    self.change(now, io);
                }
            }
            Op::Discard | Op::WriteZeroes => self.change(now, io),
            Op::Flush => {
                self.gate.on_host_flush(now);
                let is_simple = self.records.latest().is_empty()
                    && self.superseded.is_empty()
                    && self.flushes.is_empty()
                    && self.commit.is_none()
                    && !self.is_voiding()
                    && !self.is_settling;
                if is_simple {
                    self.drive(io, Vec::new());
                } else {
                    self.flushes.push(Waiter { tag: Some(io.tag), needs_drive: true });
                }
            }
        }
        self.poll(now);
    }

    /// A host's IO has ended on the SSD.
    ///
    /// # Panics
    /// If it was not there.
    pub fn on_driven(&mut self, now: Instant, tag: u64, is_ok: bool) {
        self.active_at = now;
        let io = self.driven.remove(&tag).expect("an IO that ends on the SSD was there");
        match io.op {
            Op::Read => {
                self.gate.on_done(now, IoKind::Read);
                self.out.finish(tag, true);
            }
            Op::Flush => self.out.finish(tag, true),
            Op::Write { .. } | Op::Discard | Op::WriteZeroes => {
                self.gate.on_done(now, IoKind::Write);
                self.gate.on_host_done(now);
                self.changing.retain(|other| other.tag != tag);
                if is_ok {
                    self.supersede(&io);
                }
                let durable = io.op == (Op::Write { durable: true });
                let is_old_in_log = is_ok && self.superseded.overlaps(io.offset, io.end());
                if is_ok && durable && (is_old_in_log || self.is_voiding()) {
                    // After a power failure, the log would put older data over it.
                    self.flushes.push(Waiter { tag: Some(tag), needs_drive: true });
                } else if is_old_in_log {
                    self.listing.push(tag);
                } else {
                    self.out.finish(tag, true);
                }
            }
        }
        self.poll(now);
    }

    /// A record is in the store, or could not be put there.
    pub fn on_kept(&mut self, now: Instant, sequence: u64, is_ok: bool) {
        self.active_at = now;
        let record = self.records.get(sequence);
        let RecordState::Writing(io) = record.state else { panic!("record {sequence} is {record:?}") };
        self.records.set_state(sequence, RecordState::Written(io));
        if !is_ok {
            self.records.kill(&mut self.out, sequence);
            self.fail();
            self.change(now, io);
        }
        self.complete();
        self.poll(now);
    }

    /// A step with this job has ended.
    pub fn on_done(&mut self, now: Instant, job: u64, is_ok: bool) {
        match self.out.end(job) {
            // It belonged to a store that was retired.
            None => {}
            Some(Job::Back(back)) => self.on_returned(now, job, back, is_ok),
            Some(Job::Void) => self.on_voided(now, is_ok),
            Some(Job::FlushDrive) => self.on_drive_flushed(is_ok),
            Some(Job::FlushStore | Job::Head | Job::Superseded(_)) if !is_ok => self.fail(),
            Some(Job::FlushStore) => self.on_store_flushed(),
            Some(Job::Superseded(sequence)) => {
                // It counts, but there is nothing of it to keep.
                self.records.set_state(sequence, RecordState::Dead);
                self.complete();
            }
            Some(Job::Head) => self.on_head(),
        }
        self.poll(now);
    }

    /// Does the work that is due at `now`.
    pub fn poll(&mut self, now: Instant) {
        self.void_again(now);
        self.write_back(now);
        self.list_superseded();
        self.commit(now);
        // A write-back can wait for a commit, and the other way round.
        self.write_back(now);
    }

    /// When to call [`Stage::poll`] next, if nothing happens meanwhile.
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        [self.write_back_at(now), self.commit_at(now), self.void_at()].into_iter().flatten().min()
    }

    fn read(&mut self, now: Instant, io: HostIo) {
        let first_of = |sequence: u64| self.records.get(sequence).offset;
        let piece = |entry: Entry<Kept>| Piece {
            sequence: entry.value.sequence,
            from: entry.start - first_of(entry.value.sequence),
            to: entry.start - io.offset,
            length: entry.length(),
        };
        let pieces: Vec<Piece> = self.records.latest().within(io.offset, io.end()).map(piece).collect();
        if self.records.latest().covers(io.offset, io.end()) {
            self.counters.served += 1;
            self.out.push(Step::Serve { tag: io.tag, pieces });
        } else {
            self.gate.on_submit(now, IoKind::Read, io.length);
            self.drive(io, pieces);
        }
    }

    fn drive(&mut self, io: HostIo, over: Vec<Piece>) {
        assert!(self.driven.insert(io.tag, io).is_none(), "two IOs have the tag {}", io.tag);
        self.out.push(Step::Drive { tag: io.tag, over });
    }

    /// A change of the SSD itself, unless a write-back of that range is under way.
    fn change(&mut self, now: Instant, io: HostIo) {
        if self.backs.iter().any(|(_, back)| back.overlaps(io.offset, io.end())) {
            return self.waiting.push_back(io);
        }
        let bytes = if matches!(io.op, Op::Write { .. }) { io.length } else { 0 };
        self.gate.on_submit(now, IoKind::Write, bytes);
        self.changing.push(io);
        self.drive(io, Vec::new());
    }

    /// The share of the store that is in use.
    fn used(&self) -> f64 {
        match &self.mode {
            Mode::Memory => self.records.kept() as f64 / self.size as f64,
            Mode::Log(log) => 1.0 - log.space.free() as f64 / log.space.area() as f64,
            Mode::Failed(_) => 1.0,
        }
    }

    /// Whether the store could take a write.
    fn has_room(&self, now: Instant, io: &HostIo, replaces: bool) -> bool {
        let fits = io.length > 0
            && io.length <= DATA_MAX
            && io.offset.is_multiple_of(BLOCK)
            && io.length.is_multiple_of(BLOCK);
        let durable = io.op == (Op::Write { durable: true });
        fits && !self.is_settling
            && match &self.mode {
                Mode::Memory => {
                    // Each flush has to wait until the memory is empty.
                    !durable
                        && self.flushes.is_empty()
                        && !self.gate.was_flushed_lately(now)
                        && self.records.kept() + io.length <= self.size
                }
                Mode::Log(log) => {
                    let span = BLOCK + io.length;
                    let reserve = if replaces { log.reserve() / 2 } else { log.reserve() };
                    !self.is_short && log.space.needed(span) + reserve <= log.space.free()
                }
                Mode::Failed(_) => false,
            }
    }

    fn divert(&mut self, io: HostIo) {
        let sequence = self.records.next();
        let mut at = 0;
        let place = match &mut self.mode {
            Mode::Log(log) => {
                at = log.space.take(BLOCK + io.length);
                Some(log.place(at, sequence, RecordKind::Data { offset: io.offset }, io.length))
            }
            Mode::Memory => None,
            Mode::Failed(_) => unreachable!("a failed store has no room"),
        };
        self.records.divert(io, at);
        self.counters.diverted += 1;
        self.counters.diverted_bytes += io.length;
        self.out.push(Step::Keep { tag: io.tag, sequence, place });
    }

    /// Lets records count, in their order.
    fn complete(&mut self) {
        while let Some(completed) = self.records.complete_next(&mut self.out) {
            let Some(io) = completed else { continue };
            self.superseded.remove(io.offset, io.end());
            self.unlisted.remove(io.offset, io.end());
            if io.op == (Op::Write { durable: true }) {
                self.flushes.push(Waiter { tag: Some(io.tag), needs_drive: false });
            } else {
                self.out.finish(io.tag, true);
            }
        }
        self.trim();
    }

    /// The SSD has newer data of this range than the store.
    fn supersede(&mut self, io: &HostIo) {
        let removed = self.records.remove(&mut self.out, io.offset, io.end());
        if matches!(self.mode, Mode::Log(_)) {
            for entry in removed {
                let up_to = self.records.complete_before() - 1;
                self.superseded.insert(entry.start, entry.end, up_to);
                self.unlisted.insert(entry.start, entry.end, up_to);
            }
        }
        self.trim();
    }

    /// Without a log, dead records leave nothing behind. With one, they do until its tail has passed them.
    fn trim(&mut self) {
        if !matches!(self.mode, Mode::Log(_)) {
            self.records.trim();
        }
    }
}

impl LogState {
    /// Space reserved for lists of superseded ranges.
    fn reserve(&self) -> u64 {
        self.space.area() / RESERVE
    }

    fn place(&self, at: u64, sequence: u64, kind: RecordKind, length: u64) -> Place {
        let Head { log, epoch, .. } = self.head;
        let stamp = RecordHead { log, epoch, sequence, kind, length, crc: 0 };
        Place { at: self.space.physical(at), stamp }
    }
}
