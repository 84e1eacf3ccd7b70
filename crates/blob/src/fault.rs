//! The reasons why an operation on a volume fails.

use std::fmt;

/// The reason why an operation on a volume failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such file or directory.
    NotFound,
    /// The name is taken.
    Exists,
    /// The name is that of a directory, or one of its parents is a file.
    WrongKind,
    /// The directory is not empty.
    NotEmpty,
    /// The handle is not open, or not for this operation.
    BadHandle,
    /// A name is empty, too long or has an empty part; or an offset is beyond the end of the file.
    Invalid,
    /// No SSD has free space, or not on two targets. May be tried again.
    NoSpace,
    /// The volume's metadata does not fit into its slot. Removing files does not help before the next mount.
    MetadataFull,
    /// Neither copy could be reached. May be tried again.
    Unreachable,
    /// Neither copy has the block as it was written.
    Corrupt,
    /// Both targets lost writes that were not synced yet. The file's unsynced part is lost.
    WritesLost,
    /// The metadata store could not be reached in time, so this client may no longer write. May be tried again.
    LeaseUnsure,
    /// Another client has mounted the volume. This one can never write to it again.
    Fenced,
    /// Another client has mounted the volume since. This mount can never write to it again.
    InUse,
    /// The volume does not exist.
    NoVolume,
    /// The metadata found on the SSDs cannot be understood.
    BadMetadata,
    /// The volume is not mounted (any more).
    NotMounted,
}

impl Fault {
    /// A description for people.
    pub fn text(self) -> &'static str {
        match self {
            Fault::NotFound => "no such file or directory",
            Fault::Exists => "the name is taken",
            Fault::WrongKind => "a directory where a file is needed, or the other way round",
            Fault::NotEmpty => "the directory is not empty",
            Fault::BadHandle => "the file is not open for this",
            Fault::Invalid => "invalid name or offset",
            Fault::NoSpace => "no space on two SSDs of different targets",
            Fault::MetadataFull => "the volume's metadata does not fit into its slot",
            Fault::Unreachable => "neither copy can be reached",
            Fault::Corrupt => "neither copy has the block as it was written",
            Fault::WritesLost => "both targets lost writes that were not synced",
            Fault::LeaseUnsure => {
                "the metadata store cannot be reached, so the lease of the volume is unsure"
            }
            Fault::Fenced => "another client has mounted the volume; this one can no longer write",
            Fault::InUse => "another client has mounted the volume",
            Fault::NoVolume => "there is no such volume",
            Fault::BadMetadata => "the volume's metadata is damaged",
            Fault::NotMounted => "the volume is not mounted",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Fault {}
