//! Prints the fact table: what the device does, and what the model does with parameter sets A and B. Set A
//! must meet the facts marked with a star; the test `facts` checks that.
//!
//! ```text
//! cargo run --release -p ssd --example facts
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
