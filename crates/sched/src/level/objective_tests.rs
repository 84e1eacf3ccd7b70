//! Objectives of latency, before an SSD that does one IO after the other: so a read waits for all that is in the SSD before it.

extern crate std;
use super::tests::Ssd;
use super::*;
use crate::{ObjectiveState, Percentile, Slo};
use std::string::ToString;

const READER: TenantId = TenantId(0);
const ONE_SECOND: Nanos = Nanos::secs(1);

fn share(iops: u64, bound: Nanos) -> Share {
    let slo = Slo { iops, read_percent: 100, percentile: Percentile::P99, latency: bound };
    Share { slo: Some(slo), ..Share::EQUAL }
}

/// A reader that sends 1,000 IOs a second, and a writer that takes all that it can get. Reads wait for 2 ms of writes
/// if no tenant has an objective.
fn ssd(bound: Option<Nanos>) -> Ssd {
    let mut ssd = Ssd::new(Nanos::micros(3), Nanos::micros(20));
    ssd.asks_every = Some(Nanos::millis(1));
    if let Some(bound) = bound {
        let answer = ssd.policy.admission(READER, &share(1500, bound));
        assert_eq!(answer, Ok(Admitted::Tried), "nothing is known of a new SSD");
        ssd.policy.set_share(ssd.now, READER, share(1500, bound));
    }
    ssd
}

fn state(ssd: &Ssd) -> ObjectiveView {
    let view = ssd.policy.tenant_view(READER).expect("it has asked for something");
    view.objective.expect("it has one")
}

/// The 99th percentile, and IOs of the writer, in the next second.
fn look(ssd: &mut Ssd, depth: u32) -> (Nanos, u64) {
    (ssd.ended, ssd.stays) = ([0; 2], std::vec::Vec::new());
    ssd.run([0, depth], ONE_SECOND);
    ssd.stays.sort_unstable();
    (ssd.stays[ssd.stays.len() * 99 / 100], ssd.ended[1])
}

#[test]
fn an_objective_is_kept_and_others_lose_no_more_than_they_must() {
    let mut without = ssd(None);
    without.run([0, 256], Nanos::secs(5));
    let (p99, writes) = look(&mut without, 0);
    let bound = Nanos::micros(45);
    assert!(p99 > bound, "{p99} without an objective");
    let mut with = ssd(Some(bound));
    with.run([0, 256], Nanos::secs(5));
    assert_eq!(state(&with).state, ObjectiveState::Kept, "{:?}", state(&with));
    for _ in 0..5 {
        let (p99, left) = look(&mut with, 0);
        assert!(p99 <= bound, "{p99}");
        // This SSD is as fast with one IO as with many.
        assert!(left * 100 >= writes * 90, "{left} writes, and {writes} without an objective");
    }
}

#[test]
fn an_objective_that_needs_nothing_costs_nothing() {
    let mut with = ssd(Some(Nanos::millis(20)));
    with.run([0, 256], Nanos::secs(5));
    let view = state(&with);
    assert_eq!((view.state, view.left_to_others), (ObjectiveState::Kept, [100; 2]));
    assert!(!with.policy.drr.rules().limit.is_squeezed());
}

#[test]
fn an_idle_tenant_squeezes_nobody() {
    let mut ssd = ssd(Some(Nanos::micros(45)));
    ssd.run([0, 256], Nanos::secs(5));
    assert!(ssd.policy.drr.rules().limit.is_squeezed(), "{:?}", state(&ssd));
    ssd.asks_every = None;
    ssd.run([0, 0], Nanos::secs(2));
    assert!(!ssd.policy.drr.rules().limit.is_squeezed());
    // It is squeezed from the first IO on when the tenant is back.
    ssd.asks_every = Some(Nanos::millis(1));
    ssd.run([0, 0], Nanos::millis(2));
    assert!(ssd.policy.drr.rules().limit.is_squeezed());
}

/// A read takes longer than the bound: nothing helps. Then the SSD recovers.
#[test]
fn a_lost_objective_squeezes_nobody_and_is_tried_again() {
    let mut ssd = ssd(Some(Nanos::micros(200)));
    ssd.read = Nanos::micros(250);
    // Both kinds of work are measured first.
    ssd.run([0, 256], Nanos::secs(7));
    let view = state(&ssd);
    assert_eq!((view.state, view.left_to_others), (ObjectiveState::Lost, [100; 2]), "{view:?}");
    assert!(!ssd.policy.drr.rules().limit.is_squeezed());
    ssd.read = Nanos::micros(3);
    ssd.run([0, 0], Nanos::secs(12));
    assert_eq!(state(&ssd).state, ObjectiveState::Kept, "{:?}", state(&ssd));
    assert!(look(&mut ssd, 0).0 <= Nanos::micros(200));
}

/// While the objective is tried with others at their least, they have their guaranteed part.
#[test]
fn others_keep_their_least_however_strict_the_bound() {
    let mut without = ssd(None);
    without.run([0, 256], Nanos::secs(5));
    let (_, writes) = look(&mut without, 0);
    let mut with = ssd(Some(Nanos(1)));
    let mut least = u64::MAX;
    with.run([0, 256], Nanos::secs(1));
    for _ in 0..10 {
        least = least.min(look(&mut with, 0).1);
    }
    assert!(least * 32 >= writes, "{least} writes in a second, and {writes} without an objective");
    assert_eq!(state(&with).state, ObjectiveState::Lost);
}

/// Latencies that were seen answer the next objective at once, also after a restart.
#[test]
fn an_ssd_that_was_seen_answers_at_once() {
    let mut ssd = ssd(None);
    // Both kinds of work are measured first.
    ssd.run([0, 256], Nanos::secs(6));
    let asked = |bound| share(1500, bound);
    let answer = |level: &Level, bound| level.admission(READER, &asked(bound));
    assert_eq!(answer(&ssd.policy, Nanos::millis(2)), Ok(Admitted::Promised));
    let strict = Nanos::micros(2);
    assert_eq!(answer(&ssd.policy, strict), Ok(Admitted::Tried), "others never did so little");
    ssd.policy.set_share(ssd.now, READER, asked(strict));
    ssd.run([0, 0], Nanos::secs(5));
    assert_eq!(state(&ssd).state, ObjectiveState::Lost);
    let told = Level::told(&ssd.policy.learnt().expect("it has seen reads"));
    for level in [&ssd.policy, &told] {
        let refused = answer(level, strict);
        assert!(matches!(refused, Err(Refused::TooSlow { .. })), "{refused:?}");
        assert_eq!(answer(level, Nanos::millis(2)), Ok(Admitted::Promised));
    }
}

#[test]
fn what_takes_too_much_of_the_ssd_is_refused_in_numbers() {
    let mut ssd = ssd(None);
    ssd.asks_every = None;
    ssd.run([64, 64], Nanos::secs(4));
    // A read takes 3 µs: 300,000 of them are 90 % of the SSD.
    let asked = share(300_000, Nanos::millis(1));
    let refused = ssd.policy.admission(READER, &asked).expect_err("that is too much").to_string();
    let parts: std::vec::Vec<u64> =
        refused.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(parts[..], [300_000, 85..=95, 75, 0]), "{refused}");
    ssd.policy.set_share(ssd.now, READER, asked);
    assert!(matches!(state(&ssd).state, ObjectiveState::Refused(_)));
    ssd.policy.set_share(ssd.now, READER, Share::EQUAL);
    assert!(ssd.policy.tenant_view(READER).is_some_and(|view| view.objective.is_none()));
}

#[test]
fn an_objective_that_goes_leaves_nothing_behind() {
    let mut ssd = ssd(Some(Nanos::micros(200)));
    ssd.run([0, 256], Nanos::secs(3));
    ssd.policy.set_share(ssd.now, READER, Share::EQUAL);
    assert!(!ssd.policy.promises.are_any());
    ssd.run([0, 0], Nanos::secs(1));
    assert!(!ssd.policy.drr.rules().limit.is_squeezed());
    let rules = ssd.policy.drr.rules();
    assert!(rules.held.is_empty() || rules.probe.is_some());
}
