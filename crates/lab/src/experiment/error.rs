//! The errors in an experiment: the problem, its place, and the remedy.

use std::io;

/// Why there is no experiment to run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// No experiment of this name comes with the lab.
    #[error(
        "there is no experiment {name}; `gimbal lab list` shows all of them; or give the path of an experiment.toml"
    )]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("the experiment {origin} cannot be read: {source}")]
    Unreadable {
        /// Its path.
        origin: String,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, or a field that no experiment has, or a value of the wrong kind.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// Line, field and reason.
        message: String,
    },
    /// An impossible value.
    #[error("{origin}: {field}: {problem}")]
    Value {
        /// The file.
        origin: String,
        /// Which one, as a path of names: `case fragmented, group small: bs`.
        field: String,
        /// The problem and the allowed values.
        problem: String,
    },
}
