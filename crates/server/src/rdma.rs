//! The parts of a target's RDMA that its threads share: the libraries, the connection manager, and the end of queue pairs.
//!
//! A device reads and writes the buffers of IOs itself, so they are locked in memory when they are first used for it. All that may be
//! needed is compared with the limit of the process before, as an IO that finds the limit reached ends its connection.

use crate::config::Limits;
use reactor::rdma::{CmChannel, Queue, Rdma, RdmaError};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use tracing::warn;
use units::Bytes;

/// Requests for queue pairs that wait to be read, at most.
pub(crate) const BACKLOG: u32 = 128;

/// Reason why a target cannot use RDMA.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// Of the libraries and devices.
    #[error("{0}")]
    Libraries(#[from] RdmaError),
    /// Of the kernel.
    #[error("{0}")]
    Kernel(#[from] io::Error),
}

/// See the module.
pub(crate) struct Context {
    /// The libraries.
    pub(crate) rdma: Rdma,
    /// The connection manager: its events are the acceptor's.
    pub(crate) channel: CmChannel,
    /// Where queue pairs end.
    pub(crate) closer: Closer,
}

/// Locked memory of a queue pair besides the buffers of its IOs: receives, and the device's own queues.
const QUEUE_PAIR: u64 = 64 << 10;

impl Context {
    /// Loads the libraries, and opens the connection manager.
    pub(crate) fn new(limits: &Limits) -> Result<Arc<Context>, Unusable> {
        let queues = [limits.connections, limits.connections_waiting, limits.discovery_connections];
        let queues: u64 = queues.into_iter().map(u64::from).sum();
        may_lock(Bytes(limits.memory.get() + queues * QUEUE_PAIR))?;
        let rdma = Rdma::load()?;
        let channel = CmChannel::new(rdma)?;
        Ok(Arc::new(Context { rdma, channel, closer: Closer::new()? }))
    }
}

/// Checks that this process may lock so much memory.
fn may_lock(needed: Bytes) -> io::Result<()> {
    let is_free = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let limit = getrlimit(Resource::Memlock).current.filter(|_| !is_free);
    match limit.map(Bytes) {
        Some(limit) if limit < needed => Err(io::Error::other(format!(
            "RDMA may need {needed} of locked memory (limits.memory, and 64 KiB for each connection), and the limit is {limit}: raise it \
             (LimitMEMLOCK= of systemd, ulimit -l), grant CAP_IPC_LOCK, or lower limits.memory"
        ))),
        _ => Ok(()),
    }
}

/// A thread that ends queue pairs: a device may take milliseconds for one, in which no host is to wait for another's. It ends with its
/// last owner.
#[derive(Clone)]
pub(crate) struct Closer {
    queues: Sender<Queue>,
}

impl Closer {
    fn new() -> io::Result<Closer> {
        let (queues, ended) = channel::<Queue>();
        thread::Builder::new()
            .name("rdma-closer".to_owned())
            .spawn(move || ended.into_iter().for_each(drop))?;
        Ok(Closer { queues })
    }

    /// Disconnects, and destroys the queue pair. Its buffers go home then.
    pub(crate) fn close(&self, mut queue: Queue) {
        // At once, so that the host sees the end.
        queue.disconnect();
        if self.queues.send(queue).is_err() {
            warn!("the thread that ends queue pairs is gone; one was ended here");
        }
    }
}
