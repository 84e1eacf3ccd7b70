//! SSDs: registered by their targets, alive as long as the target renews its lease.

use super::bitmap::{self, Chunk};
use super::{CatalogError, TRIES, from_json, json, read_json, take_number};
use crate::SsdId;
use crate::store::{Commit, LeaseId, Revision, Store, Transaction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How to reach an SSD, and how large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdRecord {
    /// UUID of the namespace: what the SSD is known by when its target starts again.
    pub uuid: String,
    /// What fails as a whole: the name of the target. The copies of a block lie in two domains.
    pub domain: String,
    /// Address and port of the target.
    pub address: String,
    /// NQN of the subsystem.
    pub subsystem: String,
    /// Namespace in the subsystem.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Bytes of the namespace.
    pub capacity: u64,
    /// Bytes of its mega blobs. Fixed when it is first registered.
    pub mega: u64,
}

impl SsdRecord {
    /// Mega blobs of the SSD.
    pub fn megas(&self) -> u32 {
        u32::try_from(self.capacity / self.mega.max(1)).unwrap_or(u32::MAX)
    }
}

/// An SSD and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdState {
    /// Its number.
    pub id: SsdId,
    /// How to reach it.
    pub record: SsdRecord,
    /// Whether its target renews its lease.
    pub is_live: bool,
    /// Mega blobs that somebody owns.
    pub used: u32,
}

pub(super) fn ssd_key(ssd: SsdId) -> String {
    format!("ssd/{:08}", ssd.0)
}

fn live_key(ssd: SsdId) -> String {
    format!("live/{:08}", ssd.0)
}

/// Why an SSD was not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// Another target, which is alive, has registered an SSD with this UUID.
    Taken(String),
    /// The catalogue.
    Catalog(CatalogError),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::Taken(domain) => write!(
                f,
                "target {domain:?} has registered an SSD with the same UUID; give each namespace of the rack its own UUID (one that \
                 is not configured is derived from the subsystem's NQN)"
            ),
            RegisterError::Catalog(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RegisterError {}

impl<E: Into<CatalogError>> From<E> for RegisterError {
    fn from(error: E) -> RegisterError {
        RegisterError::Catalog(error.into())
    }
}

/// Registers an SSD, alive as long as `lease`. An SSD that is known by its UUID keeps its number; its address and size are
/// brought up to date.
///
/// # Errors
/// If the store does not answer, the lease is over, or another target that is alive has registered an SSD with this UUID.
pub fn register(store: &mut dyn Store, record: &SsdRecord, lease: LeaseId) -> Result<SsdId, RegisterError> {
    let uuid_key = format!("uuid/{}", record.uuid);
    for _ in 0..TRIES {
        let known: Option<(u32, Revision)> = read_json(store, &uuid_key)?;
        let (id, transaction, mega) = match known {
            Some((number, revision)) => {
                let id = SsdId(number);
                let before: Option<(SsdRecord, Revision)> = read_json(store, &ssd_key(id))?;
                let live = store.get(&live_key(id))?;
                let mega = before.as_ref().map_or(record.mega, |(before, _)| before.mega);
                if let (Some((before, _)), Some(_)) = (before, &live)
                    && before.domain != record.domain
                {
                    return Err(RegisterError::Taken(before.domain));
                }
                let alive = live.map_or(Revision::ABSENT, |live| live.revision);
                let same = Transaction::default().check(&uuid_key, revision).check(live_key(id), alive);
                (id, same, mega)
            }
            None => {
                let new = Transaction::default().check(&uuid_key, Revision::ABSENT);
                let (number, new) = take_number(store, "next/ssd", new)?;
                let number =
                    u32::try_from(number).map_err(|_| CatalogError::Damaged("next/ssd".to_owned()))?;
                (SsdId(number), new.put(&uuid_key, json(&number)), record.mega)
            }
        };
        let record = SsdRecord { mega, ..record.clone() };
        let transaction = transaction.put(ssd_key(id), json(&record)).put_leased(
            live_key(id),
            record.address.clone(),
            lease,
        );
        if let Commit::Done(_) = store.commit(&transaction)? {
            return Ok(id);
        }
    }
    Err(CatalogError::Crowded.into())
}

/// All SSDs that were ever registered.
///
/// # Errors
/// If the store does not answer.
pub fn ssds(store: &mut dyn Store) -> Result<Vec<SsdState>, CatalogError> {
    let number = |key: &str| -> Result<SsdId, CatalogError> {
        let part = key.rsplit('/').next().and_then(|part| part.parse().ok());
        part.map(SsdId).ok_or_else(|| CatalogError::Damaged(key.to_owned()))
    };
    let mut all = BTreeMap::new();
    for entry in store.list("ssd/")? {
        let id = number(&entry.key)?;
        let record = from_json(&entry.key, &entry.value)?;
        all.insert(id, SsdState { id, record, is_live: false, used: 0 });
    }
    for entry in store.list("live/")? {
        if let Some(ssd) = all.get_mut(&number(&entry.key)?) {
            ssd.is_live = true;
        }
    }
    for entry in store.list("used/")? {
        let (id, _) = bitmap::parse(&entry.key)?;
        if let Some(ssd) = all.get_mut(&id) {
            ssd.used += Chunk::from_entry(&entry)?.count();
        }
    }
    Ok(all.into_values().collect())
}
