//! What kind of status RocksDB is told when an operation fails. RocksDB goes by that: it looks for a missing file elsewhere, tries
//! again by itself after what may pass, and stops writing after what will not.

use blob::Fault;

/// The kind of a status. The numbers are those of `GimbalKind` in `shim/cpp/gimbal.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// It is done.
    Ok = 0,
    /// There is no such file or directory.
    PathNotFound = 1,
    /// No space. May be tried again.
    NoSpace = 2,
    /// May be tried again.
    Retryable = 3,
    /// Will not get better by itself.
    IoError = 4,
    /// What is stored is not what was written.
    Corruption = 5,
    /// Something that was written is lost.
    DataLoss = 6,
    /// Another client has the volume.
    Fenced = 7,
    /// The caller asked for something that does not exist.
    InvalidArgument = 8,
}

impl Kind {
    /// All of them, with their names in `shim/cpp/gimbal.h`.
    pub const ALL: [(&'static str, Kind); 9] = [
        ("kOk", Kind::Ok),
        ("kPathNotFound", Kind::PathNotFound),
        ("kNoSpace", Kind::NoSpace),
        ("kRetryable", Kind::Retryable),
        ("kIoError", Kind::IoError),
        ("kCorruption", Kind::Corruption),
        ("kDataLoss", Kind::DataLoss),
        ("kFenced", Kind::Fenced),
        ("kInvalidArgument", Kind::InvalidArgument),
    ];
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Kind {
        match fault {
            Fault::NotFound => Kind::PathNotFound,
            Fault::NoSpace => Kind::NoSpace,
            Fault::Unreachable | Fault::LeaseUnsure => Kind::Retryable,
            Fault::Exists
            | Fault::WrongKind
            | Fault::NotEmpty
            | Fault::BadHandle
            | Fault::MetadataFull
            | Fault::NoVolume
            | Fault::NotMounted => Kind::IoError,
            Fault::Corrupt | Fault::BadMetadata => Kind::Corruption,
            Fault::WritesLost => Kind::DataLoss,
            Fault::Fenced | Fault::InUse => Kind::Fenced,
            Fault::Invalid => Kind::InvalidArgument,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_count_the_kinds_alike() {
        let header = include_str!("../../shim/cpp/gimbal.h");
        for (name, kind) in Kind::ALL {
            let line = format!("{name} = {},", kind as u32);
            assert!(header.lines().any(|found| found.trim() == line), "cpp/gimbal.h does not say {line:?}");
        }
        let last = format!("{} = {},", Kind::ALL[8].0, Kind::ALL.len() - 1);
        assert!(header.contains(&last), "Kind::ALL is in the order of the numbers");
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        assert_eq!(Kind::from(Fault::NotFound), Kind::PathNotFound);
        assert_eq!(Kind::from(Fault::NoSpace), Kind::NoSpace);
        assert_eq!(Kind::from(Fault::Unreachable), Kind::Retryable);
        assert_eq!(Kind::from(Fault::LeaseUnsure), Kind::Retryable);
        assert_eq!(Kind::from(Fault::Fenced), Kind::Fenced);
        assert_eq!(Kind::from(Fault::Corrupt), Kind::Corruption);
        assert_eq!(Kind::from(Fault::WritesLost), Kind::DataLoss);
    }
}
