//! Signals that end a run early: the results so far are shown, as at the regular end.
//!
//! Control-C, `kill`, the end of the terminal, and `timeout` all have the same effect. Some of them come twice at once
//! (`timeout` signals the process and its group). So a second signal ends the process only if it comes at least
//! [`REPEAT_AFTER`] later: then the user does not want to wait. A SIGHUP that was ignored at the start stays ignored
//! (`nohup`).
//!
//! Holds: each of these signals, also twice at once, leaves the results (`tests/bench.rs`).

use procfs::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Least time after the first signal at which a second one ends the process.
const REPEAT_AFTER: Duration = Duration::from_secs(1);

/// The number of the first signal; 0 until one comes.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicI32>);

impl Interrupt {
    /// Starts to watch for signals.
    pub(crate) fn on_signals() -> io::Result<Interrupt> {
        let first = Arc::new(AtomicI32::new(0));
        let watched =
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !ignores(SIGHUP));
        let mut signals = Signals::new(watched)?;
        let seen = Arc::clone(&first);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut since: Option<Instant> = None;
            for signal in signals.forever() {
                match since {
                    None => {
                        seen.store(signal, Ordering::Relaxed);
                        since = Some(Instant::now());
                    }
                    Some(since) if since.elapsed() < REPEAT_AFTER => {}
                    // If this fails, the process continues to its orderly end.
                    Some(_) => drop(emulate_default_handler(signal)),
                }
            }
        })?;
        Ok(Interrupt(first))
    }

    /// Whether a signal came.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The exit code of a command that the signal ended, as in shells.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(128 + self.0.load(Ordering::Relaxed) as u8)
    }
}

/// Whether this process ignores a signal.
fn ignores(signal: i32) -> bool {
    let status = Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign >> (signal - 1) & 1 == 1)
}
