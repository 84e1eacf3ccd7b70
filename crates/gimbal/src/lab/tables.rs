//! Findings and claims as tables for people; values are medians over the seeds.

use ::lab::claims::{Asked, Row, holding};
use ::lab::findings::Findings;
use ::lab::report::table::{HEADER, TEXT_COLUMNS, tables};
use ::lab::sensitivity::Sensitivity;
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

/// The heading of the column for [`Sensitivity`].
const PLAUSIBLE: &str = "others";

/// The claims table, and below it the causes of the differences.
pub(super) fn claims(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["claim", "what", "SSD", "under", "asked", "ours", "least … most", "", PLAUSIBLE]);
    for row in rows {
        let number = |value: f64| format!("{value:.2} {}", row.unit);
        table.add_row([
            row.id.clone(),
            row.what.clone(),
            row.profile.clone(),
            row.scheduler.clone(),
            asked(row.asked, row.unit),
            row.ours.map_or("–".into(), |ours| number(row.interval.map_or(ours.median, |of| of.mean))),
            row.spread(),
            row.verdict.name().into(),
            row.plausible.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)),
        ]);
    }
    let mut text = format!("{table}\n{}\n", holding(rows));
    if rows.iter().any(|row| row.plausible.is_some()) {
        _ = writeln!(
            text,
            "{PLAUSIBLE}: the row holds on so many of {} SSDs that could be the paper's (gimbal lab sensitivity)",
            Sensitivity::kept().ssds()
        );
    }
    let mut told = Vec::new();
    for row in rows {
        if let Some(why) = row.why.as_ref().filter(|_| !told.contains(&&row.id)) {
            told.push(&row.id);
            _ = writeln!(text, "{}: {why}", row.id);
        }
    }
    text
}

/// The number that a row asks for; the paper's, unless the text says that it is a goal.
pub(super) fn asked(asked: Asked, unit: &str) -> String {
    let number = format!("{:.2} {unit}", asked.number());
    if asked.is_goal() { format!("{} ({})", number.trim_end(), asked.whose()) } else { number }
}
