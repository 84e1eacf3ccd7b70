//! The epoll descriptor: what to watch, and waiting to the nanosecond.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use units::Nanos;

/// Descriptors reported by one call; more of them come with the next.
const NOTICES_MAX: usize = 256;

/// One descriptor's news: the number it was added with, and `EPOLL*` flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    pub(super) name: u64,
    pub(super) flags: u32,
}

pub(super) struct Poller {
    epoll: OwnedFd,
    raw: Vec<libc::epoll_event>,
    /// Whether `epoll_pwait2` (Linux 5.11) exists and is allowed; else `ppoll` does the waiting.
    has_pwait2: bool,
}

impl Poller {
    pub(super) fn new() -> io::Result<Poller> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is new and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let raw = vec![libc::epoll_event { events: 0, u64: 0 }; NOTICES_MAX];
        Ok(Poller { epoll, raw, has_pwait2: true })
    }

    /// Watches `fd` for `flags` with `name`.
    pub(super) fn add(&self, fd: RawFd, flags: i32, name: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, flags, name)
    }

    /// Watches `fd`, which is known, for `flags` from now on.
    pub(super) fn change(&self, fd: RawFd, flags: i32, name: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, flags, name)
    }

    fn control(&self, operation: i32, fd: RawFd, flags: i32, name: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags as u32, u64: name };
        // SAFETY: `event` is a valid event for the call to read.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Forgets `fd`. Not left to `close`, which does it only when no copy of the descriptor is left.
    pub(super) fn remove(&self, fd: RawFd) {
        // SAFETY: a deletion reads no event. It can only fail if `fd` is not watched.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
    }

    /// Waits for news, at most for `timeout` (`None`: for ever) or until a signal is handled, and appends it to `notices`.
    pub(super) fn wait(&mut self, timeout: Option<Nanos>, notices: &mut Vec<Notice>) -> io::Result<()> {
        let mut count = -1;
        if self.has_pwait2 {
            count = self.pwait2(timeout);
            let error = io::Error::last_os_error().raw_os_error();
            self.has_pwait2 = count >= 0 || !matches!(error, Some(libc::ENOSYS | libc::EPERM));
        }
        if !self.has_pwait2 {
            count = self.ppoll_then_wait(timeout);
        }
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        };
        notices.extend(self.raw[..count].iter().map(|raw| Notice { name: raw.u64, flags: raw.events }));
        Ok(())
    }

    fn pwait2(&mut self, timeout: Option<Nanos>) -> libc::c_int {
        let timeout = timeout.map(timespec);
        // SAFETY: `raw` has room for as many events as are asked for, the timeout is null or valid, and there is no signal mask.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.raw.as_mut_ptr(),
                self.raw.len() as libc::c_int,
                timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
                ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        count as libc::c_int
    }

    fn ppoll_then_wait(&mut self, timeout: Option<Nanos>) -> libc::c_int {
        let timeout = timeout.map(timespec);
        let mut poll = libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, a timeout that is null or valid, no signal mask.
        let count = unsafe {
            libc::ppoll(&mut poll, 1, timeout.as_ref().map_or(ptr::null(), ptr::from_ref), ptr::null())
        };
        if count <= 0 {
            return count;
        }
        // SAFETY: `raw` has room for as many events as are asked for.
        unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.raw.as_mut_ptr(), self.raw.len() as libc::c_int, 0)
        }
    }
}

fn timespec(Nanos(span): Nanos) -> libc::timespec {
    libc::timespec { tv_sec: (span / 1_000_000_000) as i64, tv_nsec: (span % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know epoll_pwait2")]
    fn waiting_works_with_and_without_the_newer_call() {
        for has_pwait2 in [true, false] {
            let mut poller = Poller::new().expect("an epoll descriptor");
            poller.has_pwait2 = has_pwait2;
            let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
            poller.add(near.as_raw_fd(), libc::EPOLLIN, 7).expect("watched");
            let mut notices = Vec::new();
            poller.wait(Some(Nanos::micros(10)), &mut notices).expect("waits");
            assert!(notices.is_empty());
            far.write_all(b"x").expect("room for a byte");
            poller.wait(None, &mut notices).expect("waits");
            assert_eq!(notices.drain(..).map(|notice| notice.name).collect::<Vec<_>>(), [7]);
            poller.remove(near.as_raw_fd());
            far.shutdown(Shutdown::Both).expect("open");
            poller.wait(Some(Nanos::ZERO), &mut notices).expect("waits");
            assert!(notices.is_empty(), "{notices:?}");
        }
    }
}
