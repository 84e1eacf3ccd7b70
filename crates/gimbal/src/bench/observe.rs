//! What a caller may see, and stop, while a run goes on.

use super::measure::Interval;
use std::ops::ControlFlow;
use units::Nanos;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Connections are being made.
    Connecting,
    /// This job (by its number) runs alone, to find what it reaches alone.
    Alone {
        /// Its number among the jobs.
        job: usize,
        /// How long it will.
        span: Nanos,
    },
    /// All jobs run.
    Running {
        /// How long they will, the ramp included; `None` if until everything is written once.
        span: Option<Nanos>,
    },
    /// What was written is read back.
    Verifying,
}

/// Looks on while a run goes on. Called on the thread that called `run`, never on one that drives IO.
pub(crate) trait Observer {
    /// A new phase begins.
    fn on_phase(&mut self, phase: Phase) {
        let _ = phase;
    }

    /// An interval of a job (by its number) has ended. `Break` ends the run early; what was measured so far counts.
    fn on_interval(&mut self, job: usize, interval: &Interval) -> ControlFlow<()> {
        let _ = (job, interval);
        ControlFlow::Continue(())
    }
}
