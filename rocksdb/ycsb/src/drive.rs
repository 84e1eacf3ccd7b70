//! Loads the databases and carries the workload out, with all threads of all databases at the same time.
//!
//! The first error of any thread ends all of them, and is what is answered.

use crate::instance::Instance;
use crate::measure::Latencies;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use ycsb::plan::{Phase, Plan, Report};
use ycsb::{Generator, Workload};

/// How often the progress is told.
const TOLD: Duration = Duration::from_millis(500);

/// What RocksDB is asked for at the end: its own traffic, by its own names.
const COUNTED: [&str; 9] = [
    "rocksdb.bytes.written",
    "rocksdb.bytes.read",
    "rocksdb.wal.bytes",
    "rocksdb.flush.write.bytes",
    "rocksdb.compact.read.bytes",
    "rocksdb.compact.write.bytes",
    "rocksdb.block.cache.miss",
    "rocksdb.block.cache.hit",
    "rocksdb.stall.micros",
];

/// When a phase ends, besides by itself.
struct End<'a> {
    /// Somebody outside, or a thread that has failed.
    stop: &'a AtomicBool,
    at: Option<Instant>,
}

impl End<'_> {
    fn has_come(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.at.is_some_and(|at| Instant::now() >= at)
    }
}

/// One thread's part of a phase: a step at a time, false when there is none left.
type Step<'a> = Box<dyn FnMut(&Instance, &mut Latencies) -> Result<bool, String> + Send + 'a>;

/// Runs a phase on all threads. Answers the latencies of each database, and when its last thread has ended.
fn phase<'a>(
    instances: &'a [Instance],
    threads: u32,
    end: &End<'_>,
    mut step: impl FnMut(&'a Instance, u32) -> Step<'a>,
    tell: impl Fn(u64),
) -> Result<Vec<(Latencies, Instant)>, String> {
    tell(0);
    let done = AtomicU64::new(0);
    let (ended, endings) = channel();
    thread::scope(|scope| {
        for (number, instance) in instances.iter().enumerate() {
            for thread in 0..threads {
                let step = step(instance, number as u32 * threads + thread);
                let (done, ended) = (&done, ended.clone());
                scope.spawn(move || work(number, instance, step, end, done, &ended));
            }
        }
        drop(ended);
        let mut all: Vec<_> = instances.iter().map(|_| (Latencies::default(), Instant::now())).collect();
        let mut failure = None;
        loop {
            match endings.recv_timeout(TOLD) {
                Ok((number, Ok(of_thread))) => {
                    all[number].0.add(&of_thread);
                    all[number].1 = Instant::now();
                }
                Ok((number, Err(error))) => {
                    end.stop.store(true, Ordering::Relaxed);
                    failure.get_or_insert(format!("{}: {error}", instances[number].name));
                }
                Err(RecvTimeoutError::Timeout) => tell(done.load(Ordering::Relaxed)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        failure.map_or(Ok(all), Err)
    })
}

/// What a thread has come to, with the number of its database.
type Ending = (usize, Result<Latencies, String>);

fn work(
    number: usize,
    instance: &Instance,
    mut step: Step<'_>,
    end: &End<'_>,
    done: &AtomicU64,
    ended: &Sender<Ending>,
) {
    let mut latencies = Latencies::default();
    let mut steps = || -> Result<(), String> {
        while !end.has_come() && step(instance, &mut latencies)? {
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let outcome = steps();
    // The other end waits for all threads.
    let _ = ended.send((number, outcome.map(|()| latencies)));
}

/// Inserts the records, and answers how long that took. Ends with the tables on the device: what a run reads is not in memory.
pub(crate) fn load(
    instances: &[Instance],
    workload: &Workload,
    plan: &Plan,
    stop: &AtomicBool,
    tell: impl Fn(Phase, u64, Option<u64>),
) -> Result<Duration, String> {
    let begun = Instant::now();
    let all = workload.insert_count * instances.len() as u64;
    let step = |instance: &Instance, thread| -> Step<'_> {
        // Loading draws from other streams than running.
        let mut generator = instance.generator(plan.seed ^ u64::MAX, thread);
        Box::new(move |instance, _| instance.load(&mut generator))
    };
    phase(instances, plan.threads, &End { stop, at: None }, step, |done| {
        tell(Phase::Loading, done, Some(all))
    })?;
    for instance in instances {
        instance.database.flush().map_err(|error| format!("{}: {error}", instance.name))?;
    }
    Ok(begun.elapsed())
}

/// Carries the workload out.
pub(crate) fn run(
    instances: &[Instance],
    workload: &Workload,
    plan: &Plan,
    stop: &AtomicBool,
    tell: impl Fn(Phase, u64, Option<u64>),
) -> Result<Report, String> {
    let measured_from = Instant::now() + Duration::from_millis(plan.ramp);
    let at = plan.runtime.map(|runtime| measured_from + Duration::from_millis(runtime));
    let all = (workload.operations > 0).then(|| workload.operations * instances.len() as u64);
    let step = |instance: &Instance, thread| -> Step<'_> {
        let mut generator = instance.generator(plan.seed, thread);
        Box::new(move |instance, latencies| operate(instance, &mut generator, latencies, measured_from))
    };
    let tell = |done| {
        let phase = if Instant::now() < measured_from { Phase::Ramp } else { Phase::Running };
        tell(phase, done, all);
    };
    let ended = phase(instances, plan.threads, &End { stop, at }, step, tell)?;
    let seconds_to = |end: Instant| end.saturating_duration_since(measured_from).as_secs_f64();
    let seconds = ended.iter().map(|(_, end)| seconds_to(*end)).fold(0.0, f64::max);
    let mut total = Latencies::default();
    ended.iter().for_each(|(of_instance, _)| total.add(of_instance));
    let of_instances = ended.iter().zip(instances);
    let mut report = Report {
        load: None,
        seconds,
        instances: of_instances
            .map(|((all, end), instance)| all.measured(&instance.name, seconds_to(*end)))
            .collect(),
        total: total.measured("all", seconds),
        ..Report::default()
    };
    for name in COUNTED {
        let counts = instances.iter().map(|instance| instance.database.counted(name));
        report.rocksdb.insert(name.to_owned(), counts.sum::<Result<u64, String>>()?);
    }
    Ok(report)
}

fn operate(
    instance: &Instance,
    generator: &mut Generator,
    latencies: &mut Latencies,
    measured_from: Instant,
) -> Result<bool, String> {
    if !instance.may_begin() {
        return Ok(false);
    }
    let (kind, begun) = instance.operate(generator, latencies)?;
    if begun >= measured_from {
        latencies.record(kind, begun.elapsed());
    }
    Ok(true)
}
