//! The load curve: how long reads stay in the SSD, by how much else is in it and how much is being written.
//!
//! ```text
//!             written, parts of the SSD's time:   none    ≤ 1/20   ≤ 1/7    more
//!   device time    ≤ 20 µs                        [  ]     [  ]     [  ]    [  ]
//!   in the SSD     ≤ 100 µs                       [  ]     [  ]     [  ]    [  ]     a cell: the last latencies that were seen there
//!                  ≤ 500 µs                       [  ]     [  ]     [  ]    [  ]
//!                  more                           [  ]     [  ]     [  ]    [  ]
//! ```
//!
//! The first few reads of every period are noted, of any tenant, so the curve costs next to nothing and exists before
//! any tenant has an objective. An objective squeezes others towards the upper left. So a bound can be kept if it is
//! kept in a cell to which an objective may bring the SSD; and it cannot if it is missed in the least of them.
//!
//! Holds: a cell answers only once it has seen enough (`nothing_is_said_of_what_was_hardly_seen`), and answers by the
//!        latencies seen last (`an_answer_follows_what_was_seen`).
//! ReFlex (§3.2) has such a curve by calibration, of tokens per second instead.

use super::learnt::LearntReads;
use crate::Percentile;
use alloc::vec::Vec;
use units::{Bytes, Nanos};

/// Steps of the size: up to 8 KiB, 32, 128 KiB, more.
const SIZES: usize = 4;
const LENGTHS: [Bytes; SIZES] = [Bytes::kib(8), Bytes::kib(32), Bytes::kib(128), Bytes::kib(512)];
/// Steps of the device time in the SSD, ns.
const IN_FLIGHT: [u64; 3] = [20_000, 100_000, 500_000];
/// Steps of the device time of tenants that write, 1024ths of the SSD's time.
const WRITTEN: [u64; 3] = [0, 48, 144];
const CELLS: usize = SIZES * (IN_FLIGHT.len() + 1) * (WRITTEN.len() + 1);
/// Latencies that a cell remembers.
const REMEMBERED: usize = 600;
/// Reads that are noted of a period.
pub(super) const NOTED: u32 = 8;
/// The same while others are squeezed.
pub(super) const NOTED_SQUEEZED: u32 = 64;
/// Eighths of a bound that must be kept for the bound to count as kept.
const KEPT: u64 = 7;

/// Knowledge of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is kept where an objective may bring the SSD.
    Kept,
    /// It is missed with as little other load as an objective may cause: the percentile there, and how many of the
    /// reads took longer.
    Missed { least: Nanos, late: u32, seen: u32 },
    /// Too little was seen.
    Unknown,
}

/// The last latencies of one cell, ns, oldest overwritten first.
#[derive(Clone, Debug, Default)]
struct Cell {
    latencies: Vec<u32>,
    next: usize,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LoadCurve {
    cells: Vec<Cell>,
}

/// The size class of reads of this length.
fn size_class(length: Bytes) -> usize {
    LENGTHS[..SIZES - 1].iter().filter(|step| length > **step).count()
}

fn place(size: usize, in_flight: usize, written: usize) -> usize {
    (size * (IN_FLIGHT.len() + 1) + in_flight) * (WRITTEN.len() + 1) + written
}

impl Cell {
    fn note(&mut self, latency: u32) {
        if self.latencies.len() < REMEMBERED {
            self.latencies.push(latency);
        } else {
            self.latencies[self.next] = latency;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    fn longer(&self, than: u64) -> u64 {
        self.latencies.iter().filter(|latency| u64::from(**latency) > than).count() as u64
    }

    fn is_known(&self, percentile: Percentile) -> bool {
        self.latencies.len() as u64 >= 3 * percentile.one_in()
    }

    /// Whether at most half of the reads that may be late were late.
    fn keeps(&self, bound: u64, percentile: Percentile) -> bool {
        let seen = self.latencies.len() as u64;
        self.is_known(percentile) && self.longer(bound / 8 * KEPT) * percentile.one_in() * 2 <= seen
    }

    /// Whether more reads were late than may be, and than could be by chance.
    fn misses(&self, bound: u64, percentile: Percentile) -> bool {
        let seen = self.latencies.len() as u64;
        self.is_known(percentile)
            && self.longer(bound) * percentile.one_in() > 2 * (seen + percentile.one_in())
    }

    /// The latency that one in this many is longer than.
    fn quantile(&self, one_in: u64) -> Nanos {
        let mut sorted = self.latencies.clone();
        let place = sorted.len().saturating_sub(1 + sorted.len() / one_in as usize);
        Nanos(u64::from(*sorted.select_nth_unstable(place).1))
    }
}

impl LoadCurve {
    pub(super) fn new() -> LoadCurve {
        LoadCurve { cells: alloc::vec![Cell::default(); CELLS] }
    }

    /// Notes a read that has ended, by the device time in the SSD and the 1024ths of its time that were written.
    #[cold]
    pub(super) fn note(&mut self, length: Bytes, in_flight: Bytes, written: u64, latency: Nanos) {
        let latency = u32::try_from(latency.0).unwrap_or(u32::MAX);
        self.cell_mut(length, in_flight, written).note(latency);
    }

    fn cell_mut(&mut self, length: Bytes, in_flight: Bytes, written: u64) -> &mut Cell {
        let in_flight = IN_FLIGHT.iter().filter(|step| in_flight.0 > **step).count();
        let written = WRITTEN.iter().filter(|step| written > **step).count();
        &mut self.cells[place(size_class(length), in_flight, written)]
    }

    /// Whether reads of this length stay below the bound; `writes`: others write.
    pub(super) fn answer(&self, length: Bytes, bound: Nanos, percentile: Percentile, writes: bool) -> Answer {
        let size = size_class(length);
        // Writers keep a 32nd of the SSD's time at least, so beside them the cells without writes do not count.
        let written = if writes { 1..WRITTEN.len() + 1 } else { 0..WRITTEN.len() + 1 };
        let cell = |in_flight: usize, written: usize| &self.cells[place(size, in_flight, written)];
        let mut all = (0..=IN_FLIGHT.len()).flat_map(|of| written.clone().map(move |written| (of, written)));
        if all.any(|(in_flight, written)| cell(in_flight, written).keeps(bound.0, percentile)) {
            return Answer::Kept;
        }
        let least = cell(0, written.start);
        if !least.misses(bound.0, percentile) {
            return Answer::Unknown;
        }
        let (late, seen) = (least.longer(bound.0) as u32, least.latencies.len() as u32);
        Answer::Missed { least: least.quantile(percentile.one_in()), late, seen }
    }

    /// Latencies for another Level: quantiles of the known cells.
    pub(super) fn learnt(&self) -> Vec<LearntReads> {
        let known = |index: &usize| self.cells[*index].is_known(Percentile::P99);
        let reads = |index: usize| {
            let cell = &self.cells[index];
            let (rest, written) = (index / (WRITTEN.len() + 1), index % (WRITTEN.len() + 1));
            let (size, in_flight) = (rest / (IN_FLIGHT.len() + 1), rest % (IN_FLIGHT.len() + 1));
            LearntReads {
                size: LENGTHS[size],
                in_flight: IN_FLIGHT.get(in_flight).map_or(Nanos::millis(2), |step| Nanos(*step)),
                written: WRITTEN.get(written).map_or(100, |step| (step * 100 / 1024) as u8),
                latencies: [2, 20, 100, 200].map(|one_in| cell.quantile(one_in)),
            }
        };
        (0..CELLS).filter(known).map(reads).collect()
    }

    /// Takes over the latencies seen by another Level. They count as just enough to be known, so new ones soon outweigh
    /// them.
    pub(super) fn tell(&mut self, reads: &[LearntReads]) {
        for reads in reads {
            let written = u64::from(reads.written) * 1024 / 100;
            let cell = self.cell_mut(reads.size, Bytes(reads.in_flight.0), written);
            *cell = Cell::default();
            // Of 300: half at the median, then up to the 95th, 99th and the highest percentile.
            for (latency, times) in reads.latencies.into_iter().zip([150, 135, 12, 3]) {
                let latency = u32::try_from(latency.0).unwrap_or(u32::MAX);
                (0..times).for_each(|_| cell.note(latency));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Bytes = Bytes::kib(4);
    const BOUND: Nanos = Nanos::micros(500);

    fn noted(curve: &mut LoadCurve, in_flight: u64, written: u64, reads: u64, micros: impl Fn(u64) -> u64) {
        for n in 0..reads {
            curve.note(SIZE, Bytes(in_flight), written, Nanos::micros(micros(n)));
        }
    }

    fn answer(curve: &LoadCurve, writes: bool) -> Answer {
        curve.answer(SIZE, BOUND, Percentile::P99, writes)
    }

    #[test]
    fn nothing_is_said_of_what_was_hardly_seen() {
        let mut curve = LoadCurve::new();
        assert_eq!(answer(&curve, false), Answer::Unknown);
        noted(&mut curve, 10_000, 0, 299, |_| 100);
        assert_eq!(answer(&curve, false), Answer::Unknown);
        noted(&mut curve, 10_000, 0, 1, |_| 100);
        assert_eq!(answer(&curve, false), Answer::Kept);
        assert_eq!(answer(&curve, true), Answer::Unknown, "nobody wrote then");
        assert_eq!(curve.answer(Bytes::kib(64), BOUND, Percentile::P99, false), Answer::Unknown);
    }

    #[test]
    fn an_answer_follows_what_was_seen() {
        let mut curve = LoadCurve::new();
        // With much in the SSD it is missed, which says nothing of less.
        noted(&mut curve, 2_000_000, 600, 600, |_| 3000);
        assert_eq!(answer(&curve, true), Answer::Unknown);
        noted(&mut curve, 10_000, 20, 600, |n| if n % 20 == 0 { 2000 } else { 100 });
        assert_eq!(answer(&curve, true), Answer::Missed { least: Nanos::micros(2000), late: 30, seen: 600 });
        noted(&mut curve, 10_000, 20, 600, |_| 100);
        assert_eq!(answer(&curve, true), Answer::Kept, "what was there before is forgotten");
    }

    #[test]
    fn what_is_told_answers_the_same() {
        let mut curve = LoadCurve::new();
        noted(&mut curve, 10_000, 20, 600, |n| if n % 20 == 0 { 2000 } else { 100 });
        noted(&mut curve, 10_000, 0, 600, |_| 100);
        let mut other = LoadCurve::new();
        other.tell(&curve.learnt());
        assert!(matches!(answer(&other, true), Answer::Missed { .. }), "{:?}", answer(&other, true));
        assert_eq!(answer(&other, false), Answer::Kept);
    }
}
