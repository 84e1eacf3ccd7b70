//! A connection of NVMe/TCP on the reactor of its thread: a socket, and PDUs on it.
//!
//! ```text
//!   Received ──► parse ──► events (commands)          bytes that cannot be parsed yet are held, and the socket is paused
//!   replies ──► transport ──flush──► one batch in flight ──► Sent
//! ```
//!
//! With TLS, records are taken apart before the parser and put together before the batch; data is then copied on its way.
//!
//! The acceptor uses it before Connect, the pipelines and connection threads afterwards. A connection moves between threads as a
//! [`TcpMoving`].
//!
//! Holds: at most one batch is in flight; a socket is not read while its bytes cannot be parsed.

use super::secured::{Sealing, Secured};
use super::{Events, Fatal};
use crate::account::{ConnectionAccount, Permit};
use crate::payload::{Intake, Intakes, Outlet, Payload};
use auth::hello::Alert;
use nvme::queue::{Cancel, FlowControl, TargetEvent};
use nvme::spec::{ConnectCommand, Cqe, Status};
use nvme::subsystem::Connected;
use nvme::tcp::{Pause, TargetConnection, TargetLimits};
use reactor::{IoBuffer, Reactor, SendBatch, Token};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tls::{Read, Spares};
use units::{Instant, Nanos};

/// A socket and its transport.
pub(crate) struct TcpConnection {
    /// The socket on this thread's reactor.
    pub(super) token: Token,
    /// The other end.
    pub(super) peer: SocketAddr,
    /// The NVMe/TCP state of the connection.
    transport: TargetConnection<Payload>,
    /// TLS, if the host has begun with it, unless it is in use.
    secured: Option<Box<Secured>>,
    /// Whether the socket may be read without the receive buffers: its bytes are no records.
    may_pull: bool,
    /// The account for the memory that the connection holds.
    pub(super) account: Arc<ConnectionAccount>,
    /// Whether memory was refused. Call `parse_held` when some was returned.
    pub(super) waits_for_memory: bool,
    /// Commands that were delivered and not answered.
    delivered: usize,
    /// Bytes that were received and not parsed.
    held: Vec<u8>,
    paused: bool,
    /// Whether the socket is read, not reported: much data of one write is on its way.
    pulls: bool,
    /// Whether there was more than one large write at a time since.
    streams: bool,
    /// The batch; `None` while it is in flight.
    batch: Option<SendBatch>,
    /// Permits for the data in the batch in flight.
    in_flight: Vec<Permit>,
    sending_since: Option<Instant>,
    /// When a command was last complete, or no data was awaited. Bytes alone are no progress: otherwise a host that sends a byte now
    /// and then could hold the memory of its commands for ever.
    progressed_at: Instant,
    /// For how long, in total, the socket was not read: memory was refused, or the target did not run. Since when memory is refused.
    unread: Nanos,
    unread_since: Option<Instant>,
    ending: bool,
}

/// Bytes that one connection may read in a turn, before it is the turn of others. Few: large writes that end in the same turn are answered together, and
/// then the host sends the next ones together and host and target wait for each other (`docs/notes/performance.md`).
const READ_AT_ONCE: usize = 64 << 10;

/// The capacity of `in_flight` that a connection keeps.
const PERMITS_KEPT: usize = 64;

impl TcpConnection {
    /// A connection that was just accepted, on a socket of the reactor.
    pub(crate) fn accepted(
        now: Instant,
        token: Token,
        peer: SocketAddr,
        limits: TargetLimits,
        account: Arc<ConnectionAccount>,
    ) -> TcpConnection {
        TcpConnection::new(now, token, peer, TargetConnection::new(limits), account)
    }

    fn new(
        now: Instant,
        token: Token,
        peer: SocketAddr,
        transport: TargetConnection<Payload>,
        account: Arc<ConnectionAccount>,
    ) -> TcpConnection {
        TcpConnection {
            token,
            peer,
            transport,
            secured: None,
            may_pull: true,
            account,
            waits_for_memory: false,
            delivered: 0,
            held: Vec::new(),
            paused: false,
            pulls: false,
            streams: false,
            batch: Some(SendBatch::new()),
            in_flight: Vec::new(),
            sending_since: None,
            progressed_at: now,
            unread: Nanos::ZERO,
            unread_since: None,
            ending: false,
        }
    }

    /// Begins TLS. The bytes that were received before this, and everything after them, are its records.
    pub(crate) fn secure(&mut self, stream: tls::Stream) {
        self.secured = Some(Box::new(Secured::new(stream)));
        self.may_pull = false;
    }

    /// Whether TLS was begun and its handshake is not done.
    pub(crate) fn is_securing(&self) -> bool {
        self.secured.as_ref().is_some_and(|secured| !secured.stream.is_up())
    }

    /// Parses bytes that have arrived. Adds the resulting events to `events`.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        bytes: &[u8],
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        if self.ending {
            return Ok(());
        }
        let awaited = self.awaits_data();
        let before = events.len();
        match &mut self.secured {
            None => self.take_in(bytes, intakes, reactor, events)?,
            Some(secured) => {
                let inlet = secured.stream.inlet();
                inlet.pass(bytes, || self.take_in_records(now, intakes, reactor, events))?;
            }
        }
        if !awaited || events.len() > before {
            self.progressed_at = now;
        }
        self.note_unread(now);
        Ok(())
    }

    /// Reads the bytes that have arrived: the rest of a payload straight to where it belongs, the rest by way of `scratch`.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        scratch: &mut [u8],
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        let mut left = READ_AT_ONCE;
        while !self.paused {
            let (awaited, awaited_bulk) = (self.awaits_data(), self.transport.awaits_bulk());
            let before = events.len();
            let place = if self.ending { &mut [][..] } else { self.transport.place() };
            let room = (place.len(), scratch.len());
            let Some(count) = reactor.read(self.token, [place, scratch]) else { break };
            let placed = count.min(room.0);
            if placed > 0 {
                self.transport.on_placed(placed, events);
                self.after_events(&events[before..], intakes);
            }
            if !self.ending
                && let Err(fatal) = self.take_in(&scratch[..count - placed], intakes, reactor, events)
            {
                // The end of the connection is still to be seen.
                reactor.read_later(self.token);
                return Err(fatal);
            }
            if !awaited || events.len() > before {
                self.progressed_at = now;
            }
            if !awaited_bulk && !self.transport.awaits_bulk() {
                (self.pulls, self.streams) = (false, false);
                reactor.push_receive(self.token);
                break;
            }
            if count < room.0 + room.1 {
                break;
            }
            left = left.saturating_sub(count);
            if left == 0 {
                reactor.read_later(self.token);
                break;
            }
        }
        if self.pulls {
            reactor.expect(self.token, self.transport.place().len());
            self.streams |= self.transport.awaits_much();
            if self.streams {
                reactor.rest();
            }
        }
        self.note_unread(now);
        Ok(())
    }

    /// Parses bytes, and holds those that cannot be parsed yet.
    fn take_in(
        &mut self,
        bytes: &[u8],
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        let taken = if self.held.is_empty() { self.parse(bytes, intakes, events)? } else { 0 };
        self.pull_bulk(reactor);
        if taken < bytes.len() {
            self.held.extend(&bytes[taken..]);
            if !self.paused {
                self.paused = true;
                reactor.pause_receive(self.token);
            }
        }
        Ok(())
    }

    /// Goes on with the handshake, or takes in the plaintext of records: the rest of a payload straight to where it belongs.
    fn take_in_records(
        &mut self,
        now: Instant,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        let Some(mut secured) = self.secured.take() else { return Ok(()) };
        let mut plain = intakes.take_plain();
        let result = self.take_in_plain((now, &mut secured, &mut plain), intakes, reactor, events);
        intakes.give_plain(plain);
        self.secured = Some(secured);
        result
    }

    fn take_in_plain(
        &mut self,
        (now, secured, plain): (Instant, &mut Secured, &mut [u8]),
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        let is_up = secured.stream.negotiate();
        if !secured.keep(is_up)? {
            return Ok(());
        }
        while !self.paused && !self.ending {
            let place = self.transport.place();
            let is_placed = !place.is_empty();
            let read = secured.stream.read(now.0, if is_placed { place } else { plain });
            let Read::Bytes(count) = secured.keep(read)? else { break };
            if is_placed {
                let before = events.len();
                self.transport.on_placed(count, events);
                self.after_events(&events[before..], intakes);
            } else {
                self.take_in(&plain[..count], intakes, reactor, events)?;
            }
        }
        Ok(())
    }

    /// Leaves the receive buffers when much data of one write is going to come. Records have to pass through them.
    fn pull_bulk(&mut self, reactor: &mut Reactor) {
        if !self.pulls && self.may_pull && self.transport.awaits_bulk() {
            self.pulls = true;
            reactor.pull_receive(self.token);
        }
    }

    /// Reads nothing more.
    pub(crate) fn pause(&self, reactor: &mut Reactor) {
        reactor.pause_receive(self.token);
    }

    /// Updates `unread` when parsing stops or continues.
    fn note_unread(&mut self, now: Instant) {
        let is_unread = self.paused && self.transport.paused() == Some(Pause::Buffers);
        match self.unread_since {
            None if is_unread => self.unread_since = Some(now),
            Some(since) if !is_unread => {
                self.unread += now.saturating_since(since);
                self.unread_since = None;
            }
            _ => {}
        }
    }

    /// Parses held bytes: after memory was returned, and after replies were sent.
    pub(crate) fn parse_held(
        &mut self,
        now: Instant,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        self.waits_for_memory = false;
        if self.ending {
            return Ok(());
        }
        self.transport.resume(&mut Intake {
            intakes,
            account: &self.account,
            waits_for_memory: &mut self.waits_for_memory,
        });
        let held = std::mem::take(&mut self.held);
        let taken = self.parse(&held, intakes, events)?;
        self.pull_bulk(reactor);
        self.held = held;
        self.held.drain(..taken);
        match (self.held.is_empty(), self.paused) {
            (true, was_paused) => {
                self.held = Vec::new();
                if was_paused {
                    self.paused = false;
                    self.progressed_at = now;
                    reactor.resume_receive(self.token);
                }
                self.take_in_records(now, intakes, reactor, events)?;
            }
            // It has moved here with them.
            (false, false) => {
                self.paused = true;
                reactor.pause_receive(self.token);
            }
            (false, true) => {}
        }
        self.note_unread(now);
        Ok(())
    }

    /// Whether `parse_held` waits for replies to be sent.
    pub(crate) fn waits_for_transmit(&self) -> bool {
        self.paused && self.transport.paused() != Some(Pause::Buffers)
    }

    /// Keeps bytes that arrive while the connection is about to move. Returns the number of all bytes that are not parsed.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> usize {
        match &mut self.secured {
            None => self.held.extend_from_slice(bytes),
            Some(secured) => secured.stream.on_bytes(bytes),
        }
        self.held.len() + self.secured.as_ref().map_or(0, |secured| secured.stream.waiting())
    }

    /// Whether there are bytes that were received and not parsed.
    pub(crate) fn has_unparsed(&self) -> bool {
        !self.held.is_empty() || self.secured.as_ref().is_some_and(|secured| secured.stream.waiting() > 0)
    }

    /// The connection without its reactor, which has returned the `socket`.
    pub(super) fn into_moving(self, socket: TcpStream) -> TcpMoving {
        let TcpConnection { peer, transport, delivered, held, secured, .. } = self;
        TcpMoving { socket, peer, transport, delivered, held, secured }
    }

    /// Sets up the queue as its Connect was granted.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        set_up_queue(&mut self.transport, connected.entries, connected.flow_control_disabled);
        allow_by_controller(&mut self.transport, connected);
    }

    /// The host has proved who it is, and its controller is on this thread.
    pub(crate) fn allow_transfers(&mut self) {
        self.transport.allow_transfers();
    }

    /// Sets up the queue for the commands of a proof, before its Connect is granted.
    pub(crate) fn set_up_for_proof(&mut self, connect: &ConnectCommand) {
        let flow = flow_control(connect.disables_flow_control());
        self.transport.set_queue_unproved(connect.entries(), flow);
    }

    /// Completions of reads carry credits, so that each needs a response of its own, or not.
    pub(crate) fn set_credits(&mut self, is_enabled: bool) {
        self.transport.set_success_without_response(!is_enabled);
    }

    /// Marks a command that is answered only if an event happens.
    pub(crate) fn hold(&mut self, cid: u16) {
        self.transport.hold(cid);
    }

    /// Whether a command follows the one that is not answered yet.
    pub(crate) fn has_more_than_one(&self) -> bool {
        self.transport.outstanding() > 1
    }

    /// Whether answers wait to be sent.
    pub(crate) fn has_to_send(&self) -> bool {
        match &self.secured {
            None => self.transport.transmit_pending() > 0,
            Some(secured) => {
                secured.has_to_send() || (!secured.is_broken && self.transport.transmit_pending() > 0)
            }
        }
    }

    /// Refuses a host that begins with TLS: the alert is the last that it gets.
    pub(crate) fn refuse_tls(&mut self, now: Instant, alert: Alert, reactor: &mut Reactor) {
        self.end();
        let Some(mut batch) = self.batch.take() else { return };
        batch.push_bytes(&alert.record());
        self.send(now, batch, reactor);
    }

    fn parse(&mut self, bytes: &[u8], intakes: &mut Intakes, events: &mut Events) -> Result<usize, Fatal> {
        let before = events.len();
        let mut intake =
            Intake { intakes, account: &self.account, waits_for_memory: &mut self.waits_for_memory };
        let result = self.transport.on_bytes(bytes, &mut intake, events);
        self.after_events(&events[before..], intakes);
        Ok(result?)
    }

    /// Counts commands that are new, and returns the memory of those that the transport has refused.
    fn after_events(&mut self, new: &[TargetEvent<Payload>], intakes: &mut Intakes) {
        self.take_discarded(intakes);
        for event in new {
            match event {
                TargetEvent::Command { .. } => self.delivered += 1,
                TargetEvent::Fused { .. } => self.delivered += 2,
                TargetEvent::GivenUp { .. } => self.delivered -= 1,
                TargetEvent::Initialized | TargetEvent::Refused { .. } => {}
            }
        }
    }

    /// Completes a command with `status` if it waits for its data, or for memory.
    pub(crate) fn cancel(&mut self, cid: u16, status: Status, intakes: &mut Intakes) -> Cancel {
        let cancel = self.transport.cancel(cid, status);
        self.take_discarded(intakes);
        cancel
    }

    /// Returns the memory of commands that the transport has refused.
    fn take_discarded(&mut self, intakes: &mut Intakes) {
        self.transport.take_discarded(|payload| {
            if let Some((buffer, permit)) = payload.into_pooled() {
                intakes.give(buffer, permit.account());
            }
        });
    }

    /// Completes a command.
    pub(crate) fn reply(&mut self, cqe: Cqe) {
        self.delivered -= 1;
        self.transport.reply(cqe);
    }

    /// Removes a command that was held for an event. It is not answered.
    pub(crate) fn forget(&mut self, cid: u16) {
        if self.transport.forget(cid) {
            self.delivered -= 1;
        }
    }

    /// Completes a command with data.
    pub(crate) fn reply_with_data(&mut self, cqe: Cqe, payload: Payload, length: u32) {
        self.delivered -= 1;
        self.transport.reply_with_data(cqe, payload, length);
    }

    /// Gives the bytes to send to the reactor, unless a batch is in flight already. Records are made in memory of `spares`.
    pub(crate) fn flush(&mut self, now: Instant, reactor: &mut Reactor, spares: &mut Spares) {
        if !self.has_to_send() {
            return;
        }
        let Some(mut batch) = self.batch.take() else { return };
        self.transport.set_time(self.readable_time(now));
        let permits = &mut self.in_flight;
        match &mut self.secured {
            None => {
                self.transport.poll_transmit(&mut Outlet { batch: &mut batch, permits });
            }
            Some(secured) => {
                secured.stream.make_room(spares);
                let is_up = secured.stream.is_up();
                let mut sealing = Sealing { secured, batch: &mut batch, permits };
                if is_up {
                    self.transport.poll_transmit(&mut sealing);
                }
                sealing.finish();
            }
        }
        if batch.is_empty() {
            // TLS has failed, which the receiving side reports.
            self.batch = Some(batch);
            return;
        }
        self.send(now, batch, reactor);
    }

    fn send(&mut self, now: Instant, batch: SendBatch, reactor: &mut Reactor) {
        match reactor.send(self.token, batch) {
            Ok(()) => self.sending_since = Some(now),
            // The connection is closed. The receiving side reports that.
            Err(refused) => self.batch = Some(refused.item),
        }
    }

    /// A batch was sent. Its buffers and permits go to `give`, memory of records to `spares`. The next batch can be flushed.
    pub(crate) fn on_sent(
        &mut self,
        mut batch: SendBatch,
        spares: &mut Spares,
        mut give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) {
        if self.secured.is_some() {
            spares.give(batch.take_vec());
        }
        batch.drain_buffers().for_each(|buffer| give(Some(buffer), None));
        self.in_flight.drain(..).for_each(|permit| give(None, Some(permit)));
        self.in_flight.shrink_to(PERMITS_KEPT);
        self.batch = Some(batch);
        self.sending_since = None;
    }

    /// Stops parsing. When everything was sent, `is_spent` is true.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        self.held = Vec::new();
    }

    /// Whether parsing has stopped.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Takes the connection apart. Every payload that it holds goes to `payload`; the permits of the batch in flight go to `permit`. The
    /// buffers of that batch return to their pool when the kernel is done with them.
    pub(crate) fn into_parts(self, payload: impl FnMut(Payload), permit: impl FnMut(Permit)) {
        self.transport.into_buffers(payload);
        self.in_flight.into_iter().for_each(permit);
    }

    /// Whether everything was sent.
    pub(crate) fn all_sent(&self) -> bool {
        !self.has_to_send() && self.batch.is_some()
    }

    /// The time by which the host is late: to read replies, or to send data that it announced.
    pub(crate) fn stalled_for(&self, now: Instant) -> Nanos {
        let unread = self.sending_since.map_or(Nanos::ZERO, |since| now.saturating_since(since));
        let is_awaited = self.awaits_data() && !self.paused;
        let unsent = if is_awaited { now.saturating_since(self.progressed_at) } else { Nanos::ZERO };
        unread.max(unsent)
    }

    /// Excludes a time in which the target did not run: that is not the host's time.
    pub(crate) fn extend(&mut self, by: Nanos) {
        self.progressed_at += by;
        self.sending_since = self.sending_since.map(|since| since + by);
        self.unread_since = self.unread_since.map(|since| since + by);
        self.unread += by;
    }

    /// Whether the host still has to send data of commands.
    fn awaits_data(&self) -> bool {
        self.transport.outstanding() > self.delivered + self.transport.parked()
    }

    /// `now` without the time in which the socket was not read: the host could not send then.
    fn readable_time(&self, now: Instant) -> Instant {
        let unread = self.unread + self.unread_since.map_or(Nanos::ZERO, |since| now.saturating_since(since));
        Instant(now.0.saturating_sub(unread.get()))
    }

    /// The time for which the data of one write has been awaited: since the R2T, without the time in which the host could not send.
    pub(crate) fn transfer_awaited_for(&self, now: Instant) -> Nanos {
        let since = self.transport.awaited_since();
        since.map_or(Nanos::ZERO, |since| self.readable_time(now).saturating_since(since))
    }
}

/// A connection on its way from one thread to another. It belongs to no reactor meanwhile, and takes along the bytes that were received and not parsed, and
/// its TLS.
pub(crate) struct TcpMoving {
    socket: TcpStream,
    pub(super) peer: SocketAddr,
    transport: TargetConnection<Payload>,
    /// Commands that are not answered: Connect, unless it was answered before.
    delivered: usize,
    /// Bytes that were received and not parsed: plaintext.
    held: Vec<u8>,
    secured: Option<Box<Secured>>,
}

impl TcpMoving {
    /// Sets up the queue as its Connect was granted. One whose Connect was answered before has its size already.
    pub(super) fn set_up(&mut self, connected: &Connected) {
        if self.delivered > 0 {
            set_up_queue(&mut self.transport, connected.entries, connected.flow_control_disabled);
        } else {
            self.transport.allow_transfers();
        }
        allow_by_controller(&mut self.transport, connected);
    }

    /// The connection on the reactor of this thread, with its Connect command, which will be answered here unless it was answered before.
    pub(super) fn arrive(
        self,
        now: Instant,
        account: Arc<ConnectionAccount>,
        reactor: &mut Reactor,
    ) -> io::Result<TcpConnection> {
        let TcpMoving { socket, peer, transport, delivered, held, secured } = self;
        let token = reactor.add_socket(socket)?;
        let connection = TcpConnection::new(now, token, peer, transport, account);
        let may_pull = secured.is_none();
        Ok(TcpConnection { delivered, held, secured, may_pull, ..connection })
    }
}

/// Sets the size and the flow control of the queue, as its Connect asked for. Done once: the queue counts from then on.
fn set_up_queue(transport: &mut TargetConnection<Payload>, entries: u32, flow_control_disabled: bool) {
    transport.set_queue(entries, flow_control(flow_control_disabled));
}

pub(super) fn flow_control(is_disabled: bool) -> FlowControl {
    if is_disabled { FlowControl::Disabled } else { FlowControl::Enabled }
}

/// Allows what the controller of a granted Connect allows.
fn allow_by_controller(transport: &mut TargetConnection<Payload>, connected: &Connected) {
    if connected.queue_id != 0 {
        transport.allow_fused();
    }
    transport.set_success_without_response(!connected.credits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Accounts, HostAccount, Supply};
    use nvme::spec::opcode::nvm;
    use nvme::spec::{Sgl, Sqe};
    use nvme::tcp::TargetLimits;
    use nvme::tcp::pdu::{CapsuleCmd, Framing, IcReq};
    use reactor::Backend;
    use std::net::{Ipv4Addr, TcpListener};
    use units::Bytes;

    const STARTED: Instant = Instant(1_000_000_000_000);
    const LENGTH: u32 = 4 << 10;

    /// A connection whose host was asked at `STARTED` for the data of a write, and has not received all of that yet.
    fn asked() -> (TcpConnection, Reactor, Intakes) {
        let mut reactor = Reactor::new(Backend::Epoll).expect("a reactor");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let peer = listener.local_addr().expect("bound");
        let token = reactor.add_socket(TcpStream::connect(peer).expect("it listens")).expect("room");
        let memory = Bytes::mib(32);
        let supply = Supply { limit: memory, floor_max: Bytes::ZERO, first: memory };
        let payer = Accounts::new([supply; 4]).payer(None, peer.ip());
        let account = ConnectionAccount::new(memory, HostAccount::new(None), payer);
        let mut connection = TcpConnection::accepted(STARTED, token, peer, TargetLimits::default(), account);
        let mut bytes = Vec::new();
        let write = Sqe::new(nvm::WRITE).with_nsid(1).with_sgl(Sgl::Transport { length: LENGTH });
        Framing::HANDSHAKE.header(&mut bytes, IcReq::new(0, 0, 0), 0, 0);
        Framing::HANDSHAKE.header(&mut bytes, CapsuleCmd::new(write), 0, 0);
        let (mut intakes, mut events) = (Intakes::new(memory), Events::new());
        let parsed = connection.receive(STARTED, &bytes, &mut intakes, &mut reactor, &mut events);
        parsed.expect("the host is correct");
        connection.flush(STARTED, &mut reactor, &mut Spares::default());
        (connection, reactor, intakes)
    }

    #[test]
    fn the_time_of_a_host_that_is_awaited_is_extended() {
        let (mut connection, _reactor, _intakes) = asked();
        let late = |connection: &TcpConnection, at| {
            (connection.stalled_for(at), connection.transfer_awaited_for(at))
        };
        let at = STARTED + Nanos::secs(7);
        assert_eq!(late(&connection, at), (Nanos::secs(7), Nanos::secs(7)));
        connection.extend(Nanos::secs(60));
        let at = at + Nanos::secs(60);
        assert_eq!(late(&connection, at), (Nanos::secs(7), Nanos::secs(7)), "the clock has jumped");
        let at = at + Nanos::secs(5);
        assert_eq!(late(&connection, at), (Nanos::secs(12), Nanos::secs(12)), "its own time goes on");
        // All replies were read.
        connection.sending_since = None;
        assert_eq!(late(&connection, at), (Nanos::secs(12), Nanos::secs(12)), "its data is awaited");
    }
}
