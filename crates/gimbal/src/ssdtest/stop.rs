//! Control-C and `kill` end a probe between two IOs, so that its journal can be continued.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The user wants to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// Whether a signal came.
#[derive(Clone)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Installs the handlers. The second signal ends the process at once.
    pub(super) fn on_signals() -> Result<Stop> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let install = || {
                flag::register_conditional_default(signal, Arc::clone(&stop))?;
                flag::register(signal, Arc::clone(&stop))
            };
            install().context("cannot install signal handlers")?;
        }
        Ok(Stop(stop))
    }

    /// Fails if a signal came.
    pub(super) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }
}
