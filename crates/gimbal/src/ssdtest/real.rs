//! A device in real time: what all of them have in common, whoever carries the IOs out.
//!
//! ```text
//!   prober ──► Real: buffers, contents, which IOs are under way ──► Carrier: the system's disks, or NVMe/TCP
//! ```
//!
//! Holds: an IO that fails, or never ends, ends the probe with an error that names the IO.

use super::contents::Contents;
use super::stop::Stop;
use super::watch::Watch;
use anyhow::{Result, bail};
use probe::{Completion, Device, Io, IoKind};
use reactor::{BufferPool, Clock, IoBuffer};
use units::{Bytes, Instant};

/// For the buffers of all IOs under way. A probe has at most 512 of 4 KiB, or 128 of 256 KiB.
const MEMORY: Bytes = Bytes::mib(256);
/// How a file is filled: bytes of a write, writes under way, bytes between two reports.
const FILL_PIECE: u64 = 256 << 10;
const FILL_DEPTH: u64 = 16;
const FILL_TOLD: u64 = 256 << 20;

/// What carries IOs out.
pub(super) trait Carrier {
    /// Starts an IO.
    ///
    /// # Errors
    /// It cannot be started.
    fn submit(&mut self, io: &Io, buffer: IoBuffer) -> Result<()>;

    /// Waits until an IO has ended, or until `until`. Adds what ended.
    ///
    /// # Errors
    /// No IO can be carried out any more.
    fn wait(&mut self, until: Instant, done: &mut Vec<Ended>) -> Result<()>;
}

/// The end of an IO.
pub(super) struct Ended {
    pub(super) tag: u64,
    pub(super) at: Instant,
    pub(super) result: Result<()>,
    pub(super) buffer: IoBuffer,
}

/// The device.
pub(super) struct Real {
    carrier: Box<dyn Carrier>,
    reads: BufferPool,
    /// Apart from the others, because their contents are kept.
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

    /// Writes this much from the beginning of a file, so that it has its storage. `observe` is told how much is written, from time to time.
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

    /// Reads bytes at once. Nothing else may be under way.
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
                // Each knows its pool; the other one passes it on.
                self.reads.give(buffer);
            }
        }
        Ok(())
    }
}
