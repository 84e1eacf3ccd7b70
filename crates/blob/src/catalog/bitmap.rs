//! Bitmaps of mega blobs, in chunks that fit well into a value of the store.

use super::CatalogError;
use crate::SsdId;
use crate::store::{Entry, Revision, Store};

/// Mega blobs of one chunk.
pub(super) const CHUNK: u32 = 4096;

/// One chunk of a bitmap.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    bits: Vec<u8>,
    pub(super) revision: Revision,
}

impl Chunk {
    pub(super) fn read(store: &mut dyn Store, key: &str) -> Result<Chunk, CatalogError> {
        match store.get(key)? {
            None => Ok(Chunk { bits: vec![0; CHUNK as usize / 8], revision: Revision::ABSENT }),
            Some(entry) => Chunk::from_entry(&entry),
        }
    }

    pub(super) fn from_entry(entry: &Entry) -> Result<Chunk, CatalogError> {
        if entry.value.len() != CHUNK as usize / 8 {
            return Err(CatalogError::Damaged(entry.key.clone()));
        }
        Ok(Chunk { bits: entry.value.clone(), revision: entry.revision })
    }

    /// The first bit below `limit` that is not set.
    pub(super) fn first_free(&self, limit: u32) -> Option<u32> {
        let byte = self.bits.iter().position(|&byte| byte != 0xff)?;
        let bit = byte as u32 * 8 + self.bits[byte].trailing_ones();
        (bit < limit).then_some(bit)
    }

    pub(super) fn set(&mut self, bit: u32, value: bool) {
        let mask = 1 << (bit % 8);
        let byte = &mut self.bits[bit as usize / 8];
        *byte = if value { *byte | mask } else { *byte & !mask };
    }

    pub(super) fn is_set(&self, bit: u32) -> bool {
        self.bits[bit as usize / 8] & 1 << (bit % 8) != 0
    }

    pub(super) fn ones(&self) -> impl Iterator<Item = u32> + '_ {
        (0..CHUNK).filter(|&bit| self.is_set(bit))
    }

    pub(super) fn count(&self) -> u32 {
        self.bits.iter().map(|byte| byte.count_ones()).sum()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bits.clone()
    }
}

pub(super) fn used_key(ssd: SsdId, chunk: u32) -> String {
    format!("used/{:08}/{chunk:06}", ssd.0)
}

/// The SSD and chunk at the end of a key.
pub(super) fn parse(key: &str) -> Result<(SsdId, u32), CatalogError> {
    let damaged = || CatalogError::Damaged(key.to_owned());
    let mut parts = key.rsplit('/');
    let mut number = || parts.next().and_then(|part| part.parse().ok());
    let chunk: u32 = number().ok_or_else(damaged)?;
    let ssd: u32 = number().ok_or_else(damaged)?;
    Ok((SsdId(ssd), chunk))
}
