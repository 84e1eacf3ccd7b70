//! Problems of a configuration, each with its place, the text that was read, and advice.
//!
//! A configuration is checked as a whole: reader and checker both collect every [`Problem`], so that a
//! user corrects a file in one round.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1; `None` for a configuration made by a program or by flags.
    pub line: Option<usize>,
    /// The field, as a path: `device[0].size`.
    pub field: String,
    /// The problem.
    pub what: String,
    /// Advice.
    pub advice: String,
}

impl Problem {
    /// A problem of `field`, its line not known yet. Quoted text may contain anything; the message is one line.
    pub(crate) fn new(
        field: impl Into<String>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Problem {
        Problem {
            line: None,
            field: field.into(),
            what: printable(what.into()),
            advice: printable(advice.into()),
        }
    }
}

/// The text with its control characters escaped.
fn printable(text: String) -> String {
    if !text.chars().any(char::is_control) {
        return text;
    }
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "{}", self.what)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, "; {}", self.advice) }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot be read: {error}{}", .file.display(), read_advice(.error))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file was read, and these things are wrong with it, in file order.
    #[error("{}", one_line_each(.file.as_deref(), .problems))]
    Wrong {
        /// The file; `None` for a configuration made by a program or by flags.
        file: Option<PathBuf>,
        /// At least one.
        problems: Vec<Problem>,
    },
}

/// Advice for a file that cannot be read.
fn read_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::PermissionDenied => "; the user who runs this has no permission to read it",
        io::ErrorKind::IsADirectory => "; name a file in it",
        _ => "",
    }
}

/// One line for each problem: `gimbal.toml:12: device[0].size: …; …`.
fn one_line_each(file: Option<&Path>, problems: &[Problem]) -> String {
    let line = |problem: &Problem| match (file, problem.line) {
        (Some(file), Some(line)) => format!("{}:{line}: {problem}", file.display()),
        (Some(file), None) => format!("{}: {problem}", file.display()),
        (None, _) => problem.to_string(),
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}
