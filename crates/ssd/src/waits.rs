//! The parts of a read's time in the SSD.
//!
//! A read of one slot waits for one thing after the other, so its time is the sum of the parts. While it waits for its die, the die does
//! something else: the time of that is divided by what it is.
//!
//! ```text
//!   submitted ─Firmware─► issued ─Mapping─► queued ─Reads, Programs, Collection─► sensed ─Sensing─► ─Channel─► ─Link─► complete
//! ```
//!
//! Nothing is noted before the first read that is followed, and only those are followed of which it is asked.
//!
//! Holds: the parts add up to the latency, and a read alone waits for nothing (`tests/model/waits.rs`).

use crate::die::{Activity, Work};
use std::collections::HashMap;
use units::{Instant, Nanos};

/// A part of a read's time in the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Until the firmware has passed it on, its own work included.
    Firmware,
    /// Until a page of the mapping that it needs is in memory.
    Mapping,
    /// Its die serves other reads.
    Reads,
    /// Its die programs data of the host.
    Programs,
    /// Its die collects garbage: copies, and erases.
    Collection,
    /// Its own data is sensed.
    Sensing,
    /// Until its data has crossed the channel.
    Channel,
    /// Until its data has passed memory and link.
    Link,
}

impl Part {
    /// All of them, in the order of a read's way.
    pub const ALL: [Part; 8] = [
        Part::Firmware,
        Part::Mapping,
        Part::Reads,
        Part::Programs,
        Part::Collection,
        Part::Sensing,
        Part::Channel,
        Part::Link,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Part::Firmware => "firmware",
            Part::Mapping => "mapping",
            Part::Reads => "reads",
            Part::Programs => "programs",
            Part::Collection => "collection",
            Part::Sensing => "sensing",
            Part::Channel => "channel",
            Part::Link => "link",
        }
    }
}

/// The time of a read in the SSD, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Nanos; Part::ALL.len()]);

impl Waits {
    /// The time of this part.
    pub fn part(&self, part: Part) -> Nanos {
        self.0[part as usize]
    }

    /// The sum of all parts: the latency.
    pub fn all(&self) -> Nanos {
        self.0.into_iter().fold(Nanos::ZERO, |sum, part| sum + part)
    }
}

/// The work of a die that others wait for: [`Part::Reads`], [`Part::Programs`], [`Part::Collection`].
const WORK: [Part; 3] = [Part::Reads, Part::Programs, Part::Collection];

/// The time that a die has spent on each work.
#[derive(Clone, Copy, Default)]
struct Spent([Nanos; WORK.len()]);

#[derive(Clone, Copy, Default)]
struct DieTime {
    spent: Spent,
    /// Its work now, and since when.
    now: Option<(usize, Instant)>,
}

impl DieTime {
    fn until(&self, now: Instant) -> Spent {
        let mut spent = self.spent;
        if let Some((work, since)) = self.now {
            spent.0[work] += now.since(since);
        }
        spent
    }
}

#[derive(Clone, Copy)]
struct Way {
    waits: Waits,
    /// The end of its last part.
    at: Instant,
    /// The time of its die when it was queued there.
    queued: Spent,
}

impl Way {
    fn pass(&mut self, part: Part, now: Instant) {
        self.waits.0[part as usize] += now.since(self.at);
        self.at = now;
    }
}

/// The reads that are followed.
pub(crate) struct Followed {
    /// By the number of their command.
    ways: HashMap<u32, Way>,
    dies: Vec<DieTime>,
    /// Tag and parts of those that are complete.
    complete: Vec<(u64, Waits)>,
}

impl Followed {
    pub(crate) fn new(dies: usize) -> Followed {
        let dies = vec![DieTime::default(); dies];
        Followed { ways: HashMap::new(), dies, complete: Vec::new() }
    }

    pub(crate) fn follow(&mut self, now: Instant, command: u32) {
        self.ways.insert(command, Way { waits: Waits::default(), at: now, queued: Spent::default() });
    }

    /// The command has had this part.
    pub(crate) fn pass(&mut self, now: Instant, command: u32, part: Part) {
        if let Some(way) = self.ways.get_mut(&command) {
            way.pass(part, now);
        }
    }

    /// The command's read is queued on its die.
    pub(crate) fn queue(&mut self, now: Instant, command: u32, die: u32) {
        if let Some(way) = self.ways.get_mut(&command) {
            way.queued = self.dies[die as usize].until(now);
        }
    }

    /// The die begins the command's read.
    pub(crate) fn sense(&mut self, now: Instant, command: u32, die: u32) {
        let Some(way) = self.ways.get_mut(&command) else { return };
        let spent = self.dies[die as usize].until(now);
        for (part, (spent, before)) in WORK.into_iter().zip(spent.0.into_iter().zip(way.queued.0)) {
            way.waits.0[part as usize] += Nanos(spent.0 - before.0);
        }
        way.at = now;
    }

    /// The die does this from now on.
    pub(crate) fn turn(&mut self, now: Instant, die: u32, activity: Activity, long: Option<&Work>) {
        let part = match activity {
            Activity::Idle => None,
            Activity::Sensing { .. } | Activity::Delivering { .. } => Some(Part::Reads),
            Activity::CopySensing { .. } | Activity::CopyDelivering => Some(Part::Collection),
            Activity::Loading { .. } | Activity::Running | Activity::Suspending => {
                Some(if long.is_some_and(Work::is_collection) { Part::Collection } else { Part::Programs })
            }
        };
        let time = &mut self.dies[die as usize];
        time.spent = time.until(now);
        time.now = part.and_then(|part| WORK.iter().position(|work| *work == part)).map(|work| (work, now));
    }

    /// The command is complete.
    pub(crate) fn complete(&mut self, now: Instant, command: u32, tag: u64) {
        if let Some(mut way) = self.ways.remove(&command) {
            way.pass(Part::Link, now);
            self.complete.push((tag, way.waits));
        }
    }

    /// Those that are complete, once.
    pub(crate) fn take(&mut self) -> Vec<(u64, Waits)> {
        std::mem::take(&mut self.complete)
    }
}
