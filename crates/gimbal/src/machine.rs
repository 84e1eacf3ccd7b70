//! Use of the machine's processors by this process and by others. Figures of a busy machine say little about a switch.

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats, ProcResult};
use std::time::{Duration, Instant};

/// The processor time used up to one moment.
pub(crate) struct Watch {
    began: Instant,
    machine: Duration,
    own: Duration,
}

impl Watch {
    /// Starts to watch. Returns `None` on a system that does not report processor time.
    pub(crate) fn start() -> Option<Watch> {
        let (machine, own) = used().ok()?;
        Some(Watch { began: Instant::now(), machine, own })
    }

    /// The fraction of all processors' time since the start that other processes, or other guests of the hypervisor,
    /// used.
    pub(crate) fn others(&self) -> Option<f64> {
        let (machine, own) = used().ok()?;
        let processors = KernelStats::current().ok()?.cpu_time.len();
        let others = machine.saturating_sub(self.machine).saturating_sub(own.saturating_sub(self.own));
        Some(others.as_secs_f64() / self.began.elapsed().as_secs_f64() / processors as f64)
    }
}

/// Busy time of all processors together, and the part of it used by this process.
fn used() -> ProcResult<(Duration, Duration)> {
    let cpu = KernelStats::current()?.total;
    // Guest time is part of user time.
    let busy = [
        cpu.user_duration(),
        cpu.nice_duration(),
        cpu.system_duration(),
        cpu.irq_duration().unwrap_or_default(),
        cpu.softirq_duration().unwrap_or_default(),
        cpu.steal_duration().unwrap_or_default(),
    ];
    Ok((busy.iter().sum(), own_time()?))
}

/// Processor time of all threads of this process so far.
pub(crate) fn own_time() -> ProcResult<Duration> {
    let stat = Process::myself()?.stat()?;
    Ok(Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64))
}
