//! One turn of the loop: wait; take all events; run the switch; answer; send one batch per connection and thread.
//!
//! Everything is done for as many connections and IOs as have come together, so that a busy thread makes few system calls. A thread that has much to do at once goes
//! back to its connections after [`TURN_MAX`].

use super::closing::Ending;
use super::commands::Commands;
use super::message::ToPipeline;
use super::reservations::Copy;
use super::{Origin, Phase, Pipeline, key_of};
use crate::connections::SocketEnd;
use crate::log_throttle::Suppressed;
use crate::missed::MissedTime;
use crate::slab::Key;
use crate::stats::TurnStats;
use nvme::subsystem::Output;
use reactor::{Clock, Event};
use std::io;
use tracing::{debug, warn};
use units::{Instant, Nanos, earliest};

/// Upper bound for runs of the switch in one turn for waits that end before it does, for example when tokens come quickly. They avoid sending
/// replies one by one: each send takes a system call and a segment that others could have shared.
const WAITS_PER_TURN_MAX: u32 = 4;

/// The longest that a turn runs its switch again for steps that are left. Other connections wait meanwhile. A run has
/// [`Turn::STEPS_MAX`](sched::Turn::STEPS_MAX) steps, so a turn is longer by one run at most.
const TURN_MAX: Nanos = Nanos::micros(500);

/// Turns that had more to do than one turn may.
#[derive(Default)]
pub(super) struct Turns(TurnStats);

impl Turns {
    /// Whether a turn that `began` then ends now, though there is more to do.
    pub(super) fn ends(&mut self, began: Instant, now: Instant) -> bool {
        let took = now.saturating_since(began);
        if took < TURN_MAX {
            return false;
        }
        self.0.cut += 1;
        self.0.longest = self.0.longest.max(took);
        true
    }

    pub(super) fn stats(&self) -> TurnStats {
        self.0
    }
}

impl Pipeline {
    /// Runs until a message ends it.
    ///
    /// # Errors
    /// The reactor's own: a broken machine, or a bug. All threads that wait for the pipeline have been notified.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let result = self.take_turns();
        match &result {
            Ok(()) => debug!(device = %self.name, "the pipeline ends"),
            Err(error) => self.break_up(error),
        }
        result
    }

    fn take_turns(&mut self) -> io::Result<()> {
        let mut missed = MissedTime::new(self.name.to_string(), Clock.now());
        while self.phase != Phase::Ended {
            let deadline = self.deadline();
            self.beat.wait();
            self.reactor.wait(deadline)?;
            let mut now = Clock.now();
            self.beat.begin(now);
            if let Some(by) = missed.on_turn(deadline, now) {
                self.commands.wires.here.extend(by);
                self.commands.homes.extend(by);
            }
            while let Some(event) = self.reactor.next_event() {
                self.publishing.has_happened = true;
                self.on_event(now, event);
            }
            self.learning.look(now, self.commands.switch.policy());
            self.objectives.look(now, &self.name, &self.commands.switch, |tenant| self.tenants.name(tenant));
            self.watch.check(now, &self.name, &mut self.commands.switch, self.limits.hang_after);
            now = self.serve(now);
            self.check_stalls(now);
            let (hung, turns) = (self.watch.hung(), self.turns.stats());
            self.publishing.publish(now, hung, turns, &mut self.commands, &mut self.tenants);
            self.tell_untold(now);
            self.commands.note_shortage(now);
            self.flush(now);
            self.check_drained();
        }
        Ok(())
    }

    /// Runs the switch and answers, until there is nothing to do at once or the turn is long enough; then the rest is left to the
    /// next turn, after the events of all connections. Returns the time.
    fn serve(&mut self, began: Instant) -> Instant {
        let (mut now, mut waits_over) = (began, 0);
        loop {
            self.run_switch(now);
            self.run_subsystems(now);
            self.commands.serve_waiting_for_memory(now, &mut self.reactor);
            self.commands.serve_deferred(now);
            let is_left = self.commands.switch.wants_run();
            let wake = self.commands.switch.next_wake();
            if !is_left && wake.is_none() {
                return now;
            }
            let later = Clock.now();
            if is_left {
                if self.turns.ends(began, later) {
                    return later;
                }
            } else {
                if wake.is_some_and(|at| at > later) || waits_over == WAITS_PER_TURN_MAX {
                    return now;
                }
                waits_over += 1;
            }
            now = later;
        }
    }

    /// When there is something to do although nothing happens.
    fn deadline(&self) -> Option<Instant> {
        let commands = &self.commands;
        if commands.switch.wants_run() {
            return Some(Instant::ZERO);
        }
        earliest([
            commands.homes.next_timeout(),
            commands.switch.next_wake(),
            commands.wires.here.deadline(),
            self.watch.deadline(&commands.switch),
            commands.log_throttle.deadline(),
            commands.deferred.deadline(),
            self.publishing.deadline(),
        ])
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        let (commands, reactor) = (&mut self.commands, &mut self.reactor);
        let connections = &mut commands.wires.here;
        match event {
            Event::Received { token, bytes } => {
                if let Some(connection) = connections.find(token)
                    && self.phase == Phase::Running
                {
                    let parsed = connections.on_received(now, connection, bytes, reactor);
                    commands.on_parsed(now, parsed, reactor);
                }
            }
            Event::Readable { token } => {
                if let Some(connection) = connections.find(token)
                    && self.phase == Phase::Running
                {
                    let parsed = connections.on_readable(now, connection, reactor);
                    commands.on_parsed(now, parsed, reactor);
                }
            }
            Event::Ready { token } => {
                if let Some(connection) = connections.find(token) {
                    let takes_commands = self.phase == Phase::Running;
                    commands.on_ready(now, connection, takes_commands, reactor);
                }
            }
            Event::Sent { token, batch, result } => {
                if let Some(connection) = connections.find(token) {
                    commands.on_sent(now, connection, (batch, result), reactor);
                }
            }
            Event::ReceiveEnded { token, error } => {
                if let Some(connection) = connections.find(token) {
                    let end = error.map_or(SocketEnd::ClosedByHost, SocketEnd::Broken);
                    commands.close_connection(now, connection, end, reactor);
                }
            }
            Event::Disk { token, tag, result, buffer } => {
                commands.switch.on_disk(now, token, tag, result, buffer)
            }
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
        let commands = &mut self.commands;
        match message {
            ToPipeline::Batch(messages) => {
                messages.into_iter().for_each(|message| self.on_message(now, message));
            }
            ToPipeline::Event(event) => commands.on_connection_event(now, event),
            ToPipeline::Tenant(announcement) => self.on_tenant(now, announcement),
            ToPipeline::TenantGone(id) => self.on_tenant_gone(now, id),
            ToPipeline::Connection(handover) => self.on_handover(now, *handover),
            ToPipeline::Remote(io) => commands.port.on_remote_io(now, io, &mut commands.switch),
            ToPipeline::RemoteDone(done) => commands.on_remote_done(now, done),
            ToPipeline::RemoteWithdraw { from, ios } => {
                commands.port.on_remote_withdraw(now, (from, &ios), &mut commands.switch);
            }
            ToPipeline::Echo { from, io } => commands.port.on_echo_asked(from, io),
            ToPipeline::Echoed { io } => commands.on_echo(io),
            ToPipeline::PeerFailed { slot } => commands.on_peer_failed(now, slot),
            ToPipeline::QueuesGranted { session, queues, cqe } => {
                self.commands.on_queues_granted(session, queues, cqe);
            }
            ToPipeline::Computed { session, computed } => commands.on_computed(now, session, computed),
            ToPipeline::Stored { subsystem, nsid, ticket, is_stored } => {
                self.storing.on_stored(commands.homes.get_mut(subsystem), nsid, ticket, is_stored);
            }
            ToPipeline::Change(change) => self.on_change(now, *change),
            ToPipeline::Drain => {
                if self.phase == Phase::Running {
                    self.phase = Phase::Draining;
                    commands.wires.here.pause(&mut self.reactor);
                    self.wipes.stop(now, &mut commands.switch);
                }
            }
            ToPipeline::Finish => self.finish(now),
            ToPipeline::Stop => self.phase = Phase::Ended,
        }
    }

    /// Runs the switch, and answers IOs that have ended.
    fn run_switch(&mut self, now: Instant) {
        let Commands { switch, reads, .. } = &mut self.commands;
        if !switch.has_work(now) {
            return;
        }
        self.publishing.has_happened = true;
        switch.run(now, &mut self.reactor, reads.pool());
        let mut ended = std::mem::take(&mut self.ended);
        switch.take_ended(&mut ended);
        for io in ended.drain(..) {
            let slot = self.commands.switch.ios.get(io);
            let slot = slot.expect("what is over has its slot until it is answered");
            if slot.was_served() {
                self.publishing.board.late.record(slot.late());
            }
            let board = &self.publishing.board;
            if self.tenants.count(now, slot, board) {
                let scheduler = (self.commands.switch.policy(), self.commands.switch.clock());
                self.tenants.keep_slow(now, slot, board, scheduler);
            }
            match slot.owner {
                Origin::Local(_) => self.commands.answer(now, io),
                _ => self.on_other_done(now, io),
            }
        }
        self.ended = ended;
    }

    /// An IO of the switch is over that is not of a session here.
    fn on_other_done(&mut self, now: Instant, io: Key) {
        let commands = &mut self.commands;
        let mut slot = commands.switch.ios.remove(io).expect("just found");
        match slot.owner {
            Origin::Local(_) => unreachable!("it would have been answered"),
            Origin::Remote { from, io } => commands.port.answer(from, io, slot),
            Origin::Target => self.on_flushed(slot.take_result()),
            Origin::Wipe(wipe) => {
                let goes_on = self.phase == Phase::Running;
                self.wipes.on_part(now, &mut commands.switch, (wipe, slot.take_result()), goes_on);
            }
        }
    }

    /// Carries out outputs of subsystems that are not replies.
    pub(super) fn run_subsystems(&mut self, now: Instant) {
        let commands = &mut self.commands;
        for slot in 0..commands.homes.slots() {
            while let Some(output) = commands.homes.poll(now, slot) {
                match output {
                    Output::Complete { queue, cqe } => commands.reply(key_of(queue), cqe),
                    Output::Fence { queue, nsid, queues, cqe } => {
                        commands.raise_fence(now, key_of(queue), nsid, &queues, cqe);
                    }
                    Output::Store { nsid, ticket, saved } => {
                        let copy = Copy { subsystem: slot, nsid, ticket, saved };
                        let home = commands.homes.get_mut(slot).expect("it was just asked");
                        self.storing.store(home, copy, commands.port.own_mailbox());
                    }
                    Output::Forget { queue, cid } => {
                        if let Some(connection) = commands.connection(key_of(queue)) {
                            connection.forget(cid);
                        }
                    }
                    Output::CloseQueue { queue, reason } => {
                        let ending = Ending::BySubsystem(reason);
                        commands.close_session(now, key_of(queue), ending, &mut self.reactor);
                    }
                }
            }
        }
    }

    /// Sends all messages and replies: one batch per connection, one per thread.
    fn flush(&mut self, now: Instant) {
        let (commands, reactor) = (&mut self.commands, &mut self.reactor);
        loop {
            for connection in commands.wires.here.flush(now, reactor) {
                commands.close_connection(now, connection, SocketEnd::Refused, reactor);
            }
            commands.wires.flush_threads();
            let Some(lost) = commands.port.flush() else { break };
            lost.into_iter().for_each(|(slot, message)| commands.on_lost(now, slot, message));
        }
    }

    /// Disconnects hosts that do not read their replies, or do not send the data they announced.
    fn check_stalls(&mut self, now: Instant) {
        for (connection, end) in self.commands.wires.here.stalled(now, &self.limits) {
            self.commands.close_connection(now, connection, end, &mut self.reactor);
        }
    }

    /// Logs how many lines the throttle suppressed.
    fn tell_untold(&mut self, now: Instant) {
        if self.commands.log_throttle.deadline().is_none_or(|at| now < at) {
            return;
        }
        while let Some(Suppressed { address, subject, count }) = self.commands.log_throttle.poll(now) {
            warn!(?address, device = %self.name, "{subject}: {count} more in the last seconds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_time_and_the_longest_is_known() {
        let mut turns = Turns::default();
        assert!(!turns.ends(Instant(5), Instant(5) + TURN_MAX.saturating_sub(Nanos(1))));
        assert!(turns.ends(Instant(5), Instant(5) + TURN_MAX + Nanos(2)));
        assert!(turns.ends(Instant(9), Instant(9) + TURN_MAX));
        assert_eq!(turns.stats(), TurnStats { cut: 2, longest: TURN_MAX + Nanos(2) });
    }
}
