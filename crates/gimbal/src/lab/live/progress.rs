//! Progress of the live runs and the time left: a bar on a terminal, else a line for each run.

use super::slow::clock;
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use units::Nanos;

/// The live runs of an experiment.
pub(super) struct Progress {
    bar: ProgressBar,
    all: Nanos,
    done: Nanos,
    label: String,
}

fn millis(span: Nanos) -> u64 {
    span.0 / 1_000_000
}

impl Progress {
    /// For runs with this total length.
    pub(super) fn new(all: Nanos) -> Progress {
        let style = ProgressStyle::with_template("[{bar:30}] {msg}")
            .expect("the template is a constant")
            .progress_chars("█▌ ");
        let bar = ProgressBar::new(millis(all)).with_style(style);
        Progress { bar, all, done: Nanos::ZERO, label: String::new() }
    }

    /// Shows that a run begins.
    pub(super) fn begin(&mut self, label: String) {
        self.label = label;
        if !stderr().is_terminal() {
            output::note(format_args!("{}; {} left", self.label, self.left(Nanos::ZERO)));
        }
        self.within(Nanos::ZERO);
    }

    /// Shows the progress within the run.
    pub(super) fn within(&self, run: Nanos) {
        self.bar.set_position(millis(self.done + run));
        self.bar.set_message(format!("{} left  {}", self.left(run), self.label));
    }

    /// Counts a run of this length as done.
    pub(super) fn end(&mut self, run: Nanos) {
        self.done += run;
        self.within(Nanos::ZERO);
    }

    fn left(&self, run: Nanos) -> String {
        clock(self.all.saturating_sub(self.done + run))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
