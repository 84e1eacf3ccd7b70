//! The global allocator: mega blobs as bitmaps in the store.
//!
//! Taking mega blobs for both copies is one transaction: both are taken or none. It also checks the client's lock, so a
//! client that lost its lease gets nothing.
//!
//! Paper: Gimbal §4.3 (the hierarchical allocator's global half).

use super::bitmap::{CHUNK, Chunk, parse, used_key};
use super::{CatalogError, TRIES};
use crate::store::{Commit, Revision, Store, Transaction};
use crate::{Mega, SsdId, VolumeId};
use std::collections::BTreeMap;

pub(super) fn own_prefix(volume: VolumeId) -> String {
    format!("own/{:016x}/", volume.0)
}

fn own_key(volume: VolumeId, ssd: SsdId, chunk: u32) -> String {
    format!("{}{:08}/{chunk:06}", own_prefix(volume), ssd.0)
}

/// The result of an attempt to take mega blobs.
#[derive(Debug)]
pub(super) enum Take {
    /// The volume owns these now.
    Taken(Vec<Mega>),
    /// These SSDs have none left; none was taken from any SSD.
    Full(Vec<SsdId>),
    /// The key to be checked has changed.
    Refused,
}

/// Takes one mega blob of each SSD. `guard` is a key that must be at a revision. `more` is done in the same transaction.
pub(super) fn take(
    store: &mut dyn Store,
    volume: VolumeId,
    wanted: &[(SsdId, u32)],
    guard: (&str, Revision),
    more: impl Fn(&[Mega], Transaction) -> Transaction,
) -> Result<Take, CatalogError> {
    for attempt in 0..TRIES {
        let mut transaction = Transaction::default().check(guard.0, guard.1);
        let (mut taken, mut full) = (Vec::new(), Vec::new());
        for &(ssd, megas) in wanted {
            // Clients begin at different chunks, so that they rarely meet.
            let seed = volume.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            match find(store, ssd, megas, seed + u64::from(attempt))? {
                None => full.push(ssd),
                Some((chunk, mut used, bit)) => {
                    let own = own_key(volume, ssd, chunk);
                    let mut owned = Chunk::read(store, &own)?;
                    let key = used_key(ssd, chunk);
                    transaction = transaction.check(&key, used.revision).check(&own, owned.revision);
                    used.set(bit, true);
                    owned.set(bit, true);
                    transaction = transaction.put(&key, used.bytes()).put(&own, owned.bytes());
                    taken.push(Mega { ssd, index: chunk * CHUNK + bit });
                }
            }
        }
        if !full.is_empty() {
            return Ok(Take::Full(full));
        }
        if let Commit::Done(_) = store.commit(&more(&taken, transaction))? {
            return Ok(Take::Taken(taken));
        }
        if store.get(guard.0)?.map_or(Revision::ABSENT, |entry| entry.revision) != guard.1 {
            return Ok(Take::Refused);
        }
    }
    Err(CatalogError::Crowded)
}

/// A free mega blob of an SSD: its chunk and bit.
fn find(
    store: &mut dyn Store,
    ssd: SsdId,
    megas: u32,
    seed: u64,
) -> Result<Option<(u32, Chunk, u32)>, CatalogError> {
    let chunks = megas.div_ceil(CHUNK);
    for step in 0..chunks {
        let chunk = ((seed + u64::from(step)) % u64::from(chunks)) as u32;
        let used = Chunk::read(store, &used_key(ssd, chunk))?;
        if let Some(bit) = used.first_free((megas - chunk * CHUNK).min(CHUNK)) {
            return Ok(Some((chunk, used, bit)));
        }
    }
    Ok(None)
}

/// All mega blobs of a volume.
pub(super) fn owned(store: &mut dyn Store, volume: VolumeId) -> Result<Vec<Mega>, CatalogError> {
    let mut megas = Vec::new();
    for entry in store.list(&own_prefix(volume))? {
        let (ssd, chunk) = parse(&entry.key)?;
        let bits = Chunk::from_entry(&entry)?;
        megas.extend(bits.ones().map(|bit| Mega { ssd, index: chunk * CHUNK + bit }));
    }
    Ok(megas)
}

/// Gives back mega blobs. Those that the volume does not own are left alone. Returns `false` if `guard` has changed.
pub(super) fn give_back(
    store: &mut dyn Store,
    volume: VolumeId,
    megas: &[Mega],
    guard: (&str, Revision),
) -> Result<bool, CatalogError> {
    let mut chunks: BTreeMap<(SsdId, u32), Vec<u32>> = BTreeMap::new();
    for mega in megas {
        chunks.entry((mega.ssd, mega.index / CHUNK)).or_default().push(mega.index % CHUNK);
    }
    for ((ssd, chunk), bits) in chunks {
        let is_done = (0..TRIES).try_fold(false, |done, _| {
            if done { Ok(done) } else { give_back_chunk(store, volume, (ssd, chunk), &bits, guard) }
        })?;
        if !is_done {
            return Ok(false);
        }
    }
    Ok(true)
}

fn give_back_chunk(
    store: &mut dyn Store,
    volume: VolumeId,
    (ssd, chunk): (SsdId, u32),
    bits: &[u32],
    guard: (&str, Revision),
) -> Result<bool, CatalogError> {
    let (used_key, own_key) = (used_key(ssd, chunk), own_key(volume, ssd, chunk));
    let (mut used, mut owned) = (Chunk::read(store, &used_key)?, Chunk::read(store, &own_key)?);
    let mut transaction = Transaction::default()
        .check(guard.0, guard.1)
        .check(&used_key, used.revision)
        .check(&own_key, owned.revision);
    for &bit in bits {
        if owned.is_set(bit) {
            owned.set(bit, false);
            used.set(bit, false);
        }
    }
    transaction = transaction.put(&used_key, used.bytes());
    transaction = if owned.count() == 0 {
        transaction.remove(&own_key)
    } else {
        transaction.put(&own_key, owned.bytes())
    };
    Ok(matches!(store.commit(&transaction)?, Commit::Done(_)))
}
