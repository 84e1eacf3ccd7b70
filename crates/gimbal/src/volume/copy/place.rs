//! A place to copy from or to: a directory of this machine, or one in a volume.
//!
//! Paths are relative to the place, with `/` between their parts. A reader gives pieces of equal length, the last one shorter, so
//! that two files can be compared piece by piece.
//!
//! Elsewhere: the places are `local` and `remote`; `memory` is a naive one for tests.

use anyhow::Result;
use crc_fast::{CrcAlgorithm, checksum};

/// The ending of the name under which a file is written until it is complete.
pub(super) const PART: &str = ".gimbal-part";
/// The ending of the name that a log gets which would be replayed into a database that is not its own.
pub(super) const ASIDE: &str = ".gimbal-aside";
/// The longest name of a file in a directory of this machine, in bytes.
pub(super) const NAME_MAX: usize = 255;
/// The file of RocksDB that makes the files beside it a database: it names the one with the list of all others.
pub(super) const CURRENT: &str = "CURRENT";

/// The identity and the last change of a local file, to see whether it changes while it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) seconds: i64,
    pub(super) nanos: i64,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dir,
    /// A file with its size. A file in a volume has no stamp: nobody else can change it.
    File {
        size: u64,
        stamp: Option<Stamp>,
    },
}

/// A file or directory below a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: Kind,
}

/// A place to copy from or to; see the module.
pub(super) trait Place {
    /// The name of a path for people.
    fn name(&self, path: &str) -> String;

    /// All files and directories; `None` if the place does not exist.
    ///
    /// # Errors
    /// It is no directory, or something in it cannot be copied.
    fn list(&self) -> Result<Option<Vec<Entry>>>;

    /// The reason why a file or directory cannot have this path here.
    fn refusal(&self, path: &str) -> Option<String>;

    /// Bytes that files may still take here, if that is known.
    fn free(&self) -> Result<Option<u64>>;

    /// Makes a directory with those that it lies in, as far as they do not exist. The empty path is the place itself.
    fn make_dir(&self, path: &str) -> Result<()>;

    /// Opens a file to be read from this offset on. With a stamp it must be the file that was listed, and unchanged.
    fn read<'a>(&'a self, path: &str, at: u64, listed: Option<(u64, Stamp)>) -> Result<Box<dyn Read + 'a>>;

    /// Opens a file to append to, behind its first `keep` bytes, which are all that it has unless that is none.
    fn write<'a>(&'a self, path: &str, keep: u64) -> Result<Box<dyn Write + 'a>>;

    /// Gives a file another name; replaces the one that has it.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file.
    fn remove(&self, path: &str) -> Result<()>;

    /// Makes all changes of names survive power losses.
    fn sync_names(&self) -> Result<()>;
}

/// An open file to read.
pub(super) trait Read {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>>;

    /// Fails if the file has changed since it was listed.
    fn check_unchanged(&self) -> Result<()>;
}

/// An open file to write.
pub(super) trait Write {
    /// Appends a piece, which may be on its way when this returns.
    fn append(&mut self, piece: Vec<u8>) -> Result<()>;

    /// Makes the file survive power losses, and closes it. A later read does not find it in a cache.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// The directory that a path lies in, and its name there.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// A path below a directory.
pub(super) fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// The path under which a file is written until it is complete. The same for the same file, so that a later run finds it.
pub(super) fn part_of(path: &str) -> String {
    let (dir, name) = split(path);
    if name.len() + PART.len() <= NAME_MAX {
        return format!("{path}{PART}");
    }
    let short = checksum(CrcAlgorithm::Crc64Nvme, name.as_bytes());
    join(dir, &format!("{short:016x}{PART}"))
}

/// Whether this is the path of a file that is not complete.
pub(super) fn is_part(path: &str) -> bool {
    path.ends_with(PART)
}

/// Whether this is the path of RocksDB's `CURRENT`.
pub(super) fn is_current(path: &str) -> bool {
    split(path).1 == CURRENT
}

/// Whether this is the path of a write-ahead log of RocksDB: a number, and `.log`.
pub(super) fn is_log(path: &str) -> bool {
    let number = split(path).1.strip_suffix(".log");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_numbers() {
        assert!(is_log("000012.log") && is_log("db/7.log"));
        assert!(["LOG", ".log", "x1.log", "12.log.old", "12.sst"].iter().all(|path| !is_log(path)));
    }

    #[test]
    fn the_name_of_a_part_lies_beside_its_file_and_fits() {
        assert_eq!(part_of("a/b/f"), "a/b/f.gimbal-part");
        assert_eq!(part_of("f"), "f.gimbal-part");
        for length in [242, 243, 244, 255] {
            let path = format!("dir/{}", "x".repeat(length));
            let part = part_of(&path);
            let (dir, name) = split(&part);
            assert!(dir == "dir" && name.len() <= NAME_MAX && is_part(&part), "{part}");
            assert_ne!(part, part_of(&format!("{path}y")));
        }
    }
}
