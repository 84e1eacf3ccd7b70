//! SSDs: registered by their targets, alive as long as the target renews its lease.
//!
//! A registration belongs to the lease under which it was made. Another target (a second one with a copied
//! configuration) does not get an SSD with a live registration. It leaves a note, so that the owner can log the
//! conflict too. Only a target that has just started may take over a registration of its own name and address: its
//! predecessor was killed, and the lease has not expired yet.
//!
//! Holds: a live registration of another address or of a running target is not overwritten
//!        (`a_copied_configuration_does_not_take_ssds_over`).

use super::bitmap::{self, Chunk};
use super::{CatalogError, TRIES, from_json, json, read_json, take_number};
use crate::SsdId;
use crate::store::{Commit, LeaseId, Revision, Store, Transaction};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The address and the size of an SSD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdRecord {
    /// UUID of the namespace, which identifies the SSD when its target starts again.
    pub uuid: String,
    /// The part of the rack that fails as a whole: the name of the target. The copies of a block lie in two domains.
    pub domain: String,
    /// Address and port of the target over NVMe/TCP. Empty if it is reached over NVMe/RDMA only.
    pub address: String,
    /// Address and port over NVMe/RDMA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rdma_address: Option<String>,
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

    /// All addresses of the target, for people.
    pub fn addresses(&self) -> String {
        match &self.rdma_address {
            Some(rdma) => format!("{} rdma://{rdma}", self.address).trim_start().to_owned(),
            None => self.address.clone(),
        }
    }

    /// The address that stands for the target, whatever its transports.
    fn place(&self) -> &str {
        match &self.rdma_address {
            Some(address) if self.address.is_empty() => address,
            _ => &self.address,
        }
    }
}

/// An SSD and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdState {
    /// Its number.
    pub id: SsdId,
    /// Its address and size.
    pub record: SsdRecord,
    /// Whether its target renews its lease.
    pub is_live: bool,
    /// Mega blobs that have an owner.
    pub used: u32,
}

pub(super) fn ssd_key(ssd: SsdId) -> String {
    format!("ssd/{:08}", ssd.0)
}

fn live_key(ssd: SsdId) -> String {
    format!("live/{:08}", ssd.0)
}

fn rival_key(ssd: SsdId) -> String {
    format!("rival/{:08}", ssd.0)
}

/// The owner of a live registration.
struct Live {
    address: String,
    /// `None` in values of earlier versions.
    lease: Option<LeaseId>,
}

impl Live {
    fn parse(value: &[u8]) -> Live {
        let text = String::from_utf8_lossy(value);
        let (address, lease) = text.split_once(' ').unwrap_or((&text, ""));
        Live { address: address.to_owned(), lease: lease.parse().ok().map(LeaseId) }
    }

    fn value(address: &str, lease: LeaseId) -> String {
        format!("{address} {}", lease.0)
    }
}

/// The history of a target that registers an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has just started, and may take over the registration of a predecessor that was killed.
    Started,
    /// It was registered before.
    Running,
}

/// A comparison of a target's registrations with the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// SSDs that are not registered under the target's lease.
    pub lost: Vec<SsdId>,
    /// Names and addresses of targets that tried to register the same SSDs.
    pub rivals: Vec<(SsdId, String)>,
}

/// The reason why an SSD was not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// Another target, which is alive, has registered an SSD with this UUID.
    Taken {
        /// Its name.
        domain: String,
        /// Its address.
        address: String,
    },
    /// The catalogue failed.
    Catalog(CatalogError),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::Taken { domain, address } => write!(
                f,
                "target {domain:?} at {address} has registered an SSD with the same UUID and is alive. If that is another target, \
                 perhaps with a copy of this configuration, give this one another name ([rack] name) and each namespace of the rack its \
                 own UUID (one that is not configured is derived from the subsystem's NQN); if it is this target's former address, \
                 its lease ends by itself"
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

/// Registers an SSD for the life of `lease`. An SSD with a known UUID keeps its number; its address and size are
/// updated.
///
/// # Errors
/// If the store does not reply, the lease has expired, or another target that is alive has registered an SSD with this
/// UUID.
pub fn register(
    store: &mut dyn Store,
    record: &SsdRecord,
    lease: LeaseId,
    standing: Standing,
) -> Result<SsdId, RegisterError> {
    let uuid_key = format!("uuid/{}", record.uuid);
    for _ in 0..TRIES {
        let known: Option<(u32, Revision)> = read_json(store, &uuid_key)?;
        let (id, transaction, mega) = match known {
            Some((number, revision)) => {
                let id = SsdId(number);
                let before: Option<(SsdRecord, Revision)> = read_json(store, &ssd_key(id))?;
                let live = store.get(&live_key(id))?;
                let mega = before.as_ref().map_or(record.mega, |(before, _)| before.mega);
                if let (Some((before, _)), Some(live)) = (before, &live) {
                    let Live { address, lease: owner } = Live::parse(&live.value);
                    let is_predecessor = standing == Standing::Started
                        && (&before.domain[..], &address[..]) == (&record.domain[..], record.place());
                    if owner != Some(lease) && !is_predecessor {
                        let note = format!("{:?} at {}", record.domain, record.place());
                        store.commit(&Transaction::default().put_leased(rival_key(id), note, lease))?;
                        return Err(RegisterError::Taken { domain: before.domain, address });
                    }
                }
                let alive = live.map_or(Revision::ABSENT, |live| live.revision);
                let same = Transaction::default().check(&uuid_key, revision).check(live_key(id), alive);
                let same = same.remove(rival_key(id));
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
            Live::value(record.place(), lease),
            lease,
        );
        if let Commit::Done(_) = store.commit(&transaction)? {
            return Ok(id);
        }
    }
    Err(CatalogError::Crowded.into())
}

/// Compares the registrations of `ssds` with the store: which are not under `lease`, and which other targets tried to
/// make them.
///
/// # Errors
/// If the store does not answer.
pub fn review(store: &mut dyn Store, ssds: &[SsdId], lease: LeaseId) -> Result<Review, CatalogError> {
    let mut review = Review::default();
    let live = store.list("live/")?;
    let is_own = |ssd: SsdId| {
        let entry = live.iter().find(|entry| entry.key == live_key(ssd));
        entry.is_some_and(|entry| Live::parse(&entry.value).lease == Some(lease))
    };
    review.lost.extend(ssds.iter().filter(|ssd| !is_own(**ssd)));
    for entry in store.list("rival/")? {
        let ssd = ssds.iter().find(|ssd| entry.key == rival_key(**ssd));
        review.rivals.extend(ssd.map(|ssd| (*ssd, String::from_utf8_lossy(&entry.value).into_owned())));
    }
    Ok(review)
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
