//! Shows the progress of a run on a terminal; silent without a terminal. A signal ends the run; its results are kept.

use crate::interrupt::Interrupt;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use loadgen::{Interval, Job, Observer, Phase};
use std::ops::ControlFlow;
use std::time::Duration;
use units::Nanos;

/// Interval at which the bar is redrawn while no results come.
const TICK: Duration = Duration::from_millis(200);

/// One bar with the total of all jobs.
pub(super) struct Progress<'a> {
    jobs: &'a [Job],
    bar: ProgressBar,
    /// The last interval of each job.
    last: Vec<Option<Interval>>,
    interrupt: Interrupt,
}

impl Progress<'_> {
    pub(super) fn new(jobs: &[Job], interrupt: Interrupt) -> Progress<'_> {
        Progress { jobs, bar: ProgressBar::hidden(), last: vec![None; jobs.len()], interrupt }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&mut self, title: String, span: Option<Nanos>) {
        self.bar.finish_and_clear();
        self.last.fill(None);
        let (bar, template) = match span {
            Some(span) => (ProgressBar::new(millis(span)), "{prefix} [{bar:30}] {msg}"),
            None => (ProgressBar::new_spinner(), "{prefix} {spinner} {elapsed} {msg}"),
        };
        let style =
            ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("█▌ ");
        self.bar = bar.with_style(style).with_prefix(title);
        self.bar.enable_steady_tick(TICK);
    }
}

fn millis(span: Nanos) -> u64 {
    span.get() / 1_000_000
}

impl Observer for Progress<'_> {
    fn on_phase(&mut self, phase: Phase) {
        match phase {
            Phase::Connecting => self.show("connecting".into(), None),
            Phase::Alone { job, span } => self.show(format!("{} alone", self.jobs[job].name), Some(span)),
            Phase::Running { span } => self.show("running".into(), span),
            Phase::Verifying => self.show("reading back".into(), None),
        }
    }

    fn on_note(&mut self, text: &str) {
        self.bar.suspend(|| output::note(text));
    }

    fn wants_end(&mut self) -> bool {
        self.interrupt.is_set()
    }

    fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
        self.last[job] = Some(*interval);
        let running = || self.last.iter().flatten();
        let iops: f64 = running().map(Interval::iops).sum();
        let bandwidth: f64 = running().map(Interval::bytes_per_second).sum();
        self.bar.set_position(millis(interval.end));
        self.bar.set_message(format!("{iops:.0} IOPS  {:.1} MB/s", bandwidth / 1e6));
        ControlFlow::Continue(())
    }
}
