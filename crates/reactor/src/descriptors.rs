//! The limit of the process's descriptors.
//!
//! Every connection is one. The soft limit is 1024 on most systems, for the sake of programs that use `select`; what the system
//! grants is the hard limit, and a process may raise the one to the other by itself.

use std::io;

/// Raises the soft limit to `wanted` descriptors, or to the hard limit; a limit that is high enough stays. The
/// answer is the limit in force. The ring of a reactor remembers the limit of the moment at which it begins to accept, so this
/// comes first.
///
/// # Errors
/// The system does not tell, or forbids, which none does.
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
