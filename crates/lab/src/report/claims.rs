//! The claims of the report: the number that hold under each scheduler, then each claim with its numbers.
//!
//! ```text
//!  scheduler   holds  stronger  weaker  open  differs  missed  unmeasured
//!
//!  ID  the claim in words
//!      SSD   scheduler   asked   ours   least … greatest   verdict   others
//!      SSD   scheduler   asked   ours   least … greatest   verdict   others
//!      Why: the cause, once for all rows above it
//! ```
//!
//! The words have lines of their own, so that the columns fit the screen of a laptop.
//!
//! Holds: every row appears once, under its claim; a cause is stated once (`tests`).

use super::page::escape;
use crate::claims::{Row, Verdict, holding};
use std::fmt::Write;

/// Columns of the table.
const COLUMNS: usize = 7;

/// The style of this section alone.
pub(super) const STYLE: &str = "
.claims { width: 100%; max-width: 60rem; } .claims .claim th { text-align: left; white-space: normal; padding-top: 1.2rem; border-bottom: none; font-weight: 400; }
.claims .claim a { font-weight: 600; margin-right: .6rem; } .claims .why td { text-align: left; white-space: normal; color: var(--soft); }
.spread { color: var(--soft); } .missed { color: var(--bad); font-weight: 600; } .unmeasured, .open, .weaker, .stronger { color: var(--middling); }
";

/// The whole section.
pub(super) fn claims(rows: &[Row]) -> String {
    let mut html = String::from(
        "<h2 id=\"claims\">What the papers claim, what we ask beyond them, and the results</h2>",
    );
    if rows.is_empty() {
        return html + "<p>These experiments have no claims.</p>";
    }
    _ = write!(html, "<p><strong>{}.</strong></p>", holding(rows));
    html.push_str(&tally(rows));
    html.push_str(
        "<p>Ours is the median over the seeds, with the least and the greatest. A row holds if the direction is the paper's \
         and the size is within a factor of two. It is weaker or stronger if only the direction is the paper's. Where no paper has a \
         number, the row has a goal of ours, which is met or missed. Where an interval is given, the row is judged by that: ours is the mean, and \
         it is open if chance may decide. The last column says on how many of the random SSDs that could be the \
         paper's the row holds, if that was judged.</p><table class=\"claims\"><tr><th>SSD</th>\
         <th class=\"text\">scheduler</th><th>asked</th><th>ours</th><th>least … greatest</th><th class=\"text\">verdict</th><th>others</th></tr>",
    );
    for claim in rows.chunk_by(|one, next| (&one.experiment, &one.id) == (&next.experiment, &next.id)) {
        html.push_str(&of_one_claim(claim));
    }
    html + "</table>"
}

/// Number of rows of each scheduler by verdict.
fn tally(rows: &[Row]) -> String {
    let used = |verdict: &Verdict| rows.iter().any(|row| row.verdict == *verdict);
    let verdicts: Vec<Verdict> = Verdict::ALL.into_iter().filter(used).collect();
    let mut schedulers: Vec<&str> = Vec::new();
    for row in rows {
        if !schedulers.contains(&row.scheduler.as_str()) {
            schedulers.push(&row.scheduler);
        }
    }
    let mut html = String::from("<table class=\"tally\"><tr><th>scheduler</th>");
    for verdict in &verdicts {
        _ = write!(html, "<th class=\"{0}\">{0}</th>", verdict.name());
    }
    html.push_str("</tr>");
    for scheduler in schedulers {
        _ = write!(html, "<tr><td>{}</td>", escape(scheduler));
        for verdict in &verdicts {
            let is_counted = |row: &&Row| row.scheduler == scheduler && row.verdict == *verdict;
            _ = write!(html, "<td>{}</td>", rows.iter().filter(is_counted).count());
        }
        html.push_str("</tr>");
    }
    html + "</table>"
}

/// The rows of one claim: its words, a line for each SSD and scheduler, the causes.
fn of_one_claim(rows: &[Row]) -> String {
    let mut html = format!(
        "<tr class=\"claim\"><th colspan=\"{COLUMNS}\"><a href=\"#{}\">{}</a>{}</th></tr>",
        escape(&rows[0].experiment),
        escape(&rows[0].id),
        escape(&rows[0].what)
    );
    for row in rows {
        let number = |value: f64| format!("{value:.2} {}", row.unit);
        _ = write!(
            html,
            "<tr><td>{profile}</td><td class=\"text\">{scheduler}</td><td>{asked} <span class=\"spread\">({whose})</span></td>\
             <td class=\"ours\">{ours}</td><td class=\"spread\">{spread}</td><td class=\"text {verdict}\">{verdict}</td>\
             <td class=\"spread\">{others}</td></tr>",
            profile = escape(&row.profile),
            scheduler = escape(&row.scheduler),
            asked = number(row.asked.number()),
            whose = row.asked.whose(),
            ours =
                row.ours.map_or("–".into(), |ours| number(row.interval.map_or(ours.median, |of| of.mean))),
            spread = row.spread(),
            verdict = row.verdict.name(),
            others = row.plausible.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)),
        );
    }
    let mut causes: Vec<&str> = rows.iter().filter_map(|row| row.why.as_deref()).collect();
    causes.dedup();
    for cause in causes {
        _ = write!(html, "<tr class=\"why\"><td colspan=\"{COLUMNS}\">Why: {}</td></tr>", escape(cause));
    }
    html
}
