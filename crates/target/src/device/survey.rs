//! The thread that counts what thin namespaces have allocated, for all SSDs.
//!
//! A figure is about a second old, or older where there is much to count: the thread never works more than a twentieth of the time.
//! If the system keeps it waiting, as a dead network file system does, the figures stay as they are and nothing else is held up.
//! A namespace that is gone is forgotten at the next count; the end of the target ends the thread, and does not wait for it.

use super::usage::Usage;
use std::io;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Between two counts.
const PAUSE: Duration = Duration::from_secs(1);
/// With nothing to count.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// So many times as long as a count took is the pause after it.
const REST: u32 = 20;

/// The thread's end that others have.
pub(crate) struct Survey(Sender<Weak<Usage>>);

impl Survey {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Survey> {
        let (sender, receiver) = channel();
        thread::Builder::new().name("survey".to_owned()).spawn(move || count(&receiver))?;
        Ok(Survey(sender))
    }

    /// Counts this one from now on, for as long as anybody else has it.
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
