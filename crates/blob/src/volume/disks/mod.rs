//! The SSDs from this client's point of view: which can be reached, how busy they are, and the IOs to them (`io`).
//!
//! An SSD that has been away for too long counts as gone: its data gets another copy elsewhere.
//!
//! Elsewhere: `disk` counts epochs and flushes; `space` knows the free space on an SSD.

mod disk;
mod io;

pub(crate) use disk::Sequence;
pub(crate) use io::WriteError;

use io::IoEnd;

use super::clock::Clock;
use super::lease::Lease;
use super::outbox::Outbox;
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use super::{IoId, Settings};
use crate::steer::{Data, Slow, Steering};
use crate::task::{Answer, Gate, Spawner};
use crate::{Fault, SsdId};
use disk::Disk;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::Instant;

/// All SSDs; see the module.
pub(crate) struct Disks {
    settings: Rc<Settings>,
    spawner: Spawner,
    clock: Rc<Clock>,
    outbox: Rc<Outbox>,
    phase: Rc<Phase>,
    lease: Rc<Lease>,
    repair: Rc<RepairSignal>,
    disks: RefCell<BTreeMap<SsdId, Disk>>,
    /// Notified when an SSD becomes reachable or unreachable.
    reach: Gate,
    steering: RefCell<Box<dyn Steering>>,
    ios: RefCell<BTreeMap<IoId, Answer<IoEnd>>>,
    ios_sent: Cell<u64>,
    /// Notified when an IO has ended.
    io_ended: Gate,
}

impl Disks {
    pub(crate) fn new(
        settings: Rc<Settings>,
        spawner: Spawner,
        clock: Rc<Clock>,
        outbox: Rc<Outbox>,
        phase: Rc<Phase>,
        lease: Rc<Lease>,
        repair: Rc<RepairSignal>,
    ) -> Rc<Disks> {
        Rc::new(Disks {
            steering: RefCell::new(settings.policy.start()),
            settings,
            spawner,
            clock,
            outbox,
            phase,
            lease,
            repair,
            disks: RefCell::default(),
            reach: Gate::default(),
            ios: RefCell::default(),
            ios_sent: Cell::default(),
            io_ended: Gate::default(),
        })
    }

    fn with<T>(&self, ssd: SsdId, work: impl FnOnce(&mut Disk) -> T) -> T {
        work(self.disks.borrow_mut().entry(ssd).or_default())
    }

    /// Sets the SSDs that exist, each with its domain.
    pub(crate) fn know(&self, ssds: &[(SsdId, String)]) {
        self.steering.borrow_mut().on_ssds(ssds);
    }

    /// Notes that an SSD can be reached in an epoch, or not any more. Returns whether it is back.
    pub(crate) fn on_reach(self: &Rc<Self>, ssd: SsdId, is_up: bool, epoch: u64) -> bool {
        let is_back = self.with(ssd, |disk| disk.on_reach(is_up, epoch));
        if !is_up {
            self.note_away(ssd);
        }
        self.reach.notify();
        is_back
    }

    /// Notes that an SSD cannot be reached. If that stays so for too long, the SSD counts as gone, and the repair is
    /// notified.
    pub(crate) fn note_away(self: &Rc<Self>, ssd: SsdId) {
        if !self.with(ssd, |disk| disk.on_away(self.clock.now())) {
            return;
        }
        let disks = Rc::clone(self);
        self.spawner.spawn(async move {
            disks.clock.sleep(disks.settings.away_max).await;
            if disks.is_gone(ssd) {
                disks.repair.set();
            }
        });
    }

    /// Takes the report of the switch in front of an SSD: the credit, and whether the SSD is slow.
    pub(crate) fn on_told(&self, ssd: SsdId, credit: Option<u32>, slow: Option<Slow>) {
        self.with(ssd, |disk| disk.on_told(credit, slow));
    }

    pub(crate) fn is_up(&self, ssd: SsdId) -> bool {
        self.with(ssd, |disk| disk.is_up())
    }

    pub(crate) fn is_any_away(&self) -> bool {
        self.disks.borrow().values().any(|disk| !disk.is_up())
    }

    /// Whether an SSD has been away for so long that operations do not wait for it any more.
    pub(crate) fn is_gone(&self, ssd: SsdId) -> bool {
        self.with(ssd, |disk| disk.is_away_for(self.settings.away_max, self.clock.now()))
    }

    /// Waits until a condition holds. It is checked when an SSD becomes reachable or unreachable, at `at`, and at the
    /// end of the mount.
    pub(crate) async fn reach_until(&self, at: Instant, condition: impl Fn() -> bool) {
        self.clock.notify_at(at, &self.reach);
        self.reach.wait(|| condition().then_some(())).await;
    }

    /// Waits until one of these SSDs that is away is back. Returns whether one is back before `give_up`.
    pub(crate) async fn wait_for_one(&self, ssds: &[SsdId], give_up: Instant) -> bool {
        let away: Vec<SsdId> = ssds.iter().copied().filter(|ssd| !self.is_up(*ssd)).collect();
        if away.is_empty() {
            return false;
        }
        let is_over = || self.phase.is_over() || self.clock.now() >= give_up;
        self.reach_until(give_up, || away.iter().any(|ssd| self.is_up(*ssd)) || is_over()).await;
        !is_over()
    }

    /// Calls `find`. If it fails because SSDs are unreachable, waits for one of these SSDs and tries again.
    pub(crate) async fn in_time<T>(
        &self,
        ssds: &[SsdId],
        find: impl AsyncFn() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        loop {
            let found = find().await;
            let is_away = matches!(found, Err(Fault::Unreachable));
            if !is_away || !self.wait_for_one(ssds, give_up).await {
                return found;
            }
        }
    }

    /// Wakes the waiting tasks at the end of the mount.
    pub(crate) fn stop(&self) {
        self.reach.notify();
    }

    /// Chooses which of two SSDs to read from.
    pub(crate) fn choose(&self, ssds: [SsdId; 2]) -> usize {
        match ssds.map(|ssd| self.is_up(ssd)) {
            [true, false] => 0,
            [false, true] => 1,
            _ => {
                let now = self.clock.now();
                let loads = ssds.map(|ssd| (ssd, self.with(ssd, |disk| disk.load(now))));
                self.steering.borrow_mut().read(self.clock.wall_clock(), loads)
            }
        }
    }

    /// The rank of an SSD for new data; the highest is taken.
    pub(crate) fn rank(&self, ssd: SsdId, data: Data) -> i64 {
        let load = self.with(ssd, |disk| disk.load(self.clock.now()));
        self.steering.borrow().rank(self.clock.wall_clock(), ssd, load, data)
    }

    /// The time until which an abandoned write or trim to an SSD may still take effect.
    pub(crate) fn stray_until(&self, ssd: SsdId) -> Instant {
        self.with(ssd, |disk| disk.stray_until())
    }

    /// Notes that writes of an earlier mount may take effect on an SSD until then.
    pub(crate) fn note_stray(&self, ssd: SsdId, until: Instant) {
        self.with(ssd, |disk| disk.on_stray(until));
    }

    /// Whether no abandoned write may still take effect.
    pub(crate) fn is_calm(&self) -> bool {
        self.disks.borrow().values().all(|disk| disk.stray_until() <= self.clock.now())
    }
}
