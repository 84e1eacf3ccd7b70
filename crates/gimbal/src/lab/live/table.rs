//! Tables with simulator and product in lines next to each other; values are medians over the seeds.

use super::super::tables::asked;
use super::timekeeping::Timekeeping;
use ::lab::experiment::Case;
use ::lab::findings::{Findings, Spread};
use ::lab::record::Record;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent};
use std::fmt::Write;

const HEADER: [&str; 8] = ["scheduler", "group", "", "", "MB/s", "f-Util", "mean µs", "p99 µs"];
/// Columns before the first number.
const TEXT_COLUMNS: usize = 4;

/// A number of a group's record; a latency is that of one direction.
type Number<'a> = &'a dyn Fn(&Record) -> Option<f64>;

/// One table for each profile and case.
pub(super) fn both(simulator: &Findings, product: &Findings) -> String {
    let experiment = &simulator.experiment;
    let mut text = String::new();
    for ssd in &experiment.ssds {
        for case in &experiment.cases {
            let x =
                case.swept.zip(case.x).map_or(String::new(), |(swept, x)| format!(", {}: {x}", swept.axis()));
            let mut table = empty(&HEADER, TEXT_COLUMNS);
            for scheduler in &experiment.schedulers {
                let of = |findings| records(findings, &ssd.profile.name, case, scheduler.name());
                let (simulated, live) = (of(simulator), of(product));
                if !live.is_empty() {
                    rows(&mut table, scheduler.name(), &simulated, &live);
                }
            }
            _ = writeln!(text, "{} on {}{x}\n{table}\n", case.name, ssd.profile.name);
        }
    }
    text
}

fn empty(header: &[&str], text_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table.set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(text_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn records<'f>(findings: &'f Findings, profile: &str, case: &Case, scheduler: &str) -> Vec<&'f Record> {
    let wanted = |record: &&Record| {
        record.profile == profile
            && record.case == case.name
            && record.x == case.x
            && record.scheduler == scheduler
    };
    findings.records.iter().filter(wanted).collect()
}

/// The lines of one scheduler: for each group and direction, and for all, simulator, product and the difference.
fn rows(table: &mut Table, scheduler: &str, simulated: &[&Record], live: &[&Record]) {
    let mut name = scheduler.to_owned();
    for (g, group) in live[0].groups.iter().enumerate() {
        let mut label = format!("{} × {}", group.tenants, group.name);
        for (n, (way, figures)) in group.directions().into_iter().enumerate() {
            let shares = (n == 0).then_some(());
            let numbers: [Number<'_>; 4] = [
                &|record| shares.map(|()| record.groups[g].mb_per_s),
                &|record| shares.map(|()| record.groups[g].f_util),
                &|record| figures(&record.groups[g]).map(|figures| figures.network.mean_us),
                &|record| figures(&record.groups[g]).map(|figures| figures.network.p99_us),
            ];
            block(table, [&name, &label, way], &numbers, simulated, live);
            (name, label) = (String::new(), String::new());
        }
    }
    let numbers: [Number<'_>; 2] = [&|record| Some(record.mb_per_s), &|record| Some(record.utilisation)];
    block(table, [&name, "all", ""], &numbers, simulated, live);
}

/// Number of decimal places in each column of numbers.
const DIGITS: [usize; 4] = [1, 2, 0, 0];

fn block(
    table: &mut Table,
    titles: [&str; 3],
    numbers: &[Number<'_>],
    simulated: &[&Record],
    live: &[&Record],
) {
    let spreads = |records: &[&Record]| -> Vec<Option<Spread>> {
        numbers.iter().map(|number| Spread::of(records.iter().filter_map(|record| number(record)))).collect()
    };
    let (simulated, live) = (spreads(simulated), spreads(live));
    let line = |table: &mut Table, titles: [&str; 3], what: &str, cells: Vec<Option<String>>| {
        let titles = titles.into_iter().chain([what]).map(str::to_owned);
        table.add_row(titles.chain(cells.into_iter().map(Option::unwrap_or_default)));
    };
    let medians = |spreads: &[Option<Spread>]| -> Vec<Option<String>> {
        let digits = DIGITS.iter().zip(spreads);
        digits.map(|(digits, spread)| spread.map(|spread| format!("{:.digits$}", spread.median))).collect()
    };
    line(table, titles, "simulator", medians(&simulated));
    line(table, [""; 3], "product", medians(&live));
    let pairs = || simulated.iter().zip(&live);
    let difference = |(simulated, live): (&Option<Spread>, &Option<Spread>)| {
        Some(format!("{:+.1} %", 100.0 * (live.as_ref()?.median / simulated.as_ref()?.median - 1.0)))
    };
    line(table, [""; 3], "difference", pairs().map(difference).collect());
    let spans = simulated.iter().flatten().any(|spread| spread.least < spread.greatest);
    if spans {
        let from_to = |spread: &Option<Spread>| {
            let Spread { median, least, greatest } = (*spread)?;
            let percent = |value: f64| 100.0 * (value / median - 1.0);
            Some(format!("{:+.1} … {:+.1} %", percent(least), percent(greatest)))
        };
        line(table, [""; 3], "simulator's seeds", simulated.iter().map(from_to).collect());
    }
}

/// The experiment's claims for the simulator and for the product; empty if it has none.
pub(super) fn claims(simulator: &Findings, product: &Findings) -> String {
    let (simulated, live) = (simulator.rows(), product.rows());
    if live.is_empty() {
        return String::new();
    }
    let header = ["claim", "what", "SSD", "under", "asked", "simulator", "", "product", ""];
    let mut table = empty(&header, header.len());
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for (simulated, live) in simulated.iter().zip(&live) {
        let ours = |spread: Option<Spread>| {
            spread.map_or("–".to_owned(), |ours| format!("{:.2} {}", ours.median, live.unit))
        };
        table.add_row([
            live.id.clone(),
            live.what.clone(),
            live.profile.clone(),
            live.scheduler.clone(),
            asked(live.asked, live.unit),
            ours(simulated.ours),
            simulated.verdict.name().to_owned(),
            ours(live.ours),
            live.verdict.name().to_owned(),
        ]);
    }
    format!("{table}\n")
}

/// How well the machine kept time in each run.
pub(super) fn timekeeping(runs: &[(String, Timekeeping)]) -> String {
    let header = ["run", "SSD late, mean µs", "p99 µs", "way longer, µs", "added", "processors", ""];
    let mut table = empty(&header, 1);
    for (label, kept) in runs {
        table.add_row([
            label.clone(),
            format!("{:.2}", kept.late_us),
            format!("{:.1}", kept.late_p99_us),
            format!("{:.2}", kept.way_us),
            format!("{:.1} %", 100.0 * kept.added),
            format!("{:.2}", kept.processors),
            if kept.kept { "kept time" } else { "DID NOT KEEP TIME" }.to_owned(),
        ]);
    }
    let late = runs.iter().filter(|(_, kept)| !kept.kept).count();
    let mut text = format!(
        "How well this machine kept time, in the SSD's microseconds; added: to the shortest mean latency of a group\n{table}\n"
    );
    if late > 0 {
        _ = writeln!(
            text,
            "In {late} of {} runs this machine was too busy to keep time: their figures are its own, not the product's. Give it \
             less to do, or take a larger --slow.",
            runs.len()
        );
    }
    text
}
