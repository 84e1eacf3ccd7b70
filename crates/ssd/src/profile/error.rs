//! What can be wrong with a profile, told so that its writer can put it right.

use super::Profile;
use std::{error, fmt, io};

/// Why a profile was refused.
#[derive(Debug)]
pub enum ProfileError {
    /// No built-in profile has this name.
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The file could not be read.
    Unreadable {
        /// Its path.
        origin: String,
        /// What the system said.
        source: io::Error,
    },
    /// The text is not TOML, lacks a field, or has one that no profile has.
    Syntax {
        /// File or name of the profile.
        origin: String,
        /// Line, column and cause, as the parser tells it.
        message: String,
    },
    /// A value lies outside its range.
    OutOfRange {
        /// File or name of the profile.
        origin: String,
        /// Table and field, as written in the file.
        field: &'static str,
        /// The value found.
        value: u64,
        /// The least allowed.
        least: u64,
        /// The greatest allowed.
        most: u64,
    },
    /// Values that are each in range but do not fit together.
    Contradiction {
        /// File or name of the profile.
        origin: String,
        /// The fields and the relation that is broken.
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
                write!(f, "no device profile is called \"{name}\"; built in are {}", names.join(", "))?;
                write!(f, " (give a path to use a file of your own)")
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
                    "device profile {origin}: {field} is {value}, but must be from {least} to {most}; change it there"
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
