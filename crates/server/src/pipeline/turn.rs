//! One turn of the loop: wait; take all events; run the switch; answer; send one batch per connection and thread.
//!
//! Everything is done for as many connections and IOs as have come together, so that a busy thread makes few system calls.

use super::message::ToPipeline;
use super::reservations::Copy;
use super::sessions::Ending;
use super::{Phase, Pipeline, key_of};
use crate::connections::SocketEnd;
use crate::log_throttle::Suppressed;
use nvme::subsystem::Output;
use reactor::{Clock, Event};
use std::io;
use tracing::{debug, warn};
use units::Instant;

/// What the switch waits for may be over before a turn ends, as when tokens come quickly. So often it is run again for that before
/// replies are sent: each of them takes a system call and a segment that others could have shared.
const WAITS_PER_TURN_MAX: u32 = 4;

impl Pipeline {
    /// Runs until it is told to end.
    ///
    /// # Errors
    /// The reactor's own: a broken machine, or a bug. Everybody who waits for the pipeline has been told.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let result = self.take_turns();
        match &result {
            Ok(()) => debug!(device = %self.name, "the pipeline ends"),
            Err(error) => self.break_up(error),
        }
        result
    }

    fn take_turns(&mut self) -> io::Result<()> {
        while self.phase != Phase::Ended {
            self.reactor.wait(self.deadline())?;
            let mut now = Clock.now();
            while let Some(event) = self.reactor.next_event() {
                self.on_event(now, event);
            }
            self.watch.check(now, &self.name, &mut self.switch, self.limits.hang_after);
            let mut waits_over = 0;
            loop {
                self.run_switch(now);
                self.run_subsystems(now);
                self.serve_waiting_for_memory(now);
                self.serve_deferred(now);
                if self.switch.wants_run() {
                    continue;
                }
                let Some(wake) = self.switch.next_wake() else { break };
                let later = Clock.now();
                if wake > later || waits_over == WAITS_PER_TURN_MAX {
                    break;
                }
                (now, waits_over) = (later, waits_over + 1);
            }
            self.check_stalls(now);
            self.tell_untold(now);
            self.flush(now);
            self.check_drained();
        }
        Ok(())
    }

    /// When there is something to do although nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let keep_alives = self.homes.next_timeout().into_iter();
        keep_alives
            .chain(self.switch.next_wake())
            .chain(self.connections.deadline())
            .chain(self.watch.deadline(&self.switch))
            .chain(self.log_throttle.deadline())
            .chain(self.deferred.deadline())
            .min()
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Received { token, bytes } => {
                if let Some(connection) = self.connections.find(token)
                    && self.phase == Phase::Running
                {
                    let parsed = self.connections.on_received(now, connection, bytes, &mut self.reactor);
                    self.on_parsed(now, parsed);
                }
            }
            Event::Sent { token, batch, result } => {
                if let Some(connection) = self.connections.find(token) {
                    self.on_sent(now, connection, batch, result);
                }
            }
            Event::ReceiveEnded { token, error } => {
                if let Some(connection) = self.connections.find(token) {
                    let end = error.map_or(SocketEnd::ClosedByHost, SocketEnd::Broken);
                    self.close_connection(now, connection, end);
                }
            }
            Event::Disk { tag, result, buffer, .. } => self.switch.on_disk(now, tag, result, buffer),
            Event::Woken => {
                while let Some(message) = self.inbox.take() {
                    self.on_message(now, message);
                }
            }
            Event::Accepted { .. }
            | Event::AcceptFailed { .. }
            | Event::Connected { .. }
            | Event::Detached { .. } => {
                unreachable!("a pipeline neither listens, connects nor detaches: {event:?}")
            }
        }
    }

    fn on_message(&mut self, now: Instant, message: ToPipeline) {
        match message {
            ToPipeline::Batch(messages) => {
                messages.into_iter().for_each(|message| self.on_message(now, message));
            }
            ToPipeline::News(news) => self.on_news(now, news),
            ToPipeline::Tenant(announcement) => self.on_tenant(now, announcement),
            ToPipeline::Connection(handover) => self.on_handover(now, *handover),
            ToPipeline::Remote(io) => self.on_remote_io(now, io),
            ToPipeline::RemoteDone(done) => self.on_remote_done(now, done),
            ToPipeline::RemoteWithdraw { from, ios } => self.on_remote_withdraw(now, from, &ios),
            ToPipeline::Echo { from, io } => self.peers.tell(from, ToPipeline::Echoed { io }),
            ToPipeline::Echoed { io } => self.on_echo(io),
            ToPipeline::PeerFailed { slot } => self.on_peer_failed(now, slot),
            ToPipeline::Stored { subsystem, nsid, ticket, is_stored } => {
                self.storing.on_stored(self.homes.get_mut(subsystem), nsid, ticket, is_stored);
            }
            // Nobody waits any more if this fails.
            ToPipeline::Stats(answer) => drop(answer.send(self.stats(now))),
            ToPipeline::Change(change) => self.on_change(now, *change),
            ToPipeline::Drain => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Draining;
                    self.connections.pause(&mut self.reactor);
                    self.wipes.stop(now, &mut self.switch);
                }
            }
            ToPipeline::Finish => self.finish(now),
            ToPipeline::Stop => self.phase = Phase::Ended,
        }
    }

    /// Lets the switch work, and answers what has ended.
    fn run_switch(&mut self, now: Instant) {
        if !self.switch.has_work(now) {
            return;
        }
        self.switch.run(now, &mut self.reactor, &mut self.reads);
        let mut ended = std::mem::take(&mut self.ended);
        self.switch.take_ended(&mut ended);
        for io in ended.drain(..) {
            let slot = self.switch.ios.get(io).expect("what is over has its slot until it is answered");
            if slot.was_served() {
                self.watch.note_late(slot.late());
            }
            self.tenants.count(now, slot);
            self.on_done(now, io);
        }
        self.ended = ended;
    }

    /// Does what subsystems want unasked.
    pub(super) fn run_subsystems(&mut self, now: Instant) {
        for slot in 0..self.homes.slots() {
            while let Some(output) = self.homes.poll(now, slot) {
                match output {
                    Output::Complete { queue, cqe } => self.reply(key_of(queue), cqe),
                    Output::Fence { queue, nsid, queues, cqe } => {
                        self.raise_fence(now, key_of(queue), nsid, &queues, cqe);
                    }
                    Output::Store { nsid, ticket, saved } => {
                        let copy = Copy { subsystem: slot, nsid, ticket, saved };
                        let home = self.homes.get_mut(slot).expect("it was just asked");
                        self.storing.store(home, copy, self.peers.mailbox(self.index));
                    }
                    Output::Forget { queue, cid } => {
                        if let Some(connection) = self.connection(key_of(queue)) {
                            connection.forget(cid);
                        }
                    }
                    Output::CloseQueue { queue, reason } => {
                        self.close_session(now, key_of(queue), Ending::BySubsystem(reason));
                    }
                }
            }
        }
    }

    /// Sends what is to be sent: one batch per connection, one per thread.
    fn flush(&mut self, now: Instant) {
        loop {
            for connection in self.connections.flush(now, &mut self.reactor) {
                self.close_connection(now, connection, SocketEnd::Refused);
            }
            // What a thread that has failed does not take is told by itself.
            self.others.flush(|_, message| drop(message));
            if !self.peers.is_filled() {
                break;
            }
            let mut lost = Vec::new();
            self.peers.flush(|slot, message| lost.push((slot, message)));
            lost.into_iter().for_each(|(slot, message)| self.on_lost(now, slot, message));
        }
    }

    /// Lets connections and sessions that were refused memory go on, in turn, once some came back.
    fn serve_waiting_for_memory(&mut self, now: Instant) {
        if std::mem::take(&mut self.memory_came_back) {
            self.connections.note_memory();
        }
        let (waiting, has_memory) = self.connections.waiting_for_memory();
        if !has_memory {
            return;
        }
        for _ in 0..waiting {
            let parsed = self.connections.serve_waiting_for_memory(now, &mut self.reactor);
            self.on_parsed(now, parsed);
        }
        for _ in 0..self.waiting_for_memory.len() {
            let key = self.waiting_for_memory.pop_front().expect("counted");
            if let Some(session) = self.sessions.get_mut(key) {
                session.waits_for_memory = false;
                self.admit_waiting(now, key);
            }
        }
    }

    /// Disconnects hosts that do not read their replies, or do not send the data they announced.
    fn check_stalls(&mut self, now: Instant) {
        for (connection, end) in self.connections.stalled(now, &self.limits) {
            self.close_connection(now, connection, end);
        }
    }

    /// Tells the numbers of what the log was spared.
    fn tell_untold(&mut self, now: Instant) {
        if self.log_throttle.deadline().is_none_or(|at| now < at) {
            return;
        }
        while let Some(Suppressed { address, subject, count }) = self.log_throttle.poll(now) {
            warn!(?address, device = %self.name, "{subject}: {count} more in the last seconds");
        }
    }
}
