//! `gimbal lab judge`: a scheduler on SSDs and mixes that are drawn at random.

use super::progress::Bar;
use crate::output;
use ::lab::judge::{
    self, Case, Inside, ObjectiveSummary, ObjectiveVerdict, PartRow, Said, Summary, TailRow, TailSummary,
    TailVerdict, Unit, Verdict,
};
use ::lab::runner::Progress;
use ::lab::scheduler::Scheduler;
use anyhow::Result;
use clap::ValueEnum;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use std::process::ExitCode;
use units::Nanos;

/// Maximum number of cases of one call.
const CASES_MAX: i64 = 100_000;
/// Maximum of `--learn`.
const LEARN_MAX: u64 = 600;
/// Number of cases for each case with an SSD that changes, by default.
const CASES_PER_CHANGE: u64 = 4;

/// Arguments of `gimbal lab judge`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The scheduler; one that needs a calibration cannot be judged
    #[arg(long, value_name = "NAME", default_value = "level")]
    scheduler: String,
    /// Number of cases
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=CASES_MAX as u64))]
    cases: u64,
    /// Seed of the first case; the others use the seeds that follow
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Only this case, with all its measurements
    #[arg(long, value_name = "SEED", conflicts_with_all = ["cases", "seed"])]
    case: Option<u64>,
    /// Number of cases with an SSD that changes while it is used [default: a quarter of the others; none with --told, --with or
    /// --case]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=CASES_MAX as u64))]
    changes: Option<u64>,
    /// Only this case with an SSD that changes
    #[arg(long, value_name = "SEED", conflicts_with_all = ["cases", "seed", "case", "changes", "told"])]
    change: Option<u64>,
    /// Model of the SSD that the scheduler starts with: none, that from an earlier run on this SSD, or that of another
    /// case's SSD
    #[arg(long, value_enum, default_value_t)]
    told: Told,
    /// Judge latency objectives instead: whether the scheduler is right about which it can keep
    #[arg(long, conflicts_with_all = ["told", "change", "changes"])]
    objectives: bool,
    /// Judge a light reader's tail instead, against its floor: the tail with the same bytes of the others, sent evenly
    #[arg(long, conflicts_with_all = ["told", "change", "changes", "objectives"])]
    tails: bool,
    /// Only cases whose SSD has this inside: the seeds that follow are tried until there are enough
    #[arg(long, value_name = "PART", value_enum, conflicts_with_all = ["case", "change", "changes"])]
    with: Option<With>,
    /// Seconds of load before the measurement, for what a scheduler learns later; SSDs that change have their own times
    #[arg(long, value_name = "SECONDS", default_value_t = judge::LEARN.0 / 1_000_000_000,
        value_parser = clap::value_parser!(u64).range(1..=LEARN_MAX), conflicts_with_all = ["change", "objectives", "tails"])]
    learn: u64,
    /// One JSON object per case, then one with the summary, instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum With {
    /// A reserve of erased blocks, which takes writes faster than they are sustained
    Reserve,
    /// Garbage collection that reads cannot pass
    HoldsReads,
    /// Garbage collection on all dies at once, with nothing else meanwhile
    Rounds,
    /// A mapping that is partly in memory
    Mapping,
}

impl With {
    fn is_in(self, seed: u64) -> bool {
        let inside = match self {
            With::Reserve => Inside::Reserve,
            With::HoldsReads => Inside::HoldsReads,
            With::Rounds => Inside::Rounds,
            With::Mapping => Inside::Mapping,
        };
        inside.is_in(&Case::of(seed).profile)
    }
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Told {
    #[default]
    Nothing,
    Own,
    Other,
}

impl Told {
    fn flag(self) -> &'static str {
        match self {
            Told::Nothing => "",
            Told::Own => " --told own",
            Told::Other => " --told other",
        }
    }
}

impl Args {
    /// The options that change the verdict on a case whose SSD does not change.
    fn flags(&self) -> String {
        let learn = Nanos::secs(self.learn);
        let learn = if learn == judge::LEARN { String::new() } else { format!(" --learn {}", self.learn) };
        format!("{}{learn}", self.told.flag())
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let scheduler = Scheduler::named(&args.scheduler)?;
    let has_inside = |seed: &u64| args.with.is_none_or(|inside| inside.is_in(*seed));
    let from = |cases: u64| {
        let seeds = (0..).map(|n| args.seed.wrapping_add(n)).filter(has_inside);
        seeds.take(cases as usize).collect()
    };
    let is_one = args.case.is_some() || args.change.is_some();
    let seeds: Vec<u64> = match (args.case, args.change) {
        (Some(case), _) => vec![case],
        (None, Some(_)) => Vec::new(),
        (None, None) => from(args.cases),
    };
    let is_told = !matches!(args.told, Told::Nothing);
    let default =
        if is_one || is_told || args.with.is_some() { 0 } else { args.cases.div_ceil(CASES_PER_CHANGE) };
    let changing: Vec<u64> = match args.change {
        Some(case) => vec![case],
        None => from(args.changes.unwrap_or(default)),
    };
    let bar = Bar::new();
    if args.objectives {
        return objectives(args, scheduler, &seeds, &bar);
    }
    if args.tails {
        return tails(args, scheduler, &seeds, &bar);
    }
    let told = match args.told {
        Told::Nothing => judge::Told::Nothing,
        Told::Own => judge::Told::Own,
        Told::Other => judge::Told::Other,
    };
    let watch = |progress: Progress<'_>| bar.show(progress);
    let verdicts = judge::judge(scheduler, told, Nanos::secs(args.learn), &seeds, &watch)?;
    let changed = judge::judge_changing(scheduler, &changing, &watch)?;
    drop(bar);
    let all = [verdicts, changed].concat();
    let summary = Summary::of(&all);
    if args.json {
        for verdict in &all {
            output::line(serde_json::to_string(verdict)?)?;
        }
        output::line(serde_json::to_string(&summary)?)?;
    } else {
        if is_one {
            all.iter().try_for_each(|verdict| output::line(serde_json::to_string_pretty(verdict)?))?;
        }
        output::line(table(&summary))?;
        for line in replays(&summary, args, scheduler, &all) {
            output::line(line)?;
        }
    }
    let is_met = summary.rows.iter().all(|row| row.met);
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Required percentage of kept objectives, among those that the scheduler says it keeps.
const KEPT: usize = 95;

fn objectives(args: &Args, scheduler: Scheduler, seeds: &[u64], bar: &Bar) -> Result<ExitCode> {
    let verdicts = judge::judge_objectives(scheduler, seeds, &|progress| bar.show(progress))?;
    let summary = ObjectiveSummary::of(&verdicts);
    if args.json {
        for verdict in &verdicts {
            output::line(serde_json::to_string(verdict)?)?;
        }
        output::line(serde_json::to_string(&summary)?)?;
    } else {
        if args.case.is_some() {
            verdicts.iter().try_for_each(|verdict| output::line(serde_json::to_string_pretty(verdict)?))?;
        }
        let [yes, kept] = summary.yes;
        let [no, could] = summary.no;
        let mut table = Table::new();
        table.load_preset(UTF8_HORIZONTAL_ONLY);
        table.set_header(["the scheduler says after 10 s", "cases", "what came of it"]);
        table.add_row(["it is kept", &yes.to_string(), &format!("kept in {kept}")]);
        table.add_row(["it cannot be kept", &no.to_string(), &format!("could have been kept in {could}")]);
        table.add_row(["it was missed lately", &summary.missed.to_string(), ""]);
        table.add_row(["not known yet", &summary.unknown.to_string(), ""]);
        output::line(table)?;
        let others = |[median, least]: [f64; 2]| format!("median {median:.2}, least {least:.2}");
        output::line(format!(
            "Bytes of others over those without an objective, where it is kept: {}",
            others(summary.others)
        ))?;
        output::line(format!(
            "The same in the {} of these cases where it would be missed without: {}",
            summary.needed,
            others(summary.others_where_needed)
        ))?;
        let wrong = |verdict: &&ObjectiveVerdict| match verdict.said {
            Said::Yes => !verdict.kept,
            Said::No => verdict.could_be_kept == Some(true),
            Said::Unknown | Said::Missed => true,
        };
        for verdict in verdicts.iter().filter(wrong) {
            let ObjectiveVerdict { case, what, bound_us, p99_us, said, .. } = verdict;
            let name = scheduler.name();
            output::line(format!(
                "gimbal lab judge --scheduler {name} --objectives --case {case}  # said {said:?}, bound {bound_us:.0} us, p99 {p99_us:.0} us: {what}"
            ))?;
        }
    }
    let [yes, kept] = summary.yes;
    Ok(if kept * 100 >= yes * KEPT { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Worst cases to show of the tails.
const WORST: usize = 10;

fn tails(args: &Args, scheduler: Scheduler, seeds: &[u64], bar: &Bar) -> Result<ExitCode> {
    let mut verdicts = judge::judge_tails(scheduler, seeds, &|progress| bar.show(progress))?;
    let summary = TailSummary::of(&verdicts);
    if args.json {
        for verdict in &verdicts {
            output::line(serde_json::to_string(verdict)?)?;
        }
        output::line(serde_json::to_string(&summary)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(!verdicts.is_empty(), "none of these cases has a light reader; judge more of them");
    if args.case.is_some() {
        verdicts.iter().try_for_each(|verdict| output::line(serde_json::to_string_pretty(verdict)?))?;
    }
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["light reader", "cases", "median", "95th percentile", "worst"]);
    for TailRow { what, median, p95, worst } in summary.rows {
        let numbers = [median, p95, worst].map(|number| Unit::Times.show(number));
        table.add_row([vec![what.to_owned(), summary.cases.to_string()], numbers.to_vec()].concat());
    }
    output::line(table)?;
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["part of a light read's time", "p99", "p99.9", "the floor's p99"]);
    for PartRow { part, p99, p999, floor_p99 } in summary.parts {
        let shares = [p99, p999, floor_p99].map(|share| format!("{:.0} %", 100.0 * share));
        table.add_row([vec![part.to_owned()], shares.to_vec()].concat());
    }
    output::line(table)?;
    verdicts.sort_unstable_by(|one, other| other.over_floor().total_cmp(&one.over_floor()));
    for verdict in verdicts.iter().take(WORST) {
        let (name, case, over) = (scheduler.name(), verdict.case, verdict.over_floor());
        let TailVerdict { judged, floor, what, .. } = verdict;
        output::line(format!(
            "gimbal lab judge --scheduler {name} --tails --case {case}  # {over:.1} times the floor: p99 {:.0} us, {:.0} in the SSD, floor {:.0}: {what}",
            judged.p99_us, judged.in_ssd_p99_us, floor.p99_us
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(summary: &Summary) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "cases", "median", "95th percentile", "worst", "meet the bound", "goal", ""]);
    for row in &summary.rows {
        table.add_row([
            row.what.to_owned(),
            row.cases.to_string(),
            row.unit.show(row.median),
            row.unit.show(row.p95),
            row.unit.show(row.worst),
            row.meet.map_or(String::new(), |part| format!("{:.0} %", 100.0 * part)),
            row.asked.clone(),
            if row.met { "met" } else { "missed" }.to_owned(),
        ]);
    }
    table
}

/// The commands that run the worst case of each missed goal again.
fn replays(summary: &Summary, args: &Args, scheduler: Scheduler, verdicts: &[Verdict]) -> Vec<String> {
    let missed = summary.rows.iter().filter(|row| !row.met);
    missed
        .map(|row| {
            let (name, case) = (scheduler.name(), row.worst_case);
            let is_worst =
                |verdict: &&Verdict| verdict.case == case && verdict.is_changing() == row.is_changing;
            let what = verdicts.iter().find(is_worst).map_or("", |verdict| &verdict.what);
            let (flag, others) =
                if row.is_changing { ("--change", String::new()) } else { ("--case", args.flags()) };
            format!("gimbal lab judge --scheduler {name} {flag} {case}{others}  # worst {}: {what}", row.what)
        })
        .collect()
}
