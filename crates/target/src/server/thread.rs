//! One thread of the target: started, told things, waited for.
//!
//! A reactor belongs to the thread that made it, so each thread makes its own, and the mailbox that wakes it; whoever starts
//! the thread waits for that mailbox. What the thread has to know of others it is told by messages.

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

/// How long a thread that was told to stop is waited for: one whose device hangs in the kernel never ends.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A thread that runs.
pub(super) struct Thread<M> {
    /// Where it is told things.
    pub(super) mailbox: Mailbox<M>,
    reports: Receiver<Report>,
    /// `None` once its end was awaited.
    handle: Option<JoinHandle<()>>,
}

/// What a thread is given to run with.
pub(super) struct Place<M> {
    /// Its reactor.
    pub(super) reactor: Reactor,
    /// Its mailbox, for others to tell it things by.
    pub(super) mailbox: Mailbox<M>,
    /// The owner's end of that.
    pub(super) inbox: Inbox<M>,
    /// Whoever started it.
    pub(super) reports: Sender<Report>,
}

impl<M: Send + 'static> Thread<M> {
    /// Starts a thread that does `prepare` with its reactor, which looks for events for `spin` before it sleeps, and then `run`s.
    /// Returns when it is prepared.
    pub(super) fn start<P>(
        backend: BackendChoice,
        spin: Nanos,
        name: String,
        prepare: impl FnOnce(&mut Reactor) -> io::Result<P> + Send + 'static,
        run: impl FnOnce(Place<M>, P) -> io::Result<()> + Send + 'static,
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
                    warn!(thread = %name, %reason, "io_uring cannot be used: epoll instead");
                }
                let prepared = prepare(&mut reactor)?;
                let (mailbox, inbox) = Mailbox::new(reactor.waker());
                drop(introduce.send(Ok(mailbox.clone())));
                run(Place { reactor, mailbox, inbox, reports: reporter.clone() }, prepared)
            });
            if let Err(error) = result {
                error!(thread = %name, %error, "the thread ends");
                // If it is past its introduction, the report below is what tells.
                drop(introduce.send(Err(StartError::Backend(error))));
            }
            // Nobody waits if the target was not shut down but dropped.
            let _ = reporter.send(Report::Ended);
        });
        let handle = handle.map_err(StartError::Thread)?;
        let introduced = introduced.recv();
        let mailbox = introduced.unwrap_or_else(|_| Err(StartError::Thread(io::ErrorKind::Other.into())))?;
        Ok(Thread { mailbox, reports, handle: Some(handle) })
    }

    /// Waits for a report; false if the deadline or an unexpected end comes first. An earlier report may be passed over.
    pub(super) fn await_report(&self, wanted: Report, deadline: Instant) -> bool {
        loop {
            match self.reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(report) if report == wanted => return true,
                Ok(Report::Quiet | Report::Drained) => {}
                Ok(Report::Ended) | Err(_) => return false,
            }
        }
    }

    /// Waits for its end, which it was told to come to.
    pub(super) fn join(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let deadline = Instant::now() + STOP_GRACE;
        // A thread that has ended has said so before, or has dropped its end of the channel.
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
                "the thread does not end, as its device hangs in the system: it is left behind"
            );
        } else if handle.join().is_err() {
            error!(thread = name, "a thread of the target panicked");
        }
    }
}
