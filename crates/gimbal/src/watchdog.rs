//! The service manager's watchdog: it hears of the target twice in each period, as long as the target is alive.
//!
//! Alive is what `/healthz` says: no thread has been in one turn for 5 s. If the service manager hears nothing for a whole period
//! (systemd: `WatchdogSec=`), it ends the target and starts it again. So a thread that hangs for good costs at most 5 s, a period and a half.
//!
//! Holds: the signs of life come and end (`tests/service.rs`); none is sent while a thread hangs (`a_target_that_hangs_is_not_called_alive`).

use crate::notify::{State, notify};
use server::Remote;
use std::env;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tracing::{error, info};

/// The thread that reports. Dropping it ends it.
pub(crate) struct Watchdog {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Reports from now on, if the service manager has asked for it.
    pub(crate) fn start(target: Remote) -> io::Result<Option<Watchdog>> {
        let Some(period) = period() else { return Ok(None) };
        let (end, ended) = channel::<()>();
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut was_alive = true;
            loop {
                let hanging = admin::hanging(&target.stats());
                if is_alive(&hanging, &mut was_alive) {
                    notify(State::Alive);
                }
                if ended.recv_timeout(period / 2) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        })?;
        Ok(Some(Watchdog { end: Some(end), thread: Some(thread) }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported.
            let _ = thread.join();
        }
    }
}

/// The longest time without a sign of life that the service manager accepts from this process; `None`: any.
fn period() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let is_of_another = number("WATCHDOG_PID").is_some_and(|pid| pid != u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|period| *period > 0 && !is_of_another).map(Duration::from_micros)
}

/// Whether no thread hangs. Each change is logged, so that the journal has the reason before the end.
fn is_alive(hanging: &[String], was_alive: &mut bool) -> bool {
    let is_alive = hanging.is_empty();
    match (*was_alive, is_alive) {
        (true, false) => error!(
            "{}; unless that ends, the service manager's watchdog is going to end and restart the target",
            hanging.join(", ")
        ),
        (false, true) => info!("no thread hangs any more"),
        _ => {}
    }
    *was_alive = is_alive;
    is_alive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_hangs_is_not_called_alive() {
        let hangs = ["device a hangs for 5 s".to_owned()];
        let mut was_alive = true;
        for (hanging, expected) in [(&[][..], true), (&hangs, false), (&hangs, false), (&[], true)] {
            assert_eq!(is_alive(hanging, &mut was_alive), expected);
            assert_eq!(was_alive, expected);
        }
    }
}
