//! A place in memory, as plain as can be, that can fail at any step.

use super::place::{Entry, Kind, Place, Read, Stamp, Write, split};
use anyhow::{Result, bail};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a piece.
const PIECE: usize = 4;

/// The place; see the module.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) files: RefCell<BTreeMap<String, Vec<u8>>>,
    pub(super) dirs: RefCell<BTreeSet<String>>,
    /// Changes until all fail; `None`: none fails.
    pub(super) fuel: Cell<Option<u32>>,
    /// Whether what is written gets damaged.
    pub(super) is_bad: Cell<bool>,
    /// A file that appears when a file has been read to its end.
    pub(super) appears: RefCell<Option<String>>,
}

impl Memory {
    pub(super) fn with(files: &[(&str, &[u8])]) -> Memory {
        let memory = Memory::default();
        for (path, bytes) in files {
            let parents = path.match_indices('/').map(|(at, _)| path[..at].to_owned());
            memory.dirs.borrow_mut().extend(parents);
            memory.files.borrow_mut().insert((*path).to_owned(), bytes.to_vec());
        }
        memory
    }

    fn change(&self) -> Result<()> {
        match self.fuel.get() {
            Some(0) => bail!("killed"),
            Some(left) => self.fuel.set(Some(left - 1)),
            None => {}
        }
        Ok(())
    }
}

impl Place for Memory {
    fn name(&self, path: &str) -> String {
        format!("memory/{path}")
    }

    fn list(&self) -> Result<Option<Vec<Entry>>> {
        let dirs = self.dirs.borrow();
        let dirs = dirs.iter().map(|path| Entry { path: path.clone(), kind: Kind::Dir });
        let files = self.files.borrow();
        let files = files.iter().map(|(path, bytes)| Entry {
            path: path.clone(),
            kind: Kind::File { size: bytes.len() as u64, stamp: None },
        });
        Ok(Some(dirs.chain(files).collect()))
    }

    fn refusal(&self, _: &str) -> Option<String> {
        None
    }

    fn free(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn make_dir(&self, path: &str) -> Result<()> {
        self.change()?;
        if !path.is_empty() {
            self.dirs.borrow_mut().insert(path.to_owned());
        }
        Ok(())
    }

    fn read<'a>(&'a self, path: &str, at: u64, _: Option<(u64, Stamp)>) -> Result<Box<dyn Read + 'a>> {
        let bytes = self.files.borrow().get(path).cloned().expect("only files that are there are read");
        Ok(Box::new(Reader { place: self, bytes: bytes[at as usize..].to_vec() }))
    }

    fn write<'a>(&'a self, path: &str, keep: u64) -> Result<Box<dyn Write + 'a>> {
        self.change()?;
        let (dir, _) = split(path);
        assert!(dir.is_empty() || self.dirs.borrow().contains(dir), "{path} has a directory");
        let mut files = self.files.borrow_mut();
        let bytes = files.entry(path.to_owned()).or_default();
        bytes.truncate(keep as usize);
        Ok(Box::new(Writer { place: self, path: path.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.change()?;
        let bytes = self.files.borrow_mut().remove(from).expect("only files that are there are renamed");
        self.files.borrow_mut().insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.change()?;
        assert!(self.files.borrow_mut().remove(path).is_some(), "{path} is there");
        Ok(())
    }

    fn sync_names(&self) -> Result<()> {
        self.change()
    }
}

struct Reader<'a> {
    place: &'a Memory,
    bytes: Vec<u8>,
}

impl Read for Reader<'_> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.bytes.is_empty() {
            if let Some(path) = self.place.appears.take() {
                self.place.files.borrow_mut().insert(path, Vec::new());
            }
            return Ok(None);
        }
        let length = self.bytes.len().min(PIECE);
        Ok(Some(self.bytes.drain(..length).collect()))
    }

    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

struct Writer<'a> {
    place: &'a Memory,
    path: String,
}

impl Write for Writer<'_> {
    fn append(&mut self, mut piece: Vec<u8>) -> Result<()> {
        self.place.change()?;
        if self.place.is_bad.get() {
            piece[0] ^= 1;
        }
        self.place.files.borrow_mut().get_mut(&self.path).expect("it is open").extend(piece);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.place.change()
    }
}
