//! The journal: every change of metadata, on two SSDs, in order.
//!
//! ```text
//!   record() ─► state in memory, and pending ──one write at a time──► both copies: written ──flush──► durable
//!                                                     │ the half is full: a checkpoint
//!                                                     ▼
//!                                          snapshot in the other half, flush, superblock, flush
//! ```
//!
//! Records that come while a write is in flight go together with the next one. Data in force is never overwritten: each
//! batch begins a new block, and after a failure on all copies the next attempt is a checkpoint.
//!
//! A copy that misses a write is removed from the store's list of current copies before anything is acknowledged. So a
//! mount never takes an outdated copy for a current one. A new second copy is made as soon as an SSD has room for it.
//!
//! Holds: acknowledged changes are found again (`tests/worlds.rs`).

mod checkpoint;
mod heal;
mod write;

use super::Settings;
use super::clock::Clock;
use super::disks::{Disks, Sequence};
use super::lease::Lease;
use super::metadata::Metadata;
use super::phase::Phase;
use super::space::Space;
use super::state::Effects;
use crate::format::record::Record;
use crate::format::stream;
use crate::task::Gate;
use crate::{Fault, Mega};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Instant, Nanos};

/// Position of a record in the order of records.
pub(crate) type Lsn = u64;

/// Pause after an attempt that failed on every copy.
const RETRY: Nanos = Nanos::millis(100);

/// The journal of a mount; see the module.
pub(crate) struct Journal {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    phase: Rc<Phase>,
    lease: Rc<Lease>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    /// The last record.
    appended: Cell<Lsn>,
    /// Records up to here are on every current copy.
    written: Cell<Lsn>,
    /// … and survive a power loss there.
    durable: Cell<Lsn>,
    want_durable: Cell<Lsn>,
    pending: RefCell<Vec<u8>>,
    /// The current copies.
    copies: RefCell<Vec<Mega>>,
    /// Writes to each copy that no flush has covered: first, last, and whether one may be lost.
    unflushed: RefCell<BTreeMap<Mega, (Sequence, Sequence, bool)>>,
    /// The checkpoint in force, and the last one that was attempted.
    checkpoint: Cell<u64>,
    attempted: Cell<u64>,
    /// The next block of the half.
    position: Cell<u64>,
    must_checkpoint: Cell<bool>,
    /// For each half, the time until which an abandoned write may still take effect.
    risky_until: Cell<[Instant; 2]>,
    /// Number of failed attempts, and the fault of the last one.
    failures: Cell<u64>,
    fault: Cell<Option<Fault>>,
    /// Whether a second copy is to be made.
    heal_wanted: Cell<bool>,
    /// Number of attempts to make one.
    heals: Cell<u64>,
    gate: Gate,
    checkpoints_made: Cell<u64>,
    copies_lost: Cell<u64>,
}

impl Journal {
    /// An empty journal. Tasks that wait for it check their conditions again when `gate` is notified.
    pub(crate) fn new(
        settings: Rc<Settings>,
        clock: Rc<Clock>,
        phase: Rc<Phase>,
        lease: Rc<Lease>,
        disks: Rc<Disks>,
        metadata: Rc<Metadata>,
        gate: Gate,
    ) -> Rc<Journal> {
        Rc::new(Journal {
            settings,
            clock,
            phase,
            lease,
            disks,
            metadata,
            gate,
            appended: Cell::default(),
            written: Cell::default(),
            durable: Cell::default(),
            want_durable: Cell::default(),
            pending: RefCell::default(),
            copies: RefCell::default(),
            unflushed: RefCell::default(),
            checkpoint: Cell::default(),
            attempted: Cell::default(),
            position: Cell::default(),
            must_checkpoint: Cell::default(),
            risky_until: Cell::default(),
            failures: Cell::default(),
            fault: Cell::default(),
            heal_wanted: Cell::default(),
            heals: Cell::default(),
            checkpoints_made: Cell::default(),
            copies_lost: Cell::default(),
        })
    }

    /// Sets the copies of the metadata, of which some may be unreachable.
    pub(crate) fn begin(&self, copies: Vec<Mega>) {
        *self.copies.borrow_mut() = copies;
    }

    /// Notes that the first checkpoint is current.
    pub(crate) fn mounted(&self) {
        self.heal_wanted.set(!self.has_two_copies());
    }

    /// Wakes the waiting tasks at the end of the mount.
    pub(crate) fn stop(&self) {
        self.gate.notify();
    }

    /// The last record.
    pub(crate) fn appended(&self) -> Lsn {
        self.appended.get()
    }

    /// Number of current copies of the metadata.
    pub(crate) fn count_copies(&self) -> u64 {
        self.copies.borrow().len() as u64
    }

    /// Number of snapshots since the mount, and of copies that missed a write.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.checkpoints_made.get(), self.copies_lost.get())
    }

    /// Changes the metadata, at once in memory; `written` and `durable` wait until it is safe. Returns the further
    /// effects of the record.
    pub(crate) fn record(&self, record: &Record) -> (Lsn, Effects) {
        let effects = self.metadata.apply(record, self.phase.geometry().micro_blocks());
        let effects = effects.unwrap_or_else(|_| panic!("a record that does not fit: {record:?}"));
        let lsn = self.appended.get() + 1;
        self.appended.set(lsn);
        stream::put(&mut self.pending.borrow_mut(), record);
        self.gate.notify();
        (lsn, effects)
    }

    /// Waits until a record is on every current copy: a crash of this client does not lose it.
    pub(crate) async fn written(&self, lsn: Lsn) -> Result<(), Fault> {
        self.wait_for(lsn, |journal| journal.written.get()).await
    }

    /// Waits until a record survives power losses as well.
    pub(crate) async fn durable(&self, lsn: Lsn) -> Result<(), Fault> {
        self.want_durable(lsn);
        self.wait_for(lsn, |journal| journal.durable.get()).await
    }

    pub(crate) fn want_durable(&self, lsn: Lsn) {
        if lsn > self.want_durable.get() {
            self.want_durable.set(lsn);
            self.gate.notify();
        }
    }

    async fn wait_for(&self, lsn: Lsn, reached: impl Fn(&Journal) -> Lsn) -> Result<(), Fault> {
        let failures = self.failures.get();
        self.gate
            .wait(|| {
                if reached(self) >= lsn {
                    Some(Ok(()))
                } else if self.lease.is_fenced() {
                    Some(Err(Fault::Fenced))
                } else if self.failures.get() > failures || self.phase.is_over() {
                    Some(Err(self.fault.get().unwrap_or(Fault::NotMounted)))
                } else {
                    None
                }
            })
            .await
    }

    fn fail(&self, fault: Fault) {
        self.fault.set(Some(fault));
        self.failures.set(self.failures.get() + 1);
        self.gate.notify();
    }

    /// Writes pending records, as long as the volume is mounted.
    pub(crate) async fn keep(self: Rc<Self>, space: Rc<Space>) {
        loop {
            self.gate
                .wait(|| {
                    let is_work = self.written.get() < self.appended.get()
                        || self.durable.get() < self.want_durable.get()
                        || self.must_checkpoint.get()
                        || self.heal_wanted.get();
                    (is_work || self.phase.is_over() || self.lease.is_fenced()).then_some(())
                })
                .await;
            if self.phase.is_over() || self.lease.is_fenced() {
                self.gate.notify();
                return;
            }
            if let Err(fault) = self.turn(&space).await {
                self.fail(fault);
                self.clock.sleep(RETRY).await;
            }
        }
    }

    /// Whether the metadata has both of its copies, to this client's knowledge.
    pub(crate) fn has_two_copies(&self) -> bool {
        self.copies.borrow().len() >= 2
    }
}
