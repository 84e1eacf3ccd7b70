//! Converts the measurements of tenants and switch in a live run to the record of a run, in the SSD's own time.
//!
//! | reading of a latency | from |
//! |---|---|
//! | device | the switch's counters: its mean is exact, its quantiles are up to an eighth too large |
//! | network | the tenant: from sending to completion |
//! | end to end | the tenant: from the planned start of the IO |

use super::look::{Added, Whole, middle, transferred};
use super::slow::Slow;
use ::lab::measure::{DirectionFigures, GroupMeasured, Measured, Quantiles};
use hdrhistogram::Histogram;
use loadgen::{Direction, Interval, JobResult, Results};
use server::Counters;
use sim::{Point, Tally, World};
use units::Nanos;

/// Makes the record of each group; `counts` are the numbers of tenants of the groups.
pub(super) fn measured(
    world: &World,
    counts: &[u32],
    results: &Results,
    (added, whole): (&[Added], &Whole),
    slow: Slow,
) -> Measured {
    let mut groups = Vec::with_capacity(counts.len());
    let mut first = 0;
    for count in counts {
        let tenants = first..first + *count as usize;
        let (jobs, books) = (&results.jobs[tenants.clone()], &whole.tenants[tenants]);
        groups.push(GroupMeasured {
            bandwidths: jobs.iter().map(|job| bandwidth(world, job)).collect(),
            read: direction(world, jobs, books, Direction::Read, slow),
            write: direction(world, jobs, books, Direction::Write, slow),
            series: series(world, jobs, first, added, slow),
            windows: Vec::new(),
        });
        first += *count as usize;
    }
    let intervals = results.jobs.first().map_or(&[][..], |job| &job.series);
    let looks = || intervals.iter().zip(added).map(|(interval, added)| (slow.at(interval.end), added));
    let views = looks().filter_map(|(at, added)| Some((at, added.view?))).collect();
    let busy = looks().filter_map(|(at, added)| Some((at, added.busy?))).collect();
    let slices = results.jobs.iter().flat_map(|job| &job.series).flat_map(|interval| &interval.slices);
    Measured { groups, views, busy, ios: slices.map(|slice| slice.ios).sum(), fingerprint: None }
}

fn bandwidth(world: &World, job: &JobResult) -> f64 {
    let bytes: u64 = job.tallies.iter().map(|tally| tally.bytes.get()).sum();
    bytes as f64 / world.duration.as_secs_f64()
}

fn direction(
    world: &World,
    jobs: &[JobResult],
    books: &[Counters],
    way: Direction,
    slow: Slow,
) -> Option<DirectionFigures> {
    let tallies = || jobs.iter().map(|job| job.tally(way));
    let ios: u64 = tallies().map(|tally| tally.ios).sum();
    if ios == 0 {
        return None;
    }
    let bytes: u64 = tallies().map(|tally| tally.bytes.get()).sum();
    Some(DirectionFigures {
        ios,
        mb_per_s: bytes as f64 / world.duration.as_secs_f64() / 1e6,
        device: on_the_device(books, way),
        network: merged(tallies().map(|tally| &tally.service), slow),
        end_to_end: merged(tallies().map(|tally| &tally.latency), slow),
    })
}

/// Quantiles of the time on the device, `None` if the last snapshot came before the first IO.
fn on_the_device(books: &[Counters], way: Direction) -> Quantiles {
    let mut all = measures::Histogram::default();
    books.iter().for_each(|counters| all.add(&transferred(counters, way).device_latency));
    let nanos = |nanos: Option<Nanos>| nanos.map_or(f64::NAN, |nanos| nanos.0 as f64);
    Quantiles::new(nanos(all.mean()), |quantile| nanos(all.quantile((quantile * 1000.0) as u32)))
}

fn merged<'h>(mut histograms: impl Iterator<Item = &'h Histogram<u64>>, slow: Slow) -> Quantiles {
    let mut sum = histograms.next().expect("a group has tenants").clone();
    histograms.for_each(|other| sum.add(other).expect("all have the same bounds"));
    let shrunk = |nanos: f64| nanos / f64::from(slow.factor());
    Quantiles::new(shrunk(sum.mean()), |quantile| shrunk(sum.value_at_quantile(quantile) as f64))
}

/// The time series of a group, whose first tenant is number `first`, on the simulator's grid: an interval counts for
/// the point that contains its middle.
fn series(world: &World, jobs: &[JobResult], first: usize, added: &[Added], slow: Slow) -> Vec<Point> {
    let mut points = vec![Point::default(); world.duration.0.div_ceil(world.interval.0) as usize];
    for (tenant, job) in (first..).zip(jobs) {
        for (interval, added) in job.series.iter().zip(added) {
            let middle = slow.shrink(middle(interval));
            let Some(since_begin) = middle.0.checked_sub(world.warm_up.0) else { continue };
            let Some(point) = points.get_mut((since_begin / world.interval.0) as usize) else { continue };
            point.read.add(tally(interval, Direction::Read, added.device[tenant], slow));
            point.write.add(tally(interval, Direction::Write, added.device[tenant], slow));
        }
    }
    points
}

fn tally(interval: &Interval, way: Direction, device: [Option<Nanos>; 2], slow: Slow) -> Tally {
    let slice = &interval.slices[way.index()];
    let of_all = |mean: Nanos| Nanos(mean.0 * slice.ios);
    Tally {
        ios: slice.ios,
        bytes: slice.bytes,
        device_latency: of_all(device[way.index()].unwrap_or_default()),
        network_latency: slow.shrink(of_all(slice.service_mean)),
    }
}

#[cfg(test)]
#[path = "measured_tests.rs"]
mod tests;
