//! The worker of a fenced device: it takes the namespace over, sends no IO unless it holds it, and notices that it does not any more.
//!
//! ```text
//!   free ──take──► held, every IO goes ──release──► free
//!                   │ the connection is lost: IOs wait
//!                   ▼
//!                  a report on the next connection ── still held: they go ── not: lost, they fail, the group is told ──► free
//!                  (and each second, for want of IOs that would be refused)
//!                  away for `timeout`: IOs fail, and the group is told; so it is when the back-end is there again and still held
//! ```
//!
//! After a lost connection nothing may be sent before the report was read, so each connection is a controller of its own, and an IO
//! without an answer comes back here instead of going again by itself.
//!
//! Holds: a target that was stopped while another one took over writes nothing any more, and without the fence it would (`tests/takeover.rs`).

use super::fence::{self, Generation, Refused, Step, Takeover};
use super::worker::{Link, PATH_LOST, Worker};
use host::{Completion, HostId, IoError, Operation, Request, Reservation, ReservationReport};
use nvme::spec::Status;
use nvme::spec::identify_namespace::RESCAP_PERSISTENCE;
use nvme::spec::status::SCT_PATH;
use reactor::{Clock, IoBuffer, Waker};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use tracing::{info, warn};
use units::{Instant, Lba, Nanos};

/// Bytes of a report: of 63 registrants.
const REPORT: usize = 4096;
/// Commands of one takeover, also with lost answers and with others that take over at the same time.
const STEPS_MAX: u32 = 256;
/// RESCAP: Write Exclusive - Registrants Only is supported.
const RESCAP_REGISTRANTS_ONLY: u8 = 1 << 3;
/// The time between two looks at a namespace that is held: its hosts learn from an idle target, too, that another one has it.
const LOOK_EVERY: Nanos = Nanos::secs(1);
/// The time-outs of the back-end that an answer may take: for the way, for a silent command, and to settle.
const TIMEOUTS_OF_ANSWER: u32 = 4;

/// News of a namespace that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Another target has it.
    Lost,
    /// The back-end has been away for too long: IOs fail.
    Away,
    /// The back-end is there again, and the namespace still held.
    Back,
}

/// Called when there is news of a namespace that is held.
pub(crate) type OnNews = Box<dyn Fn(Holding) + Send>;

/// A demand on a fenced device.
enum Ask {
    /// Whether a takeover is possible. Nothing changes.
    Look { generation: Generation, answer: SyncSender<Result<(), Refused>> },
    /// A takeover.
    Take { generation: Generation, on_news: OnNews, answer: SyncSender<Result<(), Refused>> },
    /// No IO from now on. Answered when none is under way.
    Release { answer: SyncSender<Result<(), Refused>> },
}

/// The way to a fenced device, from any thread.
pub(crate) struct FenceHandle {
    asks: Sender<Ask>,
    worker: Waker,
    timeout: Nanos,
}

impl fmt::Debug for FenceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FenceHandle(timeout {})", self.timeout)
    }
}

impl FenceHandle {
    /// Whether the namespace could be taken over. Waits.
    pub(crate) fn look(&self, generation: Generation) -> Result<(), Refused> {
        self.ask(|answer| Ask::Look { generation, answer })
    }

    /// Takes the namespace over. Waits, for the IOs of the former holder, too.
    pub(crate) fn take(&self, generation: Generation, on_news: OnNews) -> Result<(), Refused> {
        self.ask(|answer| Ask::Take { generation, on_news, answer })
    }

    /// Sends no IO from now on, and waits for those that are under way. Others fail for want of a path.
    pub(crate) fn release(&self) -> Result<(), Refused> {
        self.ask(|answer| Ask::Release { answer })
    }

    fn ask(&self, ask: impl FnOnce(SyncSender<Result<(), Refused>>) -> Ask) -> Result<(), Refused> {
        let (answer, answered) = sync_channel(1);
        let gone = || Refused::Unable("the device has stopped: start the target again".to_owned());
        self.asks.send(ask(answer)).map_err(|_| gone())?;
        self.worker.wake();
        let limit = Duration::from_nanos(self.timeout.get()) * TIMEOUTS_OF_ANSWER;
        answered.recv_timeout(limit).unwrap_or_else(|error| match error {
            RecvTimeoutError::Disconnected => Err(gone()),
            RecvTimeoutError::Timeout => {
                Err(Refused::Unable(format!("there was no end of it within {limit:?}")))
            }
        })
    }
}

/// The namespace is held.
struct Hold {
    generation: Generation,
    on_news: OnNews,
}

/// The purpose of a demand.
enum Goal {
    Look,
    Take(OnNews),
}

/// A demand that is being met.
struct Work {
    takeover: Takeover,
    goal: Goal,
    answer: SyncSender<Result<(), Refused>>,
    /// The next command, if not a report.
    change: Option<(Reservation, u64, u64)>,
    steps: u32,
    /// After that it is refused.
    deadline: Instant,
    /// No command before.
    settles_until: Option<Instant>,
}

/// The part of the worker of a fenced device.
pub(super) struct Fence {
    own: HostId,
    asks: Receiver<Ask>,
    hold: Option<Hold>,
    work: Option<Work>,
    /// The report or change that is outstanding.
    outstanding: Option<(u64, Option<Reservation>)>,
    /// Whether the connection is there.
    is_ready: bool,
    /// The next look at a namespace that is held.
    looks_at: Instant,
    /// Waits for the last IO under way.
    released: Option<SyncSender<Result<(), Refused>>>,
}

impl Fence {
    pub(super) fn new(own: HostId, timeout: Nanos, worker: Waker) -> (Fence, FenceHandle) {
        let (asks, asked) = channel();
        let fence = Fence {
            own,
            asks: asked,
            hold: None,
            work: None,
            outstanding: None,
            is_ready: false,
            looks_at: Instant::FAR_FUTURE,
            released: None,
        };
        (fence, FenceHandle { asks, worker, timeout })
    }

    /// The connection is there. A held namespace is looked at, at once.
    pub(super) fn on_ready(&mut self) {
        (self.is_ready, self.looks_at) = (true, Instant::ZERO);
    }

    /// The connection is gone.
    pub(super) fn on_gone(&mut self) {
        self.is_ready = false;
    }

    /// Whether IOs may be sent, once the link is up.
    pub(super) fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Whether this is the outstanding command of the fence.
    pub(super) fn has_sent(&self, id: u64) -> bool {
        self.outstanding.is_some_and(|(sent, _)| sent == id)
    }

    /// When there is something to do, whatever comes.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let looks =
            (self.hold.is_some() && self.outstanding.is_none() && self.is_ready).then_some(self.looks_at);
        let (deadline, settled) = self.work.as_ref().map(|work| (work.deadline, work.settles_until)).unzip();
        [looks, deadline, settled.flatten()].into_iter().flatten().min()
    }

    fn answer(&mut self, result: Result<(), Refused>) {
        if let Some(work) = self.work.take() {
            // Whoever asked may have waited too long already.
            let _ = work.answer.send(result);
        }
    }
}

impl Worker {
    /// Meets demands on a fenced device: to be called after everything else that has happened.
    pub(super) fn drive_fence(&mut self, now: Instant) {
        let Some(fence) = &mut self.fence else { return };
        if fence.released.is_some() && self.jobs.is_empty() {
            let released = fence.released.take();
            released.into_iter().for_each(|answer| drop(answer.send(Ok(()))));
        }
        while fence.work.is_none()
            && let Ok(ask) = fence.asks.try_recv()
        {
            let (generation, goal, answer) = match ask {
                Ask::Look { generation, answer } => (generation, Goal::Look, answer),
                Ask::Take { generation, on_news, answer } => (generation, Goal::Take(on_news), answer),
                Ask::Release { answer } => {
                    fence.hold = None;
                    fence.released = Some(answer);
                    info!(device = %self.name, "the namespace is released: no IO goes to the back-end any more");
                    self.fail_waiting();
                    return self.drive_fence(now);
                }
            };
            let takeover = Takeover::new(fence.own, generation);
            let deadline = now + self.timeout;
            fence.work =
                Some(Work { takeover, goal, answer, change: None, steps: 0, deadline, settles_until: None });
        }
        self.drive_takeover(now);
    }

    fn drive_takeover(&mut self, now: Instant) {
        let (link, found) = (self.link, self.found);
        let Some(fence) = &mut self.fence else { return };
        if let Some(work) = &mut fence.work {
            if link == Link::Stopped {
                let why = "the device has stopped: the back-end is not the namespace that was opened";
                return fence.answer(Err(Refused::Unable(why.to_owned())));
            }
            if let Some(why) = found.and_then(|found| lacking(found.namespace.reservation_capabilities)) {
                return fence.answer(Err(Refused::Unable(why.to_owned())));
            }
            if now >= work.deadline || work.steps > STEPS_MAX {
                let (timeout, fault) = (self.timeout, &self.fault);
                let why = format!("the back-end did not answer everything within {timeout}: {fault}");
                return fence.answer(Err(Refused::Unable(why)));
            }
            if let Some(until) = work.settles_until {
                if now < until {
                    return;
                }
                work.settles_until = None;
                work.takeover.on_settled();
            }
        }
        if fence.outstanding.is_some() || !fence.is_ready {
            return;
        }
        let is_wanted = fence.work.is_some() || fence.hold.is_some() && fence.looks_at <= now;
        if is_wanted {
            fence.looks_at = now + LOOK_EVERY;
            let change = fence.work.as_mut().and_then(|work| {
                work.steps += 1;
                work.change.take()
            });
            self.send_to_fence(change);
        }
    }

    fn send_to_fence(&mut self, change: Option<(Reservation, u64, u64)>) {
        let (Some(controller), Some(found)) = (self.controller, self.found) else { return };
        let length = if change.is_some() { Reservation::KEYS } else { REPORT };
        let mut buffer = self.pool.take(length).expect("its pool has no limit");
        let operation = match change {
            None => Operation::ReportReservations,
            Some((change, current, other)) => {
                buffer.copy_from_slice(&Reservation::keys(current, other));
                Operation::Reserve(change)
            }
        };
        self.id_last += 1;
        let id = self.id_last;
        let request = Request::new(id, found.namespace.nsid, operation, Lba(0), 0).with_buffer(buffer);
        let refused = self.engine.submit(controller, request).err();
        let Some(fence) = &mut self.fence else { return };
        match refused {
            None => fence.outstanding = Some((id, change.map(|(change, ..)| change))),
            Some(refused) if refused.why == host::Refusal::Unsupported => {
                fence.answer(Err(Refused::Unable("the back-end has no reservations".to_owned())));
            }
            // The connection is about to end, or the queue is full: the next turn tries again, after another report.
            Some(_) => {}
        }
    }

    /// The outstanding report or change has ended.
    pub(super) fn on_fence_completed(&mut self, completion: Completion) {
        let Completion { result, buffer, .. } = completion;
        let Some(fence) = &mut self.fence else { return };
        let change = fence.outstanding.take().and_then(|(_, change)| change);
        match (change, result) {
            (None, Ok(())) => self.on_report(buffer),
            // Somebody has changed something meanwhile: the next report says what.
            (Some(_), Err(IoError::Status(status))) if status.is(Status::RESERVATION_CONFLICT) => {}
            (Some(_), Ok(())) => {}
            (change, Err(IoError::ConnectionLost | IoError::ControllerGone)) => {
                if let (Some(change), Some(work)) = (change, &mut fence.work) {
                    work.takeover.on_lost(change);
                }
            }
            // The back-end serves nobody for a while: a held namespace is looked at again.
            (None, Err(IoError::Status(status))) if status.sct == SCT_PATH && fence.work.is_none() => {}
            (_, Err(error)) => {
                let why = format!("the back-end refuses a command of reservations: {error}");
                match fence.work {
                    Some(_) => fence.answer(Err(Refused::Unable(why))),
                    None => self.lose(&why),
                }
            }
        }
    }

    fn on_report(&mut self, buffer: Option<IoBuffer>) {
        let report = ReservationReport::parse(buffer.as_deref().unwrap_or_default());
        let Some(fence) = &mut self.fence else { return };
        let report = match report {
            Ok(report) => report,
            Err(error) if fence.work.is_some() => {
                return fence.answer(Err(Refused::Unable(error.to_string())));
            }
            Err(error) => return self.lose(&error.to_string()),
        };
        let own = fence.own;
        if let Some(hold) = &fence.hold {
            let taking = fence.work.as_ref().map(|work| work.takeover.generation());
            let mut generations = [Some(hold.generation), taking].into_iter().flatten();
            match generations.any(|generation| fence::is_held(&report, own, generation)) {
                true => self.link_is_up(),
                false => self.lose("another target has taken it over"),
            }
        }
        self.go_on(&report);
    }

    /// Goes on with a takeover after a report.
    fn go_on(&mut self, report: &ReservationReport) {
        let (now, timeout) = (Clock.now(), self.timeout);
        let Some(fence) = &mut self.fence else { return };
        let Some(work) = &mut fence.work else { return };
        let step = match work.goal {
            Goal::Look => work.takeover.look(report).map(|()| Step::Done),
            Goal::Take(_) => work.takeover.next(report),
        };
        match step {
            Err(refused) => fence.answer(Err(refused)),
            Ok(Step::Change(change, current, other)) => work.change = Some((change, current, other)),
            Ok(Step::Settle) => {
                work.settles_until = Some(now + timeout);
                work.deadline = now + timeout + timeout;
            }
            Ok(Step::Done) => {
                let Some(Work { takeover, goal, answer, .. }) = fence.work.take() else { return };
                if let Goal::Take(on_news) = goal {
                    let generation = takeover.generation();
                    fence.hold = Some(Hold { generation, on_news });
                    info!(device = %self.name, generation, "the namespace is taken over");
                    self.link_is_up();
                }
                // Whoever asked may have waited too long already.
                let _ = answer.send(Ok(()));
            }
        }
    }

    /// The namespace is not held any more: IOs fail, and the group is told.
    pub(super) fn lose(&mut self, why: &str) {
        let Some(fence) = &mut self.fence else { return };
        let Some(Hold { generation, on_news }) = fence.hold.take() else { return };
        warn!(device = %self.name, generation, why, "the back-end is not held any more: its group is inaccessible until the next takeover");
        on_news(Holding::Lost);
        self.fail_waiting();
        if self.fence.as_ref().is_some_and(|fence| fence.is_ready) {
            self.link_is_up();
        }
    }

    /// Tells the group, if the namespace is held.
    pub(super) fn tell_hold(&self, news: Holding) {
        if let Some(hold) = self.fence.as_ref().and_then(|fence| fence.hold.as_ref()) {
            (hold.on_news)(news);
        }
    }

    /// The connection of a fenced device was lost: nothing more is sent on its controller, which would connect by itself.
    pub(super) fn abandon_controller(&mut self) {
        let Some(fence) = &mut self.fence else { return };
        if std::mem::take(&mut fence.is_ready)
            && let Some(controller) = self.controller
        {
            self.engine.close(controller);
        }
    }
}

/// The reason why a namespace with these capabilities (RESCAP) cannot be fenced.
fn lacking(capabilities: u8) -> Option<&'static str> {
    if capabilities & RESCAP_REGISTRANTS_ONLY == 0 {
        return Some("the back-end has no reservations of the type Write Exclusive - Registrants Only");
    }
    if capabilities & RESCAP_PERSISTENCE == 0 {
        return Some(
            "the back-end's reservations do not outlast a power loss; a gimbal target needs state_dir for that",
        );
    }
    None
}

/// The error of an IO of a fenced device that is not held.
pub(super) fn not_held() -> io::Error {
    io::Error::new(PATH_LOST, "the back-end is fenced, and this target has not taken it over")
}
