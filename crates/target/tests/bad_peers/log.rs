//! What the targets of this process have written, by whom it is about.
//!
//! At a time every socket has a port of its own, so the lines that name a peer's address are about that peer, whichever test it
//! belongs to, once those about an earlier one of the same port are forgotten.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, Once, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Appends what is written to the last line.
#[derive(Clone, Copy)]
struct Recorder;

impl io::Write for Recorder {
    /// The formatter writes one whole line at a time.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Recorder {
    type Writer = Recorder;

    fn make_writer(&self) -> Recorder {
        *self
    }
}

/// From now on lines are recorded.
pub(super) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt().with_writer(Recorder).with_ansi(false).init();
    });
}

/// All lines in which `text` occurs.
pub(super) fn lines_with(text: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.contains(text)).cloned().collect()
}

/// Forgets what was written about an earlier connection from the same port.
pub(super) fn forget(peer: SocketAddr) {
    let name = name_of(peer);
    LINES.lock().unwrap_or_else(PoisonError::into_inner).retain(|line| !names(line, &name));
}

/// What was written about the end of the connection from `peer`: everything but that it was made.
pub(super) fn about(peer: SocketAddr) -> Vec<String> {
    let name = name_of(peer);
    let mut lines = lines_with(&name);
    lines.retain(|line| names(line, &name) && !line.contains(" connected "));
    lines
}

fn name_of(peer: SocketAddr) -> String {
    format!("peer={peer}")
}

fn names(line: &str, name: &str) -> bool {
    line.split_whitespace().any(|word| word == name)
}

/// Asserts that exactly one line was written about `peer`, and that it says `why`.
#[track_caller]
pub(super) fn assert_told_once(peer: SocketAddr, why: &str) {
    let lines = about(peer);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains(why), "{why:?} is not in {:?}", lines[0]);
}
