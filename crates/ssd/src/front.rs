//! The serial stages between host and dies: firmware and link.
//!
//! Each is a server without a queue of its own: it knows when it is free next, and work that comes earlier waits until
//! then. Commands are served in the order in which they were submitted.

use crate::SLOT_BYTES;
use crate::profile::{FirmwareProfile, LinkProfile};
use units::{ByteRate, Instant, Nanos};

/// Nanoseconds of one slot on the link are no whole number, so its time is kept in picoseconds.
const PICOS_PER_NANO: u64 = 1_000;
const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

/// The controller's firmware.
pub(crate) struct Firmware {
    costs: FirmwareProfile,
    free: Instant,
}

impl Firmware {
    pub(crate) fn new(costs: &FirmwareProfile) -> Firmware {
        Firmware { costs: costs.clone(), free: Instant::ZERO }
    }

    /// When a read operation leaves for its die. `scattered`: it is less than a page of a command that needs several.
    #[inline]
    pub(crate) fn read_operation(&mut self, now: Instant, scattered: bool) -> Instant {
        let mut cost = self.costs.read_operation;
        if scattered {
            cost += self.costs.read_scattered;
        }
        self.occupy(now, cost) + self.costs.read_latency
    }

    /// When a write command of `slots` leaves for the write buffer.
    #[inline]
    pub(crate) fn write(&mut self, now: Instant, slots: u32) -> Instant {
        let cost = self.costs.write_command + Nanos(self.costs.write_slot.0 * u64::from(slots));
        self.occupy(now, cost) + self.costs.write_latency
    }

    /// When a deallocate command of `slots` has been understood.
    pub(crate) fn deallocate(&mut self, now: Instant, slots: u32) -> Instant {
        let cost = self.costs.management_command + Nanos(self.costs.deallocate_slot.0 * u64::from(slots));
        self.occupy(now, cost) + self.costs.write_latency
    }

    /// When a flush command has been understood.
    pub(crate) fn flush(&mut self, now: Instant) -> Instant {
        self.occupy(now, self.costs.management_command) + self.costs.write_latency
    }

    #[inline]
    fn occupy(&mut self, now: Instant, cost: Nanos) -> Instant {
        self.free = self.free.max(now) + cost;
        self.free
    }
}

/// One direction of the link to the host.
pub(crate) struct Link {
    picos_per_slot: u64,
    command: Nanos,
    free: Instant,
}

impl Link {
    /// Device to host.
    pub(crate) fn to_host(profile: &LinkProfile) -> Link {
        Link::new(profile.read_rate, profile.command)
    }

    /// Host to device.
    pub(crate) fn from_host(profile: &LinkProfile) -> Link {
        Link::new(profile.write_rate, profile.command)
    }

    fn new(rate: ByteRate, command: Nanos) -> Link {
        let picos_per_slot = (u128::from(SLOT_BYTES) * PICOS_PER_SECOND / u128::from(rate.get())) as u64;
        Link { picos_per_slot, command, free: Instant::ZERO }
    }

    /// The least that any data take to cross.
    pub(crate) fn least(&self) -> Nanos {
        self.time(1)
    }

    /// When `slots` slots have crossed; `opens` adds the link's cost of a command.
    #[inline]
    pub(crate) fn carry(&mut self, now: Instant, slots: u32, opens: bool) -> Instant {
        let mut time = self.time(slots);
        if opens {
            time += self.command;
        }
        self.free = self.free.max(now) + time;
        self.free
    }

    #[inline]
    fn time(&self, slots: u32) -> Nanos {
        Nanos(u64::from(slots) * self.picos_per_slot / PICOS_PER_NANO)
    }
}
