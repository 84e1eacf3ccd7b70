//! The thread of a back-end: the connection to the other target, and its time limits.
//!
//! ```text
//!              lost              `timeout` without it: all IOs fail
//!     up ──────────────► down ──────────────────────────────────► away ──► IOs fail at once
//!      ▲◄──── is there ───┘▲                                        │
//!      └───────────────────┴─────────────── is there ───────────────┘      another namespace is there: stopped, for good
//! ```
//!
//! An IO that was outstanding when the connection was lost is sent once more; a second loss fails it. So it ends within about three times the
//! `timeout`, whatever the other target does. IOs that fail for want of a connection tell their hosts that the path is at fault, so that
//! those with another path use it.
//!
//! Elsewhere: whether a namespace is the one that was opened is in `found`; a fenced device sends IOs only while it holds the namespace: `fencing`.
//! A thread whose event loop has failed goes on to end IOs, with an error, until its device is gone.
//!
//! Holds: every job ends exactly once, also after a failure of the event loop (`tests`); none reaches a namespace that is not the one that was opened (`tests/back_end.rs`).

use super::ToWorker;
use super::fencing::{Fence, FenceHandle, Holding, not_held};
use super::found::Found;
use super::job::{Job, Step};
use crate::config::BackEndConfig;
use crate::device::DeviceDone;
use host::{
    Backoff, Completion, ControllerId, ControllerOptions, Engine, Event, IoError, Keys, Nqn, Refusal,
    RetryPolicy, host_id,
};
use nvme::spec::Status;
use nvme::spec::status::SCT_PATH;
use reactor::{Backend, BufferPool, Clock, CommandStatus, Waker};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, sync_channel};
use std::thread;
use tracing::{error, info, warn};
use units::{Bytes, Instant, Nanos};

/// The kind of the errors of IOs that failed for want of a path to the other target.
pub(crate) const PATH_LOST: io::ErrorKind = io::ErrorKind::NotConnected;
/// IOs at the other target; further ones wait here.
const QUEUE_DEPTH: u16 = 128;
/// The longest wait between two tries to connect.
const WAIT_LONGEST: Nanos = Nanos::secs(1);
/// The wait of a fenced device after a lost connection.
const WAIT_FENCED: Nanos = Nanos::millis(100);

/// The connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// IOs wait until then.
    Down {
        until: Instant,
    },
    /// IOs fail.
    Away,
    /// IOs fail, for good.
    Stopped,
}

pub(super) struct Worker {
    pub(super) name: String,
    nsid: u32,
    options: ControllerOptions,
    pub(super) timeout: Nanos,
    pub(super) engine: Engine,
    /// `None` while none is being connected, until `connect_at`.
    pub(super) controller: Option<ControllerId>,
    connect_at: Instant,
    pub(super) link: Link,
    pub(super) found: Option<Found>,
    /// Of a fenced device.
    pub(super) fence: Option<Fence>,
    /// Told of the first connection.
    opened: Option<SyncSender<Result<Found, String>>>,
    pub(super) pool: BufferPool,
    pub(super) jobs: HashMap<u64, Job>,
    pub(super) id_last: u64,
    /// Jobs that the initiator has no room for, or that wait for the link.
    waiting: VecDeque<u64>,
    inbox: Receiver<ToWorker>,
    outbox: Sender<DeviceDone>,
    pipeline: Option<Waker>,
    /// Whether an IO has ended since the pipeline was woken.
    has_news: bool,
    /// The last fault of the connection.
    pub(super) fault: String,
    /// Whether the device is gone.
    has_ended: bool,
}

/// A worker whose namespace is there.
pub(super) struct Started {
    pub(super) found: Found,
    pub(super) waker: Waker,
    /// Of a fenced device.
    pub(super) fence: Option<FenceHandle>,
}

/// Starts the thread for device `name`, and waits until the namespace is there. An error is for people.
pub(super) fn spawn(
    name: &str,
    config: &BackEndConfig,
    inbox: Receiver<ToWorker>,
    outbox: Sender<DeviceDone>,
) -> Result<Started, String> {
    let keys = config.keys.read().map_err(|error| error.to_string())?;
    let options = options(config, keys)?;
    let (opened, answer) = sync_channel(1);
    let (started, waker) = sync_channel(1);
    let (name, nsid, timeout) = (name.to_owned(), config.nsid, config.timeout);
    let is_fenced = config.fenced;
    let thread = thread::Builder::new().name("back-end".to_owned());
    let run = move || {
        // Pieces are never larger than the buffers of the target's own IOs, which are bounded.
        let engine = match Engine::new(Backend::Auto, Bytes::ZERO) {
            Ok(engine) => engine,
            Err(error) => return drop(opened.send(Err(format!("no event loop: {error}")))),
        };
        let fence = is_fenced.then(|| Fence::new(options.host_id, timeout, engine.waker()));
        let (fence, handle) = fence.unzip();
        let _ = started.send((engine.waker(), handle));
        let now = Clock.now();
        Worker {
            name,
            nsid,
            options,
            timeout,
            engine,
            controller: None,
            connect_at: now,
            link: Link::Down { until: now + timeout },
            found: None,
            fence,
            opened: Some(opened),
            pool: BufferPool::new(Bytes(u64::MAX)),
            jobs: HashMap::new(),
            id_last: 0,
            waiting: VecDeque::new(),
            inbox,
            outbox,
            pipeline: None,
            has_news: false,
            fault: "there is no answer".to_owned(),
            has_ended: false,
        }
        .run();
    };
    thread.spawn(run).map_err(|error| format!("no thread: {error}"))?;
    let found = answer.recv().map_err(|_| "its thread has ended".to_owned())??;
    let (waker, fence) = waker.recv().map_err(|_| "its thread has ended".to_owned())?;
    Ok(Started { found, waker, fence })
}

fn options(config: &BackEndConfig, keys: Keys) -> Result<ControllerOptions, String> {
    let name = |text: &str| Nqn::new(text).map_err(|error| format!("{text:?}: {error}"));
    let (subsystem, host) = (name(&config.subsystem)?, name(&config.host)?);
    let id = host_id(&host);
    Ok(ControllerOptions {
        queue_depth: QUEUE_DEPTH,
        header_digest: config.digests,
        data_digest: config.digests,
        connect_timeout: config.timeout,
        io_timeout: config.timeout,
        backoff: Backoff { longest: WAIT_LONGEST, tries_max: None, ..Backoff::default() },
        // After a loss a fenced device has to ask first whether it may (`fencing`).
        retry: if config.fenced { RetryPolicy::Never } else { RetryPolicy::Again { times: 1 } },
        keys,
        // Targets that lost one back-end together come back at different times.
        seed: u64::from_le_bytes(id.0[..8].try_into().expect("8 of 16 bytes")),
        ..ControllerOptions::new(config.address, subsystem, host, id)
    })
}

impl Worker {
    fn run(mut self) {
        while !(self.has_ended && self.controller.is_none()) {
            let now = Clock.now();
            self.on_time(now);
            let connects =
                (self.controller.is_none() && self.link != Link::Stopped).then_some(self.connect_at);
            let gives_up = match self.link {
                Link::Down { until } => Some(until),
                _ => None,
            };
            let fence = self.fence.as_ref().and_then(Fence::next_wake);
            if let Err(error) = self.engine.wait([connects, gives_up, fence].into_iter().flatten().min()) {
                return self.break_down(&error);
            }
            self.take_events();
            self.take_messages();
            self.drive_fence(Clock.now());
            self.send_waiting();
            self.tell_news();
        }
    }

    /// The event loop has failed, so nothing can be sent any more: every IO fails until the device is gone.
    fn break_down(mut self, error: &io::Error) {
        error!(
            device = %self.name, %error,
            "the event loop of the back-end has failed: every IO fails from now on; start the target again"
        );
        self.link = Link::Stopped;
        self.lose("the event loop has failed");
        // Whoever waits for it learns that the device has stopped.
        self.fence = None;
        self.fail_opening(format!("its event loop has failed: {error}"));
        self.close();
        self.take_events();
        self.tell_news();
        while let Ok(message) = self.inbox.recv() {
            self.take_message(message);
            self.tell_news();
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.engine.next_event() {
            self.on_event(event);
        }
    }

    /// Wakes the pipeline if an IO has ended since.
    fn tell_news(&mut self) {
        if std::mem::take(&mut self.has_news)
            && let Some(pipeline) = &self.pipeline
        {
            pipeline.wake();
        }
    }

    fn on_time(&mut self, now: Instant) {
        if self.controller.is_none()
            && !self.has_ended
            && self.link != Link::Stopped
            && self.connect_at <= now
        {
            self.controller = Some(self.engine.connect(self.options.clone()));
        }
        if let Link::Down { until } = self.link
            && until <= now
        {
            self.link = Link::Away;
            self.tell_hold(Holding::Away);
            warn!(device = %self.name, timeout = %self.timeout, jobs = self.jobs.len(), "the back-end is away for too long: IOs fail until it is back");
            self.fail_opening(format!("it cannot be used within {}: {}", self.timeout, self.fault));
            self.close();
        }
    }

    /// Tells why the first connection failed; then the thread ends.
    fn fail_opening(&mut self, why: String) {
        if let Some(opened) = self.opened.take() {
            self.has_ended = true;
            let _ = opened.send(Err(why));
        }
    }

    /// Ends the connection. All IOs that the initiator has end with it.
    fn close(&mut self) {
        if let Some(controller) = self.controller {
            self.engine.close(controller);
        }
        self.fail_waiting();
    }

    pub(super) fn fail_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.end(id, Err(self.refusal()));
        }
    }

    /// The error of an IO that is not sent.
    fn refusal(&self) -> io::Error {
        match self.link {
            Link::Stopped => io::Error::from_raw_os_error(libc::ENODEV),
            _ if self.is_closed() => not_held(),
            _ => io::Error::new(PATH_LOST, "the back-end cannot be reached"),
        }
    }

    /// Whether the device is fenced, and not held.
    fn is_closed(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| !fence.is_held())
    }

    fn on_event(&mut self, event: Event) {
        let now = Clock.now();
        match event {
            Event::Completed { completion, .. } => self.on_completed(completion),
            Event::Ready { .. } => self.on_ready(),
            Event::NamespacesChanged { .. } => {
                if let Err(why) = self.expect_same() {
                    self.stop(&why);
                }
            }
            Event::Down { fault, retry_in, .. } => {
                warn!(device = %self.name, %fault, %retry_in, "the connection to the back-end is lost");
                self.fault = fault.to_string();
                if self.link == Link::Up {
                    self.link = Link::Down { until: now + self.timeout };
                }
                self.abandon_controller();
            }
            Event::GaveUp { error, .. } => {
                self.is_gone();
                self.connect_at = now + WAIT_LONGEST;
                warn!(device = %self.name, %error, "the back-end refuses this target: IOs fail until it does not");
                self.fail_opening(error.to_string());
                if self.link != Link::Stopped {
                    self.link = Link::Away;
                    self.tell_hold(Holding::Away);
                }
                self.fail_waiting();
            }
            Event::Closed { .. } => {
                self.is_gone();
                self.connect_at = if self.fence.is_some() { now + WAIT_FENCED } else { now };
            }
            Event::Woken => {}
            Event::Discovered { .. } => unreachable!("a back-end is not discovered"),
        }
    }

    /// There is no controller any more.
    fn is_gone(&mut self) {
        self.controller = None;
        self.fence.iter_mut().for_each(Fence::on_gone);
    }

    /// IOs can be sent.
    pub(super) fn link_is_up(&mut self) {
        if !matches!(self.link, Link::Up | Link::Stopped) {
            info!(device = %self.name, "the back-end is connected");
            if self.link == Link::Away {
                self.tell_hold(Holding::Back);
            }
            self.link = Link::Up;
        }
    }

    fn on_ready(&mut self) {
        match self.expect_same() {
            // It is being closed.
            _ if self.link == Link::Stopped => {}
            Ok(found) => {
                self.found = Some(found);
                self.fence.iter_mut().for_each(Fence::on_ready);
                // One that is held is looked at first.
                if self.fence.as_ref().is_none_or(|fence| !fence.is_held()) {
                    self.link_is_up();
                }
                if let Some(opened) = self.opened.take() {
                    let _ = opened.send(Ok(found));
                }
            }
            Err(why) => self.stop(&why),
        }
    }

    fn stop(&mut self, why: &str) {
        if self.link != Link::Stopped {
            error!(
                device = %self.name, why,
                "the back-end is not the namespace that was opened: every IO fails from now on; put the right one back and start the \
                 target again"
            );
        }
        self.link = Link::Stopped;
        self.lose(why);
        self.fail_opening(why.to_owned());
        self.close();
    }

    /// The namespace as it is now, if it is the one that was opened.
    fn expect_same(&self) -> Result<Found, String> {
        let controller = self.controller.ok_or("there is no controller")?;
        let info = self.engine.info(controller).ok_or("there is no controller")?;
        Found::look(self.engine.namespaces(controller), info, self.nsid, self.found.as_ref())
    }

    fn take_messages(&mut self) {
        loop {
            match self.inbox.try_recv() {
                Ok(message) => self.take_message(message),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    if !self.has_ended {
                        self.has_ended = true;
                        self.close();
                    }
                    return;
                }
            }
        }
    }

    fn take_message(&mut self, message: ToWorker) {
        match message {
            ToWorker::Attach(pipeline) => self.pipeline = Some(pipeline),
            ToWorker::Do(job) => {
                self.id_last += 1;
                self.jobs.insert(self.id_last, job);
                self.advance(self.id_last);
            }
            #[cfg(test)]
            ToWorker::BreakDown(error) => self.engine.break_down(error),
        }
    }

    /// Sends the next command of a job, or ends it.
    fn advance(&mut self, id: u64) {
        if matches!(self.link, Link::Away | Link::Stopped) || self.is_closed() {
            return self.end(id, Err(self.refusal()));
        }
        if self.fence.is_some() && self.link != Link::Up {
            return self.waiting.push_back(id);
        }
        let (Some(found), Some(controller)) = (&self.found, self.controller) else {
            return self.waiting.push_back(id);
        };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match job.next(id, found, &mut self.pool) {
            Step::Done => self.end(id, Ok(())),
            Step::Send(request) => {
                if let Err(refused) = self.engine.submit(controller, request) {
                    job.on_refused(refused.request.buffer);
                    match refused.why {
                        Refusal::Busy | Refusal::NotReady => self.waiting.push_back(id),
                        Refusal::Gone => self.end(id, Err(io::Error::new(PATH_LOST, "the back-end is gone"))),
                        why => self.end(id, Err(io::Error::other(why))),
                    }
                }
            }
        }
    }

    fn send_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(id) = self.waiting.pop_front() else { return };
            self.advance(id);
        }
    }

    fn on_completed(&mut self, completion: Completion) {
        if self.fence.as_ref().is_some_and(|fence| fence.has_sent(completion.tag)) {
            return self.on_fence_completed(completion);
        }
        let Completion { tag: id, result, buffer, .. } = completion;
        let (is_open, is_fenced) = (matches!(self.link, Link::Up | Link::Down { .. }), self.fence.is_some());
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match result {
            Err(IoError::ConnectionLost | IoError::ControllerGone)
                if is_open && is_fenced && job.may_go_again() =>
            {
                job.on_refused(buffer);
                self.waiting.push_back(id);
            }
            Ok(()) => {
                job.on_success(buffer);
                self.advance(id);
            }
            Err(error) => {
                job.keep(buffer);
                if error == IoError::NamespaceChanged {
                    self.stop("after the reconnect, the namespace is gone or a different one");
                }
                if matches!(error, IoError::Status(status) if status.is(Status::RESERVATION_CONFLICT)) {
                    self.lose("the back-end has refused an IO: another target has taken it over");
                }
                let result = if self.link == Link::Stopped { self.refusal() } else { error_of(error) };
                self.end(id, Err(result));
            }
        }
    }

    fn end(&mut self, id: u64, result: io::Result<()>) {
        if let Some(job) = self.jobs.remove(&id) {
            // Without a receiver the device is gone, and so are those who would want to know.
            self.has_news = true;
            let _ = self.outbox.send(job.end(Clock.now(), result));
        }
    }
}

/// The other target's answer as the error of a device. Of a reservation that another target has taken, this target's hosts learn that the
/// path is at fault.
fn error_of(error: IoError) -> io::Error {
    match error {
        IoError::Status(status) if status.sct == SCT_PATH || status.is(Status::RESERVATION_CONFLICT) => {
            io::Error::new(PATH_LOST, error)
        }
        IoError::Status(Status { sct, sc, dnr }) => {
            CommandStatus { code_type: sct, code: sc, do_not_retry: dnr }.into()
        }
        IoError::ConnectionLost | IoError::ControllerGone => io::Error::new(PATH_LOST, error),
        IoError::NamespaceChanged => io::Error::from_raw_os_error(libc::ENODEV),
    }
}
