//! Progress of the lab on a terminal; silent without a terminal.

use ::lab::runner::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(200);

/// A bar for one experiment.
pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(super) fn new() -> Bar {
        let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {elapsed} {msg}")
            .expect("the template is a constant")
            .progress_chars("█▌ ");
        let bar = ProgressBar::new(0).with_style(style);
        bar.enable_steady_tick(TICK);
        Bar { bar }
    }

    pub(super) fn show(&self, progress: Progress<'_>) {
        self.bar.set_length(progress.all as u64);
        self.bar.set_position(progress.done as u64);
        self.bar.set_message(progress.label.to_owned());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
