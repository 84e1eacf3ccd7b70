//! The throughput at a bound on latency: the work that a rack can do before its tail is too long.
//!
//! Threads are added until the latency passes the bound. The highest throughput up to there counts, because more
//! threads need not bring more. Between the last point below the bound and the first one above it the throughput is
//! interpolated, over the logarithm of the latency. Points after the first one above the bound do not count, even if
//! they are below it again.

/// The measurement at one number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Operations per second.
    pub throughput: f64,
    /// In any unit, above zero.
    pub latency: f64,
}

/// The highest throughput up to `bound`, for points ordered by number of threads. `None` if the first point already is
/// above it. If no point is, the highest of all, which is a lower bound.
pub fn knee(points: &[Point], bound: f64) -> Option<f64> {
    let above = points.iter().position(|point| point.latency > bound).unwrap_or(points.len());
    let below = points[..above].last()?;
    let at_bound = points.get(above).map(|over| {
        let part = (bound / below.latency).ln() / (over.latency / below.latency).ln();
        below.throughput + part * (over.throughput - below.throughput)
    });
    points[..above].iter().map(|point| point.throughput).chain(at_bound).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bound: f64) -> Option<f64> {
        let point = |throughput, latency| Point { throughput, latency };
        knee(&[point(100.0, 0.25), point(180.0, 0.5), point(220.0, 2.0), point(230.0, 0.9)], bound)
    }

    #[test]
    fn threads_that_bring_nothing_cost_nothing() {
        let point = |throughput, latency| Point { throughput, latency };
        assert_eq!(knee(&[point(200.0, 0.3), point(180.0, 0.9), point(170.0, 1.5)], 1.0), Some(200.0));
    }

    #[test]
    fn the_throughput_lies_between_the_points_around_the_bound() {
        assert_eq!(at(1.0), Some(200.0), "half way between a half and two");
        assert_eq!(at(0.5), Some(180.0));
        assert_eq!(at(0.2), None);
        assert_eq!(at(3.0), Some(230.0), "no less");
        assert_eq!(knee(&[], 1.0), None);
    }
}
