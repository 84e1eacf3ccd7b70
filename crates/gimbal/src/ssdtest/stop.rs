//! Ends a probe on a signal, between two IOs, so that its journal can be continued.

use crate::interrupt::Interrupt;
use anyhow::{Context, Result};
use std::process::ExitCode;

/// The error of a probe that the user interrupts.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// Whether a signal came.
#[derive(Clone)]
pub(super) struct Stop(Interrupt);

impl Stop {
    /// Starts to watch for signals.
    pub(super) fn on_signals() -> Result<Stop> {
        Ok(Stop(Interrupt::on_signals().context("cannot install signal handlers")?))
    }

    /// Fails if a signal came.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.is_set() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// The exit code of a command that the signal ended.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.0.exit_code()
    }
}
