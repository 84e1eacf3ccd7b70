//! A file or block device under test, in real time.
//!
//! Holds: an IO that fails, or never ends, ends the probe with an error that names the IO.

use super::contents::Contents;
use super::stop::Stop;
use super::watch::Watch;
use anyhow::{Context, Result, anyhow, bail};
use probe::{Completion, Device, Io, IoKind};
use reactor::{BufferPool, Clock, IoBuffer};
use server::{DeviceError, LocalDevice, LocalDone, LocalOp, LocalOptions};
use std::path::Path;
use units::{Bytes, Instant};

/// For the buffers of all IOs under way. A probe has at most 512 of 4 KiB, or 128 of 256 KiB.
const MEMORY: Bytes = Bytes::mib(256);

/// How a file is filled: bytes of a write, writes under way, bytes between two reports.
const FILL_PIECE: u64 = 256 << 10;
const FILL_DEPTH: u64 = 16;
const FILL_TOLD: u64 = 256 << 20;

/// The device.
pub(super) struct Local {
    device: LocalDevice,
    is_file: bool,
    reads: BufferPool,
    /// Apart from the others, because their contents are kept.
    writes: BufferPool,
    contents: Contents,
    watch: Watch,
    done: Vec<LocalDone>,
}

impl Local {
    /// Opens it.
    pub(super) fn open(path: &Path, options: LocalOptions, stop: Stop) -> Result<Local> {
        let device = LocalDevice::open(path, options).map_err(|error| explained(error, options))?;
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        Ok(Local {
            device,
            is_file,
            reads: BufferPool::new(MEMORY),
            writes: BufferPool::new(MEMORY),
            contents: Contents::new(),
            watch: Watch::new(stop),
            done: Vec::new(),
        })
    }

    pub(super) fn opened(&self) -> &LocalDevice {
        &self.device
    }

    pub(super) fn is_file(&self) -> bool {
        self.is_file
    }

    /// Writes all of a file, so that it has its storage. `observe` is told how much is written, from time to time.
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
            for LocalDone { tag, buffer, .. } in self.done.drain(..) {
                let buffer = buffer.expect("a write returns its buffer");
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
        let io = Io { tag: 0, kind: IoKind::Read, offset, length: length as u32 };
        self.submit(io)?;
        loop {
            self.wait_for(None)?;
            if let Some(done) = self.done.pop() {
                let buffer = done.buffer.expect("a read returns its buffer");
                let bytes = buffer.to_vec();
                self.reads.give(buffer);
                return Ok(bytes);
            }
        }
    }

    /// Waits for completions, checks them, and leaves them in `done`.
    fn wait_for(&mut self, until: Option<Instant>) -> Result<()> {
        let limit = self.watch.before_wait(Clock.now(), until)?;
        self.device.wait(Some(limit), &mut self.done).context("the system does not carry out IOs")?;
        for done in &mut self.done {
            let io = self.watch.ended(done.tag, done.at);
            if let Err(error) = std::mem::replace(&mut done.result, Ok(())) {
                return Err(anyhow!(error).context(Watch::failed(&io)));
            }
        }
        Ok(())
    }

    fn buffer(&mut self, io: &Io) -> Result<IoBuffer> {
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
        Ok(buffer)
    }
}

impl Device for Local {
    type Error = anyhow::Error;

    fn now(&self) -> Instant {
        Clock.now()
    }

    fn submit(&mut self, io: Io) -> Result<()> {
        let buffer = self.buffer(&io)?;
        let op = match io.kind {
            IoKind::Read => LocalOp::Read(buffer),
            IoKind::Write => LocalOp::Write(buffer),
        };
        self.watch.started(io, Clock.now());
        self.device.submit(io.tag, io.offset, op);
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>, done: &mut Vec<Completion>) -> Result<()> {
        while done.is_empty() && until.is_none_or(|until| Clock.now() < until) {
            self.wait_for(until)?;
            for LocalDone { tag, at, buffer, .. } in self.done.drain(..) {
                done.push(Completion { tag, at });
                if let Some(buffer) = buffer {
                    // Each knows its pool; the other one passes it on.
                    self.reads.give(buffer);
                }
            }
        }
        Ok(())
    }
}

/// The errors of opening with the advice that fits this command.
fn explained(error: DeviceError, options: LocalOptions) -> anyhow::Error {
    match error {
        DeviceError::Missing { path, device: None } => anyhow!(
            "{}: does not exist; to probe a new file there, say how large it shall be: --size 8G",
            path.display()
        ),
        DeviceError::InUse(path, users) => {
            let users: Vec<String> = users.iter().map(ToString::to_string).collect();
            let users = if users.is_empty() {
                "by whom is not visible from here (lsof and lsblk may tell)".to_owned()
            } else {
                users.join(", ")
            };
            let risk = if options.read_only {
                "its user disturbs the measurement"
            } else {
                "this destroys what is on it under its user"
            };
            anyhow!(
                "{}: is in use: {users}; end that first; to probe it all the same (but {risk}): --force",
                path.display()
            )
        }
        DeviceError::System { path, step, error } => anyhow!("{}: cannot be {step}: {error}", path.display()),
        error => anyhow!(error),
    }
}
