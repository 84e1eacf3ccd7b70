//! Findings and claims as tables for people: the median over the seeds.

use ::lab::claims::Row;
use ::lab::findings::Findings;
use ::lab::report::table::{HEADER, TEXT_COLUMNS, tables};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;

/// One table per profile and case.
pub(super) fn records(findings: &Findings) -> String {
    let experiment = &findings.experiment;
    let mut text = format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source);
    for found in tables(findings) {
        _ = writeln!(text, "\n{}", found.title);
        let mut table = Table::new();
        table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(HEADER).add_rows(found.rows);
        for column in table.column_iter_mut().skip(TEXT_COLUMNS) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        _ = writeln!(text, "{table}");
    }
    text
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
