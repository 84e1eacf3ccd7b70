//! A metadata store that fails: calls get lost on the way there, or their replies on the way back.

use blob::store::{Commit, Entry, LeaseId, ModelStore, Store, StoreError, Transaction};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Nanos;

/// A store in which one call in `odds` fails; 0: none.
pub struct Faulty<'a> {
    pub store: &'a mut ModelStore,
    pub random: &'a mut Xoshiro256PlusPlus,
    pub odds: u32,
}

impl Faulty<'_> {
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut ModelStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fails = self.odds > 0 && self.random.random_ratio(1, self.odds);
        if fails && self.random.random() {
            return Err(StoreError::Unavailable("lost on the way there".to_owned()));
        }
        let result = call(self.store);
        if fails { Err(StoreError::Unavailable("lost on the way back".to_owned())) } else { result }
    }
}

impl Store for Faulty<'_> {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.call(|store| store.get(key))
    }
    fn list(&mut self, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        self.call(|store| store.list(prefix))
    }
    fn commit(&mut self, transaction: &Transaction) -> Result<Commit, StoreError> {
        self.call(|store| store.commit(transaction))
    }
    fn grant(&mut self, ttl: Nanos) -> Result<LeaseId, StoreError> {
        self.call(|store| store.grant(ttl))
    }
    fn renew(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.call(|store| store.renew(lease))
    }
    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.call(|store| store.revoke(lease))
    }
}
