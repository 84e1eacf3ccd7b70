//! The connections of one thread, and memory for data that arrives.
//!
//! ```text
//!   socket or queue pair ─► Connection ─► commands with their data ──► the session, here or on the thread of its SSD
//!   socket or queue pair ◄─ Connection ◄─ answers ◄───────────────────┘
//! ```
//!
//! This module does not know what commands mean. A connection belongs to a *session* of a pipeline. The session checks every command and
//! keeps every IO until it ends; it may be on another thread. So one thread, the pipeline's, keeps all promises about IOs (fences,
//! withdrawals, reservations, the end of a controller), and no promise depends on the state of another thread.
//!
//! Each thread has its own memory, and the permits for it. The connection's thread owns the memory for data that arrives; the pipeline's
//! thread owns the memory for data that was read and for replies of controllers. A permit returns to its owner together with its buffer.
//!
//! Holds: a socket is not read while its bytes cannot be parsed; one batch per connection and turn is sent.
//! Elsewhere: `connection` is one connection, `message` has the messages between the threads, `thread` the threads with connections and
//!            no SSD, `load` chooses the thread of a connection.

pub(crate) mod load;
pub(crate) mod message;
pub(crate) mod thread;

use crate::account::{Account, Permit};
use crate::config::Limits;
use crate::payload::{Intakes, Payload};
use crate::slab::{Key, Slab};
use crate::transport::{Connection, Events, Fatal};
use nvme::queue::Cancel;
use nvme::spec::{Cqe, Status};
use reactor::{IoBuffer, Reactor, RecvBuffer, SendBatch, Token};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use tls::Spares;
use units::{Bytes, Instant, Nanos};

/// Bytes beyond the rest of a payload that are read with it: headers, and small data. Data of the next large write that comes with its header
/// is copied once more.
const SCRATCH: usize = 4 << 10;

/// Checks for stalled hosts within one time-out.
const STALL_CHECKS: u64 = 4;

/// The session that a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The pipeline's slot.
    pub(crate) pipeline: usize,
    /// The session there.
    pub(crate) session: Key,
}

/// Reasons for closing a socket.
#[derive(Debug)]
pub(crate) enum SocketEnd {
    /// The host has closed it in order.
    ClosedByHost,
    /// The network has failed.
    Broken(io::Error),
    /// The host did not read its replies, or did not send its data, for too long.
    Stalled,
    /// The target has requested the data of a write, and the host has not sent all of it in time.
    TransferOverdue,
    /// The reason was logged before: Connect was refused, or the host violated the protocol.
    Refused,
    /// The host has reported a protocol violation, or TLS has failed.
    Terminated(Fatal),
    /// The pipeline has requested it.
    AsTold,
}

impl From<Fatal> for SocketEnd {
    fn from(fatal: Fatal) -> SocketEnd {
        match fatal {
            Fatal::ClosedByHost => SocketEnd::ClosedByHost,
            fatal => SocketEnd::Terminated(fatal),
        }
    }
}

impl fmt::Display for SocketEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketEnd::ClosedByHost => write!(f, "closed by the host"),
            SocketEnd::Broken(error) => write!(f, "the connection broke: {error}"),
            SocketEnd::Stalled => {
                write!(f, "the host neither read its replies nor sent its data within limits.stall_timeout")
            }
            SocketEnd::TransferOverdue => {
                write!(f, "the host has not sent the data of a write within limits.transfer_timeout")
            }
            SocketEnd::Refused => write!(f, "refused"),
            SocketEnd::Terminated(fatal) => write!(f, "{fatal}"),
            SocketEnd::AsTold => write!(f, "closed by the target"),
        }
    }
}

struct Entry {
    connection: Connection,
    owner: Owner,
    /// Whether it is in the list of those with something to send.
    is_dirty: bool,
    /// Whether it is in the list of those that were refused memory.
    is_waiting_for_memory: bool,
}

impl Entry {
    /// Puts it into the list of those with something to send, unless it is in it.
    fn mark_dirty(&mut self, key: Key, dirty: &mut Vec<Key>) {
        if !self.is_dirty {
            self.is_dirty = true;
            dirty.push(key);
        }
    }
}

/// The result of parsing. Return the events by [`Connections::recycle`].
pub(crate) struct Parsed {
    pub(crate) owner: Owner,
    pub(crate) key: Key,
    pub(crate) events: Events,
    /// After a violation the connection ends by itself when everything was sent. After another error it must be closed.
    pub(crate) fatal: Option<Fatal>,
}

/// The connection of a batch that was sent.
pub(crate) struct Sent {
    pub(crate) owner: Owner,
    /// Whether held bytes can be parsed.
    pub(crate) has_room: bool,
}

/// See the module.
pub(crate) struct Connections {
    table: Slab<Entry>,
    /// Ordered, as that takes fewer instructions than a hash of a key that no host chooses.
    by_token: BTreeMap<Token, Key>,
    intakes: Intakes,
    /// Memory for records of TLS to be sent.
    spares: Spares,
    /// Connections with something to send.
    dirty: Vec<Key>,
    /// Connections that were refused memory, longest waiting first.
    waiting_for_memory: VecDeque<Key>,
    /// Whether memory has come back since those were last served.
    memory_came_back: bool,
    next_stall_check: Instant,
    /// Kept for its memory from turn to turn.
    events: Events,
    /// Where bytes are read to that are not known yet.
    scratch: Box<[u8; SCRATCH]>,
}

impl Connections {
    /// An empty table, with this much memory for arriving data.
    pub(crate) fn new(memory: Bytes) -> Connections {
        Connections {
            table: Slab::new(),
            by_token: BTreeMap::new(),
            intakes: Intakes::new(memory),
            spares: Spares::default(),
            dirty: Vec::new(),
            waiting_for_memory: VecDeque::new(),
            memory_came_back: false,
            next_stall_check: Instant::ZERO,
            events: Vec::new(),
            scratch: Box::new([0; SCRATCH]),
        }
    }

    /// Changes the memory for data that arrives.
    pub(crate) fn set_memory(&mut self, memory: Bytes) {
        self.intakes.set_limit(memory);
        self.memory_came_back = true;
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory in use for data that arrives.
    pub(crate) fn memory(&mut self) -> Bytes {
        self.intakes.lent()
    }

    /// Adds a connection.
    pub(crate) fn add(&mut self, connection: Connection, owner: Owner) -> Key {
        let token = connection.token();
        let entry = Entry { connection, owner, is_dirty: false, is_waiting_for_memory: false };
        let key = self.table.insert(entry);
        self.by_token.insert(token, key);
        key
    }

    /// The connection on a socket.
    pub(crate) fn find(&self, token: Token) -> Option<Key> {
        self.by_token.get(&token).copied()
    }

    /// The owner of a connection.
    pub(crate) fn owner(&self, key: Key) -> Option<Owner> {
        Some(self.table.get(key)?.owner)
    }

    /// All connections of a pipeline.
    pub(crate) fn of_pipeline(&self, pipeline: usize) -> Vec<Key> {
        let of_it = self.table.iter().filter(|(_, entry)| entry.owner.pipeline == pipeline);
        of_it.map(|(key, _)| key).collect()
    }

    /// Stops reading from all of them.
    pub(crate) fn pause(&mut self, reactor: &mut Reactor) {
        let connections = self.table.values_mut().map(|entry| &mut entry.connection);
        connections.filter_map(|connection| connection.tcp()).for_each(|tcp| tcp.pause(reactor));
    }

    /// Whether everything was sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.table.iter().all(|(_, entry)| entry.connection.all_sent())
    }

    /// Bytes have arrived.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        key: Key,
        bytes: &[u8],
        reactor: &mut Reactor,
    ) -> Option<Parsed> {
        let entry = self.table.get_mut(key)?;
        let mut events = std::mem::take(&mut self.events);
        let result = entry.connection.tcp()?.receive(now, bytes, &mut self.intakes, reactor, &mut events);
        Some(self.after_parse(key, events, result))
    }

    /// As [`Connections::receive`], with a buffer of the reactor.
    pub(crate) fn on_received(
        &mut self,
        now: Instant,
        key: Key,
        bytes: RecvBuffer,
        reactor: &mut Reactor,
    ) -> Option<Parsed> {
        self.receive(now, key, &bytes, reactor)
    }

    /// There are bytes to read.
    pub(crate) fn on_readable(&mut self, now: Instant, key: Key, reactor: &mut Reactor) -> Option<Parsed> {
        let entry = self.table.get_mut(key)?;
        let mut events = std::mem::take(&mut self.events);
        let (scratch, intakes) = (&mut self.scratch[..], &mut self.intakes);
        let result = entry.connection.tcp()?.read(now, scratch, intakes, reactor, &mut events);
        Some(self.after_parse(key, events, result))
    }

    /// Work of a queue pair has ended. Buffers and permits of its pipeline go to `give`.
    pub(crate) fn on_ready(
        &mut self,
        now: Instant,
        key: Key,
        takes_commands: bool,
        reactor: &mut Reactor,
        give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Option<Parsed> {
        let entry = self.table.get_mut(key)?;
        let mut events = std::mem::take(&mut self.events);
        let memory = (&mut self.intakes, reactor);
        let result = entry.connection.on_ready(now, takes_commands, memory, &mut events, give);
        // There is room in its send queue, and for receives.
        self.mark_dirty(key);
        self.memory_came_back = true;
        Some(self.after_parse(key, events, result))
    }

    /// Continues with held input and writes.
    pub(crate) fn parse_held(&mut self, now: Instant, key: Key, reactor: &mut Reactor) -> Option<Parsed> {
        let entry = self.table.get_mut(key)?;
        let mut events = std::mem::take(&mut self.events);
        let result = entry.connection.parse_held(now, &mut self.intakes, reactor, &mut events);
        Some(self.after_parse(key, events, result))
    }

    fn after_parse(&mut self, key: Key, events: Events, result: Result<(), Fatal>) -> Parsed {
        let entry = self.table.get_mut(key).expect("it was just parsed");
        let owner = entry.owner;
        if entry.connection.waits_for_memory() && !entry.is_waiting_for_memory {
            entry.is_waiting_for_memory = true;
            self.waiting_for_memory.push_back(key);
        }
        let fatal = result.err();
        if fatal.as_ref().is_some_and(Fatal::is_answered) {
            entry.connection.end();
        }
        if fatal.is_some() || entry.connection.has_to_send() {
            self.mark_dirty(key);
        }
        Parsed { owner, key, events, fatal }
    }

    /// Takes back the memory of [`Parsed::events`].
    pub(crate) fn recycle(&mut self, mut events: Events) {
        events.clear();
        self.events = events;
    }

    /// Takes back the buffer and the permit of data that arrived.
    pub(crate) fn give(&mut self, buffer: Option<IoBuffer>, permit: Option<Permit>) {
        let account = permit.as_ref().map_or(Account::Transfer, Permit::account);
        if let Some(buffer) = buffer {
            self.intakes.give(buffer, account);
        }
        drop(permit);
        self.memory_came_back = true;
    }

    /// Memory was returned to another pool with the same account.
    pub(crate) fn note_memory(&mut self) {
        self.memory_came_back = true;
    }

    /// Returns the number of connections that wait for memory, and whether memory was returned since the last call. If so, call
    /// [`Connections::serve_waiting_for_memory`] that many times.
    pub(crate) fn waiting_for_memory(&mut self) -> (usize, bool) {
        (self.waiting_for_memory.len(), std::mem::take(&mut self.memory_came_back))
    }

    /// Continues the connection that has waited for memory longest.
    pub(crate) fn serve_waiting_for_memory(&mut self, now: Instant, reactor: &mut Reactor) -> Option<Parsed> {
        let key = self.waiting_for_memory.pop_front()?;
        self.table.get_mut(key)?.is_waiting_for_memory = false;
        self.parse_held(now, key, reactor)
    }

    /// Replies to a command.
    #[inline]
    pub(crate) fn reply(&mut self, key: Key, cqe: Cqe) {
        let Some(entry) = self.table.get_mut(key) else { return };
        entry.connection.reply(cqe);
        entry.mark_dirty(key, &mut self.dirty);
    }

    /// Replies to a command with data. Returns the data if the connection was closed.
    #[inline]
    pub(crate) fn reply_with_data(
        &mut self,
        key: Key,
        cqe: Cqe,
        data: Payload,
        length: u32,
    ) -> Option<Payload> {
        let Some(entry) = self.table.get_mut(key) else { return Some(data) };
        entry.connection.reply_with_data(cqe, data, length);
        entry.mark_dirty(key, &mut self.dirty);
        None
    }

    /// Stops parsing. The connection ends when everything was sent.
    pub(crate) fn end(&mut self, key: Key) {
        if let Some(entry) = self.table.get_mut(key) {
            entry.connection.end();
            self.mark_dirty(key);
        }
    }

    /// Replies to a command with `status` if it waits for its data, or for memory.
    pub(crate) fn cancel(&mut self, key: Key, cid: u16, status: Status) -> Cancel {
        let Some(entry) = self.table.get_mut(key) else { return Cancel::Unknown };
        let cancel = entry.connection.cancel(cid, status, &mut self.intakes);
        if matches!(cancel, Cancel::Answered | Cancel::Draining) {
            self.memory_came_back = true;
            self.mark_dirty(key);
        }
        cancel
    }

    /// One connection.
    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Connection> {
        Some(&mut self.table.get_mut(key)?.connection)
    }

    fn mark_dirty(&mut self, key: Key) {
        if let Some(entry) = self.table.get_mut(key) {
            entry.mark_dirty(key, &mut self.dirty);
        }
    }

    /// Sends all replies, one batch per connection. Returns the connections that have sent their last PDU.
    pub(crate) fn flush(&mut self, now: Instant, reactor: &mut Reactor) -> Vec<Key> {
        let mut spent = Vec::new();
        for key in self.dirty.drain(..) {
            let Some(entry) = self.table.get_mut(key) else { continue };
            entry.is_dirty = false;
            entry.connection.flush(now, reactor, &mut self.spares);
            if entry.connection.is_spent() {
                spent.push(key);
            }
        }
        spent
    }

    /// A batch was sent. Its buffers and permits go to `give`.
    pub(crate) fn on_sent(
        &mut self,
        key: Key,
        batch: SendBatch,
        give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Option<Sent> {
        let entry = self.table.get_mut(key)?;
        let owner = entry.owner;
        let connection = entry.connection.tcp()?;
        connection.on_sent(batch, &mut self.spares, give);
        let is_held = connection.waits_for_transmit();
        let has_room = is_held || entry.connection.waits_for_memory();
        // Commands that the transport refused by itself have dropped their buffers; their answers were sent now.
        self.memory_came_back = true;
        self.mark_dirty(key);
        Some(Sent { owner, has_room })
    }

    /// Extends all time-outs: the thread did not run for this long, which is not the hosts' fault.
    pub(crate) fn extend(&mut self, by: Nanos) {
        self.next_stall_check += by;
        self.table.values_mut().for_each(|entry| entry.connection.extend(by));
    }

    /// Returns connections whose host has stalled, if it is time to check.
    pub(crate) fn stalled(&mut self, now: Instant, limits: &Limits) -> Vec<(Key, SocketEnd)> {
        if now < self.next_stall_check {
            return Vec::new();
        }
        let (stall, transfer) = (limits.stall_timeout, limits.transfer_timeout);
        self.next_stall_check = now + Nanos(stall.min(transfer).get() / STALL_CHECKS);
        let fault = |connection: &Connection| match () {
            () if connection.stalled_for(now) >= stall => Some(SocketEnd::Stalled),
            () if connection.transfer_awaited_for(now) >= transfer => Some(SocketEnd::TransferOverdue),
            () => None,
        };
        let late = self.table.iter().filter_map(|(key, entry)| Some((key, fault(&entry.connection)?)));
        late.collect()
    }

    /// When to check for hosts that have stalled.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.table.len() > 0).then_some(self.next_stall_check)
    }

    /// Closes a connection. Buffers and permits of its pipeline go to `give`. Returns its session and the reason: `end`, or `Refused` if the
    /// reason was logged before.
    pub(crate) fn close(
        &mut self,
        key: Key,
        end: SocketEnd,
        reactor: &mut Reactor,
        mut give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Option<(Owner, SocketEnd)> {
        let Entry { connection, owner, .. } = self.table.remove(key)?;
        // The connection was ending because of its host's fault, which was logged.
        let end = if connection.is_ending() { SocketEnd::Refused } else { end };
        self.by_token.remove(&connection.token());
        reactor.close(connection.token());
        let (intakes, mut permits) = (&mut self.intakes, Vec::new());
        let payload = |payload: Payload| {
            let (buffer, permit) = payload.into_parts();
            match (buffer, permit) {
                (Some(buffer), Some(permit)) => intakes.give(buffer, permit.account()),
                (buffer, permit) => give(buffer, permit),
            }
        };
        connection.into_parts(payload, |permit| permits.push(permit));
        permits.into_iter().for_each(|permit| give(None, Some(permit)));
        self.memory_came_back = true;
        Some((owner, end))
    }
}
