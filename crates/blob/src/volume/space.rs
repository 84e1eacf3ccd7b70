//! Space: micro blobs for new data, and what happens to those that are freed.
//!
//! A freed micro blob is used again only after the record that freed it is durable: until then a crash may bring the file
//! back. Then it is trimmed, and only then handed out again.
//!
//! ```text
//!   freed ──record durable──► trimmed ──► free       (if the SSD failed a write or trim lately: in quarantine first)
//! ```
//!
//! Holds: a crash never finds a file's blocks overwritten by another file (`tests/worlds.rs`).

use super::core::Core;
use super::journal::Lsn;
use crate::catalog::{Lock, Order, Reply};
use crate::pool::Reserve;
use crate::steer::Data;
use crate::task::Gate;
use crate::{Copies, Fault, Place, SsdId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::Instant;

/// Wholly free mega blobs of each SSD that a volume keeps, so that it need not ask for new ones at once.
const MEGAS_KEPT: usize = 1;

#[derive(Clone, Copy)]
struct Freed {
    place: Place,
    lsn: Lsn,
}

#[derive(Default)]
pub(crate) struct SpaceState {
    freed: RefCell<Vec<Freed>>,
    is_reclaiming: Cell<bool>,
    is_taking: Cell<bool>,
    /// The store is asked to give or take mega blobs.
    is_ordering: Cell<bool>,
    gate: Gate,
}

/// What a reservation is for.
#[derive(Clone, Copy)]
enum Purpose {
    New(Data),
    Copy(Option<SsdId>),
}

impl Core {
    /// Nothing refers to a place any more, as of a record.
    pub(crate) fn free(self: &Rc<Self>, place: Place, lsn: Lsn) {
        self.space.freed.borrow_mut().push(Freed { place, lsn });
        self.space.gate.notify();
    }

    pub(crate) fn stop_space(&self) {
        self.space.gate.notify();
    }

    /// Reserves a primary and a shadow.
    pub(crate) async fn reserve(self: &Rc<Self>, data: Data) -> Result<Copies, Fault> {
        match self.reserve_for(Purpose::New(data)).await? {
            Reserve::Pair(primary, shadow) => Ok([Some(primary), Some(shadow)]),
            Reserve::Single(primary) => {
                self.counters.borrow_mut().degraded_extents += 1;
                Ok([Some(primary), None])
            }
            other => unreachable!("not a reservation: {other:?}"),
        }
    }

    /// Reserves a place for a copy that is to be made anew, away from the other copy.
    pub(crate) async fn reserve_copy(self: &Rc<Self>, other: Option<SsdId>) -> Result<Place, Fault> {
        match self.reserve_for(Purpose::Copy(other)).await? {
            Reserve::Single(place) => Ok(place),
            other => unreachable!("not a reservation of a copy: {other:?}"),
        }
    }

    async fn reserve_for(self: &Rc<Self>, purpose: Purpose) -> Result<Reserve, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        let mut has_asked_again = false;
        loop {
            // While another task takes mega blobs, wait for those.
            self.space.gate.wait(|| (!self.space.is_taking.get()).then_some(())).await;
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
                    self.space.is_taking.set(true);
                    let taken = self.take_megas(ssds).await;
                    self.space.is_taking.set(false);
                    self.space.gate.notify();
                    taken?;
                }
                Reserve::Full { until } => {
                    if !self.space.freed.borrow().is_empty() {
                        self.reclaim().await?;
                    } else if let Some(until) = until.filter(|&until| until <= give_up && until > now) {
                        self.clock.sleep_until(until).await;
                    } else if has_asked_again {
                        return Err(Fault::NoSpace);
                    } else {
                        // The store had nothing left, but something may have been given back since, by this volume or by others.
                        let ssds: Vec<SsdId> = self.pool.borrow().ssds().collect();
                        ssds.into_iter().for_each(|ssd| self.pool.borrow_mut().set_exhausted(ssd, false));
                        has_asked_again = true;
                    }
                }
            }
        }
    }

    /// Takes mega blobs, or gives them back, one order after the other. Else an order to take them back that is tried again because its
    /// answer was lost could hit mega blobs that were given out in between.
    pub(crate) async fn order_megas(self: &Rc<Self>, order: impl Fn(Lock) -> Order) -> Result<Reply, Fault> {
        self.space.gate.wait(|| (!self.space.is_ordering.replace(true)).then_some(())).await;
        let result = self.lease.order(order).await;
        self.space.is_ordering.set(false);
        self.space.gate.notify();
        result
    }

    async fn take_megas(self: &Rc<Self>, ssds: Vec<SsdId>) -> Result<(), Fault> {
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

    /// How many bytes files may still take, as far as SSDs can be reached, and if nobody else takes what they have: a pair of micro blobs
    /// on two domains for each block, or one on the only domain that is left. What waits to be trimmed does not count.
    pub(crate) async fn free_bytes(self: &Rc<Self>) -> Result<u64, Fault> {
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

    /// Makes freed space free, for as long as the volume is mounted, and gives back what it does not need: also what the mount before has left.
    pub(crate) async fn keep_space(self: Rc<Self>) {
        loop {
            self.give_back().await;
            let release = self.pool.borrow().next_release();
            if let Some(at) = release {
                self.clock.notify_at(at, &self.space.gate);
            }
            let has_left = || release.is_some_and(|at| self.clock.now() >= at);
            let is_work = || !self.space.freed.borrow().is_empty() || has_left() || self.phase.is_over();
            self.space.gate.wait(|| is_work().then_some(())).await;
            if self.phase.is_over() || self.lease.is_fenced() {
                return;
            }
            self.clock.sleep(self.settings.reclaim_delay).await;
            // A failure is not lost: the space stays in the list.
            let _ = self.reclaim().await;
        }
    }

    /// Gives mega blobs back that are wholly free, but for a few.
    async fn give_back(self: &Rc<Self>) {
        let megas = self.pool.borrow_mut().take_idle(self.clock.now(), MEGAS_KEPT);
        if !megas.is_empty() {
            // If this fails, they stay the volume's, and the next mount finds them.
            let _ = self.order_megas(|lock| Order::GiveBack { lock, megas: megas.clone() }).await;
        }
    }

    async fn reclaim(self: &Rc<Self>) -> Result<(), Fault> {
        self.space.gate.wait(|| (!self.space.is_reclaiming.get()).then_some(())).await;
        self.space.is_reclaiming.set(true);
        let result = self.reclaim_alone().await;
        self.space.is_reclaiming.set(false);
        self.space.gate.notify();
        result
    }

    async fn reclaim_alone(self: &Rc<Self>) -> Result<(), Fault> {
        let batch = self.space.freed.borrow().clone();
        let Some(lsn) = batch.iter().map(|freed| freed.lsn).max() else { return Ok(()) };
        self.durable(lsn).await?;
        let micro = u64::from(self.phase.geometry().micro);
        for freed in &batch {
            let at = self.phase.geometry().byte_of(freed.place);
            // Without a trim it is free as well.
            let _ = self.disks.trim(freed.place.ssd, at, micro).await;
            let from = self.disks.stray_until(freed.place.ssd).max(self.clock.now());
            self.pool.borrow_mut().release(freed.place, from);
        }
        self.space.freed.borrow_mut().drain(..batch.len());
        Ok(())
    }
}
