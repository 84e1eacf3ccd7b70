//! The demo's output on a terminal: a bar per tenant while a scheduler runs, and the comparison at the end.

use super::figures::{Figures, Run};
use super::live;
use super::scenario::{SCHEDULERS, TENANTS};
use crate::output;
use comfy_table::{Cell, CellAlignment, Table, TableComponent, presets};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use loadgen::{Interval, Observer, Phase};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use units::Nanos;

/// The length of a bar, in hundredths of a fair share.
const BAR_END: u64 = 300;
/// Interval between lines if there is no terminal.
const LINE_EVERY: Nanos = Nanos::secs(5);

/// The bars of one scheduler's run.
pub(super) struct Bars {
    scheduler: &'static str,
    /// Bytes per second of a fair share, per tenant.
    fair: Vec<f64>,
    lines: ProgressBar,
    bars: Vec<ProgressBar>,
    /// The screen; dropped last.
    screen: MultiProgress,
    f_utils: Vec<f64>,
}

impl Bars {
    pub(super) fn new(scheduler: &'static str, fair: Vec<f64>) -> Bars {
        let screen = MultiProgress::new();
        let lines = screen.add(ProgressBar::new(0));
        lines.set_style(style("{msg}"));
        let width = TENANTS.iter().map(|tenant| tenant.name.len()).max().unwrap_or(0);
        let bar = |name: &str| {
            let bar = screen.add(ProgressBar::new(BAR_END));
            bar.set_style(style("  {prefix} {bar:45} {msg}"));
            bar.set_prefix(format!("{name:width$}"));
            bar
        };
        let bars = TENANTS.iter().map(|tenant| bar(tenant.name)).collect();
        Bars { scheduler, f_utils: vec![0.0; fair.len()], fair, lines, bars, screen }
    }

    /// Removes the bars.
    pub(super) fn clear(&self) {
        // A screen that cannot be cleared is no reason to fail.
        self.screen.clear().ok();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("█▌░")
}

impl Observer for Bars {
    fn on_phase(&mut self, phase: Phase) {
        if let Phase::Running { span: Some(span) } = phase {
            let seconds = span.as_secs_f64();
            if !std::io::stderr().is_terminal() {
                output::note(format_args!("{}: running for {seconds:.0} s", self.scheduler));
            }
            self.lines.set_message(format!(
                "{} for {seconds:.0} s; a third of a bar is a fair share",
                self.scheduler
            ));
        }
    }

    fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
        let bandwidth = interval.bytes_per_second();
        let f_util = bandwidth / self.fair[job];
        let p99 = interval.slices[TENANTS[job].direction().index()].p99;
        self.f_utils[job] = f_util;
        self.bars[job].set_position(((f_util * 100.0) as u64).min(BAR_END));
        self.bars[job].set_message(format!("{:>6.1} MB/s  f-Util {f_util:.2}  p99 {p99}", bandwidth / 1e6));
        let last = job + 1 == TENANTS.len();
        if last && interval.end.0.is_multiple_of(LINE_EVERY.0) && !std::io::stderr().is_terminal() {
            let f_utils: Vec<String> = self.f_utils.iter().map(|f_util| format!("{f_util:.2}")).collect();
            output::note(format_args!(
                "{}: {:.0} s, f-Util {}",
                self.scheduler,
                interval.end.as_secs_f64(),
                f_utils.join(" ")
            ));
        }
        ControlFlow::Continue(())
    }
}

/// The comparison and the promises. One line per tenant and scheduler: compared values are below each other, and the
/// table fits a terminal of 80 columns.
pub(super) fn summary(figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).remove_style(TableComponent::MiddleIntersections);
    let mut header = vec![Cell::new("tenant, workload"), Cell::new("scheduler")];
    header.extend(["MB/s", "f-Util", "p99 ms"].map(|column| right(column.to_owned())));
    table.set_header(header);
    let names = figures.runs.iter().map(|run| run.scheduler.as_str()).collect::<Vec<_>>().join("\n");
    let mut add = |what: String, columns: [&dyn Fn(&Run) -> String; 3]| {
        let mut row = vec![Cell::new(what), Cell::new(&names)];
        for column in columns {
            row.push(right(figures.runs.iter().map(column).collect::<Vec<_>>().join("\n")));
        }
        table.add_row(row);
    };
    for (n, tenant) in figures.runs[0].tenants.iter().enumerate() {
        add(
            format!("{}\n{}", tenant.name, tenant.workload),
            [
                &|run| format!("{:.1}", run.tenants[n].mb_per_s),
                &|run| format!("{:.2}", run.tenants[n].f_util),
                &|run| format!("{:.1}", run.tenants[n].latency.p99_us / 1e3),
            ],
        );
    }
    add(
        "all".to_owned(),
        [&|run| format!("{:.1}", run.mb_per_s()), &|run| format!("{:.2}", run.utilisation), &|_| {
            String::new()
        }],
    );
    let mut text = format!("{}\n\n{table}\n\n", figures.scenario);
    for promise in &figures.promises {
        let verdict = if promise.kept { "kept    " } else { "NOT KEPT" };
        text += &format!("{verdict}  {}\n          measured: {}\n", promise.claim, promise.measured);
    }
    if let Some(warning) = figures.warning() {
        text += &format!("\n{warning}\n");
    }
    text
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The time that the whole demo takes, to announce it.
pub(super) fn expected_seconds(seconds: u64, speed: f64) -> f64 {
    let of = |scheduler| live::ramp(scheduler, speed).as_secs_f64() + seconds as f64 + 1.0;
    SCHEDULERS.into_iter().map(of).sum()
}
