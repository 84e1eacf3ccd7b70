//! What all procedures of a volume share: time, actions to the outside and the answers, SSDs, the metadata in memory.

use super::clock::Clock;
use super::disk::{Disk, Sequence};
use super::files::Files;
use super::journal::JournalState;
use super::lease::LeaseState;
use super::outbox::{Orders, Outbox};
use super::phase::Phase;
use super::space::SpaceState;
use super::state::State;
use super::{Action, Class, Counters, Io, IoFault, IoId, IoKind, Settings};
use crate::pool::Pool;
use crate::steer::{Load, Steering};
use crate::task::{Answer, Gate, Spawner, join};
use crate::{Fault, Geometry, Place, SsdId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::Instant;

/// Why a write did not happen, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The SSD or the way to it. It may still happen, late.
    Disk(IoFault),
    /// It was not sent, because this client may not write.
    Lease(Fault),
}

/// The end of an IO.
pub(crate) struct IoEnd {
    pub(crate) epoch: u64,
    pub(crate) result: Result<Vec<u8>, IoFault>,
}

pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) spawner: Spawner,
    pub(crate) clock: Rc<Clock>,
    pub(crate) outbox: Rc<Outbox>,
    pub(crate) orders: Rc<Orders>,
    pub(crate) phase: Rc<Phase>,
    next_id: Cell<u64>,
    pub(crate) ios: RefCell<BTreeMap<IoId, Answer<IoEnd>>>,
    /// An IO has ended.
    pub(crate) io_gate: Gate,
    pub(crate) disks: RefCell<BTreeMap<SsdId, Disk>>,
    /// An SSD came or went.
    pub(crate) disk_gate: Gate,
    pub(crate) steering: RefCell<Box<dyn Steering>>,
    pub(crate) state: RefCell<State>,
    pub(crate) pool: RefCell<Pool>,
    pub(crate) lease: LeaseState,
    pub(crate) journal: JournalState,
    pub(crate) space: SpaceState,
    pub(crate) files: Files,
    pub(crate) repair_wanted: Cell<bool>,
    pub(crate) repair_gate: Gate,
    pub(crate) counters: RefCell<Counters>,
}

impl Core {
    pub(crate) fn new(settings: Settings, spawner: Spawner) -> Rc<Core> {
        let outbox = Rc::<Outbox>::default();
        Rc::new(Core {
            steering: RefCell::new(settings.policy.start()),
            settings,
            clock: Clock::new(spawner.clone()),
            spawner,
            orders: Orders::new(Rc::clone(&outbox)),
            outbox,
            phase: Rc::default(),
            next_id: Cell::default(),
            ios: RefCell::default(),
            io_gate: Gate::default(),
            disks: RefCell::default(),
            disk_gate: Gate::default(),
            state: RefCell::default(),
            pool: RefCell::new(Pool::new(Geometry::default(), 0)),
            lease: LeaseState::default(),
            journal: JournalState::default(),
            space: SpaceState::default(),
            files: Files::default(),
            repair_wanted: Cell::default(),
            repair_gate: Gate::default(),
            counters: RefCell::default(),
        })
    }

    fn take_id(&self) -> u64 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }

    async fn io(&self, ssd: SsdId, class: Class, kind: IoKind) -> IoEnd {
        let sent = self.clock.now();
        let (is_read, bytes) = match &kind {
            IoKind::Read { length, .. } => (Some(true), u64::from(*length)),
            IoKind::Write { bytes, .. } => (Some(false), bytes.len() as u64),
            IoKind::Flush | IoKind::Trim { .. } => (None, 0),
        };
        let (id, answer) = (IoId(self.take_id()), Answer::new());
        self.ios.borrow_mut().insert(id, answer.clone());
        let writing = if is_read == Some(false) { bytes } else { 0 };
        self.with_disk(ssd, |disk| {
            disk.in_flight += 1;
            disk.writing += writing;
        });
        self.outbox.push(Action::Io(Io { id, ssd, class, kind }));
        let end = answer.await;
        self.with_disk(ssd, |disk| {
            disk.in_flight -= 1;
            disk.writing -= writing;
            disk.on_epoch(end.epoch);
        });
        if end.result.is_err() && is_read != Some(true) {
            let until = self.clock.now() + self.settings.quarantine;
            self.with_disk(ssd, |disk| disk.stray_until = until);
        }
        if let (true, Some(is_read)) = (end.result.is_ok(), is_read) {
            let latency = self.clock.now().saturating_since(sent);
            self.steering.borrow_mut().on_completion(self.clock.wall_clock(), ssd, is_read, bytes, latency);
        }
        end
    }

    /// Waits until one of these SSDs that is away is back. Answers whether one is, before it was time to give up.
    pub(crate) async fn wait_for_one(self: &Rc<Self>, ssds: &[SsdId], give_up: Instant) -> bool {
        let is_up = |ssd: &SsdId| self.with_disk(*ssd, |disk| disk.is_up);
        let away: Vec<SsdId> = ssds.iter().copied().filter(|ssd| !is_up(ssd)).collect();
        if away.is_empty() {
            return false;
        }
        self.clock.notify_at(give_up, &self.disk_gate);
        let is_over = || self.phase.is_over() || self.clock.now() >= give_up;
        self.disk_gate.wait(|| (away.iter().any(is_up) || is_over()).then_some(())).await;
        !is_over()
    }

    /// An SSD cannot be reached: when that has been so for too long, it is gone, and there is something to repair.
    pub(crate) fn note_away(self: &Rc<Self>, ssd: SsdId) {
        if self.with_disk(ssd, |disk| disk.away_since.is_some()) {
            return;
        }
        self.with_disk(ssd, |disk| disk.away_since = Some(self.clock.now()));
        let core = Rc::clone(self);
        self.spawner.spawn(async move {
            core.clock.sleep(core.settings.away_max).await;
            if core.is_gone(ssd) {
                core.want_repair();
            }
        });
    }

    /// Whether an SSD has been away for so long that it is not waited for any more.
    pub(crate) fn is_gone(&self, ssd: SsdId) -> bool {
        let since = self.with_disk(ssd, |disk| disk.away_since);
        since.is_some_and(|since| self.clock.now() >= since + self.settings.away_max)
    }

    pub(crate) fn with_disk<T>(&self, ssd: SsdId, work: impl FnOnce(&mut Disk) -> T) -> T {
        work(self.disks.borrow_mut().entry(ssd).or_default())
    }

    pub(crate) fn load(&self, ssd: SsdId) -> Load {
        let now = self.clock.now();
        let load = |disk: &mut Disk| {
            let Disk { credit, in_flight, writing, slow, .. } = *disk;
            Load { credit, in_flight, writing, ..Load::default() }.told(now, slow)
        };
        self.with_disk(ssd, load)
    }

    /// Reads bytes of an SSD.
    pub(crate) async fn read_disk(
        &self,
        ssd: SsdId,
        class: Class,
        at: u64,
        length: u32,
    ) -> Result<Vec<u8>, IoFault> {
        let bytes = self.io(ssd, class, IoKind::Read { at, length }).await.result?;
        if bytes.len() == length as usize { Ok(bytes) } else { Err(IoFault::Failed) }
    }

    /// Reads a micro blob.
    pub(crate) async fn read_micro(&self, class: Class, place: Place) -> Result<Vec<u8>, IoFault> {
        let geometry = self.phase.geometry();
        let most = (self.settings.read_max.0 as u32).max(geometry.block);
        let pieces = (0..geometry.micro).step_by(most as usize).map(|from| {
            let length = most.min(geometry.micro - from);
            self.read_disk(place.ssd, class, geometry.byte_of(place) + u64::from(from), length)
        });
        Ok(join(pieces).await.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Writes bytes to an SSD, to be flushed. `Ok(None)`: the connection was lost since, so that the write may be lost as well.
    pub(crate) async fn write_disk(
        self: &Rc<Self>,
        ssd: SsdId,
        class: Class,
        at: u64,
        bytes: Arc<Vec<u8>>,
    ) -> Result<Option<Sequence>, WriteError> {
        let epoch = self.send_write(ssd, class, IoKind::Write { at, bytes, durable: false }).await?;
        Ok(self.with_disk(ssd, |disk| disk.on_written(epoch)))
    }

    /// Writes bytes to an SSD. They survive a power loss when this returns.
    pub(crate) async fn write_durably(
        self: &Rc<Self>,
        ssd: SsdId,
        class: Class,
        at: u64,
        bytes: Arc<Vec<u8>>,
    ) -> Result<(), WriteError> {
        self.send_write(ssd, class, IoKind::Write { at, bytes, durable: true }).await.map(drop)
    }

    /// Answers the epoch in which it has completed.
    async fn send_write(self: &Rc<Self>, ssd: SsdId, class: Class, write: IoKind) -> Result<u64, WriteError> {
        self.may_write().await.map_err(WriteError::Lease)?;
        let end = self.io(ssd, class, write).await;
        end.result.map_err(WriteError::Disk)?;
        Ok(end.epoch)
    }

    /// Makes the writes of an SSD up to `upto` durable. Flushes that are asked for at the same time are one.
    pub(crate) async fn flush_disk(&self, ssd: SsdId, upto: Sequence) -> Result<(), IoFault> {
        let gate = self.with_disk(ssd, |disk| disk.gate.clone());
        loop {
            let is_first = gate
                .wait(|| {
                    self.with_disk(ssd, |disk| {
                        if disk.flushed >= upto {
                            Some(false)
                        } else if disk.is_flushing {
                            None
                        } else {
                            disk.is_flushing = true;
                            Some(true)
                        }
                    })
                })
                .await;
            if !is_first {
                return Ok(());
            }
            let covered = self.with_disk(ssd, |disk| disk.written);
            let end = self.io(ssd, Class::Normal, IoKind::Flush).await;
            self.with_disk(ssd, |disk| {
                disk.is_flushing = false;
                if end.result.is_ok() {
                    disk.on_flushed(end.epoch, covered);
                }
            });
            gate.notify();
            end.result?;
        }
    }

    /// Tells an SSD that it may forget.
    pub(crate) async fn trim_disk(
        self: &Rc<Self>,
        ssd: SsdId,
        at: u64,
        length: u64,
    ) -> Result<(), WriteError> {
        self.may_write().await.map_err(WriteError::Lease)?;
        let trim = IoKind::Trim { at, length };
        self.io(ssd, Class::Normal, trim).await.result.map(drop).map_err(WriteError::Disk)
    }
}
