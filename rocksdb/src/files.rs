//! Open files, as RocksDB uses them.

use crate::uri::FlushMode;
use crate::volume::Volume;
use blob::volume::HandleId;
use blob::{Fault, Outcome, Request};
use blob_client::Ticket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn opened(volume: &Volume, request: Request) -> Result<HandleId, Fault> {
    match volume.call(request)? {
        Outcome::Opened { handle, .. } => Ok(handle),
        other => unreachable!("not an outcome of an open: {other:?}"),
    }
}

fn outcome(ticket: Ticket) -> Result<(), Fault> {
    match ticket.wait() {
        Outcome::Failed(fault) => Err(fault),
        _ => Ok(()),
    }
}

fn size(volume: &Volume, handle: HandleId) -> Result<u64, Fault> {
    match volume.call(Request::Size { handle })? {
        Outcome::Size(size) => Ok(size),
        other => unreachable!("not an outcome of a size: {other:?}"),
    }
}

/// A file that is written to. Any thread may sync it while another one appends.
///
/// An append returns while it is on its way: RocksDB flushes after it, and so a small write takes one turn of the volume's thread
/// instead of two. Whoever is next waits for it. If it failed, that and everything later fails: the file lacks a part.
pub struct Writer {
    volume: Arc<Volume>,
    handle: HandleId,
    appends: Mutex<Appends>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Appends {
    on_its_way: Option<Ticket>,
    failed: Option<Fault>,
}

impl Writer {
    pub(crate) fn open(volume: &Arc<Volume>, request: Request) -> Result<Writer, Fault> {
        let handle = opened(volume, request)?;
        let (volume, appends) = (Arc::clone(volume), Mutex::default());
        Ok(Writer { volume, handle, appends, is_closed: AtomicBool::new(false) })
    }

    /// Asks for something that comes after all appends, and then waits for both.
    fn done(&self, request: Request) -> Result<(), Fault> {
        let ticket = self.volume.submit(request);
        let appended = self.appended().map(drop);
        outcome(ticket).and(appended)
    }

    /// Waits for the append that is on its way, and keeps others out.
    fn appended(&self) -> Result<MutexGuard<'_, Appends>, Fault> {
        let mut appends = self.appends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(fault)) = appends.on_its_way.take().map(outcome) {
            appends.failed = Some(fault);
        }
        appends.failed.map_or(Ok(appends), Err)
    }

    /// Appends bytes. Who reads the file sees them.
    ///
    /// # Errors
    /// Of an append before.
    pub fn append(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut appends = self.appended()?;
        let request = Request::Append { handle: self.handle, bytes: bytes.to_vec() };
        appends.on_its_way = Some(self.volume.submit(request));
        Ok(())
    }

    /// Writes at an offset, at least up to the end of the file.
    ///
    /// # Errors
    /// `Invalid` if it ends before.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        drop(self.appended()?);
        self.done(Request::WriteAt { handle: self.handle, offset, bytes: bytes.to_vec() })
    }

    /// What was appended survives `kill -9`; in the mode `Buffered`, only errors are looked for.
    ///
    /// # Errors
    /// If that cannot be said.
    pub fn flush(&self) -> Result<(), Fault> {
        match self.volume.flush_mode() {
            FlushMode::Wait => self.done(Request::Flush { handle: self.handle }),
            FlushMode::Buffered => self.appended().map(drop),
        }
    }

    /// What was appended, and the file with its name, is durable on both copies.
    ///
    /// # Errors
    /// If that cannot be said.
    pub fn sync(&self) -> Result<(), Fault> {
        self.done(Request::Sync { handle: self.handle })
    }

    /// Changes the size.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn truncate(&self, size: u64) -> Result<(), Fault> {
        drop(self.appended()?);
        self.done(Request::Truncate { handle: self.handle, size })
    }

    /// Bytes, with those that no sync has covered.
    ///
    /// # Errors
    /// If the file is closed.
    pub fn size(&self) -> Result<u64, Fault> {
        size(&self.volume, self.handle)
    }

    /// Closes the file; once more does nothing.
    ///
    /// # Errors
    /// If what was appended may not survive `kill -9`.
    pub fn close(&self) -> Result<(), Fault> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.done(Request::Close { handle: self.handle })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Who wants to know whether that worked has closed it before.
        let _ = self.close();
    }
}

/// A file that is read, also while it is written to.
pub struct Reader {
    volume: Arc<Volume>,
    handle: HandleId,
}

/// A read on its way.
pub struct PendingRead(Ticket);

impl Reader {
    pub(crate) fn open(volume: &Arc<Volume>, path: &str) -> Result<Reader, Fault> {
        let handle = opened(volume, Request::Open { path: path.to_owned() })?;
        Ok(Reader { volume: Arc::clone(volume), handle })
    }

    /// Begins to read.
    pub fn begin(&self, offset: u64, length: u64) -> PendingRead {
        PendingRead(self.volume.submit(Request::Read { handle: self.handle, offset, length }))
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// If the volume is not mounted any more.
    pub fn size(&self) -> Result<u64, Fault> {
        size(&self.volume, self.handle)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Nobody waits for it.
        drop(self.volume.submit(Request::Close { handle: self.handle }));
    }
}

impl PendingRead {
    /// Waits for the bytes; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// If they cannot be had.
    pub fn end(self) -> Result<Vec<u8>, Fault> {
        match self.0.wait() {
            Outcome::Bytes(bytes) => Ok(bytes),
            Outcome::Failed(fault) => Err(fault),
            other => unreachable!("not an outcome of a read: {other:?}"),
        }
    }

    /// Whether `end` does not wait.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }
}
