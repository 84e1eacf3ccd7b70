//! The outside of a copy: its progress, its limit of bytes per second, and the signal that ends it.
//!
//! On a terminal there is one line that is rewritten; elsewhere a line every [`PERIOD`]. All on standard error.

use super::pace::Pace;
use crate::interrupt::Interrupt;
use crate::output;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use reactor::Clock;
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use units::{Bytes, Instant, MIB, Nanos};

const TICK: Duration = Duration::from_millis(200);
/// Time between two lines where there is no terminal.
const PERIOD: Nanos = Nanos::secs(2);
/// A wait for the limit looks for a signal this often.
const NAP: Nanos = Nanos::millis(50);

/// The error of a copy that the user interrupts.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// The outside of a copy; see the module.
pub(super) struct Watch {
    interrupt: Option<Interrupt>,
    /// The bar, on a terminal.
    bar: Option<ProgressBar>,
    pace: RefCell<Pace>,
    phase: Cell<&'static str>,
    done: Cell<u64>,
    total: Cell<u64>,
    said: Cell<Instant>,
}

impl Watch {
    /// Begins to watch for signals.
    pub(super) fn on_signals(rate: Option<Bytes>) -> Result<Watch> {
        let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{bar:30}] {msg}")
                .expect("the template is a constant")
                .progress_chars("█▌ ");
            let bar = ProgressBar::new(0).with_style(style);
            bar.enable_steady_tick(TICK);
            bar
        });
        Ok(Watch::new(rate, Some(interrupt), bar))
    }

    fn new(rate: Option<Bytes>, interrupt: Option<Interrupt>, bar: Option<ProgressBar>) -> Watch {
        Watch {
            interrupt,
            bar,
            pace: RefCell::new(Pace::new(rate)),
            phase: Cell::new(""),
            done: Cell::new(0),
            total: Cell::new(0),
            said: Cell::new(Clock.now()),
        }
    }

    /// For tests without a process of their own.
    #[cfg(test)]
    pub(super) fn silent() -> Watch {
        Watch::new(None, None, None)
    }

    /// The exit code of a command that the signal ended.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.interrupt.as_ref().map_or(ExitCode::FAILURE, Interrupt::exit_code)
    }

    /// Fails if a signal came.
    pub(super) fn check(&self) -> Result<()> {
        let is_set = self.interrupt.as_ref().is_some_and(Interrupt::is_set);
        if is_set { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Whether the limit lets a piece go now.
    pub(super) fn may_go(&self) -> bool {
        self.pace.borrow().wait(Clock.now()) == Nanos::ZERO
    }

    /// Waits until the limit lets a piece go, and counts it.
    pub(super) fn go(&self, bytes: u64) -> Result<()> {
        loop {
            self.check()?;
            let wait = self.pace.borrow().wait(Clock.now());
            if wait == Nanos::ZERO {
                break;
            }
            thread::sleep(Duration::from_nanos(wait.min(NAP).0));
        }
        self.pace.borrow_mut().take(Clock.now(), bytes);
        Ok(())
    }

    /// Begins to count to a new total.
    pub(super) fn begin(&self, phase: &'static str, total: u64) {
        self.phase.set(phase);
        self.done.set(0);
        self.total.set(total);
    }

    /// Counts bytes, and shows the progress.
    pub(super) fn on_done(&self, bytes: u64, path: &str) -> Result<()> {
        self.done.set(self.done.get() + bytes);
        let message = || {
            let (done, total) = (self.done.get() / MIB, self.total.get() / MIB);
            format!("{}: {done} of {total} MiB, {path}", self.phase.get())
        };
        let now = Clock.now();
        match &self.bar {
            Some(bar) => {
                bar.set_length(self.total.get());
                bar.set_position(self.done.get());
                bar.set_message(message());
            }
            None if self.interrupt.is_some() && now.saturating_since(self.said.get()) >= PERIOD => {
                self.said.set(now);
                output::note(message());
            }
            None => {}
        }
        self.check()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
