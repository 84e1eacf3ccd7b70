//! The serial stages between host and dies: firmware, link, and the memory that reads and writes share.
//!
//! The firmware may have several cores. Each serves the commands of its share of the addresses, and may have a limited number of
//! places for reads: a read keeps its place until it is complete, and reads without a place wait in order.
//!
//! Each stage, or core, is a server without a queue: it knows when it is free next, and work that comes earlier waits
//! until then. Commands are served in order of submission.

use crate::SLOT_BYTES;
use crate::profile::{FirmwareProfile, LinkProfile, MemoryProfile, Profile};
use crate::variation::FirmwareVariation;
use std::collections::VecDeque;
use units::{ByteRate, Instant, Nanos};

/// The time of one slot on the link or in memory is not a whole number of nanoseconds, so it is kept in
/// picoseconds.
const PICOS_PER_NANO: u64 = 1_000;
const PICOS_PER_SECOND: u128 = 1_000_000_000_000;
/// 2^32 divided by the golden ratio (Fibonacci hashing).
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

/// The controller's firmware.
pub(crate) struct Firmware {
    costs: FirmwareProfile,
    variation: FirmwareVariation,
    /// When the first core is free again.
    free: Instant,
    /// The same of the other cores.
    others: Vec<Instant>,
    /// Of each core; `None` if there is a place for every read.
    places: Option<Vec<ReadPlaces>>,
}

/// A core's places for read commands.
#[derive(Clone)]
struct ReadPlaces {
    free: u32,
    waiting: VecDeque<u32>,
}

impl Firmware {
    pub(crate) fn new(profile: &Profile, seed: u64) -> Firmware {
        let costs = profile.firmware.clone();
        let cores = costs.cores.unwrap_or(1) as usize;
        let places = |free| vec![ReadPlaces { free, waiting: VecDeque::new() }; cores];
        Firmware {
            variation: FirmwareVariation::new(&profile.variation, seed),
            free: Instant::ZERO,
            others: vec![Instant::ZERO; cores - 1],
            places: costs.reads_at_once.map(places),
            costs,
        }
    }

    /// Whether reads need a place.
    #[inline]
    pub(crate) fn limits_reads(&self) -> bool {
        self.places.is_some()
    }

    /// Whether the read `command` has a place at once. Otherwise it waits.
    #[inline(never)]
    pub(crate) fn enter_read(&mut self, command: u32, slot: u32) -> bool {
        let core = self.core_of(slot);
        let Some(places) = &mut self.places else { return true };
        let places = &mut places[core];
        if places.free == 0 {
            places.waiting.push_back(command);
            return false;
        }
        places.free -= 1;
        true
    }

    /// The read command at `slot` is complete: the read that has its place now, if one waits.
    pub(crate) fn leave_read(&mut self, slot: u32) -> Option<u32> {
        let core = self.core_of(slot);
        let places = &mut self.places.as_mut()?[core];
        let next = places.waiting.pop_front();
        places.free += u32::from(next.is_none());
        next
    }

    /// When a read operation is passed on to its die. `scattered`: it covers less than a page, and its
    /// command needs more than one operation.
    #[inline]
    pub(crate) fn read_operation(&mut self, now: Instant, slot: u32, scattered: bool) -> Instant {
        let mut cost = self.costs.read_operation;
        if scattered {
            cost += self.costs.read_scattered;
        }
        self.occupy(now, slot, cost) + self.costs.read_latency
    }

    /// When a write command of `slots` is passed on to the write buffer.
    #[inline]
    pub(crate) fn write(&mut self, now: Instant, slot: u32, slots: u32) -> Instant {
        let cost = self.costs.write_command + Nanos(self.costs.write_slot.0 * u64::from(slots));
        self.occupy(now, slot, cost) + self.variation.write_latency(self.costs.write_latency)
    }

    /// When a deallocate command of `slots` has been processed.
    pub(crate) fn deallocate(&mut self, now: Instant, slot: u32, slots: u32) -> Instant {
        let cost = self.costs.management_command + Nanos(self.costs.deallocate_slot.0 * u64::from(slots));
        self.occupy(now, slot, cost) + self.costs.write_latency
    }

    /// When a flush command has been processed. It has no address, so the first core does it.
    pub(crate) fn flush(&mut self, now: Instant) -> Instant {
        self.occupy(now, 0, self.costs.management_command) + self.costs.write_latency
    }

    #[inline]
    fn occupy(&mut self, now: Instant, slot: u32, cost: Nanos) -> Instant {
        let free = match self.core_of(slot) {
            0 => &mut self.free,
            core => &mut self.others[core - 1],
        };
        *free = self.variation.begin((*free).max(now)) + cost;
        *free
    }

    /// The core for a command that begins at `slot`. Neighbours and multiples of powers of two have different cores.
    #[inline]
    fn core_of(&self, slot: u32) -> usize {
        if self.others.is_empty() {
            return 0;
        }
        let cores = 1 + self.others.len() as u64;
        ((u64::from(slot.wrapping_mul(GOLDEN_RATIO)) * cores) >> u32::BITS) as usize
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
        Link { picos_per_slot: picos_per_slot(rate), command, free: Instant::ZERO }
    }

    /// The shortest time that data takes to cross the link.
    pub(crate) fn least(&self) -> Nanos {
        self.time(1)
    }

    /// When `slots` slots have crossed the link. `opens` adds the link's cost per command.
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

/// The controller's memory. All data passes through it, in order of arrival.
pub(crate) struct Memory {
    picos_per_slot_read: u64,
    picos_per_slot_written: u64,
    free: Instant,
}

impl Memory {
    pub(crate) fn new(profile: &MemoryProfile) -> Memory {
        Memory {
            picos_per_slot_read: picos_per_slot(profile.read_rate),
            picos_per_slot_written: picos_per_slot(profile.write_rate),
            free: Instant::ZERO,
        }
    }

    /// When `slots` slots from the flash have passed on their way to the host.
    #[inline]
    pub(crate) fn read(&mut self, now: Instant, slots: u32) -> Instant {
        self.pass(now, slots, self.picos_per_slot_read)
    }

    /// When `slots` slots from the host have passed, including their way out to the flash.
    #[inline]
    pub(crate) fn write(&mut self, now: Instant, slots: u32) -> Instant {
        self.pass(now, slots, self.picos_per_slot_written)
    }

    #[inline]
    fn pass(&mut self, now: Instant, slots: u32, picos_per_slot: u64) -> Instant {
        self.free = self.free.max(now) + Nanos(u64::from(slots) * picos_per_slot / PICOS_PER_NANO);
        self.free
    }
}

fn picos_per_slot(rate: ByteRate) -> u64 {
    (u128::from(SLOT_BYTES) * PICOS_PER_SECOND / u128::from(rate.get())) as u64
}
