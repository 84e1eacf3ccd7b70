//! The contents of the metadata store: SSDs, volumes, and the owners of mega blobs. Every change is one transaction.
//!
//! ```text
//!   pool                         sizes of mega blobs in this rack (JSON)
//!   next/ssd, next/volume        the next number (decimal)
//!   uuid/UUID                    number of the SSD with this namespace UUID (decimal)
//!   ssd/SSD                      its address and size (JSON)
//!   live/SSD                     address and lease of its target; exists while the target renews the lease
//!   rival/SSD                    another target that tried to register it; exists while that one renews its lease
//!   used/SSD/CHUNK               which mega blobs have an owner (bitmap)
//!   own/VOLUME/SSD/CHUNK         which of them this volume owns (bitmap)
//!   volume/NAME                  the volume (JSON)
//!   lock/NAME                    which client has mounted it (JSON); exists while the client renews its lease
//! ```
//!
//! Holds: a mega blob has at most one owner (`no_two_volumes_own_the_same_mega_blob`);
//!        changes by a client that has lost its lock are refused (`who_lost_the_lock_changes_nothing`).

mod bitmap;
mod megas;
mod order;
mod ssds;
#[cfg(test)]
mod tests;
mod volumes;

pub use order::{Acquired, Lock, Order, OrderError, Reply, execute};
pub use ssds::{RegisterError, Review, SsdRecord, SsdState, Standing, register, review, ssds};
pub use volumes::{CreateError, Holder, VolumeRecord, VolumeState, create, remove, volumes};

use crate::store::{Revision, Store, StoreError, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Number of tries of a transaction that conflicts with those of others.
const TRIES: u32 = 64;

/// The reason why a change of the catalogue failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogError {
    /// The store failed.
    Store(StoreError),
    /// A value in the store cannot be understood.
    Damaged(String),
    /// Concurrent changes caused a conflict in every try.
    Crowded,
}

impl std::fmt::Display for CatalogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogError::Store(error) => error.fmt(f),
            CatalogError::Damaged(key) => {
                write!(f, "the metadata store's value of {key} cannot be understood")
            }
            CatalogError::Crowded => {
                f.write_str("others change the same in the metadata store all the time; try again")
            }
        }
    }
}

impl std::error::Error for CatalogError {}

impl From<StoreError> for CatalogError {
    fn from(error: StoreError) -> CatalogError {
        CatalogError::Store(error)
    }
}

fn read_json<T: DeserializeOwned>(
    store: &mut dyn Store,
    key: &str,
) -> Result<Option<(T, Revision)>, CatalogError> {
    let Some(entry) = store.get(key)? else { return Ok(None) };
    let value = from_json(key, &entry.value)?;
    Ok(Some((value, entry.revision)))
}

fn from_json<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, CatalogError> {
    serde_json::from_slice(bytes).map_err(|_| CatalogError::Damaged(key.to_owned()))
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain values can be written as JSON")
}

/// The number that a counter gives out next, and the transaction that takes it.
fn take_number(
    store: &mut dyn Store,
    key: &str,
    transaction: Transaction,
) -> Result<(u64, Transaction), CatalogError> {
    let entry = store.get(key)?;
    let (number, revision) = match &entry {
        None => (1, Revision::ABSENT),
        Some(entry) => (from_json(key, &entry.value)?, entry.revision),
    };
    Ok((number, transaction.check(key, revision).put(key, json(&(number + 1)))))
}
