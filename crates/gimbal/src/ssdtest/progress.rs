//! Progress of a probe: a bar on a terminal, a line for each task elsewhere. On standard error, apart from the result.

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use probe::Config;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use units::{Bytes, MIB, Nanos};

const TICK: Duration = Duration::from_millis(200);

/// Shows the progress.
pub(super) struct Progress {
    /// The bar, on a terminal.
    bar: Option<ProgressBar>,
    writes_most: Bytes,
}

impl Progress {
    pub(super) fn new(config: &Config) -> Progress {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{bar:30}] {msg}")
                .expect("the template is a constant")
                .progress_chars("█▌ ");
            let bar = ProgressBar::new(millis(config.time_most())).with_style(style);
            bar.enable_steady_tick(TICK);
            bar
        });
        Progress { bar, writes_most: config.writes_most() }
    }

    /// Shows that a task begins.
    pub(super) fn on_task(&self, progress: &probe::Progress) {
        let probe::Progress { tasks, title, written, elapsed } = progress;
        let written = written.get() / MIB;
        let message = match self.writes_most.get() / MIB {
            0 => format!("{:.1} s, task {}: {title}", elapsed.as_secs_f64(), tasks + 1),
            most => format!(
                "{:.1} s, {written} of at most {most} MiB written, task {}: {title}",
                elapsed.as_secs_f64(),
                tasks + 1
            ),
        };
        self.show(*elapsed, message);
    }

    /// Shows how much of the file is filled.
    pub(super) fn on_filled(&self, bytes: u64, of: u64) {
        self.show(Nanos::ZERO, format!("filling the file: {} of {} MiB", bytes / MIB, of / MIB));
    }

    fn show(&self, elapsed: Nanos, message: String) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(millis(elapsed));
                bar.set_message(message);
            }
            None => output::note(message),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn millis(span: Nanos) -> u64 {
    span.get() / 1_000_000
}
