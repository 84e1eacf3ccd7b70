//! Errors in a profile, in terms that show the user how to correct it.

use super::Profile;
use std::io;

/// Why a profile was refused.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name.
    #[error("there is no device profile \"{name}\"; the built-in profiles are {} (to use your own file, give its path)", Profile::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The file could not be read.
    #[error("device profile {origin} cannot be read: {source}")]
    Unreadable {
        /// Its path.
        origin: String,
        /// The message of the system.
        source: io::Error,
    },
    /// The text is not TOML, lacks a field, or has an unknown one.
    #[error("device profile {origin} is not valid: {message}")]
    Syntax {
        /// File or name of the profile.
        origin: String,
        /// Line, column and cause, from the parser.
        message: String,
    },
    /// A value is out of range.
    #[error(
        "device profile {origin}: {field} is {value}; it must be from {least} to {most}; change it there"
    )]
    OutOfRange {
        /// File or name of the profile.
        origin: String,
        /// Table and field, as written in the file.
        field: &'static str,
        /// The value found.
        value: u64,
        /// Smallest allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
    /// Values that are each in range but contradict each other.
    #[error("device profile {origin}: {broken}; {advice}")]
    Contradiction {
        /// File or name of the profile.
        origin: String,
        /// The fields and the violated relation.
        broken: String,
        /// The necessary change.
        advice: &'static str,
    },
}
