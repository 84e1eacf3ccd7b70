//! Compares our choices with counts of the real YCSB, kept in `real/histograms` (made by `real/export.sh`).
//!
//! Both must be samples of the same distribution, so the test is χ² for two samples. With the fixed seed the result is
//! always the same. Equal distributions give a p-value below the limit once in ten thousand tests.

#[path = "real/counts.rs"]
mod counts;

use counts::{Counts, p_value};
use std::sync::Arc;
use ycsb::{Generator, Keys, Kind, Properties, Requests, Workload};

/// Smallest p-value that still counts as chance.
const P_MIN: f64 = 1e-4;
/// Limit of the p-value for a wrong distribution.
const P_WRONG: f64 = 1e-12;

const CASES: [&str; 11] =
    ["a", "b", "c", "d", "e", "f", "uniform", "hotspot", "exponential", "sequential", "part"];

/// The counts that describe the choice of records. If records are inserted, their age at any time depends on chance;
/// then compare counts that do not depend on it.
fn compared(case: &str, counts: &Counts) -> Vec<u64> {
    match case {
        "d" | "exponential" => counts.behind.clone(),
        // All of these exist from the beginning, so their proportions do not depend on the inserts.
        _ => counts.records.clone(),
    }
}

fn ours(real: &Counts, requests: impl FnOnce(&Workload) -> Requests) -> Counts {
    let workload = Arc::new(Workload::new(&real.properties).expect("it works"));
    let keys = Arc::new(Keys::new(&workload));
    let requests = requests(&workload);
    let mut generator = Generator::with_requests(Arc::clone(&workload), Arc::clone(&keys), requests, 1, 0);
    let mut counts = Counts::new(real.properties.clone());
    for _ in 0..workload.operations {
        let operation = generator.next_operation();
        counts.add(&operation, keys.limit(), workload.records);
        if !matches!(operation.kind, Kind::Read | Kind::Scan) {
            counts.add_values(&generator.values(operation.record, operation.writes));
        }
        if operation.kind == Kind::Insert {
            keys.acknowledge(operation.record);
        }
    }
    counts
}

#[test]
fn frequencies_agree_with_the_real_ycsb() {
    for case in CASES {
        let real = Counts::kept(case);
        let ours = ours(&real, Requests::new);
        let agree = |what: &str, p: f64| {
            println!("{case:>12} {what:<12} p = {p:.4}");
            assert!(p > P_MIN, "workload {case}: {what} differ from those of the real YCSB, p = {p:e}");
        };
        agree("records", p_value(&compared(case, &real), &compared(case, &ours)));
        agree("operations", counts::p_of_names(&real.operations, &ours.operations));
        agree("fields", counts::p_of_names(&real.fields, &ours.fields));
        agree("lengths", counts::p_of_names(&real.lengths, &ours.lengths));
        agree("scans", counts::p_of_names(&real.scans, &ours.scans));
        let [real_new, our_new] = [&real, &ours].map(|counts| counts.fresh as f64 / counts.asked() as f64);
        assert!((real_new - our_new).abs() < 0.005, "{case}: new records {real_new} {our_new}");
    }
}

/// The sum of 1/iᶿ to 10¹⁰ + 1, by Euler and Maclaurin: the beginning is summed, the rest is an integral.
fn zeta(theta: f64) -> f64 {
    let (summed, items) = (100_000u64, 1e10_f64 + 1.0);
    let power = |item: f64| item.powf(-theta);
    let head: f64 = (1..summed).map(|item| power(item as f64)).sum();
    let from = summed as f64;
    let integral = (items.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    head + integral + (power(from) + power(items)) / 2.0
}

#[test]
fn a_wrong_distribution_is_noticed() {
    assert!((zeta(0.99) - 26.469_028_201_783_02).abs() < 1e-3, "{}", zeta(0.99));
    for case in ["a", "b", "c", "e", "f"] {
        let real = Counts::kept(case);
        let p = |requests: &dyn Fn(&Workload) -> Requests| {
            p_value(&compared(case, &real), &compared(case, &ours(&real, requests)))
        };
        let same = p(&|workload| Requests::zipfian(workload, 0.99, zeta(0.99), true));
        assert!(same > P_MIN, "{case}: the sum is right, and p = {same:e}");
        for theta in [0.95, 1.03] {
            let p = p(&|workload| Requests::zipfian(workload, theta, zeta(theta), true));
            assert!(p < P_WRONG, "{case}: an exponent of {theta} was not noticed, p = {p:e}");
        }
        let p = p(&|workload| Requests::zipfian(workload, 0.99, zeta(0.99), false));
        assert!(p < P_WRONG, "{case}: that nothing is scattered was not noticed, p = {p:e}");
    }
    // Workload D with uniform choices instead of the newest records.
    let real = Counts::kept("d");
    let p = p_value(&real.behind, &ours(&real, |_| Requests::Uniform { first: 0, count: 2000 }).behind);
    assert!(p < P_WRONG, "d: p = {p:e}");
}

#[test]
fn keys_have_the_names_that_the_real_ycsb_gives_them() {
    let lines = counts::lines("keys");
    assert!(lines.len() > 50, "{} lines", lines.len());
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [record, padding, hashed, ordered] = words[..] else { panic!("not a line of keys: {line}") };
        for (order, expected) in [("hashed", hashed), ("ordered", ordered)] {
            let mut properties = Properties::core('a').expect("a core workload");
            properties.put("zeropadding", padding);
            properties.put("insertorder", order);
            let workload = Workload::new(&properties).expect("it works");
            assert_eq!(workload.key(record.parse().expect("a number")), expected, "{line}");
        }
    }
}

#[test]
fn values_to_be_checked_are_those_of_the_real_ycsb() {
    let mut properties = Properties::core('a').expect("a core workload");
    properties.put("dataintegrity", true);
    let workload = Workload::new(&properties).expect("it works");
    let lines = counts::lines("values");
    assert_eq!(lines.len(), 10);
    for (at, line) in lines.iter().enumerate() {
        let (field, value) = line.split_once(' ').expect("two words");
        let (record, number) = (at as u64 / 2, at as u32 % 2);
        assert_eq!(workload.field(number), field);
        assert_eq!(String::from_utf8(workload.expected(record, number, 73)).as_deref(), Ok(value));
    }
}
