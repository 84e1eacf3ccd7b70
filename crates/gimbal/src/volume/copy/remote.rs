//! A directory in a volume.
//!
//! [`IN_FLIGHT`] pieces are on their way at the same time, in both directions, so that a copy does not wait for one round trip
//! after the other. Every [`FLUSH_BYTES`] a flush is among them: so much of a file survives `kill -9` at least.

use super::place::{Entry, Kind, Place, Read, Stamp, Write, join, part_of};
use super::watch::Watch;
use anyhow::{Context, Result, anyhow, bail};
use blob::volume::HandleId;
use blob::{Class, Fault, Outcome, Request, Stat, normal_path};
use blob_client::{Mount, Ticket};
use std::collections::VecDeque;

/// Most pieces on their way.
const IN_FLIGHT: usize = 8;
/// Bytes of a file after which a flush is asked for.
const FLUSH_BYTES: u64 = 4 << 20;
/// Most questions for names on their way.
const STATS: usize = 256;
/// The longest path in a volume, in bytes.
const PATH_MAX: usize = 1024;

/// A directory in a volume; see the module.
pub(super) struct Remote<'a> {
    mount: &'a Mount,
    volume: String,
    /// Without a slash at its ends.
    root: String,
    /// Bytes of a piece.
    piece: usize,
    watch: &'a Watch,
}

/// A path of a volume as it is stored.
///
/// # Errors
/// It cannot be one.
pub(super) fn path_of(text: &str) -> Result<String> {
    let path = normal_path(text);
    path.map_err(|_| anyhow!("{text:?} is no path in a volume: at most {PATH_MAX} bytes, without \"..\""))
}

fn advice(fault: Fault) -> String {
    let text = match fault {
        Fault::NoSpace => super::MORE_SPACE,
        Fault::MetadataFull => "create a volume with larger micro blobs, or with fewer slots",
        Fault::Unreachable => {
            "see `gimbal targets`; run the same command again when they are back, it goes on"
        }
        Fault::LeaseUnsure => "run the same command again when the store is back, it goes on",
        Fault::Fenced | Fault::InUse => "see `gimbal volume show`",
        Fault::Corrupt => "see `gimbal volume scrub`",
        _ => return fault.to_string(),
    };
    format!("{fault}: {text}")
}

impl<'a> Remote<'a> {
    pub(super) fn new(
        mount: &'a Mount,
        volume: &str,
        root: &str,
        piece: usize,
        watch: &'a Watch,
    ) -> Result<Remote<'a>> {
        Ok(Remote { mount, volume: volume.to_owned(), root: path_of(root)?, piece, watch })
    }

    fn at(&self, path: &str) -> String {
        if path.is_empty() { self.root.clone() } else { join(&self.root, path) }
    }

    /// The name of a path of the volume for people.
    fn shown(&self, full: &str) -> String {
        format!("{}:/{full}", self.volume)
    }

    fn failed(&self, full: &str, fault: Fault) -> anyhow::Error {
        anyhow!("{}: {}", self.shown(full), advice(fault))
    }

    fn call(&self, full: &str, request: Request) -> Result<Outcome> {
        match self.mount.call(request) {
            Outcome::Failed(fault) => Err(self.failed(full, fault)),
            outcome => Ok(outcome),
        }
    }

    fn stat(&self, full: &str) -> Result<Option<Stat>> {
        match self.mount.call(Request::Stat { path: full.to_owned() }) {
            Outcome::Stat(stat) => Ok(Some(stat)),
            Outcome::Failed(Fault::NotFound) => Ok(None),
            Outcome::Failed(fault) => Err(self.failed(full, fault)),
            other => unreachable!("not an outcome of a stat: {other:?}"),
        }
    }

    fn opened(&self, full: &str, request: Request) -> Result<(HandleId, u64)> {
        match self.call(full, request)? {
            Outcome::Opened { handle, size } => Ok((handle, size)),
            other => unreachable!("not an outcome of an open: {other:?}"),
        }
    }

    /// The directory and all that it lies in, from the top.
    fn with_parents(full: &str) -> impl Iterator<Item = &str> {
        let ends = full.match_indices('/').map(|(at, _)| at).chain([full.len()]);
        ends.map(|end| &full[..end]).filter(|path| !path.is_empty())
    }

    /// The entries of one directory.
    fn list_one(&self, dir: &str) -> Result<Vec<Entry>> {
        let Outcome::Names(names) = self.call(&self.at(dir), Request::List { path: self.at(dir) })? else {
            unreachable!("not an outcome of a list")
        };
        let mut entries = Vec::with_capacity(names.len());
        for names in names.chunks(STATS) {
            let ask = |name: &String| {
                let path = join(dir, name);
                let ticket = self.mount.submit(Request::Stat { path: self.at(&path) });
                (path, ticket)
            };
            let asked: Vec<(String, Ticket)> = names.iter().map(ask).collect();
            for (path, ticket) in asked {
                let kind = match ticket.wait() {
                    Outcome::Stat(stat) if stat.is_dir => Kind::Dir,
                    Outcome::Stat(stat) => Kind::File { size: stat.size, stamp: None },
                    Outcome::Failed(fault) => return Err(self.failed(&self.at(&path), fault)),
                    other => unreachable!("not an outcome of a stat: {other:?}"),
                };
                entries.push(Entry { path, kind });
            }
        }
        Ok(entries)
    }
}

impl Place for Remote<'_> {
    fn name(&self, path: &str) -> String {
        self.shown(&self.at(path))
    }

    fn list(&self) -> Result<Option<Vec<Entry>>> {
        for path in Self::with_parents(&self.root) {
            match self.stat(path)? {
                Some(stat) if stat.is_dir => {}
                Some(_) => bail!("{} is a file, and no directory: give another path", self.shown(path)),
                None => return Ok(None),
            }
        }
        let mut entries = Vec::new();
        let mut dirs = vec![String::new()];
        while let Some(dir) = dirs.pop() {
            self.watch.check()?;
            let found = self.list_one(&dir)?;
            dirs.extend(found.iter().filter(|entry| entry.kind == Kind::Dir).map(|entry| entry.path.clone()));
            entries.extend(found);
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Some(entries))
    }

    fn refusal(&self, path: &str) -> Option<String> {
        let length = self.at(&part_of(path)).len().max(self.at(path).len());
        (length > PATH_MAX).then(|| {
            format!(
                "{path}: a path in a volume has at most {PATH_MAX} bytes, and this one needs {length} while it is copied: rename it, \
                 or copy to a shorter path"
            )
        })
    }

    fn free(&self) -> Result<Option<u64>> {
        match self.call(&self.root, Request::Free)? {
            Outcome::Size(bytes) => Ok(Some(bytes)),
            other => unreachable!("not an outcome of a question for space: {other:?}"),
        }
    }

    fn make_dir(&self, path: &str) -> Result<()> {
        let full = self.at(path);
        for dir in Self::with_parents(&full) {
            match self.mount.call(Request::MakeDir { path: dir.to_owned() }) {
                Outcome::Failed(Fault::Exists) | Outcome::Done => {}
                Outcome::Failed(fault) => return Err(self.failed(dir, fault)),
                other => unreachable!("not an outcome of a new directory: {other:?}"),
            }
        }
        Ok(())
    }

    fn read<'b>(&'b self, path: &str, at: u64, _: Option<(u64, Stamp)>) -> Result<Box<dyn Read + 'b>> {
        let full = self.at(path);
        let (handle, size) = self.opened(&full, Request::Open { path: full.clone() })?;
        Ok(Box::new(Reader { place: self, full, handle, next: at, size, pending: VecDeque::new() }))
    }

    fn write<'b>(&'b self, path: &str, keep: u64) -> Result<Box<dyn Write + 'b>> {
        let full = self.at(path);
        let request = match keep {
            0 => Request::Create { path: full.clone() },
            _ => Request::Reopen { path: full.clone() },
        };
        let (handle, size) = self.opened(&full, request)?;
        let writer =
            Writer { place: self, full, handle, pending: VecDeque::new(), unflushed: 0, is_open: true };
        if size != keep {
            bail!("{} has {size} bytes, and had {keep} a moment ago", writer.place.shown(&writer.full));
        }
        Ok(Box::new(writer))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.at(from), self.at(to));
        self.call(&to.clone(), Request::Rename { from, to }).map(drop)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let full = self.at(path);
        self.call(&full, Request::Unlink { path: full.clone() }).map(drop)
    }

    fn sync_names(&self) -> Result<()> {
        self.call(&self.root, Request::SyncNames).map(drop)
    }
}

/// A file of a volume that is read.
struct Reader<'a> {
    place: &'a Remote<'a>,
    full: String,
    handle: HandleId,
    /// First byte that is not asked for yet.
    next: u64,
    size: u64,
    /// Reads on their way, oldest first, with their lengths.
    pending: VecDeque<(Ticket, u64)>,
}

impl Reader<'_> {
    /// Asks for as many pieces as may be on their way; for one at least.
    fn ask(&mut self) -> Result<()> {
        let watch = self.place.watch;
        while self.next < self.size
            && self.pending.len() < IN_FLIGHT
            && (self.pending.is_empty() || watch.may_go())
        {
            let length = (self.place.piece as u64).min(self.size - self.next);
            watch.go(length)?;
            let request =
                Request::Read { handle: self.handle, offset: self.next, length, class: Class::Background };
            self.pending.push_back((self.place.mount.submit(request), length));
            self.next += length;
        }
        Ok(())
    }
}

impl Read for Reader<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        self.ask()?;
        let Some((oldest, length)) = self.pending.pop_front() else { return Ok(None) };
        match oldest.wait() {
            Outcome::Bytes(bytes) if bytes.len() as u64 == length => Ok(Some(bytes)),
            Outcome::Bytes(bytes) => {
                bail!(
                    "{}: {} bytes came, and {length} were asked for",
                    self.place.shown(&self.full),
                    bytes.len()
                )
            }
            Outcome::Failed(fault) => Err(self.place.failed(&self.full, fault)),
            other => unreachable!("not an outcome of a read: {other:?}"),
        }
    }

    fn check_unchanged(&self) -> Result<()> {
        // The volume is ours alone.
        Ok(())
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // Nobody waits for it.
        drop(self.place.mount.submit(Request::Close { handle: self.handle }));
    }
}

/// A file of a volume that is written.
struct Writer<'a> {
    place: &'a Remote<'a>,
    full: String,
    handle: HandleId,
    /// Appends and flushes on their way, oldest first.
    pending: VecDeque<Ticket>,
    /// Bytes behind the last flush.
    unflushed: u64,
    is_open: bool,
}

impl Writer<'_> {
    /// Waits until at most so many requests are on their way.
    fn reduce(&mut self, count: usize) -> Result<()> {
        while self.pending.len() > count {
            let Some(oldest) = self.pending.pop_front() else { break };
            if let Outcome::Failed(fault) = oldest.wait() {
                return Err(self.place.failed(&self.full, fault));
            }
        }
        Ok(())
    }

    fn submit(&mut self, request: Request) {
        self.pending.push_back(self.place.mount.submit(request));
    }
}

impl Write for Writer<'_> {
    fn append(&mut self, piece: Vec<u8>) -> Result<()> {
        let length = piece.len() as u64;
        self.place.watch.go(length)?;
        self.reduce(IN_FLIGHT - 1)?;
        self.submit(Request::Append { handle: self.handle, bytes: piece });
        self.unflushed += length;
        if self.unflushed >= FLUSH_BYTES {
            self.unflushed = 0;
            self.submit(Request::Flush { handle: self.handle });
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.submit(Request::Sync { handle: self.handle });
        self.reduce(0)?;
        self.is_open = false;
        let closed = self.place.mount.call(Request::Close { handle: self.handle });
        if let Outcome::Failed(fault) = closed {
            return Err(self.place.failed(&self.full, fault));
        }
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // The copy has failed already; as much as can be is kept for the next run.
            let _ = self.reduce(0);
            drop(self.place.mount.call(Request::Close { handle: self.handle }));
        }
    }
}

/// Names a failure of the mount.
pub(super) fn not_unmounted(volume: &str, result: Result<(), Fault>) -> Result<()> {
    result.with_context(|| {
        format!("volume {volume} was not unmounted in order; it stays locked for some seconds")
    })
}
