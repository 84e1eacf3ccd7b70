//! The port to other SSDs: IOs for namespaces there, and the IOs of others here.
//!
//! The switch of an SSD is run by its own pipeline only, so an IO for another SSD travels there and back as a message, with
//! its buffer, in the batch of the turn (`outbox`). At most `REMOTE_OUTSTANDING_MAX` are on the way to one SSD; the others wait here, where the queues of the
//! connections bound them. So a mailbox never holds more than that from each peer.
//!
//! A pipeline has a *slot*, a small number by which it is addressed for as long as it lives. Pipelines come and go while the
//! target runs, so a slot may be empty.
//!
//! Holds: an IO that is sent comes back exactly once, also when it is withdrawn
//!        (`another_pipeline_takes_back_its_own_ios_only`, `tests/threads.rs`); at most the limit of a [`Window`] are out at a time, and
//!        every item that is pushed into it comes out once, in order, or is withdrawn (`mailbox`'s interleavings use it between threads).

use super::Origin;
use super::commands::Commands;
use super::host_io::HostIo;
use super::message::{IoOutcome, RemoteDone, RemoteIo, ToPipeline};
use crate::intrusive_list::{Links, List};
use crate::mailbox::Mailbox;
use crate::outbox::Outboxes;
use crate::slab::{Key, Slab};
use crate::switch::{Failure, IoSlot, State, Switch, Work};
use std::collections::HashMap;
use std::io;
use tracing::error;
use units::Instant;

/// IOs that may be on the way to one other SSD.
const REMOTE_OUTSTANDING_MAX: usize = 1024;

/// The mailboxes of all pipelines, by slot.
#[derive(Clone, Default)]
pub(crate) struct Peers(Vec<Option<Mailbox<ToPipeline>>>);

impl Peers {
    /// A pipeline has come, or gone.
    pub(crate) fn set(&mut self, slot: usize, mailbox: Option<Mailbox<ToPipeline>>) {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = mailbox;
    }

    /// All there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mailbox<ToPipeline>> {
        self.0.iter().flatten()
    }

    /// Posts a message. Returns false if the pipeline has ended, which drops the message.
    pub(crate) fn post(&self, slot: usize, message: ToPipeline) -> bool {
        matches!(self.0.get(slot), Some(Some(mailbox)) if mailbox.post(message).is_ok())
    }
}

/// Things for another thread, of which a bounded number is out: the rest waits here.
pub(crate) struct Window<T> {
    limit: usize,
    out: usize,
    waiting: Slab<T>,
    links: Links,
    order: List,
}

impl<T> Window<T> {
    /// A window that lets `limit` out at a time.
    pub(crate) fn new(limit: usize) -> Window<T> {
        Window { limit, out: 0, waiting: Slab::new(), links: Links::default(), order: List::default() }
    }

    /// Adds an item that waits. Returns its key, valid while it waits.
    pub(crate) fn push(&mut self, item: T) -> Key {
        let key = self.waiting.insert(item);
        self.links.push(&mut self.order, key);
        key
    }

    /// The next one that may go, counted as out until [`Window::on_answer`].
    pub(crate) fn next(&mut self) -> Option<T> {
        if self.out == self.limit {
            return None;
        }
        let item = self.withdraw(self.links.first(&self.order)?)?;
        self.out += 1;
        Some(item)
    }

    /// One that was out has been answered, or was not taken.
    pub(crate) fn on_answer(&mut self) {
        assert!(self.out > 0, "an answer to something that is not out");
        self.out -= 1;
    }

    /// Takes back an item that waits; `None` if it was sent.
    pub(crate) fn withdraw(&mut self, key: Key) -> Option<T> {
        let item = self.waiting.remove(key)?;
        self.links.remove(&mut self.order, key);
        Some(item)
    }

    /// Takes back all that wait, in order.
    pub(crate) fn withdraw_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.withdraw(self.links.first(&self.order)?)).collect()
    }
}

/// See the module.
pub(super) struct Port {
    /// The slot of this thread's SSD.
    home: usize,
    peers: Outboxes<ToPipeline>,
    /// IOs in flight to each of them.
    windows: Vec<Window<RemoteIo>>,
    /// IOs of others in the switch, by pipeline and name there.
    of_others: HashMap<(usize, Key), Key>,
    /// IOs that others are about to be asked for.
    asked_back: Vec<(usize, Key)>,
}

impl Port {
    /// The port of the SSD in slot `home`.
    pub(super) fn new(home: usize) -> Port {
        let (peers, windows, of_others, asked_back) =
            (Outboxes::new(), Vec::new(), HashMap::new(), Vec::new());
        Port { home, peers, windows, of_others, asked_back }
    }

    /// The slot of this thread's SSD.
    #[inline]
    pub(super) fn home(&self) -> usize {
        self.home
    }

    /// Another pipeline has come, or gone.
    pub(super) fn set(&mut self, slot: usize, mailbox: Option<Mailbox<ToPipeline>>) {
        self.peers.set(slot, mailbox);
        self.windows.resize_with(self.peers.slots(), || Window::new(REMOTE_OUTSTANDING_MAX));
    }

    /// The mailboxes of all pipelines.
    pub(super) fn mailboxes(&self) -> impl Iterator<Item = &Mailbox<ToPipeline>> {
        self.peers.mailboxes()
    }

    /// This pipeline's own mailbox.
    pub(super) fn own_mailbox(&self) -> Option<&Mailbox<ToPipeline>> {
        self.peers.mailbox(self.home)
    }

    /// Adds a message to the next batch for another pipeline. False if that has ended.
    pub(super) fn push(&mut self, slot: usize, message: ToPipeline) -> bool {
        self.peers.push(slot, message).is_ok()
    }

    /// An IO is to go to its device; [`Port::post`] has to follow.
    pub(super) fn send(&mut self, io: Key, slot: &mut IoSlot<Origin>) {
        let (tenant, priority) = (slot.tenant(), slot.priority());
        let work = std::mem::replace(&mut slot.work, Work::Sent);
        let remote = RemoteIo { from: self.home, io, tenant, priority, work };
        slot.state = State::Remote(self.windows[slot.host_io().device].push(remote));
    }

    /// Sends waiting IOs to a device, within its window. Returns an IO that was not taken: then call it again.
    pub(super) fn post(&mut self, device: usize) -> Result<(), RemoteIo> {
        while let Some(io) = self.windows[device].next() {
            match self.peers.push(device, ToPipeline::Remote(io)) {
                Ok(()) => {}
                Err(ToPipeline::Remote(io)) => {
                    self.windows[device].on_answer();
                    return Err(io);
                }
                Err(_) => unreachable!("an outbox gives back what it was given"),
            }
        }
        Ok(())
    }

    /// Takes back an IO that waits here. One that was sent is asked back with the next [`Port::ask_back`].
    pub(super) fn take_back(&mut self, io: Key, slot: &mut IoSlot<Origin>, place: Key) -> bool {
        let device = slot.host_io().device;
        let Some(waiting) = self.windows[device].withdraw(place) else {
            self.asked_back.push((device, io));
            return false;
        };
        slot.work = waiting.work;
        true
    }

    /// Asks the threads of other SSDs for IOs to be taken back.
    pub(super) fn ask_back(&mut self) {
        self.asked_back.sort_by_key(|(device, _)| *device);
        for of_device in self.asked_back.chunk_by(|(one, _), (other, _)| one == other) {
            let ios = of_device.iter().map(|(_, io)| *io).collect();
            self.peers.tell(of_device[0].0, ToPipeline::RemoteWithdraw { from: self.home, ios });
        }
        self.asked_back.clear();
    }

    /// An IO that was sent has come back, or was not taken.
    fn on_answer(&mut self, device: usize) {
        self.windows[device].on_answer();
    }

    /// An IO from another pipeline.
    pub(super) fn on_remote_io(&mut self, now: Instant, io: RemoteIo, switch: &mut Switch<Origin>) {
        let RemoteIo { from, io, tenant, priority, work } = io;
        let key = switch.ios.insert(IoSlot::new(tenant, priority, work, Origin::Remote { from, io }));
        switch.arrive(now, key);
        self.of_others.insert((from, io), key);
    }

    /// Another pipeline takes IOs back. One that it names may have ended meanwhile.
    pub(super) fn on_remote_withdraw(
        &mut self,
        now: Instant,
        (from, ios): (usize, &[Key]),
        switch: &mut Switch<Origin>,
    ) {
        for io in ios {
            if let Some(&key) = self.of_others.get(&(from, *io))
                && switch.withdraw(now, key)
            {
                let slot = switch.ios.remove(key).expect("just taken back");
                self.answer(from, *io, slot);
            }
        }
    }

    /// Sends the result of an IO to its pipeline.
    pub(super) fn answer(&mut self, from: usize, io: Key, mut slot: IoSlot<Origin>) {
        self.of_others.remove(&(from, io));
        let (result, read) = (slot.take_result(), slot.take_read());
        let outcome = IoOutcome { result, read, work: slot.work, credit: slot.credit, busy: slot.busy };
        let done = RemoteDone { by: self.home, io, outcome };
        self.peers.tell(from, ToPipeline::RemoteDone(done));
    }

    /// All that was asked before was done.
    pub(super) fn on_echo_asked(&mut self, from: usize, io: Key) {
        self.peers.tell(from, ToPipeline::Echoed { io });
    }

    /// Sends all batches. Returns messages that ended pipelines did not take, and `None` if there was nothing to send.
    pub(super) fn flush(&mut self) -> Option<Vec<(usize, ToPipeline)>> {
        if !self.peers.is_due() {
            return None;
        }
        let mut lost = Vec::new();
        self.peers.flush(|slot, message| lost.push((slot, message)));
        Some(lost)
    }

    /// Whether another pipeline has an IO of that name here.
    #[cfg(test)]
    pub(super) fn has_of_other(&self, from: usize, io: Key) -> bool {
        self.of_others.contains_key(&(from, io))
    }
}

impl Commands {
    /// Sends an IO to the pipeline of its device, now or as soon as there is room.
    pub(super) fn send_remote(&mut self, now: Instant, io: Key) {
        let slot = self.switch.ios.get_mut(io).expect("an IO is sent once");
        let device = slot.host_io().device;
        self.port.send(io, slot);
        self.post_waiting(now, device);
    }

    fn post_waiting(&mut self, now: Instant, device: usize) {
        while let Err(io) = self.port.post(device) {
            self.fail_remote(now, device, io);
        }
    }

    /// A pipeline that has ended did not take this.
    pub(super) fn on_lost(&mut self, now: Instant, device: usize, message: ToPipeline) {
        match message {
            ToPipeline::Remote(io) => {
                self.port.on_answer(device);
                self.fail_remote(now, device, io);
            }
            ToPipeline::Echo { io, .. } => self.on_echo(io),
            // It asks for nothing more and waits for nothing.
            _ => {}
        }
    }

    /// The other pipeline has ended: a broken machine, or the last moments of the target.
    fn fail_remote(&mut self, now: Instant, device: usize, io: RemoteIo) {
        error!(device = %self.device, other = device, "an IO fails: the pipeline of its SSD has ended");
        self.switch.ios.get_mut(io.io).expect("it has not ended").work = io.work;
        self.end_here(now, io.io, Failure::Device(io::ErrorKind::BrokenPipe.into()));
    }

    /// Another pipeline has ended an IO of ours.
    pub(super) fn on_remote_done(&mut self, now: Instant, done: RemoteDone) {
        self.port.on_answer(done.by);
        let IoOutcome { result, read, work, credit, busy } = done.outcome;
        let slot = self.switch.ios.get_mut(done.io).expect("an IO ends once");
        slot.set_outcome(result, read);
        (slot.state, slot.work) = (State::Ended, work);
        (slot.credit, slot.busy) = (credit, busy);
        self.answer(now, done.io);
        self.post_waiting(now, done.by);
    }

    /// Another pipeline's reactor has failed: IOs on it are lost, and IOs that wait for it fail here.
    pub(super) fn on_peer_failed(&mut self, now: Instant, slot: usize) {
        for message in self.port.peers.take_back(slot) {
            self.on_lost(now, slot, message);
        }
        let Some(window) = self.port.windows.get_mut(slot) else { return };
        let waiting = window.withdraw_all();
        *window = Window::new(REMOTE_OUTSTANDING_MAX);
        self.give_up_aborts(slot);
        waiting.into_iter().for_each(|io| self.fail_remote(now, slot, io));
        // IOs that wait here for other reasons were not sent; they fail when they are.
        let is_there = |io: &IoSlot<Origin>| matches!((io.state, &io.owner), (State::Remote(_), Origin::Local(HostIo { device, .. })) if *device == slot);
        let there: Vec<Key> =
            self.switch.ios.iter().filter(|(_, io)| is_there(io)).map(|(key, _)| key).collect();
        for io in there {
            self.end_here(now, io, Failure::Device(io::ErrorKind::BrokenPipe.into()));
        }
    }
}
