//! Which records exist: a counter of inserts, and of the inserts that are acknowledged.
//!
//! Several threads insert at the same time, and end in any order. A read must not ask for a record that is not there yet, so reads
//! choose among the records up to the newest one *before which all are acknowledged*.
//!
//! Holds: `a_record_is_offered_when_it_and_all_before_it_are_there`.

use crate::Workload;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What all threads of one database share.
#[derive(Debug)]
pub struct Keys(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The record that is loaded next, and the end of those.
    load: (u64, u64),
    /// The record that is inserted next after the load.
    insert: u64,
    /// All records before this one exist.
    limit: u64,
    /// Acknowledged, but a record before is not.
    acknowledged: BTreeSet<u64>,
    /// Count of requests in sequence.
    sequence: u64,
}

impl Keys {
    /// For a database with the records of the workload, or one that they are loaded to.
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

    /// The record to load next; `None` when all are loaded.
    pub fn next_load(&self) -> Option<u64> {
        self.with(|state| {
            let (next, end) = state.load;
            (next < end).then(|| {
                state.load.0 += 1;
                next
            })
        })
    }

    /// A record that does not exist yet, to be inserted. Whatever becomes of that, it must be acknowledged.
    pub fn next_insert(&self) -> u64 {
        self.with(|state| {
            state.insert += 1;
            state.insert - 1
        })
    }

    /// A record was inserted, or its insert has failed for ever.
    pub fn acknowledge(&self, record: u64) {
        self.with(|state| {
            state.acknowledged.insert(record);
            while state.acknowledged.remove(&state.limit) {
                state.limit += 1;
            }
        });
    }

    /// All records before this one may be asked for.
    pub fn limit(&self) -> u64 {
        self.with(|state| state.limit)
    }

    /// Counts requests in sequence, over all threads.
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
