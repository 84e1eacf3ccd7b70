//! The results, as a table for people and as JSON lines for programs.
//!
//! A line of the file is `{"name","value","unit","goal","holds"}` and `"spread"`, `"least"`, `"most"` (of the rounds), `"detail"`, and
//! `"noisy"` with the reason if the machine was too noisy to be sure. If a line could not be measured, its value is null and `"why"`
//! says the reason.

use crate::measure::{Goal, Line, Reading};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// If others use more than this part of all CPU time, a measure is noisy.
const OTHERS_MAX: f64 = 0.05;
/// The same for the spread of the rounds (of their middle half, over the median).
const SPREAD_MAX: f64 = 0.1;

/// One line with its result, and the load by others.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) line: Line,
    /// The result; or, if it could not be measured, why.
    pub(crate) found: Result<Reading, String>,
    /// The part of all CPU time that others used.
    pub(crate) others: f64,
    /// Whether that changes the value.
    pub(crate) disturbed: bool,
}

impl Entry {
    /// Whether the goal holds; `None` if nothing was measured.
    pub(crate) fn holds(&self) -> Option<bool> {
        let reading = self.found.as_ref().ok()?;
        Some(reading.excuse.is_some() || self.line.goal.holds(reading.rounds.median()))
    }

    /// Why the result is uncertain, if it is.
    fn noisy(&self) -> Option<String> {
        let rounds = &self.found.as_ref().ok()?.rounds;
        let mut reasons = Vec::new();
        if self.disturbed && self.others > OTHERS_MAX {
            reasons.push(format!("other processes used {:.0} % of the machine", self.others * 100.0));
        }
        if rounds.spread() > SPREAD_MAX {
            let (least, most) = rounds.range();
            let goal = self.line.goal;
            let open = if goal.holds(least) == goal.holds(most) { "" } else { ", on both sides of the goal" };
            reasons.push(format!("the rounds differ by {:.0} %{open}", rounds.spread() * 100.0));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn json(&self) -> JsonLine<'_> {
        let Line { name, unit, goal } = self.line;
        let reading = self.found.as_ref().ok();
        let range = reading.map(|reading| reading.rounds.range());
        JsonLine {
            name,
            value: reading.map(|reading| reading.rounds.median()),
            unit,
            goal: goal.to_string(),
            holds: self.holds(),
            why: self.found.as_ref().err().map(String::as_str),
            excuse: reading.and_then(|reading| reading.excuse),
            noisy: self.noisy(),
            least: range.map(|(least, _)| least),
            most: range.map(|(_, most)| most),
            spread: reading.map(|reading| reading.rounds.spread()),
            others: self.others,
            detail: reading.map(|reading| reading.detail.as_str()),
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.noisy()) {
            (None, _) => "not measured",
            (Some(true), None) => "holds",
            (Some(false), None) => "missed",
            (Some(true), Some(_)) => "holds?",
            (Some(false), Some(_)) => "missed?",
        }
    }
}

/// The JSON line of an entry.
#[derive(Serialize)]
struct JsonLine<'e> {
    name: &'static str,
    value: Option<f64>,
    unit: &'static str,
    goal: String,
    holds: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    excuse: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noisy: Option<String>,
    least: Option<f64>,
    most: Option<f64>,
    spread: Option<f64>,
    others: f64,
    detail: Option<&'e str>,
}

/// Writes one JSON line per entry.
pub(crate) fn write(file: &Path, entries: &[Entry]) -> Result<()> {
    let mut text = String::new();
    for entry in entries {
        text.push_str(&serde_json::to_string(&entry.json()).context("a line of JSON")?);
        text.push('\n');
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// The table, and remarks below it.
pub(crate) fn table(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["measure", "value", "unit", "goal", "", "rounds"]);
    for entry in entries {
        let (value, range) = match &entry.found {
            Ok(Reading { rounds, .. }) => {
                let (least, most) = rounds.range();
                (figure(rounds.median()), format!("{}–{}", figure(least), figure(most)))
            }
            Err(_) => (String::new(), String::new()),
        };
        let Line { name, unit, goal } = entry.line;
        table.add_row([name, &value, unit, &goal_text(goal), entry.verdict(), &range]);
    }
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.to_string();
    for entry in entries {
        let name = entry.line.name;
        match &entry.found {
            Ok(Reading { detail, excuse: None, .. }) => text.push_str(&format!("\n{name}: {detail}")),
            Ok(Reading { detail, excuse: Some(excuse), .. }) => {
                text.push_str(&format!("\n{name}: {excuse}; {detail}"));
            }
            Err(why) => text.push_str(&format!("\n{name}: not measured: {why}")),
        }
        if let Some(noisy) = entry.noisy() {
            text.push_str(&format!(" [too noisy to be sure: {noisy}]"));
        }
    }
    text
}

fn goal_text(goal: Goal) -> String {
    match goal {
        Goal::AtLeast(least) if least >= 1e6 => format!("≥ {}", figure(least)),
        other => other.to_string(),
    }
}

/// A number with three significant digits: `1.23`, `12.3`, `123`, `4.56M`.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        100.0..1e6 => format!("{value:.0}"),
        _ => format!("{:.2}M", value / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Rounds;

    fn entry(rounds: &[f64], others: f64) -> Entry {
        let line = Line::ratio("bulk_read", Goal::AtLeast(0.9));
        let reading = Reading::new(Rounds::new(rounds.to_vec()), "4711 IOPS".to_owned());
        Entry { line, found: Ok(reading), others, disturbed: true }
    }

    #[test]
    fn a_line_of_json_starts_with_the_documented_fields() {
        let text = serde_json::to_string(&entry(&[0.95], 0.0).json()).expect("JSON");
        let begin = r#"{"name":"bulk_read","value":0.95,"unit":"ratio","goal":"≥ 0.9","holds":true,"least""#;
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn a_noisy_machine_is_reported_and_leaves_the_verdict_open() {
        let quiet = entry(&[0.91, 0.92, 0.93], 0.01);
        assert_eq!((quiet.verdict(), quiet.noisy()), ("holds", None));
        let busy = entry(&[0.91, 0.92, 0.93], 0.5);
        assert_eq!(busy.verdict(), "holds?");
        assert_eq!(Entry { disturbed: false, ..busy.clone() }.verdict(), "holds");
        let scattered = entry(&[0.5, 0.8, 1.2], 0.0);
        assert_eq!(scattered.verdict(), "missed?");
        let reason = scattered.noisy().expect("a reason");
        assert!(reason.ends_with("on both sides of the goal"), "{reason}");
        assert!(table(&[busy, scattered]).contains("too noisy to be sure"));
    }

    #[test]
    fn what_was_not_measured_neither_holds_nor_is_left_out() {
        let missing = Entry { found: Err("no fio".to_owned()), ..entry(&[1.0], 0.0) };
        assert_eq!((missing.holds(), missing.verdict()), (None, "not measured"));
        let text = serde_json::to_string(&missing.json()).expect("JSON");
        assert!(text.contains(r#""value":null"#) && text.contains(r#""why":"no fio""#), "{text}");
        assert!(table(&[missing]).ends_with("bulk_read: not measured: no fio"));
    }

    #[test]
    fn an_excuse_counts() {
        let mut slow = entry(&[0.5], 0.0);
        assert_eq!(slow.holds(), Some(false));
        slow.found.as_mut().expect("a reading").excuse = Some("limited by CPU");
        assert_eq!(slow.holds(), Some(true));
        assert!(table(&[slow]).contains("bulk_read: limited by CPU; 4711 IOPS"));
    }
}
