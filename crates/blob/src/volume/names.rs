//! Names: directories, files, links. Every change is one record, which is on the SSDs before it is acknowledged.

use super::clock::Clock;
use super::files::{Files, HandleId};
use super::journal::Journal;
use super::lease::Lease;
use super::metadata::Metadata;
use super::parts::Parts;
use super::state::Node;
use super::write::Layouts;
use super::{Outcome, Stat};
use crate::format::record::Record;
use crate::{Fault, FileId};
use std::rc::Rc;

/// Maximum length of a name with all its directories.
const PATH_MAX: usize = 1024;

/// A path without empty parts and dots: `/db//./x` is `db/x`, `/` is the empty path.
///
/// # Errors
/// `Invalid` if it is too long, or has a part `..` or a byte 0.
pub fn normal(path: &str) -> Result<String, Fault> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if path.len() > PATH_MAX || parts.contains(&"..") || path.contains('\0') {
        return Err(Fault::Invalid);
    }
    Ok(parts.join("/"))
}

/// The procedures on names; see the module.
pub(crate) struct Names {
    clock: Rc<Clock>,
    lease: Rc<Lease>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    files: Rc<Files>,
    layouts: Rc<Layouts>,
}

impl Names {
    pub(crate) fn new(parts: &Parts, layouts: &Rc<Layouts>) -> Rc<Names> {
        Rc::new(Names {
            clock: Rc::clone(&parts.clock),
            lease: Rc::clone(&parts.lease),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            files: Rc::clone(&parts.files),
            layouts: Rc::clone(layouts),
        })
    }

    fn node(&self, path: &str) -> Option<Node> {
        self.metadata.state().node(path)
    }

    fn file_at(&self, path: &str) -> Result<FileId, Fault> {
        match self.node(path) {
            Some(Node::File(file)) => Ok(file),
            Some(Node::Dir) => Err(Fault::WrongKind),
            None => Err(Fault::NotFound),
        }
    }

    fn check_parent(&self, path: &str) -> Result<(), Fault> {
        match self.node(path.rsplit_once('/').map_or("", |(parent, _)| parent)) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File(_)) => Err(Fault::WrongKind),
            None => Err(Fault::NotFound),
        }
    }

    /// Records a change and waits until it survives a crash of this client.
    async fn change(&self, record: Record) -> Result<(), Fault> {
        self.lease.may_write().await?;
        let lsn = self.files.record(&record);
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Creates a file and opens it for writing, even if the name exists. Handles of the old file keep that.
    pub(crate) async fn create(&self, path: &str) -> Result<HandleId, Fault> {
        let path = normal(path)?;
        self.lease.may_write().await?;
        self.check_parent(&path)?;
        if self.node(&path) == Some(Node::Dir) {
            return Err(Fault::WrongKind);
        }
        let file = self.files.take_id();
        let lsn = self.files.record(&Record::Create { file, path, time: self.clock.seconds() });
        let handle = self.files.open_handle(file, true);
        self.files.begin_writing(file)?;
        self.files.with(file, |open| open.durability_mut().need(lsn))?;
        let mut result = self.journal.written(lsn).await;
        if result.is_ok() {
            result = self.lease.may_write().await;
        }
        match result {
            Ok(()) => Ok(handle),
            Err(fault) => {
                let _ = self.layouts.close(handle).await;
                Err(fault)
            }
        }
    }

    /// Opens a file to append to; creates it if it does not exist.
    pub(crate) async fn reopen(&self, path: &str) -> Result<HandleId, Fault> {
        match self.file_at(&normal(path)?) {
            Ok(file) => {
                let handle = self.files.open_handle(file, true);
                self.files.begin_writing(file)?;
                Ok(handle)
            }
            Err(Fault::NotFound) => self.create(path).await,
            Err(fault) => Err(fault),
        }
    }

    pub(crate) fn open(&self, path: &str) -> Result<(HandleId, u64), Fault> {
        let file = self.file_at(&normal(path)?)?;
        Ok((self.files.open_handle(file, false), self.files.size(file)?))
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Fault> {
        let (from, to) = (normal(from)?, normal(to)?);
        let source = self.node(&from).ok_or(Fault::NotFound)?;
        self.check_parent(&to)?;
        if from.is_empty() || to.is_empty() || to.starts_with(&format!("{from}/")) {
            return Err(Fault::Invalid);
        }
        let target = self.node(&to);
        match (source, target) {
            _ if from == to => return Ok(()),
            (Node::File(one), Some(Node::File(other))) if one == other => return Ok(()),
            (Node::File(_), Some(Node::Dir)) | (Node::Dir, Some(Node::File(_))) => {
                return Err(Fault::WrongKind);
            }
            (Node::Dir, Some(Node::Dir)) if self.metadata.state().children(&to).next().is_some() => {
                return Err(Fault::NotEmpty);
            }
            _ => {}
        }
        self.change(Record::Rename { from, to }).await
    }

    pub(crate) async fn unlink(&self, path: &str) -> Result<(), Fault> {
        let path = normal(path)?;
        self.file_at(&path)?;
        self.change(Record::Unlink { path }).await
    }

    /// Gives a file a further name.
    pub(crate) async fn link(&self, from: &str, to: &str) -> Result<(), Fault> {
        let (from, to) = (normal(from)?, normal(to)?);
        let file = self.file_at(&from)?;
        self.check_parent(&to)?;
        if self.node(&to).is_some() {
            return Err(Fault::Exists);
        }
        self.change(Record::Link { file, path: to }).await
    }

    pub(crate) async fn make_dir(&self, path: &str) -> Result<(), Fault> {
        let path = normal(path)?;
        self.check_parent(&path)?;
        if self.node(&path).is_some() {
            return Err(Fault::Exists);
        }
        self.change(Record::MakeDir { path }).await
    }

    pub(crate) async fn remove_dir(&self, path: &str) -> Result<(), Fault> {
        let path = normal(path)?;
        match self.node(&path) {
            _ if path.is_empty() => return Err(Fault::Invalid),
            None => return Err(Fault::NotFound),
            Some(Node::File(_)) => return Err(Fault::WrongKind),
            Some(Node::Dir) if self.metadata.state().children(&path).next().is_some() => {
                return Err(Fault::NotEmpty);
            }
            Some(Node::Dir) => {}
        }
        self.change(Record::RemoveDir { path }).await
    }

    pub(crate) fn list(&self, path: &str) -> Result<Outcome, Fault> {
        let path = normal(path)?;
        match self.node(&path) {
            None => Err(Fault::NotFound),
            Some(Node::File(_)) => Err(Fault::WrongKind),
            Some(Node::Dir) => {
                let state = self.metadata.state();
                Ok(Outcome::Names(state.children(&path).map(|(name, _)| name.to_owned()).collect()))
            }
        }
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<Stat, Fault> {
        match self.node(&normal(path)?).ok_or(Fault::NotFound)? {
            Node::Dir => Ok(Stat { is_dir: true, file: FileId::default(), size: 0, links: 1, time: 0 }),
            Node::File(file) => {
                self.files.appended(file).await;
                let size = self.files.size(file)?;
                let state = self.metadata.state();
                let entry = state.file(file).ok_or(Fault::NotFound)?;
                Ok(Stat { is_dir: false, file, size, links: entry.links, time: entry.time })
            }
        }
    }

    /// Makes all changes of names so far survive power losses.
    pub(crate) async fn sync_names(&self) -> Result<(), Fault> {
        self.journal.durable(self.journal.appended()).await?;
        self.lease.may_write().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_spelling() {
        for path in ["/db/x", "db/x", "//db//./x/", "./db/x"] {
            assert_eq!(normal(path), Ok("db/x".to_owned()));
        }
        assert_eq!(normal("/"), Ok(String::new()));
        assert_eq!(normal("db/../x"), Err(Fault::Invalid));
    }
}
