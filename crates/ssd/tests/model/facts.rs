//! The model behaves like the device of the papers' experiments, as far as `docs/ssd-model.md` says so.

use crate::fact_table::{Bench, FACTS};
use ssd::Profile;

#[test]
fn parameter_set_a_meets_the_facts_it_is_held_to() {
    let bench = Bench::new(&Profile::default());
    let mut missed = Vec::new();
    for fact in FACTS.iter().filter(|fact| fact.met_by_a) {
        let value = (fact.measure)(&bench);
        if !fact.holds(value) {
            missed.push(format!("{}: {value:.2}, but the device does {}", fact.about, fact.target));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
