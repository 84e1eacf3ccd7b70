//! The workload of a tenant: its IOs, and when the application requests the next one.

use rand::Rng;
use rand_distr::{Distribution, Exp};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::Priority;
use ssd::CommandKind;
use units::{ByteRate, Bytes, Instant, Nanos};

/// The unit of addresses and lengths in the SSD model.
pub(crate) const SLOT: Bytes = Bytes(4096);

/// A tenant's workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// When the next IO is requested.
    pub arrival: Arrival,
    /// Percentage of reads.
    pub read_percent: u8,
    /// Where the IOs go.
    pub pattern: Pattern,
    /// The sizes of the IOs.
    pub sizes: SizeMix,
    /// The part of the device that is used, in 4 KiB slots; `None` is the whole device.
    pub region: Option<(u32, u32)>,
    /// Priority classes: each IO gets one of these, evenly chosen. Never empty.
    pub priorities: Vec<Priority>,
    /// The highest rate at which the application requests IOs.
    pub rate_max: Option<ByteRate>,
    /// Bursts of requests with pauses between them; `None`: no pauses.
    pub bursts: Option<Bursts>,
}

/// An application that is busy now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Length of a burst. Never zero.
    pub burst: Nanos,
    /// Pause after each.
    pub pause: Nanos,
}

impl Bursts {
    /// The first moment of a burst from `at` on, for an application that begins at `start`.
    pub(crate) fn next(self, start: Instant, at: Instant) -> Instant {
        let period = self.burst + self.pause;
        let passed = Nanos(at.saturating_since(start).0 % period.0);
        if passed < self.burst { at } else { at + period.saturating_sub(passed) }
    }
}

impl Workload {
    /// Reads (`read_percent` 100), writes (0) or a mix, of one size, always `depth` of them outstanding.
    pub fn closed(depth: u32, size: Bytes, read_percent: u8, pattern: Pattern) -> Workload {
        Workload {
            arrival: Arrival::Closed { depth },
            read_percent,
            pattern,
            sizes: SizeMix::one(size),
            region: None,
            priorities: vec![Priority::default()],
            rate_max: None,
            bursts: None,
        }
    }
}

/// When the next IO is requested.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// When one has come back: always `depth` outstanding.
    Closed {
        /// Outstanding IOs, including those that wait for credit in the client.
        depth: u32,
    },
    /// At random times (Poisson), independent of completions.
    Open {
        /// Mean arrivals per second. Never zero.
        iops: u32,
    },
}

/// Where IOs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere in the region, aligned to the size of the IO.
    Random,
    /// Sequential from a random start; wraps around at the end of the region.
    Sequential,
}

/// Sizes and how often each occurs.
#[derive(Clone, Debug)]
pub struct SizeMix {
    /// Size (a multiple of 4 KiB) and relative frequency.
    sizes: Vec<(Bytes, u32)>,
}

impl SizeMix {
    /// Always the same size.
    pub fn one(size: Bytes) -> SizeMix {
        SizeMix::new(vec![(size, 1)])
    }

    /// These sizes, each as often as its weight says.
    ///
    /// # Panics
    /// If there is no size, a size is not a positive multiple of 4 KiB, or all weights are zero.
    pub fn new(sizes: Vec<(Bytes, u32)>) -> SizeMix {
        assert!(sizes.iter().any(|(_, weight)| *weight > 0), "a mix of sizes needs a weight above zero");
        for (size, _) in &sizes {
            assert!(
                size.0 > 0 && size.0.is_multiple_of(SLOT.0),
                "{size} is not a positive multiple of 4 KiB"
            );
        }
        SizeMix { sizes }
    }

    /// The size, if there is only one.
    pub fn only(&self) -> Option<Bytes> {
        match self.sizes[..] {
            [(only, _)] => Some(only),
            _ => None,
        }
    }

    fn choose(&self, random: &mut Xoshiro256PlusPlus) -> Bytes {
        if let Some(only) = self.only() {
            return only;
        }
        let total: u32 = self.sizes.iter().map(|(_, weight)| weight).sum();
        let mut at = random.random_range(0..total);
        for (size, weight) in &self.sizes {
            if at < *weight {
                return *size;
            }
            at -= weight;
        }
        unreachable!("{at} is beyond the sum of the weights, {total}")
    }
}

/// One IO as the application requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: CommandKind,
    pub(crate) slot: u32,
    pub(crate) slots: u32,
    pub(crate) priority: Priority,
}

impl Request {
    pub(crate) fn length(&self) -> Bytes {
        Bytes(u64::from(self.slots) * SLOT.0)
    }

    pub(crate) fn is_read(&self) -> bool {
        self.kind == CommandKind::Read
    }

    /// Bytes sent to the switch with it.
    pub(crate) fn bytes_out(&self) -> Bytes {
        if self.is_read() { Bytes::ZERO } else { self.length() }
    }

    /// Bytes sent back.
    pub(crate) fn bytes_back(&self) -> Bytes {
        if self.is_read() { self.length() } else { Bytes::ZERO }
    }
}

/// Draws a tenant's IOs one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    workload: Workload,
    region: (u32, u32),
    next_sequential: u32,
    random: Xoshiro256PlusPlus,
}

impl Generator {
    /// # Panics
    /// If the region is too small for the largest size, or ends beyond the device.
    pub(crate) fn new(workload: Workload, device_slots: u32, mut random: Xoshiro256PlusPlus) -> Generator {
        let region = workload.region.unwrap_or((0, device_slots));
        let largest = workload.sizes.sizes.iter().map(|(size, _)| size.0 / SLOT.0).max().unwrap_or(0);
        assert!(
            region.1 <= device_slots && u64::from(region.1.saturating_sub(region.0)) >= largest,
            "region {region:?} of {device_slots} slots cannot hold an IO of {largest} slots"
        );
        let next_sequential = random.random_range(region.0..region.1);
        Generator { workload, region, next_sequential, random }
    }

    /// Time until the next arrival of an open workload.
    pub(crate) fn gap(&mut self, iops: u32) -> Nanos {
        let seconds: f64 = Exp::new(f64::from(iops)).expect("the rate is positive").sample(&mut self.random);
        Nanos((seconds * 1e9) as u64)
    }

    pub(crate) fn next(&mut self) -> Request {
        let slots = (self.workload.sizes.choose(&mut self.random).0 / SLOT.0) as u32;
        let read = self.random.random_range(0..100) < self.workload.read_percent;
        let (first, end) = self.region;
        let slot = match self.workload.pattern {
            Pattern::Random => first + self.random.random_range(0..(end - first) / slots) * slots,
            Pattern::Sequential => {
                let fits = self.next_sequential + slots <= end;
                let slot = if fits { self.next_sequential } else { first };
                self.next_sequential = slot + slots;
                slot
            }
        };
        let priority = match self.workload.priorities[..] {
            [only] => only,
            ref several => several[self.random.random_range(0..several.len())],
        };
        Request { kind: if read { CommandKind::Read } else { CommandKind::Write }, slot, slots, priority }
    }
}
