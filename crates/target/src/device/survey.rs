//! The thread that counts the allocated blocks of thin namespaces, for all SSDs.
//!
//! A count is about a second old, or older if there is much to count: the thread works at most a twentieth of the time. If the system
//! makes it wait (a dead network file system), the counts stay as they are, and nothing else waits. A namespace that is gone is dropped
//! at the next count. The end of the target ends the thread without waiting for it.

use super::usage::Usage;
use std::io;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The least time between two counts.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two looks when there is nothing to count.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// The pause after a count is this many times as long as the count.
const REST: u32 = 20;

/// The handle of the thread.
pub(crate) struct Survey(Sender<Weak<Usage>>);

impl Survey {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Survey> {
        let (sender, receiver) = channel();
        thread::Builder::new().name("survey".to_owned()).spawn(move || count(&receiver))?;
        Ok(Survey(sender))
    }

    /// Counts this namespace from now on, until all other references to it are gone.
    pub(crate) fn watch(&self, usage: Weak<Usage>) {
        self.0.send(usage).expect("the thread lives as long as this");
    }
}

fn count(added: &Receiver<Weak<Usage>>) {
    let mut watched: Vec<Weak<Usage>> = Vec::new();
    let mut next = Instant::now() + PAUSE;
    loop {
        // An idle target without thin namespaces must not wake up every second.
        let pause = if watched.is_empty() { FOREVER } else { next.saturating_duration_since(Instant::now()) };
        match added.recv_timeout(pause) {
            Ok(usage) => watched.push(usage),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begin = Instant::now();
                watched.retain(|usage| usage.upgrade().inspect(|usage| usage.survey()).is_some());
                let end = Instant::now();
                next = end + PAUSE.max((end - begin) * REST);
            }
        }
    }
}
