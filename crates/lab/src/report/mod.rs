//! The lab's findings as one HTML page that needs no other file: claims first, then each experiment with its figures.
//!
//! Holds: every row of the claims and every figure is on the page; text from files is never markup; the page loads nothing
//! (`tests`).
//! Elsewhere: the frame of all our pages is `page`, the claims are `claims`, the numbers are `table`, the drawings are [`crate::figure`].

mod claims;
pub mod page;
pub mod table;
#[cfg(test)]
mod tests;

use crate::claims::Row;
use crate::experiment::Experiment;
use crate::figure::Drawn;
use crate::findings::Findings;
use page::escape;
use std::fmt::Write;

/// The style of this page alone.
const STYLE: &str = "
section { border-top: 1px solid var(--line); margin-top: 3rem; } h2 { margin-bottom: 0; }
.source { color: var(--soft); margin: .2rem 0; } p, figcaption, li { max-width: 60rem; }
figure { margin: 1.5rem 0; } figcaption { margin-top: .4rem; }
.drawing svg { display: block; width: 100%; max-width: 1200px; height: auto; border-radius: 6px; }
details { margin: 1rem 0; } summary { cursor: pointer; }
";

/// The findings of an experiment and their figures.
pub struct Chapter {
    /// The findings.
    pub findings: Findings,
    /// Its figures, each on every profile.
    pub figures: Vec<Drawn>,
}

impl Chapter {
    /// Draws the figures.
    pub fn new(findings: Findings) -> Chapter {
        let figures = findings.figures();
        Chapter { findings, figures }
    }
}

/// The whole page.
pub fn html(chapters: &[Chapter]) -> String {
    let mut body = String::new();
    let rows: Vec<Row> = chapters.iter().flat_map(|chapter| chapter.findings.rows()).collect();
    body.push_str(&contents(chapters));
    body.push_str(&claims::claims(&rows));
    for chapter in chapters {
        body.push_str(&section(chapter));
    }
    page::frame(
        "gimbal lab",
        "Schedulers side by side on simulated SSDs, in virtual time, compared with what their papers claim. The same experiments and \
         seeds give the same numbers on every machine.",
        &format!("{STYLE}{}", claims::STYLE),
        &body,
    )
}

fn contents(chapters: &[Chapter]) -> String {
    let mut html = String::from(
        "<ul><li><a href=\"#claims\">What the papers claim, what we ask, and the results</a></li>",
    );
    for chapter in chapters {
        let experiment = &chapter.findings.experiment;
        let (name, title) = (escape(&experiment.name), escape(&experiment.title));
        _ = write!(html, "<li><a href=\"#{name}\">{name}: {title}</a></li>");
    }
    html + "</ul>"
}

fn section(chapter: &Chapter) -> String {
    let experiment = &chapter.findings.experiment;
    let mut html = String::new();
    _ = write!(
        html,
        "<section id=\"{name}\"><h2>{name}: {title}</h2><p class=\"source\">{source}</p><p>{about}</p><p class=\"source\">{ran}</p>",
        name = escape(&experiment.name),
        title = escape(&experiment.title),
        source = escape(&experiment.source),
        about = escape(&experiment.about),
        ran = escape(&ran(experiment)),
    );
    let first = experiment.ssds.first().map(|ssd| ssd.profile.name.as_str());
    let (judged, others): (Vec<&Drawn>, Vec<&Drawn>) =
        chapter.figures.iter().partition(|drawn| Some(drawn.profile.as_str()) == first);
    judged.into_iter().for_each(|drawn| html.push_str(&figure(drawn)));
    for ssd in experiment.ssds.iter().skip(1) {
        let name = &ssd.profile.name;
        _ = write!(html, "<details><summary>The same on {}</summary>", escape(name));
        others.iter().filter(|drawn| drawn.profile == *name).for_each(|drawn| html.push_str(&figure(drawn)));
        html.push_str("</details>");
    }
    html.push_str("<details><summary>In numbers (medians over the seeds)</summary>");
    table::tables(&chapter.findings).iter().for_each(|table| html.push_str(&numbers(table)));
    html + "</details></section>"
}

/// A summary of the run, in a line.
fn ran(experiment: &Experiment) -> String {
    let profiles: Vec<&str> = experiment.ssds.iter().map(|ssd| ssd.profile.name.as_str()).collect();
    let schedulers: Vec<&str> = experiment.schedulers.iter().map(|scheduler| scheduler.name()).collect();
    let seeds: Vec<String> = experiment.seeds.iter().map(u64::to_string).collect();
    let others = experiment.cases.iter().filter(|case| case.seeds != experiment.seeds);
    let others: String = others.map(|case| format!("; {} of {}", case.seeds.len(), case.name)).collect();
    format!(
        "SSD: {}. Schedulers: {}. Seeds: {}{others}.",
        profiles.join(", "),
        schedulers.join(", "),
        seeds.join(", ")
    )
}

fn figure(drawn: &Drawn) -> String {
    format!(
        "<figure id=\"{name}\"><div class=\"drawing\" role=\"img\" aria-label=\"{see}\">{svg}</div><figcaption>{see}</figcaption></figure>",
        name = escape(&drawn.name),
        see = escape(&drawn.see),
        svg = drawn.svg,
    )
}

fn numbers(table: &table::Table) -> String {
    let mut html = format!("<h3>{}</h3><div class=\"wide\"><table><tr>", escape(&table.title));
    let class = |column: usize| if column < table::TEXT_COLUMNS { " class=\"text\"" } else { "" };
    for (column, name) in table::HEADER.iter().enumerate() {
        _ = write!(html, "<th{}>{name}</th>", class(column));
    }
    html.push_str("</tr>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            _ = write!(html, "<td{}>{}</td>", class(column), escape(cell));
        }
        html.push_str("</tr>");
    }
    html + "</table></div>"
}
