//! The machine: which core does what, who used how much of it, and who else was there.
//!
//! ```text
//!   client core    this process: the load generator, the in-process measures
//!   server core    whichever server is measured; all of its threads
//! ```
//!
//! Processor time is what the kernel's scheduler books per thread, in nanoseconds. What others did is what the machine was busy
//! (or was not given by its hypervisor, "steal") beyond what this process and its children used.

use anyhow::{Context, Result};
use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::time::{Duration, Instant};

/// In less than this, ticks tell nothing. A measure that took no longer has measured nothing either.
const SEEN_MIN: Duration = Duration::from_millis(100);

/// Where things run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) client: usize,
    pub(crate) server: usize,
}

impl Cores {
    /// The first and the last core that this process may use; the same if there is only one.
    pub(crate) fn choose() -> Result<Cores> {
        let allowed = sched_getaffinity(None).context("which processors may be used")?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let (Some(&client), Some(&server)) = (usable.first(), usable.last()) else {
            anyhow::bail!("no processor may be used")
        };
        Ok(Cores { client, server })
    }

    /// Runs `start` such that the processes it starts stay on the server's core; then this thread is on the client's.
    pub(crate) fn start_server<T>(self, start: impl FnOnce() -> T) -> Result<T> {
        pin(self.server)?;
        let started = start();
        pin(self.client)?;
        Ok(started)
    }

    /// Keeps this thread, and processes that it starts, on the client's core.
    pub(crate) fn pin_client(self) -> Result<()> {
        pin(self.client)
    }
}

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("this thread cannot be kept on processor {core}"))
}

/// Lets this process, and servers that it starts, have as many sockets as the system allows without asking.
pub(crate) fn allow_many_sockets() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).context("the limit of open files")
}

/// Processor time that all threads of a live process have had.
pub(crate) fn process_time(process: u32) -> Result<Duration> {
    let tasks = format!("/proc/{process}/task");
    let mut nanos = 0;
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let path = task?.path().join("schedstat");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let first = text.split(' ').next().and_then(|field| field.parse::<u64>().ok());
        nanos += first.with_context(|| format!("{}: {text:?}", path.display()))?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Processor time that this thread has had.
pub(crate) fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Resident memory of a process, in bytes. (`statm` would be cheaper to ask for, but lags behind by some pages per processor.)
pub(crate) fn resident(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|n| n.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} has no Rss"))? * 1024)
}

/// Watches what others do with the machine meanwhile.
pub(crate) struct Watch {
    began: Instant,
    machine: Duration,
    ours: Duration,
}

impl Watch {
    /// Begins to watch. No child process may be running.
    pub(crate) fn start() -> Result<Watch> {
        Ok(Watch { began: Instant::now(), machine: machine_time()?, ours: our_time()? })
    }

    /// The part of all processors' time that others had. All children must have ended.
    pub(crate) fn others(&self) -> Result<f64> {
        let elapsed = self.began.elapsed();
        if elapsed < SEEN_MIN {
            return Ok(0.0);
        }
        let busy = machine_time()?.saturating_sub(self.machine);
        let ours = our_time()?.saturating_sub(self.ours);
        Ok(busy.saturating_sub(ours).as_secs_f64() / elapsed.as_secs_f64() / online()? as f64)
    }
}

/// Processors that the machine has.
fn online() -> Result<usize> {
    Ok(KernelStats::current().context("/proc/stat")?.cpu_time.len())
}

/// Time of all processors together that was not idle, the hypervisor's part included.
fn machine_time() -> Result<Duration> {
    let cpu = KernelStats::current().context("/proc/stat")?.total;
    // Guest time is part of user time.
    let busy = [
        cpu.user_duration(),
        cpu.nice_duration(),
        cpu.system_duration(),
        cpu.irq_duration().unwrap_or_default(),
        cpu.softirq_duration().unwrap_or_default(),
        cpu.steal_duration().unwrap_or_default(),
    ];
    Ok(busy.iter().sum())
}

/// Processor time of this process and of all its children that have ended.
fn our_time() -> Result<Duration> {
    let stat = Process::myself().and_then(|own| own.stat()).context("/proc/self/stat")?;
    let own = stat.utime + stat.stime;
    let children = u64::try_from(stat.cutime + stat.cstime).context("time of the children")?;
    Ok(Duration::from_secs_f64((own + children) as f64 / procfs::ticks_per_second() as f64))
}
