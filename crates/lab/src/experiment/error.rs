//! What can be wrong with an experiment: what, where, and what to do.

use std::fmt;
use std::io;

/// Why there is no experiment to run.
#[derive(Debug)]
pub enum ExperimentError {
    /// No experiment of this name comes with the lab.
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The file cannot be read.
    Unreadable {
        /// Its path.
        origin: String,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or a field that no experiment has, or a value of the wrong kind.
    Syntax {
        /// The file.
        origin: String,
        /// Line, field and reason.
        message: String,
    },
    /// A value that cannot be.
    Value {
        /// The file.
        origin: String,
        /// Which one, as a path of names: `case fragmented, group small: bs`.
        field: String,
        /// What is wrong and what it may be.
        problem: String,
    },
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Unknown { name } => write!(
                f,
                "there is no experiment {name}; `gimbal lab list` shows those there are, and a path to an experiment.toml will do too"
            ),
            ExperimentError::Unreadable { origin, source } => {
                write!(f, "the experiment {origin} cannot be read: {source}")
            }
            ExperimentError::Syntax { origin, message } => write!(f, "{origin}: {message}"),
            ExperimentError::Value { origin, field, problem } => write!(f, "{origin}: {field}: {problem}"),
        }
    }
}

impl std::error::Error for ExperimentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExperimentError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
