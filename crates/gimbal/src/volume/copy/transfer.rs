//! The copy of a tree from one place to another: checked, and continued where an earlier one ended.
//!
//! ```text
//!   list both ─► compare what is there ─► each file: part ─► sync ─► read back ─► rename ─► list the source again ─► CURRENT files
//!                    differs: refused, nothing written                                        changed: refused
//! ```
//!
//! Holds: a copy that ends without an error has the bytes of the source, also after it was interrupted at any step; no `CURRENT`
//!        is there before all else is (`a_copy_interrupted_anywhere_and_continued_is_whole`).
//! Elsewhere: what is done with which file is `plan`; how bytes are read and written is `local` and `remote`.

use super::place::{Entry, Kind, Place, Read, is_current, part_of};
use super::plan::{Plan, Work};
use super::watch::Watch;
use anyhow::{Context, Result, bail};
use crc_fast::{CrcAlgorithm, Digest};
use std::collections::{BTreeMap, BTreeSet};
use units::Bytes;

/// Most paths in one message.
const SHOWN_MAX: usize = 10;

/// The results of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Files and bytes of the source.
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) dirs: u64,
    /// Files that were copied, with all their bytes.
    pub(super) copied_files: u64,
    pub(super) copied_bytes: u64,
    /// Bytes of these files that an interrupted copy had left.
    pub(super) continued_bytes: u64,
    /// Logs of the destination that got other names.
    pub(super) set_aside: Vec<String>,
    /// Files that were there already, equal.
    pub(super) skipped_files: u64,
    pub(super) skipped_bytes: u64,
    /// Paths of the destination that the source does not have.
    pub(super) extra: Vec<String>,
}

/// The copy; see the module.
pub(super) struct Transfer<'a> {
    pub(super) from: &'a dyn Place,
    pub(super) to: &'a dyn Place,
    /// Whether files of the destination that differ are replaced.
    pub(super) replace: bool,
    /// Whether the destination must be new, empty, or left by an earlier copy.
    pub(super) is_own: bool,
    pub(super) watch: &'a Watch,
}

impl Transfer<'_> {
    pub(super) fn run(&self) -> Result<Summary> {
        let source = self.from.list()?;
        let source = source.with_context(|| format!("{} does not exist", self.from.name("")))?;
        self.watch.check()?;
        let found = self.to.list()?.unwrap_or_default();
        let plan =
            Plan::of(&source, &found, self.to).map_err(|problems| anyhow::anyhow!(shown(&problems)))?;
        if self.is_own && !found.is_empty() && !plan.has_begun {
            bail!(
                "{} has files, none of them from {}: copy to a new or empty directory",
                self.to.name(""),
                self.from.name("")
            );
        }
        let differing = self.differing(&plan)?;
        if !differing.is_empty() && !self.replace {
            return Err(self.refusal(&differing));
        }
        self.check_space(&plan, &differing)?;
        self.to.make_dir("")?;
        for dir in &plan.dirs {
            self.watch.check()?;
            self.to.make_dir(dir)?;
        }
        let stale = plan.stale_currents(&differing);
        for current in &stale {
            self.to.remove(current)?;
        }
        if !stale.is_empty() {
            self.to.sync_names()?;
        }

        let is_equal = |work: &&Work| {
            work.there.is_some() && !differing.contains(&work.path) && !stale.contains(&work.path)
        };
        let (skipped, work): (Vec<&Work>, Vec<&Work>) = plan.files.iter().partition(is_equal);
        let sum = |works: &[&Work]| works.iter().map(|work| work.size).sum::<u64>();
        let mut summary = Summary {
            files: plan.files.len() as u64,
            bytes: sum(&work) + sum(&skipped),
            dirs: plan.dirs_all,
            copied_files: work.len() as u64,
            copied_bytes: sum(&work),
            continued_bytes: 0,
            set_aside: Vec::new(),
            skipped_files: skipped.len() as u64,
            skipped_bytes: sum(&skipped),
            extra: plan.extra.clone(),
        };
        for (log, aside) in plan.foreign_logs(&work) {
            self.to.rename(&log, &aside)?;
            summary.extra.retain(|path| *path != log);
            summary.set_aside.push(aside);
        }
        // Each byte is copied and read back.
        self.watch.begin("copying", 2 * sum(&work));
        let (currents, others): (Vec<&Work>, Vec<&Work>) =
            work.into_iter().partition(|work| is_current(&work.path));
        for work in others {
            summary.continued_bytes += self.copy(work)?;
        }
        let now = self.from.list()?.unwrap_or_default();
        let changed = changed(&source, &now);
        if !changed.is_empty() {
            let paths: Vec<String> = changed.into_iter().map(|path| self.from.name(path)).collect();
            bail!(
                "made, removed or changed during the copy, which has no single state of them therefore: {}\n{SEEMS_OPEN}",
                shown(&paths)
            );
        }
        self.to.sync_names()?;
        for work in currents {
            summary.continued_bytes += self.copy(work)?;
        }
        self.to.sync_names()?;
        Ok(summary)
    }

    /// The files that the destination has with other bytes. Those of another size are found without a read; then the smallest
    /// files are compared first, as they are the ones that a database changes.
    fn differing(&self, plan: &Plan) -> Result<BTreeSet<String>> {
        let has = |work: &&Work| work.there.is_some();
        let (mut same, other): (Vec<&Work>, Vec<&Work>) =
            plan.files.iter().filter(has).partition(|work| work.there == Some(work.size));
        let mut differing: BTreeSet<String> = other.iter().map(|work| work.path.clone()).collect();
        if !differing.is_empty() && !self.replace {
            return Ok(differing);
        }
        same.sort_by_key(|work| work.size);
        self.watch.begin("comparing", same.iter().map(|work| work.size).sum());
        for work in same {
            self.watch.check()?;
            if !self.begins_with(work, &work.path, &mut digest())? {
                differing.insert(work.path.clone());
                if !self.replace {
                    break;
                }
            }
        }
        Ok(differing)
    }

    fn refusal(&self, differing: &BTreeSet<String>) -> anyhow::Error {
        let paths: Vec<String> = differing.iter().map(|path| self.to.name(path)).collect();
        anyhow::anyhow!(
            "the source differs from what is there already, and nothing was copied: {}\nIf the source has changed since an earlier copy \
             (a database that is opened writes new files), --replace copies these files again; or copy to another directory",
            shown(&paths)
        )
    }

    /// Fails if the files cannot fit.
    fn check_space(&self, plan: &Plan, differing: &BTreeSet<String>) -> Result<()> {
        let Some(free) = self.to.free()? else { return Ok(()) };
        let new = |work: &&Work| work.there.is_none() || differing.contains(&work.path);
        let needed = plan.files.iter().filter(new).map(|work| work.size).sum::<u64>();
        let given = |work: &Work| work.part.unwrap_or(0) + work.there.unwrap_or(0);
        let given = plan.files.iter().filter(new).map(given).sum::<u64>();
        let needed = needed.saturating_sub(given);
        if needed > free {
            bail!(
                "{} has space for {} more, and {} are needed: {}; nothing was copied",
                self.to.name(""),
                mib(free),
                mib(needed),
                super::MORE_SPACE
            );
        }
        Ok(())
    }

    /// Whether the file of the destination is the beginning of a file of the source. Adds these bytes to the digest.
    fn begins_with(&self, work: &Work, there: &str, digest: &mut Digest) -> Result<bool> {
        let mut ours = self.from.read(&work.path, 0, work.listed())?;
        let mut theirs = self.to.read(there, 0, None)?;
        while let Some(piece) = theirs.next()? {
            let Some(same) = ours.next()? else { return Ok(false) };
            if same.get(..piece.len()) != Some(&piece[..]) {
                return Ok(false);
            }
            digest.update(&piece);
            self.watch.on_done(piece.len() as u64, &work.path)?;
        }
        ours.check_unchanged()?;
        Ok(true)
    }

    /// Copies a file; returns how many of its bytes an earlier copy had left.
    fn copy(&self, work: &Work) -> Result<u64> {
        self.watch.check()?;
        let part = part_of(&work.path);
        let mut sent = digest();
        let mut at = 0;
        if let Some(size) = work.part.filter(|size| (1..=work.size).contains(size)) {
            if self.begins_with(work, &part, &mut sent)? {
                at = size;
            } else {
                sent = digest();
            }
        }
        let mut reader = self.from.read(&work.path, at, work.listed())?;
        let mut writer = self.to.write(&part, at)?;
        let mut size = at;
        while let Some(piece) = reader.next()? {
            size += piece.len() as u64;
            if size > work.size {
                break;
            }
            sent.update(&piece);
            let length = piece.len() as u64;
            writer.append(piece)?;
            self.watch.on_done(length, &work.path)?;
        }
        reader.check_unchanged()?;
        if size != work.size {
            bail!("{} has another size than before; {SEEMS_OPEN}", self.from.name(&work.path));
        }
        writer.finish()?;
        let (length, back) = self.digest_of(&mut *self.to.read(&part, 0, None)?, &work.path)?;
        if (length, back) != (work.size, sent.finalize()) {
            self.to.remove(&part)?;
            bail!(
                "{} was read back with other bytes than were written, and was removed: the destination damages data",
                self.to.name(&part)
            );
        }
        self.to.rename(&part, &work.path)?;
        Ok(at)
    }

    fn digest_of(&self, reader: &mut dyn Read, path: &str) -> Result<(u64, u64)> {
        let (mut length, mut digest) = (0, digest());
        while let Some(piece) = reader.next()? {
            length += piece.len() as u64;
            digest.update(&piece);
            self.watch.on_done(piece.len() as u64, path)?;
        }
        Ok((length, digest.finalize()))
    }
}

/// The likely cause of a source that changes, and the advice.
pub(super) const SEEMS_OPEN: &str = "a database there seems to be open; close it, or copy a checkpoint of it \
     (`ldb checkpoint`), and run the command again, with --replace if it has changed files that were copied before";
/// The paths that are not the same in both lists.
fn changed<'a>(before: &'a [Entry], after: &'a [Entry]) -> BTreeSet<&'a str> {
    let of = |entries: &'a [Entry]| -> BTreeMap<&'a str, Kind> {
        entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect()
    };
    let (before, after) = (of(before), of(after));
    before.keys().chain(after.keys()).copied().filter(|path| before.get(path) != after.get(path)).collect()
}

fn digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

/// Bytes for people, rounded up.
fn mib(bytes: u64) -> Bytes {
    Bytes::mib(bytes.div_ceil(units::MIB))
}

/// The first of many texts.
pub(super) fn shown(texts: &[String]) -> String {
    let mut text = texts.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n  ");
    if texts.len() > 1 {
        text.insert_str(0, "\n  ");
    }
    if texts.len() > SHOWN_MAX {
        text += &format!("\n  and {} more", texts.len() - SHOWN_MAX);
    }
    text
}

/// The size of an entry that is a file.
pub(super) fn size_of(kind: Kind) -> Option<u64> {
    match kind {
        Kind::File { size, .. } => Some(size),
        Kind::Dir => None,
    }
}

#[cfg(test)]
mod tests;
