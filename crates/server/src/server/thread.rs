//! One thread of the target: its start, its mailbox, its end.
//!
//! A reactor belongs to the thread that makes it. So each thread makes its own reactor, and the mailbox that wakes it, and sends the
//! mailbox to the thread that starts it. Threads learn of each other by messages.

use super::StartError;
use crate::config::BackendChoice;
use crate::mailbox::{Inbox, Mailbox};
use crate::pipeline::message::Report;
use reactor::{Backend, Options, Reactor};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{error, warn};
use units::Nanos;

/// Maximum wait for the end of a thread. A thread whose device hangs in the kernel never ends.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A thread that runs.
pub(super) struct Thread<M> {
    /// Its mailbox.
    pub(super) mailbox: Mailbox<M>,
    reports: Receiver<Report>,
    /// `None` after `join`.
    handle: Option<JoinHandle<()>>,
}

/// The environment of a new thread.
pub(super) struct ThreadParts<M> {
    /// Its reactor.
    pub(super) reactor: Reactor,
    /// Its mailbox, to give to other threads.
    pub(super) mailbox: Mailbox<M>,
    /// The receiving end of the mailbox.
    pub(super) inbox: Inbox<M>,
    /// To the thread that started it.
    pub(super) reports: Sender<Report>,
}

impl<M: Send + 'static> Thread<M> {
    /// Starts a thread that calls `prepare` with its reactor, and then `run`. The reactor polls for events for `spin` before it sleeps.
    /// Returns when `prepare` is done.
    pub(super) fn start<P>(
        backend: BackendChoice,
        spin: Nanos,
        name: String,
        prepare: impl FnOnce(&mut Reactor) -> io::Result<P> + Send + 'static,
        run: impl FnOnce(ThreadParts<M>, P) -> io::Result<()> + Send + 'static,
    ) -> Result<Thread<M>, StartError> {
        let backend = match backend {
            BackendChoice::Auto => Backend::Auto,
            BackendChoice::IoUring => Backend::IoUring,
            BackendChoice::Epoll => Backend::Epoll,
        };
        let options = Options { spin, ..Options::default() };
        let (introduce, introduced) = channel();
        let (reporter, reports) = channel();
        let handle = thread::Builder::new().name(name.clone()).spawn(move || {
            let result = Reactor::with_options(backend, &options).and_then(|mut reactor| {
                if let Some(reason) = reactor.fallback_reason() {
                    warn!(thread = %name, %reason, "io_uring cannot be used; epoll is used instead");
                }
                let prepared = prepare(&mut reactor)?;
                let (mailbox, inbox) = Mailbox::new(reactor.waker());
                drop(introduce.send(Ok(mailbox.clone())));
                run(ThreadParts { reactor, mailbox, inbox, reports: reporter.clone() }, prepared)
            });
            if let Err(error) = result {
                error!(thread = %name, %error, "the thread ends");
                // If the mailbox was sent already, the report below says that the thread has ended.
                drop(introduce.send(Err(StartError::Backend(error))));
            }
            // There is no receiver if the target was dropped and not shut down.
            let _ = reporter.send(Report::Ended);
        });
        let handle = handle.map_err(StartError::Thread)?;
        let introduced = introduced.recv();
        let mailbox = introduced.unwrap_or_else(|_| Err(StartError::Thread(io::ErrorKind::Other.into())))?;
        Ok(Thread { mailbox, reports, handle: Some(handle) })
    }

    /// Waits for a report. Returns false at the deadline, or if the thread ends unexpectedly. Other reports are skipped.
    pub(super) fn await_report(&self, wanted: Report, deadline: Instant) -> bool {
        loop {
            match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(report) if report == wanted => return true,
                Ok(Report::Quiet | Report::Drained) => {}
                Ok(Report::Ended) | Err(_) => return false,
            }
        }
    }

    /// Waits for the end of the thread. It was asked to end.
    pub(super) fn join(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let deadline = Instant::now() + STOP_GRACE;
        // A thread that has ended has sent a report, or has dropped its end of the channel.
        let has_ended = loop {
            match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Report::Quiet | Report::Drained) => {}
                Ok(Report::Ended) | Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        let name = handle.thread().name().unwrap_or_default().to_owned();
        if !has_ended {
            error!(
                thread = name,
                "the thread does not end because its device hangs in a system call; the target goes on without it"
            );
        } else if handle.join().is_err() {
            error!(thread = name, "a thread of the target panicked");
        }
    }
}
