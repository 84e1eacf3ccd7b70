//! One connection of a controller: its protocol state and its outstanding commands.
//!
//! ```text
//!   opening --socket connected--> greeting --ICResp--> up          (an IO queue is usable only after its own Connect: `joined`)
//!      └─────queue pair connected────────────────────> up
//! ```
//!
//! By TCP, write data is copied into the batch that goes to the socket. By RDMA, the controller reads it where it is. So the caller's
//! buffer is still here if the connection is lost, and the IO can be sent again on the next one.
//!
//! Elsewhere: `messages` is what RDMA has of its own.

mod messages;

pub(crate) use messages::{Done, Lend};

use crate::fault::Fault;
use crate::in_flight::InFlight;
use crate::request::{Movement, Request};
use auth::exchange::HostExchange;
use messages::Messages;
use nvme::buffer::{Buffer, Outgoing};
use nvme::host::{AdminCommand, AdminData, Tag};
use nvme::rdma::{OpenQueue, RdmaHostWork};
use nvme::spec::{Cqe, Sqe};
use nvme::tcp::pdu::Digests;
use nvme::tcp::{Fatal, HostConnection, HostEvent, HostOptions, Transfer};
use reactor::{IoBuffer, SendBatch};
use std::ops::Range;
use std::sync::Arc;
use units::Instant;

/// Bytes after which a batch to a socket is closed: large enough to make system calls rare, small enough that
/// the first command does not wait for the last.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// The identifier of the Asynchronous Event Request. It may stay outstanding forever, so it is not among the
/// commands that time out. No slot of the admin queue has this number.
const EVENT_REQUEST_CID: u16 = 0xfff;

/// An IO that is outstanding, or waits to be sent again.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) request: Request,
    /// Its position among all IOs of the controller.
    pub(crate) sequence: u64,
    /// Number of times that its connection was lost.
    pub(crate) losses: u32,
    /// When it was last sent.
    pub(crate) sent: Option<Instant>,
}

/// The purpose of an admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// A command of the host controller.
    Ask(Tag),
    /// Connect of an IO queue.
    Join,
    /// A message of a proof.
    Prove,
}

impl Errand {
    fn name(self) -> &'static str {
        match self {
            Errand::Ask(Tag::KeepAlive) => "Keep Alive",
            Errand::Ask(Tag::Sequence | Tag::EventRequest) => "an admin command",
            Errand::Join => "Connect of an IO queue",
            Errand::Prove => "an authentication command",
        }
    }
}

#[derive(Debug)]
enum Command {
    Io(Outstanding),
    Admin(Errand),
}

/// Memory that the connection has borrowed.
#[derive(Debug)]
struct Payload {
    /// The command it belongs to.
    cid: u16,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Caller(IoBuffer),
    Own(Vec<u8>),
    /// A copy of the connection's own that a device can reach.
    Page(IoBuffer),
}

impl Buffer for Payload {
    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Caller(buffer) | Memory::Page(buffer) => buffer,
            Memory::Own(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Caller(buffer) | Memory::Page(buffer) => buffer,
            Memory::Own(bytes) => bytes,
        }
    }
}

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The handshake is done, with these digests.
    Greeted(Digests),
    /// An IO has completed.
    Io { io: Outstanding, cqe: Cqe, received: u32 },
    /// An admin command has completed, with the data received.
    Admin { errand: Errand, cqe: Cqe, data: Vec<u8> },
    /// A completion for no outstanding command.
    Unknown(u16),
}

/// The transport's part of a connection.
#[derive(Debug)]
enum Wire {
    Tcp(Box<HostConnection<Payload>>),
    Rdma(Box<Messages>),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    commands: InFlight<Command>,
    arrived: Vec<HostEvent<Payload>>,
    returned: Vec<Payload>,
    /// The socket or queue pair is connected.
    pub(crate) is_open: bool,
    /// Its queue exists in the controller.
    pub(crate) is_joined: bool,
    /// Whether it is in the list of connections that have something to send.
    pub(crate) is_marked: bool,
    /// The proof under way on it.
    pub(crate) proof: Option<Box<HostExchange>>,
}

impl Connection {
    /// A connection by TCP for `depth` commands, not open yet.
    pub(crate) fn by_tcp(options: HostOptions, depth: u16) -> Connection {
        // One more than the depth, for the event request.
        let options = HostOptions { commands_max: depth + 1, ..options };
        Connection::new(Wire::Tcp(Box::new(HostConnection::new(options))), depth)
    }

    /// A connection by RDMA for `depth` commands of a queue, not open yet.
    pub(crate) fn by_rdma(queue_id: u16, depth: u16) -> Connection {
        Connection::new(Wire::Rdma(Box::new(Messages::new(queue_id, depth))), depth)
    }

    fn new(wire: Wire, depth: u16) -> Connection {
        Connection {
            wire,
            commands: InFlight::new(depth),
            arrived: Vec::new(),
            returned: Vec::new(),
            is_open: false,
            is_joined: false,
            is_marked: false,
            proof: None,
        }
    }

    /// Whether another command can be sent.
    pub(crate) fn has_room(&self) -> bool {
        !self.commands.is_full()
    }

    /// Number of outstanding commands.
    pub(crate) fn in_flight(&self) -> usize {
        self.commands.len()
    }

    /// When the oldest command was sent, and its name.
    pub(crate) fn oldest(&mut self) -> Option<(Instant, &'static str)> {
        let (cid, sent) = self.commands.oldest()?;
        let name = match self.commands.get_mut(cid)? {
            Command::Io(io) => io.request.operation.name(),
            Command::Admin(errand) => errand.name(),
        };
        Some((sent, name))
    }

    /// Sends an IO. There must be room.
    pub(crate) fn submit_io(&mut self, now: Instant, mut io: Outstanding) {
        io.sent = Some(now);
        let sqe = io.request.to_sqe();
        let buffer = match io.request.dataset_range() {
            Some(range) => Some(Memory::Own(range)),
            None => io.request.buffer.take().map(Memory::Caller),
        };
        let is_incoming = io.request.operation.movement() == Movement::FromController;
        let cid = self.insert(now, Command::Io(io));
        let transfer = match buffer {
            None => Transfer::None,
            Some(memory) => {
                let payload = Payload { cid, memory };
                let length = payload.bytes().len() as u32;
                if is_incoming {
                    Transfer::FromController(payload, length)
                } else {
                    Transfer::ToController(payload, length)
                }
            }
        };
        self.send(sqe.with_cid(cid), transfer);
    }

    /// Sends an admin command or the Connect of an IO queue. There must be room.
    pub(crate) fn submit_admin(&mut self, now: Instant, errand: Errand, command: AdminCommand) {
        let cid = match errand {
            Errand::Ask(Tag::EventRequest) => EVENT_REQUEST_CID,
            errand => self.insert(now, Command::Admin(errand)),
        };
        let payload = |bytes| Payload { cid, memory: Memory::Own(bytes) };
        let transfer = match command.data {
            AdminData::None => Transfer::None,
            AdminData::ToController(bytes) => {
                let length = bytes.len() as u32;
                Transfer::ToController(payload(bytes), length)
            }
            AdminData::FromController(length) => {
                Transfer::FromController(payload(vec![0; length as usize]), length)
            }
        };
        self.send(command.sqe.with_cid(cid), transfer);
    }

    fn insert(&mut self, now: Instant, command: Command) -> u16 {
        match self.commands.insert(now, command) {
            Ok(cid) => cid,
            Err(command) => panic!("{command:?} was sent to a full queue of {}", self.commands.len()),
        }
    }

    fn send(&mut self, sqe: Sqe, transfer: Transfer<Payload>) {
        // The connection accepts as many commands as there are identifiers. After it has ended, the session
        // closes the connection before it sends anything else.
        let refused = match &mut self.wire {
            Wire::Tcp(transport) => transport.submit(sqe, transfer).err(),
            Wire::Rdma(messages) => match messages.submit(sqe, transfer) {
                Ok(None) => None,
                Ok(Some(payload)) => return self.on_returned(payload),
                Err(refused) => Some(refused),
            },
        };
        if let Some(refused) = refused {
            panic!("the connection refused {sqe:?}: {:?}", refused.refusal);
        }
    }

    /// The queue pair is connected, or the socket. `lender` makes memory known to the device of a queue pair.
    pub(crate) fn open(&mut self, lender: Option<Arc<dyn Lend>>) {
        self.is_open = true;
        if let (Wire::Rdma(messages), Some(lender)) = (&mut self.wire, lender) {
            messages.open(lender);
        }
    }

    /// Takes received bytes and appends the resulting events to `events`, in order.
    pub(crate) fn on_bytes(&mut self, bytes: &[u8], events: &mut Vec<ConnectionEvent>) -> Result<(), Fatal> {
        let Wire::Tcp(transport) = &mut self.wire else { unreachable!("a queue pair has no bytes") };
        let mut arrived = std::mem::take(&mut self.arrived);
        let result = transport.on_bytes(bytes, &mut arrived);
        events.extend(arrived.drain(..).map(|event| self.on_event(event)));
        self.arrived = arrived;
        result
    }

    fn on_event(&mut self, event: HostEvent<Payload>) -> ConnectionEvent {
        match event {
            HostEvent::Initialized { digests, .. } => ConnectionEvent::Greeted(digests),
            HostEvent::Completed { cqe, data, received } => self.on_completed(cqe, data, received),
        }
    }

    /// Takes the end of a piece of work of the queue pair, and appends the event that follows, if one does.
    pub(crate) fn on_done(&mut self, done: &Done, events: &mut Vec<ConnectionEvent>) -> Result<(), Fault> {
        if let Some(completed) = self.messages().on_done(done)? {
            events.push(self.on_completed(completed.cqe, completed.data, completed.received));
        }
        Ok(())
    }

    fn on_completed(&mut self, cqe: Cqe, payload: Option<Payload>, received: u32) -> ConnectionEvent {
        if cqe.cid() == EVENT_REQUEST_CID {
            return ConnectionEvent::Admin { errand: Errand::Ask(Tag::EventRequest), cqe, data: Vec::new() };
        }
        match self.commands.remove(cqe.cid()) {
            None => ConnectionEvent::Unknown(cqe.cid()),
            Some((Command::Io(mut io), _)) => {
                if let Some(Payload { memory: Memory::Caller(buffer), .. }) = payload {
                    io.request.buffer = Some(buffer);
                }
                ConnectionEvent::Io { io, cqe, received }
            }
            Some((Command::Admin(errand), _)) => {
                let data = match payload {
                    Some(Payload { memory: Memory::Own(mut bytes), .. }) => {
                        bytes.truncate(received as usize);
                        bytes
                    }
                    Some(Payload { memory: Memory::Page(page), .. }) => {
                        let data = page[..received as usize].to_vec();
                        self.messages().give(page);
                        data
                    }
                    _ => Vec::new(),
                };
                ConnectionEvent::Admin { errand, cqe, data }
            }
        }
    }

    fn messages(&mut self) -> &mut Messages {
        match &mut self.wire {
            Wire::Rdma(messages) => messages,
            Wire::Tcp(_) => unreachable!("a socket has no messages"),
        }
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_to_send(&self) -> bool {
        self.is_open
            && match &self.wire {
                Wire::Tcp(transport) => transport.transmit_pending() > 0,
                Wire::Rdma(messages) => messages.wants_to_send(),
            }
    }

    /// The request with which the queue pair is opened.
    pub(crate) fn open_queue(&mut self) -> OpenQueue {
        self.messages().open_queue()
    }

    /// The next work for the queue pair, which has `room` for a capsule or not.
    pub(crate) fn poll_work(&mut self, room: bool) -> Result<Option<RdmaHostWork>, Fault> {
        self.messages().poll(room)
    }

    /// The memory that the controller reaches for the data of a command.
    #[cfg(test)]
    pub(crate) fn reached(&mut self, tag: u16) -> Option<&mut [u8]> {
        self.messages().reached(tag)
    }

    /// Writes the data that waits to be sent into `batch`. A queue pair has none.
    pub(crate) fn poll_transmit(&mut self, batch: &mut impl Batch) {
        let Wire::Tcp(transport) = &mut self.wire else { return };
        let mut returned = std::mem::take(&mut self.returned);
        transport.poll_transmit(&mut Gather { batch, returned: &mut returned });
        returned.drain(..).for_each(|payload| self.on_returned(payload));
        self.returned = returned;
    }

    fn on_returned(&mut self, payload: Payload) {
        if let Payload { cid, memory: Memory::Caller(buffer) } = payload
            && let Some(Command::Io(io)) = self.commands.get_mut(cid)
        {
            io.request.buffer = Some(buffer);
        }
    }

    /// The connection has ended. Returns all outstanding IOs with their buffers, oldest first. The controller may reach those of a queue
    /// pair until that is destroyed.
    pub(crate) fn into_outstanding(mut self) -> Vec<Outstanding> {
        let mut payloads = Vec::new();
        match self.wire {
            Wire::Tcp(transport) => transport.into_outstanding(|_, payload| payloads.extend(payload)),
            Wire::Rdma(messages) => messages.into_outstanding(|payload| payloads.push(payload)),
        }
        for Payload { cid, memory } in payloads {
            if let (Memory::Caller(buffer), Some(Command::Io(io))) = (memory, self.commands.get_mut(cid)) {
                io.request.buffer = Some(buffer);
            }
        }
        let ios = self.commands.drain().filter_map(|command| match command {
            Command::Io(io) => Some(io),
            Command::Admin(_) => None,
        });
        ios.collect()
    }
}

/// Bytes to be sent to a socket.
pub(crate) trait Batch {
    /// Appends a copy of `bytes`.
    fn push(&mut self, bytes: &[u8]);
    /// Whether more may be appended.
    fn has_room(&self) -> bool;
}

impl Batch for SendBatch {
    fn push(&mut self, bytes: &[u8]) {
        self.push_bytes(bytes);
    }

    fn has_room(&self) -> bool {
        self.len() < BATCH_BYTES
    }
}

impl Batch for Vec<u8> {
    fn push(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn has_room(&self) -> bool {
        self.len() < BATCH_BYTES
    }
}

/// Writes PDUs into a batch by copying.
struct Gather<'a, T> {
    batch: &'a mut T,
    returned: &'a mut Vec<Payload>,
}

impl<T: Batch> Outgoing<Payload> for Gather<'_, T> {
    fn header(&mut self, bytes: &[u8]) {
        self.batch.push(bytes);
    }

    fn payload(&mut self, payload: Payload, range: Range<usize>) {
        self.batch.push(&payload.bytes()[range]);
        self.returned.push(payload);
    }

    fn room(&self) -> bool {
        self.batch.has_room()
    }
}
