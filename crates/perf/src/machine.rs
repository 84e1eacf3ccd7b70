//! The machine: which core does what, the CPU time of each process, and the load by others.
//!
//! ```text
//!   client core    this process: the load generator, the in-process measures
//!   server core    the server that is measured, with all its threads
//!   spread         all cores but the client's, for servers whose threads are to run at the same time
//! ```
//!
//! CPU time is what the kernel's scheduler books per thread, in nanoseconds. The load by others is the busy time of the machine
//! (including "steal", time that the hypervisor did not give it) beyond that of this process and its children.

use anyhow::{Context, Result};
use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::time::{Duration, Instant};

/// For shorter times, ticks are too coarse. A measure this short has measured nothing either.
const SEEN_MIN: Duration = Duration::from_millis(100);

/// The cores in use.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// Where servers run.
    servers: CpuSet,
    allowed: CpuSet,
}

impl Cores {
    /// The first and the last core that this process may use; the same if there is only one.
    pub(crate) fn choose() -> Result<Cores> {
        let allowed = sched_getaffinity(None).context("cannot read which CPUs may be used")?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        let (Some(&client), Some(&server)) = (usable.first(), usable.last()) else {
            anyhow::bail!("this process may use no CPU")
        };
        Ok(Cores { client, server, servers: only(server), allowed })
    }

    /// The same, but servers may use all cores except the client's, if there are others. Also returns how many these are.
    pub(crate) fn spread(self) -> (Cores, u32) {
        let mut servers = self.allowed;
        if servers.count() > 1 {
            servers.unset(self.client);
        }
        (Cores { servers, ..self }, servers.count())
    }

    /// Runs `start` so that the processes it starts stay on the server's core. Afterwards this thread is on the client's core.
    pub(crate) fn start_server<T>(self, start: impl FnOnce() -> T) -> Result<T> {
        pin(&self.servers)?;
        let started = start();
        self.pin_client()?;
        Ok(started)
    }

    /// Keeps this thread, and processes that it starts, on the client's core.
    pub(crate) fn pin_client(self) -> Result<()> {
        pin(&only(self.client))
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

fn pin(cores: &CpuSet) -> Result<()> {
    sched_setaffinity(None, cores).context("cannot pin this thread to its CPU")
}

/// The name of the CPU, as the kernel reports it.
pub(crate) fn cpu_model() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(name.map_or("unknown", |(_, name)| name.trim()).to_owned())
}

/// Raises the limit of open files to the hard limit, for this process and the servers that it starts.
pub(crate) fn allow_many_sockets() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .context("cannot raise the limit of open files")
}

/// CPU time that a process has used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// All of its threads.
    pub(crate) all: Duration,
    /// Threads of a target that own an SSD.
    pub(crate) ssds: Duration,
    /// Threads of a target that have connections and no SSD.
    pub(crate) connections: Duration,
}

impl Used {
    /// The CPU time used since `before`.
    pub(crate) fn since(self, before: Used) -> Used {
        Used {
            all: self.all.saturating_sub(before.all),
            ssds: self.ssds.saturating_sub(before.ssds),
            connections: self.connections.saturating_sub(before.connections),
        }
    }
}

/// CPU time of a running process.
pub(crate) fn process_time(process: u32) -> Result<Used> {
    let tasks = format!("/proc/{process}/task");
    let mut used = Used::default();
    for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
        let folder = task?.path();
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let (name, text) = (read("comm")?, read("schedstat")?);
        let nanos = text.split(' ').next().and_then(|field| field.parse().ok());
        let nanos = Duration::from_nanos(nanos.with_context(|| format!("{}: {text:?}", folder.display()))?);
        used.all += nanos;
        if name.starts_with("ssd ") {
            used.ssds += nanos;
        } else if name.starts_with("connections ") {
            used.connections += nanos;
        }
    }
    Ok(used)
}

/// CPU time of this thread.
pub(crate) fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Resident memory of a process, in bytes. (`statm` is cheaper to read, but lags behind by some pages per CPU.)
pub(crate) fn resident(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|n| n.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} has no Rss"))? * 1024)
}

/// Measures the load by others.
pub(crate) struct Watch {
    began: Instant,
    machine: Duration,
    ours: Duration,
}

impl Watch {
    /// Starts. No child process may be running.
    pub(crate) fn start() -> Result<Watch> {
        Ok(Watch { began: Instant::now(), machine: machine_time()?, ours: our_time()? })
    }

    /// The part of all CPU time that others used. All children must have ended.
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

/// The number of CPUs of the machine.
fn online() -> Result<usize> {
    Ok(KernelStats::current().context("/proc/stat")?.cpu_time.len())
}

/// Busy time of all CPUs together, including steal.
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

/// CPU time of this process and of all its children that have ended.
fn our_time() -> Result<Duration> {
    let stat = Process::myself().and_then(|own| own.stat()).context("/proc/self/stat")?;
    let own = stat.utime + stat.stime;
    let children = u64::try_from(stat.cutime + stat.cstime).context("time of the children")?;
    Ok(Duration::from_secs_f64((own + children) as f64 / procfs::ticks_per_second() as f64))
}
