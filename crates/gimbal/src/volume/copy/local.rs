//! A directory of this machine.
//!
//! Only regular files are opened, and never in a way that could wait: a FIFO has a reader only if someone writes to it. Each file is
//! looked at before it is opened and again afterwards.
//!
//! A `LOCK` of RocksDB beside a `CURRENT` is held as long as the copy takes. So a database that is open is found
//! before anything is copied, and none can be opened meanwhile. The file itself is empty, and is not opened again: closing it
//! would give the lock back.

use super::place::{CURRENT, Entry, Kind, NAME_MAX, Place, Read, Stamp, Write, join, split};
use super::transfer::{SEEMS_OPEN, shown, size_of};
use anyhow::{Context, Result, bail};
use files::kind_of;
use rustix::fs::{Access, Advice, FlockOperation, OFlags};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// RocksDB's file that a process locks while it has the database open.
const LOCK: &str = "LOCK";
/// Most problems that are gathered before the list is given up.
const PROBLEMS_MAX: usize = 100;

/// A directory of this machine; see the module.
pub(super) struct Local {
    root: PathBuf,
    /// Bytes of a piece.
    piece: usize,
    /// The locks that are held, by path.
    locks: BTreeMap<String, File>,
    /// Directories with changes of names that are not synced.
    unsynced: RefCell<BTreeSet<PathBuf>>,
}

fn stamp(of: &Metadata) -> Stamp {
    Stamp { inode: of.ino(), seconds: of.mtime(), nanos: of.mtime_nsec() }
}

/// Opens a regular file; links are not followed, and nothing is waited for.
fn open(options: &OpenOptions, path: &Path) -> Result<File> {
    let name = path.display();
    let check = |kind: fs::FileType| -> Result<()> {
        if kind.is_file() { Ok(()) } else { bail!("{name} is a {}, and no regular file", kind_of(kind)) }
    };
    match fs::symlink_metadata(path) {
        Ok(found) => check(found.file_type())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be looked at")),
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = options.clone().custom_flags(flags).open(path);
    let file = file.with_context(|| format!("{name} cannot be opened"))?;
    check(file.metadata().with_context(|| format!("{name} cannot be looked at"))?.file_type())?;
    Ok(file)
}

/// The advice for an error of a write.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ": the disk is full; make space, and run the same command again, which goes on"
        }
        ErrorKind::FileTooLarge => {
            ": the file system or a limit (`ulimit -f`) allows no file as large as that"
        }
        _ => "",
    }
}

impl Local {
    /// The directory at `root`, which need not exist.
    pub(super) fn new(root: &Path, piece: usize) -> Local {
        Local { root: root.to_owned(), piece, locks: BTreeMap::new(), unsynced: RefCell::default() }
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    /// Locks the databases in the directory against processes that would open them.
    ///
    /// # Errors
    /// One of them is open.
    pub(super) fn lock_databases(&mut self, entries: &[Entry]) -> Result<()> {
        let paths: BTreeSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        for Entry { path, kind } in entries {
            let (dir, name) = split(path);
            if name != LOCK || size_of(*kind) != Some(0) || !paths.contains(join(dir, CURRENT).as_str()) {
                continue;
            }
            let file = open(OpenOptions::new().read(true), &self.at(path))?;
            match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => bail!(
                    "the database in {} is open in another process: close it, or copy a checkpoint of it (`ldb checkpoint`)",
                    self.at(dir).display()
                ),
                // A file system without locks.
                Err(_) => {}
                Ok(()) => drop(self.locks.insert(path.clone(), file)),
            }
        }
        Ok(())
    }

    /// The entry of a file, or the problem of it.
    fn entry(&self, path: &Path, relative: String) -> Result<Entry, String> {
        let name = path.display();
        let found =
            fs::symlink_metadata(path).map_err(|error| format!("{name} cannot be looked at: {error}"))?;
        let kind = found.file_type();
        if kind.is_dir() {
            return Ok(Entry { path: relative, kind: Kind::Dir });
        }
        if kind.is_symlink() {
            return Err(format!(
                "{name} is a link, and links are not copied: put what it leads to in its place, or remove it"
            ));
        }
        if !kind.is_file() {
            return Err(format!(
                "{name} is a {}, and only files and directories are copied: remove it",
                kind_of(kind)
            ));
        }
        if let Err(error) = rustix::fs::access(path, Access::READ_OK) {
            return Err(format!("{name} cannot be read: {error}; run the command as a user who may read it"));
        }
        Ok(Entry { path: relative, kind: Kind::File { size: found.len(), stamp: Some(stamp(&found)) } })
    }

    fn create_dirs(&self, path: &Path) -> Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        self.create_dirs(parent)?;
        fs::create_dir(path).map_err(|error| {
            anyhow::anyhow!("{} cannot be made: {error}{}", path.display(), advice(&error))
        })?;
        self.unsynced.borrow_mut().insert(parent.to_owned());
        Ok(())
    }

    fn renamed(&self, path: &str) {
        self.unsynced.borrow_mut().insert(self.at(split(path).0));
    }
}

impl Place for Local {
    fn name(&self, path: &str) -> String {
        self.at(path).display().to_string()
    }

    fn list(&self) -> Result<Option<Vec<Entry>>> {
        let name = self.root.display();
        match fs::metadata(&self.root) {
            Ok(found) if found.is_dir() => {}
            Ok(found) => bail!("{name} is a {}, and no directory", kind_of(found.file_type())),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("{name} cannot be looked at")),
        }
        let mut entries = Vec::new();
        let mut problems = Vec::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            let at = self.at(&dir);
            let names = match fs::read_dir(&at) {
                Ok(names) => names,
                Err(error) => {
                    problems.push(format!("{} cannot be read: {error}", at.display()));
                    continue;
                }
            };
            for found in names {
                let found = found.with_context(|| format!("{} cannot be read", at.display()))?;
                let Ok(name) = found.file_name().into_string() else {
                    problems.push(format!(
                        "{} is no UTF-8, and names in a volume are: rename it",
                        found.path().display()
                    ));
                    continue;
                };
                match self.entry(&found.path(), join(&dir, &name)) {
                    Ok(entry) => {
                        if entry.kind == Kind::Dir {
                            dirs.push(entry.path.clone());
                        }
                        entries.push(entry);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            if problems.len() >= PROBLEMS_MAX {
                break;
            }
        }
        if !problems.is_empty() {
            bail!(
                "in {} there is something that cannot be copied: {}",
                self.root.display(),
                shown(&problems)
            );
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Some(entries))
    }

    fn refusal(&self, path: &str) -> Option<String> {
        let (_, name) = split(path);
        (name.len() > NAME_MAX).then(|| {
            format!(
                "{path}: a name of {} bytes, and a local one has at most {NAME_MAX}: rename it",
                name.len()
            )
        })
    }

    fn free(&self) -> Result<Option<u64>> {
        // The directory may not exist yet.
        let existing = self.root.ancestors().find(|path| path.exists());
        let existing = existing.unwrap_or(Path::new("."));
        let space = rustix::fs::statvfs(existing);
        Ok(space.ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize)))
    }

    fn make_dir(&self, path: &str) -> Result<()> {
        self.create_dirs(&self.at(path))
    }

    fn read<'a>(&'a self, path: &str, at: u64, listed: Option<(u64, Stamp)>) -> Result<Box<dyn Read + 'a>> {
        let full = self.at(path);
        let file = match self.locks.contains_key(path) {
            true => None,
            false => Some(open(OpenOptions::new().read(true), &full)?),
        };
        if let Some(mut file) = file.as_ref() {
            file.seek(SeekFrom::Start(at)).with_context(|| format!("{} cannot be read", full.display()))?;
            // Only a hint.
            let _ = rustix::fs::fadvise(file, at, None, Advice::Sequential);
        }
        let reader = Reader { file, path: full, piece: self.piece, listed };
        reader.check_unchanged()?;
        Ok(Box::new(reader))
    }

    fn write<'a>(&'a self, path: &str, keep: u64) -> Result<Box<dyn Write + 'a>> {
        let full = self.at(path);
        let mut options = OpenOptions::new();
        let mut file = open(options.write(true).create(true).truncate(false), &full)?;
        let begun = file.set_len(keep).and_then(|()| file.seek(SeekFrom::End(0)));
        begun.with_context(|| format!("{} cannot be written", full.display()))?;
        self.renamed(path);
        Ok(Box::new(Writer { file, path: full }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.at(from), self.at(to));
        fs::rename(&old, &new)
            .with_context(|| format!("{} cannot be renamed to {}", old.display(), new.display()))?;
        self.renamed(to);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let full = self.at(path);
        fs::remove_file(&full).with_context(|| format!("{} cannot be removed", full.display()))?;
        self.renamed(path);
        Ok(())
    }

    fn sync_names(&self) -> Result<()> {
        for dir in std::mem::take(&mut *self.unsynced.borrow_mut()) {
            let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
            let synced = File::open(&dir).and_then(|open| open.sync_all());
            synced.with_context(|| format!("{} cannot be synced", dir.display()))?;
        }
        Ok(())
    }
}

/// A local file that is read.
struct Reader {
    /// `None`: a lock that is held, and empty.
    file: Option<File>,
    path: PathBuf,
    piece: usize,
    listed: Option<(u64, Stamp)>,
}

impl Read for Reader {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut piece = Vec::with_capacity(self.piece);
        let read = file.take(self.piece as u64).read_to_end(&mut piece);
        read.with_context(|| format!("{} cannot be read", self.path.display()))?;
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn check_unchanged(&self) -> Result<()> {
        let (Some(listed), Some(file)) = (self.listed, &self.file) else { return Ok(()) };
        let name = self.path.display();
        let now = file.metadata().with_context(|| format!("{name} cannot be looked at"))?;
        if (now.len(), stamp(&now)) != listed {
            bail!("{name} has changed since the copy began; {SEEMS_OPEN}");
        }
        Ok(())
    }
}

/// A local file that is written.
struct Writer {
    file: File,
    path: PathBuf,
}

impl Write for Writer {
    fn append(&mut self, piece: Vec<u8>) -> Result<()> {
        self.file.write_all(&piece).map_err(|error| {
            anyhow::anyhow!("{} cannot be written: {error}{}", self.path.display(), advice(&error))
        })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.file.sync_all().map_err(|error| {
            anyhow::anyhow!("{} cannot be synced: {error}{}", self.path.display(), advice(&error))
        })?;
        // Reading back asks the disk for these bytes, as far as the kernel lets go of them.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        Ok(())
    }
}
