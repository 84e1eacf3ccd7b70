//! Open files, as RocksDB uses them.

use crate::uri::FlushMode;
use crate::volume::Volume;
use blob::volume::HandleId;
use blob::{Class, Fault, Outcome, Request};
use blob_client::Ticket;
use std::collections::VecDeque;
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
/// instead of two. Later operations come behind it. If it failed, all that are asked for when that is known fail as well: the file
/// lacks a part.
pub struct Writer {
    volume: Arc<Volume>,
    handle: HandleId,
    appends: Mutex<Appends>,
    is_closed: AtomicBool,
}

/// Most appends of a file that nobody has waited for.
const APPENDS_MAX: usize = 64;
/// And their bytes, but for the last.
const APPENDED_MAX: usize = 1 << 20;
/// An append of at most so many bytes begins with its flush, which RocksDB asks for behind each of its log: so the volume's thread is
/// woken once for both.
const LATER_MAX: usize = 64 << 10;

/// Appends that nobody has waited for, oldest first, with their lengths.
#[derive(Default)]
struct Appends {
    on_their_way: VecDeque<(Ticket, usize)>,
    bytes: usize,
    failed: Option<Fault>,
}

impl Appends {
    /// Waits for the oldest until at most so many, with so many bytes, are left.
    fn reduce(&mut self, volume: &Volume, count: usize, bytes: usize) -> Result<(), Fault> {
        while self.on_their_way.len() > count
            || self.bytes > bytes
            || self.on_their_way.front().is_some_and(|(oldest, _)| oldest.is_done())
        {
            let Some((oldest, length)) = self.on_their_way.pop_front() else { break };
            self.bytes -= length;
            if !oldest.is_done() {
                volume.begin_later();
            }
            self.failed = self.failed.or(outcome(oldest).err());
        }
        self.failed.map_or(Ok(()), Err)
    }
}

impl Writer {
    pub(crate) fn open(volume: &Arc<Volume>, request: Request) -> Result<Writer, Fault> {
        let handle = opened(volume, request)?;
        let (volume, appends) = (Arc::clone(volume), Mutex::default());
        Ok(Writer { volume, handle, appends, is_closed: AtomicBool::new(false) })
    }

    /// Asks for something that comes after all appends, and waits for both. When it has ended, they have: so one wait is enough.
    fn done(&self, request: Request) -> Result<(), Fault> {
        let done = outcome(self.volume.submit(request));
        self.appended().and(done)
    }

    fn appends(&self) -> MutexGuard<'_, Appends> {
        self.appends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all appends.
    fn appended(&self) -> Result<(), Fault> {
        self.appends().reduce(&self.volume, 0, 0)
    }

    /// Appends bytes. Who reads the file sees them.
    ///
    /// # Errors
    /// Of an append before.
    pub fn append(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut appends = self.appends();
        appends.reduce(&self.volume, APPENDS_MAX, APPENDED_MAX)?;
        let request = Request::Append { handle: self.handle, bytes: bytes.to_vec() };
        let is_flushed_soon = self.volume.flush_mode() == FlushMode::Wait && bytes.len() <= LATER_MAX;
        let ticket =
            if is_flushed_soon { self.volume.submit_later(request) } else { self.volume.submit(request) };
        appends.on_their_way.push_back((ticket, bytes.len()));
        appends.bytes += bytes.len();
        Ok(())
    }

    /// Writes at an offset, at least up to the end of the file.
    ///
    /// # Errors
    /// `Invalid` if it ends before.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.done(Request::WriteAt { handle: self.handle, offset, bytes: bytes.to_vec() })
    }

    /// What was appended survives `kill -9`; in the mode `Buffered`, nothing happens.
    ///
    /// # Errors
    /// If that cannot be said.
    pub fn flush(&self) -> Result<(), Fault> {
        match self.volume.flush_mode() {
            FlushMode::Wait => self.done(Request::Flush { handle: self.handle }),
            FlushMode::Buffered => Ok(()),
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
    pub fn begin(&self, offset: u64, length: u64, class: Class) -> PendingRead {
        PendingRead(self.volume.submit(Request::Read { handle: self.handle, offset, length, class }))
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
