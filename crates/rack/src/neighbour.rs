//! A neighbour of the databases: a tenant that does one kind of work on every SSD, without an end, and honours credits.

use crate::asked::{Asked, Task};
use crate::files::{MICRO_SLOTS, SLOT};
use crate::path::Path;
use blob::{Place, SsdId};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::IoKind;
use std::str::FromStr;
use units::Bytes;

/// The work of a neighbour, on each SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A backup: reads of 128 KiB in order, 16 outstanding.
    Backup,
    /// A bulk load: writes of 128 KiB in order, 16 outstanding.
    Load,
    /// A batch job: reads of 4 KiB at random, 128 outstanding.
    Batch,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 3] = [Work::Backup, Work::Load, Work::Batch];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Work::Backup => "backup",
            Work::Load => "load",
            Work::Batch => "batch",
        }
    }

    /// IOs outstanding on each SSD.
    pub fn outstanding(self) -> u32 {
        match self {
            Work::Backup | Work::Load => 16,
            Work::Batch => 128,
        }
    }

    /// Bytes of an IO.
    pub fn length(self) -> Bytes {
        match self {
            Work::Backup | Work::Load => Bytes::kib(128),
            Work::Batch => Bytes::kib(4),
        }
    }

    fn slots(self) -> u64 {
        self.length().get() / SLOT
    }

    /// Whether an IO begins where the one before ended.
    fn is_in_order(self) -> bool {
        self != Work::Batch
    }

    fn kind(self) -> IoKind {
        match self {
            Work::Backup | Work::Batch => IoKind::Read,
            Work::Load => IoKind::Write,
        }
    }
}

impl FromStr for Work {
    type Err = String;

    fn from_str(name: &str) -> Result<Work, String> {
        let found = Work::ALL.into_iter().find(|work| work.name() == name);
        found.ok_or_else(|| {
            format!("there is no such work; there are {}", Work::ALL.map(Work::name).join(", "))
        })
    }
}

/// A neighbour with its client.
pub(crate) struct Neighbour {
    pub(crate) paths: Vec<Path>,
    pub(crate) asked: Vec<Asked>,
    work: Work,
    /// Slots of each SSD.
    slots: u64,
    /// The slot of each SSD that comes next, if they are read or written in order.
    next: Vec<u64>,
    random: Xoshiro256PlusPlus,
}

impl Neighbour {
    /// It has asked for its first IOs. `slots`: of each SSD.
    pub(crate) fn new(work: Work, seed: u64, slots: u64, paths: Vec<Path>) -> Neighbour {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let next = vec![0; paths.len()];
        let mut neighbour = Neighbour { paths, asked: Vec::new(), work, slots, next, random };
        for ssd in 0..neighbour.paths.len() {
            (0..work.outstanding()).for_each(|_| neighbour.ask(ssd));
        }
        neighbour
    }

    /// Asks for the next IO on an SSD.
    fn ask(&mut self, ssd: usize) {
        let length = self.work.slots();
        let pieces = self.slots / length;
        let piece = if self.work.is_in_order() {
            let piece = self.next[ssd];
            self.next[ssd] = (piece + 1) % pieces;
            piece
        } else {
            self.random.random_range(0..pieces)
        };
        let slot = piece * length;
        let place = Place { ssd: SsdId(ssd as u32), micro: slot / MICRO_SLOTS };
        self.asked.push(Asked {
            place,
            first: slot % MICRO_SLOTS,
            slots: length,
            kind: self.work.kind(),
            task: Task::Stream,
            instead: None,
        });
    }

    /// An IO has ended.
    pub(crate) fn on_io(&mut self, asked: &Asked) {
        self.ask(asked.place.ssd.0 as usize);
    }
}
