//! Findings as tables: the median over the seeds, a table for each profile and case.

use crate::findings::{Findings, Spread};
use crate::measure::{DirectionFigures, Quantiles};
use crate::record::{GroupRecord, Record};

/// The names of the columns. Latencies are seen from the network unless the name says otherwise.
pub const HEADER: [&str; 11] = [
    "scheduler",
    "group",
    "",
    "MB/s",
    "f-Util",
    "least",
    "most",
    "mean µs",
    "p99 µs",
    "device p99",
    "end-to-end p99",
];
/// Columns before the first number.
pub const TEXT_COLUMNS: usize = 3;

/// One profile and case.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Case, profile and the swept parameter's value.
    pub title: String,
    /// In the columns of [`HEADER`]; the last ones may be missing.
    pub rows: Vec<Vec<String>>,
}

/// All tables of some findings.
pub fn tables(findings: &Findings) -> Vec<Table> {
    let experiment = &findings.experiment;
    let mut tables = Vec::new();
    for ssd in &experiment.ssds {
        for case in &experiment.cases {
            let x =
                case.swept.zip(case.x).map_or(String::new(), |(swept, x)| format!(", {}: {x}", swept.axis()));
            let of = |scheduler: &crate::scheduler::Scheduler| {
                let records: Vec<&Record> = findings
                    .of(&ssd.profile.name, &case.name, scheduler.name())
                    .filter(|record| record.x == case.x)
                    .collect();
                rows(&records)
            };
            let rows = experiment.schedulers.iter().flat_map(of).collect();
            tables.push(Table { title: format!("{} on {}{x}", case.name, ssd.profile.name), rows });
        }
    }
    tables
}

/// A line per group and direction, and one for all.
fn rows(records: &[&Record]) -> Vec<Vec<String>> {
    let Some(first) = records.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for (g, group) in first.groups.iter().enumerate() {
        let of =
            |value: fn(&GroupRecord) -> f64| median(records.iter().map(|record| value(&record.groups[g])));
        for (n, (direction, figures)) in group.directions().into_iter().enumerate() {
            let latency = |value: fn(&DirectionFigures) -> f64| {
                median(records.iter().filter_map(|record| figures(&record.groups[g])).map(value))
            };
            let shares = [
                format!("{:.1}", of(|group| group.mb_per_s)),
                format!("{:.2}", of(|group| group.f_util)),
                format!("{:.2}", of(|group| group.f_util_least)),
                format!("{:.2}", of(|group| group.f_util_greatest)),
            ];
            let mut row = vec![
                first.scheduler.to_owned(),
                format!("{} × {}", group.tenants, group.name),
                direction.into(),
            ];
            row.extend(if n == 0 { shares } else { Default::default() });
            row.push(format!("{:.0}", latency(|figures| figures.network.mean_us)));
            let p99: [fn(&DirectionFigures) -> &Quantiles; 3] =
                [|figures| &figures.network, |figures| &figures.device, |figures| &figures.end_to_end];
            for reading in p99 {
                let p99 = records.iter().filter_map(|record| figures(&record.groups[g]));
                row.push(format!("{:.0}", median(p99.map(|figures| reading(figures).p99_us))));
            }
            rows.push(row);
        }
    }
    let total = median(records.iter().map(|record| record.mb_per_s));
    let utilisation = median(records.iter().map(|record| record.utilisation));
    rows.push(vec![
        first.scheduler.to_owned(),
        "all".into(),
        String::new(),
        format!("{total:.1}"),
        format!("{utilisation:.2}"),
    ]);
    rows
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}
