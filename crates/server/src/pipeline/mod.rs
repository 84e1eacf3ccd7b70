//! The thread of one SSD: its connections, its subsystems, its switch.
//!
//! ```text
//!   Pipeline: one turn of the loop after the other (`turn`), changes (`change`), new connections (`handover`), the end (`ending`)
//!    ├─ Tenants      limits for the memory of each, and counters                           `tenants`
//!    ├─ Storing      copies of reservations on their way to the state directory            `reservations`
//!    ├─ Wipes        blocks that are erased for their next owner                           `wipe`
//!    ├─ Learning     the model of the SSD, on its way to the state directory               `learning`
//!    ├─ ObjectiveWatch  what becomes of tenants' objectives of latency, in the log         `objectives`
//!    ├─ Publishing   numbers on their way to readers                                        `publishing`
//!    ├─ DeviceWatch  IOs that hang, or end late                                            `hang`
//!    └─ Commands     from a command to its answer                                          `commands`
//!        ├─ Homes       the subsystems: command ─► reply, or a checked IO                  `homes`
//!        ├─ Sessions    connections with their IOs, by namespace, and their waiting reads  `sessions`
//!        ├─ ReadMemory  memory for read data, and the sessions that wait for it            `reads`
//!        ├─ Switch      scheduler and device of this SSD, and the slots of all IOs         `crate::switch`
//!        ├─ Port        IOs on their way to other SSDs, and those of others here           `port`
//!        ├─ Wires       the way to connections, here or on other threads                   `wires`
//!        ├─ Fences      answers that wait for the IOs of others                            `fence`
//!        ├─ Orphans     IOs of a host's earlier connections on the device                  `orphans`
//!        └─ Aborts      Aborts that wait for word of another thread                        `abort`
//! ```
//!
//! A part owns its tables, and its methods take all else as arguments: so a signature says which state a step can change. A step that can set off others
//! (an IO ends, so a read gets its memory, a fence falls, a session is over) is a method of `Commands`, in the file of its idea. Only
//! `Pipeline` has the reactor, the mailbox and the phase of the end.
//!
//! A *session* lives here from the Connect command on, and stays until its last IO has ended, also when the connection
//! has ended before, as the device may still use its buffers. The connection itself (`connections`) may be carried by this thread
//! or by another; whatever is promised of its commands is kept here.
//!
//! Holds: no lock in the path of an IO; a session's IOs are bounded by its queue, its memory by its account
//!        (`tests/bounds.rs`); a drained pipeline has answered every command it took (`tests/lifecycle.rs`).
//! Reading order: `turn`, `commands`, `arrivals` (input from connections), `closing` (the end of a session), then the parts.

mod abort;
pub(crate) mod admission;
mod arrivals;
pub(crate) mod change;
mod closing;
mod commands;
mod ending;
mod fence;
mod handover;
mod hang;
mod homes;
mod host_io;
mod learning;
mod listing;
pub(crate) mod message;
mod objectives;
mod orphans;
mod port;
mod proofs;
mod publishing;
mod reads;
mod reasons;
mod reservations;
mod sessions;
mod tenants;
#[cfg(test)]
mod tests;
mod turn;
pub(crate) mod wipe;
mod wires;

pub(crate) use port::Peers;
#[cfg(test)]
pub(crate) use port::Window;

use crate::config::Limits;
use crate::connections::load::Load;
use crate::connections::message::ToConnections;
use crate::device::Held;
use crate::log_throttle::LogThrottle;
use crate::mailbox::{Inbox, Mailbox};
use crate::memory::Memory;
use crate::proof::Proofs;
use crate::replies::{Deferred, ReplyRate};
use crate::slab::Key;
use crate::state::Keeper;
use crate::stats::beat::Beat;
use crate::stats::board::Board;
use crate::switch::Switch;
use abort::Aborts;
use commands::Commands;
use fence::Fences;
use hang::DeviceWatch;
use homes::Homes;
use host_io::{DeviceErrors, HostIo};
use learning::Learning;
use message::{Announcement, Report, ToPipeline};
use nvme::subsystem::QueueKey;
use objectives::ObjectiveWatch;
use orphans::Orphans;
use port::Port;
use proofs::SessionProofs;
use publishing::Publishing;
use reactor::Reactor;
use reads::ReadMemory;
use reservations::Storing;
use sessions::Sessions;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tenants::Tenants;
use tracing::debug;
use turn::Turns;
use units::{Instant, TenantId};
use wipe::Wipes;
use wires::Wires;

/// The parts of a pipeline.
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
    /// The name by which the SSD is known again, if it has one.
    pub(crate) lasting_name: Option<String>,
    /// Its file or disk.
    pub(crate) held: Option<Arc<Held>>,
    /// Memory.
    pub(crate) memory: Memory,
    /// Bounds.
    pub(crate) limits: Limits,
    /// The keys of hosts, and the way to check them.
    pub(crate) proofs: Proofs,
    /// Its mailbox.
    pub(crate) mailbox: Mailbox<ToPipeline>,
    /// The load of this thread.
    pub(crate) load: Load,
    /// Threads that have connections and no SSD, and what each has to do.
    pub(crate) others: Vec<(Mailbox<ToConnections>, Load)>,
    /// Its numbers, for readers.
    pub(crate) board: Arc<Board>,
    /// The sign of life.
    pub(crate) beat: Beat,
}

/// The owner of an IO.
pub(crate) enum Origin {
    /// A session's here.
    Local(HostIo),
    /// Another pipeline, which knows the IO by that key.
    Remote { from: usize, io: Key },
    /// The flush at the end.
    Target,
    /// A part of an erasure for the target: the key of its `Wipe`.
    Wipe(Key),
}

/// Phases of the end of the pipeline.
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
    /// The device's name.
    name: Arc<str>,
    reactor: Reactor,
    inbox: Inbox<ToPipeline>,
    reports: Sender<Report>,
    limits: Limits,
    /// Commands of hosts in progress.
    commands: Commands,
    tenants: Tenants,
    storing: Storing,
    learning: Learning,
    objectives: ObjectiveWatch,
    wipes: Wipes,
    watch: DeviceWatch,
    publishing: Publishing,
    beat: Beat,
    phase: Phase,
    turns: Turns,
    /// Kept for its memory from turn to turn.
    ended: Vec<Key>,
}

impl Pipeline {
    pub(crate) fn new(parts: Parts) -> Pipeline {
        let Parts { index, memory, limits, .. } = parts;
        let device: Arc<str> = parts.name.into();
        let commands = Commands {
            device: Arc::clone(&device),
            held: parts.held,
            switch: parts.switch,
            port: Port::new(index),
            homes: Homes::default(),
            sessions: Sessions::new(),
            wires: Wires::new(index, memory.arrivals, parts.load, parts.others),
            reads: ReadMemory::new(memory.reads),
            deferred: Deferred::default(),
            reply_rate: ReplyRate::of(&limits),
            orphans: Orphans::default(),
            fences: Fences::new(),
            aborts: Aborts::new(),
            device_errors: DeviceErrors::new(Arc::clone(&device)),
            log_throttle: LogThrottle::new(),
            proofs: SessionProofs { shared: parts.proofs, mailbox: parts.mailbox },
        };
        Pipeline {
            name: Arc::clone(&device),
            reactor: parts.reactor,
            inbox: parts.inbox,
            reports: parts.reports,
            commands,
            tenants: Tenants::new(memory, &limits),
            limits,
            storing: Storing::new(parts.keeper.clone()),
            learning: Learning::new(parts.lasting_name, parts.keeper),
            objectives: ObjectiveWatch::default(),
            wipes: Wipes::new(device),
            watch: DeviceWatch::new(),
            publishing: Publishing::new(parts.board),
            beat: parts.beat,
            phase: Phase::Running,
            turns: Turns::default(),
            ended: Vec::new(),
        }
    }

    fn on_tenant(&mut self, now: Instant, announcement: Announcement) {
        if announcement.is_reused {
            self.commands.switch.forget(now, announcement.id);
        }
        let (id, share) = (announcement.id, announcement.share);
        self.tenants.announce(announcement, &self.limits, &self.publishing.board);
        self.promise(now, id, share);
    }

    /// A namespace is no tenant any more.
    fn on_tenant_gone(&mut self, now: Instant, id: TenantId) {
        if self.tenants.remove(id, &self.publishing.board) {
            self.commands.switch.forget(now, id);
            self.objectives.forget(id);
            self.publishing.has_happened = true;
        }
    }

    fn report(&self, report: Report) {
        if self.reports.send(report).is_err() {
            debug!(device = %self.name, ?report, "nobody waits for this report");
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
