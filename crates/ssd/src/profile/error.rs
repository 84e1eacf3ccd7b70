//! What can be wrong with a profile, in terms that tell the user how to correct it.

use super::Profile;
use std::{error, fmt, io};

/// Why a profile was refused.
#[derive(Debug)]
pub enum ProfileError {
    /// No built-in profile has this name.
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The file could not be read.
    Unreadable {
        /// Its path.
        origin: String,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not TOML, lacks a field, or has an unknown one.
    Syntax {
        /// File or name of the profile.
        origin: String,
        /// Line, column and cause, from the parser.
        message: String,
    },
    /// A value is out of range.
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
    Contradiction {
        /// File or name of the profile.
        origin: String,
        /// The fields and the violated relation.
        broken: String,
        /// What to change.
        advice: &'static str,
    },
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileError::Unknown { name } => {
                let names: Vec<_> = Profile::names().collect();
                write!(
                    f,
                    "there is no device profile \"{name}\"; the built-in profiles are {}",
                    names.join(", ")
                )?;
                write!(f, " (to use your own file, give its path)")
            }
            ProfileError::Unreadable { origin, source } => {
                write!(f, "device profile {origin} cannot be read: {source}")
            }
            ProfileError::Syntax { origin, message } => {
                write!(f, "device profile {origin} is not valid: {message}")
            }
            ProfileError::OutOfRange { origin, field, value, least, most } => {
                write!(
                    f,
                    "device profile {origin}: {field} is {value}; it must be from {least} to {most}; change it there"
                )
            }
            ProfileError::Contradiction { origin, broken, advice } => {
                write!(f, "device profile {origin}: {broken}; {advice}")
            }
        }
    }
}

impl error::Error for ProfileError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            ProfileError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
