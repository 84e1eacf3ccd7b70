//! When the next IO is due.
//!
//! | | an IO is sent | its latency counts from |
//! |---|---|---|
//! | closed loop | when fewer than `iodepth` are outstanding | when it was sent |
//! | capped (`rate`) | the same, but not before its time in the timetable | when it was sent |
//! | open loop (`rate` with `open_loop`) | the same | its time in the timetable |
//! | strict | when fewer than `iodepth` are outstanding, but not sooner after the previous IO than the rate allows | when it could be sent |
//!
//! A *capped* loop is fio's: IOs that a slow target delayed are made up for, as far as `iodepth` allows. In an *open* loop, if the
//! target stalls for a second, every IO that was due in that second shows it (no coordinated omission). A *strict* loop is the
//! application of the lab: it never makes up for lost time.
//!
//! Rates are per connection and direction, each with its own timetable.
//!
//! Holds: a linear timetable is exact to the nanosecond at every IO (`a_linear_timetable_does_not_drift`).

use crate::direction::{DIRECTIONS, Direction};
use crate::job::Job;
use rand::Rng;
use rand_distr::{Distribution, Exp1};
use units::{ByteRate, Bytes, Instant, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The spacing of IOs at a given rate (`rate_process`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Evenly.
    #[default]
    Linear,
    /// Like independent users: exponentially distributed gaps of the same mean.
    Poisson,
}

impl Arrival {
    /// Parses the name of an arrival process, as in `rate_process`.
    pub fn parse(text: &str) -> Result<Arrival, String> {
        match text {
            "linear" => Ok(Arrival::Linear),
            "poisson" => Ok(Arrival::Poisson),
            _ => Err("write linear or poisson".to_owned()),
        }
    }
}

/// A speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// IOs of the job's smallest size per second; never 0.
    Iops(u64),
    /// Bytes per second; never 0.
    Bytes(u64),
}

/// The limit of a job's rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Only its depth.
    #[default]
    Closed,
    /// Timetables.
    Timed(Rates),
    /// A rate that it never exceeds, for callers that build theirs in code.
    Strict(ByteRate),
}

/// Timetables of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// By direction; `None` has no timetable.
    pub per: [Option<Rate>; DIRECTIONS],
    /// How IOs are spaced.
    pub arrival: Arrival,
    /// Latency counts from the timetable.
    pub is_open: bool,
}

impl Rates {
    /// An open loop of this rate, each direction.
    pub fn open(rate: Rate, arrival: Arrival) -> Pacing {
        Pacing::Timed(Rates { per: [Some(rate); DIRECTIONS], arrival, is_open: true })
    }
}

/// The pace of one stream.
#[derive(Debug)]
pub(crate) enum Pace {
    /// No timetable.
    Closed,
    /// By direction.
    Timed { tables: [Option<Timetable>; DIRECTIONS], is_open: bool },
    /// No IO leaves before `until`.
    Strict { rate: ByteRate, until: Instant },
}

/// The moments at which IOs are due.
#[derive(Debug)]
pub(crate) struct Timetable {
    start: Instant,
    rate: Rate,
    arrival: Arrival,
    /// The size that counts as one IO.
    smallest: Bytes,
    /// IOs (or bytes) sent so far.
    left: u64,
    next: Instant,
}

impl Pace {
    /// The pace of a job that begins at `start`.
    pub(crate) fn new(job: &Job, start: Instant) -> Pace {
        match job.pacing {
            Pacing::Closed => Pace::Closed,
            Pacing::Strict(rate) => Pace::Strict { rate, until: start },
            Pacing::Timed(Rates { per, arrival, is_open }) => {
                let smallest = job.bs.smallest();
                let table = |rate: Rate| Timetable { start, rate, arrival, smallest, left: 0, next: start };
                Pace::Timed { tables: per.map(|rate| rate.map(table)), is_open }
            }
        }
    }

    /// When the next IO of a direction is due; `now` in a closed loop. A slot for it has been free since `room`.
    pub(crate) fn next(&self, direction: Direction, now: Instant, room: Instant) -> Instant {
        match self {
            Pace::Closed => now,
            Pace::Strict { until, .. } => (*until).max(room),
            Pace::Timed { tables, is_open } => match &tables[direction.index()] {
                None => now,
                Some(table) if *is_open => table.next,
                Some(table) => table.next.max(room),
            },
        }
    }

    /// The IO that `next` announced for `meant` was sent, with this many bytes.
    pub(crate) fn on_sent(
        &mut self,
        direction: Direction,
        meant: Instant,
        length: Bytes,
        random: &mut impl Rng,
    ) {
        match self {
            Pace::Closed => {}
            Pace::Strict { rate, until } => {
                *until = meant + rate.time_to_earn(length).expect("a job's rate is not zero");
            }
            Pace::Timed { tables, .. } => {
                if let Some(table) = &mut tables[direction.index()] {
                    table.on_sent(length, random);
                }
            }
        }
    }
}

impl Timetable {
    fn on_sent(&mut self, length: Bytes, random: &mut impl Rng) {
        let (step, per_second) = match self.rate {
            // As in fio, a large IO counts as several IOs of the smallest size.
            Rate::Iops(rate) => (length.get().div_ceil(self.smallest.get()), rate),
            Rate::Bytes(rate) => (length.get(), rate),
        };
        match self.arrival {
            Arrival::Linear => {
                self.left += step;
                let since_start = u128::from(self.left) * NANOS_PER_SEC / u128::from(per_second);
                self.next = self.start + Nanos(since_start as u64);
            }
            Arrival::Poisson => {
                let mean = step as f64 * NANOS_PER_SEC as f64 / per_second as f64;
                let gap: f64 = Exp1.sample(random);
                self.next += Nanos((gap * mean) as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const READ: Direction = Direction::Read;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    fn open(rate: Rate, start: Instant) -> Pace {
        Pace::new(&Job { pacing: Rates::open(rate, Arrival::Linear), ..Job::named("a") }, start)
    }

    fn capped(per: [Option<Rate>; 3]) -> Pace {
        let pacing = Pacing::Timed(Rates { per, arrival: Arrival::Linear, is_open: false });
        Pace::new(&Job { pacing, ..Job::named("a") }, Instant::ZERO)
    }

    fn ms(n: u64) -> Instant {
        Instant(n * 1_000_000)
    }

    #[test]
    fn a_linear_timetable_does_not_drift() {
        let mut pace = open(Rate::Iops(3), Instant(100));
        for _ in 0..3_000_000 {
            pace.on_sent(READ, Instant::ZERO, Bytes::kib(4), &mut random());
        }
        assert_eq!(pace.next(READ, Instant::ZERO, Instant::ZERO), Instant(100) + Nanos::secs(1_000_000));
    }

    #[test]
    fn a_byte_rate_spaces_large_ios_wider() {
        let mut pace = open(Rate::Bytes(1 << 20), Instant::ZERO);
        pace.on_sent(READ, Instant::ZERO, Bytes::kib(512), &mut random());
        assert_eq!(pace.next(READ, Instant::ZERO, Instant::ZERO), Instant::ZERO + Nanos::millis(500));
    }

    #[test]
    fn an_iops_rate_counts_large_ios_by_the_smallest_size() {
        let mut pace = open(Rate::Iops(1000), Instant::ZERO);
        pace.on_sent(READ, Instant::ZERO, Bytes::kib(16), &mut random());
        assert_eq!(pace.next(READ, Instant::ZERO, Instant::ZERO), ms(4), "the job's IOs have 4 KiB");
    }

    #[test]
    fn a_closed_loop_is_always_due() {
        let mut pace = Pace::new(&Job::named("a"), Instant(5));
        pace.on_sent(READ, Instant(5), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(READ, Instant(77), Instant(6)), Instant(77));
    }

    #[test]
    fn a_capped_loop_makes_up_for_a_stall_and_counts_from_when_it_could_leave() {
        let mut pace = capped([Some(Rate::Iops(1000)); 3]);
        pace.on_sent(READ, ms(0), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(READ, ms(0), ms(0)), ms(1), "not before its time");
        for _ in 0..3 {
            assert_eq!(pace.next(READ, ms(9), ms(9)), ms(9), "a slot was free only at 9 ms");
            pace.on_sent(READ, ms(9), Bytes::kib(4), &mut random());
        }
        assert_eq!(pace.next(READ, ms(9), ms(3)), ms(4), "what was held up is made up for");
    }

    #[test]
    fn directions_have_rates_of_their_own() {
        let mut pace = capped([None, Some(Rate::Iops(1000)), None]);
        for direction in [READ, Direction::Write] {
            pace.on_sent(direction, ms(0), Bytes::kib(4), &mut random());
        }
        assert_eq!(pace.next(READ, ms(0), ms(0)), ms(0));
        assert_eq!(pace.next(Direction::Write, ms(0), ms(0)), ms(1));
    }

    #[test]
    fn a_strict_loop_goes_on_where_it_left_off_and_makes_up_for_nothing() {
        let job = Job { pacing: Pacing::Strict(ByteRate(4096 * 1000)), ..Job::named("a") };
        let mut pace = Pace::new(&job, Instant::ZERO);
        pace.on_sent(READ, ms(0), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(READ, ms(3), ms(0)), ms(1), "asking late does not slow it down");
        pace.on_sent(READ, ms(1), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(READ, ms(9), ms(9)), ms(9), "what it could not send meanwhile it has lost");
    }

    #[test]
    fn poisson_arrivals_keep_the_mean() {
        let mut random = random();
        let job = Job { pacing: Rates::open(Rate::Iops(1000), Arrival::Poisson), ..Job::named("a") };
        let mut pace = Pace::new(&job, Instant::ZERO);
        for _ in 0..100_000 {
            pace.on_sent(READ, Instant::ZERO, Bytes::kib(4), &mut random);
        }
        let seconds = pace.next(READ, Instant::ZERO, Instant::ZERO).as_secs_f64();
        assert!((99.0..101.0).contains(&seconds), "100000 arrivals at 1000/s took {seconds} s");
    }
}
