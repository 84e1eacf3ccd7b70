//! What a stream asks for, IO by IO: read or write, and where.
//!
//! A stream works on a region of its namespace in steps of `bs`. Random streams pick a step evenly; sequential ones go on
//! from the last step of the same direction and start over at the end. The clones of a job (`numjobs`) share the region; in
//! a sequential job each starts at its own part of it, as otherwise they would all read what the first has just read.
//!
//! Holds: no IO leaves the region (`every_io_lies_in_the_region`); the same seed asks for the same (`a_seed_replays`).

use super::job::Job;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use units::Bytes;

/// What a job does, in fio's words.
#[allow(clippy::enum_variant_names, reason = "`rw` is fio's word for a mix, and its name for the option")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub(crate) enum Rw {
    /// Reads one step after the other.
    Read,
    /// Writes one step after the other.
    Write,
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads and writes, each one step after the other.
    #[serde(alias = "readwrite")]
    #[value(alias = "readwrite")]
    Rw,
    /// Reads and writes anywhere.
    RandRw,
}

impl Rw {
    /// Steps are picked at random.
    pub(crate) fn is_random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw)
    }

    /// Some IOs write.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Rw::Read | Rw::RandRead)
    }

    /// Percentage of reads, where a mix of both reads `mixed` percent.
    pub(crate) fn read_percent(self, mixed: u8) -> u8 {
        match self {
            Rw::Read | Rw::RandRead => 100,
            Rw::Write | Rw::RandWrite => 0,
            Rw::Rw | Rw::RandRw => mixed,
        }
    }

    /// fio's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rw::Read => "read",
            Rw::Write => "write",
            Rw::RandRead => "randread",
            Rw::RandWrite => "randwrite",
            Rw::Rw => "rw",
            Rw::RandRw => "randrw",
        }
    }
}

/// Which way an IO moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

impl Direction {
    /// Both, in the order of results.
    pub(crate) const ALL: [Direction; 2] = [Direction::Read, Direction::Write];

    /// The direction as an index into pairs.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The part of a namespace that a job uses, in steps of its block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where it begins, in bytes from the start of the namespace.
    pub(crate) offset: Bytes,
    /// Bytes per step.
    pub(crate) step: Bytes,
    /// Number of steps; never 0.
    pub(crate) steps: u64,
}

/// One IO to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which way.
    pub(crate) direction: Direction,
    /// Which step of the region.
    pub(crate) number: u64,
}

/// The IOs of one stream.
#[derive(Debug)]
pub(crate) struct Workload {
    steps: u64,
    random_order: bool,
    read_percent: u8,
    /// The next step of each direction, for sequential streams.
    cursors: [u64; 2],
    random: Xoshiro256PlusPlus,
}

impl Workload {
    /// The stream of clone number `clone` of `job` on a region of `steps`.
    pub(crate) fn new(job: &Job, steps: u64, clone: u32, seed: u64) -> Workload {
        assert!(steps > 0, "a workload needs at least one step to work on");
        let start = (u128::from(steps) * u128::from(clone) / u128::from(job.numjobs)) as u64;
        Workload {
            steps,
            random_order: job.rw.is_random(),
            read_percent: job.rw.read_percent(job.rwmixread),
            cursors: [(start + job.first_step) % steps; 2],
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ (u64::from(clone) << 32)),
        }
    }

    /// The next IO; there is always one more.
    pub(crate) fn next_step(&mut self) -> Step {
        let read = match self.read_percent {
            0 => false,
            100 => true,
            percent => self.random.random_range(0..100) < percent,
        };
        let direction = if read { Direction::Read } else { Direction::Write };
        let number = if self.random_order {
            self.random.random_range(0..self.steps)
        } else {
            let cursor = &mut self.cursors[direction.index()];
            let number = *cursor;
            *cursor = if number + 1 == self.steps { 0 } else { number + 1 };
            number
        };
        Step { direction, number }
    }

    /// The stream's randomness, for its timetable.
    pub(crate) fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(rw: Rw, numjobs: u32) -> Job {
        Job { rw, numjobs, rwmixread: 70, ..Job::named("a") }
    }

    const ALL: [Rw; 6] = [Rw::Read, Rw::Write, Rw::RandRead, Rw::RandWrite, Rw::Rw, Rw::RandRw];

    #[test]
    fn every_io_lies_in_the_region() {
        for rw in ALL {
            for steps in [1, 2, 7, 1000] {
                let mut workload = Workload::new(&job(rw, 3), steps, 1, 9);
                for _ in 0..3000 {
                    let step = workload.next_step();
                    assert!(step.number < steps, "{rw:?} asked for step {} of {steps}", step.number);
                }
            }
        }
    }

    #[test]
    fn a_seed_replays() {
        let steps = |seed| {
            let mut workload = Workload::new(&job(Rw::RandRw, 1), 1 << 20, 0, seed);
            (0..100).map(|_| workload.next_step()).collect::<Vec<_>>()
        };
        assert_eq!(steps(3), steps(3));
        assert_ne!(steps(3), steps(4));
    }

    #[test]
    fn a_mix_keeps_its_percentage() {
        let mut workload = Workload::new(&job(Rw::RandRw, 1), 1000, 0, 1);
        let reads = (0..100_000).filter(|_| workload.next_step().direction == Direction::Read).count();
        assert!((69_000..71_000).contains(&reads), "{reads} reads of 100000 at 70 %");
    }

    #[test]
    fn sequential_clones_start_apart_and_cover_everything() {
        let mut seen = vec![0; 12];
        for clone in 0..3 {
            let job = Job { first_step: 5, ..job(Rw::Write, 3) };
            let mut workload = Workload::new(&job, 12, clone, 1);
            (0..4).for_each(|_| seen[workload.next_step().number as usize] += 1);
        }
        assert_eq!(seen, [1; 12]);
    }

    #[test]
    fn random_steps_reach_the_whole_region_evenly() {
        let mut counts = [0u32; 10];
        let mut workload = Workload::new(&job(Rw::RandRead, 1), 10, 0, 5);
        (0..100_000).for_each(|_| counts[workload.next_step().number as usize] += 1);
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }
}
