//! Usual service of one kind by an SSD, by its load: the size of the IOs, the pages of the kind in flight, and those of
//! the other kind.
//!
//! A cell per octave of both, with the means of its windows. Service that was never seen is bounded by service that was: an SSD
//! serves no less with more in flight, at least half as much with half as much in flight, and no less with less of the other kind. The highest
//! of these bounds is expected. So a scheduler that lets less into a slow SSD does not hide that.
//!
//! Memory: 440 cells of 12 bytes.

use alloc::boxed::Box;

/// Octaves of pages in flight of the kind itself, from one page on; above, all are one.
const DEPTHS: usize = 10;
/// Classes of pages of the other kind in flight: none, and octaves.
const OTHERS: usize = 11;
/// Upper bounds of the classes of mean size, in pages; larger sizes are a class of their own.
const SIZES: [f32; 3] = [2.0, 8.0, 24.0];
/// Windows after which a cell is known.
const KNOWN: f32 = 4.0;
/// A window weighs one part in this number at least.
const MEMORY: f32 = 16.0;
/// A window that is found to be slow changes the usual by one part in this number, each window. So what stays is usual after about two minutes.
const DOUBT: f32 = 2400.0;

/// Service with about the same in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Pages per nanosecond in which the SSD had something to do.
    rate: f32,
    /// Pages in flight.
    depth: f32,
    /// Windows, up to `MEMORY`.
    windows: f32,
}

impl Cell {
    /// Least service with `depth` in flight.
    fn bound(&self, depth: f32) -> Option<f32> {
        (self.windows >= KNOWN).then(|| self.rate * (depth / self.depth).min(1.0))
    }
}

type Row = [[Cell; DEPTHS]; OTHERS];

/// The usual rates of one kind.
#[derive(Clone, Debug)]
pub(super) struct Usual {
    rows: Box<[Row; SIZES.len() + 1]>,
}

/// Load of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    /// Mean pages of an IO.
    pub(super) size: f32,
    /// Pages in flight.
    pub(super) depth: f32,
    /// Pages of the other kind in flight.
    pub(super) others: f32,
}

impl Given {
    fn row(&self) -> usize {
        SIZES.iter().filter(|bound| self.size >= **bound).count()
    }

    fn others(&self) -> usize {
        if self.others < 0.125 { 0 } else { (1 + octave(self.others)).min(OTHERS - 1) }
    }
}

/// The octave of a number of pages: 0 for less than two.
fn octave(pages: f32) -> usize {
    // (`as` saturates.)
    (pages as u64).max(1).ilog2() as usize
}

impl Usual {
    pub(super) fn new() -> Usual {
        Usual { rows: Box::new([[[Cell::default(); DEPTHS]; OTHERS]; SIZES.len() + 1]) }
    }

    /// Least usual service; `None` if nothing comparable was seen.
    pub(super) fn expected(&self, given: Given) -> Option<f32> {
        let beside = &self.rows[given.row()][given.others()..];
        let bounds = beside.iter().flatten().filter_map(|cell| cell.bound(given.depth));
        bounds.reduce(f32::max)
    }

    /// Learns a rate that was found usual.
    pub(super) fn learn(&mut self, given: Given, rate: f32) {
        let cell = &mut self.rows[given.row()][given.others()][octave(given.depth).min(DEPTHS - 1)];
        cell.windows = (cell.windows + 1.0).min(MEMORY);
        cell.rate += (rate - cell.rate) / cell.windows;
        cell.depth += (given.depth - cell.depth) / cell.windows;
    }

    /// Learns a rate that was found slow: perhaps it is usual from now on.
    pub(super) fn doubt(&mut self, given: Given, rate: f32) {
        for cell in self.rows[given.row()][given.others()..].iter_mut().flatten() {
            if let Some(bound) = cell.bound(given.depth).filter(|bound| *bound > rate) {
                cell.rate -= cell.rate * (1.0 - rate / bound) / DOUBT;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: Given = Given { size: 1.0, depth: 32.0, others: 10.0 };

    fn seen() -> Usual {
        let mut usual = Usual::new();
        for _ in 0..8 {
            usual.learn(GIVEN, 1.0);
        }
        usual
    }

    #[test]
    fn what_was_not_seen_is_bounded_by_what_was() {
        let usual = seen();
        let expected = |depth, others| usual.expected(Given { depth, others, ..GIVEN });
        assert_eq!(expected(32.0, 10.0), Some(1.0));
        assert_eq!(expected(64.0, 10.0), Some(1.0), "no less with more");
        assert_eq!(expected(8.0, 10.0), Some(0.25), "a quarter with a quarter");
        assert_eq!(expected(32.0, 0.0), Some(1.0), "no less beside less");
        assert_eq!(expected(32.0, 200.0), None, "beside more, nobody knows");
        assert_eq!(usual.expected(Given { size: 32.0, ..GIVEN }), None, "nor of other sizes");
    }

    #[test]
    fn a_few_windows_are_not_known() {
        let mut usual = Usual::new();
        (0..3).for_each(|_| usual.learn(GIVEN, 1.0));
        assert_eq!(usual.expected(GIVEN), None);
        usual.learn(GIVEN, 1.0);
        assert_eq!(usual.expected(GIVEN), Some(1.0));
    }

    #[test]
    fn what_stays_slow_is_usual_after_two_minutes() {
        let mut usual = seen();
        let windows = (1..).find(|_| {
            usual.doubt(GIVEN, 0.4);
            usual.expected(GIVEN).is_some_and(|expected| expected < 0.4 * 1.25)
        });
        let seconds = windows.map_or(0, |windows| windows / 40);
        assert!((60..180).contains(&seconds), "{seconds} s");
    }
}
