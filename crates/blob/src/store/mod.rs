//! The metadata store of a rack: keys and values, transactions, leases. One trait for all stores.
//!
//! A transaction checks that keys are at known revisions and then writes, all or nothing. A key written under a *lease*
//! disappears if the lease is not renewed in time. Nothing else is required: locks, fencing, registration and the
//! allocation of mega blobs are built on these (`catalog`).
//!
//! A call may fail as `Unavailable` although it was done, if the reply was lost. The caller has to check.
//!
//! Holds: every implementation passes `conformance` (here the model; `embedded` and `etcd` in `blob-meta`).

pub mod conformance;
mod model;

pub use model::ModelStore;

use std::fmt;
use units::Nanos;

/// Counts the changes of a store. 0 is before all of them: the revision of a key that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a key that does not exist.
    pub const ABSENT: Revision = Revision(0);
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision of the last write.
    pub revision: Revision,
}

/// A condition of a transaction: the key is at this revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key.
    pub key: String,
    /// Its revision.
    pub revision: Revision,
}

/// A change in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// The new value; `None` removes the key.
    pub value: Option<Vec<u8>>,
    /// The lease with which the key disappears; `None`: it stays until it is removed.
    pub lease: Option<LeaseId>,
}

/// Changes under conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// All of these must hold.
    pub checks: Vec<Check>,
    /// Then all of these are done. A key appears once.
    pub writes: Vec<Write>,
}

impl Transaction {
    /// Adds a condition.
    #[must_use]
    pub fn check(mut self, key: impl Into<String>, revision: Revision) -> Transaction {
        self.checks.push(Check { key: key.into(), revision });
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn put(mut self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Transaction {
        self.writes.push(Write { key: key.into(), value: Some(value.into()), lease: None });
        self
    }

    /// Adds a value that lives as long as a lease.
    #[must_use]
    pub fn put_leased(
        mut self,
        key: impl Into<String>,
        value: impl Into<Vec<u8>>,
        lease: LeaseId,
    ) -> Transaction {
        self.writes.push(Write { key: key.into(), value: Some(value.into()), lease: Some(lease) });
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn remove(mut self, key: impl Into<String>) -> Transaction {
        self.writes.push(Write { key: key.into(), value: None, lease: None });
        self
    }
}

/// The result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// It was done; all its writes have this revision.
    Done(Revision),
    /// A condition did not hold; nothing was done.
    Conflict,
}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The store could not be reached, or did not reply. The call may have been done.
    Unavailable(String),
    /// The store's file is damaged. The call may have been done.
    Damaged {
        /// The file.
        file: String,
        /// The database's error message.
        why: String,
    },
    /// The lease does not exist (any more). Nothing was done.
    NoLease,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable(why) => write!(f, "the metadata store cannot be reached: {why}"),
            StoreError::Damaged { file, why } => write!(
                f,
                "the metadata store in {file} is damaged ({why}); put it back from a backup, or, to give all its volumes up, remove it"
            ),
            StoreError::NoLease => f.write_str("the lease has expired"),
        }
    }
}

impl std::error::Error for StoreError {}

/// A metadata store. Calls block.
pub trait Store {
    /// A key's value; `None` if it does not exist.
    ///
    /// # Errors
    /// If the store does not reply.
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// All keys that begin with `prefix`, in order.
    ///
    /// # Errors
    /// If the store does not reply.
    fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError>;

    /// Carries out a transaction. Once this returns, the transaction survives a power loss of the store.
    ///
    /// # Errors
    /// If the store does not reply (the transaction may have been done), or a lease does not exist.
    fn commit(&mut self, transaction: &Transaction) -> Result<Commit, StoreError>;

    /// Creates a lease. It lives at least `ttl`, counted from the time at which the store received this call or the
    /// last renewal.
    ///
    /// # Errors
    /// If the store does not reply.
    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError>;

    /// Renews a lease.
    ///
    /// # Errors
    /// If the store does not reply, or the lease does not exist any more.
    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError>;

    /// Ends a lease; its keys disappear. A lease that does not exist is no error.
    ///
    /// # Errors
    /// If the store does not reply.
    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError>;
}
