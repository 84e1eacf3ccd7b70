//! What was found, as a table for people and as lines for programs.
//!
//! A line of the file is `{"name","value","unit","goal","holds"}` and `"spread"`, `"least"`, `"most"` (of the rounds), `"detail"`,
//! and `"noisy"` with the reason if the machine left it open whether the goal holds. What could not be measured has the value
//! null and says so in `"why"`.

use crate::measure::{Goal, Line, Reading};
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Beyond this part of all processors' time for others, a measure says little.
const OTHERS_MAX: f64 = 0.05;
/// Beyond this spread of the rounds (of their middle half, as a part of the median), too.
const SPREAD_MAX: f64 = 0.1;

/// One line, with what the machine did meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) line: Line,
    /// What was found; or, if it could not be measured, why.
    pub(crate) found: Result<Reading, String>,
    /// The part of all processors' time that others had.
    pub(crate) others: f64,
}

impl Entry {
    /// Whether the goal holds; `None` if nothing was measured.
    pub(crate) fn holds(&self) -> Option<bool> {
        let reading = self.found.as_ref().ok()?;
        Some(reading.excuse.is_some() || self.line.goal.holds(reading.rounds.median()))
    }

    /// Why one cannot be sure, if so.
    fn noisy(&self) -> Option<String> {
        let rounds = &self.found.as_ref().ok()?.rounds;
        let mut reasons = Vec::new();
        if self.others > OTHERS_MAX {
            reasons.push(format!("others had {:.0} % of the machine", self.others * 100.0));
        }
        if rounds.spread() > SPREAD_MAX {
            let (least, most) = rounds.range();
            let goal = self.line.goal;
            let open = if goal.holds(least) == goal.holds(most) { "" } else { ", on both sides of the goal" };
            reasons.push(format!("the rounds lie {:.0} % apart{open}", rounds.spread() * 100.0));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    fn json(&self) -> Value {
        let Line { name, unit, goal } = &self.line;
        let value = self.found.as_ref().ok().map(|reading| reading.rounds.median());
        let mut object = json!({
            "name": name, "value": value, "unit": unit, "goal": goal.to_string(), "holds": self.holds(),
            "others": self.others,
        });
        match &self.found {
            Ok(Reading { rounds, detail, excuse }) => {
                let (least, most) = rounds.range();
                object["spread"] = rounds.spread().into();
                object["least"] = least.into();
                object["most"] = most.into();
                object["detail"] = detail.as_str().into();
                if let Some(excuse) = excuse {
                    object["excuse"] = (*excuse).into();
                }
            }
            Err(why) => object["why"] = why.as_str().into(),
        }
        if let Some(noisy) = self.noisy() {
            object["noisy"] = noisy.into();
        }
        object
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

/// Writes one line of JSON for each.
pub(crate) fn write(file: &Path, entries: &[Entry]) -> Result<()> {
    let text: String = entries.iter().map(|entry| format!("{}\n", entry.json())).collect();
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// The table, and what has to be said in words below it.
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

/// A number with as many digits as say something: `1.23`, `12.3`, `123`, `4.56M`.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        100.0..1e6 => format!("{value:.0}"),
        _ => format!("{:.2}M", value / 1e6),
    }
}
