//! A part of a CPU: a control group with a limit in percent of one CPU.
//!
//! With a whole CPU for the server, the client can be what limits a measure: then a cheaper server only waits more. With less CPU than
//! the client, the server is the limit. Needs root and the CPU controller of cgroup v2 or v1; if there is none, the measure fails and
//! says so.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The quota is granted anew this often. The default of the kernel, 100 ms, would make long pauses.
const PERIOD_US: u32 = 10_000;

/// Ten times the usual weight, so that the quota is the limit and not other processes. A group competes with its own weight; the priority of
/// the process in it does not count.
const WEIGHT_V1: &str = "10240";
const WEIGHT_V2: &str = "1000";

/// A control group with a quota. Removed on drop.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// A group that gets this many percent of one CPU.
    pub(crate) fn new(percent: u32) -> Result<Quota> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("gimbal-bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mounts = fs::read_to_string("/proc/mounts").context("/proc/mounts")?;
        let Some((root, version)) = controller(&mounts) else {
            bail!(
                "no control group can limit the CPU time of a server: neither cgroup v2 nor v1 with a CPU controller is mounted"
            )
        };
        let folder = root.join(name);
        fs::create_dir(&folder).with_context(|| {
            format!("cannot make the control group {}; the measure needs root", folder.display())
        })?;
        let quota = Quota { folder };
        let microseconds = PERIOD_US / 100 * percent;
        match version {
            Version::V1 => {
                quota.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                quota.set("cpu.cfs_quota_us", &microseconds.to_string())?;
                quota.set("cpu.shares", WEIGHT_V1)?;
            }
            Version::V2 => {
                if !quota.folder.join("cpu.max").exists() {
                    let path = root.join("cgroup.subtree_control");
                    fs::write(&path, "+cpu").with_context(|| path.display().to_string())?;
                }
                quota.set("cpu.max", &format!("{microseconds} {PERIOD_US}"))?;
                quota.set("cpu.weight", WEIGHT_V2)?;
            }
        }
        Ok(quota)
    }

    /// Moves a process with all its threads into the group.
    pub(crate) fn hold(&self, process: u32) -> Result<()> {
        self.set("cgroup.procs", &process.to_string())
    }

    /// Fails unless the group was out of CPU time at least once: otherwise the quota limited nothing.
    pub(crate) fn check_it_limits(&self) -> Result<()> {
        let path = self.folder.join("cpu.stat");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let throttled = text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok());
        ensure!(throttled.is_some_and(|times| times > 0), "the CPU quota limited nothing ({text:?})");
        Ok(())
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value:?} to {}", path.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("bench: the control group {} stays: {error}", self.folder.display());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Where the CPU controller is mounted. A controller belongs to one version at a time.
fn controller(mounts: &str) -> Option<(PathBuf, Version)> {
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (Path::new(fields.next()?), fields.next()?, fields.next()?);
        match kind {
            "cgroup" if options.split(',').any(|option| option == "cpu") => {
                Some((place.to_owned(), Version::V1))
            }
            "cgroup2" => Some((place.to_owned(), Version::V2)),
            _ => None,
        }
    });
    found.min_by_key(|(_, version)| *version == Version::V2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_controller_is_found_in_either_version() {
        let v1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                  cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(controller(v1), Some((PathBuf::from("/sys/fs/cgroup/cpu"), Version::V1)));
        assert_eq!(controller(v2), Some((PathBuf::from("/sys/fs/cgroup"), Version::V2)));
        let both = format!("{}{v1}", v2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified "));
        assert_eq!(controller(&both), Some((PathBuf::from("/sys/fs/cgroup/cpu"), Version::V1)));
        assert_eq!(controller("proc /proc proc rw 0 0\n"), None);
    }
}
