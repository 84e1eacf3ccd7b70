//! One database: threads with their operations, the log, flushes and compactions, as IOs.
//!
//! ```text
//!   thread:  blocks to read, one after the other ─► joins a group of the log, if it writes ─► done ─► next operation
//!   log:     one group at a time; all that came meanwhile are the next one
//!   job:     reads and writes in turn, a few at a time
//! ```
//!
//! It asks for IOs (`asked`) and is told when one has ended. When a memtable is full and another one still waits for its flush, writes
//! stall, as in RocksDB.

use crate::files::{Extent, Files, MICRO_SLOTS, Pair, SLOT};
use crate::path::Path;
use crate::results::Results;
use crate::world::World;
use blob::steer::Steering;
use blob::{Place, SsdId};
use lsm::{Block, Job, JobKind, Lsm};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Nanos};
use ycsb::{Generator, Keys, Kind, Operation, Workload};

/// Largest IO of a flush or compaction.
const CHUNK: u64 = 32;
/// IOs of a flush or compaction that are on their way.
const DEPTH: u32 = 8;

/// What an IO is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A read of this thread.
    Read(usize),
    /// A group of the log.
    Log,
    /// A flush (0) or compaction (1).
    Job(usize),
}

/// An IO that a database asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) place: Place,
    pub(crate) first: u64,
    pub(crate) slots: u64,
    pub(crate) is_read: bool,
    pub(crate) task: Task,
}

impl Asked {
    /// Bytes to be written.
    pub(crate) fn written(&self) -> u64 {
        if self.is_read { 0 } else { self.slots * SLOT }
    }
}

struct Thread {
    operation: Operation,
    begun: Instant,
    reads: VecDeque<Block>,
}

#[derive(Default)]
struct Log {
    waiting: VecDeque<usize>,
    group: Vec<usize>,
    outstanding: u32,
    /// Pairs of each memtable's log, the newest last.
    segments: VecDeque<Vec<Pair>>,
    /// Slots that are used of the last pair.
    used: u64,
}

struct Running {
    job: Job,
    reads: VecDeque<Extent>,
    writes: VecDeque<Extent>,
    outstanding: u32,
}

/// A database with its client.
pub(crate) struct Database {
    pub(crate) paths: Vec<Path>,
    pub(crate) asked: Vec<Asked>,
    /// Threads that may begin their next operation.
    pub(crate) idle: Vec<usize>,
    pub(crate) copies_read: [u64; 2],
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
        database
    }

    fn load(&mut self) {
        while let Some(record) = self.keys.next_load() {
            self.lsm.put(self.workload.place(record));
            self.settle();
        }
        self.lsm.rotate();
        self.settle();
        self.log.segments.push_back(Vec::new());
    }

    /// Does all jobs at once, without IO.
    fn settle(&mut self) {
        while let Some(job) = self.lsm.next_flush().or_else(|| self.lsm.next_compaction()) {
            // Nothing is loaded yet: all SSDs are alike, and tables go round.
            let Database { files, paths, .. } = &mut *self;
            let count = paths.len() as u64;
            for &(table, bytes) in &job.writes {
                files.create(Instant::ZERO, table, bytes, |ssd| {
                    ((u64::from(ssd.0) + table.0 * 5) % count) as i64
                });
            }
            for table in self.lsm.finish(job) {
                self.files.remove(Instant::ZERO, table);
            }
        }
    }

    fn ask(&mut self, extent: Extent, copy: usize, is_read: bool, task: Task) {
        let Extent { pair, first, slots } = extent;
        self.asked.push(Asked { place: pair[copy], first, slots, is_read, task });
    }

    fn read(&mut self, now: Instant, extent: Extent, task: Task) {
        let loads = extent.pair.map(|place| (place.ssd, self.paths[place.ssd.0 as usize].load()));
        let copy = self.steering.read(now, loads);
        self.copies_read[copy] += 1;
        self.ask(extent, copy, true, task);
    }

    fn write(&mut self, extent: Extent, task: Task) {
        self.ask(extent, 0, false, task);
        self.ask(extent, 1, false, task);
    }

    /// A thread begins its next operation.
    pub(crate) fn begin(&mut self, now: Instant, thread: usize, results: Option<&mut Results>) {
        let operation = self.generator.next_operation();
        let reads = match operation.kind {
            Kind::Insert => Vec::new(),
            _ => self.lsm.get(self.workload.place(operation.record)).1,
        };
        self.threads[thread] = Some(Thread { operation, begun: now, reads: reads.into() });
        self.go_on(now, thread, results);
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
        if !self.log.group.is_empty() || self.log.waiting.is_empty() || self.lsm.is_stalled() {
            return;
        }
        self.log.group = self.log.waiting.drain(..).collect();
        let mut bytes = 0;
        for at in self.log.group.clone() {
            let record = self.threads[at].as_ref().expect("it writes").operation.record;
            let full = self.lsm.full_memtables();
            bytes += self.lsm.put(self.workload.place(record));
            if self.lsm.full_memtables() > full {
                self.log.segments.push_back(Vec::new());
                self.log.used = MICRO_SLOTS;
            }
        }
        let mut slots = bytes.div_ceil(SLOT);
        while slots > 0 {
            let segment = self.log.segments.back().expect("there is a log");
            if segment.is_empty() || self.log.used >= MICRO_SLOTS {
                let pair = self.new_pair(now);
                self.log.segments.back_mut().expect("there is a log").push(pair);
                self.log.used = 0;
            }
            let pair = *self.log.segments.back().and_then(|pairs| pairs.last()).expect("a pair");
            let now_slots = slots.min(MICRO_SLOTS - self.log.used);
            self.write(Extent { pair, first: self.log.used, slots: now_slots }, Task::Log);
            self.log.outstanding += 2;
            self.log.used += now_slots;
            slots -= now_slots;
        }
        self.start_jobs(now);
    }

    fn new_pair(&mut self, now: Instant) -> Pair {
        let Database { files, paths, steering, .. } = self;
        files.pair(now, |ssd| steering.rank(now, ssd, paths[ssd.0 as usize].load()))
    }

    /// Begins what is due in the background.
    fn start_jobs(&mut self, now: Instant) {
        while let Some((at, job)) = self.next_job() {
            let chunks =
                |extents: Vec<Extent>| -> VecDeque<Extent> { extents.iter().flat_map(cut).collect() };
            let reads =
                job.reads.iter().flat_map(|(table, bytes)| self.files.whole(*table, *bytes)).collect();
            let Database { files, paths, steering, .. } = &mut *self;
            let rank = |ssd: SsdId| steering.rank(now, ssd, paths[ssd.0 as usize].load());
            let writes = job.writes.iter().flat_map(|(table, bytes)| files.create(now, *table, *bytes, rank));
            let writes = chunks(writes.collect());
            self.jobs[at] = Some(Running { job, reads: chunks(reads), writes, outstanding: 0 });
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
            // What is written comes from what was read: both go on in proportion.
            let is_read = running.reads.len() >= running.writes.len();
            let extent = if is_read { running.reads.pop_front() } else { running.writes.pop_front() };
            match extent {
                Some(extent) if is_read => {
                    running.outstanding += 1;
                    self.read(now, extent, Task::Job(at));
                }
                Some(extent) => {
                    running.outstanding += 2;
                    self.write(extent, Task::Job(at));
                }
                None if running.outstanding > 0 => return,
                None => break,
            }
        }
        let Running { job, .. } = self.jobs[at].take().expect("it runs");
        let is_flush = job.kind == JobKind::Flush;
        for table in self.lsm.finish(job) {
            self.files.remove(now, table);
        }
        if is_flush {
            for pair in self.log.segments.pop_front().into_iter().flatten() {
                self.files.release(now, pair);
            }
        }
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
        self.steering.on_completion(now, asked.place.ssd, asked.is_read, asked.slots * SLOT, latency);
        match asked.task {
            Task::Read(at) => self.go_on(now, at, results),
            Task::Log => {
                self.log.outstanding -= 1;
                if self.log.outstanding == 0 {
                    for at in std::mem::take(&mut self.log.group) {
                        self.end(now, at, results.as_deref_mut());
                    }
                    self.append(now);
                }
            }
            Task::Job(at) => {
                self.jobs[at].as_mut().expect("it has IOs").outstanding -= 1;
                self.work(now, at);
            }
        }
        self.start_jobs(now);
    }
}

/// An extent in pieces of the largest IO.
fn cut(extent: &Extent) -> Vec<Extent> {
    let Extent { pair, first, slots } = *extent;
    let piece = |at: u64| Extent { pair, first: first + at, slots: CHUNK.min(slots - at) };
    (0..slots).step_by(CHUNK as usize).map(piece).collect()
}
