//! A metadata store in memory: the simplest implementation of the trait. Simulated worlds run on it.

use super::{Commit, Entry, LeaseId, Revision, Store, StoreError, Transaction};
use std::collections::BTreeMap;
use units::{Instant, Nanos};

#[derive(Clone, Debug)]
struct Value {
    bytes: Vec<u8>,
    revision: Revision,
    lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    ttl: Nanos,
    until: Instant,
}

/// A metadata store in memory. The caller sets its clock.
#[derive(Clone, Debug, Default)]
pub struct ModelStore {
    now: Instant,
    revision: Revision,
    values: BTreeMap<String, Value>,
    leases: BTreeMap<LeaseId, Lease>,
    next_lease: i64,
}

impl ModelStore {
    /// Sets the clock to `now`. Leases that were not renewed in time end.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn advance(&mut self, now: Instant) {
        assert!(now >= self.now, "time runs backwards");
        self.now = now;
        let over: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.until <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|lease| self.end(lease));
    }

    fn end(&mut self, lease: LeaseId) {
        if self.leases.remove(&lease).is_some() {
            self.revision.0 += 1;
            self.values.retain(|_, value| value.lease != Some(lease));
        }
    }

    fn revision_of(&self, key: &str) -> Revision {
        self.values.get(key).map_or(Revision::ABSENT, |value| value.revision)
    }
}

impl Store for ModelStore {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.values.get(key);
        Ok(entry.map(|value| Entry {
            key: key.to_owned(),
            value: value.bytes.clone(),
            revision: value.revision,
        }))
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        let from = self.values.range(prefix.to_owned()..);
        let listed = from.take_while(|(key, _)| key.starts_with(prefix));
        Ok(listed
            .map(|(key, value)| Entry {
                key: key.clone(),
                value: value.bytes.clone(),
                revision: value.revision,
            })
            .collect())
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Commit, StoreError> {
        let leases = transaction.writes.iter().filter_map(|write| write.lease);
        if leases.into_iter().any(|lease| !self.leases.contains_key(&lease)) {
            return Err(StoreError::NoLease);
        }
        if transaction.checks.iter().any(|check| self.revision_of(&check.key) != check.revision) {
            return Ok(Commit::Conflict);
        }
        self.revision.0 += 1;
        for write in &transaction.writes {
            match &write.value {
                None => {
                    self.values.remove(&write.key);
                }
                Some(bytes) => {
                    let value = Value { bytes: bytes.clone(), revision: self.revision, lease: write.lease };
                    self.values.insert(write.key.clone(), value);
                }
            }
        }
        Ok(Commit::Done(self.revision))
    }

    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
        self.next_lease += 1;
        let id = LeaseId(self.next_lease);
        self.leases.insert(id, Lease { ttl, until: self.now + ttl });
        Ok(id)
    }

    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let now = self.now;
        let lease = self.leases.get_mut(&lease).ok_or(StoreError::NoLease)?;
        lease.until = now + lease.ttl;
        Ok(())
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.end(lease);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::{Bed, run};
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Shared(Rc<RefCell<ModelStore>>);

    impl Store for Shared {
        fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
            self.0.borrow_mut().get(key)
        }
        fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
            self.0.borrow_mut().list(prefix)
        }
        fn commit(&mut self, transaction: &Transaction) -> Result<Commit, StoreError> {
            self.0.borrow_mut().commit(transaction)
        }
        fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
            self.0.borrow_mut().grant(ttl)
        }
        fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
            self.0.borrow_mut().renew(lease)
        }
        fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
            self.0.borrow_mut().revoke(lease)
        }
    }

    struct ModelBed(Rc<RefCell<ModelStore>>);

    impl Bed for ModelBed {
        fn open(&mut self) -> Box<dyn Store> {
            Box::new(Shared(Rc::clone(&self.0)))
        }
        fn pass_time(&mut self) {
            let mut store = self.0.borrow_mut();
            let now = store.now + Nanos::millis(100);
            store.advance(now);
        }
    }

    #[test]
    fn the_model_conforms() {
        run(&mut ModelBed(Rc::default()));
    }
}
