//! The host's end of a queue pair.
//!
//! ```text
//!   submit ─► Send (a capsule) ─► on_sent
//!   Receive ─► on_answer ─► Completed
//! ```
//!
//! Data stays in the command's buffer, whose address and key go with the command: the controller reads and writes it until it has
//! answered, or until the queue pair is destroyed.
//!
//! Holds: a command completes when it is answered and its capsule was sent, so that nothing refers to its buffer then
//!        (`a_fabric_with_faults_loses_nothing` in `tests/fabric`); at most `commands_max` are outstanding, whatever the peer does.

use super::{COMMAND_BYTES, COMPLETION_BYTES, Remote};
use crate::buffer::Buffer;
use crate::queue::cid_table::CidTable;
use crate::queue::slots::Slots;
use crate::queue::{Refusal, SubmitError, Transfer};
use crate::spec::{Cqe, Sgl, Sqe};
use std::collections::VecDeque;
use zerocopy::{FromBytes, IntoBytes};

/// Options of this host's end.
#[derive(Clone, Copy, Debug)]
pub struct RdmaHostOptions {
    /// Most outstanding commands: one less than the queue's entries.
    pub commands_max: u16,
}

/// Reason why the queue pair cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdmaHostFatal {
    /// A message is no completion.
    #[error("the controller sent a message of {0} bytes; a completion has 16")]
    Length(u32),
    /// A completion of no outstanding command.
    #[error("the controller completed command {0:#x}, which is not outstanding")]
    Unknown(u16),
}

/// Work to post.
#[derive(Debug)]
pub enum RdmaHostWork {
    /// A receive for a completion.
    Receive,
    /// Send a capsule; then call `on_sent` with the tag.
    Send {
        /// Name of the command.
        tag: u16,
        /// The command.
        command: [u8; COMMAND_BYTES],
    },
}

/// A command that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct RdmaCompleted<B> {
    /// The completion.
    pub cqe: Cqe,
    /// Its buffer.
    pub data: Option<B>,
    /// Bytes that a successful read asked for: they are in the buffer.
    pub received: u32,
}

#[derive(Debug)]
struct Command<B> {
    sqe: Sqe,
    buffer: Option<B>,
    /// Bytes that a read asks for.
    asked: u32,
    is_sent: bool,
    answer: Option<Cqe>,
}

/// The host's end of one queue pair.
#[derive(Debug)]
pub struct RdmaHost<B> {
    options: RdmaHostOptions,
    numbers: CidTable<u16>,
    commands: Slots<Command<B>>,
    transmit: VecDeque<u16>,
    posted: u16,
    sqhd: u16,
    fatal: Option<RdmaHostFatal>,
}

impl<B: Buffer> RdmaHost<B> {
    /// A queue pair without commands.
    pub fn new(options: RdmaHostOptions) -> RdmaHost<B> {
        RdmaHost {
            options,
            numbers: CidTable::new(usize::from(options.commands_max)),
            commands: Slots::new(),
            transmit: VecDeque::new(),
            posted: 0,
            sqhd: 0,
            fatal: None,
        }
    }

    /// Submits a command. Its SGL is filled in here, with the place of its buffer that `expose` returns; the caller has chosen its
    /// identifier.
    ///
    /// # Errors
    /// The command is not accepted, and its data returned.
    pub fn submit(
        &mut self,
        sqe: Sqe,
        transfer: Transfer<B>,
        expose: impl FnOnce(&B) -> Remote,
    ) -> Result<(), SubmitError<B>> {
        if let Some(refusal) = Refusal::of(self.fatal.is_some(), &self.numbers, sqe.cid()) {
            return Err(SubmitError { refusal, transfer });
        }
        let keyed = |buffer: &B, length| {
            let held = buffer.bytes().len();
            assert!(length as usize <= held, "{length} bytes of data in a buffer of {held}");
            let Remote { address, key, invalidates } = expose(buffer);
            Sgl::Keyed { address, length, key, invalidates }
        };
        let (sgl, buffer, asked) = match transfer {
            Transfer::None => (Sgl::Keyed { address: 0, length: 0, key: 0, invalidates: false }, None, 0),
            Transfer::ToController(buffer, length) => (keyed(&buffer, length), Some(buffer), 0),
            Transfer::FromController(buffer, length) => (keyed(&buffer, length), Some(buffer), length),
        };
        let sqe = sqe.with_sgl(sgl);
        let command = Command { sqe, buffer, asked, is_sent: false, answer: None };
        let number = self.commands.insert(command);
        self.numbers.insert(sqe.cid(), number);
        self.transmit.push_back(number);
        Ok(())
    }

    /// The next work to post, if there is any; `room`: whether the send queue has an entry free. Receives come first.
    pub fn poll(&mut self, room: bool) -> Option<RdmaHostWork> {
        if self.fatal.is_some() {
            return None;
        }
        if self.posted < self.options.commands_max {
            self.posted += 1;
            return Some(RdmaHostWork::Receive);
        }
        if !room {
            return None;
        }
        let tag = self.transmit.pop_front()?;
        let command = self.commands.at(tag);
        let mut bytes = [0; COMMAND_BYTES];
        bytes.copy_from_slice(command.sqe.as_bytes());
        Some(RdmaHostWork::Send { tag, command: bytes })
    }

    /// Handles the end of a capsule's sending.
    pub fn on_sent(&mut self, tag: u16) -> Option<RdmaCompleted<B>> {
        self.commands.at(tag).is_sent = true;
        self.complete(tag)
    }

    /// Handles a message of the controller, of `length` bytes.
    ///
    /// # Errors
    /// The queue pair cannot go on.
    pub fn on_answer(
        &mut self,
        bytes: &[u8],
        length: u32,
    ) -> Result<Option<RdmaCompleted<B>>, RdmaHostFatal> {
        self.posted -= 1;
        if length != COMPLETION_BYTES as u32 {
            return Err(self.end(RdmaHostFatal::Length(length)));
        }
        let cqe = Cqe::read_from_bytes(&bytes[..COMPLETION_BYTES]).expect("as many bytes as a completion");
        let unknown = RdmaHostFatal::Unknown(cqe.cid());
        let Some(number) = self.numbers.get(cqe.cid()) else { return Err(self.end(unknown)) };
        let command = self.commands.at(number);
        if command.answer.replace(cqe).is_some() {
            return Err(self.end(unknown));
        }
        self.sqhd = cqe.sqhd();
        Ok(self.complete(number))
    }

    /// The buffer of the command with this tag, while the controller may reach it: for tests whose controller has no device.
    pub fn reached(&mut self, tag: u16) -> Option<&mut B> {
        self.commands.find(tag)?.buffer.as_mut()
    }

    /// Why the queue pair has ended, if it has.
    pub fn fatal(&self) -> Option<RdmaHostFatal> {
        self.fatal
    }

    /// Commands submitted and not yet completed.
    pub fn outstanding(&self) -> usize {
        self.numbers.len()
    }

    /// Capsules that wait to be posted.
    pub fn transmit_pending(&self) -> usize {
        self.transmit.len()
    }

    /// The submission queue head that the controller sent last.
    pub fn sqhd(&self) -> u16 {
        self.sqhd
    }

    /// Returns every outstanding command and its buffer. Destroy the queue pair before: until then the controller may write to them.
    pub fn into_outstanding(mut self, mut give: impl FnMut(Sqe, Option<B>)) {
        for command in self.commands.drain() {
            give(command.sqe, command.buffer);
        }
    }

    fn complete(&mut self, number: u16) -> Option<RdmaCompleted<B>> {
        let command = self.commands.at(number);
        let cqe = command.answer.filter(|_| command.is_sent)?;
        let Command { sqe, buffer, asked, .. } = self.commands.remove(number);
        self.numbers.remove(sqe.cid());
        let received = if cqe.status().is_success() { asked } else { 0 };
        Some(RdmaCompleted { cqe, data: buffer, received })
    }

    fn end(&mut self, fatal: RdmaHostFatal) -> RdmaHostFatal {
        self.transmit.clear();
        *self.fatal.get_or_insert(fatal)
    }
}
