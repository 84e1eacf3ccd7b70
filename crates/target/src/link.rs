//! One connection: a socket of the reactor and the transport that speaks on it.
//!
//! ```text
//!   Received ──► parse ──► events (commands)          what cannot be parsed yet is held, and the socket paused
//!   replies ──► transport ──flush──► one batch in flight ──► Sent
//! ```
//!
//! Used by the acceptor, which knows connections before they belong to anybody, and by the pipelines. A link moves between them
//! as a socket and a transport.
//!
//! Holds: at most one batch is in flight; nothing is read from a socket whose bytes cannot be used.

use crate::account::{ConnectionAccount, Permit};
use crate::payload::{Intake, Intakes, Outlet, Payload};
use nvme::connection::{Cancel, Fatal, Pause, TargetConnection, TargetEvent};
use nvme::spec::{Cqe, Status};
use reactor::{IoBuffer, Reactor, SendBatch, Token};
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Instant, Nanos};

/// Commands and other news from a connection.
pub(crate) type Events = Vec<TargetEvent<Payload>>;

/// A socket and its transport.
pub(crate) struct Link {
    /// The socket on this thread's reactor.
    pub(crate) token: Token,
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// What speaks on the socket.
    pub(crate) transport: TargetConnection<Payload>,
    /// What the connection holds is charged to this.
    pub(crate) account: Arc<ConnectionAccount>,
    /// Whether memory was refused: `parse_held` when some came back.
    pub(crate) starved: bool,
    /// Commands handed out and not answered.
    delivered: usize,
    /// Received and not parsed.
    held: Vec<u8>,
    paused: bool,
    /// The batch, while none is in flight.
    batch: Option<SendBatch>,
    /// For what is in the batch that is in flight.
    in_flight: Vec<Permit>,
    sending_since: Option<Instant>,
    /// When a command was last complete, or no data was owed. Bytes alone are no progress: a host that sends one now and then
    /// would hold the memory of its commands for ever.
    progressed_at: Instant,
    /// For how long the connection was not read because memory was short, in all and since when it has been so again.
    unread: Nanos,
    unread_since: Option<Instant>,
    ending: bool,
}

/// Permits for which a connection keeps memory when all were sent.
const PERMITS_KEPT: usize = 64;

impl Link {
    /// A link on a socket that the reactor has taken over.
    pub(crate) fn new(
        now: Instant,
        token: Token,
        peer: SocketAddr,
        transport: TargetConnection<Payload>,
        account: Arc<ConnectionAccount>,
    ) -> Link {
        Link {
            token,
            peer,
            transport,
            account,
            starved: false,
            delivered: 0,
            held: Vec::new(),
            paused: false,
            batch: Some(SendBatch::new()),
            in_flight: Vec::new(),
            sending_since: None,
            progressed_at: now,
            unread: Nanos::ZERO,
            unread_since: None,
            ending: false,
        }
    }

    /// A link that moved here with a command that was delivered elsewhere and is to be answered here.
    pub(crate) fn with_delivered(
        now: Instant,
        token: Token,
        peer: SocketAddr,
        transport: TargetConnection<Payload>,
        account: Arc<ConnectionAccount>,
    ) -> Link {
        Link { delivered: 1, ..Link::new(now, token, peer, transport, account) }
    }

    /// Bytes have arrived; what they say is added to `events`.
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
        let owed = self.owes_data();
        let before = events.len();
        let taken = if self.held.is_empty() { self.parse(bytes, intakes, events)? } else { 0 };
        if !owed || events.len() > before {
            self.progressed_at = now;
        }
        if taken < bytes.len() {
            self.held.extend(&bytes[taken..]);
            if !self.paused {
                self.paused = true;
                reactor.pause_receive(self.token);
            }
        }
        self.note_unread(now);
        Ok(())
    }

    /// Keeps `unread` when the parse was stopped or goes on.
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

    /// Tries again what was held back: after memory came back, and after replies were sent.
    pub(crate) fn parse_held(
        &mut self,
        now: Instant,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        self.starved = false;
        if self.ending {
            return Ok(());
        }
        self.transport.resume(&mut Intake { intakes, account: &self.account, starved: &mut self.starved });
        let held = std::mem::take(&mut self.held);
        let taken = self.parse(&held, intakes, events)?;
        self.held = held;
        self.held.drain(..taken);
        if self.held.is_empty() {
            self.held = Vec::new();
        }
        if self.paused && self.held.is_empty() {
            self.paused = false;
            self.progressed_at = now;
            reactor.resume_receive(self.token);
        }
        self.note_unread(now);
        Ok(())
    }

    /// Whether `parse_held` waits for replies to be sent.
    pub(crate) fn waits_for_transmit(&self) -> bool {
        self.paused && self.transport.paused() != Some(Pause::Buffers)
    }

    /// Takes the bytes that were received and not parsed, for a link that moves.
    pub(crate) fn take_held(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn parse(&mut self, bytes: &[u8], intakes: &mut Intakes, events: &mut Events) -> Result<usize, Fatal> {
        let before = events.len();
        let mut intake = Intake { intakes, account: &self.account, starved: &mut self.starved };
        let result = self.transport.on_bytes(bytes, &mut intake, events);
        self.take_discarded(intakes);
        let new = &events[before..];
        for event in new {
            match event {
                TargetEvent::Command { .. } => self.delivered += 1,
                TargetEvent::Fused { .. } => self.delivered += 2,
                TargetEvent::GivenUp { .. } => self.delivered -= 1,
                TargetEvent::Initialized { .. } | TargetEvent::Refused { .. } => {}
            }
        }
        result
    }

    /// Answers a command with `status` if it waits for its data, or for memory.
    pub(crate) fn cancel(&mut self, cid: u16, status: Status, intakes: &mut Intakes) -> Cancel {
        let cancel = self.transport.cancel(cid, status);
        self.take_discarded(intakes);
        cancel
    }

    /// Takes back the memory of commands that the transport has refused.
    fn take_discarded(&mut self, intakes: &mut Intakes) {
        self.transport.take_discarded(|payload| {
            if let Some((buffer, permit)) = payload.into_pooled() {
                intakes.give(buffer, permit.account());
            }
        });
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, cqe: Cqe) {
        self.delivered -= 1;
        self.transport.reply(cqe);
    }

    /// Takes back a command that was held for an event; it is not answered.
    pub(crate) fn forget(&mut self, cid: u16) {
        if self.transport.forget(cid) {
            self.delivered -= 1;
        }
    }

    /// Answers a command with data.
    pub(crate) fn reply_with_data(&mut self, cqe: Cqe, payload: Payload, length: u32) {
        self.delivered -= 1;
        self.transport.reply_with_data(cqe, payload, length);
    }

    /// Answers a command with what the controller says of itself: `length` bytes, of which `page` has those before the zeroes.
    pub(crate) fn reply_with_page(&mut self, cqe: Cqe, page: Vec<u8>, mut permit: Permit, length: u32) {
        permit.shrink_to(page.capacity() as u64);
        self.reply_with_data(cqe, Payload::Page(page, permit), length);
    }

    /// Hands what waits to be sent to the reactor, unless a batch is in flight already.
    pub(crate) fn flush(&mut self, now: Instant, reactor: &mut Reactor) {
        if self.transport.transmit_pending() == 0 {
            return;
        }
        let Some(mut batch) = self.batch.take() else { return };
        self.transport.set_time(self.attentive(now));
        self.transport.poll_transmit(&mut Outlet { batch: &mut batch, permits: &mut self.in_flight });
        match reactor.send(self.token, batch) {
            Ok(()) => self.sending_since = Some(now),
            // The connection is gone, which its receiving side reports.
            Err(refused) => self.batch = Some(refused.item),
        }
    }

    /// A batch was sent: its buffers and its permits go back to `give`. The next may be flushed.
    pub(crate) fn on_sent(
        &mut self,
        mut batch: SendBatch,
        mut give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) {
        batch.drain_buffers().for_each(|buffer| give(Some(buffer), None));
        self.in_flight.drain(..).for_each(|permit| give(None, Some(permit)));
        self.in_flight.shrink_to(PERMITS_KEPT);
        self.batch = Some(batch);
        self.sending_since = None;
    }

    /// No more is parsed; when all that waits was sent, `is_spent` answers true.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        self.held = Vec::new();
    }

    /// Whether no more is parsed.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether the link has ended and sent its last words.
    pub(crate) fn is_spent(&self) -> bool {
        self.ending && self.transport.transmit_pending() == 0 && self.batch.is_some()
    }

    /// Takes the link apart: every payload that it holds, and the permits of what the reactor is sending, go to `payload` and
    /// `permit`. The buffers that are being sent go home by themselves when the kernel is done with them.
    pub(crate) fn into_parts(self, payload: impl FnMut(Payload), permit: impl FnMut(Permit)) {
        self.transport.into_buffers(payload);
        self.in_flight.into_iter().for_each(permit);
    }

    /// Whether nothing is in flight on the socket in our direction.
    pub(crate) fn all_sent(&self) -> bool {
        self.transport.transmit_pending() == 0 && self.batch.is_some()
    }

    /// How long the other end has owed us something: the reading of our replies, or data it announced.
    pub(crate) fn stalled_for(&self, now: Instant) -> Nanos {
        let unread = self.sending_since.map_or(Nanos::ZERO, |since| now.saturating_since(since));
        let is_awaited = self.owes_data() && !self.paused;
        let unsent = if is_awaited { now.saturating_since(self.progressed_at) } else { Nanos::ZERO };
        unread.max(unsent)
    }

    /// Whether data of commands is to come.
    fn owes_data(&self) -> bool {
        self.transport.outstanding() > self.delivered + self.transport.parked()
    }

    /// The time that has passed but for what the connection was not read because memory was short: the host could not send then.
    fn attentive(&self, now: Instant) -> Instant {
        let unread = self.unread + self.unread_since.map_or(Nanos::ZERO, |since| now.saturating_since(since));
        Instant(now.0.saturating_sub(unread.get()))
    }

    /// How long the host has owed the data of one write: from the R2T on, without the time in which it could not send.
    pub(crate) fn transfer_awaited_for(&self, now: Instant) -> Nanos {
        let since = self.transport.awaited_since();
        since.map_or(Nanos::ZERO, |since| self.attentive(now).saturating_since(since))
    }
}
