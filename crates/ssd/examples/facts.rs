//! Prints the fact table: what the device does, and what the model does with parameter sets A and B. Set A
//! must meet the facts marked with a star; the test `facts` checks that.
//!
//! ```text
//! cargo run --release -p ssd --example facts
//! cargo run --release -p ssd --example facts -- plausible 60     # which facts each of 60 plausible SSDs misses (`Profile::plausible`)
//! ```

#[path = "../tests/model/driver.rs"]
mod driver;
#[path = "../tests/model/fact_table.rs"]
mod fact_table;

use fact_table::{Bench, FACTS};
use ssd::{Condition, Profile};

/// Percentages of reads in the 4 KiB mix at which the example shows bandwidth.
const READ_PERCENTS: [u32; 11] = [0, 5, 10, 20, 30, 50, 70, 80, 90, 95, 100];

fn main() {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next().map(|count| count.parse())) {
        (None, _) => sets(),
        (Some("plausible"), Some(Ok(count))) => (1..=count).for_each(plausible),
        _ => panic!("the arguments are none, or `plausible` and how many"),
    }
}

/// Prints which facts an SSD misses, of those that set A meets.
fn plausible(seed: u64) {
    let bench = Bench::new(&Profile::plausible(seed));
    let facts: Vec<_> = FACTS.iter().filter(|fact| fact.met_by_a).collect();
    let values = facts.iter().map(|fact| (fact, (fact.measure)(&bench)));
    let missed: Vec<_> = values.filter(|(fact, value)| !fact.holds(*value)).collect();
    println!("{seed:>4}: {} of {} facts hold", facts.len() - missed.len(), facts.len());
    for (fact, value) in missed {
        println!("      {}: {}, here {value:.2}", fact.about, fact.target);
    }
}

fn sets() {
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
    for (about, read_percent) in [("4 KiB read", 100), ("4 KiB buffered write", 0)] {
        for (share, permille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
            let [value_a, value_b] =
                [&set_a, &set_b].map(|bench| bench.lone_commands(read_percent).percentile(permille));
            println!(
                "  {:93} {value_a:>10.2} {:8} {value_b:>10.2}",
                format!("{about}, QD 1, clean, latency, {share} (us)"),
                ""
            );
        }
    }
    for (name, bench) in [("set A", &set_a), ("set B", &set_b)] {
        for condition in [Condition::Clean, Condition::Fragmented] {
            print_mix(name, bench, condition);
        }
    }
}

/// Prints the bandwidth of a 4 KiB mix for each percentage of reads, and the share of device time compared
/// with doing the reads and the writes one after the other.
fn print_mix(name: &str, bench: &Bench, condition: Condition) {
    let [only_writes, only_reads] = [0, 100].map(|read_percent| bench.mix(condition, read_percent));
    println!("  4 KiB random mix, QD 32, {condition:?}, {name}");
    for read_percent in READ_PERCENTS {
        let bandwidth = bench.mix(condition, read_percent);
        let reads = f64::from(read_percent) / 100.0;
        let time = bandwidth * (reads / only_reads + (1.0 - reads) / only_writes);
        println!("  {read_percent:>7} % reads {bandwidth:>10.1} MB/s, {time:>5.2} of the time of its parts");
    }
}
