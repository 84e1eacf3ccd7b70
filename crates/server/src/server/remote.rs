//! Operations on a running target from any thread, whatever its owner does meanwhile: look at it, and stop it at once.
//!
//! The owner of the [`ServerHandle`](super::ServerHandle) may wait for a device for as long as a reload is allowed to. Who looks asks no thread: the numbers are where every thread can
//! read them (`crate::stats::board`), so an SSD whose thread hangs in a system call has its numbers too, and says for how long it has been hanging.
//!
//! Holds: statistics come at once while a reload waits for a device that hangs (`statistics_come_while_a_reload_waits_for_a_device` in
//!        `tests/reload.rs`).

use super::takeover::Groups;
use super::topology::Topology;
use crate::acceptor;
use crate::config::Config;
use crate::connections::message::ToConnections;
use crate::device::{Pool, Room, Snapshot, SnapshotError};
use crate::listing::Listing;
use crate::mailbox::Mailbox;
use crate::pipeline::change::Change;
use crate::pipeline::message::{ToAcceptor, ToPipeline};
use crate::proof::{KeyRing, KeyUse, Refusals};
use crate::stats::beat::Pulse;
use crate::stats::board::Board;
use crate::stats::{AcceptorBoard, SlowIos, Stats, ThreadBoard};
use reactor::Clock;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tracing::info;

/// See the module. It can be cloned.
#[derive(Clone)]
pub struct Remote(Arc<Mutex<Running>>);

struct Running {
    acceptor: RunningAcceptor,
    /// In the order of the configuration; after these, those that it no longer has.
    ssds: Vec<RunningSsd>,
    others: Vec<RunningOther>,
    refusals: Refusals,
    keys: Arc<KeyRing>,
    named: Arc<HashSet<String>>,
    groups: Groups,
    is_stopped: bool,
    is_drained: bool,
}

struct RunningAcceptor {
    mailbox: Mailbox<ToAcceptor>,
    board: Arc<AcceptorBoard>,
    pulse: Pulse,
}

struct RunningOther {
    mailbox: Mailbox<ToConnections>,
    board: Arc<ThreadBoard>,
    pulse: Pulse,
}

struct RunningSsd {
    device: String,
    flush_failed: Arc<AtomicBool>,
    mailbox: Mailbox<ToPipeline>,
    board: Arc<Board>,
    /// The files of a directory.
    pool: Option<Arc<Pool>>,
}

impl Running {
    /// Tells every thread which groups were taken over.
    fn tell_groups(&self) {
        let taken = self.groups.taken();
        self.ssds.iter().for_each(|ssd| ssd.change(Change::Taken(Arc::clone(&taken))));
    }
}

impl RunningSsd {
    fn change(&self, change: Change) {
        self.mailbox.tell(ToPipeline::Change(Box::new(change)));
    }
}

impl Remote {
    /// Of a target with these threads.
    pub(super) fn new(topology: &Topology) -> Remote {
        let running = |other: &super::topology::Other| RunningOther {
            mailbox: other.thread.mailbox.clone(),
            board: Arc::clone(&other.board),
            pulse: other.pulse.clone(),
        };
        let others = topology.others.iter().map(running).collect();
        let acceptor = RunningAcceptor {
            mailbox: topology.acceptor.thread.mailbox.clone(),
            board: Arc::clone(&topology.acceptor.board),
            pulse: topology.acceptor.pulse.clone(),
        };
        let refusals = topology.proofs.refusals.clone();
        Remote(Arc::new(Mutex::new(Running {
            acceptor,
            ssds: Vec::new(),
            others,
            refusals,
            keys: Arc::clone(&topology.proofs.keys),
            named: Arc::default(),
            groups: Groups::default(),
            is_stopped: false,
            is_drained: false,
        })))
    }

    /// Other SSDs run now.
    pub(super) fn update(&self, topology: &Topology, config: &Config) {
        let place = |name: &str| config.devices.iter().position(|device| device.name == name);
        let mut ssds: Vec<_> = topology.running().map(|(_, ssd)| ssd).collect();
        ssds.sort_by_key(|ssd| place(&ssd.name).unwrap_or(usize::MAX));
        let running = |ssd: &super::topology::Ssd| RunningSsd {
            device: ssd.name.clone(),
            flush_failed: Arc::clone(&ssd.facts.flush_failed),
            mailbox: ssd.thread.mailbox.clone(),
            board: Arc::clone(&ssd.board),
            pool: ssd.facts.pool.clone(),
        };
        let ssds = ssds.into_iter().map(running).collect();
        let mut running = self.lock();
        running.ssds = ssds;
        running.keys = Arc::clone(&topology.proofs.keys);
        // A thread that is new does not know yet. Until now no host could connect to it.
        let is_drained = running.is_drained;
        running.ssds.iter().for_each(|ssd| ssd.change(Change::Drained(is_drained)));
        running.named = Arc::new(config.named_hosts());
        let fence = |device: &str| topology.ssd(device).and_then(|(_, ssd)| ssd.facts.fence.clone());
        running.groups.update(config, fence);
        running.tell_groups();
    }

    /// The snapshots in a directory, by name. Reads the directory.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn snapshots(&self, device: &str) -> Result<Vec<Snapshot>, SnapshotError> {
        self.pool(device)?.snapshots()
    }

    /// The space of a directory. Asks the file system.
    ///
    /// # Errors
    /// There is no such directory, or its file system does not say.
    pub fn room(&self, device: &str) -> Result<Room, SnapshotError> {
        Ok(self.pool(device)?.room()?)
    }

    fn pool(&self, device: &str) -> Result<Arc<Pool>, SnapshotError> {
        let pool = self.lock().ssds.iter().find(|ssd| ssd.device == device).and_then(|ssd| ssd.pool.clone());
        pool.ok_or_else(|| SnapshotError::NoDevice(device.to_owned()))
    }

    /// Statistics of all SSDs and threads. An SSD whose thread has ended is left out.
    pub fn stats(&self) -> Stats {
        let now = Clock.now();
        let (mut stats, boards) = {
            let running = self.lock();
            let of_ssd = |ssd: &RunningSsd| (Arc::clone(&ssd.board), Arc::clone(&ssd.flush_failed));
            let boards: Vec<_> = running.ssds.iter().map(of_ssd).collect();
            let threads = running.others.iter().map(|other| other.board.stats(other.pulse.turn(now)));
            let stats = Stats {
                ssds: Vec::new(),
                threads: threads.collect(),
                acceptor: running.acceptor.board.stats(running.acceptor.pulse.turn(now)),
                refusals: running.refusals.counts(),
                named: Arc::clone(&running.named),
                groups: running.groups.states(),
                is_drained: running.is_drained,
            };
            (stats, boards)
        };
        let live = boards.iter().filter(|(board, _)| !board.pulse().has_ended());
        stats.ssds = live
            .map(|(board, flush_failed)| board.stats(Clock.now(), flush_failed.load(Ordering::Relaxed)))
            .collect();
        stats
    }

    /// The slowest IOs of each SSD in the last minute.
    pub fn slow_ios(&self) -> SlowIos {
        let boards: Vec<_> = self.lock().ssds.iter().map(|ssd| Arc::clone(&ssd.board)).collect();
        let live = boards.iter().filter(|board| !board.pulse().has_ended());
        let now = Clock.now();
        SlowIos { at: now, ssds: live.map(|board| board.slow_ios(now)).collect() }
    }

    /// The uses of the keys of a host, in the order of its fields; `None` if it has no `[[host]]`.
    pub fn key_uses(&self, host: &str) -> Option<Vec<KeyUse>> {
        let keys = Arc::clone(&self.lock().keys);
        keys.uses(Clock.now(), host)
    }

    /// Changes, or looks at, the groups; then every thread is told which were taken over.
    pub(super) fn with_groups<T>(&self, change: impl FnOnce(&mut Groups) -> T) -> T {
        let mut running = self.lock();
        let before = running.groups.taken();
        let result = change(&mut running.groups);
        if running.groups.taken() != before {
            running.tell_groups();
        }
        result
    }

    /// Drains the target for maintenance, or ends that: all namespaces are inaccessible to hosts, which are told, and no new connection to a
    /// subsystem is accepted. IOs that were accepted end as usual. It is forgotten when the target ends.
    pub fn drain(&self, is_drained: bool) {
        let mut running = self.lock();
        if std::mem::replace(&mut running.is_drained, is_drained) != is_drained {
            let what = if is_drained { "drained for maintenance" } else { "not drained any more" };
            info!("the target is {what}");
        }
        running.acceptor.mailbox.tell(ToAcceptor::Change(acceptor::Change::Drained(is_drained)));
        running.ssds.iter().for_each(|ssd| ssd.change(Change::Drained(is_drained)));
    }

    /// All connections to subsystems, after everything that was asked of their threads before. Waits for a thread that hangs for `limit`.
    pub fn connections(&self, limit: Duration) -> Listing {
        let asked: Vec<_> = {
            let running = self.lock();
            let live = running.ssds.iter().filter(|ssd| !ssd.board.pulse().has_ended());
            live.map(|ssd| {
                let (answer, answered) = channel();
                ssd.change(Change::List(answer));
                (ssd.device.clone(), answered)
            })
            .collect()
        };
        let deadline = Instant::now() + limit;
        let (mut connections, mut unanswered) = (Vec::new(), Vec::new());
        for (device, answered) in asked {
            match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(found) => connections.extend(found),
                Err(RecvTimeoutError::Timeout) => unanswered.push(device),
                // The thread has ended, and its connections with it.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        Listing::new(connections, unanswered)
    }

    /// Stops the target at once: commands may stay unanswered.
    pub fn stop(&self) {
        let mut running = self.lock();
        running.is_stopped = true;
        running.acceptor.mailbox.tell(ToAcceptor::Stop);
        running.ssds.iter().for_each(|ssd| ssd.mailbox.tell(ToPipeline::Stop));
        running.others.iter().for_each(|other| other.mailbox.tell(ToConnections::Stop));
    }

    /// Whether the target was stopped at once.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().expect("nobody panics with it")
    }
}
