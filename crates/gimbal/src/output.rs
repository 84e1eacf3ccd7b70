//! What commands print and which files they write: one place, so that a closed pipe and a full disk mean the same everywhere.
//!
//! | what happens | what a command does |
//! |---|---|
//! | nobody reads standard output any more (`\| head -1`) | prints nothing more and ends with its own exit code |
//! | standard output cannot be written (a full disk) | fails with an error, exit code 1 |
//! | standard error cannot be written | goes on without it: there is no place left to complain |
//! | a file that a flag names cannot be written as a whole | fails with an error that names the file, exit code 1 |
//!
//! The signal SIGPIPE stays ignored: it would also end a command whose TCP connection breaks.
//!
//! Holds: no other file of this crate prints (the lints `print_stdout` and `print_stderr`); each subcommand keeps to the table
//! (`tests/output.rs`).

use anyhow::{Context, Result};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Set once nobody reads standard output any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the path means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// Whether anybody still reads standard output. Long work whose only result is printed may end early if not.
pub(crate) fn has_reader() -> bool {
    !CLOSED.load(Ordering::Relaxed)
}

/// Prints text as it is.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = Stdout;
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .context("standard output cannot be written")
}

/// Prints a line.
pub(crate) fn line(text: impl Display) -> Result<()> {
    print(&format!("{text}\n"))
}

/// Tells people something that is not the command's result, on standard error. A line.
pub(crate) fn note(text: impl Display) {
    // There is no other place to say that standard error cannot be written.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Standard output; takes everything and keeps nothing once nobody reads it.
pub(crate) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(error) if is_closed(&error) => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(error) if is_closed(&error) => Ok(()),
            other => other,
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    let is_closed = error.kind() == ErrorKind::BrokenPipe;
    if is_closed {
        CLOSED.store(true, Ordering::Relaxed);
    }
    is_closed
}

/// Where results go: a file that a flag names (`-` is standard output). Made before the work, so that a place that cannot be
/// written is found before the work and not after it.
pub(crate) struct Destination {
    /// `None` is standard output.
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl Destination {
    /// Opens the file and empties it.
    pub(crate) fn create(path: &Path) -> Result<Destination> {
        if is_stdout(path) {
            return Ok(Destination { file: None });
        }
        let file = File::create(path).with_context(|| cannot_write(path))?;
        Ok(Destination { file: Some((path.to_owned(), BufWriter::new(file))) })
    }

    /// Adds text.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        match &mut self.file {
            None => print(text),
            Some((path, file)) => file.write_all(text.as_bytes()).with_context(|| cannot_write(path)),
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Hands over what was written so far to whoever reads along.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            None => Ok(()),
            Some((path, file)) => file.flush().with_context(|| cannot_write(path)),
        }
    }

    /// Ends the file. Only after this is it whole.
    pub(crate) fn close(self) -> Result<()> {
        let Some((path, mut file)) = self.file else { return Ok(()) };
        file.flush().and_then(|()| sync(file.get_ref())).with_context(|| cannot_write(&path))
    }
}

/// Writes a whole file.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = |mut file: File| file.write_all(bytes).and_then(|()| sync(&file));
    File::create(path).and_then(write).with_context(|| cannot_write(path))
}

/// Makes sure that a file can be written, and leaves everything as it is: the contents of a file, and a file that is not there.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path).map(drop);
    let opened = opened.and_then(|()| if is_new { fs::remove_file(path) } else { Ok(()) });
    opened.with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

/// Some file systems find out only now that there is no room.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        // A pipe, a terminal: there is nothing to bring anywhere.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}
