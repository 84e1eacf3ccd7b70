//! The messages of one queue pair: commands, answers, and the memory that the controller reaches for their data.
//!
//! Every command with data names the memory of its buffer, which the device has to know before (`Lend`). A buffer that is the caller's is
//! lent as it is. Data of the host itself is in a page of this connection: a copy, so that nobody changes it while it is read here.

use super::{Memory, Payload};
use crate::fault::Fault;
#[cfg(test)]
use nvme::buffer::Buffer;
use nvme::queue::{SubmitError, Transfer};
use nvme::rdma::{OpenQueue, RdmaCompleted, RdmaHost, RdmaHostOptions, RdmaHostWork, Remote};
use nvme::spec::Sqe;
use reactor::{BufferPool, IoBuffer};
use std::fmt;
use std::io;
use std::sync::Arc;
use units::Bytes;

/// Memory for pages: one for each command that an IO queue may have outstanding, and this for the logs of an admin queue.
const LOGS: Bytes = Bytes::mib(8);

/// Makes memory known to a device, so that a controller can reach it.
pub(crate) trait Lend: fmt::Debug + Send + Sync {
    /// Lends a buffer until the queue pair that is told of it is destroyed.
    fn lend(&self, buffer: &mut IoBuffer) -> io::Result<Remote>;
}

/// The end of a piece of work of a queue pair.
#[derive(Debug)]
pub(crate) enum Done {
    /// The capsule with this tag is sent.
    Sent(u16),
    /// A message has come: its first bytes, and its length.
    Answer([u8; 64], u32),
}

/// See the module.
pub(super) struct Messages {
    transport: RdmaHost<Payload>,
    queue_id: u16,
    /// Entries of the queue.
    entries: u16,
    /// Present once the queue pair is connected.
    lender: Option<Arc<dyn Lend>>,
    pages: BufferPool,
    /// Why a buffer could not be lent.
    fault: Option<io::Error>,
}

impl Messages {
    /// A queue pair that is not connected.
    pub(super) fn new(queue_id: u16, depth: u16) -> Messages {
        // One more than the depth: a full ring looks like an empty one.
        let entries = depth + 1;
        let pages = Bytes(u64::from(entries) * IoBuffer::ALIGNMENT as u64) + LOGS;
        Messages {
            transport: RdmaHost::new(RdmaHostOptions { commands_max: entries }),
            queue_id,
            entries,
            lender: None,
            pages: BufferPool::new(pages),
            fault: None,
        }
    }

    pub(super) fn open(&mut self, lender: Arc<dyn Lend>) {
        self.lender = Some(lender);
    }

    pub(super) fn open_queue(&self) -> OpenQueue {
        let entries = self.entries;
        OpenQueue { queue_id: self.queue_id, host_receives: entries, entries: u32::from(entries) }
    }

    /// Submits a command. Its data comes back if it cannot be lent, which `poll` reports.
    pub(super) fn submit(
        &mut self,
        sqe: Sqe,
        mut transfer: Transfer<Payload>,
    ) -> Result<Option<Payload>, SubmitError<Payload>> {
        let place = match &mut transfer {
            Transfer::None => None,
            Transfer::ToController(payload, _) | Transfer::FromController(payload, _) => {
                match self.lend(payload) {
                    Ok(place) => Some(place),
                    Err(error) => {
                        self.fault = Some(error);
                        let (Transfer::ToController(payload, _) | Transfer::FromController(payload, _)) =
                            transfer
                        else {
                            return Ok(None);
                        };
                        return Ok(Some(payload));
                    }
                }
            }
        };
        self.transport.submit(sqe, transfer, |_| place.expect("a command with data has a place"))?;
        Ok(None)
    }

    fn lend(&mut self, payload: &mut Payload) -> io::Result<Remote> {
        if let Memory::Own(bytes) = &payload.memory {
            let page =
                (bytes.len() <= BufferPool::LENGTH_MAX).then(|| self.pages.take(bytes.len())).flatten();
            let mut page = page.ok_or(io::ErrorKind::OutOfMemory)?;
            page.copy_from_slice(bytes);
            payload.memory = Memory::Page(page);
        }
        let (Memory::Caller(buffer) | Memory::Page(buffer)) = &mut payload.memory else {
            unreachable!("it was moved into a page")
        };
        self.lender.as_ref().expect("commands are sent when the queue pair is connected").lend(buffer)
    }

    /// Takes a page back.
    pub(super) fn give(&mut self, page: IoBuffer) {
        self.pages.give(page);
    }

    pub(super) fn wants_to_send(&self) -> bool {
        self.transport.transmit_pending() > 0 || self.fault.is_some()
    }

    pub(super) fn poll(&mut self, room: bool) -> Result<Option<RdmaHostWork>, Fault> {
        match self.fault.take() {
            Some(error) => Err(Fault::Device(Arc::new(error))),
            None => Ok(self.transport.poll(room)),
        }
    }

    pub(super) fn on_done(&mut self, done: &Done) -> Result<Option<RdmaCompleted<Payload>>, Fault> {
        match done {
            Done::Sent(tag) => Ok(self.transport.on_sent(*tag)),
            Done::Answer(bytes, length) => self.transport.on_answer(bytes, *length).map_err(Fault::Messages),
        }
    }

    #[cfg(test)]
    pub(super) fn reached(&mut self, tag: u16) -> Option<&mut [u8]> {
        Some(self.transport.reached(tag)?.bytes_mut())
    }

    /// Gives every buffer back. Destroy the queue pair before they are used for anything else.
    pub(super) fn into_outstanding(self, mut give: impl FnMut(Payload)) {
        self.transport.into_outstanding(|_, payload| payload.into_iter().for_each(&mut give));
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { queue_id, entries, transport, .. } = self;
        write!(f, "Messages(queue {queue_id} of {entries} entries, {} outstanding)", transport.outstanding())
    }
}
