//! Orders of a client to the store while a volume is mounted, and the replies.
//!
//! The core of a client does not call the store: it emits an [`Order`], and the shell that drives it calls [`execute`]
//! and passes the reply back. Every order but the first names the client's lock. If the lock does not exist any more
//! (the lease ran out), the order fails; if no other client locked the volume meanwhile, the client may regain the lock
//! with its old generation.

use super::megas::{self, Take};
use super::ssds::{self, SsdState};
use super::volumes::{Holder, VolumeRecord, lock_key, volume_key};
use super::{CatalogError, TRIES, json, read_json};
use crate::store::{Commit, LeaseId, Revision, Store, StoreError, Transaction};
use crate::{Generation, Mega, SsdId, VolumeId};
use units::Nanos;

/// A client's hold on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Name of the volume.
    pub name: String,
    /// The volume.
    pub volume: VolumeId,
    /// The mount.
    pub generation: Generation,
    /// Revision of the lock's key.
    pub revision: Revision,
    /// Its lease.
    pub lease: LeaseId,
}

/// An order of a client to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Lock the volume and begin a new generation.
    Acquire {
        /// Name of the volume.
        name: String,
        /// The client; unique.
        who: String,
        /// The life of the lock without renewal.
        ttl: Nanos,
    },
    /// Renew the lease.
    Renew(Lock),
    /// Lock the volume again in the same generation, after the lease ran out.
    Regain {
        /// The lock that was lost.
        lock: Lock,
        /// The client.
        who: String,
        /// The life of the lock without renewal.
        ttl: Nanos,
    },
    /// Publish that these copies of the metadata, in this generation's slot, are the current ones.
    Publish {
        /// The lock.
        lock: Lock,
        /// The copies.
        meta: Vec<Mega>,
    },
    /// Take one mega blob of each SSD, all or none.
    Take {
        /// The lock.
        lock: Lock,
        /// The SSDs, and the total number of mega blobs of each.
        ssds: Vec<(SsdId, u32)>,
    },
    /// Give back mega blobs.
    GiveBack {
        /// The lock.
        lock: Lock,
        /// The mega blobs.
        megas: Vec<Mega>,
    },
    /// List the SSDs.
    Look,
    /// Unlock the volume.
    Release {
        /// The lock.
        lock: Lock,
        /// Whether no write is in flight to any SSD, nor can be.
        is_clean: bool,
    },
}

/// The store's knowledge of a volume that a client has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The lock.
    pub lock: Lock,
    /// The volume as it was left.
    pub record: VolumeRecord,
    /// Its mega blobs.
    pub owned: Vec<Mega>,
    /// All SSDs.
    pub ssds: Vec<SsdState>,
}

/// The reply to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To `Acquire`.
    Acquired(Box<Acquired>),
    /// To `Regain`.
    Regained(Lock),
    /// To `Take`.
    Taken(Vec<Mega>),
    /// To `Take`: these SSDs have none left.
    Full(Vec<SsdId>),
    /// To `Look`.
    Ssds(Vec<SsdState>),
    /// To all others.
    Done,
}

/// The reason why an order failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// The store did not reply. The order may have been carried out.
    Unavailable(String),
    /// The lock does not exist any more.
    LockLost,
    /// Another client has locked the volume since.
    Fenced,
    /// Another client has locked the volume.
    InUse(String),
    /// There is no such volume.
    Absent,
    /// The store's values cannot be understood.
    Damaged(String),
}

impl From<CatalogError> for OrderError {
    fn from(error: CatalogError) -> OrderError {
        match error {
            CatalogError::Store(StoreError::Unavailable(why)) => OrderError::Unavailable(why),
            CatalogError::Store(error @ StoreError::Damaged { .. }) => {
                OrderError::Unavailable(error.to_string())
            }
            CatalogError::Store(StoreError::NoLease) => OrderError::LockLost,
            CatalogError::Damaged(key) => OrderError::Damaged(key),
            CatalogError::Crowded => OrderError::Unavailable("too many others".to_owned()),
        }
    }
}

impl From<StoreError> for OrderError {
    fn from(error: StoreError) -> OrderError {
        CatalogError::from(error).into()
    }
}

/// Carries out an order.
///
/// # Errors
/// See [`OrderError`].
pub fn execute(store: &mut dyn Store, order: &Order) -> Result<Reply, OrderError> {
    match order {
        Order::Acquire { name, who, ttl } => acquire(store, name, who, *ttl),
        Order::Renew(lock) => {
            store.renew(lock.lease)?;
            Ok(Reply::Done)
        }
        Order::Regain { lock, who, ttl } => regain(store, lock, who, *ttl),
        Order::Publish { lock, meta } => publish(store, lock, |record| {
            record.meta_generation = lock.generation;
            record.meta.clone_from(meta);
        }),
        Order::Take { lock, ssds } => {
            let guard = (lock_key(&lock.name), lock.revision);
            match megas::take(store, lock.volume, ssds, (&guard.0, guard.1), |_, transaction| transaction)? {
                Take::Taken(megas) => Ok(Reply::Taken(megas)),
                Take::Full(ssds) => Ok(Reply::Full(ssds)),
                Take::Refused => Err(OrderError::LockLost),
            }
        }
        Order::GiveBack { lock, megas } => {
            let guard = lock_key(&lock.name);
            if megas::give_back(store, lock.volume, megas, (&guard, lock.revision))? {
                Ok(Reply::Done)
            } else {
                Err(OrderError::LockLost)
            }
        }
        Order::Look => Ok(Reply::Ssds(ssds::ssds(store)?)),
        Order::Release { lock, is_clean } => {
            publish(store, lock, |record| record.is_clean = *is_clean)?;
            store.revoke(lock.lease)?;
            Ok(Reply::Done)
        }
    }
}

fn acquire(store: &mut dyn Store, name: &str, who: &str, ttl: Nanos) -> Result<Reply, OrderError> {
    let (volume, lock) = (volume_key(name), lock_key(name));
    for _ in 0..TRIES {
        let (record, revision): (VolumeRecord, _) = read_json(store, &volume)?.ok_or(OrderError::Absent)?;
        if record.meta.is_empty() {
            return Err(OrderError::Absent);
        }
        let held: Option<(Holder, Revision)> = read_json(store, &lock)?;
        if let Some((holder, _)) = &held
            && holder.who != who
        {
            return Err(OrderError::InUse(holder.who.clone()));
        }
        let lease = store.grant(ttl)?;
        let generation = next_generation(&record);
        let next = VolumeRecord { generation, is_clean: false, ..record.clone() };
        let holder = Holder { who: who.to_owned(), lease, generation };
        let before = held.map_or(Revision::ABSENT, |(_, revision)| revision);
        let transaction = Transaction::default()
            .check(&volume, revision)
            .check(&lock, before)
            .put(&volume, json(&next))
            .put_leased(&lock, json(&holder), lease);
        let Commit::Done(at) = store.commit(&transaction)? else {
            store.revoke(lease)?;
            continue;
        };
        let lock = Lock { name: name.to_owned(), volume: record.id, generation, revision: at, lease };
        let owned = megas::owned(store, record.id)?;
        let ssds = ssds::ssds(store)?;
        // If an earlier attempt of this client was committed and its reply lost, `record` is marked as not clean, as it
        // must be.
        return Ok(Reply::Acquired(Box::new(Acquired { lock, record, owned, ssds })));
    }
    Err(OrderError::Unavailable("too many others want to mount the volume".to_owned()))
}

/// The next generation, or the one after it if the next would use the slot of the current metadata.
fn next_generation(record: &VolumeRecord) -> Generation {
    let mut next = record.generation.0 + 1;
    let slots = record.geometry.slots;
    if record.meta_generation.0 != 0 && next % slots == record.meta_generation.0 % slots {
        next += 1;
    }
    Generation(next)
}

fn regain(store: &mut dyn Store, lost: &Lock, who: &str, ttl: Nanos) -> Result<Reply, OrderError> {
    let (volume, lock) = (volume_key(&lost.name), lock_key(&lost.name));
    for _ in 0..TRIES {
        let (record, revision): (VolumeRecord, _) = read_json(store, &volume)?.ok_or(OrderError::Fenced)?;
        if record.generation != lost.generation || record.id != lost.volume {
            return Err(OrderError::Fenced);
        }
        let held: Option<(Holder, Revision)> = read_json(store, &lock)?;
        let before = match held {
            None => Revision::ABSENT,
            // The reply to an earlier attempt was lost, or the lease did not run out after all.
            Some((holder, revision)) if holder.who == who => revision,
            Some(_) => return Err(OrderError::Fenced),
        };
        let lease = store.grant(ttl)?;
        let holder = Holder { who: who.to_owned(), lease, generation: lost.generation };
        let transaction = Transaction::default().check(&volume, revision).check(&lock, before).put_leased(
            &lock,
            json(&holder),
            lease,
        );
        if let Commit::Done(at) = store.commit(&transaction)? {
            return Ok(Reply::Regained(Lock { revision: at, lease, ..lost.clone() }));
        }
        store.revoke(lease)?;
    }
    Err(OrderError::Unavailable("too many others".to_owned()))
}

fn publish(
    store: &mut dyn Store,
    lock: &Lock,
    change: impl Fn(&mut VolumeRecord),
) -> Result<Reply, OrderError> {
    let (volume, guard) = (volume_key(&lock.name), lock_key(&lock.name));
    for _ in 0..TRIES {
        let (mut record, revision): (VolumeRecord, _) =
            read_json(store, &volume)?.ok_or(OrderError::Fenced)?;
        change(&mut record);
        let transaction = Transaction::default()
            .check(&volume, revision)
            .check(&guard, lock.revision)
            .put(&volume, json(&record));
        if let Commit::Done(_) = store.commit(&transaction)? {
            return Ok(Reply::Done);
        }
        if store.get(&guard)?.map_or(Revision::ABSENT, |entry| entry.revision) != lock.revision {
            return Err(OrderError::LockLost);
        }
    }
    Err(OrderError::Unavailable("too many others".to_owned()))
}
