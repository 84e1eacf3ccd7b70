//! The parts of a target's RDMA that its threads share: the libraries, the connection manager, and the end of queue pairs.

use reactor::rdma::{CmChannel, Queue, Rdma, RdmaError};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use tracing::warn;

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

impl Context {
    /// Loads the libraries, and opens the connection manager.
    pub(crate) fn new() -> Result<Arc<Context>, Unusable> {
        let rdma = Rdma::load()?;
        let channel = CmChannel::new(rdma)?;
        Ok(Arc::new(Context { rdma, channel, closer: Closer::new()? }))
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
