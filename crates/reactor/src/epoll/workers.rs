//! A few threads that do blocking disk operations for the epoll backend.
//!
//! ```text
//!   reactor --jobs (lock, condvar)--> threads --answers (lock, eventfd)--> reactor
//! ```
//!
//! Threads start as they are needed, up to the limit, and end with the reactor. A job owns all that it touches: the buffer, and a
//! share of the descriptor.
//!
//! Holds: every job is answered once.
//! Elsewhere: `answers` returns the answers, and explains why the reactor never sleeps over one.

use super::answers::Answers;
use crate::disk::{Owner, Pieces, Step, Transfer};
use crate::{DiskOp, IoBuffer};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Discard and zero-out requests of linux/fs.h: `_IO(0x12, 119)` and `_IO(0x12, 127)`.
const BLKDISCARD: u64 = 0x12 << 8 | 119;
const BLKZEROOUT: u64 = 0x12 << 8 | 127;

/// A file or block device that jobs share.
pub(super) struct DiskFile {
    fd: OwnedFd,
    is_block_device: bool,
}

impl DiskFile {
    pub(super) fn new(fd: OwnedFd, is_block_device: bool) -> DiskFile {
        DiskFile { fd, is_block_device }
    }
}

struct Job {
    owner: Owner,
    file: Arc<DiskFile>,
    transfer: Transfer,
}

/// The answer to a job.
pub(super) struct Done {
    pub(super) owner: Owner,
    pub(super) result: io::Result<()>,
    pub(super) buffer: Option<IoBuffer>,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    idle_threads: usize,
    is_closing: bool,
}

struct Shared {
    jobs: Mutex<Jobs>,
    has_jobs: Condvar,
    done: Answers<Done>,
}

/// The threads and the state that they share with the reactor.
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
}

impl Workers {
    pub(super) fn new(threads_max: usize) -> io::Result<Workers> {
        let shared = Shared { jobs: Mutex::default(), has_jobs: Condvar::new(), done: Answers::new()? };
        Ok(Workers { shared: Arc::new(shared), threads: Vec::new(), threads_max })
    }

    /// The descriptor that is readable while there are answers.
    pub(super) fn fd(&self) -> RawFd {
        self.shared.done.fd()
    }

    /// Makes sure that there is a thread to do jobs.
    pub(super) fn start(&mut self) -> io::Result<()> {
        if self.threads.is_empty() { self.start_thread() } else { Ok(()) }
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("disk".to_owned()).spawn(move || work(&shared))?;
        self.threads.push(thread);
        Ok(())
    }

    pub(super) fn submit(&mut self, owner: Owner, file: Arc<DiskFile>, op: DiskOp) {
        let mut jobs = lock(&self.shared.jobs);
        jobs.queue.push_back(Job { owner, file, transfer: Transfer::new(op, Pieces::WHOLE) });
        let is_short = jobs.queue.len() > jobs.idle_threads;
        drop(jobs);
        self.shared.has_jobs.notify_one();
        if is_short && self.threads.len() < self.threads_max {
            // `start` has seen to one thread; without another the job waits its turn.
            let _ = self.start_thread();
        }
    }

    /// All answers since the last call; to be called when the descriptor is readable.
    pub(super) fn take_done(&mut self) -> Vec<Done> {
        self.shared.done.take()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut jobs = lock(&self.shared.jobs);
        jobs.is_closing = true;
        let unstarted = mem::take(&mut jobs.queue);
        drop(jobs);
        self.shared.has_jobs.notify_all();
        drop(unstarted);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// Locks a queue, even after a panic elsewhere: the queues stay whole, as nothing runs under the locks but pushes and
/// takes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The loop of a thread until the reactor no longer exists.
fn work(shared: &Shared) {
    loop {
        let mut jobs = lock(&shared.jobs);
        let job = loop {
            if jobs.is_closing {
                return;
            }
            if let Some(job) = jobs.queue.pop_front() {
                break job;
            }
            jobs.idle_threads += 1;
            jobs = shared.has_jobs.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle_threads -= 1;
        };
        drop(jobs);
        let Job { owner, file, mut transfer } = job;
        let result = loop {
            if let Some(result) = transfer.on_step(perform(&file, transfer.step())) {
                break result;
            }
        };
        shared.done.put(Done { owner, result, buffer: transfer.into_buffer() });
    }
}

/// One blocking system call; its count, or its error.
fn perform(file: &DiskFile, step: Step) -> io::Result<usize> {
    let fd = file.fd.as_raw_fd();
    let result = match step {
        // SAFETY: the step's memory belongs to the transfer that this thread holds.
        Step::Read { to, length, offset } => unsafe { libc::pread(fd, to.cast(), length, offset as i64) },
        Step::Write { from, length, offset, durable } => {
            let iovec = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: length };
            let flags = if durable { libc::RWF_DSYNC } else { 0 };
            // SAFETY: as above, and the one iovec is valid; a write only reads.
            unsafe { libc::pwritev2(fd, &iovec, 1, offset as i64, flags) }
        }
        // SAFETY: no pointers.
        Step::Fsync { data_only: true } => unsafe { libc::fdatasync(fd) as isize },
        // SAFETY: no pointers.
        Step::Fsync { data_only: false } => unsafe { libc::fsync(fd) as isize },
        Step::Discard { offset, length } if file.is_block_device => {
            block_ioctl(fd, BLKDISCARD, offset, length)
        }
        Step::WriteZeroes { offset, length } if file.is_block_device => {
            block_ioctl(fd, BLKZEROOUT, offset, length)
        }
        Step::Discard { offset, length } => fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE, offset, length),
        Step::WriteZeroes { offset, length } => fallocate(fd, libc::FALLOC_FL_ZERO_RANGE, offset, length),
    };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn block_ioctl(fd: RawFd, request: u64, offset: u64, length: u64) -> isize {
    let extent = [offset, length];
    // SAFETY: both requests read two 64-bit numbers.
    unsafe { libc::ioctl(fd, request as _, extent.as_ptr()) as isize }
}

fn fallocate(fd: RawFd, mode: i32, offset: u64, length: u64) -> isize {
    // SAFETY: no pointers.
    unsafe { libc::fallocate(fd, mode | libc::FALLOC_FL_KEEP_SIZE, offset as i64, length as i64) as isize }
}
