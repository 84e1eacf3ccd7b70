//! Volumes: created, listed, removed.

use super::megas::{self, Take};
use super::{CatalogError, TRIES, from_json, json, read_json, ssds, take_number};
use crate::store::{LeaseId, Revision, Store, Transaction};
use crate::{Generation, Geometry, Mega, VolumeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A volume, as recorded in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Its identifier.
    pub id: VolumeId,
    /// Its sizes.
    pub geometry: Geometry,
    /// The last mount that the store has allowed.
    pub generation: Generation,
    /// The mount whose slot holds the current metadata; 0 before the first.
    pub meta_generation: Generation,
    /// The mega blobs with the current metadata. A copy that missed a write is not in this list.
    pub meta: Vec<Mega>,
    /// Whether the last mount ended in order, with no write in flight to any SSD.
    pub is_clean: bool,
}

/// The client that has mounted a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Text for people, and unique: host, process, a random number.
    pub who: String,
    /// The lease of the lock.
    pub lease: LeaseId,
    /// The mount.
    pub generation: Generation,
}

/// A volume and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// Its name.
    pub name: String,
    /// The record in the store.
    pub record: VolumeRecord,
    /// The client that has mounted it.
    pub holder: Option<Holder>,
    /// Its mega blobs, those for metadata included.
    pub megas: Vec<Mega>,
}

/// The reason why a volume could not be created or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// There already is a volume with this name.
    Exists,
    /// There is no volume with this name.
    Absent,
    /// A client has mounted it.
    InUse,
    /// The name is not 1 to 64 letters, digits, `-`, `_` and `.`.
    Name,
    /// No two live SSDs of different targets have mega blobs of this size left.
    NoSpace,
    /// The store failed.
    Catalog(CatalogError),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Exists => f.write_str("there is a volume of this name"),
            CreateError::Absent => f.write_str("there is no volume of this name"),
            CreateError::InUse => f.write_str("a client has mounted the volume"),
            CreateError::Name => f.write_str("a name is 1 to 64 letters, digits, '-', '_' and '.'"),
            CreateError::NoSpace => f.write_str(
                "a volume needs free mega blobs of its size on two live SSDs of different targets; see `gimbal targets`",
            ),
            CreateError::Catalog(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CreateError {}

impl<E: Into<CatalogError>> From<E> for CreateError {
    fn from(error: E) -> CreateError {
        CreateError::Catalog(error.into())
    }
}

pub(super) fn volume_key(name: &str) -> String {
    format!("volume/{name}")
}

pub(super) fn lock_key(name: &str) -> String {
    format!("lock/{name}")
}

/// Creates a volume, empty.
///
/// # Errors
/// See [`CreateError`].
///
/// # Panics
/// If the geometry does not pass its own check.
pub fn create(store: &mut dyn Store, name: &str, geometry: Geometry) -> Result<VolumeRecord, CreateError> {
    geometry.check().expect("the caller has checked the geometry");
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_good) {
        return Err(CreateError::Name);
    }
    let key = volume_key(name);
    let mut full = Vec::new();
    for _ in 0..TRIES {
        if store.get(&key)?.is_some() {
            return Err(CreateError::Exists);
        }
        let fits = |ssd: &&ssds::SsdState| {
            ssd.is_live
                && ssd.record.mega == geometry.mega
                && geometry.block.is_multiple_of(ssd.record.block_size.max(1))
        };
        let mut candidates = ssds::ssds(store)?;
        candidates.retain(|ssd| fits(&ssd) && !full.contains(&ssd.id));
        candidates.sort_by_key(|ssd| (ssd.used, ssd.id));
        let first = candidates.first().ok_or(CreateError::NoSpace)?;
        let second = candidates.iter().find(|ssd| ssd.record.domain != first.record.domain);
        let second = second.ok_or(CreateError::NoSpace)?;
        let (number, counted) = take_number(store, "next/volume", Transaction::default())?;
        let id = VolumeId(number);
        let wanted = [first, second].map(|ssd| (ssd.id, ssd.record.megas()));
        let record = |meta: &[Mega]| VolumeRecord {
            id,
            geometry,
            generation: Generation(0),
            meta_generation: Generation(0),
            meta: meta.to_vec(),
            is_clean: true,
        };
        let more = |megas: &[Mega], mut transaction: Transaction| {
            transaction.checks.extend(counted.checks.iter().cloned());
            transaction.writes.extend(counted.writes.iter().cloned());
            transaction.put(&key, json(&record(megas)))
        };
        match megas::take(store, id, &wanted, (&key, Revision::ABSENT), more) {
            Ok(Take::Taken(megas)) => return Ok(record(&megas)),
            Ok(Take::Full(ssds)) => full.extend(ssds),
            // Another client took the name or the number: try again.
            Ok(Take::Refused) | Err(CatalogError::Crowded) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(CreateError::Catalog(CatalogError::Crowded))
}

/// All volumes.
///
/// # Errors
/// If the store does not answer.
pub fn volumes(store: &mut dyn Store) -> Result<Vec<VolumeState>, CatalogError> {
    let mut all = Vec::new();
    for entry in store.list("volume/")? {
        let name = entry.key["volume/".len()..].to_owned();
        let record: VolumeRecord = from_json(&entry.key, &entry.value)?;
        let holder = read_json(store, &lock_key(&name))?.map(|(holder, _)| holder);
        let megas = megas::owned(store, record.id)?;
        all.push(VolumeState { name, record, holder, megas });
    }
    Ok(all)
}

/// Removes a volume that no client has mounted. Its mega blobs are free again; their contents are not erased.
///
/// # Errors
/// See [`CreateError`].
pub fn remove(store: &mut dyn Store, name: &str) -> Result<(), CreateError> {
    let (key, lock) = (volume_key(name), lock_key(name));
    for _ in 0..TRIES {
        let Some((record, revision)) = read_json::<VolumeRecord>(store, &key)? else {
            return Err(CreateError::Absent);
        };
        if store.get(&lock)?.is_some() {
            return Err(CreateError::InUse);
        }
        // First mark the volume so that it can no longer be mounted, then free its space. If this is interrupted, the
        // next removal continues.
        let dead = VolumeRecord { meta: Vec::new(), generation: Generation(u32::MAX), ..record.clone() };
        let mark = Transaction::default()
            .check(&key, revision)
            .check(&lock, Revision::ABSENT)
            .put(&key, json(&dead));
        let crate::store::Commit::Done(marked) = store.commit(&mark)? else { continue };
        let megas = megas::owned(store, record.id)?;
        if megas::give_back(store, record.id, &megas, (&key, marked))? {
            let gone = Transaction::default().check(&key, marked).remove(&key);
            if let crate::store::Commit::Done(_) = store.commit(&gone)? {
                return Ok(());
            }
        }
    }
    Err(CreateError::Catalog(CatalogError::Crowded))
}
