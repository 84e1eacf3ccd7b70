//! The IOs of a stream: direction, place and length of each.
//!
//! A stream works on a region of its namespace, counted in the job's unit (see `blocks`). A sequential stream continues after the
//! last IO of the same direction, and starts over at the end. A random stream does each unit once per pass (`random_map`), in
//! any order; or chooses units independently (`norandommap`, and the distributions that prefer some places).
//!
//! Each connection of a job (`numjobs`) does the whole region, as in fio; `offset_increment` moves the regions apart.
//!
//! Holds: every IO is within the region (`every_io_lies_in_the_region`); the same seed gives the same IOs (`a_seed_replays`); a
//!        random pass does every unit once, for any sizes (`a_random_pass_does_every_unit_once`).

use crate::blocks::BlockSizes;
use crate::direction::{DIRECTIONS, Direction};
use crate::distribution::{Distribution, Places};
use crate::job::Job;
use crate::random_map::RandomMap;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Bytes;

/// The part of a namespace that a job uses, in units of its block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where it begins, in bytes from the start of the namespace.
    pub offset: Bytes,
    /// Bytes per unit.
    pub unit: Bytes,
    /// Units that each connection works on; never 0.
    pub units: u64,
    /// Units by which connection n + 1 begins after connection n.
    pub increment: u64,
}

impl Region {
    /// Units from the start of the first connection's region to the end of the last one's.
    pub(crate) fn reach(&self, connections: u32) -> u64 {
        self.units + u64::from(connections - 1) * self.increment
    }
}

/// One IO to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its direction.
    pub direction: Direction,
    /// The first unit, counted from the start of the job's region.
    pub first: u64,
    /// How many units.
    pub units: u64,
}

/// The IOs of one stream.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The stream's own first unit.
    base: u64,
    units: u64,
    unit: Bytes,
    sizes: BlockSizes,
    order: Order,
    directions: &'static [Direction],
    /// Percentage of the first of two directions.
    first_percent: u8,
    /// Where the last IO of each direction ended.
    cursors: [u64; DIRECTIONS],
    random: Xoshiro256PlusPlus,
}

#[derive(Debug)]
enum Order {
    Sequential,
    Random { places: Places, map: Option<RandomMap>, percentage: [u8; DIRECTIONS] },
}

impl Workload {
    /// The stream of connection number `clone` of `job` on `region`.
    pub(crate) fn new(job: &Job, region: Region, clone: u32, seed: u64) -> Workload {
        let Region { unit, units, increment, .. } = region;
        assert!(units > 0, "a workload needs at least one unit to work on");
        let order = if job.rw.is_random() {
            // A distribution that prefers some places must be able to repeat them.
            let has_map = !job.norandommap && job.random_distribution == Distribution::Even;
            Order::Random {
                places: Places::new(job.random_distribution, units, seed),
                map: has_map.then(|| RandomMap::new(units)),
                percentage: job.percentage_random,
            }
        } else {
            Order::Sequential
        };
        let directions = job.rw.directions();
        Workload {
            base: u64::from(clone) * increment,
            units,
            unit,
            sizes: job.bs.clone(),
            order,
            // In `trimwrite` the stream sends the write when the trim has ended; the workload has only the trims.
            directions: if job.rw.writes_after_trims() { &[Direction::Trim] } else { directions },
            first_percent: job.rwmixread,
            cursors: [job.first_step * (job.bs.smallest().get() / unit.get()) % units; DIRECTIONS],
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ (u64::from(clone) << 32)),
        }
    }

    /// The direction of the next IO.
    pub(crate) fn next_direction(&mut self) -> Direction {
        match *self.directions {
            [only] => only,
            [first, second] => {
                if self.random.random_range(0..100) < self.first_percent {
                    first
                } else {
                    second
                }
            }
            _ => unreachable!("a job has one direction or two"),
        }
    }

    /// The other direction, in a mix in which both occur.
    pub(crate) fn other_direction(&self, direction: Direction) -> Option<Direction> {
        let is_mixed = self.directions.len() == 2 && (1..100).contains(&self.first_percent);
        self.directions.iter().copied().find(|other| is_mixed && *other != direction)
    }

    /// The next IO of a direction; there is always one. It moves at most `most` bytes, which must be at least one unit.
    pub(crate) fn next_step(&mut self, direction: Direction, most: Bytes) -> Step {
        let wanted = self.sizes.pick(direction, &mut self.random).min(most).get() / self.unit.get();
        let cursor = &mut self.cursors[direction.index()];
        let (first, units) = match &mut self.order {
            Order::Sequential => (*cursor, wanted),
            Order::Random { places, map, percentage } => {
                let percentage = percentage[direction.index()];
                let is_random = percentage == 100 || self.random.random_range(0..100) < percentage;
                match (is_random, map) {
                    (false, map) => {
                        let units = wanted.min(self.units - *cursor);
                        if let Some(map) = map {
                            (*cursor..*cursor + units).for_each(|unit| map.set_done(unit));
                        }
                        (*cursor, units)
                    }
                    (true, None) => (places.pick(&mut self.random), wanted),
                    (true, Some(map)) => {
                        let first = map.next_free(places.pick(&mut self.random));
                        // As in fio, an IO ends before a unit that was already done.
                        let units = map.free_run(first, wanted);
                        (first..first + units).for_each(|unit| map.set_done(unit));
                        (first, units)
                    }
                }
            }
        };
        let units = units.min(self.units - first);
        let end = first + units;
        *cursor = if end == self.units { 0 } else { end };
        Step { direction, first: self.base + first, units }
    }

    /// The stream's randomness, for its timetable.
    pub(crate) fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::Rw;

    const UNIT: Bytes = Bytes::kib(4);
    const NO_LIMIT: Bytes = Bytes::gib(1);

    fn job(rw: Rw) -> Job {
        Job { rw, rwmixread: 70, ..Job::named("a") }
    }

    fn region(units: u64) -> Region {
        Region { offset: Bytes::ZERO, unit: UNIT, units, increment: 0 }
    }

    fn next(workload: &mut Workload) -> Step {
        let direction = workload.next_direction();
        workload.next_step(direction, NO_LIMIT)
    }

    fn mixed_sizes() -> BlockSizes {
        BlockSizes::parse_split("4k/30:16k/30:12k/40", UNIT).expect("a split")
    }

    #[test]
    fn every_io_lies_in_the_region() {
        for rw in Rw::ALL {
            for bs in [UNIT.into(), mixed_sizes()] {
                for random_distribution in [Distribution::Even, Distribution::Zipf(1.1)] {
                    for units in [1, 2, 7, 1000] {
                        let percentage_random = [80; DIRECTIONS];
                        let job = Job { bs: bs.clone(), random_distribution, percentage_random, ..job(rw) };
                        let region = Region { increment: 5, ..region(units) };
                        let mut workload = Workload::new(&job, region, 1, 9);
                        for _ in 0..1000 {
                            let Step { first, units: length, .. } = next(&mut workload);
                            assert!(
                                length > 0 && first >= 5 && first + length <= 5 + units,
                                "{rw:?} asked for {length} units at {first} of {units}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_random_pass_does_every_unit_once() {
        for rw in [Rw::RandWrite, Rw::RandRw, Rw::RandTrim] {
            for bs in [UNIT.into(), mixed_sizes()] {
                let mut workload = Workload::new(&Job { bs, ..job(rw) }, region(1000), 0, 4);
                for pass in 0..2 {
                    let mut seen = [false; 1000];
                    while seen.contains(&false) {
                        let Step { first, units, .. } = next(&mut workload);
                        for unit in first..first + units {
                            assert!(!seen[unit as usize], "{rw:?} did unit {unit} twice in pass {pass}");
                            seen[unit as usize] = true;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_map_some_units_are_left_out() {
        let job = Job { norandommap: true, ..job(Rw::RandRead) };
        let mut workload = Workload::new(&job, region(1000), 0, 1);
        let mut seen = [false; 1000];
        (0..1000).for_each(|_| seen[next(&mut workload).first as usize] = true);
        let done = seen.iter().filter(|seen| **seen).count();
        // 1 - 1/e of them.
        assert!((580..690).contains(&done), "{done} of 1000");
    }

    #[test]
    fn a_seed_replays() {
        let steps = |seed| {
            let mut workload = Workload::new(&job(Rw::RandRw), region(1 << 20), 0, seed);
            (0..100).map(|_| next(&mut workload)).collect::<Vec<_>>()
        };
        assert_eq!(steps(3), steps(3));
        assert_ne!(steps(3), steps(4));
    }

    #[test]
    fn a_mix_keeps_its_percentage() {
        let mut workload = Workload::new(&job(Rw::RandRw), region(1000), 0, 1);
        let reads = (0..100_000).filter(|_| next(&mut workload).direction == Direction::Read).count();
        assert!((69_000..71_000).contains(&reads), "{reads} reads of 100000 at 70 %");
    }

    #[test]
    fn percentage_random_is_the_share_of_ios_that_jump() {
        for (percent, expected) in [(0, 0..=0), (30, 28_500..=31_500), (100, 99_000..=100_000)] {
            let job =
                Job { percentage_random: [percent; DIRECTIONS], norandommap: true, ..job(Rw::RandRead) };
            let mut workload = Workload::new(&job, region(1 << 20), 0, 1);
            let mut end = 0;
            let jumps = (0..100_000).filter(|_| {
                let step = next(&mut workload);
                let jumps = step.first != end;
                end = (step.first + step.units) % (1 << 20);
                jumps
            });
            let jumps = jumps.count();
            assert!(expected.contains(&jumps), "{jumps} of 100000 IOs jump at {percent} %");
        }
    }

    #[test]
    fn sequential_connections_do_the_same_unless_moved_apart() {
        let starts = |increment| {
            let region = Region { increment, ..region(12) };
            [0, 1, 2].map(|clone| next(&mut Workload::new(&job(Rw::Write), region, clone, 1)).first)
        };
        assert_eq!(starts(0), [0, 0, 0]);
        assert_eq!(starts(4), [0, 4, 8]);
    }

    #[test]
    fn a_sequential_pass_ends_at_the_end_of_the_region_and_starts_over() {
        let job = Job { bs: Bytes::kib(16).into(), ..job(Rw::Read) };
        let mut workload = Workload::new(&job, region(10), 0, 1);
        let steps: Vec<_> =
            (0..4).map(|_| next(&mut workload)).map(|step| (step.first, step.units)).collect();
        assert_eq!(steps, [(0, 4), (4, 4), (8, 2), (0, 4)]);
    }
}
