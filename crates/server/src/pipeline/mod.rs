//! The thread of one SSD: its connections, its subsystems, its switch.
//!
//! ```text
//!   connection ─► Subsystem ──reply──────────────────────────► connection
//!   (here, or on       └──IO──► Switch ─► device ─► completion ──┘
//!   another thread)    └──IO for another SSD──► that pipeline ───┘
//! ```
//!
//! A *session* lives here from the Connect command on, and stays until its last IO has ended, also when the connection
//! has gone before, as buffers are in the device's hands until then. The connection itself (`connections`) may be carried by this thread
//! or by another; whatever is promised of its commands is kept here.
//!
//! Holds: no lock in the path of an IO; a session's IOs are bounded by its queue, its memory by its account
//!        (`tests/bounds.rs`); a drained pipeline has answered every command it took (`tests/lifecycle.rs`).
//! Elsewhere: the loop is `turn`, commands and their completions are `commands`, those that the host has fused `fused`, those it gives up `abort`, the life of a session `sessions`, its place in the acceptor's count `admission`,
//!            other SSDs `remote`,
//!            what changes meanwhile `change`, taking IOs back `withdraw`, waiting for those that must not come any more `fence`,
//!            what a host's earlier connections have left on the device `orphans`,
//!            blocks that are erased for their next owner `wipe`, a device that hangs `hang`, the end in order and out of it `ending`.

mod abort;
pub(crate) mod admission;
mod answers;
pub(crate) mod change;
mod commands;
mod ending;
mod fence;
mod fused;
mod handover;
mod hang;
mod homes;
mod host_io;
mod lanes;
pub(crate) mod message;
mod orphans;
mod peers;
pub(crate) mod placement;
mod remote;
mod reservations;
mod sessions;
mod tenants;
#[cfg(test)]
mod tests;
mod turn;
pub(crate) mod window;
pub(crate) mod wipe;
mod withdraw;

pub(crate) use homes::Home;
pub(crate) use peers::Peers;

use crate::config::Limits;
use crate::connections::Connections;
use crate::connections::load::Load;
use crate::connections::message::ToConnections;
use crate::intrusive_list::Links;
use crate::log_throttle::LogThrottle;
use crate::mailbox::{Inbox, Mailbox};
use crate::memory::Memory;
use crate::outbox::Outboxes;
use crate::replies::Deferred;
use crate::slab::{Key, Slab};
use crate::state::Keeper;
use crate::stats::SsdStats;
use crate::switch::Switch;
use fence::Fence;
use hang::DeviceWatch;
use homes::Homes;
use host_io::HostIo;
use message::{Announcement, Report, ToPipeline};
use nvme::subsystem::QueueKey;
use orphans::{HostNamespace, Orphans};
use reactor::{BufferPool, Reactor};
use remote::Remote;
use reservations::Storing;
use sessions::{Session, Wire};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tenants::Tenants;
use tracing::debug;
use units::Instant;
use wipe::Wipes;

/// What a pipeline is made of.
pub(crate) struct Parts {
    /// Its slot among the pipelines.
    pub(crate) index: usize,
    /// The device's name.
    pub(crate) name: String,
    /// Its reactor, which has the device's file already.
    pub(crate) reactor: Reactor,
    /// Its scheduler and device.
    pub(crate) switch: Switch<Origin>,
    /// The owner's end of its mailbox.
    pub(crate) inbox: Inbox<ToPipeline>,
    /// Whoever started the target.
    pub(crate) reports: Sender<Report>,
    /// Where reservations that persist are kept.
    pub(crate) keeper: Option<Keeper>,
    /// Memory.
    pub(crate) memory: Memory,
    /// Bounds.
    pub(crate) limits: Limits,
    /// What this thread has to do.
    pub(crate) load: Load,
    /// Threads that have connections and no SSD, and what each has to do.
    pub(crate) others: Vec<(Mailbox<ToConnections>, Load)>,
}

/// Whose an IO is.
pub(crate) enum Origin {
    /// A session's here.
    Local(HostIo),
    /// Another pipeline, which knows the IO by that key.
    Remote { from: usize, io: Key },
    /// The flush at the end.
    House,
    /// A part of what is erased for the target: the key of its `Wipe`.
    Wipe(Key),
}

/// How far the end of the pipeline has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// No new commands; answering the old ones.
    Draining,
    /// All answered; other pipelines may still send IOs.
    Drained,
    /// The device is being flushed.
    Flushing,
    Ended,
}

/// See the module.
pub(crate) struct Pipeline {
    index: usize,
    name: Arc<str>,
    reactor: Reactor,
    switch: Switch<Origin>,
    homes: Homes,
    inbox: Inbox<ToPipeline>,
    /// To other pipelines.
    peers: Outboxes<ToPipeline>,
    /// To threads that have connections only.
    others: Outboxes<ToConnections>,
    load: Load,
    loads: Vec<Load>,
    reports: Sender<Report>,
    storing: Storing,
    limits: Limits,
    tenants: Tenants,

    /// Those that this thread carries.
    connections: Connections,
    sessions: Slab<Session>,
    /// The queues of each controller: subsystem and identifier.
    queues_of: HashMap<(usize, u16), Vec<Key>>,
    /// IOs that have started.
    started: u64,
    /// The lists of IOs by connection and namespace, of those that wait for a budget, and of those that are held.
    lane_links: Links,
    waiting_links: Links,
    orphan_links: Links,
    /// Who has to wait for what an earlier connection has left on a device.
    orphans: BTreeMap<HostNamespace, Orphans>,
    remotes: Vec<Remote>,
    /// IOs of other pipelines in the switch, by pipeline and name there.
    remote_ios: HashMap<(usize, Key), Key>,
    /// IOs that other pipelines are about to be asked for.
    asked_back: Vec<(usize, Key)>,
    fences: Slab<Fence>,
    wipes: Wipes,
    /// Aborts that wait for word of another SSD, by the IO.
    aborts: HashMap<Key, Vec<abort::Abort>>,
    /// Aborts that wait for word of the thread that carries the queue.
    cancels: Slab<abort::Cancelling>,

    /// Data that was read.
    reads: BufferPool,
    /// Sessions with commands that wait until they may be answered.
    deferred: Deferred,
    /// Sessions whose reads wait for memory, longest waiting first.
    waiting_for_memory: VecDeque<Key>,
    /// Whether memory of it has come back since those sessions were last served.
    memory_came_back: bool,
    device_errors: u64,
    log_throttle: LogThrottle,
    watch: DeviceWatch,
    phase: Phase,

    /// Kept for its memory from turn to turn.
    ended: Vec<Key>,
}

impl Pipeline {
    pub(crate) fn new(parts: Parts) -> Pipeline {
        let name: Arc<str> = parts.name.into();
        let tenants = Tenants::new(parts.memory, &parts.limits);
        let (mut others, mut loads) = (Outboxes::new(), Vec::new());
        for (thread, (mailbox, load)) in parts.others.into_iter().enumerate() {
            others.set(thread, Some(mailbox));
            loads.push(load);
        }
        Pipeline {
            index: parts.index,
            name: Arc::clone(&name),
            reactor: parts.reactor,
            switch: parts.switch,
            homes: Homes::default(),
            inbox: parts.inbox,
            peers: Outboxes::new(),
            others,
            load: parts.load,
            loads,
            reports: parts.reports,
            storing: Storing::new(parts.keeper),
            limits: parts.limits,
            tenants,
            connections: Connections::new(parts.memory.arrivals),
            sessions: Slab::new(),
            queues_of: HashMap::new(),
            started: 0,
            lane_links: Links::default(),
            waiting_links: Links::default(),
            orphan_links: Links::default(),
            orphans: BTreeMap::new(),
            remotes: Vec::new(),
            remote_ios: HashMap::new(),
            asked_back: Vec::new(),
            fences: Slab::new(),
            wipes: Wipes::new(name),
            aborts: HashMap::new(),
            cancels: Slab::new(),
            reads: BufferPool::new(parts.memory.reads),
            deferred: Deferred::default(),
            waiting_for_memory: VecDeque::new(),
            memory_came_back: false,
            device_errors: 0,
            log_throttle: LogThrottle::new(),
            watch: DeviceWatch::new(),
            phase: Phase::Running,
            ended: Vec::new(),
        }
    }

    fn on_tenant(&mut self, now: Instant, announcement: Announcement) {
        if announcement.is_reused {
            self.switch.forget(now, announcement.id);
        }
        self.promise(now, announcement.id, announcement.share);
        self.tenants.announce(announcement, &self.limits);
    }

    fn mark_waiting_for_memory(&mut self, key: Key) {
        if let Some(session) = self.sessions.get_mut(key)
            && !session.waits_for_memory
        {
            session.waits_for_memory = true;
            self.waiting_for_memory.push_back(key);
        }
    }

    fn report(&self, report: Report) {
        if self.reports.send(report).is_err() {
            debug!(device = %self.name, ?report, "nobody waits for this report");
        }
    }

    fn stats(&mut self, now: Instant) -> SsdStats {
        let policy = self.switch.policy();
        let at = self.switch.clock().to_device(now);
        let backlog = policy.backlog();
        SsdStats {
            device: self.name.to_string(),
            at,
            view: policy.ssd_view(at),
            queued: backlog.queued,
            in_flight: backlog.in_flight,
            hung: self.watch.hung(),
            late: self.watch.late().clone(),
            connections: self.sessions.iter().filter(|(_, session)| session.wire != Wire::Gone).count(),
            tenants: self.tenants.stats(policy),
            memory: self.connections.memory() + self.reads.lent(),
        }
    }
}

/// The name of a session in a subsystem.
fn queue_of(key: Key) -> QueueKey {
    QueueKey { slot: key.index() as u32, generation: key.generation() }
}

/// The session of that name.
fn key_of(queue: QueueKey) -> Key {
    Key::new(queue.slot, queue.generation)
}
