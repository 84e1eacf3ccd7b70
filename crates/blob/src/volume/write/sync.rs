//! Flush and sync: make appended bytes survive a crash of this client, or power losses too.

use super::send::Sender;
use crate::volume::copies::Copies;
use crate::volume::files::Files;
use crate::volume::journal::Journal;
use crate::volume::lease::Lease;
use crate::volume::parts::Parts;
use crate::{Fault, FileId};
use std::rc::Rc;

/// The procedures; see the module.
pub(crate) struct Syncer {
    lease: Rc<Lease>,
    journal: Rc<Journal>,
    files: Rc<Files>,
    copies: Rc<Copies>,
    sender: Rc<Sender>,
}

impl Syncer {
    pub(crate) fn new(parts: &Parts, copies: &Rc<Copies>, sender: &Rc<Sender>) -> Rc<Syncer> {
        Rc::new(Syncer {
            lease: Rc::clone(&parts.lease),
            journal: Rc::clone(&parts.journal),
            files: Rc::clone(&parts.files),
            copies: Rc::clone(copies),
            sender: Rc::clone(sender),
        })
    }

    /// Makes all bytes appended so far survive a crash of this client, including those of earlier appends that still
    /// wait for room.
    pub(crate) async fn flush(&self, file: FileId) -> Result<(), Fault> {
        self.files.appended(file).await;
        let upto = self.files.with(file, |open| open.cut_for_flush())?;
        self.sender.send(file);
        self.sender.sent(file, upto).await?;
        // A file that is not open any more is recorded with all appended bytes.
        let lsn = self.files.with(file, |open| open.durability().needed()).unwrap_or(0);
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Makes all bytes appended so far, as with `flush`, and the file itself survive power losses.
    pub(crate) async fn sync(&self, file: FileId) -> Result<(), Fault> {
        self.files.appended(file).await;
        let upto = self.files.with(file, |open| open.cut_for_sync())?;
        self.sender.send(file);
        self.sender.sent(file, upto).await?;
        if !self.files.is_open(file) {
            return self.lease.may_write().await;
        }
        self.copies.flush(file).await?;
        let lsn = self.files.with(file, |open| {
            open.durability().check()?;
            Ok(open.durability().needed())
        })??;
        self.journal.durable(lsn).await?;
        self.lease.may_write().await
    }
}
