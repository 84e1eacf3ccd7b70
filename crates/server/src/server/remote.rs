//! Operations on a running target from any thread, whatever its owner does meanwhile: look at it, and stop it at once.
//!
//! The owner of the [`ServerHandle`](super::ServerHandle) may wait for a device for as long as a reload is allowed to. So who wants to look asks the threads
//! of the SSDs themselves, within a limit. One that does not answer is reported with its last answer, and has at most one question waiting.
//!
//! Holds: statistics come within the limit while a reload waits for a device that hangs (`statistics_come_while_a_reload_waits_for_a_device` in
//!        `tests/reload.rs`); a thread that does not answer is named, with its last numbers, and is asked once (`a_silent_thread_is_named_and_asked_once`).

use super::topology::Topology;
use crate::config::Config;
use crate::connections::message::ToConnections;
use crate::mailbox::Mailbox;
use crate::pipeline::message::{ToAcceptor, ToPipeline};
use crate::proof::Refusals;
use crate::stats::{SilentSsd, SsdStats, Stats};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// See the module. It can be cloned.
#[derive(Clone)]
pub struct Remote(Arc<Mutex<Running>>);

struct Running {
    acceptor: Mailbox<ToAcceptor>,
    /// In the order of the configuration; after these, those that it no longer has.
    ssds: Vec<RunningSsd>,
    others: Vec<Mailbox<ToConnections>>,
    refusals: Refusals,
    is_stopped: bool,
}

struct RunningSsd {
    device: String,
    mailbox: Mailbox<ToPipeline>,
    last: Option<SsdStats>,
    /// The question that is not answered yet.
    asked: Option<Receiver<SsdStats>>,
}

impl Remote {
    /// Of a target with these threads.
    pub(super) fn new(topology: &Topology) -> Remote {
        let others = topology.others.iter().map(|other| other.thread.mailbox.clone()).collect();
        let acceptor = topology.acceptor.mailbox.clone();
        let refusals = topology.proofs.refusals.clone();
        Remote(Arc::new(Mutex::new(Running {
            acceptor,
            ssds: Vec::new(),
            others,
            refusals,
            is_stopped: false,
        })))
    }

    /// Other SSDs run now.
    pub(super) fn update(&self, topology: &Topology, config: &Config) {
        let mut running = self.lock();
        let place = |name: &str| config.devices.iter().position(|device| device.name == name);
        let mut ssds: Vec<RunningSsd> = topology
            .running()
            .map(|(_, ssd)| RunningSsd {
                device: ssd.name.clone(),
                mailbox: ssd.thread.mailbox.clone(),
                last: None,
                asked: None,
            })
            .collect();
        ssds.sort_by_key(|ssd| place(&ssd.device).unwrap_or(usize::MAX));
        running.ssds = ssds;
    }

    /// Statistics of all SSDs and threads that answer within `limit`, and the last ones of those that do not. An SSD whose thread has ended is left
    /// out. Callers have their turns one after the other.
    pub fn stats(&self, limit: Duration) -> Stats {
        let deadline = Instant::now() + limit;
        let mut running = self.lock();
        // All threads are asked first, then the answers are awaited. So the snapshots are close together in time.
        running.ssds.iter_mut().for_each(RunningSsd::ask);
        let of_others: Vec<_> = running.others.iter().filter_map(ask_other).collect();
        let (mut ssds, mut silent) = (Vec::new(), Vec::new());
        for ssd in &mut running.ssds {
            match ssd.answer(deadline) {
                Some(Ok(stats)) => ssds.push(stats),
                Some(Err(unanswered)) => silent.push(unanswered),
                None => {}
            }
        }
        let left = || deadline.saturating_duration_since(Instant::now());
        let threads =
            of_others.into_iter().filter_map(|answered| answered.recv_timeout(left()).ok()).collect();
        Stats { ssds, silent, threads, refusals: running.refusals.counts() }
    }

    /// Stops the target at once: commands may stay unanswered.
    pub fn stop(&self) {
        let mut running = self.lock();
        running.is_stopped = true;
        running.acceptor.tell(ToAcceptor::Stop);
        running.ssds.iter().for_each(|ssd| ssd.mailbox.tell(ToPipeline::Stop));
        running.others.iter().for_each(|other| other.tell(ToConnections::Stop));
    }

    /// Whether the target was stopped at once.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl RunningSsd {
    /// Asks, unless an earlier question waits for its answer.
    fn ask(&mut self) {
        if self.asked.is_none() {
            let (answer, answered) = channel();
            self.asked = self.mailbox.post(ToPipeline::Stats(answer)).ok().map(|()| answered);
        }
    }

    /// Awaits the answer; `None` if the thread has ended.
    fn answer(&mut self, deadline: Instant) -> Option<Result<SsdStats, SilentSsd>> {
        let answered = self.asked.take()?;
        match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(stats) => {
                self.last = Some(stats.clone());
                Some(Ok(stats))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.asked = Some(answered);
                Some(Err(SilentSsd { device: self.device.clone(), last: self.last.clone() }))
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

fn ask_other(other: &Mailbox<ToConnections>) -> Option<Receiver<crate::stats::ThreadStats>> {
    let (answer, answered) = channel();
    other.post(ToConnections::Stats(answer)).ok().map(|()| answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Backend, Reactor};

    #[test]
    fn a_silent_thread_is_named_and_asked_once() {
        let reactor = Reactor::new(Backend::Epoll).expect("epoll is always there");
        let (mailbox, mut inbox) = Mailbox::new(reactor.waker());
        let mut ssd = RunningSsd { device: "a".to_owned(), mailbox, last: None, asked: None };
        for _ in 0..3 {
            ssd.ask();
            let silent =
                ssd.answer(Instant::now()).expect("its thread is there").expect_err("nobody answers");
            assert_eq!((silent.device.as_str(), silent.last.is_none()), ("a", true));
        }
        let Some(ToPipeline::Stats(answer)) = inbox.take() else { panic!("it was asked") };
        assert!(inbox.take().is_none(), "once");
        drop((answer, inbox));
        assert!(ssd.answer(Instant::now()).is_none(), "its thread has ended");
        ssd.ask();
        assert!(ssd.answer(Instant::now()).is_none());
    }
}
