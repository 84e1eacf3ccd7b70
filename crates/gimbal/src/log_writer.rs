//! Writes the log of `gimbal serve`: lines go to a queue, and a separate thread writes them to stderr.
//!
//! ```text
//!   any thread ──push──► queue (bounded) ──► writer thread ──► stderr: a file, a pipe, a terminal
//!                  └ full: the line is counted and dropped             └ fails: the same for its lines
//! ```
//!
//! A full disk, a pipe that is closed or has no reader, a stopped terminal: none of these may delay an IO or stop the
//! target. So a thread that logs never waits for stderr and never sees its errors. Lines that cannot be written are
//! lost. When writing works again, the log says how many lines were lost, and why.
//!
//! Lines are written whole, in writes of at most `PIECE` bytes, so that other writers to the same pipe do not tear them. If a full
//! disk cuts a line, the writer ends that line before it writes the next one.
//!
//! Holds: a log that cannot be written costs lines, which are counted, and nothing else (`tests/log_trouble.rs`, and
//!        the tests below); at most `CAPACITY` bytes wait in the queue.
//! Elsewhere: `log_throttle` of the target limits the lines that a host may cause; `config::LogConfig` has the filter.

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;
use server::config::LogFormat;
use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer as FormatWriter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// Maximum number of bytes in the queue.
const CAPACITY: usize = 1 << 20;
/// Maximum length of a write of more than one line: a pipe writes up to this atomically (`PIPE_BUF`).
const PIECE: usize = 4096;
/// Time after a failed write until the next try; a new line causes one earlier.
const RETRY: Duration = Duration::from_secs(1);

/// The log. Clones write to the same queue.
#[derive(Clone)]
pub(crate) struct LogWriter {
    shared: Arc<Shared>,
    format: LogFormat,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when a line waits or was dropped.
    filled: Condvar,
    /// Signalled when the queue is empty and no write is in progress.
    emptied: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<u8>,
    /// Number of lines that came while the queue was full. All of them are later than those in the queue.
    turned_away: u64,
    is_writing: bool,
}

impl LogWriter {
    /// Starts a log to `output`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(output: File, format: LogFormat) -> io::Result<LogWriter> {
        LogWriter::with_capacity(output, format, CAPACITY)
    }

    fn with_capacity(output: File, format: LogFormat, capacity: usize) -> io::Result<LogWriter> {
        let shared =
            Shared { queue: Mutex::default(), filled: Condvar::new(), emptied: Condvar::new(), capacity };
        let shared = Arc::new(shared);
        let output = Output { file: output, format, lost: 0, cause: None, is_torn: false };
        let source = shared.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || source.write_forever(output))?;
        Ok(LogWriter { shared, format })
    }

    /// Adds a line that bypasses all filters.
    pub(crate) fn say(&self, level: &str, message: &str) {
        self.shared.push(line(self.format, level, message, &[]).as_bytes());
    }

    /// Waits until every line so far is written or lost, but at most for `limit`.
    pub(crate) fn drain(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut queue = self.shared.lock();
        while queue.is_writing || !queue.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.emptied.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = Push<'w>;

    fn make_writer(&'w self) -> Push<'w> {
        Push(&self.shared)
    }
}

/// One record on its way to the queue.
pub(crate) struct Push<'w>(&'w Shared);

impl Write for Push<'_> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0.push(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.turned_away == 0
    }
}

impl Shared {
    /// A poisoned lock is ignored: a panic ends the process, except in tests.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, record: &[u8]) {
        let mut queue = self.lock();
        // After a dropped line, later lines are dropped too, until the log has reported it. This keeps the order.
        if queue.turned_away > 0 || queue.waiting.len() + record.len() > self.capacity {
            queue.turned_away += lines(record);
        } else {
            queue.waiting.extend_from_slice(record);
        }
        drop(queue);
        self.filled.notify_one();
    }

    fn write_forever(&self, mut output: Output) {
        let mut taken = Vec::new();
        loop {
            let turned_away = self.take(&mut taken, output.has_failed());
            output.write(&taken);
            taken.clear();
            output.lose(turned_away);
            if turned_away > 0 {
                output.write(&[]);
            }
        }
    }

    /// Waits for lines, puts them into `taken`, and returns how many more were dropped. If `is_retrying`, it also returns after
    /// `RETRY` without lines.
    fn take(&self, taken: &mut Vec<u8>, is_retrying: bool) -> u64 {
        let mut queue = self.lock();
        queue.is_writing = false;
        if queue.is_empty() {
            self.emptied.notify_all();
        }
        let is_empty = |queue: &mut Queue| queue.is_empty();
        queue = if is_retrying {
            self.filled.wait_timeout_while(queue, RETRY, is_empty).unwrap_or_else(PoisonError::into_inner).0
        } else {
            self.filled.wait_while(queue, is_empty).unwrap_or_else(PoisonError::into_inner)
        };
        queue.is_writing = true;
        mem::swap(&mut queue.waiting, taken);
        mem::take(&mut queue.turned_away)
    }
}

/// The writer thread's end.
struct Output {
    file: File,
    format: LogFormat,
    /// Number of lost lines that are not yet reported.
    lost: u64,
    /// The error of the latest write; `None` if it succeeded.
    cause: Option<io::Error>,
    /// Whether the last line was cut.
    is_torn: bool,
}

impl Output {
    fn has_failed(&self) -> bool {
        self.cause.is_some()
    }

    fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Writes whole lines, after a line with the number of lines lost before. Lines that cannot be written are lost.
    fn write(&mut self, bytes: &[u8]) {
        if self.lost > 0 && self.tell_lost().is_err() {
            self.lost += lines(bytes);
            return;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = first_piece(rest);
            if let Err((written, error)) = self.write_piece(piece) {
                self.lost += lines(&rest[written..]);
                self.cause = Some(error);
                return;
            }
            rest = &rest[piece.len()..];
        }
    }

    fn tell_lost(&mut self) -> Result<(), ()> {
        let cause = self.cause.take();
        let why = match &cause {
            Some(error) => format!("they could not be written: {error}"),
            None => "they came faster than they could be written".to_owned(),
        };
        let message = format!("{} log lines were lost: {why}", self.lost);
        let told = line(self.format, "WARN", &message, &[("lines", self.lost)]);
        let result = self.write_piece(told.as_bytes());
        match result {
            Ok(()) => {
                self.lost = 0;
                Ok(())
            }
            Err((_, error)) => {
                self.cause = Some(error);
                Err(())
            }
        }
    }

    /// Writes all of `piece`. An error contains the number of bytes written.
    fn write_piece(&mut self, piece: &[u8]) -> Result<(), (usize, io::Error)> {
        if self.is_torn {
            write_all(&self.file, b"\n").map_err(|(_, error)| (0, error))?;
            self.is_torn = false;
        }
        let result = write_all(&self.file, piece);
        if let Err((written, _)) = &result {
            self.is_torn = *written > 0 && piece[*written - 1] != b'\n';
        }
        result
    }
}

/// As many whole lines as fit into one write, or a single line that is longer.
fn first_piece(bytes: &[u8]) -> &[u8] {
    let end_of_line = |byte: &u8| *byte == b'\n';
    let within = bytes.iter().take(PIECE).rposition(end_of_line);
    let end = within.or_else(|| bytes.iter().position(end_of_line)).map_or(bytes.len(), |at| at + 1);
    &bytes[..end]
}

/// Writes all of `bytes`, and waits for a full pipe as long as necessary. An error contains the number of bytes written.
fn write_all(mut file: &File, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process that shares the pipe or terminal has made it non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(&file.as_fd(), PollFlags::OUT)], None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err((done, error.into())),
                }
            }
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

/// The number of lines that end in `bytes`.
fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A record in the configured format.
fn line(format: LogFormat, level: &str, message: &str, numbers: &[(&str, u64)]) -> String {
    let mut time = String::new();
    // Formatting into a string cannot fail.
    let _ = SystemTime.format_time(&mut FormatWriter::new(&mut time));
    match format {
        LogFormat::Text => format!("{time} {level:>5} {message}\n"),
        LogFormat::Json => {
            let mut fields = json!({ "message": message });
            numbers.iter().for_each(|(name, number)| fields[*name] = json!(number));
            let record =
                json!({ "timestamp": time, "level": level, "fields": fields, "target": "gimbal::log" });
            format!("{record}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, pipe};
    use std::os::fd::OwnedFd;

    const LONG: Duration = Duration::from_secs(60);

    fn written(log: &LogWriter, text: &str) {
        log.make_writer().write_all(text.as_bytes()).expect("nobody hears of errors");
    }

    fn file(fd: impl Into<OwnedFd>) -> File {
        File::from(fd.into())
    }

    #[test]
    fn lines_come_out_whole_and_in_order() {
        let (reader, writer) = pipe().expect("a pipe");
        let log = LogWriter::start(file(writer), LogFormat::Text).expect("a thread");
        let expected: String = (0..1000).map(|number| format!("line {number}\n")).collect();
        let reading = thread::spawn(move || {
            let mut lines = BufReader::new(reader).lines();
            (0..1000).map(|_| lines.next().expect("a line").expect("text") + "\n").collect::<String>()
        });
        expected.split_inclusive('\n').for_each(|line| written(&log, line));
        log.drain(LONG);
        assert_eq!(reading.join().expect("it reads"), expected);
    }

    #[test]
    fn logging_never_waits_for_an_unread_pipe_and_counts_what_does_not_fit() {
        const CAPACITY: usize = 10_000;
        let (reader, writer) = pipe().expect("a pipe");
        let log = LogWriter::with_capacity(file(writer), LogFormat::Json, CAPACITY).expect("a thread");
        // More than the pipe and the queue hold together.
        let line = format!("{}\n", "x".repeat(99));
        let count = 10_000;
        (0..count).for_each(|_| written(&log, &line));
        log.drain(Duration::ZERO);
        let mut lines = BufReader::new(reader).lines();
        let (mut seen, mut lost) = (0, 0);
        while seen + lost < count {
            let next = lines.next().expect("a line").expect("text");
            if next == line.trim_end() {
                seen += 1;
            } else {
                let told: serde_json::Value = serde_json::from_str(&next).expect("a record");
                assert_eq!(told["level"], "WARN");
                lost += told["fields"]["lines"].as_u64().expect("a number");
            }
        }
        assert_eq!(seen + lost, count, "every line is written or counted");
        assert!(lost > 0 && seen >= 100, "{seen} written, {lost} lost");
        written(&log, "after\n");
        assert_eq!(lines.next().expect("a line").expect("text"), "after");
    }

    #[test]
    fn a_pipe_that_refuses_to_wait_is_waited_for() {
        let (reader, writer) = pipe().expect("a pipe");
        rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be set so");
        let log = LogWriter::start(file(writer), LogFormat::Text).expect("a thread");
        let line = format!("{}\n", "x".repeat(999));
        (0..500).for_each(|_| written(&log, &line));
        let mut read = Vec::new();
        reader.take(500_000).read_to_end(&mut read).expect("readable");
        assert!(read == line.repeat(500).into_bytes(), "every line, whole");
    }

    #[test]
    fn lines_to_a_full_disk_are_lost_and_the_writer_goes_on() {
        let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
        let mut output = Output { file: full, format: LogFormat::Text, lost: 0, cause: None, is_torn: false };
        output.write(b"one\ntwo\n");
        output.write(b"three\n");
        assert_eq!(output.lost, 3);
        let (reader, writer) = pipe().expect("a pipe");
        output.file = file(writer);
        output.is_torn = true;
        output.write(b"four\n");
        drop(output);
        let lines: Vec<String> = BufReader::new(reader).lines().map(|line| line.expect("text")).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!((&*lines[0], &*lines[2]), ("", "four"), "the torn line is ended first");
        assert!(
            lines[1].contains(" WARN 3 log lines were lost: they could not be written: No space"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_piece_is_whole_lines() {
        let line = format!("{}\n", "x".repeat(1499));
        let two = line.repeat(2);
        assert_eq!(first_piece(line.repeat(3).as_bytes()), two.as_bytes());
        let long = format!("{}\n", "y".repeat(9000));
        assert_eq!(first_piece(format!("{long}{line}").as_bytes()), long.as_bytes());
        assert_eq!(first_piece(b"no end"), b"no end");
    }
}
