//! Rings of their own for devices that cannot share the one of the sockets.
//!
//! ```text
//!   passthrough   entries large enough for an NVMe command and its result; the device interrupts as usual
//!   polled        the same, and the device does not interrupt: the kernel asks it while we ask the kernel (IORING_SETUP_IOPOLL)
//! ```
//!
//! A thread that sleeps does so in its main ring. A passthrough ring has an eventfd, which the kernel signals only
//! while we sleep, and which the main ring reads. (The ring's own descriptor would not do: with deferred completion
//! work it becomes readable only when that work has been run.) A polled ring cannot signal completions: while an
//! operation is out on it, the thread does not sleep but polls both rings in turn, which takes a whole processor; with
//! nothing out it sleeps as usual.
//!
//! Holds: `a_ring_that_sleeps_hears_of_completions_on_the_ring_of_a_device`.

use super::queue::{Kind, Queue, Request};
use super::registry::Registry;
use super::setup;
use io_uring::{cqueue, opcode, squeue, types};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

/// The ring that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// That of the sockets.
    Main,
    /// One of [`DEVICE_LANES`].
    Passthrough,
    /// One of [`DEVICE_LANES`].
    Polled,
}

/// The rings that only devices have.
pub(super) const DEVICE_LANES: [Lane; 2] = [Lane::Passthrough, Lane::Polled];

/// A ring for devices.
pub(super) struct DeviceRing {
    pub(super) queue: Queue<squeue::Entry128, cqueue::Entry32>,
    pub(super) registry: Registry,
    /// The eventfd that the kernel signals while the thread sleeps.
    eventfd: OwnedFd,
    /// Where the eventfd's counter is read to; its value is of no interest.
    count: Box<u64>,
    /// Whether the main ring is reading it.
    is_watched: bool,
}

impl DeviceRing {
    fn new(is_polled: bool) -> io::Result<DeviceRing> {
        let ring = setup::build_for_device(is_polled)?;
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
        ring.submitter().register_eventfd(fd)?;
        let mut queue = Queue::new(ring);
        queue.signal(false);
        let registry = Registry::default();
        Ok(DeviceRing { queue, registry, eventfd, count: Box::new(0), is_watched: false })
    }
}

/// The rings that were needed until now.
#[derive(Default)]
pub(super) struct DeviceRings {
    rings: [Option<DeviceRing>; 2],
}

impl DeviceRings {
    /// Makes a ring unless it exists.
    pub(super) fn make(&mut self, lane: Lane) -> io::Result<()> {
        let Some(place) = self.rings.get_mut(place_of(lane)) else { return Ok(()) };
        if place.is_none() {
            *place = Some(DeviceRing::new(lane == Lane::Polled)?);
        }
        Ok(())
    }

    /// The ring of a lane of a device, if there is one.
    pub(super) fn get(&mut self, lane: Lane) -> Option<&mut DeviceRing> {
        self.rings.get_mut(place_of(lane))?.as_mut()
    }

    /// All rings that were made.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut DeviceRing> {
        self.rings.iter_mut().flatten()
    }

    /// Whether completions come only while the kernel is asked for them.
    pub(super) fn must_be_polled(&self) -> bool {
        self.rings.iter().flatten().any(|ring| ring.queue.must_be_polled())
    }

    /// Lets the main ring report the next completion on the others; false if there is one already, so that there is
    /// nothing to wait for.
    pub(super) fn watch(&mut self, main: &mut Queue) -> bool {
        let mut may_sleep = true;
        for (place, ring) in self.rings.iter_mut().enumerate() {
            let Some(ring) = ring else { continue };
            if ring.queue.in_flight() == 0 {
                continue;
            }
            if !ring.is_watched {
                ring.is_watched = true;
                let to = ptr::from_mut(&mut *ring.count).cast();
                let fd = types::Fd(ring.eventfd.as_raw_fd());
                let read = opcode::Read::new(fd, to, mem::size_of::<u64>() as u32).build();
                let request = Request { kind: Kind::DeviceRing, index: place as u32 };
                // SAFETY: `count` is on the heap and, like the eventfd, stays until the driver goes, which waits for all that is out on
                // the main ring.
                unsafe { main.push(read, request) };
            }
            ring.queue.signal(true);
            // Completions from before `signal(true)` took effect are seen here, later ones are signalled.
            fence(Ordering::SeqCst);
            may_sleep &= !ring.queue.may_have_completions();
        }
        may_sleep
    }

    /// Stops the kernel's signals: the thread is awake.
    pub(super) fn unwatch(&mut self) {
        self.all().for_each(|ring| ring.queue.signal(false));
    }

    /// Handles the main ring's report.
    pub(super) fn on_watched(&mut self, index: u32) {
        if let Some(Some(ring)) = self.rings.get_mut(index as usize) {
            ring.is_watched = false;
        }
    }
}

/// Where in the table a ring is; beyond it for the main one.
fn place_of(lane: Lane) -> usize {
    DEVICE_LANES.iter().position(|other| *other == lane).unwrap_or(DEVICE_LANES.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::types::Timespec;
    use units::Nanos;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no io_uring")]
    fn a_ring_that_sleeps_hears_of_completions_on_the_ring_of_a_device() {
        let Ok(main) = setup::build() else { return };
        let mut main = Queue::new(main);
        let mut devices = DeviceRings::default();
        devices.make(Lane::Passthrough).expect("a kernel with the main ring has this one");
        assert!(devices.get(Lane::Main).is_none() && devices.get(Lane::Polled).is_none(), "no other is made");
        let mut completions = Vec::new();
        let soon = Timespec::new().nsec(20_000_000);
        for round in 0..3 {
            let ring = devices.get(Lane::Passthrough).expect("just made");
            let timeout = opcode::Timeout::new(&soon).build();
            // SAFETY: `soon` stays until the completion, which is taken below.
            unsafe { ring.queue.push(timeout, Request { kind: Kind::Disk, index: round }) };
            ring.queue.submit().expect("submitted");
            let may_sleep = devices.watch(&mut main) && devices.watch(&mut main);
            assert_eq!(main.in_flight(), 1, "it is watched once");
            while may_sleep && main.in_flight() > 0 {
                main.submit_and_wait(Some(Nanos::secs(60))).expect("waits");
                main.take_completions(&mut completions);
                assert!(!completions.is_empty(), "the main ring slept through it");
                for completion in completions.drain(..) {
                    let request = main.on_completion(&completion).expect("a request");
                    assert_eq!(request, Request { kind: Kind::DeviceRing, index: 0 });
                    devices.on_watched(request.index);
                }
            }
            devices.unwatch();
            let ring = devices.get(Lane::Passthrough).expect("just made");
            while ring.queue.in_flight() > 0 {
                ring.queue.submit().expect("runs the completion work");
                ring.queue.take_completions(&mut completions);
                for completion in completions.drain(..) {
                    let request = ring.queue.on_completion(&completion);
                    assert_eq!(request, Some(Request { kind: Kind::Disk, index: round }));
                }
            }
            assert!(!devices.must_be_polled());
        }
    }
}
