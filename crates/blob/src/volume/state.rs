//! A volume's metadata in memory: names, files, extents. Only records change it, so that a replay gives the same state.
//!
//! Holds: a snapshot rebuilds the state (`a_snapshot_rebuilds_the_state`).

use crate::format::record::{Layout, Record};
use crate::{Copies, FileId, Place};
use std::collections::BTreeMap;

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Dir,
    File(FileId),
}

/// One micro blob of a file, with its two copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) copies: Copies,
    /// Whether each copy lacks writes.
    pub(crate) stale: [bool; 2],
}

impl Extent {
    /// The copy, if it is complete.
    pub(crate) fn good(&self, side: usize) -> Option<Place> {
        self.copies[side].filter(|_| !self.stale[side])
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.good(0).is_some() && self.good(1).is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) links: u32,
    pub(crate) time: u64,
    pub(crate) extents: Vec<Extent>,
    /// The recorded layout, all of it durable.
    pub(crate) layout: Layout,
    /// Whether no bytes are behind the recorded layout.
    pub(crate) is_sealed: bool,
}

/// Further effects of a record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// The file that has lost its last name.
    pub(crate) unlinked: Option<FileId>,
    /// The places that nothing refers to any more.
    pub(crate) freed: Vec<Place>,
}

/// A record that does not fit the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

/// A volume's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    names: BTreeMap<String, Node>,
    files: BTreeMap<FileId, File>,
}

impl State {
    /// The meaning of a name. The root directory has the empty name.
    pub(crate) fn node(&self, path: &str) -> Option<Node> {
        if path.is_empty() { Some(Node::Dir) } else { self.names.get(path).copied() }
    }

    pub(crate) fn file(&self, file: FileId) -> Option<&File> {
        self.files.get(&file)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &File)> + Clone {
        self.files.iter().map(|(id, file)| (*id, file))
    }

    /// Forgets a file that has no name.
    pub(crate) fn remove(&mut self, file: FileId) -> Option<File> {
        self.files.remove(&file)
    }

    /// Forgets all files that have no name.
    pub(crate) fn remove_unnamed(&mut self) {
        self.files.retain(|_, file| file.links > 0);
    }

    /// Marks a copy that lacks data. Never marks the last good copy.
    pub(crate) fn find_stale(&mut self, file: FileId, extent: usize, side: usize) {
        if let Some(entry) = self.files.get_mut(&file) {
            let extent = &mut entry.extents[extent];
            if extent.good(1 - side).is_some() {
                extent.stale[side] = true;
            }
        }
    }

    /// The names in a directory, without that of the directory itself.
    pub(crate) fn children<'a>(&'a self, dir: &str) -> impl Iterator<Item = (&'a str, Node)> + 'a {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let range = self.names.range(prefix.clone()..);
        let below = range.take_while({
            let prefix = prefix.clone();
            move |(name, _)| name.starts_with(&prefix)
        });
        below.filter_map(move |(name, node)| {
            let rest = &name[prefix.len()..];
            (!rest.is_empty() && !rest.contains('/')).then_some((rest, *node))
        })
    }

    fn link(&mut self, path: &str, file: FileId) -> Result<Effects, Misfit> {
        let before = self.names.insert(path.to_owned(), Node::File(file));
        let mut effects = Effects::default();
        match before {
            Some(Node::Dir) => return Err(Misfit),
            Some(Node::File(old)) => effects.unlinked = self.drop_link(old)?,
            None => {}
        }
        Ok(effects)
    }

    fn drop_link(&mut self, file: FileId) -> Result<Option<FileId>, Misfit> {
        let entry = self.files.get_mut(&file).ok_or(Misfit)?;
        entry.links = entry.links.checked_sub(1).ok_or(Misfit)?;
        Ok((entry.links == 0).then_some(file))
    }

    /// Applies a record. `micro_blocks` is the number of blocks of a micro blob.
    ///
    /// Records about extents of a file that does not exist have no effect: the file was removed while it was open.
    pub(crate) fn apply(&mut self, record: &Record, micro_blocks: u64) -> Result<Effects, Misfit> {
        let mut effects = Effects::default();
        match record {
            Record::MakeDir { path } => {
                if self.names.insert(path.clone(), Node::Dir).is_some() {
                    return Err(Misfit);
                }
            }
            Record::RemoveDir { path } => {
                if self.names.remove(path) != Some(Node::Dir) {
                    return Err(Misfit);
                }
            }
            Record::Create { file, path, time } => {
                if self.files.insert(*file, File { links: 1, time: *time, ..File::default() }).is_some() {
                    return Err(Misfit);
                }
                effects = self.link(path, *file)?;
            }
            Record::Link { file, path } => {
                self.files.get_mut(file).ok_or(Misfit)?.links += 1;
                effects = self.link(path, *file)?;
            }
            Record::Unlink { path } => {
                let Some(Node::File(file)) = self.names.remove(path) else { return Err(Misfit) };
                effects.unlinked = self.drop_link(file)?;
            }
            Record::Rename { from, to } => match self.names.remove(from) {
                Some(Node::File(file)) => effects = self.link(to, file)?,
                Some(Node::Dir) => {
                    if self.names.insert(to.clone(), Node::Dir).is_some_and(|node| node != Node::Dir) {
                        return Err(Misfit);
                    }
                    let prefix = format!("{from}/");
                    let below: Vec<String> = self
                        .names
                        .range(prefix.clone()..)
                        .take_while(|(name, _)| name.starts_with(&prefix))
                        .map(|(name, _)| name.clone())
                        .collect();
                    for name in below {
                        let node = self.names.remove(&name).ok_or(Misfit)?;
                        self.names.insert(format!("{to}/{}", &name[prefix.len()..]), node);
                    }
                }
                None => return Err(Misfit),
            },
            Record::Extend { file, extents } => {
                if let Some(file) = self.files.get_mut(file) {
                    let new = extents.iter().map(|copies| Extent { copies: *copies, stale: [false; 2] });
                    file.extents.extend(new);
                    file.is_sealed = false;
                }
            }
            Record::Layout { file, layout, time } => {
                if let Some(file) = self.files.get_mut(file) {
                    let used = layout.next_block.div_ceil(micro_blocks) as usize;
                    if used > file.extents.len() {
                        return Err(Misfit);
                    }
                    let unused = file.extents.drain(used..);
                    effects.freed = unused.flat_map(|extent| extent.copies).flatten().collect();
                    file.layout = layout.clone();
                    file.time = *time;
                    file.is_sealed = true;
                }
            }
            Record::Stale { file, extent, side } => {
                if let Some(file) = self.files.get_mut(file) {
                    let extent = file.extents.get_mut(*extent as usize).ok_or(Misfit)?;
                    extent.stale[usize::from(*side)] = true;
                }
            }
            Record::Move { file, extent, side, place } => {
                if let Some(file) = self.files.get_mut(file) {
                    let extent = file.extents.get_mut(*extent as usize).ok_or(Misfit)?;
                    let side = usize::from(*side);
                    effects.freed.extend(extent.copies[side].replace(*place));
                    extent.stale[side] = false;
                }
            }
        }
        Ok(effects)
    }

    /// Records that rebuild the state. Files without a name are left out.
    pub(crate) fn snapshot(&self, micro_blocks: u64) -> Vec<Record> {
        let mut records = Vec::new();
        let mut made: BTreeMap<FileId, ()> = BTreeMap::new();
        for (path, node) in &self.names {
            let path = path.clone();
            records.push(match *node {
                Node::Dir => Record::MakeDir { path },
                Node::File(file) if made.insert(file, ()).is_some() => Record::Link { file, path },
                Node::File(file) => Record::Create { file, path, time: self.files[&file].time },
            });
        }
        for id in made.keys() {
            let file = &self.files[id];
            let recorded = file.layout.next_block.div_ceil(micro_blocks) as usize;
            let has_layout = file.is_sealed || file.layout != Layout::default();
            let split = if has_layout { recorded } else { 0 };
            let (before, after) = file.extents.split_at(split);
            let extend = |extents: &[Extent]| Record::Extend {
                file: *id,
                extents: extents.iter().map(|extent| extent.copies).collect(),
            };
            if !before.is_empty() {
                records.push(extend(before));
            }
            if has_layout {
                records.push(Record::Layout { file: *id, layout: file.layout.clone(), time: file.time });
            }
            if !after.is_empty() {
                records.push(extend(after));
            }
            for (index, extent) in file.extents.iter().enumerate() {
                for side in (0..2).filter(|&side| extent.stale[side]) {
                    records.push(Record::Stale { file: *id, extent: index as u64, side: side as u8 });
                }
            }
        }
        records
    }

    /// Every place that a file uses.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.files.values().flat_map(|file| &file.extents).flat_map(|extent| extent.copies).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Run;
    use crate::{Generation, SsdId};

    const MICRO_BLOCKS: u64 = 4;

    fn apply(state: &mut State, record: Record) -> Effects {
        state.apply(&record, MICRO_BLOCKS).unwrap_or_else(|_| panic!("{record:?} does not fit"))
    }

    fn copies(micro: u64) -> Copies {
        [Some(Place { ssd: SsdId(0), micro }), Some(Place { ssd: SsdId(1), micro })]
    }

    fn text(path: &str) -> String {
        path.to_owned()
    }

    fn example() -> State {
        let mut state = State::default();
        let file = |count| FileId::new(Generation(1), count);
        for dir in ["db", "db/old", "db/old/deep"] {
            apply(&mut state, Record::MakeDir { path: text(dir) });
        }
        for (count, path) in ["db/a", "db/b", "db/old/deep/c"].iter().enumerate() {
            apply(&mut state, Record::Create { file: file(count as u32), path: text(path), time: 7 });
        }
        apply(&mut state, Record::Link { file: file(0), path: text("db/old/a2") });
        apply(&mut state, Record::Extend { file: file(0), extents: vec![copies(1), copies(2), copies(3)] });
        let runs = vec![Run { block: 0, offset: 0 }];
        let layout = Layout { size: 500, next_block: 6, era: 1, runs };
        let effects = apply(&mut state, Record::Layout { file: file(0), layout, time: 8 });
        assert_eq!(effects.freed.len(), 2, "the third micro blob is not used");
        apply(&mut state, Record::Extend { file: file(0), extents: vec![copies(9)] });
        apply(&mut state, Record::Extend { file: file(1), extents: vec![copies(4), [copies(5)[0], None]] });
        apply(&mut state, Record::Stale { file: file(0), extent: 1, side: 1 });
        state
    }

    #[test]
    fn a_snapshot_rebuilds_the_state() {
        let state = example();
        let mut again = State::default();
        for record in state.snapshot(MICRO_BLOCKS) {
            apply(&mut again, record);
        }
        assert_eq!(again, state);
    }

    #[test]
    fn a_rename_replaces_in_one_step() {
        let mut state = example();
        let effects = apply(&mut state, Record::Rename { from: text("db/b"), to: text("db/a") });
        assert_eq!(effects.unlinked, None, "the file has another name");
        let rename = Record::Rename { from: text("db/a"), to: text("db/old/a2") };
        assert_eq!(apply(&mut state, rename).unlinked, Some(FileId::new(Generation(1), 0)));
        assert_eq!(state.names.get("db/old/a2"), Some(&Node::File(FileId::new(Generation(1), 1))));
    }

    #[test]
    fn a_directory_takes_what_is_in_it_along() {
        let mut state = example();
        apply(&mut state, Record::Rename { from: text("db/old"), to: text("db/new") });
        let listed = |dir: &str| state.children(dir).map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(listed("db"), ["a", "b", "new"]);
        assert_eq!(listed("db/new/deep"), ["c"]);
        assert!(listed("db/old").is_empty());
        assert_eq!(listed(""), ["db"]);
    }
}
