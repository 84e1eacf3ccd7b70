//! A mounted volume: a state machine that turns requests into IOs and orders, and their results into outcomes.
//!
//! ```text
//!   submit(op, request) ┐                                ┌─► Action::Io, Action::Order: to be carried out
//!   on_io, on_reply     ├─► tasks run until they wait ───┼─► Action::Done: the outcome of an operation
//!   on_time, on_ssd     ┘                                └─► next_timer: the time for the next on_time
//! ```
//!
//! *Parts* own the state of a volume: their fields are private, and a part holds the parts that it may use.
//! *Procedures* (append, read, mount, ...) are made of the parts that they need, so the type of a procedure shows which
//! state it can touch.
//!
//! ```text
//!  Parts
//!   ├─ Clock        time, timers                                            clock
//!   ├─ Outbox       actions; Orders: those that wait for the store          outbox
//!   ├─ Phase        identity, mounted, over                                 phase
//!   ├─ Lease        the time in which this client may write                 lease
//!   ├─ Disks        SSDs, IOs in flight, epochs, flushes, steering          disks/
//!   ├─ Metadata     names, files, extents in memory                         metadata, state
//!   ├─ Journal      the same on two SSDs                                    journal/
//!   ├─ Space        free and freed micro blobs                              space
//!   └─ Files        handles, pins, open files                               files/
//!       └─ OpenFile   Tail, Units, Durability, Usage
//!  Procedures
//!   ├─ Names        directories, files, links                               names
//!   ├─ Copies       writes, flushes and reads of two copies                 copies
//!   ├─ Appender, Sender, Extents, Syncer, Layouts                           write/
//!   ├─ Reader       which copy, and the other one if it is wrong            read
//!   ├─ Repairer, Copier, Scrubber                                           repair/
//!   ├─ Rack         the SSDs that exist                                     rack
//!   └─ Mounter, MetadataFinder, EndFinder                                   mount/
//! ```
//!
//! Reading order: `parts`, `service` (which procedure serves which request), `state` (the metadata), `files` and `write` (from bytes to
//! blocks), `journal`, `mount`, `lease`.

mod action;
mod check;
mod clock;
mod copies;
mod disks;
mod files;
mod journal;
mod lease;
mod metadata;
mod mount;
mod names;
mod outbox;
mod parts;
mod phase;
mod rack;
mod read;
mod repair;
mod repair_signal;
mod request;
mod service;
mod settings;
mod space;
mod state;
mod write;

pub use files::HandleId;
pub use names::normal as normal_path;
pub use settings::Settings;

pub use action::{Action, Class, Io, IoFault, IoId, IoKind, OpId, OrderId};
pub use request::{Counters, Outcome, Report, Request, Shown, Stat};

use crate::SsdId;
use crate::catalog::{OrderError, Reply};
use crate::steer::Slow;
use crate::task::Tasks;
use parts::Parts;
use service::Service;
use std::rc::Rc;
use units::{Instant, Nanos};

/// A volume of this client; see the module.
pub struct Volume {
    parts: Parts,
    service: Rc<Service>,
    tasks: Tasks,
}

impl Volume {
    /// Creates a volume that is not mounted yet.
    pub fn new(settings: Settings) -> Volume {
        let tasks = Tasks::default();
        let parts = Parts::new(settings, tasks.spawner());
        let service = Service::new(&parts);
        Volume { parts, service, tasks }
    }

    /// Sets the wall clock: the time since 1970 at `now`. It gives the times of files, and lets the clients of a rack
    /// do the same at the same time.
    pub fn set_wall_clock(&mut self, now: Instant, since_1970: Nanos) {
        self.parts.clock.set_wall_clock(now, since_1970);
    }

    /// Begins an operation; [`Action::Done`] follows.
    pub fn submit(&mut self, now: Instant, op: OpId, request: Request) {
        self.parts.clock.set_now(now);
        let (service, outbox) = (Rc::clone(&self.service), Rc::clone(&self.parts.outbox));
        self.tasks.spawner().spawn(async move {
            let outcome = service.serve(request).await;
            outbox.push(Action::Done(op, outcome.unwrap_or_else(Outcome::Failed)));
        });
        self.tasks.run();
    }

    /// Takes the result of an IO, which ended on the connection of this epoch. For a read it has the bytes.
    pub fn on_io(&mut self, now: Instant, id: IoId, epoch: u64, result: Result<Vec<u8>, IoFault>) {
        self.parts.clock.set_now(now);
        self.parts.disks.on_io(id, epoch, result);
        self.tasks.run();
    }

    /// Takes the reply of the metadata store.
    pub fn on_reply(&mut self, now: Instant, id: OrderId, reply: Result<Reply, OrderError>) {
        self.parts.clock.set_now(now);
        self.parts.orders.on_reply(id, reply);
        self.tasks.run();
    }

    /// Notes that an SSD can be reached, or not any more. The epoch grows with every new connection.
    pub fn on_ssd(&mut self, now: Instant, ssd: SsdId, is_up: bool, epoch: u64) {
        self.parts.clock.set_now(now);
        let is_back = self.parts.disks.on_reach(ssd, is_up, epoch);
        self.parts.space.on_reach(ssd, is_up);
        if is_back && self.parts.phase.is_mounted() {
            self.parts.repair.set();
        }
        self.tasks.run();
    }

    /// Takes the report of the switch in front of an SSD: the credit, and whether the SSD is slow.
    pub fn on_told(&mut self, ssd: SsdId, credit: Option<u32>, slow: Option<Slow>) {
        self.parts.disks.on_told(ssd, credit, slow);
    }

    /// Advances the time to `now`.
    pub fn on_time(&mut self, now: Instant) {
        self.parts.clock.set_now(now);
        while self.parts.clock.wake_next() {
            self.tasks.run();
        }
    }

    /// The time for the next call of `on_time`.
    pub fn next_timer(&self) -> Option<Instant> {
        self.parts.clock.next_timer()
    }

    /// The next action for the outside, oldest first.
    pub fn next_action(&mut self) -> Option<Action> {
        self.parts.outbox.pop()
    }

    /// Whether another client has locked the volume: then nothing is acknowledged any more.
    pub fn is_fenced(&self) -> bool {
        self.parts.lease.is_fenced()
    }
}
