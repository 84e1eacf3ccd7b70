//! Whether there is memory for a run, before it begins: a process that runs out of it later is killed, with all of its results.

use crate::error::BenchError;
use rustix::process::{Resource, getrlimit};
use std::fs;
use units::Bytes;

/// Refuses a run that needs more memory than there is.
pub(crate) fn expect(needed: Bytes) -> Result<(), BenchError> {
    match available() {
        Some(available) if available < needed => Err(BenchError::Memory { needed, available }),
        _ => Ok(()),
    }
}

/// The memory that this process can get: that of the machine, or the rest of the limit of its address space (`ulimit -v`).
fn available() -> Option<Bytes> {
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_of(&text, "MemAvailable:"));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let used = kib_of(&status, "VmSize:").unwrap_or(Bytes::ZERO);
    let of_limit = getrlimit(Resource::As).current.map(|limit| Bytes(limit).saturating_sub(used));
    [of_machine, of_limit].into_iter().flatten().min()
}

/// The value of a line such as `MemAvailable:   1024 kB`.
fn kib_of(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok().map(Bytes::kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let text = "MemTotal:       24 kB\nMemAvailable:    7 kB\n";
        assert_eq!(kib_of(text, "MemAvailable:"), Some(Bytes::kib(7)));
        assert_eq!(kib_of(text, "MemFree:"), None);
    }

    #[test]
    fn more_than_there_is_gets_advice() {
        assert!(expect(Bytes::mib(1)).is_ok());
        let said = expect(Bytes(u64::MAX)).expect_err("no machine has that").to_string();
        assert!(said.contains("iodepth") && said.contains("norandommap"), "{said}");
    }
}
