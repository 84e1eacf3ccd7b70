//! A whole run: finds the subsystem, measures each job alone if asked to, and runs all jobs together, on one or more threads.
//!
//! ```text
//!   caller's thread: discover ─► [each job alone] ─► threads ──ready──► start together ──intervals──► observer ─► Results
//!                                     └──────────── once per stage: jobs after a `stonewall` wait for those before it
//! ```
//!
//! Holds: an error that ends a run early does not lose the results so far (`a_target_that_is_lost_leaves_results`).

use crate::drive::{Drive, Part, Told};
use crate::error::BenchError;
use crate::job::Job;
use crate::observe::{Observer, Phase};
use crate::pace::Pacing;
use crate::results::{JobResult, Results};
use host::{Backend, Backoff, Discovered, Keys, Nqn, TransportType, Waker, discover};
use reactor::Clock;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// The time between the order to start and the start, so that all threads get it in time.
const START_DELAY: Nanos = Nanos::millis(5);
/// Interval at which the observer is asked whether the run is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Intervals of reconnects to a lost target: for about ten seconds.
const BACKOFF: Backoff = Backoff { first: Nanos::millis(100), longest: Nanos::secs(2), tries_max: Some(10) };
/// The host NQN that reads the discovery log.
const DISCOVERY_HOST: &str = "nqn.2025-01.io.gimbal:bench";

/// Where the load goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address of the target.
    pub address: SocketAddr,
    /// The transport by which it is reached there.
    pub transport: TransportType,
    /// The subsystem of jobs that name none; with `None` it is discovered, and the target must have exactly one.
    pub nqn: Option<String>,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Measured time, for callers that build their jobs in code; `None`: each job decides when it ends.
    pub runtime: Option<Nanos>,
    /// Time before measuring, for callers that build their jobs in code.
    pub ramp: Nanos,
    /// The length of an interval of the time series.
    pub interval: Nanos,
    /// The seed of everything random.
    pub seed: u64,
    /// Number of threads; the jobs are divided among them.
    pub threads: usize,
    /// The kernel interface for the network.
    pub backend: Backend,
    /// Measure each job alone first, unless its standalone bandwidth is known.
    pub standalone: bool,
    /// Protect PDU headers.
    pub header_digest: bool,
    /// Protect data.
    pub data_digest: bool,
    /// Obey the switch's credits.
    pub credits: bool,
    /// The keys by which the hosts of all jobs prove who they are.
    pub keys: Keys,
    /// A connection with an IO that takes longer is considered dead.
    pub io_timeout: Nanos,
    /// Reconnects to a lost target before the run fails.
    pub backoff: Backoff,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            runtime: Some(Nanos::secs(10)),
            ramp: Nanos::ZERO,
            interval: Nanos::secs(1),
            seed: 1,
            threads: 1,
            backend: Backend::Auto,
            standalone: false,
            header_digest: false,
            data_digest: false,
            credits: true,
            keys: Keys::default(),
            io_timeout: Nanos::secs(30),
            backoff: BACKOFF,
        }
    }
}

/// The information that all threads of a run share.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub address: SocketAddr,
    pub transport: TransportType,
    /// The subsystem of jobs that name none.
    pub nqn: Option<Nqn>,
    pub options: Options,
    pub tenants: usize,
    /// Marks the data that this run writes.
    pub run_mark: u64,
}

/// Runs `jobs` against `target`; `observer` watches. Blocks until the run is over.
pub fn run(
    jobs: &[Job],
    target: &Target,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Results, BenchError> {
    observer.on_phase(Phase::Connecting);
    let load = Load {
        address: target.address,
        transport: target.transport,
        nqn: find_subsystem(jobs, target, options)?,
        options: options.clone(),
        tenants: jobs.len(),
        run_mark: Clock.now().0,
    };
    let mut results = Results { address: target.address, jobs: Vec::new(), fatal: None, is_stopped: false };
    let jobs: Vec<(usize, Job)> = jobs.iter().cloned().enumerate().collect();
    for stage in jobs.chunk_by(|(_, one), (_, next)| one.stage == next.stage) {
        let load = Load { tenants: stage.len(), ..load.clone() };
        match run_stage(stage.to_vec(), &load, observer) {
            Ok(Outcome { results: jobs, fatal, is_stopped }) => {
                results.jobs.extend(jobs);
                (results.fatal, results.is_stopped) = (fatal, is_stopped);
            }
            Err(error) if results.jobs.is_empty() => return Err(error),
            Err(error) => results.fatal = Some(error),
        }
        if results.fatal.is_some() || results.is_stopped {
            break;
        }
    }
    Ok(results)
}

/// The results of jobs that ran together.
struct Outcome {
    /// In the order of the jobs.
    results: Vec<JobResult>,
    /// The error that ended them early.
    fatal: Option<BenchError>,
    /// The observer ended them.
    is_stopped: bool,
}

/// Runs the jobs of a stage: first each alone, if asked to, then all together.
fn run_stage(
    mut jobs: Vec<(usize, Job)>,
    load: &Load,
    observer: &mut dyn Observer,
) -> Result<Outcome, BenchError> {
    if load.options.standalone {
        for (number, job) in jobs.iter_mut().filter(|(_, job)| job.standalone.is_none()) {
            let alone = run_alone(*number, job, load, observer)?;
            job.standalone = Some(alone.bandwidth_total() as u64);
        }
    }
    let spans = jobs.iter().map(|(_, job)| match load.options.runtime {
        Some(runtime) => Some(load.options.ramp + runtime),
        None => job.stop,
    });
    let span = spans.collect::<Option<Vec<Nanos>>>().and_then(|spans| spans.into_iter().max());
    observer.on_phase(Phase::Running { span });
    run_together(jobs, load, observer)
}

/// The subsystem of jobs that name none.
fn find_subsystem(jobs: &[Job], target: &Target, options: &Options) -> Result<Option<Nqn>, BenchError> {
    let name = |text: &str| Nqn::new(text).map_err(|error| BenchError::Nqn(text.to_string(), error));
    if let Some(text) = &target.nqn {
        return name(text).map(Some);
    }
    if jobs.iter().all(|job| job.nqn.is_some()) {
        return Ok(None);
    }
    // A target lists only what the host may use. So ask as the first tenant, if it has its own host NQN.
    let host = name(jobs.first().and_then(|job| job.host_nqn.as_deref()).unwrap_or(DISCOVERY_HOST))?;
    let place = (target.transport, target.address);
    let mut found = discover(options.backend, place, (&host, host::host_id(&host)), options.keys.clone())
        .map_err(BenchError::Discover)?;
    found.sort_by(|a, b| a.subsystem.cmp(&b.subsystem));
    found.dedup_by(|a, b| a.subsystem == b.subsystem);
    let has_key = options.keys.tls.is_some();
    match &found[..] {
        [] => Err(BenchError::NoSubsystem(target.address)),
        [only] if only.needs_tls && !has_key => {
            Err(BenchError::NeedsTls(target.address, only.subsystem.as_str().to_owned()))
        }
        [only] => Ok(Some(only.subsystem.clone())),
        several => {
            let note = |found: &Discovered| if found.needs_tls { " (needs TLS)" } else { "" };
            let names = several.iter().map(|found| format!("{}{}", found.subsystem, note(found))).collect();
            Err(BenchError::SeveralSubsystems(target.address, names))
        }
    }
}

/// Runs one job alone, for the whole run, at its own depth and without its timetable.
fn run_alone(
    number: usize,
    job: &Job,
    load: &Load,
    observer: &mut dyn Observer,
) -> Result<JobResult, BenchError> {
    let (job, options) = alone(job, &load.options);
    let span = options.ramp + options.runtime.expect("a job alone has one");
    observer.on_phase(Phase::Alone { job: number, span });
    let load = Load { options, ..load.clone() };
    let Outcome { mut results, fatal, .. } = run_together(vec![(number, job)], &load, observer)?;
    match fatal {
        Some(error) => Err(error),
        None => Ok(results.pop().expect("one job has one result")),
    }
}

/// A job as it runs alone, and the options of that run: it is measured for as long as it would be beside the others, after the longer
/// of the two ramps.
fn alone(job: &Job, options: &Options) -> (Job, Options) {
    let own = || job.stop.map(|stop| stop.saturating_sub(job.start + job.ramp));
    let runtime = options.runtime.or_else(own).unwrap_or(Nanos::secs(10));
    let options =
        Options { runtime: Some(runtime), ramp: options.ramp.max(job.ramp), threads: 1, ..options.clone() };
    let pacing = match job.pacing {
        Pacing::Timed(_) => Pacing::Closed,
        other => other,
    };
    let job = Job {
        start: Nanos::ZERO,
        ramp: Nanos::ZERO,
        stop: None,
        time_based: true,
        pacing,
        verify: false,
        latency_target: None,
        ..job.clone()
    };
    (job, options)
}

/// The messages from a thread to the caller's thread.
enum Message {
    /// Its jobs are connected. It waits for the moment to start.
    Ready { start: mpsc::Sender<Instant>, waker: Waker },
    /// A report for the observer.
    Told(Told),
    /// A note for the observer.
    Note(String),
    /// The thread has finished: the results of its jobs, and what went wrong.
    Done(Vec<(usize, JobResult)>, Option<BenchError>),
}

/// Runs jobs (each with its number) at the same time.
fn run_together(
    jobs: Vec<(usize, Job)>,
    load: &Load,
    observer: &mut dyn Observer,
) -> Result<Outcome, BenchError> {
    let threads = load.options.threads.clamp(1, jobs.len().max(1));
    let mut parts: Vec<Vec<(usize, Job)>> = vec![Vec::new(); threads];
    jobs.into_iter().enumerate().for_each(|(index, job)| parts[index % threads].push(job));
    let stop = AtomicBool::new(false);
    let (say, hear) = mpsc::channel();
    thread::scope(|scope| {
        for part in parts {
            let (say, stop) = (say.clone(), &stop);
            scope.spawn(move || {
                let (results, fatal) = match work(load, part, stop, &say) {
                    Ok(outcome) => outcome,
                    Err(error) => (Vec::new(), Some(error)),
                };
                // The caller's thread receives until every thread has sent this.
                let _ = say.send(Message::Done(results, fatal));
            });
        }
        drop(say);
        attend(threads, &hear, &stop, observer)
    })
}

/// One thread's work.
fn work(
    load: &Load,
    jobs: Vec<(usize, Job)>,
    stop: &AtomicBool,
    say: &mpsc::Sender<Message>,
) -> Result<Part, BenchError> {
    let tell = |message| {
        // This fails only if the caller's thread has panicked; then the run does not matter.
        let _ = say.send(message);
    };
    let mut drive = Drive::connect(load, jobs)?;
    // All that takes time and memory is done before the common start.
    drive.prepare(load);
    drive.notes().into_iter().for_each(|note| tell(Message::Note(note)));
    let (start, started) = mpsc::channel();
    tell(Message::Ready { start, waker: drive.waker() });
    let mut moment = None;
    drive.idle_until(|| match started.try_recv() {
        Ok(at) => {
            moment = Some(at);
            true
        }
        Err(mpsc::TryRecvError::Empty) => false,
        Err(mpsc::TryRecvError::Disconnected) => true,
    })?;
    match moment {
        Some(start) => Ok(drive.run(load, start, stop, |told| tell(Message::Told(told)))),
        None => Ok((Vec::new(), None)),
    }
}

/// Starts the threads together, forwards their reports, and collects their results in the order of the jobs.
fn attend(
    threads: usize,
    hear: &mpsc::Receiver<Message>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Outcome, BenchError> {
    let mut waiting: Vec<(mpsc::Sender<Instant>, Waker)> = Vec::new();
    let mut running: Vec<Waker> = Vec::new();
    let mut results = Vec::new();
    let (mut failure, mut is_stopped) = (None, false);
    loop {
        if !is_stopped && observer.wants_end() {
            is_stopped = true;
            stop.store(true, Ordering::Relaxed);
            running.iter().for_each(Waker::wake);
        }
        let message = match hear.recv_timeout(LOOK) {
            Ok(message) => message,
            Err(mpsc::RecvTimeoutError::Timeout) => continue,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        };
        match message {
            Message::Ready { start, waker } => waiting.push((start, waker)),
            Message::Note(text) => observer.on_note(&text),
            Message::Told(Told::Interval(job, interval)) => {
                if let ControlFlow::Break(()) = observer.on_interval(job, &interval) {
                    is_stopped = true;
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Message::Told(Told::Verifying) => observer.on_phase(Phase::Verifying),
            Message::Done(part, error) => {
                results.extend(part);
                if let Some(error) = error {
                    stop.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
        }
        if failure.is_some() {
            // The dropped sender wakes threads that wait for the start: there is none.
            for (start, waker) in waiting.drain(..) {
                drop(start);
                waker.wake();
            }
        } else if waiting.len() == threads {
            let moment = Clock.now() + START_DELAY;
            for (start, waker) in waiting.drain(..) {
                // A thread that has ended already sent its error.
                let _ = start.send(moment);
                waker.wake();
                running.push(waker);
            }
        }
    }
    match failure {
        Some(error) if results.is_empty() => Err(error),
        fatal => {
            results.sort_by_key(|(number, _)| *number);
            Ok(Outcome {
                results: results.into_iter().map(|(_, result)| result).collect(),
                fatal,
                is_stopped,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_alone_is_measured_after_its_ramp_for_as_long_as_beside_others() {
        let [start, ramp, runtime] = [3, 5, 4].map(Nanos::secs);
        let job = Job { start, ramp, stop: Some(start + ramp + runtime), ..Job::named("a") };
        let (job, options) = alone(&job, &Options { runtime: None, ..Options::default() });
        assert_eq!((job.start, job.ramp, job.stop), (Nanos::ZERO, Nanos::ZERO, None));
        assert_eq!((options.ramp, options.runtime), (ramp, Some(runtime)));
        let asked = Options { ramp: Nanos::secs(6), runtime: Some(Nanos::secs(1)), ..Options::default() };
        let (_, options) = alone(&Job { ramp, ..job }, &asked);
        assert_eq!((options.ramp, options.runtime), (Nanos::secs(6), Some(Nanos::secs(1))));
    }
}
