//! All output of the commands, to standard output and to files, so that a closed pipe and a full disk have the same
//! effect everywhere.
//!
//! | event | effect on the command |
//! |---|---|
//! | the reader closes standard output (`\| head -1`) | prints nothing more and exits with its own exit code |
//! | standard output cannot be written (a full disk) | fails with an error, exit code 1 |
//! | standard error cannot be written | continues without it: there is no other place for messages |
//! | a file that a flag names cannot be written as a whole | fails with an error that names the file, exit code 1 |
//!
//! SIGPIPE stays ignored: the signal would also end a command whose TCP connection breaks.
//!
//! Holds: no other file of this crate prints (the lints `print_stdout` and `print_stderr`); each subcommand follows the table
//! (`tests/output.rs`).

use anyhow::{Context, Result};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Set once the reader has closed standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the path means standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// Whether standard output still has a reader. If not, long work may end early if its only result is printed.
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

/// Prints a line on standard error: a message for people that is not the result of the command.
pub(crate) fn note(text: impl Display) {
    // If this fails, there is no other place to report it.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Standard output. Once its reader has closed it, writes succeed and the bytes are dropped.
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

/// The destination of results: a file that a flag names (`-` is standard output). Created before the work, so that an
/// error is reported before the work and not after it.
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

    /// Flushes the text so far, for a program that reads the file meanwhile.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            None => Ok(()),
            Some((path, file)) => file.flush().with_context(|| cannot_write(path)),
        }
    }

    /// Closes the file. It is complete only after this succeeds.
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

/// Checks that a file can be written. Neither changes its contents nor leaves a new file.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path).map(drop);
    let opened = opened.and_then(|()| if is_new { fs::remove_file(path) } else { Ok(()) });
    opened.with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

/// Syncs the file, because some file systems report a full disk only then.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        // A pipe or a terminal cannot be synced.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}
