//! Takes bytes into the buffers of a file, as long as there is room in its window.

use super::send::Sender;
use crate::volume::Settings;
use crate::volume::files::{Files, OpenFile};
use crate::volume::lease::Lease;
use crate::volume::parts::Parts;
use crate::{Fault, FileId};
use std::rc::Rc;

/// The procedure; see the module.
pub(crate) struct Appender {
    settings: Rc<Settings>,
    lease: Rc<Lease>,
    files: Rc<Files>,
    sender: Rc<Sender>,
}

impl Appender {
    pub(crate) fn new(parts: &Parts, sender: &Rc<Sender>) -> Rc<Appender> {
        Rc::new(Appender {
            settings: Rc::clone(&parts.settings),
            lease: Rc::clone(&parts.lease),
            files: Rc::clone(&parts.files),
            sender: Rc::clone(sender),
        })
    }

    /// Takes bytes into the file's buffers. They are in flight when this returns, unless they are too few. After an
    /// error none was taken.
    pub(crate) async fn append(&self, file: FileId, bytes: &[u8]) -> Result<(), Fault> {
        if self.lease.is_fenced() {
            return Err(Fault::Fenced);
        }
        let turn = self.files.with(file, |open| open.begin_append())?;
        let room = self.make_room(file, turn - 1).await;
        let taken = room.and_then(|()| self.take_bytes(file, bytes));
        let _ = self.files.with(file, |open| open.end_append(turn));
        self.files.notify();
        taken
    }

    fn take_bytes(&self, file: FileId, bytes: &[u8]) -> Result<(), Fault> {
        self.files.with(file, |open| open.take(bytes))?;
        self.sender.send(file);
        Ok(())
    }

    /// Waits while too many bytes of a file are in flight, or the appends up to `before` have not completed.
    async fn make_room(&self, file: FileId, before: u64) -> Result<(), Fault> {
        let window = self.settings.window.0;
        let has_room = |open: Option<&OpenFile>| {
            let Some(open) = open else { return Some(Err(Fault::BadHandle)) };
            if !open.has_appended(before) {
                return None;
            }
            match open.units().fault() {
                _ if open.units().bytes() <= window => Some(Ok(())),
                Some(fault) => Some(Err(fault)),
                None => None,
            }
        };
        self.files.wait(file, has_room).await
    }

    /// Writes at an offset, at least up to the end of the file.
    pub(crate) async fn write_at(&self, file: FileId, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.files.appended(file).await;
        self.make_room(file, 0).await?;
        self.files.with(file, |open| open.rewind(offset, bytes.len() as u64))??;
        self.take_bytes(file, bytes)
    }
}
