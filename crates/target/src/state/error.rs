//! Why the state directory does not serve.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What is wrong with the state directory, or with a file in it.
#[derive(Debug)]
pub enum StateError {
    /// The system refuses something.
    Io {
        /// What was tried, as in "cannot …".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
    /// A file is not what was written to it.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file was written by a later version.
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its form.
        version: String,
    },
    /// Another target serves the namespace.
    InUse(PathBuf),
    /// Another target has stored reservations of the namespace while this one was serving it.
    Appeared(PathBuf),
    /// The thread that writes has ended.
    Gone,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Io { action, path, error } => {
                write!(
                    f,
                    "cannot {action} {}: {error}; make room or give it the right owner, or name another state directory (state_dir)",
                    path.display()
                )
            }
            StateError::Damaged { path, what } => write!(
                f,
                "the stored reservations in {} are damaged: {what}; put the file back from a backup, or remove it: its reservations \
                 are then forgotten, and hosts have to register again",
                path.display()
            ),
            StateError::Newer { path, version } => write!(
                f,
                "the stored reservations in {} have form {version}, which this version does not know; use the newer version, or \
                 remove the file: its reservations are then forgotten",
                path.display()
            ),
            StateError::InUse(path) => write!(
                f,
                "another target uses {}: it serves this namespace too; end it, or give one of the two another NQN or state directory",
                path.display()
            ),
            StateError::Appeared(path) => write!(
                f,
                "{} has appeared since this target was started: another target served this namespace; start this one again",
                path.display()
            ),
            StateError::Gone => {
                f.write_str("the thread of the state directory has ended; start the target again")
            }
        }
    }
}

impl std::error::Error for StateError {}
