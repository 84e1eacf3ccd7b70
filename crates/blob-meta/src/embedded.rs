//! The embedded store: one file, for the processes of one machine.
//!
//! The database lets only one process use the file at a time. Calls are rare (a mount, a mega blob, a renewal every few
//! seconds), so each call opens the file, carries out its transaction and closes it; other processes wait meanwhile.
//!
//! Leases are measured by the time since the machine started, which all processes share and which cannot be set. A
//! restart of the machine ends every lease.
//!
//! ```text
//!   values   key → revision (8 bytes), lease (8 bytes; 0: none), value
//!   leases   number → duration, end (8 bytes each, nanoseconds since the start of the machine)
//!   counts   "revision", "lease" → the last one      texts   "boot" → the boot to which the leases belong
//! ```
//!
//! Holds: `tests/embedded.rs`.

use crate::guard::guarded;
use blob::store::{Commit, Entry, LeaseId, Revision, Store, StoreError, Transaction};
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, Table, TableDefinition,
    WriteTransaction,
};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use units::Nanos;

const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");
const LEASES: TableDefinition<'_, i64, (u64, u64)> = TableDefinition::new("leases");
const COUNTS: TableDefinition<'_, &str, u64> = TableDefinition::new("counts");
const TEXTS: TableDefinition<'_, &str, &str> = TableDefinition::new("texts");

/// Time limit of a call while other processes use the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before the next try to open the file.
const PAUSE: Duration = Duration::from_millis(1);

/// A metadata store in a file.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
}

fn failed(error: impl Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Nanoseconds since the machine started, sleep included.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn boot() -> Result<String, StoreError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|error| failed(format_args!("{path}: {error}")))?;
    Ok(text.trim().to_owned())
}

struct Value<'a> {
    revision: Revision,
    lease: i64,
    bytes: &'a [u8],
}

fn unpack(value: &[u8]) -> Result<Value<'_>, StoreError> {
    let (head, bytes) = value.split_at_checked(16).ok_or_else(|| failed("a value is too short"))?;
    let (revision, lease) = head.split_at(8);
    Ok(Value {
        revision: Revision(u64::from_le_bytes(revision.try_into().expect("eight bytes"))),
        lease: i64::from_le_bytes(lease.try_into().expect("eight bytes")),
        bytes,
    })
}

impl Embedded {
    /// Opens the store in a file; creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened: a description of the problem.
    pub fn open(path: impl AsRef<Path>) -> Result<Embedded, String> {
        let store = Embedded { path: path.as_ref().to_owned() };
        let made = store.change(|_| Ok(())).map_err(|error| format!("{}: {error}", store.path.display()));
        made.map(|()| store)
    }

    fn database(&self) -> Result<Database, StoreError> {
        self.expect_file()?;
        let began = Instant::now();
        loop {
            match Database::create(&self.path) {
                Ok(database) => return Ok(database),
                Err(DatabaseError::DatabaseAlreadyOpen) if began.elapsed() < PATIENCE => thread::sleep(PAUSE),
                Err(error) => return Err(self.unusable(error)),
            }
        }
    }

    /// Refuses a path that is not a regular file, such as a FIFO or a device.
    fn expect_file(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => {
                Err(failed(format_args!("{} is no regular file; name another one", self.path.display())))
            }
            _ => Ok(()),
        }
    }

    fn unusable(&self, error: DatabaseError) -> StoreError {
        match error {
            DatabaseError::Storage(StorageError::Corrupted(why)) => {
                StoreError::Damaged { file: self.path.display().to_string(), why }
            }
            error => failed(error),
        }
    }

    /// Carries out `work` in one durable transaction, after expired leases have been ended.
    fn change<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        guarded(&self.path, || {
            let database = self.database()?;
            let transaction = database.begin_write().map_err(failed)?;
            end_leases(&transaction)?;
            let result = work(&transaction)?;
            transaction.commit().map_err(failed)?;
            Ok(result)
        })
    }

    /// The entries of a range of keys, without those of expired leases.
    fn entries(&self, from: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<Entry>, StoreError> {
        guarded(&self.path, || self.read(from, wanted))
    }

    fn read(&self, from: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<Entry>, StoreError> {
        let database = self.database()?;
        let transaction = database.begin_read().map_err(failed)?;
        let values = transaction.open_table(VALUES).map_err(failed)?;
        let leases = transaction.open_table(LEASES).map_err(failed)?;
        let texts = transaction.open_table(TEXTS).map_err(failed)?;
        let is_same_boot =
            texts.get("boot").map_err(failed)?.is_some_and(|text| text.value() == boot().unwrap_or_default());
        let now = now();
        let mut entries = Vec::new();
        for item in values.range(from..).map_err(failed)? {
            let (key, value) = item.map_err(failed)?;
            if !wanted(key.value()) {
                break;
            }
            let value = unpack(value.value())?;
            let is_live = value.lease == 0
                || is_same_boot
                    && leases.get(value.lease).map_err(failed)?.is_some_and(|lease| lease.value().1 > now);
            if is_live {
                let (key, bytes) = (key.value().to_owned(), value.bytes.to_vec());
                entries.push(Entry { key, value: bytes, revision: value.revision });
            }
        }
        Ok(entries)
    }
}

fn end_leases(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let mut leases = transaction.open_table(LEASES).map_err(failed)?;
    let mut values = transaction.open_table(VALUES).map_err(failed)?;
    let mut texts = transaction.open_table(TEXTS).map_err(failed)?;
    let boot = boot()?;
    let is_same_boot = texts.get("boot").map_err(failed)?.is_some_and(|text| text.value() == boot);
    let now = now();
    let mut over = Vec::new();
    for item in leases.iter().map_err(failed)? {
        let (id, lease) = item.map_err(failed)?;
        if !is_same_boot || lease.value().1 <= now {
            over.push(id.value());
        }
    }
    for lease in over {
        leases.remove(lease).map_err(failed)?;
        drop_keys(&mut values, lease)?;
    }
    if !is_same_boot {
        texts.insert("boot", boot.as_str()).map_err(failed)?;
    }
    Ok(())
}

/// Removes the keys of a lease.
fn drop_keys(values: &mut Table<'_, &'static str, &'static [u8]>, lease: i64) -> Result<(), StoreError> {
    let is_of_lease = |_: &str, value: &[u8]| unpack(value).is_ok_and(|value| value.lease == lease);
    values.retain(|key, value| !is_of_lease(key, value)).map_err(failed)
}

fn count_up(transaction: &WriteTransaction, what: &str) -> Result<u64, StoreError> {
    let mut counts = transaction.open_table(COUNTS).map_err(failed)?;
    let next = counts.get(what).map_err(failed)?.map_or(1, |count| count.value() + 1);
    counts.insert(what, next).map_err(failed)?;
    Ok(next)
}

impl Store for Embedded {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries(key, |found| found == key)?.pop())
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        self.entries(prefix, |found| found.starts_with(prefix))
    }

    fn commit(&mut self, wanted: &Transaction) -> Result<Commit, StoreError> {
        self.change(|transaction| {
            let leases = transaction.open_table(LEASES).map_err(failed)?;
            let mut values = transaction.open_table(VALUES).map_err(failed)?;
            for lease in wanted.writes.iter().filter_map(|write| write.lease) {
                leases.get(lease.0).map_err(failed)?.ok_or(StoreError::NoLease)?;
            }
            for check in &wanted.checks {
                let found = values.get(check.key.as_str()).map_err(failed)?;
                let revision = match &found {
                    Some(value) => unpack(value.value())?.revision,
                    None => Revision::ABSENT,
                };
                if revision != check.revision {
                    return Ok(Commit::Conflict);
                }
            }
            let revision = count_up(transaction, "revision")?;
            for write in &wanted.writes {
                match &write.value {
                    None => {
                        values.remove(write.key.as_str()).map_err(failed)?;
                    }
                    Some(bytes) => {
                        let mut packed = revision.to_le_bytes().to_vec();
                        packed.extend_from_slice(&write.lease.map_or(0, |lease| lease.0).to_le_bytes());
                        packed.extend_from_slice(bytes);
                        values.insert(write.key.as_str(), packed.as_slice()).map_err(failed)?;
                    }
                }
            }
            Ok(Commit::Done(Revision(revision)))
        })
    }

    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
        self.change(|transaction| {
            let id = count_up(transaction, "lease")? as i64;
            let mut leases = transaction.open_table(LEASES).map_err(failed)?;
            leases.insert(id, (ttl.0, now().saturating_add(ttl.0))).map_err(failed)?;
            Ok(LeaseId(id))
        })
    }

    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.change(|transaction| {
            let mut leases = transaction.open_table(LEASES).map_err(failed)?;
            let ttl = leases.get(lease.0).map_err(failed)?.map(|lease| lease.value().0);
            let ttl = ttl.ok_or(StoreError::NoLease)?;
            leases.insert(lease.0, (ttl, now().saturating_add(ttl))).map_err(failed)?;
            Ok(())
        })
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.change(|transaction| {
            let mut leases = transaction.open_table(LEASES).map_err(failed)?;
            if leases.remove(lease.0).map_err(failed)?.is_some() {
                drop_keys(&mut transaction.open_table(VALUES).map_err(failed)?, lease.0)?;
            }
            Ok(())
        })
    }
}
