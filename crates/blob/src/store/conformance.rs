//! The contract of a metadata store, as tests for any implementation.
//!
//! The functions panic when a store does not conform. Each works under its own keys, so a store need not be empty.

use super::{Commit, LeaseId, Revision, Store, StoreError, Transaction};
use units::Nanos;

/// A store to be tested.
pub trait Bed {
    /// A further connection to the same store.
    fn open(&mut self) -> Box<dyn Store>;
    /// Lets a little time (less than a second) pass for the store.
    fn pass_time(&mut self);
}

/// Puts a store through all tests.
///
/// # Panics
/// If the store does not conform.
pub fn run(bed: &mut dyn Bed) {
    a_committed_value_is_seen_by_every_connection(bed);
    a_transaction_is_done_as_a_whole_or_not_at_all(bed);
    of_two_that_saw_the_same_revision_one_wins(bed);
    a_listing_has_the_prefix_and_is_in_order(bed);
    values_are_arbitrary_bytes(bed);
    the_keys_of_a_lease_end_with_it(bed);
    a_renewed_lease_lives_on_and_a_forgotten_one_ends(bed);
}

fn done(commit: Result<Commit, StoreError>) -> Revision {
    match commit {
        Ok(Commit::Done(revision)) => revision,
        other => panic!("the transaction was not done: {other:?}"),
    }
}

fn a_committed_value_is_seen_by_every_connection(bed: &mut dyn Bed) {
    let (mut one, mut other) = (bed.open(), bed.open());
    let revision = done(one.commit(&Transaction::default().put("conformance/seen", "value")));
    assert!(revision > Revision::ABSENT);
    let entry = other.get("conformance/seen").expect("the store answers").expect("the key exists");
    assert_eq!((entry.value.as_slice(), entry.revision), (&b"value"[..], revision));
    let later = done(other.commit(&Transaction::default().put("conformance/seen", "newer")));
    assert!(later > revision, "revisions grow: {later:?} after {revision:?}");
    done(one.commit(&Transaction::default().remove("conformance/seen")));
    assert_eq!(other.get("conformance/seen"), Ok(None));
}

fn a_transaction_is_done_as_a_whole_or_not_at_all(bed: &mut dyn Bed) {
    let mut store = bed.open();
    let first = done(store.commit(&Transaction::default().put("conformance/all/a", "1")));
    let both = Transaction::default()
        .check("conformance/all/a", first)
        .check("conformance/all/b", Revision::ABSENT)
        .put("conformance/all/a", "2")
        .put("conformance/all/b", "2");
    let second = done(store.commit(&both));
    assert_eq!(store.commit(&both), Ok(Commit::Conflict), "the conditions no longer hold");
    for entry in store.list("conformance/all/").expect("the store answers") {
        assert_eq!((entry.value.as_slice(), entry.revision), (&b"2"[..], second));
    }
    let half = Transaction::default()
        .check("conformance/all/a", second)
        .check("conformance/all/b", first)
        .remove("conformance/all/a");
    assert_eq!(store.commit(&half), Ok(Commit::Conflict), "one of two conditions does not hold");
    assert!(store.get("conformance/all/a").expect("the store answers").is_some());
    done(store.commit(&Transaction::default().remove("conformance/all/a").remove("conformance/all/b")));
}

fn of_two_that_saw_the_same_revision_one_wins(bed: &mut dyn Bed) {
    let (mut one, mut other) = (bed.open(), bed.open());
    let lock = |who: &str| {
        Transaction::default().check("conformance/lock", Revision::ABSENT).put("conformance/lock", who)
    };
    done(one.commit(&lock("one")));
    assert_eq!(other.commit(&lock("other")), Ok(Commit::Conflict));
    done(one.commit(&Transaction::default().remove("conformance/lock")));
    let revision = done(other.commit(&lock("other")));
    done(
        other.commit(&Transaction::default().check("conformance/lock", revision).remove("conformance/lock")),
    );
}

fn a_listing_has_the_prefix_and_is_in_order(bed: &mut dyn Bed) {
    let mut store = bed.open();
    let keys = ["conformance/list/a", "conformance/list/a/b", "conformance/list/b", "conformance/listen"];
    let all = keys.iter().rev().fold(Transaction::default(), |all, key| all.put(*key, *key));
    done(store.commit(&all));
    let listed = |store: &mut dyn Store, prefix: &str| -> Vec<String> {
        store.list(prefix).expect("the store answers").into_iter().map(|entry| entry.key).collect()
    };
    assert_eq!(listed(&mut *store, "conformance/list/"), keys[..3]);
    assert_eq!(listed(&mut *store, "conformance/list"), keys);
    assert_eq!(listed(&mut *store, "conformance/list/a"), keys[..2]);
    assert!(listed(&mut *store, "conformance/lists").is_empty());
    done(store.commit(&keys.iter().fold(Transaction::default(), |all, key| all.remove(*key))));
}

fn values_are_arbitrary_bytes(bed: &mut dyn Bed) {
    let mut store = bed.open();
    let value: Vec<u8> = (0..=255).cycle().take(5000).collect();
    done(store.commit(&Transaction::default().put("conformance/bytes", value.clone())));
    assert_eq!(
        store.get("conformance/bytes").expect("the store answers").map(|entry| entry.value),
        Some(value)
    );
    done(store.commit(&Transaction::default().put("conformance/bytes", Vec::new())));
    assert_eq!(
        store.get("conformance/bytes").expect("the store answers").map(|entry| entry.value),
        Some(Vec::new())
    );
    done(store.commit(&Transaction::default().remove("conformance/bytes")));
}

fn the_keys_of_a_lease_end_with_it(bed: &mut dyn Bed) {
    let (mut one, mut other) = (bed.open(), bed.open());
    let lease = one.grant(Nanos::secs(60)).expect("the store answers");
    done(one.commit(&Transaction::default().put_leased("conformance/leased", "x", lease)));
    assert!(other.get("conformance/leased").expect("the store answers").is_some());
    other.revoke(lease).expect("the store answers");
    assert_eq!(other.get("conformance/leased"), Ok(None));
    assert_eq!(one.renew(lease), Err(StoreError::NoLease));
    let late = Transaction::default().put_leased("conformance/leased", "x", lease);
    assert_eq!(one.commit(&late), Err(StoreError::NoLease), "a key under a lease that is over");
    assert_eq!(one.revoke(lease), Ok(()), "a lease ends only once");
    assert_eq!(one.renew(LeaseId(i64::MAX)), Err(StoreError::NoLease));
}

fn a_renewed_lease_lives_on_and_a_forgotten_one_ends(bed: &mut dyn Bed) {
    let mut store = bed.open();
    let ttl = Nanos::secs(2);
    let (kept, forgotten) = (store.grant(ttl), store.grant(ttl));
    let (kept, forgotten) = (kept.expect("the store answers"), forgotten.expect("the store answers"));
    done(store.commit(&Transaction::default().put_leased("conformance/kept", "x", kept)));
    done(store.commit(&Transaction::default().put_leased("conformance/forgotten", "x", forgotten)));
    let mut rounds = 0;
    while store.get("conformance/forgotten").expect("the store answers").is_some() {
        store.renew(kept).expect("a lease that is renewed lives on");
        bed.pass_time();
        rounds += 1;
        assert!(rounds < 1000, "a lease that is not renewed never ends");
    }
    assert!(store.get("conformance/kept").expect("the store answers").is_some());
    store.revoke(kept).expect("the store answers");
}
