//! One database: threads with their operations, the log, flushes and compactions, as IOs.
//!
//! ```text
//!   thread:  blocks to read, one after the other ─► joins a group of the log, if it writes ─► done ─► next operation
//!   log:     one group at a time; all that came meanwhile are the next one
//!   job:     reads and writes in turn, a few at a time
//! ```
//!
//! It asks for IOs (`asked`), and each ends by a call. When a memtable is full and another one still waits for its flush, writes
//! stall, as in RocksDB.

use crate::asked::{Asked, Task};
use crate::files::{Extent, Files, MICRO_SLOTS, Pair, Piece, SLOT};
use crate::path::Path;
use crate::results::Results;
use crate::world::World;
use blob::SsdId;
use blob::steer::{Data, Steering};
use lsm::{Block, Job, JobKind, Lsm};
use sched::IoKind;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Nanos};
use ycsb::{Generator, Keys, Kind, Operation, Workload};

/// Largest IO of a flush or compaction.
const CHUNK: u64 = 32;
/// IOs of a flush or compaction that are on their way.
const DEPTH: u32 = 8;

/// IOs of a buffered log that may be outstanding before writers wait.
const LOG_DEPTH: u32 = 32;

/// Fillings of the cache before a run begins.
const CACHE_ROUNDS: u64 = 4;

struct Thread {
    operation: Operation,
    begun: Instant,
    reads: VecDeque<Block>,
}

#[derive(Default)]
struct Log {
    waiting: VecDeque<usize>,
    group: Vec<usize>,
    /// Not written yet.
    bytes: u64,
    outstanding: u32,
    /// Pairs of each memtable's log, the newest last.
    segments: VecDeque<Vec<Pair>>,
    /// Slots that are used of the last pair.
    used: u64,
}

struct Running {
    job: Job,
    reads: VecDeque<Extent>,
    writes: VecDeque<Piece>,
    outstanding: u32,
}

/// A database with its client.
pub(crate) struct Database {
    pub(crate) paths: Vec<Path>,
    pub(crate) asked: Vec<Asked>,
    /// Threads that may begin their next operation.
    pub(crate) idle: Vec<usize>,
    pub(crate) copies_read: [u64; 2],
    /// Threads with writes in the buffer of the log.
    logged: Vec<usize>,
    is_log_buffered: bool,
    number: usize,
    steering: Box<dyn Steering>,
    workload: Arc<Workload>,
    keys: Arc<Keys>,
    generator: Generator,
    lsm: Lsm,
    block: u64,
    files: Files,
    threads: Vec<Option<Thread>>,
    log: Log,
    jobs: [Option<Running>; 2],
}

impl Database {
    /// With all its records, as after a load.
    pub(crate) fn new(number: u32, world: &World, ssds: &[(SsdId, String)], paths: Vec<Path>) -> Database {
        let workload = Arc::new(world.workload.clone());
        let keys = Arc::new(Keys::new(&workload));
        let generator = Generator::new(Arc::clone(&workload), Arc::clone(&keys), world.seed, number);
        let mut steering = world.steering.start();
        steering.on_ssds(ssds);
        let mut database = Database {
            paths,
            asked: Vec::new(),
            idle: (0..world.threads as usize).collect(),
            copies_read: [0; 2],
            logged: Vec::new(),
            is_log_buffered: world.is_log_buffered,
            number: number as usize,
            steering,
            workload,
            keys,
            generator,
            lsm: Lsm::new(world.options),
            block: world.options.block_bytes(),
            files: Files::new(number, ssds),
            threads: (0..world.threads).map(|_| None).collect(),
            log: Log::default(),
            jobs: [None, None],
        };
        database.load();
        database.age(world.databases, &world.options);
        database
    }

    fn load(&mut self) {
        while let Some(record) = self.keys.next_load() {
            self.put(self.workload.place(record));
        }
        self.lsm.rotate();
        self.settle();
    }

    /// A write without IO.
    fn put(&mut self, key: u64) {
        self.lsm.put(key);
        if self.lsm.full_memtables() > 0 {
            self.settle();
        }
    }

    /// Operations without IO, as if the database had run for a while: its cache is warm, and it is so far in the cycle of its flushes and
    /// compactions of L0 as its number says. Else all databases would flush at the same time.
    fn age(&mut self, databases: u32, options: &lsm::Options) {
        let cycle = options.l0_trigger as u64 * options.puts_of_memtable();
        let mut puts = cycle * self.number as u64 / u64::from(databases);
        let mut gets = options.cache / self.block * CACHE_ROUNDS;
        let is_writing = self.workload.mix.read + self.workload.mix.scan < 1.0;
        while gets > 0 || is_writing && puts > 0 {
            let operation = self.generator.next_operation();
            let place = self.workload.place(operation.record);
            let (reads, writes) = match operation.kind {
                Kind::Read | Kind::Scan => (true, false),
                Kind::Update | Kind::ReadModifyWrite => (true, true),
                Kind::Insert => (false, true),
            };
            if reads && gets > 0 {
                gets -= 1;
                self.lsm.get(place);
            }
            if writes && puts > 0 {
                puts -= 1;
                self.put(place);
            }
            if operation.kind == Kind::Insert {
                self.keys.acknowledge(operation.record);
            }
        }
        self.log.segments.push_back(Vec::new());
    }

    /// Does all jobs at once, without IO.
    fn settle(&mut self) {
        while let Some(job) = self.lsm.next_flush().or_else(|| self.lsm.next_compaction()) {
            // Nothing is loaded yet, so all SSDs are alike.
            for &(table, bytes) in &job.writes {
                for piece in Files::pieces(table, bytes, MICRO_SLOTS) {
                    self.files.place(Instant::ZERO, piece, |_| 0);
                }
            }
            for table in self.lsm.finish(job) {
                for place in self.files.remove(table).into_iter().flatten() {
                    self.files.release(Instant::ZERO, place);
                }
            }
        }
    }

    fn read(&mut self, now: Instant, extent: Extent, task: Task) {
        let Extent { pair, first, slots } = extent;
        let copies = pair.map(|place| (place.ssd, self.paths[place.ssd.0 as usize].load(now)));
        let copy = self.steering.read(now, copies);
        self.copies_read[copy] += 1;
        let [(_, read), (other, left)] = [copies[copy], copies[1 - copy]];
        let instead = Some((other, [read, left]));
        self.asked.push(Asked { place: pair[copy], first, slots, kind: IoKind::Read, task, instead });
    }

    fn write(&mut self, extent: Extent, task: Task) {
        let Extent { pair, first, slots } = extent;
        let ask = |place| Asked { place, first, slots, kind: IoKind::Write, task, instead: None };
        self.asked.extend(pair.map(ask));
    }

    /// A thread begins its next operation.
    pub(crate) fn begin(&mut self, now: Instant, thread: usize, mut results: Option<&mut Results>) {
        let operation = self.generator.next_operation();
        let reads = match operation.kind {
            Kind::Insert => Vec::new(),
            _ => self.lsm.get(self.workload.place(operation.record)).1,
        };
        self.threads[thread] = Some(Thread { operation, begun: now, reads: reads.into() });
        self.go_on(now, thread, results.as_deref_mut());
        self.end_logged(now, results);
    }

    /// The next step of a thread's operation.
    fn go_on(&mut self, now: Instant, at: usize, results: Option<&mut Results>) {
        let thread = self.threads[at].as_mut().expect("it has an operation");
        if let Some(block) = thread.reads.pop_front() {
            // A compaction may have removed the table meanwhile; RocksDB would keep it until the read has ended.
            match self.files.block(block, self.block) {
                Some(extent) => self.read(now, extent, Task::Read(at)),
                None => self.go_on(now, at, results),
            }
        } else if matches!(thread.operation.kind, Kind::Read | Kind::Scan) {
            self.end(now, at, results);
        } else {
            self.log.waiting.push_back(at);
            self.append(now);
        }
    }

    fn end(&mut self, now: Instant, at: usize, results: Option<&mut Results>) {
        let Thread { operation, begun, .. } = self.threads[at].take().expect("it has an operation");
        if operation.kind == Kind::Insert {
            self.keys.acknowledge(operation.record);
        }
        if let Some(results) = results {
            results.record(self.number, operation.kind, now.since(begun));
        }
        self.idle.push(at);
    }

    /// Writes the next group of the log, if the last one is done and writes do not stall.
    fn append(&mut self, now: Instant) {
        let is_full = self.log.outstanding > if self.is_log_buffered { LOG_DEPTH } else { 0 };
        if is_full || self.log.waiting.is_empty() || self.lsm.is_stalled() {
            return;
        }
        let group: Vec<usize> = self.log.waiting.drain(..).collect();
        for at in &group {
            let record = self.threads[*at].as_ref().expect("it writes").operation.record;
            let full = self.lsm.full_memtables();
            self.log.bytes += self.lsm.put(self.workload.place(record));
            if self.lsm.full_memtables() > full {
                self.write_log(now, 1);
                self.log.segments.push_back(Vec::new());
                self.log.used = MICRO_SLOTS;
            }
        }
        if self.is_log_buffered {
            self.write_log(now, CHUNK);
            self.logged.extend(group);
        } else {
            self.write_log(now, 1);
            self.log.group = group;
        }
        self.start_jobs(now);
    }

    /// Writes the log's contents, unless they are less than this many slots.
    fn write_log(&mut self, now: Instant, least: u64) {
        let mut slots = self.log.bytes.div_ceil(SLOT);
        if slots < least {
            return;
        }
        self.log.bytes = 0;
        while slots > 0 {
            let segment = self.log.segments.back().expect("there is a log");
            if segment.is_empty() || self.log.used >= MICRO_SLOTS {
                let pair = self.new_pair(now);
                self.log.segments.back_mut().expect("there is a log").push(pair);
                self.log.used = 0;
            }
            let pair = *self.log.segments.back().and_then(|pairs| pairs.last()).expect("a pair");
            let now_slots = slots.min(MICRO_SLOTS - self.log.used).min(CHUNK);
            self.write(Extent { pair, first: self.log.used, slots: now_slots }, Task::Log);
            self.log.outstanding += 2;
            self.log.used += now_slots;
            slots -= now_slots;
        }
    }

    /// Ends the operations that need not wait for the log.
    fn end_logged(&mut self, now: Instant, mut results: Option<&mut Results>) {
        for at in std::mem::take(&mut self.logged) {
            self.end(now, at, results.as_deref_mut());
        }
    }

    /// As in a volume, what is not used any more is trimmed, and only then handed out again.
    fn trim(&mut self, freed: Vec<Pair>) {
        let ask = |place| Asked {
            place,
            first: 0,
            slots: MICRO_SLOTS,
            kind: IoKind::Management,
            task: Task::Trim,
            instead: None,
        };
        self.asked.extend(freed.into_iter().flatten().map(ask));
    }

    fn new_pair(&mut self, now: Instant) -> Pair {
        let Database { files, paths, steering, .. } = self;
        files.pair(now, |ssd| steering.rank(now, ssd, paths[ssd.0 as usize].load(now), Data::Log))
    }

    /// Begins the background work that is due.
    fn start_jobs(&mut self, now: Instant) {
        while let Some((at, job)) = self.next_job() {
            let reads = job.reads.iter().flat_map(|(table, bytes)| self.files.whole(*table, *bytes));
            let reads = reads.collect::<Vec<_>>().iter().flat_map(cut).collect();
            let writes =
                job.writes.iter().flat_map(|(table, bytes)| Files::pieces(*table, *bytes, CHUNK)).collect();
            self.jobs[at] = Some(Running { job, reads, writes, outstanding: 0 });
            self.work(now, at);
        }
    }

    fn next_job(&mut self) -> Option<(usize, Job)> {
        let flush = self.lsm.next_flush().map(|job| (0, job));
        flush.or_else(|| self.lsm.next_compaction().map(|job| (1, job)))
    }

    /// The next IOs of a job; its end if there are none left.
    fn work(&mut self, now: Instant, at: usize) {
        loop {
            let Some(running) = &mut self.jobs[at] else { return };
            if running.outstanding >= DEPTH {
                return;
            }
            // Written data comes from data that was read: both go on in proportion.
            let is_read = running.reads.len() >= running.writes.len();
            if is_read && let Some(extent) = running.reads.pop_front() {
                running.outstanding += 1;
                self.read(now, extent, Task::Job(at));
            } else if let Some(piece) = running.writes.pop_front() {
                running.outstanding += 2;
                let Database { files, paths, steering, .. } = &mut *self;
                let rank = |ssd: SsdId| steering.rank(now, ssd, paths[ssd.0 as usize].load(now), Data::Bulk);
                let extent = files.place(now, piece, rank);
                self.write(extent, Task::Job(at));
            } else if running.outstanding > 0 {
                return;
            } else {
                break;
            }
        }
        let Running { job, .. } = self.jobs[at].take().expect("it runs");
        let is_flush = job.kind == JobKind::Flush;
        let mut freed: Vec<Pair> =
            self.lsm.finish(job).into_iter().flat_map(|table| self.files.remove(table)).collect();
        if is_flush {
            freed.extend(self.log.segments.pop_front().into_iter().flatten());
        }
        self.trim(freed);
        self.append(now);
    }

    /// An IO has ended.
    pub(crate) fn on_io(
        &mut self,
        now: Instant,
        asked: &Asked,
        latency: Nanos,
        mut results: Option<&mut Results>,
    ) {
        if asked.kind != IoKind::Management {
            let is_read = asked.kind == IoKind::Read;
            self.steering.on_completion(now, asked.place.ssd, is_read, asked.slots * SLOT, latency);
        }
        match asked.task {
            Task::Read(at) => self.go_on(now, at, results.as_deref_mut()),
            Task::Log => {
                self.log.outstanding -= 1;
                if self.log.outstanding == 0 {
                    for at in std::mem::take(&mut self.log.group) {
                        self.end(now, at, results.as_deref_mut());
                    }
                }
                self.append(now);
            }
            Task::Trim => self.files.release(now, asked.place),
            Task::Stream => unreachable!("a database has no such IO"),
            Task::Job(at) => {
                self.jobs[at].as_mut().expect("it has IOs").outstanding -= 1;
                self.work(now, at);
            }
        }
        self.start_jobs(now);
        self.end_logged(now, results);
    }
}

/// An extent in pieces of the largest IO.
fn cut(extent: &Extent) -> Vec<Extent> {
    let Extent { pair, first, slots } = *extent;
    let piece = |at: u64| Extent { pair, first: first + at, slots: CHUNK.min(slots - at) };
    (0..slots).step_by(CHUNK as usize).map(piece).collect()
}
