//! Lets a caller watch a run, and end it early.

use crate::measure::Interval;
use std::ops::ControlFlow;
use units::Nanos;

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are being made.
    Connecting,
    /// This job (by its number) runs alone, to measure its standalone bandwidth.
    Alone {
        /// Its number among the jobs.
        job: usize,
        /// Planned runtime.
        span: Nanos,
    },
    /// All jobs run.
    Running {
        /// Planned runtime, including the ramp; `None` until all work is done.
        span: Option<Nanos>,
    },
    /// The written data is read back.
    Verifying,
}

/// Watches a run. Called on the thread that called `run`, never on a thread that drives IO.
pub trait Observer {
    /// A new phase begins.
    fn on_phase(&mut self, phase: Phase) {
        let _ = phase;
    }

    /// Something that the user may not expect, such as a queue that holds fewer IOs than the job wants.
    fn on_note(&mut self, text: &str) {
        let _ = text;
    }

    /// Asked several times a second, whatever the IOs do: `true` ends the run early, and the results so far are kept.
    fn wants_end(&mut self) -> bool {
        false
    }

    /// An interval of a job (by its number) has ended. `Break` ends the run early; the results so far are kept.
    fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
        let _ = (job, interval);
        ControlFlow::Continue(())
    }
}
