//! Mounting: lock the volume, find its metadata, find the ends of the files that were being written, begin a new journal.
//!
//! ```text
//!  lock, new generation ─► SSDs come up ─► newest journal of the current copies ─► replay
//!     ─► ends of unsealed files ─► snapshot in this generation's own slot ─► published in the store ─► mounted
//! ```
//!
//! The previous mount may not have noticed its end yet, and writes of it may still be in flight. This mount never
//! writes to the previous journal, and micro blobs that were free stay unused for a while (`quarantine`). Blocks that
//! the previous mount adds to its files after this mount has read their ends do not become part of them.
//!
//! Elsewhere: `find_metadata`, `find_ends`.
//! Holds: `tests/worlds.rs`.

mod find_ends;
mod find_metadata;

pub(crate) use find_ends::EndFinder;
pub(crate) use find_metadata::MetadataFinder;

use super::Settings;
use super::clock::Clock;
use super::disks::Disks;
use super::files::Files;
use super::journal::Journal;
use super::lease::Lease;
use super::metadata::Metadata;
use super::outbox::Orders;
use super::parts::Parts;
use super::phase::{Identity, Phase};
use super::rack::Rack;
use super::repair::Repairer;
use super::repair_signal::RepairSignal;
use super::space::Space;
use super::write::Syncer;
use crate::catalog::{Acquired, Order, OrderError, Reply};
use crate::task::Spawner;
use crate::{Fault, Mega, Place};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{Instant, Nanos};

/// The procedures of mounting and unmounting; see the module.
pub(crate) struct Mounter {
    settings: Rc<Settings>,
    spawner: Spawner,
    clock: Rc<Clock>,
    orders: Rc<Orders>,
    phase: Rc<Phase>,
    lease: Rc<Lease>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    files: Rc<Files>,
    repair: Rc<RepairSignal>,
    rack: Rc<Rack>,
    find_metadata: Rc<MetadataFinder>,
    find_ends: Rc<EndFinder>,
    syncer: Rc<Syncer>,
    repairer: Rc<Repairer>,
}

impl Mounter {
    pub(crate) fn new(
        parts: &Parts,
        rack: &Rc<Rack>,
        find_metadata: &Rc<MetadataFinder>,
        find_ends: &Rc<EndFinder>,
        syncer: &Rc<Syncer>,
        repairer: &Rc<Repairer>,
    ) -> Rc<Mounter> {
        Rc::new(Mounter {
            settings: Rc::clone(&parts.settings),
            spawner: parts.spawner.clone(),
            clock: Rc::clone(&parts.clock),
            orders: Rc::clone(&parts.orders),
            phase: Rc::clone(&parts.phase),
            lease: Rc::clone(&parts.lease),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            space: Rc::clone(&parts.space),
            files: Rc::clone(&parts.files),
            repair: Rc::clone(&parts.repair),
            rack: Rc::clone(rack),
            find_metadata: Rc::clone(find_metadata),
            find_ends: Rc::clone(find_ends),
            syncer: Rc::clone(syncer),
            repairer: Rc::clone(repairer),
        })
    }

    /// Mounts the volume. If that fails, the mount is over.
    pub(crate) async fn mount(&self) -> Result<(), Fault> {
        let result = self.try_mount().await;
        if result.is_err() {
            self.end();
        }
        result
    }

    async fn try_mount(&self) -> Result<(), Fault> {
        let acquired = self.acquire().await?;
        let (lock, record) = (&acquired.lock, &acquired.record);
        let identity = Identity { volume: record.id, geometry: record.geometry, generation: lock.generation };
        self.phase.begin(identity);
        self.space.begin(identity);
        self.spawner.spawn(Rc::clone(&self.lease).keep());
        self.rack.meet(&acquired).await;
        self.spawner.spawn(Rc::clone(&self.rack).keep());
        if record.meta_generation.0 != 0 {
            let found = self.find_metadata.find(&acquired).await?;
            self.metadata.set(found);
        }
        self.find_ends.find().await?;
        self.fill_pool(&acquired);
        let up: Vec<Mega> = record.meta.iter().copied().filter(|mega| self.space.is_up(mega.ssd)).collect();
        self.journal.begin(up);
        self.journal.checkpoint(&[]).await?;
        self.phase.mounted();
        self.journal.mounted();
        self.repair.set();
        self.spawner.spawn(Rc::clone(&self.journal).keep(Rc::clone(&self.space)));
        self.spawner.spawn(Rc::clone(&self.space).keep());
        self.spawner.spawn(Rc::clone(&self.repairer).keep());
        Ok(())
    }

    async fn acquire(&self) -> Result<Acquired, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        let in_use_until = self.clock.now() + self.settings.lock_patience;
        let pause = Nanos(self.settings.ttl.0 / 20);
        loop {
            let sent = self.clock.now();
            let (name, who, ttl) = (self.settings.name.clone(), self.settings.who.clone(), self.settings.ttl);
            match self.orders.send(Order::Acquire { name, who, ttl }).await {
                Ok(Reply::Acquired(acquired)) => {
                    self.lease.on_granted(sent, acquired.lock.clone());
                    return Ok(*acquired);
                }
                Ok(other) => unreachable!("not an answer to Acquire: {other:?}"),
                Err(OrderError::InUse(_)) if self.clock.now() < in_use_until => self.clock.sleep(pause).await,
                Err(OrderError::InUse(_)) => return Err(Fault::InUse),
                Err(OrderError::Absent) => return Err(Fault::NoVolume),
                Err(OrderError::Damaged(_)) => return Err(Fault::BadMetadata),
                Err(_) if self.clock.now() >= give_up => return Err(Fault::LeaseUnsure),
                Err(_) => self.clock.sleep(pause).await,
            }
        }
    }

    /// Fills the pool with the space that the volume owns and no file uses, some of it to be used later.
    fn fill_pool(&self, acquired: &Acquired) {
        let used: BTreeSet<Place> = self.metadata.state().places().collect();
        let (clean, now) = (acquired.record.is_clean, self.clock.now());
        let from = if clean { Instant::ZERO } else { now + self.settings.quarantine };
        if !clean {
            // The same for places that are freed soon: the previous mount may still write to the ends of its files.
            for ssd in acquired.ssds.iter().map(|ssd| ssd.id) {
                self.disks.note_stray(ssd, from);
            }
        }
        let megas = acquired.owned.iter().copied().filter(|mega| !acquired.record.meta.contains(mega));
        self.space.own(megas, &used, from);
    }

    /// Ends the mount in order.
    pub(crate) async fn unmount(&self) -> Result<(), Fault> {
        for file in self.files.open_files() {
            match self.syncer.sync(file).await {
                // It was recorded and closed meanwhile.
                Err(Fault::BadHandle) => {}
                result => result?,
            }
        }
        self.journal.durable(self.journal.appended()).await?;
        self.lease.may_write().await?;
        let lock = self.lease.lock()?;
        // Nothing new is sent. Wait for the IOs in flight, so that they cannot hit the next mount.
        self.end();
        self.disks.idle().await;
        let is_clean = self.disks.is_calm();
        match self.orders.send(Order::Release { lock, is_clean }).await {
            Ok(_) => Ok(()),
            Err(OrderError::Unavailable(_)) => Err(Fault::LeaseUnsure),
            Err(_) => Err(Fault::Fenced),
        }
    }

    /// Stops all background work.
    fn end(&self) {
        self.phase.end();
        self.journal.stop();
        self.disks.stop();
        self.repair.gate().notify();
        self.space.stop();
        self.lease.stop();
    }
}
