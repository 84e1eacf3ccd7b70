//! Space: allocates micro blobs for new data, and recovers freed ones.
//!
//! A freed micro blob is reused only after the record that freed it is durable, because until then a crash may bring
//! the file back. It is trimmed before it is allocated again.
//!
//! ```text
//!   freed ──record durable──► trimmed ──► free       (if the SSD failed a write or trim lately: in quarantine first)
//! ```
//!
//! Holds: a crash never finds a file's blocks overwritten by another file (`tests/worlds.rs`).

use super::Settings;
use super::clock::Clock;
use super::disks::Disks;
use super::journal::{Journal, Lsn};
use super::lease::Lease;
use super::phase::{Identity, Phase};
use crate::catalog::{Lock, Order, Reply, SsdRecord};
use crate::pool::{Pool, Reserve};
use crate::steer::Data;
use crate::task::Gate;
use crate::{Copies, Fault, Geometry, Mega, Place, SsdId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::Instant;

/// Number of wholly free mega blobs of each SSD that a volume keeps, so that it need not request new ones at once.
const MEGAS_KEPT: usize = 1;

#[derive(Clone, Copy)]
struct Freed {
    place: Place,
    lsn: Lsn,
}

/// The space of a volume; see the module.
pub(crate) struct Space {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    phase: Rc<Phase>,
    lease: Rc<Lease>,
    disks: Rc<Disks>,
    journal: Rc<Journal>,
    pool: RefCell<Pool>,
    freed: RefCell<Vec<Freed>>,
    is_reclaiming: Cell<bool>,
    is_taking: Cell<bool>,
    /// Whether an order to take or give back mega blobs is in flight.
    is_ordering: Cell<bool>,
    gate: Gate,
    /// Number of micro blobs that were allocated with one copy.
    degraded: Cell<u64>,
}

/// The purpose of a reservation.
#[derive(Clone, Copy)]
enum Purpose {
    New(Data),
    Copy(Option<SsdId>),
}

impl Space {
    pub(crate) fn new(
        settings: Rc<Settings>,
        clock: Rc<Clock>,
        phase: Rc<Phase>,
        lease: Rc<Lease>,
        disks: Rc<Disks>,
        journal: Rc<Journal>,
    ) -> Rc<Space> {
        Rc::new(Space {
            settings,
            clock,
            phase,
            lease,
            disks,
            journal,
            pool: RefCell::new(Pool::new(Geometry::default(), 0)),
            freed: RefCell::default(),
            is_reclaiming: Cell::default(),
            is_taking: Cell::default(),
            is_ordering: Cell::default(),
            gate: Gate::default(),
            degraded: Cell::default(),
        })
    }

    /// Begins the mount: the volume is locked for it.
    pub(crate) fn begin(&self, identity: Identity) {
        *self.pool.borrow_mut() = Pool::new(identity.geometry, identity.volume.0);
    }

    /// Sets the SSDs that exist.
    pub(crate) fn know(&self, ssds: &[(SsdId, SsdRecord)]) {
        let mega = self.phase.geometry().mega;
        let mut pool = self.pool.borrow_mut();
        for (ssd, record) in ssds {
            // The volume takes no new mega blobs of another size, but keeps those that it has.
            let fits = record.mega == mega;
            pool.add_ssd(*ssd, &record.domain, if fits { record.megas() } else { 0 });
            pool.set_up(*ssd, self.disks.is_up(*ssd));
        }
    }

    /// Notes that an SSD can be reached, or not any more.
    pub(crate) fn on_reach(&self, ssd: SsdId, is_up: bool) {
        self.pool.borrow_mut().set_up(ssd, is_up);
    }

    /// Whether an SSD exists and can be reached.
    pub(crate) fn is_up(&self, ssd: SsdId) -> bool {
        self.pool.borrow().is_up(ssd)
    }

    /// Number of SSDs that can be reached.
    pub(crate) fn count_up(&self) -> u64 {
        let pool = self.pool.borrow();
        pool.ssds().filter(|ssd| pool.is_up(*ssd)).count() as u64
    }

    /// Whether SSDs of two domains can be reached.
    pub(crate) fn has_pairs(&self) -> bool {
        self.pool.borrow().has_pairs()
    }

    /// Number of micro blobs in use, and of free ones in the volume's mega blobs.
    pub(crate) fn micros(&self) -> (usize, usize) {
        self.pool.borrow().count()
    }

    /// Number of micro blobs that were allocated with one copy since the mount.
    pub(crate) fn degraded(&self) -> u64 {
        self.degraded.get()
    }

    /// Adds mega blobs that the volume owns for data. Their micro blobs are free from `from` on, except those in
    /// `used`.
    pub(crate) fn own(&self, megas: impl Iterator<Item = Mega>, used: &BTreeSet<Place>, from: Instant) {
        let mut pool = self.pool.borrow_mut();
        megas.for_each(|mega| pool.add_mega(mega, used, from));
    }

    /// Takes a mega blob for a copy of the metadata, on a domain without a copy: one that the store still has, or an
    /// empty one of this volume. Returns none if there is none.
    pub(crate) async fn take_elsewhere(&self, copies: &[Mega]) -> Result<Vec<Mega>, Fault> {
        let candidates: Vec<_> = {
            let pool = self.pool.borrow();
            let taken: BTreeSet<_> =
                copies.iter().filter_map(|mega| pool.domain(mega.ssd).map(str::to_owned)).collect();
            let free = pool.ssds().filter(|&ssd| {
                pool.is_up(ssd) && pool.domain(ssd).is_some_and(|domain| !taken.contains(domain))
            });
            free.map(|ssd| (ssd, pool.megas_of(ssd))).collect()
        };
        for &candidate in &candidates {
            let reply = self.order_megas(|lock| Order::Take { lock, ssds: vec![candidate] }).await?;
            if let Reply::Taken(megas) = reply {
                return Ok(megas);
            }
        }
        let now = self.clock.now();
        let own = candidates.iter().find_map(|&(ssd, _)| self.pool.borrow_mut().take_idle_of(now, ssd));
        Ok(own.into_iter().collect())
    }

    /// Frees a place that nothing refers to any more, once this record is durable.
    pub(crate) fn free(&self, place: Place, lsn: Lsn) {
        self.freed.borrow_mut().push(Freed { place, lsn });
        self.gate.notify();
    }

    pub(crate) fn stop(&self) {
        self.gate.notify();
    }

    /// Reserves a primary and a shadow.
    pub(crate) async fn reserve(&self, data: Data) -> Result<Copies, Fault> {
        match self.reserve_for(Purpose::New(data)).await? {
            Reserve::Pair(primary, shadow) => Ok([Some(primary), Some(shadow)]),
            Reserve::Single(primary) => {
                self.degraded.set(self.degraded.get() + 1);
                Ok([Some(primary), None])
            }
            other => unreachable!("not a reservation: {other:?}"),
        }
    }

    /// Reserves a place for a new copy, on another domain than the other one.
    pub(crate) async fn reserve_copy(&self, other: Option<SsdId>) -> Result<Place, Fault> {
        match self.reserve_for(Purpose::Copy(other)).await? {
            Reserve::Single(place) => Ok(place),
            other => unreachable!("not a reservation of a copy: {other:?}"),
        }
    }

    async fn reserve_for(&self, purpose: Purpose) -> Result<Reserve, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        let mut has_asked_again = false;
        loop {
            // While another task takes mega blobs, wait for it.
            self.gate.wait(|| (!self.is_taking.get()).then_some(())).await;
            let now = self.clock.now();
            let data = match purpose {
                Purpose::New(data) => data,
                Purpose::Copy(_) => Data::Bulk,
            };
            let rank = |ssd| self.disks.rank(ssd, data);
            let reserve = match purpose {
                Purpose::New(_) => self.pool.borrow_mut().reserve(now, rank),
                Purpose::Copy(other) => self.pool.borrow_mut().reserve_copy(now, other, rank),
            };
            match reserve {
                Reserve::Pair(..) | Reserve::Single(_) => return Ok(reserve),
                Reserve::Need(ssds) => {
                    self.is_taking.set(true);
                    let taken = self.take_megas(ssds).await;
                    self.is_taking.set(false);
                    self.gate.notify();
                    taken?;
                }
                Reserve::Full { until } => {
                    if !self.freed.borrow().is_empty() {
                        self.reclaim().await?;
                    } else if let Some(until) = until.filter(|&until| until <= give_up && until > now) {
                        self.clock.sleep_until(until).await;
                    } else if has_asked_again {
                        return Err(Fault::NoSpace);
                    } else {
                        // The store had none left, but this volume or others may have given some back since.
                        let ssds: Vec<SsdId> = self.pool.borrow().ssds().collect();
                        ssds.into_iter().for_each(|ssd| self.pool.borrow_mut().set_exhausted(ssd, false));
                        has_asked_again = true;
                    }
                }
            }
        }
    }

    /// Takes or gives back mega blobs, one order after the other. Otherwise, an order to give back that is retried
    /// because its reply was lost could hit mega blobs that were taken in between.
    async fn order_megas(&self, order: impl Fn(Lock) -> Order) -> Result<Reply, Fault> {
        self.gate.wait(|| (!self.is_ordering.replace(true)).then_some(())).await;
        let result = self.lease.order(order).await;
        self.is_ordering.set(false);
        self.gate.notify();
        result
    }

    async fn take_megas(&self, ssds: Vec<SsdId>) -> Result<(), Fault> {
        let wanted: Vec<(SsdId, u32)> =
            ssds.into_iter().map(|ssd| (ssd, self.pool.borrow().megas_of(ssd))).collect();
        match self.order_megas(|lock| Order::Take { lock, ssds: wanted.clone() }).await? {
            Reply::Taken(megas) => {
                let mut pool = self.pool.borrow_mut();
                megas.into_iter().for_each(|mega| pool.add_mega(mega, &BTreeSet::new(), Instant::ZERO));
            }
            Reply::Full(ssds) => {
                let mut pool = self.pool.borrow_mut();
                ssds.into_iter().for_each(|ssd| pool.set_exhausted(ssd, true));
            }
            other => unreachable!("not an answer to Take: {other:?}"),
        }
        Ok(())
    }

    /// Number of bytes that files may still take, counting reachable SSDs only, and if no other volume takes their
    /// space: a pair of micro blobs on two domains for each block, or one on the only domain that is left. Places that
    /// wait to be trimmed do not count.
    pub(crate) async fn free_bytes(&self) -> Result<u64, Fault> {
        let Reply::Ssds(ssds) = self.lease.order(|_| Order::Look).await? else {
            unreachable!("Look is answered with SSDs")
        };
        let (geometry, pool) = (self.phase.geometry(), self.pool.borrow());
        let mut domains: BTreeMap<&str, u64> = BTreeMap::new();
        for ssd in ssds.iter().filter(|ssd| pool.is_up(ssd.id)) {
            let megas = u64::from(pool.megas_of(ssd.id).saturating_sub(ssd.used));
            let micros = megas * geometry.mega_micros() + pool.free_of(ssd.id);
            *domains.entry(pool.domain(ssd.id).unwrap_or_default()).or_default() += micros;
        }
        let (all, most) = (domains.values().sum::<u64>(), domains.values().copied().max().unwrap_or(0));
        let micros = if domains.len() == 1 { all } else { (all / 2).min(all - most) };
        Ok(micros * geometry.micro_blocks() * geometry.payload())
    }

    /// Recovers freed space, as long as the volume is mounted, and gives back mega blobs that the volume does not need,
    /// including those of the previous mount.
    pub(crate) async fn keep(self: Rc<Self>) {
        loop {
            self.give_back().await;
            let release = self.pool.borrow().next_release();
            if let Some(at) = release {
                self.clock.notify_at(at, &self.gate);
            }
            let has_left = || release.is_some_and(|at| self.clock.now() >= at);
            let is_work = || !self.freed.borrow().is_empty() || has_left() || self.phase.is_over();
            self.gate.wait(|| is_work().then_some(())).await;
            if self.phase.is_over() || self.lease.is_fenced() {
                return;
            }
            self.clock.sleep(self.settings.reclaim_delay).await;
            // After a failure the space stays in the list.
            let _ = self.reclaim().await;
        }
    }

    /// Gives back wholly free mega blobs, except a few.
    async fn give_back(&self) {
        let megas = self.pool.borrow_mut().take_idle(self.clock.now(), MEGAS_KEPT);
        if !megas.is_empty() {
            // If this fails, the volume keeps them, and the next mount finds them.
            let _ = self.order_megas(|lock| Order::GiveBack { lock, megas: megas.clone() }).await;
        }
    }

    async fn reclaim(&self) -> Result<(), Fault> {
        self.gate.wait(|| (!self.is_reclaiming.get()).then_some(())).await;
        self.is_reclaiming.set(true);
        let result = self.reclaim_alone().await;
        self.is_reclaiming.set(false);
        self.gate.notify();
        result
    }

    async fn reclaim_alone(&self) -> Result<(), Fault> {
        let batch = self.freed.borrow().clone();
        let Some(lsn) = batch.iter().map(|freed| freed.lsn).max() else { return Ok(()) };
        self.journal.durable(lsn).await?;
        let micro = u64::from(self.phase.geometry().micro);
        for freed in &batch {
            let at = self.phase.geometry().byte_of(freed.place);
            // If the trim fails, the place is free as well.
            let _ = self.disks.trim(freed.place.ssd, at, micro).await;
            let from = self.disks.stray_until(freed.place.ssd).max(self.clock.now());
            self.pool.borrow_mut().release(freed.place, from);
        }
        self.freed.borrow_mut().drain(..batch.len());
        Ok(())
    }
}
