//! A device in real time: the parts common to all carriers of IOs.
//!
//! ```text
//!   prober ──► Real: buffers, contents, IOs in flight ──► Carrier: the system's disks, or NVMe/TCP
//! ```
//!
//! Holds: an IO that fails or never completes ends the probe with an error that names the IO.

use super::contents::Contents;
use super::stop::Stop;
use super::watch::Watch;
use anyhow::{Result, bail};
use probe::{Completion, Device, Io, IoKind};
use reactor::{BufferPool, Clock, IoBuffer};
use units::{Bytes, Instant};

/// Memory for the buffers of all IOs in flight. A probe has at most 512 of 4 KiB, or 128 of 256 KiB.
const MEMORY: Bytes = Bytes::mib(256);
/// Filling of a file: bytes of a write, writes in flight, bytes between two reports.
const FILL_PIECE: u64 = 256 << 10;
const FILL_DEPTH: u64 = 16;
const FILL_TOLD: u64 = 256 << 20;

/// A device that carries out IOs.
pub(super) trait Carrier {
    /// Starts an IO.
    ///
    /// # Errors
    /// It cannot be started.
    fn submit(&mut self, io: &Io, buffer: IoBuffer) -> Result<()>;

    /// Waits until an IO completes, or until `until`. Appends completed IOs to `done`.
    ///
    /// # Errors
    /// No IO can be carried out any more.
    fn wait(&mut self, until: Instant, done: &mut Vec<Ended>) -> Result<()>;
}

/// A completed IO.
pub(super) struct Ended {
    pub(super) tag: u64,
    pub(super) at: Instant,
    pub(super) result: Result<()>,
    pub(super) buffer: IoBuffer,
}

/// The device with its buffers, and the completions that were not passed on yet.
pub(super) struct Real {
    carrier: Box<dyn Carrier>,
    reads: BufferPool,
    /// Separate from the others, because these buffers keep their contents.
    writes: BufferPool,
    contents: Contents,
    watch: Watch,
    done: Vec<Ended>,
}

impl Real {
    pub(super) fn new(carrier: Box<dyn Carrier>, stop: Stop) -> Real {
        Real {
            carrier,
            reads: BufferPool::new(MEMORY),
            writes: BufferPool::new(MEMORY),
            contents: Contents::new(),
            watch: Watch::new(stop),
            done: Vec::new(),
        }
    }

    /// Writes the first `size` bytes of a file, so that its storage is allocated. Reports the bytes written to
    /// `observe` from time to time.
    pub(super) fn fill(&mut self, size: u64, mut observe: impl FnMut(u64)) -> Result<()> {
        let (mut next, mut ended, mut told) = (0, 0, 0);
        let mut tags: Vec<u64> = (0..FILL_DEPTH).collect();
        while ended < size {
            while next < size
                && let Some(tag) = tags.pop()
            {
                let length = FILL_PIECE.min(size - next);
                self.submit(Io { tag, kind: IoKind::Write, offset: next, length: length as u32 })?;
                next += length;
            }
            self.wait_for(None)?;
            for Ended { tag, buffer, .. } in self.done.drain(..) {
                ended += buffer.len() as u64;
                self.writes.give(buffer);
                tags.push(tag);
            }
            if ended - told >= FILL_TOLD || ended == size {
                told = ended;
                observe(ended);
            }
        }
        Ok(())
    }

    /// Reads bytes at once. No other IO may be in flight.
    pub(super) fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.submit(Io { tag: 0, kind: IoKind::Read, offset, length: length as u32 })?;
        loop {
            self.wait_for(None)?;
            if let Some(Ended { buffer, .. }) = self.done.pop() {
                let bytes = buffer.to_vec();
                self.reads.give(buffer);
                return Ok(bytes);
            }
        }
    }

    /// Waits for completions, checks them, and leaves them in `done`.
    fn wait_for(&mut self, until: Option<Instant>) -> Result<()> {
        let limit = self.watch.before_wait(Clock.now(), until)?;
        self.carrier.wait(limit, &mut self.done)?;
        for done in &mut self.done {
            let io = self.watch.ended(done.tag, done.at);
            if let Err(error) = std::mem::replace(&mut done.result, Ok(())) {
                return Err(error.context(Watch::failed(&io)));
            }
        }
        Ok(())
    }
}

impl Device for Real {
    type Error = anyhow::Error;

    fn now(&self) -> Instant {
        Clock.now()
    }

    fn submit(&mut self, io: Io) -> Result<()> {
        let pool = match io.kind {
            IoKind::Read => &mut self.reads,
            IoKind::Write => &mut self.writes,
        };
        let Some(mut buffer) = pool.take(io.length as usize) else {
            bail!("{MEMORY} of buffers are not enough")
        };
        if io.kind == IoKind::Write {
            self.contents.fill(&mut buffer);
        }
        self.watch.started(io, Clock.now());
        self.carrier.submit(&io, buffer)
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<()> {
        while done.is_empty() && until.is_none_or(|until| Clock.now() < until) {
            self.wait_for(until)?;
            for Ended { tag, at, buffer, .. } in self.done.drain(..) {
                done.push(Completion { tag, at });
                // A buffer knows its pool; another pool passes it on.
                self.reads.give(buffer);
            }
        }
        Ok(())
    }
}
