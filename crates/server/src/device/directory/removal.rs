//! Removals from a directory: files of removed namespaces, and leftovers of a kill.
//!
//! A file is erased or removed only if its namespace was configured so, and that is noted in the register before hosts lose the namespace: a kill
//! in between leaves the note, and the next start completes the removal, or drops the note if the namespace is still configured. A file that was
//! removed is noted until the configuration without its namespace is stored: a start that still has the namespace makes it anew, empty.
//!
//! Holds: `what_a_kill_has_left_half_made_is_removed_and_nothing_else` in `tests/directory.rs`.

use super::super::error::DeviceError;
use super::super::open::system;
use super::pool::{Pool, Stage, State, Uuid, file_name, is_full};
use super::register::{self, HALF_MADE, open_in};
use super::{FileChange, snapshot};
use rustix::fs::{AtFlags, FallocateFlags, OFlags, fallocate, unlinkat};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use tracing::{error, info, warn};

impl Pool {
    /// Notes what is to be erased of a namespace that is about to go (`keep` is 0) or to shrink.
    pub(crate) fn doom(&self, uuid: &Uuid, keep: u64) -> Result<(), DeviceError> {
        let mut state = self.state();
        state.register.doomed.insert(file_name(uuid), keep);
        let path = self.path.join(register::NAME);
        match state.register.write(&self.directory) {
            // Nobody could make room otherwise.
            Err(error) if is_full(&error) => {
                warn!(path = %path.display(), %error, "what is erased cannot be noted: if the target is killed before it is, the file stays");
                Ok(())
            }
            written => written.map_err(system(&path, "written")),
        }
    }

    /// Closes the files of namespaces that have gone, and erases what is doomed: it has no IOs any more. `is_there` says which namespaces
    /// there are from now on.
    pub(crate) fn part(&self, is_there: &dyn Fn(&Uuid) -> bool) -> Vec<FileChange> {
        let mut state = self.state();
        let State { register, members } = &mut *state;
        let mut changes = Vec::new();
        members.retain(|uuid, member| {
            let goes = member.stage == Stage::Served && !is_there(uuid);
            if goes {
                changes.push(FileChange::Detach { slot: member.slot });
            }
            !goes
        });
        if self.read_only || register.doomed.is_empty() {
            return changes;
        }
        let before = register.clone();
        for (name, keep) in before.doomed.clone() {
            let member = members.iter().find(|(uuid, _)| file_name(uuid) == name).map(|(_, member)| member);
            let is_back = member.is_some();
            let erased = match (member, keep) {
                (Some(member), keep) => erase(&member.file, keep),
                (None, 0) => unlinkat(&self.directory, &name, AtFlags::empty()).map_err(io::Error::from),
                (None, keep) => self.open_file(&name).and_then(|file| erase(&file, keep)),
            };
            match erased {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    error!(path = %self.path.join(&name).display(), %error, "what was removed is not erased; reload to try again");
                    continue;
                }
                _ => {
                    info!(path = %self.path.join(&name).display(), from = keep, "what was removed is erased")
                }
            }
            register.doomed.remove(&name);
            if keep == 0 && !is_back {
                register.namespaces.remove(&name);
                register.erased.insert(name);
            }
        }
        if *register != before
            && let Err(error) = register.write(&self.directory)
        {
            warn!(path = %self.path.display(), %error, "the register cannot be written: it has namespaces that were erased");
        }
        changes
    }

    /// Removes what a killed target has left: what is half-made, and files of no namespace that were never written.
    pub(super) fn remove_half_made(&self) -> Result<(), DeviceError> {
        for entry in fs::read_dir(&self.path).map_err(system(&self.path, "read"))? {
            let name = entry.map_err(system(&self.path, "read"))?.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_ours = name.strip_suffix(HALF_MADE).is_some_and(|whole| {
                whole == register::NAME || snapshot::is_ours(whole) || is_file_name(whole)
            });
            if is_ours || self.is_snapshot_without_data(name) {
                self.unlink(name);
            }
        }
        Ok(())
    }

    /// Removes files that were made for a configuration that was never stored, when the namespaces are known, and says which others there are.
    pub(crate) fn sweep(&self) {
        if self.read_only {
            return;
        }
        let mut state = self.state();
        let State { register, members } = &mut *state;
        let left: BTreeSet<String> = register.namespaces.keys().cloned().collect();
        let has: BTreeSet<String> = members.keys().map(file_name).collect();
        let left: BTreeSet<String> = left.difference(&has).cloned().collect();
        let unstored: Vec<String> = left.intersection(&register.unconfirmed).cloned().collect();
        for name in &unstored {
            self.unlink(name);
            register.namespaces.remove(name);
            register.unconfirmed.remove(name);
        }
        if left.len() > unstored.len() {
            let files = left.len() - unstored.len();
            info!(path = %self.path.display(), files, "files of namespaces that are not configured are kept");
        }
        if !unstored.is_empty()
            && let Err(error) = register.write(&self.directory)
        {
            warn!(path = %self.path.display(), %error, "the register cannot be written: it has namespaces that are gone");
        }
    }

    fn is_snapshot_without_data(&self, name: &str) -> bool {
        snapshot::data_of(name).is_some_and(|data| {
            let opened = open_in(&self.directory, &data, OFlags::RDONLY);
            opened.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
    }

    /// Removes a file, if it is there. One that cannot be removed now is removed when the directory is opened next.
    pub(super) fn unlink(&self, name: &str) {
        let removed = unlinkat(&self.directory, name, AtFlags::empty()).map_err(io::Error::from);
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %self.path.join(name).display(), %error, "the file cannot be removed");
        }
    }
}

/// Whether a file has the name of one of a namespace.
fn is_file_name(name: &str) -> bool {
    crate::identity::parse_uuid(name).is_some_and(|uuid| file_name(&uuid) == name)
}

/// Makes a hole from a byte to the end of a file.
fn erase(file: &File, from: u64) -> io::Result<()> {
    let end = file.metadata()?.len();
    if from < end {
        fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, end - from)?;
    }
    file.sync_all()
}
