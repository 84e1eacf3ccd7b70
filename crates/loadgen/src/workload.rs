//! The IOs of a stream: direction, place and length of each.
//!
//! A stream works on a region of its namespace, counted in the job's unit (see `blocks`). A sequential stream continues after the
//! last IO of the same direction, and starts over at the end; or leaves a gap behind each IO (`rw=read:8k`). A random stream does each unit
//! once per pass, in any order: of IOs of one size that needs no memory (`permutation`), of several sizes a map (`random_map`). Or it chooses
//! units independently (`norandommap`, the distributions that prefer some places, and `blockalign` with several sizes). It may continue
//! for some IOs where it is (`rw=randread:8`).
//!
//! Each connection of a job (`numjobs`) does the whole region, as in fio; `offset_increment` moves the regions apart.
//!
//! Holds: every IO is within the region (`every_io_lies_in_the_region`); the same seed gives the same IOs (`a_seed_replays`); a
//!        random pass does every unit once, for any sizes (`a_random_pass_does_every_unit_once`).

use crate::blocks::BlockSizes;
use crate::direction::{DIRECTIONS, Direction};
use crate::distribution::{Distribution, Places};
use crate::job::Job;
use crate::permutation::Permutation;
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
    /// Number of units.
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
    /// Where the last IO of each direction ended, and the gap behind it.
    cursors: [u64; DIRECTIONS],
    random: Xoshiro256PlusPlus,
}

#[derive(Debug)]
enum Order {
    /// One after the other, with this many units between them; negative: backwards.
    Sequential {
        gap: i64,
    },
    Random(Random),
}

#[derive(Debug)]
struct Random {
    choice: Choice,
    /// Units between two places where an IO may begin.
    step: u64,
    percentage: [u8; DIRECTIONS],
    /// IOs that follow each other from a place that was chosen.
    run: u32,
    /// The remaining part of them, by direction.
    run_left: [u32; DIRECTIONS],
}

/// The choice of the place of a random IO.
#[derive(Debug)]
enum Choice {
    Independent(Places),
    /// Each place once per pass.
    Once(Permutation),
    /// Each unit once per pass, whatever the sizes.
    OnceBySize(Places, RandomMap),
}

impl Choice {
    /// The choice of `job` on `units` units.
    fn of(job: &Job, region: &Region, step: u64, (seed, random): (u64, &mut Xoshiro256PlusPlus)) -> Choice {
        let size = job.bs.largest().get() / region.unit.get();
        let places = (region.units.saturating_sub(size) / step).saturating_add(1);
        let independent = |places| Choice::Independent(Places::new(&job.random_distribution, places, seed));
        // A distribution that prefers some places must be able to repeat them.
        if job.norandommap || job.random_distribution != Distribution::Even {
            return independent(if needs_map(job) { region.units.div_ceil(step) } else { places });
        }
        if !needs_map(job) {
            return Choice::Once(Permutation::new(places, random));
        }
        if job.blockalign.is_some() {
            return independent(region.units.div_ceil(step));
        }
        let places = Places::new(&job.random_distribution, region.units, seed);
        Choice::OnceBySize(places, RandomMap::new(region.units))
    }
}

/// Whether the IOs of a random job may begin anywhere and have several sizes, so that a pass has to remember what was done.
fn needs_map(job: &Job) -> bool {
    job.bs.smallest() != job.bs.largest() || job.percentage_random != [100; DIRECTIONS] || job.run > 1
}

/// The memory that a stream of `job` takes to remember what it did.
pub(crate) fn memory_of(job: &Job, region: &Region) -> Bytes {
    let is_even = !job.norandommap && job.random_distribution == Distribution::Even;
    let has_map = job.rw.is_random() && is_even && needs_map(job) && job.blockalign.is_none();
    if has_map { RandomMap::memory(region.units) } else { Bytes::ZERO }
}

impl Workload {
    /// The stream of connection number `clone` of `job` on `region`.
    pub(crate) fn new(job: &Job, region: Region, clone: u32, seed: u64) -> Workload {
        let Region { unit, units, increment, .. } = region;
        assert!(units > 0, "a workload needs at least one unit to work on");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (u64::from(clone) << 32));
        let in_units = |size: Bytes| size.get() / unit.get();
        let gap = job.gap / unit.get() as i64;
        let order = if job.rw.is_random() {
            let by_size = if needs_map(job) { 1 } else { in_units(job.bs.largest()) };
            let step = job.blockalign.map_or(by_size, in_units).max(1);
            let choice = Choice::of(job, &region, step, (seed, &mut random));
            let (percentage, run) = (job.percentage_random, job.run.max(1));
            Order::Random(Random { choice, step, percentage, run, run_left: [0; DIRECTIONS] })
        } else {
            Order::Sequential { gap }
        };
        let directions = job.rw.directions();
        let first = job.first_step * in_units(job.bs.smallest()) % units;
        // A backward stream begins at the end.
        let first = if gap < 0 { units - in_units(job.bs.smallest()).min(units) } else { first };
        Workload {
            base: u64::from(clone) * increment,
            units,
            unit,
            sizes: job.bs.clone(),
            order,
            // In `trimwrite` the stream sends the write when the trim has ended; the workload has only the trims.
            directions: if job.rw.writes_after_trims() { &[Direction::Trim] } else { directions },
            first_percent: job.rwmixread,
            cursors: [first; DIRECTIONS],
            random,
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
        let most = most.get() / self.unit.get();
        let wanted = (self.sizes.pick(direction, &mut self.random).get() / self.unit.get()).min(most);
        let cursor = &mut self.cursors[direction.index()];
        let (first, units, gap) = match &mut self.order {
            Order::Sequential { gap } => (*cursor, wanted, *gap),
            Order::Random(order) => {
                let (first, units) = order.next(direction, *cursor, wanted, (self.units, &mut self.random));
                (first, units, 0)
            }
        };
        let units = units.min(self.units - first);
        *cursor = after(first, units, gap, self.units);
        Step { direction, first: self.base + first, units }
    }

    /// The stream's randomness, for its timetable.
    pub(crate) fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.random
    }
}

/// Where the next sequential IO begins: behind this one and the gap. An IO that would begin or end outside of the region starts over at the
/// end that it comes from.
fn after(first: u64, units: u64, gap: i64, all: u64) -> u64 {
    let end = first + units;
    match end.checked_add_signed(gap) {
        Some(next) if gap < 0 && next + units <= all => next,
        Some(next) if gap >= 0 && next < all => next,
        _ if gap < 0 => all.saturating_sub(units),
        _ => 0,
    }
}

impl Random {
    /// The next IO of `wanted` units of all `units`: its first unit, and how many it has. `cursor` is where the last one ended.
    fn next(
        &mut self,
        direction: Direction,
        cursor: u64,
        wanted: u64,
        (units, random): (u64, &mut Xoshiro256PlusPlus),
    ) -> (u64, u64) {
        let percentage = self.percentage[direction.index()];
        let left = &mut self.run_left[direction.index()];
        let is_random = *left == 0 && (percentage == 100 || random.random_range(0..100) < percentage);
        *left = left.checked_sub(1).unwrap_or(self.run - 1);
        if !is_random {
            let length = wanted.min(units - cursor);
            if let Choice::OnceBySize(_, map) = &mut self.choice {
                (cursor..cursor + length).for_each(|unit| map.set_done(unit));
            }
            return (cursor, length);
        }
        match &mut self.choice {
            Choice::Independent(places) => (places.pick(random) * self.step, wanted),
            Choice::Once(order) => (order.next(random) * self.step, wanted),
            Choice::OnceBySize(places, map) => {
                let first = map.next_free(places.pick(random));
                // As in fio, an IO ends before a unit that was already done.
                let length = map.free_run(first, wanted);
                (first..first + length).for_each(|unit| map.set_done(unit));
                (first, length)
            }
        }
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
                        let random_distribution = random_distribution.clone();
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

    /// The first units of the next IOs.
    fn firsts(workload: &mut Workload, count: usize) -> Vec<u64> {
        (0..count).map(|_| next(workload).first).collect()
    }

    #[test]
    fn sequential_ios_leave_gaps_and_go_backwards() {
        let of_gap = |gap| Workload::new(&Job { gap, ..job(Rw::Read) }, region(10), 0, 1);
        assert_eq!(firsts(&mut of_gap(2 * UNIT.get() as i64), 5), [0, 3, 6, 9, 0]);
        assert_eq!(firsts(&mut of_gap(-2 * UNIT.get() as i64), 12), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8]);
        assert_eq!(firsts(&mut of_gap(-4 * UNIT.get() as i64), 5), [9, 6, 3, 0, 9]);
    }

    #[test]
    fn random_ios_come_in_runs() {
        let job = Job { run: 4, norandommap: true, ..job(Rw::RandRead) };
        let firsts = firsts(&mut Workload::new(&job, region(100_000), 0, 1), 400);
        let follows = firsts.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert_eq!(follows, 300, "three of four follow the one before");
    }

    #[test]
    fn random_ios_begin_at_multiples_of_the_alignment() {
        let align = UNIT.get() * 8;
        for (bs, norandommap) in [(UNIT.into(), false), (mixed_sizes(), false), (mixed_sizes(), true)] {
            let job = Job { bs, norandommap, blockalign: Some(Bytes(align)), ..job(Rw::RandRead) };
            let mut workload = Workload::new(&job, region(1003), 0, 1);
            for _ in 0..2000 {
                let Step { first, units, .. } = next(&mut workload);
                assert!(first % 8 == 0 && first + units <= 1003, "{units} units at {first}");
            }
        }
    }

    #[test]
    fn a_pass_of_one_size_needs_no_memory_whatever_the_region() {
        let region = region(1 << 40);
        assert_eq!(memory_of(&job(Rw::RandRead), &region), Bytes::ZERO);
        let mut workload = Workload::new(&job(Rw::RandRead), region, 0, 1);
        let mut seen: Vec<u64> = firsts(&mut workload, 10_000);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000, "no unit comes twice");
        let mixed = Job { bs: mixed_sizes(), ..job(Rw::RandRead) };
        assert!(memory_of(&mixed, &region) > Bytes::gib(128), "a bit for each unit");
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
