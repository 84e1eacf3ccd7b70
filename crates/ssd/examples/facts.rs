//! Prints the fact table: what the device does, and what the model does with parameter sets A and B. The test `facts`
//! holds set A to the facts marked with a star.
//!
//! ```text
//! cargo run --release -p ssd --example facts
//! ```

#[path = "../tests/model/driver.rs"]
mod driver;
#[path = "../tests/model/fact_table.rs"]
mod fact_table;

use fact_table::{Bench, FACTS};
use ssd::Profile;

fn main() {
    let [set_a, set_b] = ["dct983", "dct983-b"].map(|name| {
        let profile = Profile::named(name).expect("built in");
        Bench::new(&profile)
    });
    println!("  {:82} {:>10} {:>10} {:>8} {:>10}", "fact", "device", "set A", "", "set B");
    for fact in FACTS {
        let [value_a, value_b] = [&set_a, &set_b].map(|bench| (fact.measure)(bench));
        let star = if fact.met_by_a { '*' } else { ' ' };
        let verdict = |value| if fact.holds(value) { "holds" } else { "differs" };
        println!(
            "{star} {:82} {:>10} {value_a:>10.2} {:8} {value_b:>10.2} {}",
            fact.about,
            fact.target,
            verdict(value_a),
            verdict(value_b)
        );
    }
}
