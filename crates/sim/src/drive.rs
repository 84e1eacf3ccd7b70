//! The drive of a run: an SSD, and the states that it is put into meanwhile.
//!
//! A real drive changes its state over minutes to hours: it becomes fragmented, its cache fills or recovers. A
//! scheduler sees that as other speeds and latencies. Here the change is a step at a known instant, so that the right
//! behaviour before and after it can be measured. It is done between two commands: those in the drive end first, and
//! those that come meanwhile wait for that.
//!
//! Holds: every command completes, before or after a change (the checkers of a run), and after a change the drive is as
//!        fast as one that was always in the new state (`tests/changing.rs`).

use ssd::{Command, Completion, Image, Ssd, Waits};
use std::slice;
use units::{Bytes, Instant};

/// A change of the drive's state: from `at` on it is like one that was just made from the image, with nothing in its
/// buffer.
#[derive(Clone)]
pub struct Change {
    /// When. Changes are in order of time.
    pub at: Instant,
    /// The new state; of the same capacity.
    pub image: Image,
}

pub(crate) struct Drive<'w> {
    ssd: Ssd,
    changes: slice::Iter<'w, Change>,
    /// Commands that came while those before the change had not all ended.
    held: Vec<Command>,
}

impl<'w> Drive<'w> {
    pub(crate) fn new(image: &Image, changes: &'w [Change]) -> Drive<'w> {
        Drive { ssd: Ssd::from_image(image), changes: changes.iter(), held: Vec::new() }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.ssd.slots()
    }

    pub(crate) fn capacity(&self) -> Bytes {
        self.ssd.capacity()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ssd.outstanding() == 0
    }

    pub(crate) fn next_event(&self) -> Option<Instant> {
        self.ssd.next_event()
    }

    fn is_due(&self, now: Instant) -> bool {
        self.changes.as_slice().first().is_some_and(|change| change.at <= now)
    }

    pub(crate) fn submit(&mut self, now: Instant, command: Command) {
        if self.is_due(now) {
            self.held.push(command);
        } else {
            self.ssd.submit(now, command);
        }
    }

    /// Submits a read whose parts [`Drive::followed`] tells.
    pub(crate) fn submit_followed(&mut self, now: Instant, command: Command) {
        self.ssd.submit_followed(now, command);
    }

    pub(crate) fn followed(&mut self) -> Vec<(u64, Waits)> {
        self.ssd.followed()
    }

    /// Runs all events up to and including `until`, and changes the drive if that is due and no command is left.
    pub(crate) fn advance(&mut self, until: Instant, on_complete: &mut impl FnMut(Completion)) {
        self.ssd.advance(until, on_complete);
        if !self.is_due(until) || !self.is_idle() {
            return;
        }
        let slots = self.ssd.slots();
        while self.is_due(until) {
            let change = self.changes.next().expect("one is due");
            self.ssd = Ssd::from_image(&change.image);
        }
        assert_eq!(self.ssd.slots(), slots, "a drive that changes keeps its capacity");
        for command in self.held.drain(..) {
            self.ssd.submit(until, command);
        }
    }
}
