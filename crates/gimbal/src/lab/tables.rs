//! Findings and claims as tables for people: the median over the seeds.

use ::lab::claims::Row;
use ::lab::findings::{Findings, Spread};
use ::lab::measure::{DirectionFigures, Quantiles};
use ::lab::record::{GroupRecord, Record};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;

/// Columns of the findings before the first number.
const TEXT_COLUMNS: usize = 3;

/// One table per profile and case.
pub(super) fn records(findings: &Findings) -> String {
    let experiment = &findings.experiment;
    let mut text = format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source);
    for profile in &experiment.profiles {
        for case in &experiment.cases {
            let x =
                case.swept.zip(case.x).map_or(String::new(), |(swept, x)| format!(", {}: {x}", swept.axis()));
            _ = writeln!(text, "\n{} on {}{x}", case.name, profile.name);
            let mut table = Table::new();
            table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
            table.set_header([
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
            ]);
            for scheduler in &experiment.schedulers {
                let records: Vec<&Record> = findings
                    .of(&profile.name, &case.name, scheduler.name())
                    .filter(|record| record.x == case.x)
                    .collect();
                rows(&records).into_iter().for_each(|row| {
                    table.add_row(row);
                });
            }
            for column in table.column_iter_mut().skip(TEXT_COLUMNS) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            _ = writeln!(text, "{table}");
        }
    }
    text
}

/// A line per group and direction, and one for all.
fn rows(records: &[&Record]) -> Vec<Vec<String>> {
    let Some(first) = records.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for (g, group) in first.groups.iter().enumerate() {
        let of =
            |value: fn(&GroupRecord) -> f64| median(records.iter().map(|record| value(&record.groups[g])));
        for (n, (direction, figures)) in directions(group).into_iter().enumerate() {
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

type Figures = fn(&GroupRecord) -> Option<&DirectionFigures>;

/// The directions in which a group did something; reads if it did nothing.
fn directions(group: &GroupRecord) -> Vec<(&'static str, Figures)> {
    let read: (&str, Figures) = ("read", |group| group.read.as_ref());
    let write: (&str, Figures) = ("write", |group| group.write.as_ref());
    match (&group.read, &group.write) {
        (Some(_), Some(_)) => vec![read, write],
        (None, Some(_)) => vec![write],
        _ => vec![read],
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// The claims table, and below it the causes of what differs.
pub(super) fn claims(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["claim", "what", "SSD", "under", "paper", "ours", "least … most", ""]);
    for row in rows {
        let number = |value: f64| format!("{value:.2} {}", row.unit);
        table.add_row([
            row.id.clone(),
            row.what.clone(),
            row.profile.clone(),
            row.scheduler.clone(),
            number(row.paper),
            row.ours.map_or("–".into(), |ours| number(ours.median)),
            row.ours.map_or(String::new(), |ours| format!("{:.2} … {:.2}", ours.least, ours.greatest)),
            row.verdict.name().into(),
        ]);
    }
    let holding = rows.iter().filter(|row| row.holds).count();
    let mut text = format!("{table}\n{holding} of {} rows hold\n", rows.len());
    let mut told = Vec::new();
    for row in rows {
        if let Some(why) = row.why.as_ref().filter(|_| !told.contains(&&row.id)) {
            told.push(&row.id);
            _ = writeln!(text, "{}: {why}", row.id);
        }
    }
    text
}
