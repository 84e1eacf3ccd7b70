//! The event queue of the device, in exact order of time.
//!
//! A general event queue is not needed. Events of one kind are planned in order of time, or nearly so: a
//! serial stage finishes its work in order, and all dies take about the same time to sense. So each kind has
//! a *lane* that is kept sorted: a new event enters at the end and moves up past the few that are later. The
//! next event is the earliest of the eight heads, which a small tree of pairwise minima finds:
//!
//! ```text
//!   read issued  ─► t₁ t₂ t₃ … ┐
//!   parsed       ─► t₁ …       ┴┐
//!   write arrived─► t₁ …       ┐├┐
//!   completed    ─► t₁ t₂ …    ┴┘│
//!   sensed       ─► t₁ t₂ t₃ … ┐ ├─► next
//!   transferred  ─► t₁ t₂ …    ┴┐│
//!   ran          ─► t₁ …       ┐├┘
//!   others       ─► t₁ …       ┴┘
//! ```
//!
//! In the four lanes of the dies, an event moves past at most as many others as there are dies.
//!
//! Holds: events leave in order of time, and in order of insertion if their times are equal
//!        (`agrees_with_a_sorted_list`);
//!        an event later than the given instant stays (`an_event_waits_for_its_time`).

use crate::bound::LeastDelays;
use units::{Instant, Nanos};

mod lane;
#[cfg(test)]
mod tests;

use lane::{Entry, Lane};

/// An event of the device. Its numbers are indices: of a command, a flash read operation, or a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The firmware passes a flash read operation on to its die.
    ReadIssued { read: u32 },
    /// The firmware passes on a command other than a read.
    Parsed { command: u32 },
    /// A piece of a write command's data has crossed the link and is in the write buffer.
    WriteArrived { command: u32, slots: u32 },
    /// A command is complete.
    Completed { command: u32 },
    /// The die has sensed a page.
    Sensed { die: u32 },
    /// A page has crossed the channel, from or to the die.
    Transferred { die: u32 },
    /// The die's program or erase ends, unless it was suspended since: then the die's generation has changed.
    Ran { die: u32, generation: u32 },
    /// The program or erase on the die may be suspended for reads.
    SuspendDue { die: u32 },
    /// The program or erase on the die has been suspended.
    Suspended { die: u32 },
    /// The device may have been idle long enough to fold its SLC cache.
    IdleCheck,
}

/// Numbers of the lanes.
const READ_ISSUED: usize = 0;
const PARSED: usize = 1;
const WRITE_ARRIVED: usize = 2;
const COMPLETED: usize = 3;
const SENSED: usize = 4;
const TRANSFERRED: usize = 5;
const RAN: usize = 6;
const OTHERS: usize = 7;
const LANES: usize = 8;

/// Kinds of events in the last lane.
const SUSPEND_DUE: u32 = 0;
const SUSPENDED: u32 = 1;
const IDLE_CHECK: u32 = 2;

/// Time of an event, number of events inserted before it, and its lane. Keys are compared in this order; no
/// two keys are equal.
///
/// ```text
///   127              64 63                   3 2      0
///   nanoseconds         events before it       lane
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    const NEVER: Key = Key(u128::MAX);
    const INSTANT_SHIFT: u32 = 64;

    #[inline]
    fn new(at: Instant, inserted: u64, lane: usize) -> Key {
        Key(u128::from(at.0) << Key::INSTANT_SHIFT | u128::from(inserted * LANES as u64 + lane as u64))
    }

    #[inline]
    fn instant(self) -> Instant {
        Instant((self.0 >> Key::INSTANT_SHIFT) as u64)
    }

    #[inline]
    fn lane(self) -> usize {
        self.0 as usize % LANES
    }

    #[inline]
    fn is_never(self) -> bool {
        self.instant() == Instant::FAR_FUTURE
    }
}

/// All events to come.
pub(crate) struct EventQueue {
    lanes: [Lane; LANES],
    /// The heads of the lanes, starting at node 8. Below 8, node `n` is the smaller of nodes `2n` and `2n +
    /// 1`.
    heads: [Key; 2 * LANES],
    inserted: u64,
    popped: u64,
}

/// The node of the earliest head.
const FIRST: usize = 1;

impl EventQueue {
    pub(crate) fn new() -> EventQueue {
        EventQueue {
            lanes: std::array::from_fn(|_| Lane::new()),
            heads: [Key::NEVER; 2 * LANES],
            inserted: 0,
            popped: 0,
        }
    }

    /// Number of events taken out so far.
    pub(crate) fn popped(&self) -> u64 {
        self.popped
    }

    /// Inserts `event` at the instant `at`.
    // Always inlined: the caller knows the event, so nothing of the `match` remains.
    #[inline(always)]
    pub(crate) fn push(&mut self, at: Instant, event: Event) {
        match event {
            Event::ReadIssued { read } => self.insert::<READ_ISSUED>(at, read, 0),
            Event::Parsed { command } => self.insert::<PARSED>(at, command, 0),
            Event::WriteArrived { command, slots } => self.insert::<WRITE_ARRIVED>(at, command, slots),
            Event::Completed { command } => self.insert::<COMPLETED>(at, command, 0),
            Event::Sensed { die } => self.insert::<SENSED>(at, die, 0),
            Event::Transferred { die } => self.insert::<TRANSFERRED>(at, die, 0),
            Event::Ran { die, generation } => self.insert::<RAN>(at, die, generation),
            Event::SuspendDue { die } => self.insert::<OTHERS>(at, die, SUSPEND_DUE),
            Event::Suspended { die } => self.insert::<OTHERS>(at, die, SUSPENDED),
            Event::IdleCheck => self.insert::<OTHERS>(at, 0, IDLE_CHECK),
        }
    }

    /// The instant of the earliest event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let first = self.heads[FIRST];
        (!first.is_never()).then(|| first.instant())
    }

    /// A lower bound for the time of the next completion that the events in here can cause; `None` without
    /// events.
    pub(crate) fn completion_bound(&self, delays: &LeastDelays) -> Option<Instant> {
        let bound = |(lane, head): (usize, &Key)| {
            let delay = match lane {
                SENSED => delays.sensed,
                READ_ISSUED | TRANSFERRED | OTHERS => delays.step,
                _ => Nanos::ZERO,
            };
            (!head.is_never()).then(|| head.instant() + delay)
        };
        self.heads[LANES..].iter().enumerate().filter_map(bound).min()
    }

    /// Takes out the earliest event, if it is not later than `until`.
    #[inline]
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let first = self.heads[FIRST];
        let at = first.instant();
        if at > until || first.is_never() {
            return None;
        }
        self.popped += 1;
        let lane = first.lane();
        let (Entry { number, detail, .. }, next) = self.lanes[lane].pop();
        self.set_head(lane, next);
        let event = match lane {
            READ_ISSUED => Event::ReadIssued { read: number },
            PARSED => Event::Parsed { command: number },
            WRITE_ARRIVED => Event::WriteArrived { command: number, slots: detail },
            COMPLETED => Event::Completed { command: number },
            SENSED => Event::Sensed { die: number },
            TRANSFERRED => Event::Transferred { die: number },
            RAN => Event::Ran { die: number, generation: detail },
            _ => match detail {
                SUSPEND_DUE => Event::SuspendDue { die: number },
                SUSPENDED => Event::Suspended { die: number },
                _ => Event::IdleCheck,
            },
        };
        Some((at, event))
    }

    #[inline]
    fn insert<const LANE: usize>(&mut self, at: Instant, number: u32, detail: u32) {
        self.inserted += 1;
        let key = Key::new(at, self.inserted, LANE);
        if self.lanes[LANE].push(Entry { key, number, detail }) {
            self.set_head(LANE, key);
        }
    }

    /// Updates the tree from a lane's head to the root.
    #[inline]
    fn set_head(&mut self, lane: usize, head: Key) {
        let mut node = LANES + lane;
        let mut key = head;
        self.heads[node] = key;
        for _ in 0..LANES.ilog2() {
            key = key.min(self.heads[(node ^ 1) % (2 * LANES)]);
            node /= 2;
            self.heads[node % (2 * LANES)] = key;
        }
    }
}
