//! Results as tables and as JSON.

use super::neighbours::Done;
use crate::output;
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use ycsb::Properties;
use ycsb::plan::{Latency, Report};

/// One run: its place and its measurements.
#[derive(Serialize)]
pub(super) struct Run {
    /// The scheduler of the targets, or the place of the databases.
    on: String,
    /// The policy that chooses which copy is read; empty if there is only one copy or the URI sets the policy.
    reads: String,
    pub(super) report: Report,
    neighbours: Vec<Done>,
}

impl Run {
    pub(super) fn new(on: &str, reads: &str, report: Report) -> Run {
        Run::beside(on, reads, report, Vec::new())
    }

    /// The same with what neighbours have done.
    pub(super) fn beside(on: &str, reads: &str, report: Report, neighbours: Vec<Done>) -> Run {
        Run { on: on.to_owned(), reads: reads.to_owned(), report, neighbours }
    }
}

/// Prints the results, or writes them.
pub(super) fn show(runs: &[Run], properties: &Properties, json: Option<&Path>) -> Result<()> {
    if let Some(path) = json {
        #[derive(Serialize)]
        struct All<'a> {
            properties: BTreeMap<&'a str, &'a str>,
            runs: &'a [Run],
        }
        let properties =
            properties.names().map(|name| (name, properties.text(name).unwrap_or_default())).collect();
        let text = serde_json::to_string_pretty(&All { properties, runs });
        let text = text.context("cannot make JSON of the results")?;
        if output::is_stdout(path) {
            return output::line(text);
        }
        output::write_file(path, format!("{text}\n").as_bytes())?;
    }
    output::line(details(runs))?;
    if runs.iter().any(|run| !run.neighbours.is_empty()) {
        output::line(neighbours(runs))?;
    }
    if runs.len() > 1 {
        output::line(comparison(runs))?;
    }
    Ok(())
}

fn table<const N: usize>(header: [&str; N], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn millis(micros: f64) -> String {
    format!("{:.3}", micros / 1e3)
}

/// Each kind of operation over all databases, and each database over all kinds. A run is one row, with a line for each
/// of these.
fn details(runs: &[Run]) -> Table {
    let header = ["databases on", "reads", "", "ops/s", "avg ms", "p50", "p99", "p99.9", "max"];
    let mut table = table(header, 3);
    for run in runs {
        let Run { on, reads, report, .. } = run;
        let per_second = |count: u64| count as f64 / report.seconds.max(f64::MIN_POSITIVE);
        let mut lines = vec![("all", report.total.throughput, report.total.all)];
        let kinds = &report.total.kinds;
        lines.extend(kinds.iter().map(|(kind, latency)| (kind.name(), per_second(latency.count), *latency)));
        let instances = report.instances.iter();
        lines.extend(instances.map(|instance| (&*instance.name, instance.throughput, instance.all)));
        let column = |text: &dyn Fn(&(&str, f64, Latency)) -> String| -> String {
            lines.iter().map(text).collect::<Vec<String>>().join("\n")
        };
        table.add_row([
            on.clone(),
            reads.clone(),
            column(&|(what, ..)| (*what).to_owned()),
            column(&|(_, speed, _)| format!("{speed:.0}")),
            column(&|(.., latency)| millis(latency.mean)),
            column(&|(.., latency)| millis(latency.p50)),
            column(&|(.., latency)| millis(latency.p99)),
            column(&|(.., latency)| millis(latency.p999)),
            column(&|(.., latency)| millis(latency.max)),
        ]);
    }
    table
}

/// The neighbours' throughput. A run is one row, with a line for each of them.
fn neighbours(runs: &[Run]) -> Table {
    let mut table = table(["beside", "reads", "", "MB/s"], 3);
    for Run { on, reads, neighbours, .. } in runs {
        let names: Vec<&str> = neighbours.iter().map(|done| done.name).collect();
        let speeds = neighbours.iter().map(|done| format!("{:.1}", done.megabytes_per_second));
        table.add_row([on, reads, &names.join("\n"), &speeds.collect::<Vec<_>>().join("\n")]);
    }
    table
}

/// Compares all runs with the first.
fn comparison(runs: &[Run]) -> Table {
    let header = ["databases on", "reads", "ops/s", "× first", "p99.9 ms", "× first"];
    let mut table = table(header, 2);
    let first = &runs[0].report.total;
    let ratio = |value: f64, of: f64| if of > 0.0 { format!("{:.2}", value / of) } else { "–".to_owned() };
    for Run { on, reads, report, .. } in runs {
        let total = &report.total;
        table.add_row([
            on.clone(),
            reads.clone(),
            format!("{:.0}", total.throughput),
            ratio(total.throughput, first.throughput),
            millis(total.all.p999),
            ratio(total.all.p999, first.all.p999),
        ]);
    }
    table
}
