//! A namespace of another target as a device: the end of it that is on the thread of its pipeline.
//!
//! ```text
//!   submit(io) ──job──► worker's thread: initiator ══ NVMe/TCP ══ other target
//!   poll()     ◄─end───┘  and wakes the pipeline
//! ```
//!
//! The initiator has a reactor of its own, so it has a thread of its own, which waits for nothing else.
//!
//! **Nothing that was answered is lost with a connection.** A target that is away may have been started again, and then whatever was
//! in its volatile write cache is gone, and no Flush after the reconnect would tell. So behind a volatile write cache every write is
//! sent with Force Unit Access, and Write Zeroes is followed by a Flush before it is answered. A Flush of a host goes to the other target as well: there may
//! be other paths to the namespace.
//!
//! Elsewhere: connections and time limits are in `worker`; taking the namespace over, and away from others, is in `fencing` and, by its rules, `fence`; whether the namespace is still the same is in `found`; an IO as commands is in `job`.

mod fence;
mod fencing;
mod found;
mod job;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use fence::{GENERATION_MAX, Generation, Refused as FenceRefused};
pub(crate) use fencing::{FenceHandle, Holding};
pub(crate) use worker::PATH_LOST;

use super::erase::{BYTES_PER_HOLE_BYTE, BYTES_PER_WRITTEN_BYTE};
use super::error::DeviceError;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, Erase, Quote};
use crate::config::BackEndConfig;
use found::Found;
use job::Job;
use reactor::{IoBuffer, Reactor, Token, Waker};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use units::{Bytes, Instant};
use worker::Started;

/// A message to the worker.
enum ToWorker {
    /// The pipeline that waits for the ends of IOs.
    Attach(Waker),
    /// An IO.
    Do(Job),
    /// The next wait of its event loop fails.
    #[cfg(test)]
    BreakDown(io::Error),
}

/// A connected namespace that is on no pipeline yet.
pub(super) struct OpenBackEnd {
    link: Link,
    ended: Receiver<DeviceDone>,
    found: Found,
    /// Of a fenced device.
    pub(super) fence: Option<Arc<FenceHandle>>,
}

/// The way to the worker. The worker ends with it.
struct Link {
    /// Taken at the end.
    jobs: Option<Sender<ToWorker>>,
    worker: Waker,
}

impl Link {
    /// Returns the message if there is no worker any more.
    fn send(&self, message: ToWorker) -> Result<(), ToWorker> {
        let Some(jobs) = &self.jobs else { return Err(message) };
        jobs.send(message).map_err(|SendError(message)| message)?;
        self.worker.wake();
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.jobs = None;
        self.worker.wake();
    }
}

impl OpenBackEnd {
    /// Connects to the namespace of device `name`.
    pub(super) fn connect(name: &str, config: &BackEndConfig) -> Result<OpenBackEnd, DeviceError> {
        let failed = |why: String| DeviceError::BackEnd {
            nsid: config.nsid,
            subsystem: config.subsystem.clone(),
            address: config.address,
            why,
        };
        let (jobs, inbox) = channel();
        let (outbox, ended) = channel();
        let started = worker::spawn(name, config, inbox, outbox).map_err(failed)?;
        let Started { found, waker: worker, fence } = started;
        Ok(OpenBackEnd { link: Link { jobs: Some(jobs), worker }, ended, found, fence: fence.map(Arc::new) })
    }

    /// Its size.
    pub(super) fn size(&self) -> Bytes {
        self.found.namespace.size()
    }

    /// Bytes of its blocks.
    pub(super) fn block_size(&self) -> u32 {
        self.found.block_size
    }

    /// Whether the other target refuses writes.
    pub(super) fn read_only(&self) -> bool {
        self.found.namespace.read_only
    }

    /// Gives it to the pipeline of `reactor`.
    pub(super) fn start(self, reactor: &Reactor) -> BackEndDevice {
        let OpenBackEnd { link, ended, found, .. } = self;
        // Without a worker every IO fails.
        let _ = link.send(ToWorker::Attach(reactor.waker()));
        BackEndDevice { link, ended, has_write_zeroes: found.has_write_zeroes, done: Vec::new() }
    }
}

/// See the module.
pub(super) struct BackEndDevice {
    link: Link,
    ended: Receiver<DeviceDone>,
    has_write_zeroes: bool,
    done: Vec<DeviceDone>,
}

impl Device for BackEndDevice {
    fn clock(&self) -> DeviceClock {
        DeviceClock::REAL
    }

    fn quote(&self, erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        let ratio = match erase {
            Erase::Zero if !self.has_write_zeroes => BYTES_PER_WRITTEN_BYTE,
            Erase::Zero | Erase::Forget => BYTES_PER_HOLE_BYTE,
        };
        Quote::in_proportion(ratio, length, most)
    }

    fn submit(&mut self, now: Instant, _reactor: &mut Reactor, io: DeviceIo) {
        if let Err(ToWorker::Do(job)) = self.link.send(ToWorker::Do(Job::new(now, io))) {
            self.done.push(job.end(now, Err(io::Error::from_raw_os_error(libc::ENODEV))));
        }
    }

    fn on_disk(&mut self, _: Instant, _: Token, tag: u64, _: io::Result<()>, _: Option<IoBuffer>) {
        unreachable!("a back-end gives no disk operation to the reactor, yet {tag} ended");
    }

    fn poll(&mut self, _now: Instant, _reactor: &mut Reactor) {
        self.done.extend(self.ended.try_iter());
    }

    fn next_wake(&self) -> Option<Instant> {
        None
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }
}
