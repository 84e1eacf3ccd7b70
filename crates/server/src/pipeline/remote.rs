//! IOs for namespaces on other SSDs.
//!
//! The switch of an SSD is run by its own pipeline only, so an IO for another SSD travels there and back as a message, with
//! its buffer, in the batch of the turn (`outbox`). At most `REMOTE_OUTSTANDING_MAX` are on the way to one SSD; the others wait here, where the queues of the
//! connections bound them. So a mailbox never holds more than that from each peer.
//!
//! Holds: an IO that is sent comes back exactly once, also when it is withdrawn.

use super::host_io::HostIo;
use super::message::{IoOutcome, RemoteDone, RemoteIo, ToPipeline};
use super::window::Window;
use super::{Origin, Pipeline};
use crate::slab::Key;
use crate::switch::{Failure, IoSlot, State, Work};
use std::io;
use tracing::error;
use units::Instant;

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
    pub(super) fn send_remote(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get_mut(io).expect("an IO is sent once");
        let device = slot.host_io().device;
        let (tenant, priority) = (slot.tenant(), slot.priority());
        let work = std::mem::replace(&mut slot.work, Work::Sent);
        let remote = RemoteIo { from: self.index, io, tenant, priority, work };
        slot.state = State::Remote(self.remotes[device].push(remote));
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
        self.switch.ios.get_mut(io.io).expect("it has not ended").work = io.work;
        self.end_here(now, io.io, Failure::Device(io::ErrorKind::BrokenPipe.into()));
    }

    /// An IO from another pipeline.
    pub(super) fn on_remote_io(&mut self, now: Instant, io: RemoteIo) {
        let RemoteIo { from, io, tenant, priority, work } = io;
        let key = self.switch.ios.insert(IoSlot::new(tenant, priority, work, Origin::Remote { from, io }));
        self.switch.arrive(now, key);
        self.remote_ios.insert((from, io), key);
    }

    /// Tells another pipeline how its IO ended.
    pub(super) fn answer_remote(&mut self, from: usize, io: Key, mut slot: IoSlot<Origin>) {
        self.remote_ios.remove(&(from, io));
        let (result, read) = (slot.take_result(), slot.take_read());
        let outcome = IoOutcome { result, read, work: slot.work, credit: slot.credit };
        let done = RemoteDone { by: self.index, io, outcome };
        self.peers.tell(from, ToPipeline::RemoteDone(done));
    }

    /// Another pipeline has ended an IO of ours.
    pub(super) fn on_remote_done(&mut self, now: Instant, done: RemoteDone) {
        self.remotes[done.by].on_answer();
        let IoOutcome { result, read, work, credit } = done.outcome;
        let slot = self.switch.ios.get_mut(done.io).expect("an IO ends once");
        slot.set_outcome(result, read);
        (slot.state, slot.work, slot.credit) = (State::Ended, work, credit);
        self.answer(now, done.io);
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
        let is_there = |io: &IoSlot<Origin>| matches!((io.state, &io.owner), (State::Remote(_), Origin::Local(HostIo { device, .. })) if *device == slot);
        let there: Vec<Key> =
            self.switch.ios.iter().filter(|(_, io)| is_there(io)).map(|(key, _)| key).collect();
        for io in there {
            self.end_here(now, io, Failure::Device(io::ErrorKind::BrokenPipe.into()));
        }
    }

    /// Another pipeline takes IOs back. One that it names may have ended meanwhile.
    pub(super) fn on_remote_withdraw(&mut self, now: Instant, from: usize, ios: &[Key]) {
        for io in ios {
            if let Some(&key) = self.remote_ios.get(&(from, *io))
                && self.switch.withdraw(now, key)
            {
                self.on_done(now, key);
            }
        }
    }
}
