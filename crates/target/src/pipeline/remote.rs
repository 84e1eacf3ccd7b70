//! IOs for namespaces on other SSDs.
//!
//! The switch of an SSD is run by its own pipeline only, so an IO for another SSD travels there and back as a message, with
//! its buffer, in the batch of the turn (`outbox`). At most `REMOTE_OUTSTANDING_MAX` are on the way to one SSD; the others wait here, where the queues of the
//! connections bound them. So a mailbox never holds more than that from each peer.
//!
//! Holds: an IO that is sent comes back exactly once, also when it is withdrawn.

use super::commands::{IoContext, Place};
use super::message::{IoOutcome, RemoteDone, RemoteIo, ToPipeline};
use super::window::Window;
use super::{Origin, Pipeline};
use crate::slab::Key;
use crate::switch::{Failure, Request, Spent, Work};
use sched::Priority;
use std::io;
use tracing::error;
use units::{Instant, TenantId};

/// IOs that may be on the way to one other SSD.
const REMOTE_OUTSTANDING_MAX: usize = 1024;

/// What is under way to another SSD.
pub(super) type Remote = Window<RemoteIo>;

/// Nothing yet.
pub(super) fn remote() -> Remote {
    Window::new(REMOTE_OUTSTANDING_MAX)
}

impl Pipeline {
    /// Sends an IO to the pipeline of its device, now or as soon as there is room.
    pub(super) fn send_remote(
        &mut self,
        now: Instant,
        io: Key,
        tenant: TenantId,
        priority: Priority,
        work: Work,
    ) {
        let context = self.ios.get_mut(io).expect("an IO is sent once");
        let device = context.device;
        let remote = RemoteIo { from: self.index, io, tenant, priority, work };
        context.place = Place::There(self.remotes[device].push(remote));
        self.post_waiting(now, device);
    }

    fn post_waiting(&mut self, now: Instant, device: usize) {
        while let Some(io) = self.remotes[device].next() {
            match self.peers.push(device, ToPipeline::Remote(io)) {
                Ok(()) => {}
                Err(ToPipeline::Remote(io)) => {
                    self.remotes[device].on_answer();
                    self.fail_remote(now, device, io);
                }
                Err(_) => unreachable!("an outbox gives back what it was given"),
            }
        }
    }

    /// A pipeline that has ended did not take this.
    pub(super) fn on_lost(&mut self, now: Instant, device: usize, message: ToPipeline) {
        match message {
            ToPipeline::Remote(io) => {
                self.remotes[device].on_answer();
                self.fail_remote(now, device, io);
            }
            ToPipeline::Echo { io, .. } => self.on_echo(io),
            // It asks for nothing more and waits for nothing.
            _ => {}
        }
    }

    /// The other pipeline has ended: a broken machine, or the last moments of the target.
    fn fail_remote(&mut self, now: Instant, device: usize, io: RemoteIo) {
        error!(device = %self.name, other = device, "an IO fails: the pipeline of its SSD has ended");
        let credit = self.switch.policy().credit(io.tenant);
        let result = Err(Failure::Device(io::ErrorKind::BrokenPipe.into()));
        let outcome = IoOutcome { result, read: None, spent: io.work.into_buffers(), credit };
        self.on_outcome(now, io.io, outcome);
    }

    /// An IO from another pipeline.
    pub(super) fn on_remote_io(&mut self, now: Instant, io: RemoteIo) {
        let RemoteIo { from, io, tenant, priority, work } = io;
        let key =
            self.switch.arrive(now, Request { tag: Origin::Remote { from, io }, tenant, priority, work });
        self.remote_ios.insert((from, io), key);
    }

    /// Tells another pipeline how its IO ended.
    pub(super) fn answer_remote(&mut self, from: usize, io: Key, outcome: IoOutcome) {
        let done = RemoteDone { by: self.index, io, outcome };
        self.peers.tell(from, ToPipeline::RemoteDone(done));
    }

    /// Another pipeline has ended an IO of ours.
    pub(super) fn on_remote_done(&mut self, now: Instant, done: RemoteDone) {
        self.remotes[done.by].on_answer();
        self.on_outcome(now, done.io, done.outcome);
        self.post_waiting(now, done.by);
    }

    /// Another pipeline's reactor has failed: what was there is lost, what waits here need not go.
    pub(super) fn on_peer_failed(&mut self, now: Instant, slot: usize) {
        for message in self.peers.take_back(slot) {
            self.on_lost(now, slot, message);
        }
        let Some(remote) = self.remotes.get_mut(slot) else { return };
        let waiting = remote.withdraw_all();
        *remote = Window::new(REMOTE_OUTSTANDING_MAX);
        self.give_up_aborts(slot);
        waiting.into_iter().for_each(|io| self.fail_remote(now, slot, io));
        // What waits here for something else has not been sent; it fails when it is.
        let is_there = |io: &IoContext| io.device == slot && matches!(io.place, Place::There(_));
        let there = self.ios.iter().filter(|(_, io)| is_there(io));
        let there: Vec<(Key, Key)> = there.map(|(key, io)| (key, io.session)).collect();
        for (io, session) in there {
            let tenant = self.sessions.get(session).expect("a session outlives its IOs").tenant;
            let credit = self.switch.policy().credit(tenant);
            let result = Err(Failure::Device(io::ErrorKind::BrokenPipe.into()));
            self.on_outcome(now, io, IoOutcome { result, read: None, spent: Spent::Nothing, credit });
        }
    }

    /// Another pipeline takes IOs back. One that it names may have ended meanwhile.
    pub(super) fn on_remote_withdraw(&mut self, now: Instant, from: usize, ios: &[Key]) {
        for io in ios {
            let key = self.remote_ios.get(&(from, *io));
            if let Some(finished) = key.and_then(|key| self.switch.withdraw(now, *key)) {
                self.on_finished(now, finished);
            }
        }
    }
}
