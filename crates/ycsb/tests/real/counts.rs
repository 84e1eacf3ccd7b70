//! Counts of choices, kept ones and ours, and the probability that both come from one distribution.

use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::collections::BTreeMap;
use ycsb::{Kind, Operation, Properties};

/// Cells with fewer counts than this in both samples together are joined with their neighbours.
const CELL_MIN: u64 = 20;

/// Number of times that each choice was made.
pub(crate) struct Counts {
    pub(crate) properties: Properties,
    pub(crate) operations: BTreeMap<String, u64>,
    pub(crate) fields: BTreeMap<String, u64>,
    pub(crate) lengths: BTreeMap<String, u64>,
    pub(crate) scans: BTreeMap<String, u64>,
    /// Number of requests for records that did not exist at the beginning.
    pub(crate) fresh: u64,
    /// Number of requests for each of the others.
    pub(crate) records: Vec<u64>,
    /// Number of requests by distance from the newest record.
    pub(crate) behind: Vec<u64>,
}

/// The lines of a kept file, without comments.
pub(crate) fn lines(name: &str) -> Vec<String> {
    let path = format!("{}/tests/real/histograms/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |text: &str| text.split_once('=').map(|(name, count)| (name.to_owned(), number(count)));
    text.split_whitespace().map(|text| pair(text).expect("name=count")).collect()
}

impl Counts {
    /// No counts yet.
    pub(crate) fn new(properties: Properties) -> Counts {
        let records = properties.get("recordcount", "a number").expect("a number").unwrap_or(0);
        Counts {
            properties,
            operations: BTreeMap::new(),
            fields: BTreeMap::new(),
            lengths: BTreeMap::new(),
            scans: BTreeMap::new(),
            fresh: 0,
            records: vec![0; records],
            behind: vec![0; records + 1],
        }
    }

    /// The counts of the real YCSB.
    pub(crate) fn kept(case: &str) -> Counts {
        let mut counts = Counts::new(Properties::default());
        for line in lines(case) {
            let (name, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let numbers = || rest.split_whitespace().map(number).collect();
            match name {
                "property" => counts.properties.set(rest).expect("a property"),
                "recordcount" | "operationcount" => counts.properties.put(name, rest),
                "operations" => counts.operations = pairs(rest),
                "fields" => counts.fields = pairs(rest),
                "lengths" => counts.lengths = pairs(rest),
                "scans" => counts.scans = pairs(rest),
                "new" => counts.fresh = number(rest),
                "records" => counts.records = numbers(),
                "behind" => counts.behind = numbers(),
                other => panic!("{case}: a line of {other}"),
            }
        }
        assert!(counts.asked() > 100_000, "{case}: nothing was kept");
        counts
    }

    /// Counts an operation at a time when `limit` records exist, of which `loaded` existed at the beginning.
    pub(crate) fn add(&mut self, operation: &Operation, limit: u64, loaded: u64) {
        *self.operations.entry(operation.kind.name().to_owned()).or_default() += 1;
        if operation.kind == Kind::Insert {
            return;
        }
        if operation.kind == Kind::Scan {
            *self.scans.entry(operation.scan.to_string()).or_default() += 1;
        }
        match operation.record {
            record if record < loaded => self.records[record as usize] += 1,
            _ => self.fresh += 1,
        }
        let last = self.behind.len() - 1;
        self.behind[((limit - 1 - operation.record) as usize).min(last)] += 1;
    }

    /// Counts the fields written, with their lengths.
    pub(crate) fn add_values(&mut self, values: &[(String, Vec<u8>)]) {
        for (field, value) in values {
            *self.fields.entry(field.clone()).or_default() += 1;
            *self.lengths.entry(value.len().to_string()).or_default() += 1;
        }
    }

    /// Total number of requests for records.
    pub(crate) fn asked(&self) -> u64 {
        self.fresh + self.records.iter().sum::<u64>()
    }
}

/// The same for counts by name; a name that is in only one of them has count 0 in the other.
pub(crate) fn p_of_names(one: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>) -> f64 {
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    let counts = |of: &BTreeMap<String, u64>| -> Vec<u64> {
        names.iter().map(|name| of.get(*name).copied().unwrap_or(0)).collect()
    };
    p_value(&counts(one), &counts(other))
}

/// The probability that two samples of one distribution differ at least as much as these: χ² for two samples.
pub(crate) fn p_value(one: &[u64], other: &[u64]) -> f64 {
    assert_eq!(one.len(), other.len(), "different cells");
    let mut cells: Vec<(u64, u64)> = Vec::new();
    let mut open = (0, 0);
    for (a, b) in one.iter().zip(other) {
        open = (open.0 + a, open.1 + b);
        if open.0 + open.1 >= CELL_MIN {
            cells.push(std::mem::take(&mut open));
        }
    }
    match cells.last_mut() {
        Some(last) => *last = (last.0 + open.0, last.1 + open.1),
        None => cells.push(open),
    }
    let total = |part: fn(&(u64, u64)) -> u64| cells.iter().map(part).sum::<u64>() as f64;
    let (total_one, total_other) = (total(|cell| cell.0), total(|cell| cell.1));
    if cells.len() < 2 {
        // There is only one cell: the samples agree if both or neither have counts.
        return if (total_one > 0.0) == (total_other > 0.0) { 1.0 } else { 0.0 };
    }
    assert!(total_one > 0.0 && total_other > 0.0, "one sample is empty: {total_one} {total_other}");
    let ratio = (total_other / total_one).sqrt();
    let square = |(a, b): &(u64, u64)| (*a as f64 * ratio - *b as f64 / ratio).powi(2) / (a + b) as f64;
    let statistic: f64 = cells.iter().map(square).sum();
    let freedom = (cells.len() - 1) as f64;
    ChiSquared::new(freedom).expect("degrees of freedom").sf(statistic)
}
