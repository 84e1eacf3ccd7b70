//! The records that exist: counters of started and of acknowledged inserts.
//!
//! Several threads insert at the same time, and complete in any order. A read must not use a record that does not exist
//! yet. So reads choose among the records up to the newest one *before which all are acknowledged*.
//!
//! Holds: `a_record_is_offered_when_it_and_all_before_it_are_there`.

use crate::Workload;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The state that all threads of one database share.
#[derive(Debug)]
pub struct Keys(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The next record to load, and the end of the range.
    load: (u64, u64),
    /// The next record to insert after the load.
    insert: u64,
    /// All records before this one exist.
    limit: u64,
    /// Acknowledged records after a record that is not acknowledged yet.
    acknowledged: BTreeSet<u64>,
    /// Number of sequential requests so far.
    sequence: u64,
}

impl Keys {
    /// For a database that has the workload's records, or gets them by a load.
    pub fn new(workload: &Workload) -> Keys {
        let first = workload.insert_start;
        Keys(Mutex::new(State {
            load: (first, first + workload.insert_count),
            insert: workload.records,
            limit: workload.records,
            acknowledged: BTreeSet::new(),
            sequence: 0,
        }))
    }

    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next record to load; `None` when all are loaded.
    pub fn next_load(&self) -> Option<u64> {
        self.with(|state| {
            let (next, end) = state.load;
            (next < end).then(|| {
                state.load.0 += 1;
                next
            })
        })
    }

    /// A record that does not exist yet, to be inserted. It must be acknowledged even if the insert fails.
    pub fn next_insert(&self) -> u64 {
        self.with(|state| {
            state.insert += 1;
            state.insert - 1
        })
    }

    /// Notes that a record was inserted, or that its insert has failed for good.
    pub fn acknowledge(&self, record: u64) {
        self.with(|state| {
            state.acknowledged.insert(record);
            while state.acknowledged.remove(&state.limit) {
                state.limit += 1;
            }
        });
    }

    /// All records before this one exist and may be read.
    pub fn limit(&self) -> u64 {
        self.with(|state| state.limit)
    }

    /// The number of the next sequential request, over all threads.
    pub(crate) fn next_in_sequence(&self) -> u64 {
        self.with(|state| {
            state.sequence += 1;
            state.sequence - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Properties;

    fn keys() -> Keys {
        let mut properties = Properties::core('d').expect("a core workload");
        properties.set("recordcount=10").expect("a property");
        Keys::new(&Workload::new(&properties).expect("it works"))
    }

    #[test]
    fn a_record_is_offered_when_it_and_all_before_it_are_there() {
        let keys = keys();
        assert_eq!((keys.next_insert(), keys.next_insert(), keys.next_insert()), (10, 11, 12));
        keys.acknowledge(11);
        assert_eq!(keys.limit(), 10);
        keys.acknowledge(10);
        assert_eq!(keys.limit(), 12);
        keys.acknowledge(12);
        assert_eq!(keys.limit(), 13);
    }

    #[test]
    fn each_record_is_loaded_once() {
        let keys = keys();
        let loaded: Vec<u64> = std::iter::from_fn(|| keys.next_load()).collect();
        assert_eq!(loaded, (0..10).collect::<Vec<_>>());
    }
}
