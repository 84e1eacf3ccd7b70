//! Why the state directory cannot be used.

use std::io;
use std::path::PathBuf;

/// Problems of the state directory, or of a file in it.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system refuses an operation.
    #[error("cannot {action} {}: {error}; make room or give it the right owner, or name another state directory (state_dir)", .path.display())]
    Io {
        /// The operation, as in "cannot …".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file is damaged.
    #[error("the stored reservations in {} are damaged: {what}; put the file back from a backup, or remove it: its reservations \
                 are then forgotten, and hosts have to register again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The saved model of an SSD cannot be read.
    #[error("the SSD model in {} is not valid: {what}; the SSD is measured again, and the file is replaced", .path.display())]
    NotLearnt {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The note of an SSD's log cannot be read.
    #[error(
        "the note of the log that may have data of an SSD, in {}, is not valid: {what}. Start with the auxiliary store ([device.ais]) that \
         was configured last: remove the file first, and be sure that it is the same log",
        .path.display()
    )]
    LogUnknown {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The note of the pool of a directory cannot be read.
    #[error(
        "the note of the pool of a directory, in {}, is not valid: {what}. Be sure that the right file system is mounted there, and remove the \
         file: it is made anew",
        .path.display()
    )]
    PoolUnknown {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The note of blocks to erase cannot be read.
    #[error(
        "the note which blocks of an SSD have to be erased, in {}, is not valid: {what}. Put the file back from a backup; or remove it and \
         erase the blocks of removed namespaces by hand before they get another owner",
        .path.display()
    )]
    WipesUnknown {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// The note of a change that was refused cannot be removed.
    #[error("{0}; until this is possible, nothing else can change")]
    Unforgotten(String),
    /// Other users could change the stored files.
    #[error(
        "{}: {why}, so others could change what is stored there; make it belong to the user of the target, and chmod go-w it",
        .path.display()
    )]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// The owner, or the users who may write.
        why: String,
    },
    /// A file was written by a later version.
    #[error("the stored reservations in {} have format {version}, which this version does not know; use the newer version, or \
                 remove the file: its reservations are then forgotten", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        version: String,
    },
    /// A later version has used the directory.
    #[error(
        "the state directory {} has version {found}, {by}, and this gimbal {program} knows versions up to {known}: install the newer one \
         again, or name another state directory (state_dir); without this one, its reservations do not hold",
        .path.display(), program = env!("CARGO_PKG_VERSION")
    )]
    NewerDirectory {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version of this program.
        known: u32,
        /// As in "written by …".
        by: String,
    },
    /// The file with the version of the directory cannot be read.
    #[error(
        "{} does not say which version the state directory has: {what}; put it back from a backup, or remove it if no later gimbal than \
         {program} has used the directory",
        .path.display(), program = env!("CARGO_PKG_VERSION")
    )]
    VersionUnknown {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// Something else is in the place of a directory or file.
    #[error("{} is a {kind}, not a {expected}: remove it, or name another state directory (state_dir)", .path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// The thing that is there.
        kind: &'static str,
        /// The thing that should be.
        expected: &'static str,
    },
    /// Another target serves the namespace.
    #[error("another target uses {}: it serves this namespace too; end it, or give one of the two another NQN or state directory", .0.display())]
    InUse(PathBuf),
    /// Another target has stored reservations of the namespace while this one was serving it.
    #[error("{} has appeared since this target was started: another target served this namespace; start this one again", .0.display())]
    Appeared(PathBuf),
    /// The thread that writes has ended.
    #[error("the thread of the state directory has ended; start the target again")]
    Gone,
}
