//! The log lines of the targets of this process, by peer.
//!
//! At any time each socket has its own port. So the lines with a peer's address are about that peer, whichever test it belongs to, once
//! the lines about an earlier peer with the same port are removed.

use crate::common::{HOST, until};
use crate::null_with;
use crate::raw::Raw;
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectData, Culprit};
use nvme::spec::{Cqe, Status};
use nvme::tcp::pdu::Digests;
use server::EscapedLines;
use server::config::Limits;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, Once, PoisonError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::format;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Collects log lines.
#[derive(Clone, Copy)]
struct Recorder;

impl io::Write for Recorder {
    /// The formatter writes one line per call.
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

/// Starts to record log lines.
pub(super) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let builder = tracing_subscriber::fmt().with_writer(Recorder);
        builder.event_format(EscapedLines(format())).init();
    });
}

/// All lines that contain `text`.
pub(super) fn lines_with(text: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    lines.iter().filter(|line| line.contains(text)).cloned().collect()
}

/// Removes the lines about an earlier connection from the same port.
pub(super) fn forget(peer: SocketAddr) {
    let name = name_of(peer);
    LINES.lock().unwrap_or_else(PoisonError::into_inner).retain(|line| !names(line, &name));
}

/// All lines about the connection from `peer`, except that it was made.
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

/// Asserts that there is exactly one line about `peer`, and that it contains `why`. It may come after the end of the connection, if
/// another thread writes it.
#[track_caller]
pub(super) fn assert_logged_once(peer: SocketAddr, why: &str) {
    until(|| !about(peer).is_empty());
    let lines = about(peer);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains(why), "{why:?} is not in {:?}", lines[0]);
}

/// A Connect with these bytes as the host NQN.
fn connect_as(address: SocketAddr, name: &[u8]) -> (Raw, Cqe) {
    let mut raw = Raw::greeted(address, Digests::default());
    let mut connect = raw.connect_pdu(0, 32, CNTLID_DYNAMIC, HOST, 0);
    let Culprit::Data(offset) = Culprit::HOST_NQN else { unreachable!("it lies in the data") };
    let field = connect.len() - ConnectData::SIZE + usize::from(offset);
    connect[field..field + 256].fill(0);
    connect[field..field + name.len()].copy_from_slice(name);
    raw.send(&connect);
    let answer = raw.response();
    (raw, answer)
}

#[test]
fn a_name_that_would_forge_a_log_line_is_refused_and_logged_in_one_line() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    let forged = "2026-01-01T00:00:00Z  WARN forged-by-a-stranger";
    let names =
        [format!("nqn.a\n{forged}"), format!("nqn.\u{1b}[2J{forged}"), format!("nqn.\u{9b}2J{forged}")];
    for name in names.iter().map(String::as_bytes).chain([b"nqn.\xff\xfe".as_slice()]) {
        let (mut raw, answer) = connect_as(address, name);
        assert_eq!(answer.status(), Status::CONNECT_INVALID_PARAMETERS);
        assert_eq!(Culprit::from_dw0(answer.dw0()), Culprit::HOST_NQN);
        assert!(raw.is_closed());
        assert_logged_once(raw.local(), "Connect refused");
    }
    // Not a control character, but it would reverse the rest of the line.
    let (raw, answer) = connect_as(address, "nqn.\u{202e}drawkcab".as_bytes());
    assert!(answer.status().is_success());
    let lines = lines_with(&name_of(raw.local()));
    assert!(lines.iter().any(|line| line.contains(r"nqn.\u202edrawkcab")), "{lines:#?}");
    for line in lines_with("") {
        assert!(!line.contains('\n') && !line.contains("forged-by-a-stranger"), "{line:?}");
        assert!(!line.chars().any(|char| char.is_control() || char == '\u{202e}'), "{line:?}");
    }
}
