//! The limit of the process's descriptors.
//!
//! Every connection takes one. The soft limit is 1024 on most systems, for the sake of programs that use `select`; the
//! system grants the hard limit, and a process may raise its soft limit to it.

use std::io;

/// Raises the soft limit to `wanted` descriptors, or to the hard limit; a limit that is high enough stays. Returns the
/// limit in force. A reactor's ring remembers the limit of the moment at which it begins to accept, so call this first.
///
/// # Errors
/// The system does not report the limit, or forbids the change; neither happens on Linux.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit that the call fills in.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = wanted.min(limit.rlim_max).max(limit.rlim_cur);
    if raised > limit.rlim_cur {
        limit.rlim_cur = raised;
        // SAFETY: the pointer is to a live rlimit that the call reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(raised)
}
