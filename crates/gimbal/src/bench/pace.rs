//! When the next IO is meant to leave.
//!
//! A closed loop sends whenever fewer than `iodepth` IOs are outstanding: its IOs are meant to leave at once. An open loop
//! has a timetable: IO number n is meant to leave at a moment that does not depend on how the target is doing. If it cannot
//! leave then (all of `iodepth` is outstanding), it leaves later, but its latency still counts from the timetable. So a
//! target that stalls for a second is charged for everybody who would have come in that second (no coordinated omission). A
//! *capped* loop is a closed one whose application asks for no more than a rate: an IO is meant to leave when there is room for
//! it, and so long after the one before as the rate says. What it did not use it has lost.
//!
//! Holds: over any prefix a fixed timetable is exact to the nanosecond (`a_fixed_timetable_does_not_drift`).

use super::job::Job;
use rand::Rng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use units::{ByteRate, Bytes, Instant, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// How an open loop spaces its IOs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrival {
    /// Evenly.
    #[default]
    Fixed,
    /// As independent users would: exponentially distributed gaps of the same mean.
    Poisson,
}

/// The speed an open loop keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// IOs per second; never 0.
    Iops(u64),
    /// Bytes per second; never 0.
    Bytes(u64),
}

/// The timetable of one stream.
#[derive(Debug)]
pub(crate) enum Pace {
    /// No timetable.
    Closed,
    /// A closed loop with a rate that it does not exceed.
    Capped(Cap),
    /// A timetable.
    Open(Timetable),
}

/// The rate that a closed loop does not exceed.
#[derive(Debug)]
pub(crate) struct Cap {
    rate: ByteRate,
    /// No IO leaves before.
    until: Instant,
}

/// Moments at which IOs are meant to leave.
#[derive(Debug)]
pub(crate) struct Timetable {
    start: Instant,
    rate: Rate,
    arrival: Arrival,
    /// IOs (or bytes) that have left by the timetable.
    left: u64,
    next: Instant,
}

impl Pace {
    /// The job's: a closed loop without rates, else a timetable or a cap that begins at `start`.
    pub(crate) fn new(job: &Job, start: Instant) -> Pace {
        match (job.rate, job.rate_max) {
            (None, None) => Pace::Closed,
            (None, Some(rate)) => Pace::Capped(Cap { rate, until: start }),
            (Some(rate), _) => {
                Pace::Open(Timetable { start, rate, arrival: job.arrival, left: 0, next: start })
            }
        }
    }

    /// When the next IO is meant to leave; `now` in a closed loop. There has been room for it since `room`.
    pub(crate) fn next(&self, now: Instant, room: Instant) -> Instant {
        match self {
            Pace::Closed => now,
            Pace::Capped(cap) => cap.until.max(room),
            Pace::Open(timetable) => timetable.next,
        }
    }

    /// The IO that `next` spoke of, meant to leave at `meant`, has left with this many bytes.
    pub(crate) fn on_sent(&mut self, meant: Instant, length: Bytes, random: &mut Xoshiro256PlusPlus) {
        match self {
            Pace::Closed => {}
            Pace::Capped(cap) => {
                cap.until = meant + cap.rate.time_to_earn(length).expect("a job's rate is not zero");
            }
            Pace::Open(timetable) => timetable.on_sent(length, random),
        }
    }
}

impl Timetable {
    fn on_sent(&mut self, length: Bytes, random: &mut impl Rng) {
        let (step, per_second) = match self.rate {
            Rate::Iops(rate) => (1, rate),
            Rate::Bytes(rate) => (length.get(), rate),
        };
        match self.arrival {
            Arrival::Fixed => {
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

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    fn at(rate: Rate, start: Instant) -> Pace {
        Pace::new(&Job { rate: Some(rate), ..Job::named("a") }, start)
    }

    #[test]
    fn a_fixed_timetable_does_not_drift() {
        let mut pace = at(Rate::Iops(3), Instant(100));
        for _ in 0..3_000_000 {
            pace.on_sent(Instant::ZERO, Bytes::kib(4), &mut random());
        }
        assert_eq!(pace.next(Instant::ZERO, Instant::ZERO), Instant(100) + Nanos::secs(1_000_000));
    }

    #[test]
    fn a_byte_rate_spaces_large_ios_wider() {
        let mut pace = at(Rate::Bytes(1 << 20), Instant::ZERO);
        pace.on_sent(Instant::ZERO, Bytes::kib(512), &mut random());
        assert_eq!(pace.next(Instant::ZERO, Instant::ZERO), Instant::ZERO + Nanos::millis(500));
    }

    #[test]
    fn a_closed_loop_is_always_due() {
        let mut pace = Pace::new(&Job::named("a"), Instant(5));
        pace.on_sent(Instant(5), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(Instant(77), Instant(6)), Instant(77));
    }

    #[test]
    fn a_capped_loop_goes_on_where_it_left_off_and_makes_up_for_nothing() {
        let job = Job { rate_max: Some(ByteRate(4096 * 1000)), ..Job::named("a") };
        let mut pace = Pace::new(&job, Instant::ZERO);
        let ms = |n: u64| Instant(n * 1_000_000);
        pace.on_sent(ms(0), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(ms(3), ms(0)), ms(1), "whoever looks late does not slow it down");
        pace.on_sent(ms(1), Bytes::kib(4), &mut random());
        assert_eq!(pace.next(ms(9), ms(9)), ms(9), "what it could not send meanwhile it has lost");
    }

    #[test]
    fn poisson_arrivals_keep_the_mean() {
        let mut random = random();
        let job = Job { rate: Some(Rate::Iops(1000)), arrival: Arrival::Poisson, ..Job::named("a") };
        let mut pace = Pace::new(&job, Instant::ZERO);
        for _ in 0..100_000 {
            pace.on_sent(Instant::ZERO, Bytes::kib(4), &mut random);
        }
        let seconds = pace.next(Instant::ZERO, Instant::ZERO).as_secs_f64();
        assert!((99.0..101.0).contains(&seconds), "100000 arrivals at 1000/s took {seconds} s");
    }
}
